"""Calibration of the tracker: bounds reached, arguments kept, budgets met, hard requests."""

from __future__ import annotations

import functools
import math
import re

import pytest
from tests.plans import changed

from dpoco.accounting import Budget, oblivious_tracker
from dpoco.accounting.oblivious_tracker import Comparison, Search, guarantee, regret
from dpoco.errors import BudgetExceeded, CalibrationError, NoiseDominatesWarning
from dpoco.experts import ObliviousTracker

DELTA = 1e-6
calibrate = functools.cache(oblivious_tracker.calibrate)  # several tests ask for the same plans
NAMES = {"forced_switch": "forced", "max_resamples": "cap"}  # of arguments in a description
MOST_WORK = 8_000_000  # 6.4 million
REACHED = [
    # N, T, S, epsilon, bound
    (10, 10**4, 2, 1.0, 1550), (10, 10**5, 5, 0.3, 13911), (10, 10**5, 5, 4.0, 2915),
    (2, 10**5, 5, 1.0, 3436), (1000, 10**6, 5, 1.0, 37470), (10, 10**5, 0, 1.0, 549),
]  # fmt: skip


@pytest.mark.parametrize(("experts", "horizon", "switches", "epsilon", "bound"), REACHED)
def test_table_of_bounds(experts, horizon, switches, epsilon, bound):
    budget = Budget(epsilon, DELTA)
    p = calibrate(experts, horizon=horizon, budget=budget, switches=switches)
    assert p.forecast.regret_bound <= 1.005 * bound
    assert p.forecast.regret_bound > 0.9 * bound
    result = guarantee(p, budget=budget)
    assert 0.999 * epsilon < result.epsilon <= epsilon
    assert result.delta == DELTA
    result.require(budget)
    assert result.regret_bound == p.forecast.regret_bound
    # A learning rate a little larger would not do.
    more = changed(p, learning_rate=1.01 * p.mechanism.learning_rate)
    with pytest.raises(BudgetExceeded):
        guarantee(more, budget=budget).require(budget)


def test_bounds_without_privacy():
    for experts, switches, bound in [(10, 5, 1841), (2, 5, 1661), (100, 5, 2026), (10, 0, 339)]:
        p = calibrate(experts, horizon=10**5, budget=None, switches=switches)
        assert p.mechanism.batch == 1
        assert p.mechanism.forced == 0.0
        assert p.forecast.regret_bound == pytest.approx(bound, rel=1e-3)
        # At the best learning rate both terms are equal.
        assert regret(p)[1]["prior"] == pytest.approx(regret(p)[1]["learning"])
        result = guarantee(p)
        assert result.epsilon == math.inf
        assert result.regret_bound == p.forecast.regret_bound


def test_prior_costs():
    """Of the sequences of 5 switches in 10^5 rounds of 10 experts; and their number."""
    share = Comparison(10, 10**5, 5, "share")
    assert share.prior_cost(5 / 99999) == pytest.approx(67.80597, abs=1e-5)
    assert Comparison(10, 10**5, 5, "at_most").prior_cost(None) == pytest.approx(66.06570, abs=1e-5)
    endless = Comparison(10, None, 0, "share")
    long = Comparison(10, 10**7, 10**5, "share").prior_cost(0.01)
    assert endless.prior_cost(0.01) == pytest.approx(long / 1e7, rel=1e-4)
    assert share.squares(7) == 14285 * 49 + 25
    assert share.squares(10**6) == 1e10
    assert endless.squares(7) == 7.0


def test_a_larger_budget_is_never_worse():
    bounds = [
        calibrate(10, horizon=10**4, budget=Budget(e, DELTA), switches=2).forecast.regret_bound
        for e in (0.1, 1.0, 10.0, 100.0)
    ]
    assert bounds == sorted(bounds, reverse=True)
    # The last one has privacy to spare, and pays nothing for it.
    free = calibrate(10, horizon=10**4, budget=None, switches=2).forecast.regret_bound
    assert bounds[-1] == pytest.approx(free, rel=1e-6)


def test_arguments_that_are_given_are_kept():
    budget = Budget(1.0, DELTA)
    fixed = {"learning_rate": 0.004, "forced_switch": 0.25, "batch": 6, "share_rate": 0.002}
    best = calibrate(10, horizon=10**4, budget=budget, switches=2)
    for name, value in fixed.items():
        p = calibrate(10, horizon=10**4, budget=budget, switches=2, **{name: value})
        assert getattr(p.mechanism, NAMES.get(name, name)) == value
        assert p.forecast.regret_bound >= 0.999 * best.forecast.regret_bound
        guarantee(p, budget=budget).require(budget)
    p = calibrate(10, horizon=10**4, budget=budget, switches=2, **fixed)
    assert {name: getattr(p.mechanism, NAMES.get(name, name)) for name in fixed} == fixed
    assert p.forecast.regret_bound == pytest.approx(
        Comparison(10, 10**4, 2, "share").prior_cost(0.002) / 0.004 + 0.004 * (1666 * 36 + 16) / 8
    )


@pytest.mark.parametrize("prior", ["share", "at_most"])
def test_pure_budgets(prior):
    budget = Budget(1.0, 0.0)
    p = calibrate(10, horizon=10**5, budget=budget, switches=5, prior=prior)
    result = guarantee(p, budget=budget)
    assert result.delta == 0.0
    assert 0.999 < result.epsilon <= 1.0
    assert result.epsilon_at(0.0) == result.epsilon
    # The sum of all ranges, and no coin.
    if prior == "at_most":
        assert p.mechanism.forced == 1.0
        boundaries = math.ceil(10**5 / p.mechanism.batch) - 1
        assert result.epsilon == pytest.approx(boundaries * 2 * p.mechanism.learning_rate)
    approximate = calibrate(10, horizon=10**5, budget=Budget(1.0, DELTA), switches=5, prior=prior)
    assert approximate.forecast.regret_bound < 0.5 * p.forecast.regret_bound


def test_endless_streams():
    budget = Budget(1.0, DELTA)
    p = calibrate(10, horizon=None, budget=budget, share_rate=0.01)
    assert p.mechanism.horizon is None
    assert p.forecast.regret_bound is None
    assert set(regret(p)[1]) == {"prior, a round", "learning, a round"}
    result = guarantee(p, budget=budget)
    assert 0.999 < result.epsilon <= 1.0
    assert result.horizon == 10**12
    assert result.regret_bound is None
    # A long stream with the same mechanism costs about as much.
    long = changed(p, horizon=10**7)
    assert guarantee(long, budget=budget).epsilon == pytest.approx(result.epsilon, rel=1e-3)
    baseline = calibrate(10, horizon=None, budget=None, share_rate=0.01)
    assert sum(regret(baseline)[1].values()) < sum(regret(p)[1].values())
    for call in (
        lambda: calibrate(10, horizon=None, budget=budget),
        lambda: calibrate(10, horizon=None, budget=budget, share_rate=0.0),
        lambda: calibrate(10, horizon=None, budget=None),
        lambda: calibrate(10, horizon=None, budget=budget, prior="at_most"),
    ):
        with pytest.raises(ValueError, match="endless"):
            call()


def test_nothing_to_protect():
    for experts, horizon in [(1, 100), (5, 1), (1, None)]:
        p = calibrate(experts, horizon=horizon, budget=Budget(0.1, 0.0))
        result = guarantee(p, budget=Budget(0.1, 0.0))
        assert (result.epsilon, result.delta) == (0.0, 0.0)
        assert result.certified
        assert result.delta_at(0.0) == 0.0
    assert calibrate(1, horizon=100, budget=Budget(0.1, 0.0)).forecast.regret_bound == 0.0
    p = calibrate(4, horizon=100, budget=Budget(0.1, DELTA), batch=100)
    assert guarantee(p, budget=DELTA).epsilon == 0.0
    # Unless asked for, a single batch is no answer to a small budget.
    p = calibrate(10, horizon=100, budget=Budget(1e-5, DELTA), switches=1)
    assert p.mechanism.batch < 100
    with pytest.warns(NoiseDominatesWarning):
        ObliviousTracker(10, horizon=100, budget=None, plan=p, switches=1)


def test_infeasible_budgets_name_the_smallest_epsilon():
    budget = Budget(0.1, DELTA)
    fixed = {"learning_rate": 0.5, "batch": 1, "share_rate": 0.001}
    with pytest.raises(CalibrationError, match="smallest epsilon") as caught:
        calibrate(10, horizon=10**4, budget=budget, **fixed)
    smallest = float(re.search(r"reach is ([0-9.e+-]+)", str(caught.value)).group(1))
    assert smallest > 10.0
    p = calibrate(10, horizon=10**4, budget=Budget(1.001 * smallest, DELTA), **fixed)
    assert p.mechanism.learning_rate == 0.5


def test_caps():
    budget = Budget(1.0, DELTA)
    p = calibrate(10, horizon=10**4, budget=budget, switches=2, max_resamples=100)
    assert p.mechanism.cap == 100
    assert p.forecast.regret_bound is None
    assert (math.ceil(10**4 / p.mechanism.batch) - 1) * p.mechanism.forced <= 50.001
    result = guarantee(p, budget=budget)
    result.require(budget)
    assert result.regret_bound is None
    assert result.details["regret bound until the cap"] == pytest.approx(sum(regret(p)[1].values()))
    loose = calibrate(10, horizon=10**4, budget=budget, switches=2, max_resamples=10**4)
    free = calibrate(10, horizon=10**4, budget=budget, switches=2)
    assert loose.forecast.regret_bound == free.forecast.regret_bound
    none = calibrate(10, horizon=10**4, budget=budget, switches=2, max_resamples=0)
    assert guarantee(none, budget=budget).epsilon == 0.0


def test_a_cap_lowers_p_as_far_as_it_may():
    arguments = {"horizon": 10**9, "budget": Budget(1.0, DELTA), "switches": 5, "batch": 1}
    p = calibrate(10, **arguments, max_resamples=100)
    assert p.mechanism.forced * (10**9 - 1) <= 50.001
    p = calibrate(10, **{**arguments, "horizon": 10**12}, max_resamples=100)
    assert p.mechanism.forced == 1e-9
    # Whatever p is, an endless stream uses every cap up: the one without is taken.
    arguments = {"horizon": None, "budget": Budget(1.0, DELTA), "share_rate": 0.01}
    p, free = (calibrate(10, **arguments, max_resamples=cap) for cap in (100, None))
    assert p.mechanism.forced > 0.01
    assert sum(regret(p)[1].values()) <= sum(regret(free)[1].values()) * (1 + 1e-9)


def test_an_endless_stream_without_privacy_need_not_forget():
    p = calibrate(3, horizon=None, budget=None, share_rate=0.0)
    assert p.mechanism.share_rate == 0.0
    assert regret(p)[1] == {"prior, a round": 0.0, "learning, a round": 0.125}
    assert guarantee(p).regret_bound is None


def test_switches_beyond_the_stream_mean_all_rounds():
    few = calibrate(3, horizon=20, budget=Budget(1.0, DELTA), switches=19)
    many = calibrate(3, horizon=20, budget=Budget(1.0, DELTA), switches=10**6)
    assert many.tuning.switches == 10**6
    assert many.forecast.regret_bound == few.forecast.regret_bound


def test_a_delta_that_nobody_gave():
    p = calibrate(10, horizon=1000, budget=Budget(1.0, DELTA), switches=2)
    assert guarantee(p).delta == 1.0 / 10**4


# Small budgets: orders beyond 2^12 decide. Priors that forget fast: rates near the largest one.
BOUNDS_IN_REACH = [
    # N, T, S, epsilon, delta, bound
    (10, 10**6, 0, 1e-3, 1e-6, 72645), (2, 10**5, 5, 1e-3, 1e-6, 58871),
    (7, 10**4, 50, 0.013, 1e-10, 9864), (3, 300, 50, 0.56, 1e-10, 216.2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("experts", "horizon", "switches", "epsilon", "delta", "bound"), BOUNDS_IN_REACH
)
def test_bounds_in_reach(work, experts, horizon, switches, epsilon, delta, bound):
    budget = Budget(epsilon, delta)
    p, done = work(lambda: calibrate(experts, horizon=horizon, budget=budget, switches=switches))
    assert done < MOST_WORK
    assert p.forecast.regret_bound <= 1.02 * bound
    guarantee(p, budget=budget).require(budget)


def test_a_prior_that_forgets_at_once_meets_every_budget():
    p = calibrate(2, horizon=10**5, budget=Budget(1e-3, DELTA), switches=5)
    assert p.mechanism.share_rate == 0.5
    assert guarantee(p, budget=DELTA).epsilon < 1e-12
    p = calibrate(10, horizon=1000, budget=Budget(0.1, DELTA), switches=5, learning_rate=0.5)
    guarantee(p, budget=Budget(0.1, DELTA)).require(Budget(0.1, DELTA))
    assert p.mechanism.learning_rate == 0.5


@pytest.mark.parametrize(
    ("experts", "epsilon", "delta", "arguments", "feasible"),
    [
        (100, 5.6878, 1e-10, {"switches": 10**5, "learning_rate": 4.696}, True),
        (1000, 176.1, 1e-6, {"switches": 1000, "learning_rate": 96.07,
                             "max_resamples": 10**6}, True),
        (1000, 1e-4, 1e-6, {"switches": 5, "forced_switch": 1e-6, "learning_rate": 1e-3}, False),
        (100, 1e-6, 1e-10, {"switches": 10**5, "share_rate": 1e-8, "learning_rate": 4.696}, False),
        (10, 1e-6, 1e-10, {"switches": 10**5, "prior": "at_most", "learning_rate": 0.1}, False),
    ],
)  # fmt: skip
def test_hard_requests_take_little_work(work, experts, epsilon, delta, arguments, feasible):
    budget = Budget(epsilon, delta)

    def request():
        if feasible:
            return calibrate(experts, horizon=10**12, budget=budget, **arguments)
        with pytest.raises(CalibrationError, match="smallest epsilon"):
            calibrate(experts, horizon=10**12, budget=budget, **arguments)
        return None

    p, done = work(request)
    assert done < 2 * MOST_WORK  # 8.3 million
    if feasible:
        guarantee(p, budget=budget).require(budget)


def test_the_smallest_epsilon_is_that_of_the_whole_grid():
    """The points left out by their rough account would not have been smaller."""
    search = Search(
        Comparison(3, 100, 2, "share"), Budget(0.1, DELTA), 0.5, (None, None, None), None
    )
    batches, forced, rates = search.grid = [1, 4, 16], [1.0, 0.1, 1e-3], [0.02, 0.08, 0.32]
    everything = min(
        search.draws(0.5, b, p, rate).epsilon(DELTA)
        for b in batches for p in forced for rate in rates
    )  # fmt: skip
    assert search.smallest_epsilon() == pytest.approx(everything, rel=1e-13)
