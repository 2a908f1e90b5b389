"""Guarantees for people who come back, made of guarantees for rounds."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

import dpoco
from dpoco import Budget, Guarantee, StateError
from dpoco.accounting import Ledger, continual_sum
from dpoco.accounting.continual_sum import SHIPPED
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.accounting.pools import pool_guarantee
from dpoco.domains import LpBall
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.privacy.losses.combined import Group
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.neighbours import Neighbours

BUDGET = Budget(1.0, 1e-6)
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.fixture(scope="module")
def leader():
    learner = dpoco.oco.NoisyFTRL(
        LpBall(3), LogisticLoss(1.0), horizon=100_000, budget=BUDGET, sum_method="blt"
    )
    return learner.guarantee


@pytest.mark.parametrize(
    ("rounds", "separation", "epsilon"),
    [(10, 1, 11.910), (10, 100, 9.262), (10, 1000, 7.724), (10, 10_000, 5.334)],
)
def test_known_epsilons(leader, rounds, separation, epsilon):
    """Digits of an independent program."""
    assert leader.for_person(rounds, separation).epsilon == pytest.approx(epsilon, abs=6e-4)


def test_digits_of_an_independent_program():
    """Ten rounds a thousand apart, without tails; and ten reports of epsilon 1/2 each."""
    sums = SHIPPED[10**5]
    often = sums.column(10**5, Neighbours(rounds=10, separation=1000)) / sums.column(10**5)
    mu = gaussian_mu(1.0, 1e-6) * often
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(7.72432842107, rel=1e-9)
    assert Responses(0.5, reports=10).delta(2.0) == pytest.approx(0.145466446441, rel=1e-9)


NOISE = {  # the noisiest sum at unit sensitivity and mu = 1: plain, and with levels
    (10**3, 10, 100): (14.884, 14.7),
    (10**4, 10, 100): (22.931, 22.5),
    (10**5, 10, 1000): (25.248, 24.8),
}


@pytest.mark.parametrize(("n", "rounds", "separation"), NOISE)
def test_noise_for_people(n, rounds, separation):
    """Parameters of their own: within 1 % of an independent program's, and stored whole."""
    near, (plain, best) = (
        Neighbours(rounds=rounds, separation=separation),
        NOISE[n, rounds, separation],
    )
    found = continual_sum.plan_method("blt", n, near)
    assert continual_sum.max_error(found, n, near) <= 1.01 * plain
    assert continual_sum.max_error("blt", n, near) > 1.07 * plain
    assert all(float(f"{x:.8e}") == x for x in found.decay + found.weights)
    rule = dpoco.Participation(rounds, separation, enforced=False)
    total = dpoco.mechanisms.ContinualSum(
        2, horizon=n, budget=BUDGET, participation=rule, bound=1.0
    )
    p = total.plan
    held = p.mechanism
    own = held.factorisation
    if own.kind == "blt_normalised":
        assert (own.decay, own.weights) == (found.decay, found.weights)
    else:  # and better than the best of these
        assert own.kind == "banded"
        best *= 0.97
    assert held.grid > 0.0
    assert total.guarantee.person == (rounds, separation)
    noise = held.scale * continual_sum.worst_row_norm(own, n) / 2.0
    assert noise * gaussian_mu(1.0, 1e-6) <= 1.01 * best
    assert total.standard_deviation(n) < noise * 2.0
    assert dpoco.Plan.from_dict(json.loads(json.dumps(p.to_dict()))) == p
    again = dpoco.mechanisms.ContinualSum._from_bytes(total._to_bytes())
    assert (again.plan, again.guarantee) == (p, total.guarantee)
    # Everything is computed from what is stored: other rates need other noise.
    usual = continual_sum.factorisation("blt_normalised", n)
    with pytest.raises(dpoco.BudgetExceeded):
        dpoco.mechanisms.ContinualSum(
            2,
            horizon=n,
            budget=BUDGET,
            participation=rule,
            plan=replace(p, mechanism=replace(held, factorisation=usual)),
            bound=1.0,
        )


@pytest.mark.parametrize(
    ("n", "k", "b", "batch"), [(10**12, 1000, 10**6, 1), (50, 50, 3, 7), (2, 2, 1, 1)]
)
def test_plans_for_people_fit_on_a_lattice(n, k, b, batch):
    near = Neighbours(rounds=k, separation=b)
    found = continual_sum.plan_method("blt", n, near, batch)
    assert found.fits(n)
    most = continual_sum.max_error("blt", n, near, batch)
    assert continual_sum.max_error(found, n, near, batch) <= most * (1 + 1e-9)
    assert (
        continual_sum.plan_method("blt", n, Neighbours(rounds=k, separation=n * batch), batch)
        == "blt"
    )


def test_sums_that_nobody_searches_for():
    rule, vector = dpoco.Participation(5, 20), (LpBall(3), LogisticLoss(1.0))
    common = {"horizon": 100, "budget": BUDGET}
    usual = continual_sum.factorisation("blt", 100)
    for more in ({"sum_method": "blt"}, {"budget": None, "participation": rule}):
        plan = dpoco.oco.NoisyFTRL(*vector, **{**common, **more}).plan
        assert plan.mechanism.factorisation == usual
    with pytest.raises(ValueError, match="enforced=False"):
        dpoco.mechanisms.ContinualSum(2, **{"bound": 1.0, **common}, participation=rule)
    for wrong in ((0.5,), (0.5, 1.5), ()):
        with pytest.raises(ValueError, match="blt"):
            replace(usual, decay=wrong)


def test_epsilon_is_that_of_the_norm(leader):
    mine = leader.for_person(10, 1000)
    mu = gaussian_mu(1.0, 1e-6) * 13.6485521077 / leader.column_norm
    assert mine.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-5)
    assert (mine.delta, mine.unit, mine.person) == (1e-6, "one person", (10, 1000))
    assert mine.column_norm == pytest.approx(13.6485521077, rel=1e-9)
    assert mine.truncation_mass == leader.truncation_mass
    assert mine.certified
    assert "at least 1000 apart" in str(mine)
    assert "per round" not in str(mine)


def test_records_come_back_and_are_held_to_the_pattern(leader):
    mine = leader.for_person(10, 1000)
    assert Guarantee.from_json(mine.to_json()) == mine
    mine.verify()
    record = mine.to_dict()
    for person in ([9, 1000], [10, 1001], [10, 999], None, [10], [0, 5], [10, 1000.5], "10"):
        with pytest.raises(StateError):
            Guarantee.from_dict({**record, "person": person})
    assert "person" not in leader.to_dict()


def test_a_single_round_is_the_round(leader):
    assert leader.for_person(1) is leader
    assert leader.for_person(5, 100_000) is leader  # she can come once only
    free = dpoco.oco.NoisyFTRL(LpBall(3), LinearLoss(1.0), horizon=9, budget=None).guarantee
    assert free.for_person(5) is free


def test_all_that_she_brings_is_protected_where_one_round_of_it_counts(leader):
    for rule in (dpoco.Participation(1), dpoco.Participation(5, 100_000, enforced=False)):
        mine = rule.of(leader)
        assert (mine.unit, mine.person) == ("one person", (1, rule.separation))
        assert mine.epsilon == leader.epsilon
        assert "Each person contributes at most one round." in mine.conditions
        assert dpoco.Guarantee.from_json(mine.to_json()) == mine
        mine.verify()
        pool = pool_guarantee(mine, keys=5, noise="fresh")
        assert (pool.unit, pool.person, pool.epsilon) == ("one user", None, leader.epsilon)
        pool.verify()


def test_without_a_limit_separation_counts(leader):
    assert leader.for_person(None, 10_000) == leader.for_person(10, 10_000)
    assert leader.for_person(10**12, 10_000) == leader.for_person(10, 10_000)


def test_for_fewer_rounds_it_holds_too_and_for_more_it_does_not(leader):
    mine = leader.for_person(10, 1000)
    assert mine.for_person(10, 1000) is mine
    assert mine.for_person(3, 5000) is mine
    for more in ((11, 1000), (10, 999)):
        with pytest.raises(ValueError, match="less often"):
            mine.for_person(*more)


@pytest.mark.parametrize("bad", [(0,), (-1,), (1.5,), (True,), ("3",), (3, 0), (3, 1.5), (None,)])
def test_bad_arguments(leader, bad):
    with pytest.raises((ValueError, TypeError)):
        leader.for_person(*bad)


def test_too_many_rounds_leave_no_epsilon(leader):
    mine = leader.for_person(50_000)
    assert mine.epsilon == math.inf
    assert not mine.certified
    mine.verify()
    with pytest.raises(dpoco.BudgetExceeded):
        mine.require(Budget(50.0, 1e-6))


def test_other_mechanisms_are_groups():
    pure = dpoco.experts.EpochSelector(5, horizon=100, budget=Budget(1.0, 0.0)).guarantee
    mine = pure.for_person(3, 20)
    assert (mine.epsilon, mine.delta) == (pytest.approx(3.0, rel=1e-12), 0.0)
    # A pure loss is one given any past: her times may react to releases, as in a pool of one key.
    assert any("rounds may depend on releases" in text for text in mine.conditions)
    mine.verify()
    lazy = dpoco.oco.ContinuousMultiplicativeWeights(
        LpBall(3), LinearLoss(1.0), horizon=10**5, budget=BUDGET, coupling="anchored"
    ).guarantee.for_person(3, 20)
    assert any("rounds were fixed in advance" in text for text in lazy.conditions)


def test_lazy_learners_take_the_smaller_of_a_chain_and_all_rounds_together():
    lazy = dpoco.oco.ContinuousMultiplicativeWeights(
        LpBall(3), LinearLoss(1.0), horizon=10**5, budget=BUDGET, coupling="anchored"
    )
    one, kinds = lazy.guarantee, set()
    for rounds, apart in ((2, 1), (2, 1000), (10, 1), (10, 1000)):
        mine = one.for_person(rounds, apart)
        loss = one.description.loss(mine.neighbours)
        chain = Group(one.loss.bare, rounds)
        assert mine.epsilon == pytest.approx(loss.epsilon(mine.delta), rel=1e-12)
        assert mine.epsilon <= chain.epsilon(mine.delta)
        best = min(loss.bounds, key=lambda each: each.delta(mine.epsilon))
        assert mine.profile == best.to_dict()
        kinds.add(best.kind)
        assert dpoco.Guarantee.from_json(mine.to_json()) == mine
        mine.verify()
    assert kinds == {"group", "renyi_of_person"}
    assert mine.epsilon < 0.9 * chain.epsilon(mine.delta)


def test_joint_views_have_the_exact_norm():
    arms = dpoco.bandits.LinUCB(
        3, 4, horizon=1000, budget=BUDGET, context_bound=1.0, reward_bound=1.0
    ).guarantee
    mine = arms.for_person(3, 20)
    assert mine.view == "others"
    assert arms.epsilon < mine.epsilon < 3.2
    mine.verify()


def test_what_is_no_single_mechanism_is_refused(leader):
    pool = pool_guarantee(leader, keys=5, noise="fresh")
    book = Ledger(Budget(3.0, 1e-5))
    book.charge(leader, "a")
    with pytest.raises(ValueError, match="protects 'one round'"):
        replace(leader, unit="one user")
    for other in (pool, book.guarantee):
        with pytest.raises(ValueError, match="call this for its parts"):
            other.for_person(3)


def test_records_of_no_stream_are_not_capped_by_its_length():
    for horizon in (1, 3):
        best = dpoco.mechanisms.NoisyMax(
            4, horizon=horizon, budget=Budget(1.0, 0.0), sensitivity=1.0
        ).guarantee
        assert best.for_person(10).epsilon == pytest.approx(10.0, rel=1e-9)
        with pytest.raises(ValueError, match="for a stream"):
            best.for_person(None, 5)
    alarms = dpoco.mechanisms.AboveThreshold(
        horizon=5, budget=Budget(1.0, 0.0), sensitivity=1.0
    ).guarantee
    assert alarms.for_person(10).epsilon == pytest.approx(10.0, rel=1e-9)
    fit = dpoco.frank_wolfe.SufficientStatistics(LpBall(3), SquaredLoss(1.0, 1.0), budget=BUDGET)
    fit.fit([[0.1, 0.2, 0.3]] * 50, [0.0, 1.0] * 25)
    assert fit.guarantee.for_person(5).mu == pytest.approx(5.0 * fit.guarantee.mu, rel=1e-9)


def test_selections_of_bounded_range_come_back():
    best = dpoco.mechanisms.NoisyMax(
        2, horizon=10, budget=Budget(1.0, 1e-4), noise="gumbel", sensitivity=1.0
    )
    mine = best.guarantee.for_person(2)
    assert Guarantee.from_json(mine.to_json()) == mine
    mine.verify()


def test_unit_and_pattern_belong_together(leader):
    mine = leader.for_person(10, 1000)
    record, plain = mine.to_dict(), leader.to_dict()
    for forged in (
        {**record, "unit": "one round"},
        {**plain, "unit": "one person"},
        {**plain, "description": None, "person": [100, 1]},
        {**plain, "description": None, "person": []},
    ):
        with pytest.raises(StateError):
            Guarantee.from_dict(forged)
    assert mine.for_person(1) is mine
