"""Rough profiles on a grid, for the first stage of the search: no claim rests on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RoughProfile:
    """Arrays over a grid of (block, forced switch): what the profile is made of, roughly.

    Attributes
    ----------
    draw_variance : ndarray
        Square of the mu of one draw.
    cap : ndarray
        Largest number of draws.
    log_floor : ndarray
        Minus the log of the smallest acceptance factor of the changed block.
    later_bits, shift : ndarray
        Number of later bits and how far the log stay probability of each moves.
    """

    draw_variance: FloatArray
    cap: FloatArray
    log_floor: FloatArray
    later_bits: FloatArray
    shift: FloatArray


def rough_delta(epsilon: FloatArray, p: FloatArray, rough: RoughProfile) -> FloatArray:
    from scipy.special import log_ndtr, ndtr

    moved = -(1.0 - p) * np.expm1(-rough.shift)
    step = np.log1p(moved / p)
    variance = rough.draw_variance * rough.cap
    variance = variance + rough.later_bits * (2.0 * p + moved) * step * step
    mu = np.sqrt(variance) + 1e-12

    def delta(e: FloatArray) -> FloatArray:
        value = ndtr(0.5 * mu - e / mu) - np.exp(e + log_ndtr(-0.5 * mu - e / mu))
        return np.asarray(np.maximum(value, 0.0))

    factor = np.exp(-rough.log_floor)
    loss = np.log1p((1.0 - p) * (1.0 - factor) / p)
    switch, stay = 1.0 - (1.0 - p) * factor, (1.0 - p) * factor
    one = p * delta(epsilon + loss) + (1.0 - p) * delta(epsilon - rough.log_floor)
    two = switch * delta(epsilon - loss) + stay * delta(epsilon + rough.log_floor)
    return np.asarray(np.maximum(one, two))


def rough_window(noise: FloatArray, error: FloatArray) -> FloatArray:
    """Return roughly the a with delta_G(a; g) = error: a = g x + g^2/2, g psi(x) = error."""
    from scipy.special import erfcx

    x = np.linspace(0.0, 38.0, 1500)
    # psi(x) = phi(x) - x Phi(-x), through the Mills ratio.
    log_psi = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
    log_psi += np.log1p(-x * math.sqrt(0.5 * math.pi) * erfcx(x / math.sqrt(2.0)))
    found = np.interp(np.log(error) - np.log(noise), log_psi[::-1], x[::-1])
    return np.asarray(noise * found + 0.5 * noise * noise)


def rough_cap(decisions: FloatArray, hazard: FloatArray, tail: FloatArray) -> FloatArray:
    """Return roughly the upper quantile of a binomial law."""
    from scipy.special import ndtri

    z = -ndtri(tail)
    spread = np.sqrt(decisions * hazard * (1.0 - hazard))
    return np.asarray(np.minimum(decisions, decisions * hazard + z * spread + z * z / 6.0 + 1.0))
