"""Guesses, tests, odds and groups: bounds against the exact laws they are about."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy

from dpoco.accounting import Guarantee
from dpoco.accounting import attack_power as power
from dpoco.accounting.gaussian import charged_gaussian_epsilon, gaussian_epsilon
from dpoco.accounting.rdp import zcdp_epsilon
from dpoco.privacy.losses.bounded_range import BoundedRange

from .by_hand import restated, stated

PRIORS = (0.5, 0.3, 0.1, 0.01, 0.7, 0.999)


@pytest.mark.parametrize("mu", [0.1, 0.8, 3.0])
@pytest.mark.parametrize("prior", PRIORS)
def test_guesses_against_the_best_test_between_normals(mu, prior):
    """Bayes' rule between N(mu, 1) and N(0, 1): the bound is attained."""
    cut = 0.5 * mu + math.log((1 - prior) / prior) / mu
    exact = prior * scipy.stats.norm.sf(cut - mu) + (1 - prior) * scipy.stats.norm.cdf(cut)
    assert power.guessing_probability(stated(mu=mu), prior) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_guesses_of_a_randomised_response(epsilon):
    keep = 1 / (1 + math.exp(-epsilon))
    for prior in PRIORS:
        exact = sum(max(prior * p, (1 - prior) * (1 - p)) for p in (keep, 1 - keep))
        found = power.guessing_probability(stated(pure=epsilon), prior)
        assert found == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("mu", [0.1, 0.8, 3.0])
@pytest.mark.parametrize("alarm", [0.3, 0.05, 1e-3])
def test_power_against_the_best_test_between_normals(mu, alarm):
    exact = scipy.stats.norm.cdf(scipy.stats.norm.ppf(alarm) + mu)
    found = power.test_power(stated(mu=mu), alarm)
    assert exact <= found <= 1.02 * exact


def test_power_against_a_randomised_response():
    for epsilon in (0.3, 2.0):
        keep = 1 / (1 + math.exp(-epsilon))
        for alarm in (0.5, 0.2, 1e-3):
            mixed = min(1, alarm / (1 - keep)) * keep
            rest = max(0.0, alarm - (1 - keep)) / keep * (1 - keep)
            found = power.test_power(stated(pure=epsilon), alarm)
            assert found == pytest.approx(mixed + rest, rel=1e-9)
    assert power.test_power(Guarantee.none(1), 0.01) == 1.0


def test_odds_rise_by_more_than_twice_e_to_the_epsilon_with_probability_two_delta():
    """Under N(mu, 1): the probability is below 2 delta, and of its order."""
    for mu in (0.2, 1.0, 4.0):
        for delta in (1e-3, 1e-6):
            epsilon = gaussian_epsilon(mu, delta)
            cut = (epsilon + math.log(2)) / mu + 0.5 * mu
            chance = scipy.stats.norm.sf(cut - mu)
            assert chance <= 2 * delta
    # Without the factor 2 it would be wrong: more than 2 delta is beyond e^epsilon itself.
    epsilon = gaussian_epsilon(0.2, 1e-6)
    assert scipy.stats.norm.sf(epsilon / 0.2 - 0.1) > 2e-6


def test_posteriors():
    assert power.posterior(0.5, 3.0) == 0.75
    assert power.posterior(0.1, 9.0) == pytest.approx(0.5)
    assert power.posterior(0.1, 1.0) == pytest.approx(0.1)
    assert power.posterior(0.1, math.inf) == 1.0


@pytest.mark.parametrize("units", [1, 2, 5, 10])
def test_groups(units):
    tailed = stated(mu=0.3, truncation_mass=1e-12)
    exact = charged_gaussian_epsilon(units * 0.3, 1e-6, 1e-12)
    assert power.group_epsilon(tailed, units) == pytest.approx(exact, rel=1e-9)
    pure = stated(pure=0.2)
    assert power.group_epsilon(pure, units) == pytest.approx(units * 0.2, rel=1e-12)
    bare = restated(tailed, mu=None, rho=0.02, epsilon=50.0, truncation_mass=0.0)
    assert power.group_epsilon(bare, units, 1e-5) == pytest.approx(
        min(50.0 * units, zcdp_epsilon(units**2 * 0.02, 1e-5)), rel=1e-9
    )


def test_epsilons_of_groups_are_rounded_up():
    """k epsilon, compared exactly: to nearest, many of these were less."""
    for units in (3, 5, 7, 10):
        for epsilon in (0.1, 0.3, 0.7, 1.1, 2.3):
            exact = units * Fraction(epsilon)
            found = power.group_epsilon(stated(pure=epsilon), units)
            assert exact <= found <= math.nextafter(float(exact), math.inf)


def test_groups_of_a_guarantee_known_at_one_point():
    """k steps of (1, 1e-9): delta grows like 1 + e + ... + e^(k-1)."""
    point = restated(stated(pure=1.0), profile=None, epsilon=1.0, delta=1e-9)
    grown = 1e-9 * (1 + math.e + math.e**2)
    assert power.group_epsilon(point, 3, grown * (1 + 1e-9)) == 3.0
    assert power.group_epsilon(point, 3, grown * (1 - 1e-9)) == math.inf
    assert power.group_epsilon(point, 3) == math.inf
    assert power.group_epsilon(Guarantee.none(1), 3, 0.5) == math.inf
    large = dataclasses.replace(point, epsilon=300.0)
    assert power.group_epsilon(large, 3, 0.1) == math.inf
    none = dataclasses.replace(point, delta=1.0)
    assert power.group_epsilon(none, 2) == math.inf


def test_groups_of_selections_are_not_below_the_truth():
    """Two-outcome softmax twice apart: range 2 r."""
    g = stated(profile={"kind": "bounded_range", "range": 0.5, "count": 1})
    for delta in (1e-3, 1e-2, 0.1):
        found = power.group_epsilon(g, 2, delta)
        assert BoundedRange(1.0).epsilon(delta) <= found <= 1.0


def test_groups_of_any_size():
    g = stated(mu=1.0)
    assert np.isfinite(power.group_epsilon(g, 10))
    assert power.group_epsilon(g, 2, 0.9) == 0.0
