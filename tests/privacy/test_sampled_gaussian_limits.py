"""The sampled Gaussian mechanism: rare steps that decide, small deltas, where doubles end."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest

from dpoco.accounting import noisy_sgd as accountant
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpoco.privacy.losses import sampled_sum as composition
from dpoco.privacy.losses.sampled import Sampled
from dpoco.privacy.losses.sampled_step import REACHES, sampled_step

from .sampled_gaussian_reference import exact_delta

# (n, mu, K, epsilon): K/n of 1 to 10, mu about 1, delta from 1e-10 to 1e-21.
RARE = [
    (100_000, 1.0, 10**6, 0.09176),
    (100_000, 1.0, 10**6, 0.1049),
    (67_654, 0.611294038758391, 82_697, 0.02003),
    (67_654, 0.611294038758391, 82_697, 0.0297289),
]


@pytest.mark.parametrize(("n", "mu", "k", "epsilon"), RARE)
def test_few_rare_steps_are_accounted_for_tightly(n, mu, k, epsilon):
    exact = exact_delta(epsilon, n, mu, k)
    got = Sampled(records=n, multiplier=1 / mu, steps=k).delta(epsilon)
    assert exact * (1 - 1e-6) <= got <= 1.02 * exact
    # A grid that reaches far is valid, but twenty times too high.
    far, _ = composition.composed_delta(epsilon, sampled_step(n, mu, k, REACHES[-1]), k)
    assert far > 20.0 * exact


@pytest.mark.parametrize(("n", "mu", "k", "epsilon"), RARE[:2])
def test_every_reach_is_valid(n, mu, k, epsilon):
    exact = exact_delta(epsilon, n, mu, k)
    for reach in (20.0, *REACHES):
        bound, _ = composition.composed_delta(epsilon, sampled_step(n, mu, k, reach), k)
        assert bound >= exact * (1 - 1e-6)


def test_calibration_at_small_deltas_needs_no_more_noise_than_there_is():
    multiplier = accountant.sampled_gaussian_multiplier(0.1053, 1e-12, records=10**5, steps=10**6)
    assert 0.99 < multiplier < 1.01  # 1.38 with a grid that reaches far


def test_bounds_without_a_sum_hold_too():
    # Losses of 2400 steps cannot add up to this epsilon on any grid: Markov's inequality is left.
    for n, mu, k, epsilon in ((510_287, 0.03765, 2435, 0.00445), (1000, 1.0, 40, 1.0)):
        for reach in REACHES:
            step = sampled_step(n, mu, k, reach)
            theta = composition._tilt(epsilon, step, k)
            size = k * math.log1p(float(step.moment_excess(np.array([theta]))[0])) - theta * epsilon
            plain = composition._chernoff(size, epsilon, step, k, theta)
            bound, _ = composition.composed_delta(epsilon, step, k)
            assert bound <= plain * (1 + 1e-9) or bound < 1.5 * plain
            assert plain >= k * step.beyond
    n, mu, k, epsilon = RARE[0]
    step = sampled_step(n, mu, k, REACHES[0])
    theta = composition._tilt(epsilon, step, k)
    size = k * math.log1p(float(step.moment_excess(np.array([theta]))[0])) - theta * epsilon
    plain = composition._chernoff(size, epsilon, step, k, theta)
    assert exact_delta(epsilon, n, mu, k) < plain < 100.0 * exact_delta(epsilon, n, mu, k)


@pytest.mark.parametrize(("n", "k", "multiplier"), [(1000, 100, 1.0), (1000, 10**6, 2.0),
                         (1000, 1, 0.5), (50, 10, 1e100), (7, 3, 0.01)])  # fmt: skip
def test_small_deltas_have_an_epsilon(n, k, multiplier):
    found = [
        Sampled(records=n, multiplier=multiplier, steps=k).epsilon(delta)
        for delta in (1e-100, 1e-299, 1e-301, 1e-310, 2e-323)
    ]
    assert all(math.isfinite(epsilon) for epsilon in found)
    assert all(b >= a * (1 - 1e-9) for a, b in pairwise(found))
    plain = gaussian_epsilon(math.sqrt(k) / multiplier, 1e-310)
    assert found[3] <= plain * (1 + 1e-9)


def test_extreme_arguments_neither_warn_nor_fail():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epsilon in (0.0, 1e-300, 1.0, 1e12, 1e300):
            for multiplier in (1e-100, 0.5, 1e8, 1e100):
                for k in (1, 10**5, 10**13):
                    got = Sampled(records=1000, multiplier=multiplier, steps=k).delta(epsilon)
                    assert 0.0 <= got <= gaussian_delta(epsilon, math.sqrt(k) / multiplier)


@pytest.mark.parametrize(("n", "mu", "k", "end"), [(510_287, 0.03765, 2435, 0.0055),
                         (100, 0.8, 20, 4.0), (5000, 1.3, 30_000, 1.0)])  # fmt: skip
def test_bounds_do_not_rise_with_epsilon(n, mu, k, end):
    curve = [
        Sampled(records=n, multiplier=1 / mu, steps=k).delta(float(e))
        for e in np.linspace(0.0, end, 15)
    ]
    assert all(b <= a * (1 + 1e-3) for a, b in pairwise(curve))


@pytest.mark.parametrize(("n", "k", "epsilon", "delta"), [
    (500, 500, 1.0, 1e-6), (1000, 1000, 1.0, 1e-6), (1000, 3000, 3.0, 1e-9), (300, 300, 3.0, 1e-9),
])  # fmt: skip
def test_calibrated_noise_is_enough_when_it_is_evaluated_again(n, k, epsilon, delta):
    multiplier = accountant.sampled_gaussian_multiplier(epsilon, delta, records=n, steps=k)
    found = [
        Sampled(n, multiplier * (1.0 + j * 2.3e-16), k).delta(epsilon * (1.0 + i * 2.3e-16))
        for i in (-1, 0, 1)
        for j in (-2, -1, 0, 1, 2)
    ]  # fmt: skip
    assert max(found) <= delta
    assert len(set(found)) > 1  # the last bits do matter
    shorter = 0.999 * multiplier
    assert Sampled(records=n, multiplier=shorter, steps=k).delta(epsilon) > delta
