"""Laws that the coupled learners draw from, on an interval, by quadrature and change of variables.

Independent of the engines: they are what the engines are said to draw from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss

__all__ = ["Gibbs", "Law", "Leader", "ShiftedGaussian", "losses_of"]

FloatArray = NDArray[np.float64]
Function = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Loss:
    """A convex function of one number with its first two derivatives."""

    value: Function
    slope: Function
    bend: Function


def losses_of(loss: Any, parts: tuple[FloatArray, ...]) -> list[Loss]:
    """Return the losses of a stream of one feature; ``ValueError`` if their law is not known."""
    if parts[0].shape[1:] != (1,):
        raise ValueError("the law of this learner's draws is known in one dimension only")
    rows = parts[0][:, 0]
    bound = loss.gradient_bound if isinstance(loss, LinearLoss) else loss.feature_bound
    if not np.all(np.abs(rows) <= bound):
        raise ValueError("the records of a likelihood audit must be within their bounds")
    if isinstance(loss, LinearLoss):
        return [_linear(float(w)) for w in rows]
    if isinstance(loss, LogisticLoss):
        if not np.all((parts[1] >= 0.0) & (parts[1] <= 1.0)):
            raise ValueError("the labels of a likelihood audit must be within their bounds")
        return [_logistic(float(v), float(y)) for v, y in zip(rows, parts[1], strict=True)]
    if isinstance(loss, HuberLoss):
        if not np.all(np.abs(parts[1]) <= loss.label_bound):
            raise ValueError("the labels of a likelihood audit must be within their bounds")
        pairs = zip(rows, parts[1], strict=True)
        return [_huber(float(v), float(y), loss.threshold) for v, y in pairs]
    raise ValueError(f"the law of draws with {type(loss).__name__} is not known here")


def _linear(weight: float) -> Loss:
    return Loss(lambda x: weight * x, lambda x: np.full_like(x, weight), np.zeros_like)


def _logistic(feature: float, label: float) -> Loss:
    def chance(x: FloatArray) -> FloatArray:
        value: FloatArray = 0.5 * (1.0 + np.tanh(0.5 * feature * x))
        return value

    return Loss(
        lambda x: np.logaddexp(0.0, feature * x) - label * feature * x,
        lambda x: feature * (chance(x) - label),
        lambda x: feature**2 * chance(x) * (1.0 - chance(x)),
    )


def _huber(feature: float, label: float, threshold: float) -> Loss:
    def value(x: FloatArray) -> FloatArray:
        r = np.abs(feature * x - label)
        return np.where(r <= threshold, 0.5 * r * r, threshold * (r - 0.5 * threshold))

    return Loss(
        value,
        lambda x: feature * np.clip(feature * x - label, -threshold, threshold),
        lambda x: np.where(np.abs(feature * x - label) <= threshold, feature**2, 0.0),
    )


@cache
def _quadrature(panels: int = 24) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights on [-1, 1]: 25 Gauss points in each of equal panels."""
    nodes, weights = np.polynomial.legendre.leggauss(25)
    middles = (2.0 * np.arange(panels) + 1.0) / panels - 1.0
    return (middles[:, None] + nodes / panels).ravel(), np.tile(weights / panels, panels)


class Law(Protocol):
    """Law of a fresh draw after so many losses."""

    def log_density(self, count: int, x: FloatArray) -> FloatArray:
        """Return its logarithm at each x."""

    def log_ratio(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the law after `count` + 1 losses over that after `count`."""

    def uniform(self, count: int, x: FloatArray) -> FloatArray:
        """Return what is uniform on [0, 1] if x is drawn from the law after `count` losses."""


class Gibbs:
    """Density proportional to exp(-beta (F(x) + lam x^2 / 2)) on [-half, half]."""

    def __init__(self, losses: Sequence[Loss], beta: float, lam: float, half: float) -> None:
        from scipy.special import logsumexp

        self.losses, self.beta, self.lam, self.half = losses, beta, lam, half
        nodes, weights = _quadrature()
        points = half * nodes
        sums = np.vstack([np.zeros_like(points), *(each.value(points) for each in losses)])
        exponents = -beta * (np.cumsum(sums, axis=0) + 0.5 * lam * points**2)
        self.log_mass = logsumexp(exponents, axis=1, b=half * weights)

    def log_density(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the law after `count` losses."""
        total = 0.5 * self.lam * x**2
        for each in self.losses[:count]:
            total = total + each.value(x)
        density: FloatArray = -self.beta * total - self.log_mass[count]
        return density

    def log_ratio(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the law after one more loss over that after `count`."""
        change = self.log_mass[count + 1] - self.log_mass[count]
        ratio: FloatArray = -self.beta * self.losses[count].value(x) - change
        return ratio

    def uniform(self, count: int, x: FloatArray) -> FloatArray:
        """Return the distribution function, by quadrature up to x."""
        nodes, weights = _quadrature()
        half = 0.5 * (x + self.half)
        points = half[:, None] * (1.0 + nodes) - self.half
        mass = (np.exp(self.log_density(count, points)) * weights).sum(axis=1)
        values: FloatArray = np.clip(half * mass, 0.0, 1.0)
        return values


class Leader:
    """Law of argmin F(x) + x^2 / (2 eta) - weight ln(half^2 - x^2) + Z x, Z ~ N(0, sigma^2)."""

    def __init__(
        self, losses: Sequence[Loss], eta: float, sigma: float, weight: float, half: float
    ) -> None:
        self.losses, self.eta, self.sigma, self.weight, self.half = losses, eta, sigma, weight, half

    def log_density(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the law after `count` losses: that of Z, by a change of variables."""
        slope, bend = self._derivatives(count, x)
        return _log_normal(slope / self.sigma) - math.log(self.sigma) + np.log(bend)

    def _derivatives(self, count: int, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        room = self.half**2 - x**2
        slope = x / self.eta + self.weight * 2.0 * x / room
        bend = 1.0 / self.eta + self.weight * 2.0 * (self.half**2 + x**2) / room**2
        for each in self.losses[:count]:
            slope = slope + each.slope(x)
            bend = bend + each.bend(x)
        return slope, bend

    def uniform(self, count: int, x: FloatArray) -> FloatArray:
        """Return that of Z: its distribution function."""
        from scipy.special import ndtr

        values: FloatArray = ndtr(self._derivatives(count, x)[0] / self.sigma)
        return values

    def log_ratio(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the law after one more loss over that after `count`."""
        return self.log_density(count + 1, x) - self.log_density(count, x)


class ShiftedGaussian:
    """Law of rate S + Z, S the sum of gradients: linear losses without a boundary."""

    def __init__(self, gradients: FloatArray, sigma: float, rate: float) -> None:
        self.sums = rate * np.vstack([np.zeros_like(gradients[:1]), np.cumsum(gradients, axis=0)])
        self.sigma = sigma

    def log_density(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the law after `count` losses."""
        z = (x.reshape(len(x), -1) - self.sums[count]) / self.sigma
        total: FloatArray = (_log_normal(z) - math.log(self.sigma)).sum(axis=1)
        return total

    def log_ratio(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the law after one more loss over that after `count`."""
        return self.log_density(count + 1, x) - self.log_density(count, x)

    def uniform(self, count: int, x: FloatArray) -> FloatArray:
        """Return that of the coordinates' normalised sum."""
        from scipy.special import ndtr

        z = (x.reshape(len(x), -1) - self.sums[count]) / self.sigma
        values: FloatArray = ndtr(z.sum(axis=1) / math.sqrt(z.shape[1]))
        return values


def _log_normal(z: FloatArray) -> FloatArray:
    density: FloatArray = -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi)
    return density
