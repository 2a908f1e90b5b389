"""Accounting of draws that minimise a randomly tilted objective (objective perturbation).

A draw is the minimiser of F(x) + |x - c|^2 / (2 eta) + B(x) + <Z, x> with Z ~ N(0, sigma^2 I), F
the sum of the losses so far, each convex, G-Lipschitz and beta_s-smooth with Hessians of rank at
most r. Put b = eta beta_s. Claim: the laws of the draw for two sums that differ in one record have
Renyi divergence at most

    alpha Delta^2 / (2 sigma^2) + V_alpha                        for 1 < alpha < 1 + 1/b,

with `renyi_excess` V_alpha of second order in b; for b = 0 they are Delta/sigma-GDP. The log
density ratio of successive laws moves by at most Delta G / sigma^2 + r log((1 + b)^2 / (1 + 2b))
at every point when one past record changes.

On all of R^d both need losses that are Lipschitz there.

Proof: ``docs/privacy/objective_perturbation.md``. Source of the mechanism: Agarwal, Kale, Singh and
Thakurta, "Differentially private and lazy online convex optimization", whose bound is of first
order in b; the accounting is new.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._coupling.renyi_orders import best_delta, best_epsilon
from dpoco.accounting.coupling import bit_renyi, later_bit_renyi
from dpoco.accounting.gaussian import gaussian_epsilon, raised
from dpoco.privacy.neighbours import CHANGES

__all__ = [
    "clip_widths",
    "coupled_delta_renyi",
    "coupled_epsilon_renyi",
    "coupled_renyi",
    "draw_renyi",
    "ratio_shift",
    "renyi_excess",
]

FloatArray = NDArray[np.float64]


def renyi_excess(
    alpha: ArrayLike, b: float, dimension: int, rank: int, relation: str
) -> FloatArray:
    """Return V_alpha, what the curvature of the exchanged losses adds to the divergence of a draw.

    Parameters
    ----------
    alpha : array_like
        Orders above 1.
    b : float
        Step size times smoothness, eta * beta_s, at least 0.
    dimension : int
        d, at least 1.
    rank : int
        Largest rank r of the Hessian of one loss, at least 0: 1 for generalised linear losses.
    relation : {"replace", "zero_out"}
        Whether a loss is exchanged for another one or for the zero loss.

    Returns
    -------
    ndarray of the shape of `alpha`
        About alpha (n- + n+) b^2 / 2; infinite from order 1 + 1/b on.
    """
    order = np.asarray(alpha, dtype=np.float64)
    if not bool(np.all(order > 1.0)):
        raise ValueError("every order must be above 1")
    b, below, above = _counts(b, dimension, rank, relation)
    if b == 0.0 or below == 0:
        return np.zeros_like(order)
    value = np.zeros_like(order)
    for count, divergence in ((below, _removal), (above, _addition)):
        if count:
            value = value + count * divergence(order, b)
    return value


def draw_renyi(
    alpha: ArrayLike, sensitivity_ratio: float, b: float, dimension: int, rank: int, relation: str
) -> FloatArray:
    """Return the Renyi divergence of one draw, alpha sensitivity_ratio^2 / 2 + V_alpha.

    Parameters
    ----------
    sensitivity_ratio : float
        Delta / sigma: the largest difference between the gradients of the exchanged losses, over
        the standard deviation of a coordinate of the noise; at least 0.
    alpha, b, dimension, rank, relation
        As in `renyi_excess`.
    """
    ratio = real_float("sensitivity_ratio", sensitivity_ratio)
    if not ratio >= 0.0:
        raise ValueError(f"sensitivity_ratio must be at least 0; got {sensitivity_ratio!r}")
    excess = renyi_excess(alpha, b, dimension, rank, relation)
    return np.asarray(0.5 * ratio * ratio * np.asarray(alpha, dtype=np.float64) + excess)


def ratio_shift(
    sensitivity: float, lipschitz: float, noise_scale: float, b: float, rank: int
) -> float:
    """Return how far the log acceptance factor of one later round moves.

    Parameters
    ----------
    sensitivity, lipschitz : float
        Delta and G, at least 0, in loss/length.
    noise_scale : float
        sigma, positive, in loss/length.
    b : float
        As in `renyi_excess`.
    rank : int
        Largest rank of the Hessian of one loss, at most the dimension.
    """
    sigma = positive_float("noise_scale", noise_scale)
    for name, value in (("sensitivity", sensitivity), ("lipschitz", lipschitz), ("b", b)):
        if not real_float(name, value) >= 0.0:
            raise ValueError(f"{name} must be at least 0; got {value!r}")
    # log((1 + b)^2 / (1 + 2b)) = log(1 + b^2 / (1 + 2b)).
    return sensitivity * lipschitz / sigma**2 + rank * math.log1p(b * (b / (1.0 + 2.0 * b)))


def clip_widths(g: float, b: float, dimension: int, rank: int, error: float) -> tuple[float, float]:
    """Return (high, low), the widths at which clipping the log density ratio costs `error`.

    The hockey-stick divergences of order e^high of the next law from the current one, and of order
    e^low of the current law from the next one, are at most `error`.

    Parameters
    ----------
    g : float
        lipschitz / noise_scale, at least 0.
    b, dimension, rank
        As in `renyi_excess`; rank 1 is to mean a generalised linear loss (or dimension 1).
    error : float
        Strictly between 0 and 1.

    Notes
    -----
    Concerns utility only: the acceptance factors are clamped to the window whatever it is.
    """
    from scipy.special import chdtri, ndtri

    if not 0.0 < real_float("error", error) < 1.0:
        raise ValueError(f"error must be strictly between 0 and 1; got {error!r}")
    if not real_float("g", g) >= 0.0:
        raise ValueError(f"g must be at least 0; got {g!r}")
    b, count, _ = _counts(b, dimension, rank, "zero_out")
    if b == 0.0 or count == 0:
        width = gaussian_epsilon(g, error)
        return width, width
    high = best_epsilon(
        lambda order: 0.5 * g * g * order + count * _addition(order, b), error, math.inf
    )
    low = best_epsilon(
        lambda order: 0.5 * g * g * order + count * _removal(order, b), error, 1.0 / b
    )
    if count == 1:
        quantile = -float(ndtri(0.5 * error))
    else:
        quantile = math.sqrt(float(chdtri(float(dimension), error)))
    return high, min(low, 0.5 * g * g + g * quantile)


def coupled_renyi(
    alpha: ArrayLike,
    *,
    cap: int,
    sensitivity_ratio: float,
    b: float,
    dimension: int,
    rank: int,
    relation: str,
    forced_switch: float,
    factor_floor: float,
    later_bits: int = 0,
    shift: float = 0.0,
) -> FloatArray:
    """Return the Renyi divergence of all draws and bits together.

    Parameters
    ----------
    alpha : array_like
        Orders above 1.
    cap : int
        Largest number of draws after the first, at least 0.
    sensitivity_ratio, b, dimension, rank, relation
        As in `draw_renyi`.
    forced_switch, factor_floor, later_bits, shift
        As in ``coupling.coupled_delta``.

    Returns
    -------
    ndarray of the shape of `alpha`
    """
    if cap < 0 or later_bits < 0:
        raise ValueError("cap and later_bits must be at least 0")
    draw = draw_renyi(alpha, sensitivity_ratio, b, dimension, rank, relation)
    if cap == 0:
        return np.zeros_like(draw)  # no decision is taken, hence no bit either
    total = cap * draw
    total = total + bit_renyi(alpha, forced_switch, factor_floor)
    if later_bits:
        total = total + later_bits * later_bit_renyi(alpha, forced_switch, shift)
    return np.asarray(total)


def coupled_epsilon_renyi(delta: float, **release: Any) -> float:
    """Return the smallest epsilon >= 0 that `coupled_renyi` proves at `delta`, rounded up.

    Parameters
    ----------
    delta : float
        Strictly between 0 and 1.
    **release
        The keyword arguments of `coupled_renyi`.

    Returns
    -------
    float
        ``coupled_delta_renyi`` of it is at most `delta`. Infinite if no order is admissible.

    Notes
    -----
    For b = 0 the profile of ``coupling.coupled_epsilon`` with mu = sensitivity_ratio sqrt(cap) is
    exact and smaller. Less than 1 ms.
    """
    if not 0.0 < real_float("delta", delta) < 1.0:
        raise ValueError(f"delta must be strictly between 0 and 1; got {delta!r}")
    largest = _largest_order_step(release)
    epsilon = best_epsilon(lambda alpha: coupled_renyi(alpha, **release), delta, largest)
    return raised(epsilon, lambda e: coupled_delta_renyi(e, **release) <= delta)


def coupled_delta_renyi(epsilon: float, **release: Any) -> float:
    """Return the smallest delta that `coupled_renyi` proves at `epsilon`.

    Parameters
    ----------
    epsilon : float
        At least 0, possibly infinite.
    **release
        The keyword arguments of `coupled_renyi`.
    """
    if math.isnan(epsilon) or epsilon < 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    if epsilon == math.inf:
        return 0.0
    largest = _largest_order_step(release)
    return best_delta(lambda alpha: coupled_renyi(alpha, **release), epsilon, largest)


def _largest_order_step(release: Mapping[str, Any]) -> float:
    """Return the supremum of order - 1, 1/b; infinite for b = 0."""
    b = real_float("b", release["b"])
    return 1.0 / b if b > 1e-300 else math.inf


def _removal(order: FloatArray, b: float) -> FloatArray:
    """Return the divergence that a smallest eigenvalue ratio 1/(1 + b) contributes."""
    t = order - 1.0
    # Rounding of order - 1 must not admit an order at the pole.
    inside = t * b < 1.0
    value = -math.log1p(b) - np.log1p(-np.where(inside, t * b, 0.5)) / t
    return np.where(inside, np.maximum(value, 0.0), math.inf)


def _addition(order: FloatArray, b: float) -> FloatArray:
    """Return the divergence that a largest eigenvalue ratio 1 + b contributes."""
    value = (order * math.log1p(b) - np.log1p(order * b)) / (order - 1.0)
    return np.asarray(np.maximum(value, 0.0))


def _counts(b: float, dimension: int, rank: int, relation: str) -> tuple[float, int, int]:
    """Return b and the numbers of eigenvalue ratios below and above 1."""
    b = real_float("b", b)
    if not b >= 0.0:
        raise ValueError(f"b must be at least 0; got {b!r}")
    choice("relation", relation, CHANGES)
    positive_int("dimension", dimension)
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 0:
        raise ValueError("rank must be an int, at least 0")
    below = min(int(rank), int(dimension))
    above = min(int(rank), int(dimension) - below) if relation == "replace" else 0
    return b, below, above
