"""The tracker's sums of moments against long arithmetic, and the orders they are taken at."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpoco.accounting._experts.tracker_moments import Tracker, tracker_moments
from dpoco.accounting._experts.tracker_profile import profile_epsilon, tracker_profile
from dpoco.accounting._experts.tracker_series import RangeSeries, flagged
from dpoco.accounting.bounded_range import bounded_range_moment
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_epsilon

ORDERS = np.array(DEFAULT_ORDERS)

MOST_WORK = 80_000  # 48 thousand


def tracker(eta, p, batch, horizon, rate, experts, prior="share", cap=None):
    return Tracker(eta, p, batch, horizon, rate, experts, prior, cap)


def epsilon(t, delta):
    return profile_epsilon(tracker_profile(t), delta)


def exact_sum(t, order):
    """The sum of the claim, term by term, in long arithmetic."""
    with mpmath.workdps(40):
        eta, p, a = mpmath.mpf(t.learning_rate), mpmath.mpf(t.forced_switch), mpmath.mpf(order)
        sigma, others = mpmath.mpf(t.share_rate or 0), t.experts - 1
        stay, move = 1 - sigma, sigma / others
        tau = (stay - move) / (stay + move)

        def moment(r):
            s = mpmath.log(a * mpmath.expm1(-(a - 1) * r) / ((a - 1) * mpmath.expm1(-a * r)))
            one = mpmath.expm1(-s) / mpmath.expm1(-r)
            up = mpmath.exp((a - 1) * (r - s))
            return mpmath.log(one * up + (1 - one) * mpmath.exp(-(a - 1) * s))

        first = moment(2 * eta * tau)
        if t.forced_switch < 1.0:
            low, high = p, 1 - (1 - p) * mpmath.exp(-eta)
            first = max(
                [first]
                + [
                    mpmath.log(x**a * y ** (1 - a) * mpmath.exp(first)
                               + (1 - x) ** a * (1 - y) ** (1 - a))
                    for x, y in ((high, low), (low, high))
                ]
            )  # fmt: skip
        q = 1 - (1 - p) * mpmath.exp(-eta * t.batch)
        batches = -(-t.horizon // t.batch)
        ranges = [2 * eta * tau ** (t.batch * k + 1) for k in range(1, batches - 1)]
        return first + mpmath.fsum(mpmath.log(1 - q + q * mpmath.exp(moment(r))) for r in ranges)


@pytest.mark.parametrize("order", [1.05, 3.0, 24.0, 300.0])
@pytest.mark.parametrize(
    "arguments",
    [
        (0.05, 0.2, 4, 1000, 0.02, 2),
        (0.02, 0.1, 8, 2000, 0.001, 10),
        (0.5, 0.3, 1, 120, 0.003, 3),
        (0.03, 1.0, 2, 300, 0.05, 4),
        (1.5, 0.4, 3, 90, 0.01, 5),
    ],
)
def test_sum_is_never_below_and_hardly_above_the_exact_one(arguments, order):
    t = tracker(*arguments)
    exact = exact_sum(t, order)
    small = order * t.learning_rate < 1.5
    for ratio, slack in ((0.9, 0.01 if small else 0.06), (0.999, 1e-3), (0.5, 0.5)):
        value = float(tracker_moments(t, np.array([order]), group_ratio=ratio)[0])
        assert value >= exact
        assert value <= exact * (1 + slack) + 1e-12


@pytest.mark.parametrize("order", [4871.0, 65537.0, 1048577.0, 2.0**24 + 1, 2.0**30 + 1])
@pytest.mark.parametrize(
    "arguments",
    [
        (3.6e-5, 0.1, 2048, 10**5, 0.0, 10),
        (8.7e-6, 0.03, 2560, 10**5, 1e-6, 10),
        (1e-4, 0.2, 4, 1000, 0.02, 2),
        (1e-3, 1.0, 1, 60, 0.05, 4),
        (2e-6, 1e-3, 10**4, 10**5, 0.0, 2),
    ],
)
def test_sum_at_the_orders_of_small_budgets(arguments, order):
    t = tracker(*arguments)
    exact = exact_sum(t, order)
    value = float(tracker_moments(t, np.array([order]))[0])
    assert value >= exact
    assert value <= exact * (1.1 if order * t.learning_rate > 1.5 else 1.02) + 2e-14 * order


def test_small_budgets_have_orders_of_their_own(work):
    """Epsilon is as good as with ten times as many orders, and cheap to know."""
    for arguments, delta in (
        ((3.6e-5, 0.1, 2048, 10**6, 0.0, 10), 1e-6),
        ((1.8e-5, 0.03, 734, 10**7, 0.0, 10), 1e-8),
        ((8.7e-6, 0.03, 2560, 10**9, 4e-8, 10), 1e-10),
        ((1e-7, 0.1, 2048, 10**6, 0.0, 10), 1e-10),
    ):
        t = tracker(*arguments)
        many = 1.0 + np.exp2(np.linspace(-8.0, 31.0, 2000))
        best = rdp_epsilon(many, tracker_moments(t, many) / (many - 1), delta)
        assert best <= epsilon(t, delta) <= 1.01 * best
        few = rdp_epsilon(ORDERS, tracker_moments(t, ORDERS) / (ORDERS - 1), delta)
        assert few > 1.2 * best
        # Another tracker: the last ones are remembered.
        other = t._replace(learning_rate=t.learning_rate * (1 + 1e-9))
        _, done = work(lambda: epsilon(other, delta))  # noqa: B023
        assert done < MOST_WORK


def test_account_for_any_p_is_below_that_of_each():
    orders = np.array([1.1, 3.0, 40.0, 5000.0])
    for cap in (None, 3):
        for rate in (0.0, 0.05):
            t = tracker(0.05, 0.3, 3, 500, rate, 4, "share", cap)
            least = tracker_moments(t, orders, any_forced=True)
            for p in (1.0, 0.3, 1e-3, 1e-9):
                each = tracker_moments(t._replace(forced_switch=p), orders)
                assert (least <= each * (1 + 1e-12)).all()
            np.testing.assert_allclose(
                least,
                tracker_moments(t._replace(forced_switch=0.9), orders, any_forced=True),
            )


def test_series_never_below_term_by_term_sums():
    """Long series in doubles: slow decay, groups of many terms, cut and tail."""
    for decay, stop in ((-1e-4, 30_000), (-3e-3, 40_000), (-0.2, 500), (-1e-9, 1000)):
        series = RangeSeries(0.05, decay)
        k = np.arange(1, stop + 1.0)
        for q in (0.01, 0.3, 1.0):
            for order in (1.1, 20.0, 500.0):
                a = np.array([order])
                exact = float(flagged(q, bounded_range_moment(series.at(k), order)).sum())
                value = float(series.flagged_moments(1, float(stop), q, a, 0.9)[0])
                # The moments themselves are rounded up, by a relative 1e-7 for tiny orders.
                assert value >= exact * (1 - 3e-7)
                assert value <= exact * (1.01 if order < 100 else 1.08)
                endless = float(series.flagged_moments(1, math.inf, q, a, 0.9)[0])
                assert endless >= value * (1 - 1e-12)
