"""Calibration of the tracker: small budgets, priors that forget fast, requests that are hard."""

from __future__ import annotations

import pytest

from dpoco.accounting import Budget
from dpoco.accounting._tracker_search import Comparison, Search
from dpoco.accounting.oblivious_tracker import calibrate, guarantee
from dpoco.errors import CalibrationError

DELTA = 1e-6
MOST_WORK = 8_000_000  # 6.4 million; hard requests 8.3
# Small budgets: orders beyond 2^12 decide. Priors that forget fast: rates near the largest one.
BOUNDS_IN_REACH = [
    # N, T, S, epsilon, delta, bound
    (10, 10**6, 0, 1e-3, 1e-6, 72645),
    (10, 10**7, 0, 2e-3, 1e-8, 143617),
    (10, 10**9, 5, 1e-3, 1e-10, 2.65e7),
    (10, 10**12, 0, 1e-6, 1e-10, 1.10e9),
    (2, 10**5, 5, 1e-3, 1e-6, 58871),
    (7, 10**4, 50, 0.013, 1e-10, 9864),
    (2, 300, 5, 0.2, 1e-6, 171.4),
    (3, 300, 50, 0.56, 1e-10, 216.2),
]


@pytest.mark.parametrize(
    ("experts", "horizon", "switches", "epsilon", "delta", "bound"), BOUNDS_IN_REACH
)
def test_bounds_in_reach(work, experts, horizon, switches, epsilon, delta, bound):
    budget = Budget(epsilon, delta)
    p, done = work(lambda: calibrate(experts, horizon=horizon, budget=budget, switches=switches))
    assert done < MOST_WORK
    assert p.regret_bound <= 1.02 * bound
    guarantee(experts, p, budget=budget).require(budget)


def test_a_prior_that_forgets_at_once_meets_every_budget():
    p = calibrate(2, horizon=10**5, budget=Budget(1e-3, DELTA), switches=5)
    assert p.share_rate == 0.5
    assert guarantee(2, p, budget=DELTA).epsilon < 1e-12
    p = calibrate(10, horizon=1000, budget=Budget(0.1, DELTA), switches=5, learning_rate=0.5)
    guarantee(10, p, budget=Budget(0.1, DELTA)).require(Budget(0.1, DELTA))
    assert p.learning_rate == 0.5


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
    assert done < 2 * MOST_WORK
    if feasible:
        guarantee(experts, p, budget=budget).require(budget)


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
