"""Accelerated projected gradient for the average loss of one decision on many records."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from dpoco._clipping import record_multipliers
from dpoco._validation import FloatArray
from dpoco.domains import Domain
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss

# The certificate costs one more pass over the data: looked at this often.
_CHECK_EVERY = 10
_GROWTH, _SHRINK = 2.0, 0.9


class Objective(Protocol):
    """A convex function of the images of a point under an affine map, its "margins"."""

    def margins(self, theta: FloatArray) -> FloatArray:
        """Image of a point."""

    def value_at(self, margins: FloatArray) -> float:
        """Value, from the margins."""

    def gradient_at(self, margins: FloatArray) -> FloatArray:
        """Gradient in theta, shape (d,), from the margins."""

    def typical_curvature(self) -> float:
        """First guess of the smoothness constant."""


class AverageQuadratic:
    """The mean of a stream of quadratic losses, scaled as a learner scales them."""

    def __init__(
        self, domain: Domain, loss: QuadraticLoss, matrices: FloatArray, vectors: FloatArray
    ) -> None:
        factors = loss.scales(domain, matrices, vectors)
        kept = factors > 0.0
        weights = factors[kept] / matrices.shape[0]
        matrix = np.einsum("t,tij->ij", weights, matrices[kept])
        self._matrix: FloatArray = 0.5 * (matrix + matrix.T)
        self._vector: FloatArray = weights @ vectors[kept]

    def margins(self, theta: FloatArray) -> FloatArray:
        """Return the point itself."""
        return theta

    def value_at(self, margins: FloatArray) -> float:
        """F."""
        return float(0.5 * margins @ self._matrix @ margins - self._vector @ margins)

    def gradient_at(self, margins: FloatArray) -> FloatArray:
        """Gradient of F."""
        gradient: FloatArray = self._matrix @ margins - self._vector
        return gradient

    def typical_curvature(self) -> float:
        """Mean eigenvalue."""
        return float(np.trace(self._matrix)) / len(self._vector)


class AverageLoss:
    """``F(theta) = (1/T) sum_t f_t(theta)`` on records clipped as a learner clips them."""

    def __init__(
        self,
        domain: Domain,
        loss: SquaredLoss | LogisticLoss | HuberLoss | LinearLoss,
        features: FloatArray,
        labels: FloatArray | None,
    ) -> None:
        if isinstance(loss, LinearLoss):
            factors = record_multipliers(
                domain, features, loss.gradient_bound, loss.gradient_bound_l2
            )
        else:
            assert labels is not None
            factors = record_multipliers(
                domain, features, loss.feature_bound, loss.feature_bound_l2
            )
            factors[~np.isfinite(labels)] = 0.0
        kept = factors > 0.0
        self._rounds = int(features.shape[0])
        self._rows = np.ascontiguousarray(features[kept] * factors[kept, None])
        self._engine = None
        self._labels = np.empty(0)
        if labels is not None:
            self._engine = loss._glm_engine
            self._labels = self._engine.clip_labels(np.ascontiguousarray(labels[kept]))

    def margins(self, theta: FloatArray) -> FloatArray:
        """``<theta, x_t>`` of the kept records, shape (T',)."""
        return np.ascontiguousarray(self._rows @ theta)

    def value_at(self, margins: FloatArray) -> float:
        """F, from the margins."""
        if self._engine is None:
            return float(margins.sum()) / self._rounds
        return float(self._engine.values(margins, self._labels).sum()) / self._rounds

    def gradient_at(self, margins: FloatArray) -> FloatArray:
        """Gradient of F, shape (d,), from the margins."""
        if self._engine is None:
            weights = np.ones(len(margins))
        else:
            weights = self._engine.derivatives(margins, self._labels)
        gradient: FloatArray = weights @ self._rows / self._rounds
        return gradient

    def value(self, theta: FloatArray) -> float:
        """F(theta)."""
        return self.value_at(self.margins(theta))

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Gradient of F at theta, shape (d,)."""
        return self.gradient_at(self.margins(theta))

    def typical_curvature(self) -> float:
        """First guess of the smoothness constant: the mean squared length of a record."""
        return float(np.einsum("ij,ij->", self._rows, self._rows)) / self._rounds


def minimize(
    objective: Objective, domain: Domain, goal: float, limit: int
) -> tuple[FloatArray, float, int]:
    """Return a point of the domain, its Frank-Wolfe gap and the number of iterations.

    The gap is at most `goal` unless `limit` iterations were spent.
    """
    point = np.array(domain.center)
    margins = objective.margins(point)
    ahead, margins_ahead = point, margins  # the extrapolated point
    momentum, smoothness = 1.0, objective.typical_curvature() or 1.0
    gap = math.inf
    best, best_gap = point, math.inf
    for iteration in range(limit + 1):
        if iteration % _CHECK_EVERY == 0 or iteration == limit:
            gradient = objective.gradient_at(margins)
            gap = float(gradient @ (point - domain.minimize_linear(gradient)))
            gap = max(gap, 0.0)
            if gap < best_gap:
                best, best_gap = point, gap
            if gap <= goal or iteration == limit:
                return np.array(best), best_gap, iteration
        slope = objective.gradient_at(margins_ahead)
        height = objective.value_at(margins_ahead)
        rounding = 1e-14 * max(1.0, abs(height))
        smoothness *= _SHRINK
        while True:
            candidate = domain.project(ahead - slope / smoothness)
            step = candidate - ahead
            new_margins = objective.margins(candidate)
            model = height + float(slope @ step) + 0.5 * smoothness * float(step @ step)
            if objective.value_at(new_margins) <= model + rounding:
                break
            smoothness *= _GROWTH
        moved = candidate - point
        if float(slope @ moved) > 0.0:  # momentum points uphill: start it again
            momentum = 1.0
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        pull = (momentum - 1.0) / following
        ahead = candidate + pull * moved
        margins_ahead = new_margins + pull * (new_margins - margins)
        point, margins, momentum = candidate, new_margins, following
    return np.array(best), best_gap, limit
