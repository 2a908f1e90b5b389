"""Bounded range: log-likelihood ratios confined to an interval of length r, wherever it lies.

Every selection by softmax is of this kind, and so is the draw of an expert from exponential
weights. The exponential mechanism (Gumbel noise) that is epsilon-private has range epsilon.
Claim: if every two neighbouring streams have log-likelihood ratios in some interval of length r,

    delta(epsilon) = (1 - e^((epsilon - r) / 2))^2 / (1 - e^-r)   for -r <= epsilon <= r,

0 beyond r and 1 - e^epsilon below -r; the logarithm of the moment of order a > 1 is at most

    m(r, a) = max over t in [0, r] of log(p_1 e^((a-1) t) + p_0 e^((a-1)(t-r))),

p_1 = (1 - e^(t-r)) / (1 - e^-r) = 1 - p_0, and at most a (a-1) r^2 / 8. All are attained.

Proof: ``docs/privacy/bounded_range.md``. Source: Dong, Durfee and Rogers, "Optimal differential
privacy composition for exponential mechanisms" (2020); Cesar and Rogers, "Bounding, concentrating,
and truncating" (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpoco.privacy.losses.loss import SMALLEST_DELTA, FloatArray, Loss

__all__ = ["BoundedRange", "bounded_range_delta", "moment"]

# Below this value of order * range the quadratic bound exceeds the moment by less than 1e-7 of it;
# shorter ranges leave the stationary point without digits.
_QUADRATIC, _SHORT = 1e-3, 1e-9
# Relative error of a moment, added to round upwards.
_ROUNDING = 2e-11
# Relative, of delta: more than its error.
_MARGIN = 2.0**-48


@dataclass(frozen=True)
class BoundedRange(Loss):
    """`count` adaptive releases, each with log-likelihood ratios of range `range`."""

    kind = "bounded_range"
    range: float
    count: int = 1
    rho: float = field(init=False, repr=False, compare=False)
    pure: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is not a bound."""
        if not self.range >= 0.0:
            raise ValueError(f"range must be at least 0; got {self.range!r}")
        if type(self.count) is not int or self.count < 1:
            raise ValueError(f"count must be an int of at least 1; got {self.count!r}")
        object.__setattr__(self, "rho", 0.125 * self.count * self.range * self.range)
        object.__setattr__(self, "pure", self.range * self.count)

    def delta(self, epsilon: float) -> float:
        """Return the exact curve of one release; else the best of three bounds."""
        if self.count == 1 or self.range == 0.0:
            return bounded_range_delta(epsilon, self.range)
        return super().delta(epsilon)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the sum of the releases' divergences."""
        return self.count * moment(np.asarray(self.range), orders) / (orders - 1.0)

    def __str__(self) -> str:
        """Return the loss in words."""
        text = f"log-likelihood ratios in an interval of length {self.range:.6g}"
        return text if self.count == 1 else f"{self.count} releases with {text} each"


def moment(ranges: FloatArray, a: FloatArray) -> FloatArray:
    """Return the largest log E_Q (dP/dQ)^a of log-likelihood ratios of these ranges.

    Parameters
    ----------
    ranges : ndarray
        At least 0, possibly infinite.
    a : ndarray
        Finite orders above 1; broadcast against `ranges`.

    Returns
    -------
    ndarray
        Of the broadcast shape: a - 1 times the Renyi divergence. Rounded up, by a relative
        2e-11 (1e-7 where a * range < 1e-3); a simple bound for ranges below 1e-6.
    """
    b = a - 1.0
    with np.errstate(all="ignore"):
        quadratic = 0.125 * a * b * ranges * ranges
        # s = r - t, from the stationary point of the maximum; no difference of close numbers
        # matters, since the maximum is flat.
        gap = -np.expm1(-ranges)  # 1 - e^-r
        s = np.log(a * np.expm1(-b * ranges) / (b * np.expm1(-a * ranges)))
        s = np.minimum(np.maximum(s, 0.0), ranges)
        t = ranges - s
        one = -np.expm1(-s) / gap  # P of the likelier side
        other = np.exp(-s) * -np.expm1(-t) / gap  # its complement
        grown = b * t
        small = np.log1p(one * np.expm1(grown) + other * np.expm1(-b * s))
        large = grown + np.log(one + other * np.exp(-b * ranges))
        value = np.where(grown < 1.0, small, large) * (1.0 + _ROUNDING)
        bound = np.fmin(quadratic, b * ranges) * (1.0 + 1e-15)
        simple = (a * ranges < _QUADRATIC) | (ranges < _SHORT) | np.isnan(value)
    return np.asarray(np.where(simple, bound, np.fmin(value, bound)))


def bounded_range_delta(epsilon: float, r: float) -> float:
    """Return delta(epsilon) of log-likelihood ratios of range r.

    Parameters
    ----------
    epsilon : float
        Any real number, also below 0; infinite gives 0.
    r : float
        Range, at least 0; infinite gives 1.
    """
    if math.isnan(epsilon):
        raise ValueError("epsilon must be a number")
    if not r >= 0.0:
        raise ValueError(f"r must be at least 0; got {r!r}")
    if epsilon >= r:
        return 0.0
    if r == math.inf:
        return 1.0
    if epsilon <= -r:
        return min(1.0, -math.expm1(epsilon) * (1.0 + _MARGIN))
    value = math.expm1(0.5 * (epsilon - r)) ** 2 / -math.expm1(-r)
    return min(1.0, value * (1.0 + _MARGIN) + SMALLEST_DELTA)
