"""Sums over a geometric series of ranges: draws from a prior that forgets.

Claim: with m(r) the log moment of range r, F(m) = log(1 - q + q e^m) and ranges r_lo <= r <= r_hi,

    sum F(m(r)) <= (n - w) F(c r_lo^2) + w F(c r_hi^2),  c = m(r_lo) / r_lo^2,

w = (sum r^2 - n r_lo^2) / (r_hi^2 - r_lo^2), and sum F(m(r)) <= F(M) sum (r / r_hi)^2 with
M = a (a-1) r_hi^2 / 8: m(r) / r^2 does not increase in r, and F is convex with F(0) = 0.

Proof: ``docs/privacy/tracker_accounting.md``, section "The series".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpoco.privacy.losses.bounded_range import moment
from dpoco.privacy.losses.loss import FloatArray

__all__ = ["RangeSeries", "flagged"]

# The series is grouped down to this fraction of its first range, and bounded in one piece below.
_CUT = 1e-3


def flagged(q: float, m: FloatArray) -> FloatArray:
    """Return F(m) = log(1 - q + q e^m), m >= 0: a draw made with probability q, and its flag."""
    if q == 1.0:
        return m
    small = np.log1p(q * np.expm1(np.minimum(m, 1.0)))
    large = m + np.log(q + (1.0 - q) * np.exp(-m))
    return np.asarray(np.where(m < 1.0, small, large))


class RangeSeries(NamedTuple):
    """The ranges r_k = first * exp(k * log_ratio), k = 0, 1, ...; log_ratio <= 0."""

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
            one = flagged(q, moment(np.asarray(self.first), orders))
            return (stop - start + 1.0) * one
        firsts, counts = self._groups(start, stop, group_ratio)
        end = firsts[-1] + counts[-1]
        a = orders[:, None]
        result = np.zeros_like(orders)
        high, low = self.at(firsts), self.at(firsts + counts - 1.0)
        at_low = moment(low, a)
        low_term = flagged(q, at_low)
        wide = counts > 1.0
        weights = np.where(wide, self._weights(counts), 0.0)
        if bool(wide.any()):
            high_term = flagged(q, at_low * np.square(high / low))
            result += high_term @ weights
        result += low_term @ (counts - weights)
        if end <= stop:
            head = float(self.at(np.asarray(end)))
            bound = 0.125 * orders * (orders - 1.0) * head * head
            squares = RangeSeries(1.0, self.log_ratio).total(0.0, stop - end, 2.0)
            result += flagged(q, bound) * squares
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
            # Everything in units of the group's first square.
            squares = np.expm1(counts * step) / math.expm1(step)
            lowest = np.exp((counts - 1.0) * step)
            width = -np.expm1((counts - 1.0) * step)
            weights = (squares - counts * lowest) / width
        safe = np.where(width > 1e-6, weights * (1.0 + 1e-8), counts)
        return np.asarray(np.clip(safe, 0.0, counts))
