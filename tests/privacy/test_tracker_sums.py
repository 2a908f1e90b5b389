"""The tracker's sums of moments against long arithmetic, and the orders they are taken at."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from dpoco.accounting.oblivious_tracker import unforced_moments
from dpoco.accounting.rdp import rdp_epsilon
from dpoco.privacy.losses.bounded_range import RangeSeries, flag_draws
from dpoco.privacy.losses.bounded_range import moment as range_moment
from dpoco.privacy.losses.flagged_draws import FlaggedDraws
from dpoco.privacy.losses.loss import ORDERS

MOST_WORK = 80_000  # 48 thousand


def tracker(eta, p, batch, horizon, rate, experts, prior="share", cap=None):
    return FlaggedDraws(eta, p, batch, horizon, rate, experts, prior, cap)


def epsilon(t, delta):
    return t.epsilon(delta)


def exact_ranges(t):
    """The ranges r_0, r_1, ... of the claim, up to the last boundary or until they vanish."""
    sigma, others = mpmath.mpf(t.share_rate or 0), t.experts - 1
    stay, move = 1 - sigma, sigma / others
    tau = (stay - move) / (stay + move) if t.prior == "share" else 1
    count = 120 if t.horizon is None else -(-t.horizon // t.batch) - 1
    return [2 * mpmath.mpf(t.learning_rate) * tau ** (t.batch * k + 1) for k in range(count)]


def exact_sum(t, order):
    """The moment of the claim, term by term, in long arithmetic; the better one with a cap."""
    with mpmath.workdps(40):
        eta, p, a = mpmath.mpf(t.learning_rate), mpmath.mpf(t.forced_switch), mpmath.mpf(order)

        def moment(r):
            s = mpmath.log(a * mpmath.expm1(-(a - 1) * r) / ((a - 1) * mpmath.expm1(-a * r)))
            one = mpmath.expm1(-s) / mpmath.expm1(-r)
            up = mpmath.exp((a - 1) * (r - s))
            return mpmath.log(one * up + (1 - one) * mpmath.exp(-(a - 1) * s))

        def coin(drawn):
            if p == 1:
                return drawn
            low, high = p, 1 - (1 - p) * mpmath.exp(-eta)
            return max(
                drawn,
                *(mpmath.log(x**a * y ** (1 - a) * mpmath.exp(drawn)
                             + (1 - x) ** a * (1 - y) ** (1 - a))
                  for x, y in ((high, low), (low, high))),
            )  # fmt: skip

        moments = [moment(r) for r in exact_ranges(t)]
        q = 1 - (1 - p) * mpmath.exp(-eta * t.batch)
        whole = coin(moments[0])
        whole += mpmath.fsum(mpmath.log(1 - q + q * mpmath.exp(m)) for m in moments[1:])
        if t.max_resamples is None:
            return whole
        return min(whole, coin(0) + mpmath.fsum(moments[: t.max_resamples]))


def exact_ratio(t):
    """The largest log-likelihood ratio of the claim: after "draw", and after "keep"."""
    with mpmath.workdps(40):
        eta, p = mpmath.mpf(t.learning_rate), mpmath.mpf(t.forced_switch)
        first, *later = exact_ranges(t)
        cap = len(later) + 1 if t.max_resamples is None else t.max_resamples
        drawn = mpmath.log((1 - (1 - p) * mpmath.exp(-eta)) / p) + first
        drawn += mpmath.fsum(later[: cap - 1])
        return drawn if p == 1 else max(drawn, eta + mpmath.fsum(later[:cap]))


# Caps before, at and behind the last boundary, incomplete batches, two boundaries, chains that
# forget at once, where keeping says more than drawing, and not at all, streams without an end.
SMALL = [
    tracker(eta, p, batch, horizon, rate, experts, prior, cap)
    for eta, p in ((1.5, 0.9), (1.5, 0.5), (0.3, 0.05), (0.7, 1.0))
    for batch, horizon, rate, experts, prior, cap in (
        (1, 9, 0.45, 2, "share", None),
        (1, 9, 0.45, 2, "share", 1),
        (3, 20, 0.1, 5, "share", 2),
        (3, 21, 0.1, 5, "share", 5),
        (2, 4, 0.2, 3, "share", None),
        (2, 6, 0.2, 3, "share", 3),
        (4, 23, None, 4, "at_most", 3),
        (4, 23, None, 4, "at_most", 4),
        (4, 23, 0.0, 4, "share", 40),
        (2, None, 0.1, 3, "share", None),
        (2, None, 0.1, 3, "share", 2),
    )
]


@pytest.mark.parametrize("t", SMALL)
def test_account_of_every_branch_is_the_claimed_one(t):
    for order in (1.05, 3.0, 24.0):
        exact = exact_sum(t, order)
        value = float(t.moments(np.array([order]), group_ratio=1 - 1e-9)[0])
        assert exact <= value <= exact * (1 + 1e-5) + 2e-14 * order
    exact = exact_ratio(t)
    assert exact <= t.pure <= exact * (1 + 1e-6)


def test_nothing_is_told_where_nothing_is_drawn():
    for free in ({"horizon": 3}, {"horizon": 2}, {"experts": 1}, {"max_resamples": 0}):
        t = replace(tracker(0.5, 0.3, 3, 20, 0.1, 5), **free)
        assert t.moments(ORDERS).max() == t.pure == 0.0
    assert tracker(0.5, 0.3, 3, 4, 0.1, 5).pure > 0.0
    endless = tracker(0.5, 0.3, 3, None, 0.0, 5)
    assert endless.pure == endless.moments(ORDERS).min() == math.inf
    capped = replace(endless, max_resamples=3)
    assert capped.pure == pytest.approx(float(exact_ratio(capped)))


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
        value = float(t.moments(np.array([order]), group_ratio=ratio)[0])
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
    value = float(t.moments(np.array([order]))[0])
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
        best = rdp_epsilon(many, t.moments(many) / (many - 1), delta)
        assert best <= epsilon(t, delta) <= 1.01 * best
        few = rdp_epsilon(ORDERS, t.moments(ORDERS) / (ORDERS - 1), delta)
        assert few > 1.2 * best
        # Another tracker: the last ones are remembered.
        other = replace(t, learning_rate=t.learning_rate * (1 + 1e-9))
        _, done = work(lambda: epsilon(other, delta))  # noqa: B023
        assert done < MOST_WORK


def test_account_for_any_p_is_below_that_of_each():
    orders = np.array([1.1, 3.0, 40.0, 5000.0])
    for cap in (None, 3):
        for rate in (0.0, 0.05):
            t = tracker(0.05, 0.3, 3, 500, rate, 4, "share", cap)
            least = unforced_moments(t, orders, 0.9)
            for p in (1.0, 0.3, 1e-3, 1e-9):
                each = replace(t, forced_switch=p).moments(orders)
                assert (least <= each * (1 + 1e-12)).all()
            np.testing.assert_allclose(
                least,
                unforced_moments(replace(t, forced_switch=0.9), orders, 0.9),
            )


def test_series_never_below_term_by_term_sums():
    """Long series in doubles: slow decay, groups of many terms, cut and tail."""
    for decay, stop in ((-1e-4, 30_000), (-3e-3, 40_000), (-0.2, 500), (-1e-9, 1000)):
        series = RangeSeries(0.05, decay)
        k = np.arange(1, stop + 1.0)
        for q in (0.01, 0.3, 1.0):
            for order in (1.1, 20.0, 500.0):
                a = np.array([order])
                exact = float(flag_draws(q, range_moment(series.at(k), np.asarray(order))).sum())
                value = float(series.flagged_moments(1, float(stop), q, a, 0.9)[0])
                # The moments themselves are rounded up, by a relative 1e-7 for tiny orders.
                assert value >= exact * (1 - 3e-7)
                assert value <= exact * (1.01 if order < 100 else 1.08)
                endless = float(series.flagged_moments(1, math.inf, q, a, 0.9)[0])
                assert endless >= value * (1 - 1e-12)
