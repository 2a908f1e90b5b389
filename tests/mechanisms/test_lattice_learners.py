"""The learners on continual sums, on a lattice: what they state, and which are not on one."""

from __future__ import annotations

import dataclasses

import pytest
from tests.plans import changed

import dpoco
from dpoco.bandits import LinUCB
from dpoco.domains import LpBall
from dpoco.experts import PrefixHedge
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

BUDGET = dpoco.Budget(2.0, 1e-5)
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def frank_wolfe(rounds=24, source=None, **options):
    return TreeFrankWolfe(
        LpBall(3, 2.0), SquaredLoss(1.0, 1.0), horizon=rounds, budget=BUDGET,
        source=source or Source.seeded(1), **options,
    )  # fmt: skip


def leader(rounds=24, source=None, **options):
    return NoisyFTRL(
        LpBall(3, 2.0), SquaredLoss(1.0, 1.0), horizon=rounds, budget=BUDGET,
        source=source or Source.seeded(1), **options,
    )  # fmt: skip


def hedge(rounds=24, source=None, **options):
    source = source or Source.seeded(1)
    return PrefixHedge(3, horizon=rounds, budget=BUDGET, source=source, **options)


def bandit(rounds=24, source=None, **options):
    source = source or Source.seeded(1)
    return LinUCB(
        2,
        3,
        horizon=rounds,
        budget=BUDGET,
        source=source,
        **{"context_bound": 1.0, "reward_bound": 1.0, **options},
    )


CASES = {
    "frank_wolfe": (frank_wolfe, {}),
    "frank_wolfe in batches": (frank_wolfe, {"batch": 4}),
    "frank_wolfe, tree": (frank_wolfe, {"sum_method": "tree"}),
    "leader": (leader, {}),
    "leader, quadratic": (leader, {"statistics": "quadratic", "batch": 2}),
    "hedge": (hedge, {}),
    "bandit": (bandit, {"batch": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_guarantee_states_it_and_pays_for_the_rounding(name):
    make, options = CASES[name]
    exact, plain = make(numerics="lattice", **options), make(numerics="float", **options)
    assert any("exact integers" in text for text in exact.guarantee.conditions)
    assert any("double precision" in text for text in plain.guarantee.conditions)
    assert exact.guarantee.epsilon <= 2.0 * (1 + 1e-12)
    ratio = exact._mechanism.scale / plain._mechanism.scale
    assert 1.0 < ratio < 1.0 + 1e-5


def test_lattices_are_for_gaussian_noise_and_exact_accounting():
    with pytest.raises(ValueError, match="lattice"):
        frank_wolfe(numerics="lattice", sum_method="tree", noise="generalized_gaussian")
    with pytest.raises(ValueError, match="numerics"):
        leader(numerics="fixed")
    unbudgeted = NoisyFTRL(
        LpBall(3, 2.0), LinearLoss(1.0), horizon=5, budget=None, numerics="lattice"
    )
    unbudgeted.decide()
    unbudgeted.observe([1.0, 0.0, 0.0])
    assert not unbudgeted.guarantee.private


@pytest.mark.parametrize("name", CASES)
def test_the_default_takes_the_lattice_and_parameters_are_not_contradicted(name):
    make, options = CASES[name]
    default = make(**options)
    assert default._mechanism.grid > 0.0
    plain = make(numerics="float", **options)
    for given, asked in ((default, "float"), (plain, "lattice")):
        with pytest.raises(ValueError, match="numerics"):
            make(numerics=asked, plan=given.plan, **options)


def test_arms_of_bandits_and_fits_are_doubles_and_say_so():
    from dpoco.bandits import HighDimensionalBandit
    from dpoco.frank_wolfe import SufficientStatistics
    from dpoco.oco import LipschitzLearner

    cross = LpBall(3, 1.0)
    learner = HighDimensionalBandit(
        2,
        cross,
        horizon=200,
        budget=BUDGET,
        arm_learner="tree",
        context_bound=1.0,
        reward_bound=1.0,
    )
    assert learner.plan.mechanism.parts[0].grid == 0.0
    others = [
        learner,
        SufficientStatistics(LpBall(3, 2.0), SquaredLoss(1.0, 1.0), records=200, budget=BUDGET),
        LipschitzLearner(
            dpoco.domains.Box([0.0], [1.0]), lipschitz=1.0, horizon=200, budget=BUDGET
        ),
        frank_wolfe(noise="generalized_gaussian", sum_method="tree"),
    ]
    for each in others:
        assert any("double precision" in text for text in each.guarantee.conditions)
        assert not any("exact integers" in text for text in each.guarantee.conditions)
    one = learner.plan.mechanism.parts[0]
    exact = dataclasses.replace(one, grid=2.0**-16, limit=2**20)
    wrong = changed(learner.plan, parts=(exact, exact))
    with pytest.raises(ValueError, match="must be in doubles"):
        HighDimensionalBandit(
            2, cross, horizon=200, budget=None, plan=wrong, context_bound=1.0, reward_bound=1.0
        )
