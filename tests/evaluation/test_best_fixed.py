"""The best fixed decision: against tangents, against other points, and as learners clip."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpoco
from dpoco.domains import Box, LpBall, Simplex
from dpoco.evaluation import best_fixed_decision
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss

D, T = 4, 60
GENERATOR = np.random.default_rng(3)
FEATURES = GENERATOR.normal(size=(T, D))
FEATURES /= 2.0 * np.abs(FEATURES).sum(axis=1, keepdims=True)  # within every bound below
TRUTH = np.array([3.0, -2.0, 1.0, 0.0])
NOISE = GENERATOR.normal(size=T)
LABELS = {
    "squared": np.clip(FEATURES @ TRUTH + 0.1 * NOISE, -1.0, 1.0),
    "huber": np.clip(FEATURES @ TRUTH + 0.4 * NOISE, -1.0, 1.0),
    "logistic": (FEATURES @ TRUTH + 0.3 * NOISE > 0.0).astype(float),
}
LOSSES = {
    "squared": SquaredLoss(1.0, 1.0, weight=0.7),
    "huber": HuberLoss(1.0, 1.0, threshold=0.3),
    "logistic": LogisticLoss(1.0),
}
DOMAINS = {
    "l1": LpBall(D, 1.0, 1.5),
    "l1.5": LpBall(D, 1.5, 1.5),
    "l2": LpBall(D, 2.0, 1.5),
    "linf": LpBall(D, math.inf, 0.8),
    "box": Box([-0.5, -1.0, 0.2, -1.0], [2.0, -0.2, 0.4, 3.0]),
    "simplex": Simplex(D, 1.2),
    "large": LpBall(D, 2.0, 50.0),  # the optimum of the regressions is inside
}


def largest_excess(domain, loss, labels, theta):
    """Return how far theta can be above the optimum: a convex loss lies above its tangents."""
    slope = loss.gradient(theta, FEATURES, labels).mean(axis=0)
    if isinstance(domain, Simplex):
        least = domain.scale * slope.min()
    elif isinstance(domain, Box):
        least = np.minimum(slope * domain.lower, slope * domain.upper).sum()
    else:
        least = -domain.radius * np.linalg.norm(slope, ord=domain.dual_exponent)
    return float(slope @ theta - least)


@pytest.mark.parametrize("family", LOSSES)
@pytest.mark.parametrize("set_", DOMAINS)
def test_is_the_optimum(set_, family):
    domain, loss, labels = DOMAINS[set_], LOSSES[family], LABELS[family]
    best = best_fixed_decision(domain, loss, FEATURES, labels, tolerance=1e-9)
    assert domain.contains(best.decision)
    excess = largest_excess(domain, loss, labels, best.decision)
    assert excess <= 2e-9 * loss.value(domain.center, FEATURES, labels).mean()
    assert best.gap == pytest.approx(excess, abs=1e-14)
    assert best.average_loss == pytest.approx(loss.value(best.decision, FEATURES, labels).mean())
    assert best.total_loss == pytest.approx(T * best.average_loss)
    assert not best.decision.flags.writeable


@pytest.mark.parametrize("family", LOSSES)
@pytest.mark.parametrize("set_", DOMAINS)
def test_certificate_holds_against_many_feasible_points(set_, family):
    domain, loss, labels = DOMAINS[set_], LOSSES[family], LABELS[family]
    rough = best_fixed_decision(domain, loss, FEATURES, labels, tolerance=1e-2)
    sharp = best_fixed_decision(domain, loss, FEATURES, labels, tolerance=1e-9)
    centre = float(loss.value(domain.center, FEATURES, labels).mean())
    assert 0.0 <= rough.gap <= 1e-2 * centre
    assert rough.average_loss - rough.gap <= sharp.average_loss <= rough.average_loss + 1e-12
    generator = np.random.default_rng(8)
    for _ in range(50):
        point = domain.project(generator.normal(size=D) * generator.choice([0.3, 3.0]))
        assert float(loss.value(point, FEATURES, labels).mean()) >= sharp.average_loss - sharp.gap


def test_unreached_tolerance_raises():
    with pytest.raises(dpoco.DpocoError, match="not certified within 2 iterations"):
        best_fixed_decision(
            DOMAINS["large"], LOSSES["squared"], FEATURES, LABELS["squared"],
            tolerance=1e-9, max_iterations=2,
        )  # fmt: skip


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, math.inf])
def test_linear_loss_is_solved_exactly(p):
    domain, loss = LpBall(D, p, 2.0), LinearLoss(1.0)
    best = best_fixed_decision(domain, loss, FEATURES)
    assert best.total_loss == pytest.approx(
        -2.0 * np.linalg.norm(FEATURES.sum(axis=0), ord=domain.dual_exponent)
    )
    assert (best.gap, best.iterations) == (0.0, 0)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, math.inf])
def test_records_are_clipped_as_the_learner_clips_them(p):
    domain, loss = LpBall(D, p, 1.0), SquaredLoss(0.2, 0.3, feature_bound_l2=0.15)
    features, labels = FEATURES.copy(), LABELS["squared"].copy()
    features[3, 1] = np.nan
    features[7] = 1e200
    labels[11] = np.inf
    best = best_fixed_decision(domain, loss, features, labels)
    learner = dpoco.frank_wolfe.TreeFrankWolfe(domain, loss, horizon=T, budget=None)
    trace = learner.run(features, labels)
    assert best.total_loss == pytest.approx(trace.comparator_losses(best.decision).sum())
    assert trace.comparator_losses(best.decision)[[3, 11]].tolist() == [0.0, 0.0]
    # Clipping by hand, then solving the clipped problem without any bound that matters.
    kept = np.setdiff1d(np.arange(T), [3, 11])
    rows, targets = features[kept], np.clip(labels[kept], -0.3, 0.3)
    big = np.abs(rows).max(axis=1, keepdims=True)
    unit = rows / big
    length = np.linalg.norm(unit, ord=domain.dual_exponent, axis=1, keepdims=True) * big
    length_l2 = np.linalg.norm(unit, axis=1, keepdims=True) * big
    rows = rows * np.minimum(1.0, np.minimum(0.2 / length, 0.15 / length_l2))
    plain = best_fixed_decision(domain, SquaredLoss(10.0, 10.0), rows, targets)
    assert best.total_loss == pytest.approx(plain.total_loss, rel=1e-6)


def test_all_records_missing_cost_nothing():
    best = best_fixed_decision(
        DOMAINS["l2"], LOSSES["squared"], np.full((3, D), np.nan), np.zeros(3)
    )
    assert best.total_loss == 0.0
