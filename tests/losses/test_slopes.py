"""The logistic loss with bounded slopes: known digits, its calibration, and who takes it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from tests.probes import probes

import dpoco
from dpoco import losses
from dpoco.domains import LpBall
from dpoco.losses import LogisticLoss
from dpoco.oco import NoisyFTRL

BALL, BUDGET = LpBall(3, 2.0, 2.0), dpoco.Budget(1.0, 1e-4)
ONE = np.ones(1)


def slopes(bound, z, y):
    z = np.atleast_1d(z)
    return LogisticLoss(1.0, slope_bound=bound)._glm_engine.derivatives(z, np.full(z.shape, y))


def damped(bound, z, p):
    """The mean slope, where labels have mean p."""
    q = 1.0 / (1.0 + math.exp(-z))
    return min(1.0, bound / max(q, 1.0 - q)) * (q - p)


@pytest.mark.parametrize(
    ("z", "one", "zero", "curvature"),
    [(-2.0, -0.5, 0.06766764, 0.05960146), (0.5, -0.30326533, 0.5, 0.18877033),
     (3.0, -0.02489353, 0.5, 0.02371294)],
)  # fmt: skip
def test_known_digits(z, one, zero, curvature):
    assert slopes(0.5, z, 1.0)[0] == pytest.approx(one, abs=1e-8)
    assert slopes(0.5, z, 0.0)[0] == pytest.approx(zero, abs=1e-8)
    engine = LogisticLoss(1.0, slope_bound=0.5)._glm_engine
    assert probes.curvatures(engine, np.array([z]), ONE)[0] == pytest.approx(curvature, abs=1e-8)


@pytest.mark.parametrize("bound", [0.5, 0.6, 0.75, 0.9, 1.0])
def test_slopes_are_bounded_and_grow_and_the_excess_is_calibrated(bound):
    loss = LogisticLoss(50.0, slope_bound=bound)
    z = np.linspace(-9.0, 9.0, 721)
    for y in (0.0, 0.3, 1.0):
        found = slopes(bound, z, y)
        assert np.abs(found).max() <= loss.derivative_bound(40.0) * (1 + 1e-12)
        steps = np.diff(found)
        assert steps.min() >= -1e-12
        assert steps.max() <= loss.curvature_bound(9.0) * (z[1] - z[0]) * (1 + 1e-9)
    for p in (0.02, 0.3, 0.5, 0.97):
        best = math.log(p / (1.0 - p))
        for at in (-4.0, -0.5, 0.2, 3.0):
            plain, _ = scipy.integrate.quad(
                lambda t, p=p: damped(1.0, t, p), best, at, points=[0.0]
            )
            other, _ = scipy.integrate.quad(
                lambda t, p=p: damped(bound, t, p), best, at, points=[0.0]
            )
            assert plain <= other / bound * (1.0 + 1e-9)
    if bound < 1.0:  # and by no smaller factor
        plain, _ = scipy.integrate.quad(lambda t: damped(1.0, t, 1e-9), -20.7, 12.0, limit=200)
        other, _ = scipy.integrate.quad(lambda t: damped(bound, t, 1e-9), -20.7, 12.0, limit=200)
        assert plain > 1.01 * other


def test_nothing_changes_without_a_bound_and_values_are_the_logistic_loss():
    plain, damped_loss = LogisticLoss(2.0), LogisticLoss(2.0, slope_bound=0.5)
    assert "slope_bound" not in plain.to_dict()
    assert "slope_bound" not in repr(plain)
    assert losses.from_dict({"type": "LogisticLoss", "feature_bound": 2.0,
                             "feature_bound_l2": None}) == plain  # fmt: skip
    assert losses.from_dict(damped_loss.to_dict()) == damped_loss
    assert "slope_bound=0.5" in repr(damped_loss)
    rows, labels = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2.0
    theta = np.array([1.0, -2.0, 0.5])
    assert np.array_equal(plain.value(theta, rows, labels), damped_loss.value(theta, rows, labels))
    whole = LogisticLoss(2.0, slope_bound=1.0)
    assert np.array_equal(plain.gradient(theta, rows, labels), whole.gradient(theta, rows, labels))
    for wrong in (0.49, 1.01, 0.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="slope_bound"):
            LogisticLoss(1.0, slope_bound=wrong)
    with pytest.raises(TypeError):
        LogisticLoss(1.0, slope_bound="half")


def test_the_leader_needs_less_noise_and_reports_the_logistic_loss():
    given = {"horizon": 200, "budget": BUDGET, "source": dpoco.random.Source.seeded(1)}
    plain = NoisyFTRL(LpBall(3, 2.0, 50.0), LogisticLoss(1.0), **given)
    half = NoisyFTRL(LpBall(3, 2.0, 50.0), LogisticLoss(1.0, slope_bound=0.5), **given)
    assert half.plan.mechanism.scale == pytest.approx(0.5 * plain.plan.mechanism.scale, rel=1e-9)
    assert half.guarantee.epsilon == pytest.approx(1.0)
    assert "not of the logistic loss" in half.guarantee.details["regret bound holds for"]
    rng = np.random.default_rng(3)
    rows, labels = rng.normal(size=(200, 3)), rng.integers(0, 2, 200).astype(float)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    run = half.run(rows, labels)
    margins = np.einsum("td,td->t", rows, run.decisions)
    assert np.allclose(run.losses, np.logaddexp(0.0, margins) - labels * margins)
