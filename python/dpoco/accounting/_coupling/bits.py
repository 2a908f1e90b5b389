"""The stay-or-switch bits of lazy learners: dominating pairs and their divergences.

A decision stays with probability (1 - p) w, where w is the product of the acceptance factors of
its block. Claim: when a record of the block changes and its factor lies in [w_lo, 1], the two laws
of the bit are dominated, in one of two orientations, by switch probabilities p and
1 - (1 - p) w_lo; when log w moves by at most c, by a three-outcome pair that covers
both orientations.

Proof: ``docs/privacy/couplings.md``. Source of the mechanism: Agarwal, Kale, Singh and Thakurta,
"Improved differentially private and lazy online convex optimization".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import real_float

__all__ = [
    "bit_epsilon",
    "bit_renyi",
    "checked_bit",
    "checked_later",
    "later_bit_epsilon",
    "later_bit_pair",
    "later_bit_renyi",
    "switch_probability",
]

FloatArray = NDArray[np.float64]


def switch_probability(forced_switch: float, stay_factor: float) -> float:
    """Return 1 - (1 - forced_switch) stay_factor, the probability of a switch, exactly rounded.

    Parameters
    ----------
    forced_switch : float
        Probability that the forced coin says "switch", in (0, 1].
    stay_factor : float
        Probability that all rounds of the block accept, in [0, 1].
    """
    return forced_switch + (1.0 - forced_switch) * (1.0 - stay_factor)


def bit_epsilon(forced_switch: float, factor_floor: float) -> float:
    """Return the pure epsilon of the bit of the changed block; 0 if the switch is certain.

    Parameters
    ----------
    forced_switch : float
        Probability p of a forced switch per decision, in (0, 1].
    factor_floor : float
        Smallest acceptance factor w of the changed round, in (0, 1]; with blocks of m rounds whose
        other factors move by e^shift each, ``w * exp(-(m - 1) shift)``.

    Returns
    -------
    float
        max(-log w, log((1 - (1 - p) w) / p)), attained by some data.
    """
    p, w = checked_bit(forced_switch, factor_floor)
    if p == 1.0:
        return 0.0
    return max(-math.log(w), math.log1p((1.0 - p) * (1.0 - w) / p))


def later_bit_epsilon(forced_switch: float, shift: float) -> float:
    """Return the pure epsilon of one later bit whose log stay probability moves by `shift`.

    Parameters
    ----------
    forced_switch : float
        As in `bit_epsilon`.
    shift : float
        At least 0; of a whole block, m times that of a round.
    """
    p, c = checked_later(forced_switch, shift)
    if p == 1.0:
        return 0.0
    return max(c, math.log1p(-(1.0 - p) * math.expm1(-c) / p))


def later_bit_pair(forced_switch: float, shift: float) -> tuple[float, float]:
    """Return (rare, step) of the three-outcome pair that dominates every later bit.

    Under P the loss is +step with probability rare * e^step, -step with probability `rare` and 0
    otherwise; under Q the first two are exchanged.
    """
    p, c = checked_later(forced_switch, shift)
    if p == 1.0 or c == 0.0:
        return 0.0, 0.0
    moved = -(1.0 - p) * math.expm1(-c)
    if 2.0 * p + moved > 1.0:
        return (1.0 - p) * math.exp(-c), c
    return p, math.log1p(moved / p)


def bit_renyi(alpha: ArrayLike, forced_switch: float, factor_floor: float) -> FloatArray:
    """Return the Renyi divergence of the bit of the changed block, the larger of both directions.

    Parameters
    ----------
    alpha : array_like
        Orders above 1.
    forced_switch, factor_floor : float
        As in `bit_epsilon`.

    Returns
    -------
    ndarray of the shape of `alpha`
    """
    p, w = checked_bit(forced_switch, factor_floor)
    return _coin_renyi(alpha, p, -math.log(w))


def later_bit_renyi(alpha: ArrayLike, forced_switch: float, shift: float) -> FloatArray:
    """Return the Renyi divergence of one later bit; arguments as above and `later_bit_epsilon`."""
    p, c = checked_later(forced_switch, shift)
    return _coin_renyi(alpha, p, c)


def _coin_renyi(alpha: ArrayLike, p: float, shift: float) -> FloatArray:
    """Return the larger Renyi divergence between stay probabilities 1 - p and (1 - p) e^-shift."""
    t = np.asarray(alpha, dtype=np.float64) - 1.0
    if not bool(np.all(t > 0.0)):
        raise ValueError("every order must be above 1")
    if p == 1.0 or shift == 0.0:
        return np.zeros_like(t)
    moved = -(1.0 - p) * math.expm1(-shift)
    gap = math.log1p(moved / p)
    forward = _log_moment(t, (p, 1.0 - p), (-gap, shift))
    backward = _log_moment(t, (p + moved, (1.0 - p) * math.exp(-shift)), (gap, -shift))
    return np.asarray(np.maximum(np.maximum(forward, backward) / t, 0.0))


def _log_moment(
    t: FloatArray, weights: tuple[float, float], losses: tuple[float, float]
) -> FloatArray:
    """Return log sum_o weights_o e^(t losses_o), to full relative accuracy for small losses."""
    top = t * max(losses)
    with np.errstate(over="ignore", divide="ignore"):
        terms = [w * np.exp(t * x - top) for w, x in zip(weights, losses, strict=True)]
        large = top + np.log(terms[0] + terms[1])
        # Only for small exponents; the minimum keeps the others from overflowing.
        drops = [w * np.expm1(np.minimum(t * x, 1.0)) for w, x in zip(weights, losses, strict=True)]
        small = np.log1p(drops[0] + drops[1])
    return np.where(top > 0.5, large, small)


def checked_bit(forced_switch: float, factor_floor: float) -> tuple[float, float]:
    if not 0.0 < real_float("forced_switch", forced_switch) <= 1.0:
        raise ValueError(f"forced_switch must be in (0, 1]; got {forced_switch!r}: not private")
    if not 0.0 < real_float("factor_floor", factor_floor) <= 1.0:
        raise ValueError(f"factor_floor must be in (0, 1]; got {factor_floor!r}")
    return float(forced_switch), float(factor_floor)


def checked_later(forced_switch: float, shift: float) -> tuple[float, float]:
    p, _ = checked_bit(forced_switch, 1.0)
    if not real_float("shift", shift) >= 0.0:
        raise ValueError(f"shift must be at least 0; got {shift!r}")
    return p, float(shift)
