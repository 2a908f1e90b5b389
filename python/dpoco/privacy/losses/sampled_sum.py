"""Many steps of the sampled Gaussian mechanism: delta by a Fourier sum on a tilted line.

Let S be the sum of K losses of `SampledStep`, M(s) = E exp(s L), and theta, P > 0. With
h(u) = exp(-theta u) (1 - exp(-u)) for u > 0, else 0,

    E (1 - exp(epsilon - S))_+  <=  E exp(theta (S - epsilon)) sum_j h(S - epsilon + j P)
        =  1/P sum_k exp(-s_k epsilon) M(s_k)^K / (s_k (s_k + 1)),   s_k = theta + 2 pi i k / P,

as h is not negative: the period only adds. Tilted to where S is about epsilon, all terms are of the
size of the result, so that rounding is relative to delta, however many steps and however small.

Proof: ``docs/privacy/batch_baselines.md``, section "Numbers".
"""

from __future__ import annotations

import math

import numpy as np

from dpoco.privacy.losses.loss import FloatArray
from dpoco.privacy.losses.sampled_step import REACHES, SampledStep, sampled_step

__all__ = ["composed_delta", "least_composed_delta"]

_MOST_TERMS = 8192
_NEGLIGIBLE = 35.0  # logarithm of what a term may be below the first one before it is only bounded
_RATIO = 2.0**0.25
_BLOCKS = 240  # of frequencies, each up to the ratio times the last: 18 decades
# 1 - cos(y) >= c y^2 / 2 for |y| <= 2 r.
_COSINES = ((0.5, 11.0 / 12.0), (0.5 * math.pi, 4.0 / math.pi**2))
_UNIT = 2.0**-52


def composed_delta(epsilon: float, step: SampledStep, steps: int) -> tuple[float, float]:
    """Return an upper bound of delta at `epsilon` >= 0, and how much of it covers what is unknown.

    Time O(m) for each of some hundred terms, m losses.
    """
    theta = _tilt(epsilon, step, steps)
    tilted = _Tilted(step, steps, theta)
    period = 9.0 * tilted.deviation + 20.0 / theta
    log_size = steps * math.log1p(tilted.excess) - theta * epsilon
    plain = _chernoff(log_size, epsilon, step, steps, theta)
    if log_size > 30.0 or tilted.excess > 1e100:  # the tilt would have to be larger than it may be
        return plain, plain
    size = math.exp(log_size)
    first = tilted.negligible_from()
    count = min(_MOST_TERMS, math.ceil(first * period / (2.0 * math.pi)))
    slack = tilted.tail(2.0 * math.pi * (count + 1) / period, period) * size
    if slack * (period * theta * (theta + 1.0)) > 0.1 * size:  # too little would be known
        return plain, plain
    spacing = 2.0 * math.pi / period
    x, y, rounding = step.moments_on_line(theta, spacing, count + 1)
    t = spacing * np.arange(count + 1)
    s = np.asarray(theta + 1.0j * t, dtype=np.complex128)
    # Real and imaginary part of log(1 + x + i y), accurate near 0.
    with np.errstate(divide="ignore"):
        log_moment = 0.5 * np.log1p(np.maximum(2.0 * x + (x * x + y * y), -1.0))
    exponent = steps * log_moment - theta * epsilon
    turned = steps * np.arctan2(y, 1.0 + x)
    angle = turned - t * epsilon - np.angle(s * (s + 1.0))
    sizes = np.exp(exponent) / np.abs(s * (s + 1.0)) / period
    sizes[1:] *= 2.0  # with the conjugate
    value = float(np.sum(sizes * np.cos(angle)))
    # Rounding: of the moments' sums, and of logarithms and angles that are raised to the steps.
    moment = np.maximum(np.exp(log_moment), 1e-300)
    logs = np.where(sizes > 0.0, np.abs(steps * log_moment), 0.0)
    logs += np.abs(turned) + (t + theta) * epsilon
    relative = steps * rounding / moment + 16.0 * _UNIT * (logs + 8.0)
    slack += float(np.sum(sizes * np.expm1(np.minimum(2.0 * relative, 700.0))))
    slack += steps * step.beyond
    bound = max(value, 0.0) + slack
    return (bound, slack) if bound < 1.0 else (1.0, 1.0)  # NaN counts as not known


def least_composed_delta(
    epsilon: float, records: int, mu: float, steps: int, known: float = math.inf
) -> tuple[float, float]:
    """Return the least of `composed_delta` over grids of a step that reach less or more far.

    Mass beyond a grid is charged; but the farther it reaches, the less it may be tilted, and deltas
    of 1e-9 that a few rare steps decide need a tilt. Any reach is valid. `known`: a bound that
    holds, grids that charge more are passed over.
    """
    best = (math.inf, math.inf)
    for reach in REACHES:
        step = sampled_step(records, mu, steps, reach)
        charge = steps * step.beyond
        if charge < min(known, best[0]):
            best = min(best, composed_delta(epsilon, step, steps))
        if charge <= 1e-4 * best[0] < math.inf:  # all that another grid could save
            break
    return best


def _chernoff(
    log_size: float, epsilon: float, step: SampledStep, steps: int, theta: float
) -> float:
    """Return what Markov's inequality says of exp(theta (S - epsilon)): h is at most its maximum.

    All terms of a real moment are positive: its logarithm has the relative rounding of their sum.
    """
    rounding = (len(step.losses) + 64.0) * _UNIT * (abs(log_size) + 2.0 * theta * epsilon + 1.0)
    log_height = -theta * math.log1p(1.0 / theta) - math.log1p(theta)
    log_bound = log_size + log_height + rounding
    if not log_bound < 0.0:  # or NaN
        return math.inf
    return math.exp(log_bound) * (1.0 + 2.0**-40) + steps * step.beyond


def _tilt(epsilon: float, step: SampledStep, steps: int) -> float:
    """Return about the theta > 0 that makes the largest term least; any is valid."""

    def log_first(theta: float) -> float:
        excess = float(step.moment_excess(np.array([theta]))[0])
        return steps * math.log1p(excess) - theta * epsilon - math.log(theta * (theta + 1.0))

    variance = steps * float((step.losses**2 * (1.0 + np.exp(step.losses))) @ step.masses)
    guess = max(epsilon / variance - 0.5, 0.0) + 1.0 / math.sqrt(variance)
    best = min(max(guess, 1e-3), step.largest_tilt)
    least = log_first(best)
    for ratio in (2.0, 0.5, 1.2, 1.0 / 1.2, 1.04, 1.0 / 1.04):
        while 1e-4 < best * ratio <= step.largest_tilt:
            found = log_first(best * ratio)
            if not found < least:
                break
            best, least = best * ratio, found
    return best


class _Tilted:
    """The law of a loss with density exp(theta L) / M(theta), and how fast its transform falls."""

    def __init__(self, step: SampledStep, steps: int, theta: float) -> None:
        losses, m = step.losses, step.masses
        self.excess = float(step.moment_excess(np.array([theta]))[0])
        above, below = m * np.exp((1.0 + theta) * losses), m * np.exp(-theta * losses)
        rest = max(0.0, 1.0 - float(np.sum(m * (1.0 + np.exp(losses)))))
        zero = np.zeros(1)
        total = 1.0 + self.excess
        # Of losses up to each l_j: mass, first and second moment.
        self._losses = losses
        self._moments = [
            np.concatenate([zero, np.cumsum(part)]) / total
            for part in (above + below, losses * (above - below), losses * losses * (above + below))
        ]
        self._moments[0] += rest / total
        self._steps = steps
        self.deviation = math.sqrt(steps * float(self._moments[2][-1]))

    def _exponents(self, edges: FloatArray) -> FloatArray:
        """Return x with |M(theta + i t) / M(theta)|^K <= exp(-x) for all t from edge to edge.

        For y = t (L - L') and two losses of at most r / t: 1 - cos(y) >= c y^2 / 2.
        """
        best = np.zeros(len(edges) - 1)
        for r, c in _COSINES:
            j = np.searchsorted(self._losses, r / edges[1:], side="right")
            mass, mean, square = (part[j] for part in self._moments)
            variance = np.maximum(0.0, mass * square - mean * mean) * (1.0 - 1e-9)
            best = np.maximum(best, 0.5 * c * self._steps * np.square(edges[:-1]) * variance)
        return best

    def negligible_from(self) -> float:
        """Return the frequency from where terms are only bounded."""
        edges = _edges(1.0 / self.deviation)
        found = self._exponents(edges)
        enough = found >= _NEGLIGIBLE
        return float(edges[int(np.argmax(enough if bool(enough.any()) else found))])

    def tail(self, first: float, period: float) -> float:
        """Return a bound on the terms of all frequencies from `first`, over the size at theta."""
        edges = _edges(first)
        counts = np.diff(edges) * (period / (2.0 * math.pi)) + 1.0
        total = float(np.sum(counts * np.exp(-self._exponents(edges)) / np.square(edges[:-1])))
        # Beyond: the sum of (period / (2 pi k))^2.
        t = float(edges[-1])
        total += (period / (2.0 * math.pi * t)) + 1.0 / (t * t)
        return 2.0 * total / period


def _edges(first: float) -> FloatArray:
    """Return where the blocks of frequencies from `first` begin, and where the last one ends."""
    return np.asarray(first * _RATIO ** np.arange(_BLOCKS + 1.0))
