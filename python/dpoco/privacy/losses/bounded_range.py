"""Bounded range: log-likelihood ratios confined to an interval of length r, wherever it lies.

Every selection by softmax is of this kind, and so is the draw of an expert from exponential
weights. An exponential mechanism (Gumbel noise) that is epsilon-private has range epsilon.
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
from typing import NamedTuple

import numpy as np

from dpoco.privacy.losses.loss import SMALLEST_DELTA, FloatArray, Loss, sum_up

__all__ = ["BoundedRange", "RangeSeries", "bounded_range_delta", "flag_draws", "moment"]

# Below `_QUADRATIC` for order * range, the quadratic bound exceeds the moment by less than 1e-7 of
# it. For ranges below `_SHORT` the stationary point has no correct digits.
_QUADRATIC, _SHORT = 1e-3, 1e-9
# Relative error of a moment, added to round upwards.
_ROUNDING = 2e-11
# Relative margin on delta, larger than its error.
_MARGIN = 2.0**-48
# Ranges down to this fraction of the first are grouped; one bound covers all smaller ones.
_CUT = 1e-3


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
        self.require("range", count=1)
        object.__setattr__(self, "rho", 0.125 * self.count * self.range * self.range)
        object.__setattr__(self, "pure", sum_up((self.count, self.range, 1.0)))

    def delta(self, epsilon: float) -> float:
        """Return the exact curve of one release; else the best of three bounds."""
        # The privacy loss behind this curve also composes, but with variance r^2 / 3, while the
        # moments have r^2 / 4 (docs/privacy/bounded_range.md, "Composition"). So several releases
        # use the moments.
        if self.count == 1 or self.range == 0.0:
            return bounded_range_delta(epsilon, self.range)
        return super().delta(epsilon)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the sum of the releases' divergences."""
        return self.count * moment(np.asarray(self.range), orders) / (orders - 1.0)


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
        2e-11 (1e-7 where a * range < 1e-3); a simple bound for ranges below 1e-9.
    """
    b = a - 1.0
    with np.errstate(all="ignore"):
        quadratic = 0.125 * a * b * ranges * ranges
        # s = r - t, from the stationary point of the maximum. Cancellation does not matter here,
        # because the maximum is flat.
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


def flag_draws(q: float, m: FloatArray) -> FloatArray:
    """Return F(m) = log(1 - q + q e^m), m >= 0, for a draw with probability q and its flag."""
    if q == 1.0:
        return m
    small = np.log1p(q * np.expm1(np.minimum(m, 1.0)))
    large = m + np.log(q + (1.0 - q) * np.exp(-m))
    return np.asarray(np.where(m < 1.0, small, large))


class RangeSeries(NamedTuple):
    """The ranges r_k = first * exp(k * log_ratio), k = 0, 1, ...; log_ratio <= 0.

    Draws from a prior that forgets have such ranges. Claim: with m(r) the log moment of range r,
    F(m) = log(1 - q + q e^m) and ranges r_lo <= r <= r_hi,

        sum F(m(r)) <= (n - w) F(c r_lo^2) + w F(c r_hi^2),  c = m(r_lo) / r_lo^2,

    w = (sum r^2 - n r_lo^2) / (r_hi^2 - r_lo^2), and sum F(m(r)) <= F(M) sum (r / r_hi)^2 with
    M = a (a-1) r_hi^2 / 8: m(r) / r^2 does not increase in r, and F is convex with F(0) = 0.

    Proof: ``docs/privacy/tracker_accounting.md``, section "The series".
    """

    first: float
    log_ratio: float

    def at(self, k: FloatArray) -> FloatArray:
        """Return r_k."""
        return np.asarray(self.first * np.exp(k * self.log_ratio))

    def total(self, start: float, stop: float, power: float = 1.0) -> float:
        """Return the sum of r_k^power over start <= k <= stop (stop may be infinite)."""
        count = stop - start + 1.0
        if count <= 0.0 or self.first == 0.0 or self.log_ratio == -math.inf:
            return 0.0
        if self.log_ratio == 0.0:
            return float(count * self.first**power)
        step = power * self.log_ratio
        terms = math.expm1(count * step) / math.expm1(step)
        return float(self.first**power * math.exp(start * step) * terms)

    def flagged_moments(
        self, start: int, stop: float, q: float, orders: FloatArray, group_ratio: float
    ) -> FloatArray:
        """Return an upper bound on the sum of F(m(r_k)) over start <= k <= stop, at every order."""
        if stop < start or self.first == 0.0 or self.log_ratio == -math.inf:
            return np.zeros_like(orders)
        if self.log_ratio == 0.0:
            if stop == math.inf:
                return np.full_like(orders, math.inf)
            one = flag_draws(q, moment(np.asarray(self.first), orders))
            return (stop - start + 1.0) * one
        firsts, counts = self._groups(start, stop, group_ratio)
        end = firsts[-1] + counts[-1]
        a = orders[:, None]
        result = np.zeros_like(orders)
        # The quotient m(r) / r^2 does not increase in r: its value at the low end bounds the whole
        # group.
        high, low = self.at(firsts), self.at(firsts + counts - 1.0)
        at_low = moment(low, a)
        low_term = flag_draws(q, at_low)
        wide = counts > 1.0
        weights = np.where(wide, self._weights(counts), 0.0)
        if bool(wide.any()):
            high_term = flag_draws(q, at_low * np.square(high / low))
            result += high_term @ weights
        result += low_term @ (counts - weights)
        # The remaining ranges, possibly infinitely many, have a geometric sum of squares, so one
        # quadratic bound covers all of them.
        if end <= stop:
            head = float(self.at(np.asarray(end)))
            bound = 0.125 * orders * (orders - 1.0) * head * head
            squares = RangeSeries(1.0, self.log_ratio).total(0.0, stop - end, 2.0)
            result += flag_draws(q, bound) * squares
        return result

    def _groups(self, start: int, stop: float, ratio: float) -> tuple[FloatArray, FloatArray]:
        """Return the first index and the length of every group, down to the cut or to `stop`."""
        decay = min(self.log_ratio, -1e-300)
        length = max(1.0, float(np.floor(math.log(ratio) / decay)))
        last = min(stop, start + max(1.0, float(np.ceil(math.log(_CUT) / decay))))
        firsts = np.arange(float(start), last + 1.0, length)
        counts = np.minimum(length, last + 1.0 - firsts)
        return firsts, counts

    def _weights(self, counts: FloatArray) -> FloatArray:
        """Return w of groups of these lengths."""
        step = 2.0 * self.log_ratio
        with np.errstate(all="ignore"):
            # All sums are in units of the group's first square.
            squares = np.expm1(counts * step) / math.expm1(step)
            lowest = np.exp((counts - 1.0) * step)
            width = -np.expm1((counts - 1.0) * step)
            weights = (squares - counts * lowest) / width
        # A larger w moves terms to the high end, which is safe. In narrow groups the quotient has
        # few correct digits, so all terms are charged at the high end.
        safe = np.where(width > 1e-6, weights * (1.0 + 1e-8), counts)
        return np.asarray(np.clip(safe, 0.0, counts))
