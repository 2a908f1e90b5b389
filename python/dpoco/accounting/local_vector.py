"""All losses of a report with additive integer noise: scales and privacy curves.

A device sends v + n, v one of M + 1 integer vectors (the last is that of "no label") and n
independent discrete noise. Claims, for two labels whose vectors differ by d:

- discrete Laplace of scale s: pure, epsilon = sum |d_j| / s;
- the same under composition: delta at most that of one shift of ``ranges[j]`` per coordinate;
- discrete Gaussian of scale s: delta at most that of the Gaussian mechanism with
  mu = ||d||_2 / s at ``epsilon - 2 ||d||_1 / s^2``.

Proofs: ``docs/privacy/local_vector_channels.md``. Source: Canonne, Kamath and Steinke, "The
discrete Gaussian for differential privacy" (2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.gaussian import gaussian_mu
from dpoco.privacy.losses.gaussian import gaussian_delta

__all__ = ["composed_laplace_delta", "composed_laplace_scale", "discrete_gaussian_scale",
           "gaussian_vector_delta"]  # fmt: skip

FloatArray = NDArray[np.float64]

_CELLS = 2**16
# Transforms err by 1e-16 of the total mass a cell: smaller deltas are not computed from them.
_SMALLEST_DELTA = 1e-9
_TRANSFORM_ERROR = 1e-12
_LARGEST_VARIETY = 8


def composed_laplace_delta(epsilon: float, ranges: Sequence[int], scale: float) -> float:
    """Return an upper bound on delta of one discrete Laplace variate for each shift.

    Parameters
    ----------
    epsilon : float
        At least 0.
    ranges : sequence of int
        Shifts of the coordinates, at least 0.
    scale : float
        Of the noise, in the same units.

    Returns
    -------
    float
        0 where epsilon covers the sum of ``ranges / scale``; else never below 1e-12. Losses are
        rounded up to a grid of 2^16 cells, O(2^16 log) for each of the different shifts, of
        which at most 8 are told apart.
    """
    shifts = [int(shift) for shift in ranges if shift > 0]
    if not epsilon >= 0.0 or not scale > 0.0:
        raise ValueError("epsilon must be at least 0, and scale positive")
    total = sum(shifts) / scale
    if total <= epsilon:
        return 0.0
    if len(set(shifts)) > _LARGEST_VARIETY:
        shifts = [max(shifts)] * len(shifts)
        total = sum(shifts) / scale
    step = 2.0 * total / _CELLS
    halves = {shift: math.ceil(shift / scale / step) for shift in set(shifts)}
    length = 2 * sum(halves[shift] for shift in shifts) + 1
    size = 1 << (length - 1).bit_length()
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for shift, half in halves.items():
        masses = _loss_masses(shift, scale, step, half)
        spectrum *= np.fft.rfft(masses, size) ** shifts.count(shift)
    law = np.maximum(np.fft.irfft(spectrum, size)[:length], 0.0)
    losses = (np.arange(length) - (length - 1) // 2) * step
    above = losses > epsilon
    delta = float(np.sum(law[above] * -np.expm1(epsilon - losses[above])))
    return min(1.0, delta + _TRANSFORM_ERROR)


def _loss_masses(shift: int, scale: float, step: float, half: int) -> FloatArray:
    """Return the law of the loss of one shift, rounded up to multiples -half..half of `step`."""
    # The loss (|n - shift| - |n|) / scale is at most l iff n >= (shift - l scale) / 2; one more
    # integer is left out, so that rounding of the quotient can only make losses larger.
    levels = np.arange(-half, half) * step
    least = np.ceil((shift - levels * scale) / 2.0) + 1.0
    tails = np.exp(-np.abs(np.where(least > 0.0, least, 1.0 - least)) / scale)
    tails /= 1.0 + math.exp(-1.0 / scale)
    at_most = np.where(least > 0.0, tails, 1.0 - tails)
    at_most[levels < -shift / scale] = 0.0
    masses: FloatArray = np.diff(at_most, prepend=0.0, append=1.0)
    return masses


@lru_cache(maxsize=64)
def composed_laplace_scale(epsilon: float, delta: float, ranges: tuple[int, ...]) -> float:
    """Return a scale with ``composed_laplace_delta(epsilon, ranges, scale) <= delta``.

    At most the pure scale ``sum(ranges) / epsilon``; for a delta below 1e-9 that one. Infinite if
    that is more than a double holds.
    """
    pure = sum(ranges) / epsilon
    high = math.nextafter(pure * (1.0 + 1e-15), math.inf)
    if delta < _SMALLEST_DELTA or pure == 0.0 or high == math.inf:
        return high
    low = max(ranges) / (epsilon + 30.0)
    while high > low * (1.0 + 1e-4):
        middle = math.sqrt(low * high)
        if composed_laplace_delta(epsilon, ranges, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def gaussian_vector_delta(epsilon: float, l2: float, l1: float, scale: float) -> float:
    """Return an upper bound on delta of a vector of discrete Gaussian variates.

    Parameters
    ----------
    epsilon : float
        At least 0.
    l2, l1 : float
        Norms of the largest difference of two vectors (upper bounds), in units of the lattice.
    scale : float
        Of the noise, at least 1.
    """
    if not scale >= 1.0:
        raise ValueError(f"scale must be at least 1; got {scale!r}")
    rest = epsilon - 2.0 * l1 / scale**2
    return 1.0 if rest < 0.0 else gaussian_delta(rest, l2 / scale)


def discrete_gaussian_scale(epsilon: float, delta: float, l2: float, l1: float) -> float:
    """Return a scale with ``gaussian_vector_delta(epsilon, l2, l1, scale) <= delta``.

    Above the continuous optimum by a relative l1 / l2^2 or so: nothing on a fine lattice.
    """
    mu = gaussian_mu(epsilon, delta)
    for _ in range(100):
        scale = max(1.0, math.nextafter(l2 / mu, math.inf))
        if gaussian_vector_delta(epsilon, l2, l1, scale) <= delta:
            return scale
        rest = epsilon - 2.0 * l1 / scale**2
        # More noise needs less of epsilon for the lattice: the next scale will do.
        mu = 0.5 * mu if rest <= 0.0 else gaussian_mu(rest, delta)
    raise ValueError("the lattice is too coarse for this delta")
