"""Pure privacy: its profile against brute force, its inverse, and what it says of a guarantee."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import dpoco
from dpoco.accounting import noisy_max
from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.combined import together
from dpoco.privacy.losses.loss import Pure, pure_delta, sum_up
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.mechanisms.base import Declared
from dpoco.privacy.mechanisms.selections import PromisedScores, Selections, ThresholdTests
from dpoco.privacy.neighbours import Neighbours

LEVELS = [1e-9, 1e-3, 0.3, 1.0, 4.0, 30.0, 800.0]


def hockey_stick(p, q, epsilon):
    return float(np.sum(np.maximum(0.0, np.asarray(p) - math.exp(epsilon) * np.asarray(q))))


@pytest.mark.parametrize("level", [0.1, 0.7, 1.5, 3.0])
def test_randomised_response_attains_the_profile(level):
    keep = 1.0 / (1.0 + math.exp(-level))
    p, q = [keep, 1.0 - keep], [1.0 - keep, keep]
    for epsilon in np.linspace(0.0, 1.2 * level, 50):
        exact = hockey_stick(p, q, epsilon)
        assert math.isclose(pure_delta(epsilon, level), exact, rel_tol=1e-12, abs_tol=1e-15)


@pytest.mark.parametrize("level", [0.5, 2.0])
def test_no_other_pair_of_laws_exceeds_it(level):
    """Pairs on three outcomes, log-ratios from a grid on [-level, level]."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-level, level, 9)
    worst = 0.0
    for ratios in itertools.product(grid, repeat=3):
        for _ in range(3):
            # Mix the three so that both sides are laws: sum q = sum q e^ratio = 1.
            r = np.exp(np.array(ratios))
            if not r.min() < 1.0 < r.max():
                continue
            high, low = int(r.argmax()), int(r.argmin())
            other = 3 - high - low
            q = np.zeros(3)
            q[other] = 0.99 * rng.random()
            rest, need = 1.0 - q[other], 1.0 - q[other] * r[other]
            q[high] = (need - rest * r[low]) / (r[high] - r[low])
            q[low] = rest - q[high]
            if q.min() < 0.0:
                continue
            for epsilon in (0.0, 0.3 * level, 0.8 * level):
                delta = hockey_stick(q * r, q, epsilon)
                bound = pure_delta(epsilon, level)
                assert delta <= bound + 1e-12
                worst = max(worst, delta / bound)
    assert worst > 0.999


@pytest.mark.parametrize("level", LEVELS)
def test_inverse(level):
    for delta in (0.0, 1e-300, 1e-12, 1e-6, 0.01, 0.3, 0.9, 1.0):
        epsilon = Pure(level).epsilon(delta)
        assert 0.0 <= epsilon <= level
        assert pure_delta(epsilon, level) <= delta
        if epsilon > 0.0:  # and no smaller one would do
            assert pure_delta(epsilon * (1.0 - 1e-9), level) >= delta * (1.0 - 1e-6)
    assert Pure(level).epsilon(0.0) == level
    curve = [pure_delta(e, level) for e in np.linspace(0.0, 1.1 * level, 200)]
    assert all(a >= b for a, b in itertools.pairwise(curve))
    assert curve[0] == pytest.approx(math.tanh(0.5 * level), rel=1e-12)
    assert curve[-1] == 0.0


def test_nothing_at_all():
    assert pure_delta(0.0, 0.0) == 0.0
    assert Pure(0.0).epsilon(0.0) == 0.0
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            pure_delta(wrong, 1.0)
        with pytest.raises(ValueError, match="epsilon"):
            pure_delta(1.0, wrong)
        with pytest.raises(ValueError, match="at least 0"):
            Pure(wrong)


def test_a_pure_guarantee():
    g = noisy_max.guarantee(noisy_max.calibrate(5, budget=dpoco.Budget(0.5, 0.0), noise="laplace"))
    assert (g.delta, g.loss) == (0.0, Pure(g.epsilon))
    assert g.epsilon == pytest.approx(0.5, rel=1e-9)
    assert g.epsilon_at(0.0) == g.epsilon
    assert g.epsilon_at(0.1) < g.epsilon
    assert g.delta_at(g.epsilon) == 0.0
    assert g.delta_at(0.2) == pure_delta(0.2, g.epsilon)
    g.require(dpoco.Budget(0.5, 0.0))
    with pytest.raises(dpoco.BudgetExceeded):
        g.require(dpoco.Budget(0.49, 1e-6))
    assert dpoco.Guarantee.from_json(g.to_json()) == g


def sums(a, b, n):
    """Pairs of a pure epsilon that the kernel states and the exact one; and two in doubles."""
    near, x, y = Neighbours("replace"), Fraction(a), Fraction(b)
    tests = ThresholdTests("laplace", a, b, 0.7, 1.1, n)
    exact = Fraction(0.7) / x + n * Fraction(1.1) / y
    yield tests.loss(near).pure, exact, 0.7 / a + n * 1.1 / b
    select = Selections("laplace", PromisedScores(b, False), a, n, 0.0)
    yield select.loss(near).pure, n * 2 * y / x, n * (2.0 * b / a)
    yield together(Pure(a), Pure(b)).pure, x + y, a + b
    yield BoundedRange(a, n).pure, n * x, n * a
    yield Responses(a, n).pure, n * x, n * a
    yield Declared("replace", False, a, b).loss(near).pure, x / y, a / b


def test_pure_epsilons_are_the_least_doubles_above_the_exact_sums():
    rng = np.random.default_rng(23)
    low = [0] * 6
    for a, b in np.exp(rng.uniform(-9.0, 9.0, (300, 2))).tolist():
        for at, (stated, exact, plain) in enumerate(sums(a, b, int(rng.integers(1, 1000)))):
            assert math.nextafter(stated, 0.0) < exact <= stated
            low[at] += plain < exact
    assert min(low) > 50  # sums in doubles are below the truth about every other time
    assert sum_up((10, 0.5, 1.0)) == 5.0
    assert sum_up((1, math.inf, 1.0)) == sum_up((1, 1e300, 1e-300)) == math.inf
