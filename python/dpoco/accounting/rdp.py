"""Accounting by Renyi divergences: at finitely many orders (RDP), and concentrated (zCDP).

Claim: a mechanism whose Renyi divergence of order a > 1 between neighbouring streams is at most D
is (epsilon, delta)-private for epsilon >= 0 with

    delta = exp((a - 1)(D - epsilon)) / (a - 1) * (1 - 1/a)^a,

and divergences of one order add up under adaptive composition.

A mechanism is rho-zCDP when its Renyi divergence of every order a > 1 between neighbouring streams
is at most a rho. Claim: it is then (epsilon, delta)-private for every epsilon >= 0 with

    delta = min over a > 1 of exp((a - 1)(a rho - epsilon)) / (a - 1) * (1 - 1/a)^a.

Proof: ``docs/privacy/gaussian.md``, section "Renyi divergences". Sources: Mironov (2017);
Bun and Steinke (2016); Canonne, Kamath and Steinke, "The discrete Gaussian for differential
privacy" (2020), Prop. 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpoco._validation import FloatArray, float_array, real_float
from dpoco.accounting.gaussian import check_delta, check_sums, largest, raised
from dpoco.privacy.losses import loss as kernel
from dpoco.privacy.losses.loss import ORDERS, renyi_delta

__all__ = ["DEFAULT_ORDERS", "compose_rdp", "compose_zcdp", "gaussian_rdp", "rdp_delta",
           "rdp_epsilon", "zcdp_delta", "zcdp_epsilon", "zcdp_rho"]  # fmt: skip

SMALLEST_RHO, LARGEST_RHO = 1e-18, 1e6
_RHO_MARGIN = 1e-12


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return a delta such that rho-zCDP implies (epsilon, delta)-privacy.

    Parameters
    ----------
    epsilon : float
        At least 0; may be infinite (then delta is 0).
    rho : float
        At least 0; may be infinite (then delta is 1).
    """
    if not epsilon >= 0.0 or not rho >= 0.0:
        raise ValueError(f"epsilon and rho must be at least 0; got {epsilon!r} and {rho!r}")
    return kernel.zcdp_delta(epsilon, rho)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with ``zcdp_delta(epsilon, rho) <= delta``, rounded up."""
    check_delta(delta)
    return kernel.Zcdp(rho).epsilon(delta)


@lru_cache(maxsize=64)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho with ``zcdp_delta(epsilon, rho) <= delta``, rounded down.

    Raises
    ------
    CalibrationError
        If it lies outside [1e-18, 1e6].
    """
    if not real_float("epsilon", epsilon) > 0.0:
        raise ValueError(f"epsilon must be positive; got {epsilon!r}")
    check_delta(delta)
    return largest(
        "rho",
        (SMALLEST_RHO, LARGEST_RHO),
        lambda rho: kernel.log_zcdp_delta(epsilon, rho) - math.log(delta),
        lambda rho: zcdp_delta(epsilon, rho) <= delta,
        _RHO_MARGIN,
        1e-14,
    )


def compose_zcdp(rhos: Iterable[float]) -> float:
    """Return the rho of an adaptive composition of rho_i-zCDP mechanisms: the sum."""
    return math.fsum(check_sums("rho", rhos))


DEFAULT_ORDERS: tuple[float, ...] = tuple(ORDERS.tolist())


def gaussian_rdp(order: ArrayLike, mu: float) -> FloatArray:
    """Return the divergence order * mu^2 / 2 of N(0, 1) and N(mu, 1), shape of `order`."""
    if not real_float("mu", mu) >= 0.0:
        raise ValueError(f"mu must be at least 0; got {mu!r}")
    return np.asarray(0.5 * mu * mu * np.asarray(order, dtype=np.float64))


def rdp_delta(orders: ArrayLike, divergences: ArrayLike, epsilon: float) -> float:
    """Return the smallest delta the divergences prove at `epsilon`.

    Parameters
    ----------
    orders : array_like of shape (k,)
        Orders above 1.
    divergences : array_like of shape (k,)
        Bounds on the divergence at each order, at least 0; infinite where unknown.
    epsilon : float
        At least 0.
    """
    a, divergence = _check(orders, divergences)
    if not real_float("epsilon", epsilon) >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    return renyi_delta(divergence, epsilon, a)


def rdp_epsilon(orders: ArrayLike, divergences: ArrayLike, delta: float) -> float:
    """Return the smallest epsilon >= 0 proved at `delta`; other arguments as `rdp_delta`."""
    a, divergence = _check(orders, divergences)
    check_delta(delta)
    # The bound on delta, solved for epsilon at each order. `raised` pays for its rounding.
    t = a - 1.0
    epsilon = divergence - np.log1p(1.0 / t) - (math.log(delta) + np.log(a)) / t
    return raised(max(0.0, float(epsilon.min())), lambda e: rdp_delta(a, divergence, e) <= delta)


def compose_rdp(curves: Sequence[ArrayLike]) -> FloatArray:
    """Return the divergences of an adaptive composition: the sum, order by order.

    Parameters
    ----------
    curves : sequence of array_like, each of shape (k,)
        Divergences of the parts at the same orders.
    """
    arrays = [float_array("curves", curve, (None,)) for curve in curves]
    if not arrays:
        raise ValueError("curves must not be empty")
    if any(array.shape != arrays[0].shape for array in arrays):
        raise ValueError("curves must have equal shapes")
    return np.asarray(np.sum(arrays, axis=0))


def _check(orders: ArrayLike, divergences: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a = float_array("orders", orders, (None,))
    divergence = float_array("divergences", divergences, (a.shape[0],))
    if not a.size or not bool(np.all((a > 1.0) & np.isfinite(a))):
        raise ValueError("orders must be finite and above 1, at least one")
    if not bool(np.all(divergence >= 0.0)):
        raise ValueError("divergences must be at least 0")
    return a, divergence
