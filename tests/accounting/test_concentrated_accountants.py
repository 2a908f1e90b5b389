"""zCDP and Renyi accounting: oracles, brute force over orders, agreement with a library."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpoco.accounting.rdp import (
    DEFAULT_ORDERS,
    compose_zcdp,
    rdp_delta,
    rdp_epsilon,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from dpoco.errors import CalibrationError


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho", "tolerance"),
    [
        (1, 1e-3, 0.059390, 1e-6), (1, 1e-5, 0.030557, 1e-6), (1, 1e-6, 0.0243559704, 1e-10),
        (2, 1e-5, 0.108256, 1e-6), (4, 1e-5, 0.373144, 1e-6), (8, 1e-5, 1.229715, 1e-6),
        (0.5, 1e-4, 0.0116800701, 1e-10), (20, 1e-9, 3.5973862301, 1e-9),
    ],
)  # fmt: skip
def test_largest_rho_oracles(epsilon, delta, rho, tolerance):
    assert zcdp_rho(epsilon, delta) == pytest.approx(rho, abs=tolerance)


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"),
    [(0.1, 1e-5, 1.91423883), (1, 1e-6, 7.76621663), (0.001, 1e-4, 0.12749473)],
)
def test_smallest_epsilon_oracles(rho, delta, epsilon):
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, abs=1e-8)


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("factor", [1.5, 3.0, 8.0])
def test_delta_is_the_minimum_over_orders(rho, factor):
    epsilon = rho + factor * math.sqrt(rho)
    t = np.exp(np.linspace(-14, 14, 400_001))
    logs = t * ((1 + t) * rho - epsilon) - np.log(t) - (1 + t) * np.log1p(1 / t)
    assert zcdp_delta(epsilon, rho) == pytest.approx(math.exp(min(0.0, logs.min())), rel=1e-7)


@settings(max_examples=100, deadline=None)
@given(epsilon=st.floats(1e-3, 100.0), log_delta=st.floats(math.log(1e-30), math.log(0.1)))
def test_rho_and_epsilon_are_inverse(epsilon, log_delta):
    delta = math.exp(log_delta)
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_delta(epsilon, rho) <= delta
    assert zcdp_delta(epsilon, rho * (1 + 1e-9)) >= delta * (1 - 1e-6)
    back = zcdp_epsilon(rho, delta)
    assert back <= epsilon * (1 + 1e-12)
    assert back == pytest.approx(epsilon, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(mu=st.floats(0.01, 5.0), epsilon=st.floats(0.0, 30.0))
def test_zcdp_never_beats_the_exact_gaussian_curve(mu, epsilon):
    assert zcdp_delta(epsilon, mu**2 / 2) >= gaussian_delta(epsilon, mu) * (1 - 1e-9)


def test_limits():
    assert zcdp_delta(1.0, 0.0) == zcdp_delta(0.0, 0.0) == 0.0
    assert zcdp_delta(math.inf, 1.0) == 0.0
    assert zcdp_delta(0.0, math.inf) == 1.0
    assert zcdp_delta(0.0, 50.0) == 1.0
    assert zcdp_epsilon(0.0, 0.1) == 0.0
    assert zcdp_epsilon(1e16, 0.1) == math.inf
    assert compose_zcdp([0.25, 0.5]) == 0.75
    assert compose_zcdp([1.7e308, 1.7e308]) == math.inf
    for rhos in np.random.default_rng(1).random((300, 3)).tolist():  # a sum to nearest is not
        assert Fraction(compose_zcdp(rhos)) >= sum(map(Fraction, rhos))
    with pytest.raises(CalibrationError):
        zcdp_rho(1e-9, 1e-30)


def test_renyi_agrees_with_zcdp_on_a_fine_grid():
    orders = np.array(DEFAULT_ORDERS)
    for rho, epsilon in [(0.01, 0.5), (0.5, 4.0), (3.0, 20.0)]:
        mu = math.sqrt(2 * rho)
        delta = rdp_delta(orders, 0.5 * mu * mu * orders, epsilon)
        exact = zcdp_delta(epsilon, rho)
        assert exact * (1 - 1e-12) <= delta < 1.01 * exact
        back = rdp_epsilon(orders, 0.5 * mu * mu * orders, delta)
        assert back == pytest.approx(epsilon, rel=1e-12)
        for each in (delta, 1e-3, 1e-9):  # and on the safe side of rounding
            at = rdp_epsilon(orders, 0.5 * mu * mu * orders, each)
            assert rdp_delta(orders, 0.5 * mu * mu * orders, at) <= each


def test_renyi_agrees_with_dp_accounting():
    accounting = pytest.importorskip("dp_accounting")
    orders = [1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 40.0]
    for mu in (0.3, 1.0, 2.5):
        divergences = 0.5 * mu**2 * np.array(orders)
        theirs, _ = accounting.rdp.compute_epsilon(orders, divergences, 1e-6)
        assert rdp_epsilon(orders, divergences, 1e-6) == pytest.approx(theirs)
        assert theirs >= gaussian_epsilon(mu, 1e-6)
