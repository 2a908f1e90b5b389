"""The Gaussian mechanism: oracles, high-precision references, both directions, wrong scales."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco.accounting import Budget
from dpoco.accounting.gaussian import (
    compose_gdp,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_sigma,
)
from dpoco.errors import CalibrationError

MU = [
    (0.1, 1e-5, 0.032521, 1e-6), (0.5, 1e-4, 0.1696701740, 1e-10), (1, 1e-3, 0.388401, 1e-6),
    (1, 1e-5, 0.268051, 1e-6), (1, 1e-6, 0.2367043807, 1e-10), (2, 1e-5, 0.501552, 1e-6),
    (3, 1e-5, 0.7191174352, 1e-10), (4, 1e-5, 0.924931, 1e-6), (8, 1e-5, 1.666031, 1e-6),
    (20, 1e-9, 2.7792284837, 1e-10),
]  # fmt: skip


def reference_delta(epsilon, mu):
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(("epsilon", "delta", "mu", "tolerance"), MU)
def test_largest_mu_oracles(epsilon, delta, mu, tolerance):
    assert gaussian_mu(epsilon, delta) == pytest.approx(mu, abs=tolerance)


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [(0.7, 1e-5, 2.90971533), (2, 1e-6, 10.99715121), (0.05, 1e-8, 0.23857809)],
)
def test_smallest_epsilon_oracles(mu, delta, epsilon):
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, abs=1e-8)


@pytest.mark.parametrize("x", [-0.4, 0.0, 0.3, 1.0, 3.0, 6.0, 9.0, 11.5, 20.0, 29.0, 31.0, 36.0])
def test_delta_agrees_with_sixty_digits(x):
    for mu in [1e-9, 1e-6, 1e-3, 0.1, 0.9, 1.1, 3.0, 10.0, 100.0, 1e3]:
        epsilon = max(0.0, mu * (x + mu / 2))  # so that mu/2 - epsilon/mu = -x
        want = reference_delta(epsilon, mu)
        # Rounding of epsilon itself moves delta by a relative x/mu * epsilon * 2^-53.
        allowed = 2e-12 + 8 * abs(x / mu + 1) * epsilon * 2.0**-53
        assert allowed < 1e-9
        assert abs(mpmath.mpf(gaussian_delta(epsilon, mu)) / want - 1) < allowed


def test_limits_of_the_curve():
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(math.inf, 5.0) == 0.0
    assert gaussian_delta(3.0, math.inf) == 1.0
    assert 0.0 < gaussian_delta(1.0, 1e-3) < 1e-322  # never below the truth
    assert gaussian_delta(0.0, 1.0) == pytest.approx(math.erf(0.5 / math.sqrt(2)), rel=2e-12)
    assert gaussian_epsilon(0.0, 1e-6) == 0.0
    assert gaussian_epsilon(1e-3, 0.01) == 0.0
    assert gaussian_epsilon(1e9, 0.01) == math.inf


@settings(max_examples=100, deadline=None)
@given(epsilon=st.floats(1e-3, 200.0), log_delta=st.floats(math.log(1e-30), math.log(0.5)))
def test_mu_and_epsilon_are_inverse_and_never_on_the_wrong_side(epsilon, log_delta):
    delta = math.exp(log_delta)
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1.2e-11)) >= delta * (1 - 1e-12)  # twelve digits
    back = gaussian_epsilon(mu, delta)
    assert gaussian_delta(back, mu) <= delta
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-9, abs=2e-10 * (1.0 + mu) ** 2)


@settings(max_examples=100, deadline=None)
@given(log_mu=st.floats(math.log(1e-9), math.log(1e3)), x=st.floats(0.5, 11.0))
def test_mu_is_found_over_the_whole_range(log_mu, x):
    mu = math.exp(log_mu)
    epsilon = mu * (x + mu / 2)
    delta = gaussian_delta(epsilon, mu)
    found = gaussian_mu(epsilon, delta)
    assert found <= mu * (1 + 1e-12)
    assert found == pytest.approx(mu, rel=2e-11)
    assert float(f"{found:.11e}") == found  # a plan is the same on every machine


@settings(max_examples=100, deadline=None)
@given(epsilon=st.floats(0.0, 30.0), mu=st.floats(1e-4, 20.0), factor=st.floats(1.0001, 3.0))
def test_the_curve_is_monotone(epsilon, mu, factor):
    assert gaussian_delta(epsilon, mu) <= gaussian_delta(epsilon, mu * factor)
    assert gaussian_delta(epsilon * factor, mu) <= gaussian_delta(epsilon, mu)


def test_a_wrong_scale_is_seen():
    budget = Budget(1.0, 1e-6)
    sigma = gaussian_sigma(budget, 2.0)
    assert sigma == pytest.approx(2.0 / 0.2367043807, rel=1e-9)
    assert gaussian_epsilon(2.0 / sigma, budget.delta) <= 1.0
    assert gaussian_epsilon(2.0 / (sigma / math.sqrt(2)), budget.delta) > 1.4
    assert gaussian_epsilon(2.0 / (sigma * math.sqrt(2)), budget.delta) < 0.72


@pytest.mark.parametrize(
    ("delta", "limit"), [(1e-2, 6.24), (1e-3, 6.97), (1e-4, 7.52), (1e-5, 7.96), (1e-6, 8.33)]
)
def test_the_textbook_scale_fails_beyond_its_range(delta, limit):
    """sigma^2 = 2 ln(1/delta) s^2 / epsilon^2 is private up to `limit` only."""

    def exact(epsilon):
        return gaussian_delta(epsilon, epsilon / math.sqrt(2 * math.log(1 / delta)))

    assert exact(limit - 0.01) <= delta < exact(limit + 0.02)


def test_composition_is_euclidean():
    assert compose_gdp([3.0, 4.0]) == 5.0
    assert compose_gdp([0.1] * 100) == pytest.approx(1.0, rel=1e-15)
    assert compose_gdp([]) == 0.0
    assert compose_gdp([1.7e308, 1.7e308]) == math.inf
    for mus in np.random.default_rng(1).random((300, 3)).tolist():  # hypot was below 150 times
        mu, square = compose_gdp(mus), sum(Fraction(each) ** 2 for each in mus)
        assert Fraction(math.nextafter(mu, 0.0)) ** 2 < square <= Fraction(mu) ** 2
    with pytest.raises(ValueError, match="at least 0"):
        compose_gdp([1.0, -1.0])


def test_out_of_range_calibration_is_an_error():
    with pytest.raises(CalibrationError):
        gaussian_mu(1e-12, 1e-30)
    with pytest.raises(CalibrationError):
        gaussian_mu(1e7, 0.1)
