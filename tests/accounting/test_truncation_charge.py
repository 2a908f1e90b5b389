"""Truncated tails: the charge is valid, as small as claimed, and taken off before calibration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco.accounting import Budget
from dpoco.accounting.gaussian import (
    TAIL_MASS_PER_VARIATE,
    charged_delta,
    charged_epsilon,
    charged_gaussian_delta,
    charged_gaussian_epsilon,
    charged_gaussian_mu,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    reserve,
    truncation_mass,
)
from dpoco.accounting.rdp import zcdp_delta, zcdp_epsilon
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.loss import charge


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def test_the_charge_is_the_formula():
    assert TAIL_MASS_PER_VARIATE == 2.0**-64
    assert truncation_mass(10) == 10 * 2.0**-64
    assert truncation_mass(1e30) == 1.0
    assert charge(2.0, truncation_mass(1e6)) == pytest.approx((1 + math.e**2) * 1e6 / 2**64)
    assert charge(1e6, truncation_mass(1.0)) == math.inf
    assert charge(1e6, truncation_mass(0.0)) == 0.0


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), epsilon=st.floats(0.0, 3.0), mass=st.floats(0.0, 0.2))
def test_the_charge_covers_any_change_of_law(seed, epsilon, mass):
    """delta' <= delta + (1 + e^epsilon) tau for arbitrary laws tau apart in total variation."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6), size=2)

    def moved(law):
        other = (1 - mass) * law + mass * rng.dirichlet(np.ones(6) * 0.3)
        assert 0.5 * np.abs(law - other).sum() <= mass + 1e-12
        return other

    real = hockey_stick(moved(p), moved(q), epsilon)
    assert real <= hockey_stick(p, q, epsilon) + (1 + math.exp(epsilon)) * mass + 1e-12


def test_the_charge_is_attained():
    """Mass moved into an event under one stream and out of it under the other costs all of it."""
    epsilon, mass, a = 0.7, 0.01, 0.5
    p, q = np.array([a, 1 - a]), np.array([a * math.exp(-epsilon), 1 - a * math.exp(-epsilon)])
    move = np.array([mass, -mass])
    assert hockey_stick(p, q, epsilon) == pytest.approx(0.0, abs=1e-15)
    assert hockey_stick(p + move, q - move, epsilon) == pytest.approx(
        (1 + math.exp(epsilon)) * mass, rel=1e-12
    )


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("cut", [2.0, 3.0, 4.0])
def test_a_truncated_gaussian_obeys_the_charged_curve(mu, cut):
    x = np.linspace(-12.0, 12.0, 400_001)
    step = x[1] - x[0]

    def density(center):
        inside = np.abs(x - center) <= cut
        values = np.where(inside, np.exp(-0.5 * (x - center) ** 2), 0.0)
        return values / values.sum()

    mass = math.erfc(cut / math.sqrt(2))  # total variation to the untruncated law
    for epsilon in (0.0, 0.5, 1.0, 3.0, 8.0):
        real = hockey_stick(density(mu), density(0.0), epsilon)
        assert real <= charged_gaussian_delta(epsilon, mu, mass) + 10 * step


@settings(max_examples=100, deadline=None)
@given(mu=st.floats(1e-3, 20.0), log_mass=st.floats(-44.0, -5.0), epsilon=st.floats(0.0, 60.0))
def test_the_charged_curve_is_the_best_over_smaller_epsilon(mu, log_mass, epsilon):
    mass = math.exp(log_mass)
    grid = np.linspace(0.0, epsilon, 400)
    brute = min(gaussian_delta(e, mu) + (1 + math.exp(e)) * mass for e in grid)
    got = charged_gaussian_delta(epsilon, mu, mass)
    assert got <= min(1.0, brute) * (1 + 1e-12)
    assert got >= mass
    assert got <= charged_gaussian_delta(0.5 * epsilon, mu, mass) * (1 + 1e-12)


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
@settings(max_examples=100, deadline=None)
@given(
    epsilon=st.floats(0.01, 60.0),
    log_delta=st.floats(math.log(1e-12), math.log(0.3)),
    log_mass=st.floats(-44.0, -15.0),
)
def test_calibration_and_accounting_are_inverse(epsilon, log_delta, log_mass):
    delta, mass = math.exp(log_delta), math.exp(log_mass)
    if 4.0 * mass >= delta:
        mass = 1e-3 * delta
    mu = charged_gaussian_mu(Budget(epsilon, delta), mass)
    assert charged_gaussian_delta(epsilon, mu, mass) <= delta
    assert charged_gaussian_delta(epsilon, mu * (1 + 1e-9), mass) > delta * (1 - 1e-12)
    back = charged_gaussian_epsilon(mu, delta, mass)
    assert back <= epsilon
    assert charged_gaussian_delta(back, mu, mass) <= delta
    # Where the charge is not what decides, the two agree to nine digits.
    if (1 + math.exp(epsilon)) * mass < 1e-3 * delta:
        assert back == pytest.approx(epsilon, rel=1e-9)


def test_an_ordinary_charge_is_negligible():
    budget = Budget(1.0, 1e-4)
    mass = truncation_mass(1e4 * 50)
    assert charged_gaussian_mu(budget, mass) == pytest.approx(gaussian_mu(1.0, 1e-4), rel=1e-9)
    assert charged_gaussian_mu(budget, 0.0) == pytest.approx(gaussian_mu(1.0, 1e-4), rel=1e-12)
    assert charged_gaussian_epsilon(0.3, 1e-4, 0.0) == gaussian_epsilon(0.3, 1e-4)


def test_a_huge_epsilon_still_calibrates():
    """At epsilon = 60 the plain charge exceeds delta; a smaller epsilon pays for itself."""
    mass = truncation_mass(2e5)
    assert charge(60.0, truncation_mass(2e5)) > 1.0
    mu = charged_gaussian_mu(Budget(60.0, 1e-6), mass)
    assert mu >= charged_gaussian_mu(Budget(10.0, 1e-6), mass)
    assert charged_gaussian_delta(60.0, mu, mass) <= 1e-6
    rest = reserve(Budget(60.0, 1e-6), 2e5)
    assert 10.0 < rest.epsilon < 60.0
    assert rest.delta + charge(rest.epsilon, truncation_mass(2e5)) < 0.9e-6


def test_nothing_left_is_an_error():
    with pytest.raises(CalibrationError, match="truncated tails"):
        charged_gaussian_mu(Budget(1.0, 1e-12), 1e-12)
    with pytest.raises(CalibrationError, match="truncated tails"):
        reserve(Budget(1.0, 1e-9), 1e12)
    left = reserve(Budget(1.0, 1e-6), 1e8)
    assert left.epsilon == 1.0
    assert left.delta == pytest.approx(1e-6 - (1 + math.e) * 1e8 / 2**64, rel=1e-12)
    assert charged_gaussian_epsilon(1.0, 1e-12, 1e-12) == math.inf
    assert charged_gaussian_delta(3.0, 1.0, 0.6) == 1.0
    assert charged_gaussian_epsilon(1.0, 0.9, 0.6) == math.inf
    # A mechanism that reveals nothing still pays for its tails.
    assert charged_gaussian_delta(3.0, 0.0, 1e-3) == 2e-3
    assert charged_gaussian_epsilon(0.0, 1e-3, 1e-3) == math.inf
    assert charged_gaussian_epsilon(0.0, 2e-3, 1e-3) == 0.0
    assert charged_gaussian_epsilon(math.inf, 0.5, 1e-3) == math.inf
    # Where even epsilon = 0 qualifies.
    assert charged_gaussian_epsilon(1e-3, 0.01, 1e-6) == 0.0
    with pytest.raises(ValueError, match="variates"):
        truncation_mass(-1.0)


def test_any_curve_can_be_charged():
    rho, mass = 0.05, 1e-9

    def at(epsilon):
        return charged_delta(lambda e: zcdp_delta(e, rho), epsilon, mass)

    assert at(1.0) == pytest.approx(zcdp_delta(1.0, rho) + (1 + math.e) * mass, rel=1e-12)
    assert at(100.0) <= min(at(e) for e in (3.0, 6.0, 12.0)) * 1.5 < 1e-4
    epsilon = charged_epsilon(lambda t: zcdp_epsilon(rho, t), at, 1e-5, mass)
    assert at(epsilon) <= 1e-5
    assert epsilon == pytest.approx(zcdp_epsilon(rho, 1e-5 - (1 + math.exp(epsilon)) * mass))
    assert charged_epsilon(lambda t: zcdp_epsilon(rho, t), at, 1e-9, mass) == math.inf
