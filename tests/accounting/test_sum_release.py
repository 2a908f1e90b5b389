"""Calibration and guarantee of a bare continual sum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpoco.accounting import Budget, sum_release
from dpoco.accounting.continual_sum import column_norm, lower_bound, max_error
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.release import noise_order
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.neighbours import Neighbours

BUDGET = Budget(1.0, 1e-6)


def test_the_largest_change_of_a_clipped_vector():
    """Random and extreme vectors of the ball never differ by more than the sensitivity."""
    rng = np.random.default_rng(0)
    for q, d in itertools.product([1.0, 1.5, 2.0, 3.0, 21.0, math.inf], [1, 4, 9]):
        reach = ClippedVector(d, q, 1.5, math.inf).movement(Neighbours())
        points = np.concatenate([rng.normal(size=(500, d)), np.ones((1, d)), np.eye(d)])
        points *= 1.5 / np.linalg.norm(points, ord=q, axis=1, keepdims=True)
        longest = 2 * np.linalg.norm(points, axis=1).max()
        assert longest <= reach * (1 + 1e-12)
        assert longest == pytest.approx(reach, rel=1e-12)
    assert ClippedVector(100, math.inf, 1.0, 3.0).movement(Neighbours()) == 6.0
    plain = ClippedVector(100, math.inf, 1.0, math.inf)
    assert (plain.movement(Neighbours("zero_out")), plain.inflation(2.0)) == (10.0, 1.0)
    assert (plain.movement(Neighbours(), 3.0), plain.movement(Neighbours("zero_out"), 3.0)) == (
        2,
        1,
    )
    assert plain.inflation(3.0) == pytest.approx(math.sqrt(2.0) * 100.0 ** (1 / 3))


def test_variance_and_scale():
    p = sum_release.calibrate(2, horizon=1000, budget=BUDGET).mechanism
    assert p.factorisation.kind == "blt_normalised"
    assert lower_bound(1000) < max_error(p.factorisation, 1000) < 1.06 * lower_bound(1000)
    p = sum_release.calibrate(2, horizon=1000, budget=BUDGET, method="blt").mechanism
    assert p.scale == pytest.approx(2 * column_norm("blt", 1000) / gaussian_mu(1.0, 1e-6))
    assert math.sqrt(sum_release.variance(p, 1000)) == pytest.approx(27.6, abs=0.05)
    assert sum_release.variance(p, 1) == pytest.approx(p.scale**2, rel=1e-8)
    assert sum_release.variance(p, 1) > p.scale**2  # the grid of released sums
    unknown = sum_release.calibrate(2, horizon=None, budget=BUDGET).mechanism
    assert (unknown.pushes, unknown.factorisation.kind) == (10**9, "blt")


def test_orders_follow_the_noise():
    assert noise_order("gaussian", None, 5.0, 100) == 2.0
    assert noise_order("generalized_gaussian", 2.5, 3.0, 100) == 2.5
    with pytest.raises(ValueError, match="norm_order"):
        noise_order("gaussian", 3.0, 5.0, 100)
    with pytest.raises(ValueError, match="norm_order"):
        noise_order("generalized_gaussian", 4.0, 3.0, 100)
    with pytest.raises(ValueError, match="order"):
        noise_order("generalized_gaussian", 1.5, 3.0, 100)
    with pytest.raises(ValueError, match="order"):
        noise_order("generalized_gaussian", math.inf, math.inf, 100)


def test_more_numbers_than_noise_has_tails_for_are_refused():
    with pytest.raises(CalibrationError):
        sum_release.calibrate(10**9, horizon=10**9, budget=BUDGET)
