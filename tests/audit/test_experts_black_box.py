"""The learners of experts under black-box attack: what is printed falls, what is stated stands."""

from __future__ import annotations

import numpy as np
import pytest
from bench.worlds import Packing
from tests.audit.packing import packing_audit
from tests.worlds import BurnAfterPlay

import dpoco
from dpoco.audit import black_box_audit, learner_runs
from dpoco.environments import play
from dpoco.experts import (
    BatchShare,
    EpochSelector,
    ObliviousTracker,
    PrefixHedge,
    ShiftDetector,
)
from dpoco.published import asi_tracking
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

FIRST_BETTER = np.array([0.0] + [1.0] * 9)
STREAM = np.tile(FIRST_BETTER, (2, 1))
NEIGHBOUR = np.stack([1.0 - FIRST_BETTER, FIRST_BETTER])


def maker(kind, experts, **settings):
    """Learners of equal parameters, which are calibrated once."""
    parameters = kind(experts, **settings).plan
    horizon = settings["horizon"]
    return lambda source: kind(
        experts, horizon=horizon, budget=None, plan=parameters, source=source
    )


def second_is_the_first(decisions):
    return decisions[:, 1] == 0


@pytest.mark.parametrize("calibration", ["paper", "tight"])
def test_batch_share_as_printed_breaks_its_promise(calibration):
    budget = dpoco.Budget(1.0, 0.0)
    settings = {"horizon": 10_000, "learning_rate": 100.0, "batch": 1}
    if calibration == "paper":
        del settings["batch"]
        settings = {
            "horizon": 10_000,
            "plan": asi_tracking.batch_share(10, budget=budget, **settings),
        }
        budget = None
    make = maker(BatchShare, 10, budget=budget, **settings)
    report = black_box_audit(
        learner_runs(make), STREAM, NEIGHBOUR, epsilon=1.0, trials=8000, events=second_is_the_first
    )
    guarantee = BatchShare(10, budget=budget, **settings).guarantee
    assert report.measured <= guarantee.epsilon
    if calibration == "paper":
        assert report.violated
        assert guarantee.epsilon == pytest.approx(10.0)  # what is stated instead
        # P(J_2 = 0) is 0.2573 against 0.0368.
        assert report.hits / report.trials == pytest.approx(0.2573, abs=5 * 0.0070)
        assert report.neighbour_hits / report.trials == pytest.approx(0.0368, abs=5 * 0.0030)
    else:
        assert not report.violated
        assert report.detectable < 3.0  # with the power to see such a leak
        assert guarantee.epsilon <= 1.0


PURE = dpoco.Budget(0.25, 0.0)
APPROXIMATE = dpoco.Budget(0.25, 1e-4)


@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        (EpochSelector, PURE),
        (ShiftDetector, PURE),
        (BatchShare, PURE),
        (ObliviousTracker, PURE),
        (PrefixHedge, APPROXIMATE),
        (BatchShare, APPROXIMATE),
        (ObliviousTracker, APPROXIMATE),
    ],
    ids=lambda value: getattr(value, "__name__", f"delta{getattr(value, 'delta', 0)}"),
)
def test_private_learners_lose_in_the_packing_world_and_others_do_not(kind, budget):
    world = Packing(1000, epsilon=0.25)
    settings = {"epsilon": 0.25, "runs": 100, "delta": budget.delta}
    private = packing_audit(
        maker(kind, 1000, horizon=world.horizon, budget=budget), world, **settings
    )
    assert not private.violated
    assert private.measured <= 0.25
    free = packing_audit(maker(kind, 1000, horizon=world.horizon, budget=None), world, **settings)
    assert free.violated
    assert free.measured > 0.5


def test_regret_of_private_learners_respects_the_bound_with_several_phases():
    world = Packing(4096, epsilon=0.5, phases=4)
    make = maker(BatchShare, 4096, horizon=world.horizon, budget=dpoco.Budget(0.5, 0.0))
    totals = []
    for seed in range(50):
        world.reset(seed)
        totals.append(play(make(Source.seeded(seed)), world).losses.sum())
    error = np.std(totals, ddof=1) / np.sqrt(len(totals))
    assert np.mean(totals) + 4 * error >= world.regret_lower_bound(0.5)
    assert np.max(totals) <= world.largest_regret


@pytest.mark.parametrize("budget", [None, dpoco.Budget(0.01, 1e-6)])
def test_burning_experts_separates_private_from_free(budget):
    rounds = 1000
    world = BurnAfterPlay(4000, rounds, seed=1)
    learner = BatchShare(
        4000,
        horizon=rounds,
        budget=budget,
        adversary="adaptive",
        noise="auto" if budget is None else "gaussian",
        source=Source.seeded(1),
    )
    regret = play(learner, world).regret(world.comparator())[-1]
    if budget is None:
        assert regret < 0.1 * rounds
    else:
        assert regret > 0.25 * rounds


def test_a_game_round_by_round_is_the_compiled_one():
    world = Packing(64, 40, epsilon=0.5, phases=2, seed=0)
    make = maker(ObliviousTracker, 64, horizon=40, budget=dpoco.Budget(2.0, 1e-4))
    slow, fast = play(make(Source.seeded(3)), world), make(Source.seeded(3)).run(world.matrix())
    assert np.array_equal(slow.decisions, fast.decisions)
    assert np.array_equal(slow.losses, fast.losses)
