"""AboveThreshold: privacy by quadrature, the law of its answers, margins, protocol."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy
from tests.descriptions import changed
from tests.samples import replays

import dpoco
from dpoco.accounting import above_threshold as accountant
from dpoco.mechanisms import AboveThreshold
from dpoco.privacy.mechanisms.selections import ThresholdTests
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

PURE = dpoco.Budget(1.0, 0.0)
# Gauss-Legendre nodes on panels of [0, 1].
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def alarm_time_law(queries, b1, b2, noise="exponential"):
    """P(alarm at i) for every i, and P(no alarm) last: quadrature over the threshold's noise."""
    q = np.asarray(queries, dtype=float)
    lowest = 0.0 if noise == "exponential" else -45.0 * b1
    kinks = [lowest, *(x for x in np.unique(q) if x > lowest), 0.0, 45.0 * max(b1, b2)]
    edges = sorted({e for a in kinks for e in (a, a + b2, a + 5 * b2) if e >= lowest} | {60.0 * b1})
    total = np.zeros(len(q) + 1)
    for a, b in itertools.pairwise(edges):
        for left, right in itertools.pairwise(np.linspace(a, b, 4)):
            rho = 0.5 * (left + right) + 0.5 * (right - left) * NODES
            if noise == "exponential":
                density = np.exp(-rho / b1) / b1
                x = np.maximum(rho[:, None] - q, 0.0) / b2
                silent = -np.expm1(-x)
                loud = np.exp(-x)
            else:
                density = 0.5 * np.exp(-np.abs(rho) / b1) / b1
                x = (rho[:, None] - q) / b2
                tail = 0.5 * np.exp(-np.abs(x))
                silent, loud = np.where(x > 0.0, (1.0 - tail, tail), (tail, 1.0 - tail))
            before = np.cumprod(np.hstack([np.ones((len(rho), 1)), silent]), axis=1)
            density *= 0.5 * (right - left) * WEIGHTS
            total[:-1] += density @ (before[:, :-1] * loud)
            total[-1] += density @ before[:, -1]
    return total


def worst_ratio(b1, b2, noise, *, rises, falls, silent=(1, 3, 400), gaps=(0.0, 2.0, 6.0)):
    """The largest log-ratio of the probability to be silent for a while and then raise an alarm.

    One record moves the silent queries by one amount of `rises` and the last by one of `falls`.
    """
    worst = 0.0
    for count, gap in itertools.product(silent, gaps):
        q = np.array([0.0] * count + [gap])
        p = alarm_time_law(q, b1, b2, noise)
        assert abs(p.sum() - 1.0) < 1e-9
        for rise, fall in itertools.product(rises, falls):
            r = alarm_time_law(q + np.array([rise] * count + [fall]), b1, b2, noise)
            for i in (count, count + 1):
                if min(p[i], r[i]) > 1e-12:
                    worst = max(worst, abs(math.log(p[i] / r[i])))
    return worst


def test_the_detector_s_queries_cost_what_is_accounted_and_not_less():
    """Queries that move within [a - 1, a + 1]: sensitivity 2 and spread 2."""
    first, second = accountant.split_scales(
        1.0, sensitivity=2.0, spread=2.0, alarms=1, log_queries=4.0
    )
    assert math.isclose(2.0 / first + 2.0 / second, 1.0, rel_tol=1e-12)
    for a in (-1.0, 0.0, 1.0):
        moves = (a - 1.0, a, a + 1.0)
        worst = worst_ratio(first, second, "exponential", rises=moves, falls=moves)
        assert worst <= 1.0 + 1e-7
        if a == 1.0:  # +2 on silent rounds, 0 on the alarm: nothing is given away
            assert worst > 0.9999


def test_the_published_scales_spend_half_as_much_again():
    """Laplace noises of scale 2 and 4, made for a sensitivity of 1, on queries that move by 2."""
    worst = worst_ratio(2.0, 4.0, "laplace", rises=(0.0, 2.0), falls=(0.0, 2.0))
    assert abs(worst - 1.5) < 1e-4
    tests = ThresholdTests("laplace", 2.0, 4.0, sensitivity=2.0, spread=2.0, alarms=1)
    assert tests.loss(Neighbours()).pure == 1.5
    # Twice the noise on the threshold repairs it, and no less would do.
    repaired = worst_ratio(4.0, 4.0, "laplace", rises=(0.0, 2.0), falls=(0.0, 2.0))
    assert 0.9999 < repaired <= 1.0 + 1e-7
    assert worst_ratio(3.9, 4.0, "laplace", rises=(0.0, 2.0), falls=(0.0, 2.0)) > 1.01


def test_queries_that_move_either_way():
    """Sensitivity 1 and spread 2, the default; one-directional queries have spread 1."""
    p = accountant.calibrate(horizon=50, budget=PURE)
    b1, b2 = p.mechanism.threshold_scale, p.mechanism.query_scale
    moves = (-1.0, 0.0, 1.0)
    assert 0.999 < worst_ratio(b1, b2, "exponential", rises=moves, falls=moves) <= 1.0 + 1e-7
    p = accountant.calibrate(horizon=50, budget=PURE, spread=1.0)
    b1, b2 = p.mechanism.threshold_scale, p.mechanism.query_scale
    for way in (1.0, -1.0):
        moves = (0.0, way)
        assert worst_ratio(b1, b2, "exponential", rises=moves, falls=moves) <= 1.0 + 1e-7
    assert worst_ratio(b1, b2, "exponential", rises=(1.0,), falls=(-1.0,)) > 1.2


STEPS = 20_000


def two_alarm_law(q, b1, b2):
    """P of every pattern of answers up to the second alarm; one threshold noise for all."""
    rho = (np.arange(STEPS) + 0.5) * 40.0 * b1 / STEPS
    density = np.exp(-rho / b1) / b1 * (40.0 * b1 / STEPS)
    density /= density.sum()
    loud = np.exp(-np.maximum(rho[:, None] - q, 0.0) / b2)
    law = {}
    for pattern in itertools.product((0, 1), repeat=len(q)):
        if sum(pattern) <= 2:
            terms = [loud[:, i] if hit else 1.0 - loud[:, i] for i, hit in enumerate(pattern)]
            law[pattern] = float(density @ np.prod(terms, axis=0))
    return law


def test_several_alarms_share_one_threshold_noise():
    p = accountant.calibrate(horizon=4, budget=PURE, alarms=2)
    b1, b2 = p.mechanism.threshold_scale, p.mechanism.query_scale
    q = np.zeros(4)
    base = two_alarm_law(q, b1, b2)
    worst = 0.0
    for move in itertools.product((-1.0, 1.0), repeat=4):
        moved = two_alarm_law(q + np.array(move), b1, b2)
        worst = max(worst, *(abs(math.log(base[k] / moved[k])) for k in base))
    assert 0.7 < worst <= 1.0 + 1e-4


def test_answers_follow_the_law():
    p = accountant.calibrate(horizon=10, budget=PURE, false_alarm=0.5)
    p = changed(p, threshold_scale=3.0, query_scale=2.0, margin=1.0)
    queries = [0.5, 3.0, -2.0, 4.0]
    watches = replays(AboveThreshold(horizon=None, budget=None, plan=p, sensitivity=1.0), 12_000)
    counts = np.zeros(5)
    for watch in watches:
        counts[next((i for i, query in enumerate(queries) if watch.test(query)), 4)] += 1
    want = alarm_time_law(np.array(queries) - 1.0, 3.0, 2.0)
    assert scipy.stats.chisquare(counts, counts.sum() * want).pvalue > 1e-6
    for wrong in ((2.6, 2.0), (3.0, 1.8)):
        other = alarm_time_law(np.array(queries) - 1.0, *wrong)
        assert scipy.stats.chisquare(counts, counts.sum() * other).pvalue < 1e-6


def test_margins():
    p = accountant.calibrate(horizon=100, budget=PURE, false_alarm=0.05)
    quiet = alarm_time_law(
        np.full(100, -p.tuning.margin), p.mechanism.threshold_scale, p.mechanism.query_scale
    )
    assert 1.0 - quiet[-1] <= 0.05
    loud = alarm_time_law(
        [accountant.detection_margin(p, 0.1)], p.mechanism.threshold_scale, p.mechanism.query_scale
    )
    assert loud[0] >= 0.9
    watch = AboveThreshold(horizon=100, budget=PURE, source=Source.seeded(3), sensitivity=1.0)
    reach = p.tuning.margin + accountant.detection_margin(p, 1e-6)
    assert not any(watch.test(0.0) for _ in range(50))
    assert watch.test(reach + 7.0, threshold=7.0)


def test_without_noise():
    watch = AboveThreshold(horizon=3, budget=None, sensitivity=1.0)
    assert not watch.guarantee.private
    assert [watch.test(x, threshold=2.0) for x in (1.0, 1.9, 2.0)] == [False, False, True]
    for value in (math.nan, math.inf, -math.inf):  # count as 0
        watch = AboveThreshold(horizon=2, budget=None, sensitivity=1.0)
        assert [watch.test(value, threshold=x) for x in (0.5, -0.5)] == [False, True]


def test_bad_values():
    watch = AboveThreshold(horizon=10, budget=PURE, sensitivity=1.0)
    for value in ("1", b"1", [1.0], 1j):
        with pytest.raises(TypeError, match="value"):
            watch.test(value)
    with pytest.raises(ValueError, match="threshold"):
        watch.test(1.0, threshold=math.nan)
    assert watch.round == 0
    assert watch.test(math.nan) is watch.test(None) is False  # count as 0


def test_it_stops_after_its_alarms_and_its_horizon():
    watch = AboveThreshold(
        horizon=10, budget=PURE, alarms=2, source=Source.seeded(1), sensitivity=1.0
    )
    assert [watch.test(1e6), watch.test(-1e6), watch.test(1e6)] == [True, False, True]
    assert watch.alarms_left == 0
    state = watch._engine.state()
    with pytest.raises(dpoco.HorizonExceeded, match="alarms"):
        watch.test(0.0)
    with pytest.raises(dpoco.HorizonExceeded, match="alarms"):
        watch._engine.test(0.0)
    assert watch._engine.state() == state
