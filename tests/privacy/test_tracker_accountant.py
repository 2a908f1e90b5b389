"""The tracker's accountant: oracles, limits, monotonicity."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco.privacy.losses.bounded_range import BoundedRange, RangeSeries, moment
from dpoco.privacy.losses.flagged_draws import FlaggedDraws
from dpoco.privacy.losses.loss import ORDERS, pure_delta


def tracker(eta, p, batch, horizon, rate, experts, prior="share", cap=None):
    return FlaggedDraws(eta, p, batch, horizon, rate, experts, prior, cap)


def epsilon(t, delta=1e-6):
    return t.epsilon(delta)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ((0.0046914, 0.01, 1, 10**5, 0.0, 10), 0.99979),
        ((0.02, 0.1, 8, 10**4, 0.0, 10), 1.64955),
        ((0.05, 1.0, 20, 2000, 0.0, 5), 2.38733),
        ((0.05, 0.2, 4, 1000, 0.02, 2), 0.42997),
        ((0.0154, 0.05, 4, 10**5, 40 / 99999, 10), 0.98821),
        ((0.01, 0.05, 1, None, 0.01, 2), 0.22390),
        ((0.02, 0.1, 8, 10**4, 0.0, 10, "share", 100), 0.96841),
        ((0.02, 0.1, 8, 10**4, None, 10, "at_most"), 1.64955),
    ],
)
def test_epsilon_oracles(arguments, value):
    assert epsilon(tracker(*arguments)) == pytest.approx(value, rel=2e-3)


def test_pure_oracles():
    assert tracker(0.01, 0.2, 10, 1000, 0.0, 5).pure == pytest.approx(2.01903, abs=6e-6)
    assert tracker(0.5, 0.3, 1, 6, 0.1, 2).pure == pytest.approx(3.34061, abs=6e-6)


def test_series_totals():
    series = RangeSeries(0.3, -0.01)
    k = np.arange(3, 58)
    assert series.total(3, 57) == pytest.approx(series.at(k).sum(), rel=1e-13)
    assert series.total(3, 57, 2.0) == pytest.approx((series.at(k) ** 2).sum(), rel=1e-13)
    assert series.total(0, math.inf) == pytest.approx(0.3 / -math.expm1(-0.01))
    assert series.total(5, 4) == 0.0
    assert RangeSeries(0.3, 0.0).total(1, 7) == pytest.approx(2.1)
    assert RangeSeries(0.0, -math.inf).total(1, math.inf) == 0.0


def test_limits():
    orders = np.array([1.5, 8.0])
    # One batch, one expert, one round, no draws: nothing is released.
    for t in (
        tracker(0.5, 0.1, 10, 10, 0.1, 3),
        tracker(0.5, 0.1, 1, 10, 0.0, 1),
        tracker(0.5, 0.1, 1, 1, 0.1, 3),
        tracker(0.5, 0.1, 1, 10, 0.1, 3, "share", 0),
    ):
        assert not t.moments(orders).any()
        assert t.pure == 0.0
        assert epsilon(t) == 0.0
    # Two batches: the coin of the first one, and its draw.
    t = tracker(0.1, 0.2, 5, 10, 0.0, 3)
    only = t.coin_moments(orders, moment(np.asarray(0.2), orders))
    np.testing.assert_allclose(t.moments(orders), only, rtol=1e-9)
    # No coin: draws of bounded range, all of them made.
    t = tracker(0.1, 1.0, 5, 30, 0.0, 3)
    draws = 5 * moment(np.asarray(0.2), orders)
    np.testing.assert_allclose(t.moments(orders), draws, rtol=1e-9)
    assert t.pure == pytest.approx(5 * 0.2)
    # sigma = 1 - 1/N: the next expert is uniform, so only coins are left.
    t = tracker(0.1, 1.0, 1, 30, 2 / 3, 3)
    assert t.pure < 1e-14
    t = tracker(0.1, 0.5, 1, 30, 0.5, 2)
    np.testing.assert_allclose(t.moments(orders), t.coin_moments(orders, np.zeros(2)), rtol=1e-9)
    # A rate too small for doubles is none.
    none, tiny = (tracker(0.1, 0.5, 1, 30, rate, 2) for rate in (0.0, 5e-324))
    assert tiny.pure == none.pure
    assert epsilon(tracker(0.1, 0.5, 1, 30, 1e-100, 2)) == pytest.approx(epsilon(none))
    # No forgetting: an endless stream has no guarantee.
    t = tracker(0.1, 0.5, 1, None, 0.0, 2)
    assert t.pure == math.inf
    assert t.moments(orders).min() == math.inf


def test_endless_stream_is_the_limit_of_long_ones():
    endless = epsilon(tracker(0.01, 0.05, 1, None, 0.01, 2))
    long = [epsilon(tracker(0.01, 0.05, 1, horizon, 0.01, 2)) for horizon in (20, 200, 2000)]
    assert long[0] < long[1] <= long[2] <= endless
    assert long[2] == pytest.approx(endless, rel=1e-3)


def test_single_forced_draw_agrees_with_the_exact_curve():
    t = tracker(0.2, 1.0, 5, 10, 0.0, 4)
    exact = BoundedRange(0.4).epsilon(1e-6)
    assert exact <= epsilon(t) <= 0.4 * (1 + 1e-9)


def test_coin_dominates_every_pair_of_coins():
    """All (keep, keep') with losses of a batch up to 3, against the three corners."""
    t = tracker(0.4, 0.15, 3, 30, 0.0, 3)
    for order in (1.05, 2.0, 8.0, 64.0):
        a = np.array([order])
        for draw in (0.0, 0.01, 1.0):
            bound = float(t.coin_moments(a, np.array([draw]))[0])
            loss, moved = np.meshgrid(np.linspace(0, 3, 61), np.linspace(-1, 1, 41))
            other = np.clip(loss + moved, 0.0, 3.0)
            keep, keep_other = (0.85 * np.exp(-0.4 * x) for x in (loss, other))
            logs = np.logaddexp(
                order * np.log(keep) + (1 - order) * np.log(keep_other),
                order * np.log1p(-keep) + (1 - order) * np.log1p(-keep_other) + draw,
            )
            assert logs.max() <= bound * (1 + 1e-9) + 1e-12
            # The draw alone is a corner, too: a coin that always falls so.
            assert bound >= draw
            if draw == 0.0:
                assert logs.max() >= bound * (1 - 1e-6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    eta=st.floats(1e-4, 0.5),
    p=st.floats(1e-3, 1.0),
    batch=st.integers(1, 40),
    horizon=st.integers(2, 10**6),
    rate=st.just(0.0) | st.floats(1e-100, 0.45),
)
def test_monotone(eta, p, batch, horizon, rate):
    t = tracker(eta, p, batch, horizon, rate, 2)
    here, pure = epsilon(t), t.pure
    slack = 1.1  # of the grouping
    assert epsilon(replace(t, learning_rate=1.5 * eta)) * slack >= here
    assert epsilon(replace(t, horizon=2 * horizon)) * slack >= here
    assert epsilon(replace(t, share_rate=rate + 0.05)) <= here * slack
    assert replace(t, horizon=2 * horizon).pure >= pure
    assert replace(t, share_rate=rate + 0.05).pure <= pure * (1 + 1e-9)
    assert here <= pure
    for cap in (1, 7, 10**7):
        assert epsilon(replace(t, max_resamples=cap)) <= here * (1 + 1e-9)
        assert replace(t, max_resamples=cap).pure <= pure * (1 + 1e-9)


def test_caps_bind_where_they_are_small():
    t = tracker(0.02, 0.1, 8, 10**4, 0.0, 10)
    values = [epsilon(replace(t, max_resamples=cap)) for cap in (1, 10, 100, 2000)]
    assert values == sorted(values)
    assert values[0] < 0.2 * values[3]
    assert values[3] == epsilon(t)
    coin = replace(t, horizon=16).pure - 0.04
    assert replace(t, max_resamples=10).pure == pytest.approx(coin + 0.4, rel=1e-9)


def test_conversion_agrees_with_dp_accounting():
    accounting = pytest.importorskip("dp_accounting")
    for arguments in ((0.02, 0.1, 8, 10**4, 0.001, 10), (0.005, 0.02, 1, 10**5, 0.0, 10)):
        t = tracker(*arguments)
        divergences = t.moments(ORDERS) / (ORDERS - 1)
        theirs, _ = accounting.rdp.compute_epsilon(ORDERS, divergences, 1e-6)
        assert epsilon(t) == pytest.approx(theirs, rel=1e-9)


def test_curve_and_inverse_agree():
    loss = tracker(0.02, 0.1, 8, 10**4, 0.001, 10)
    for delta in (1e-2, 1e-6, 1e-12):
        value = loss.epsilon(delta)
        assert loss.delta(value) <= delta
        assert loss.delta(0.99 * value) > delta
    assert loss.delta(loss.pure) == 0.0
    assert loss.delta(math.inf) == 0.0
    small = tracker(1e-6, 0.5, 8, 20, 0.0, 10)
    assert small.epsilon(1e-9) <= small.pure
    assert small.delta(0.0) <= pure_delta(0.0, small.pure)


def test_no_forced_switch_promises_nothing():
    assert tracker(0.02, 0.0, 8, None, 0.001, 10, "share", 5).epsilon(0.1) == math.inf


def test_coins_of_hopeless_precision_promise_nothing():
    """Keep probabilities near the charge for their rounding have no bounded ratio."""
    t = tracker(2.0, 0.1, 30, 300, 0.0, 3)
    assert t.pure == math.inf
    assert epsilon(t) == math.inf
    assert math.isfinite(epsilon(replace(t, forced_switch=1.0)))
