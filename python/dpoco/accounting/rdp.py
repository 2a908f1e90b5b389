"""Accounting by Renyi divergences: at finitely many orders (RDP), and concentrated (zCDP).

Claim: a mechanism whose Renyi divergence of order a > 1 between neighbouring streams is at most D
is (epsilon, delta)-private for epsilon >= 0 with

    delta = exp((a - 1)(D - epsilon)) / (a - 1) * (1 - 1/a)^a,

and divergences of the same order add up under adaptive composition.

A mechanism is rho-zCDP when its Renyi divergence of every order a > 1 between neighbouring streams
is at most a rho. Claim: it is then (epsilon, delta)-private for every epsilon >= 0 with

    delta = min over a > 1 of exp((a - 1)(a rho - epsilon)) / (a - 1) * (1 - 1/a)^a.

Proof: ``docs/privacy/gaussian.md``, section "Renyi divergences". Sources: Mironov (2017);
Bun and Steinke (2016); Canonne, Kamath and Steinke, "The discrete Gaussian for differential
privacy" (2020), Prop. 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpoco._validation import FloatArray, float_array, real_float
from dpoco.accounting.gaussian import check_delta, check_sums, largest, raise_epsilon
from dpoco.privacy.losses import loss as kernel
from dpoco.privacy.losses.loss import ORDERS, renyi_delta, sum_up

__all__ = ["DEFAULT_ORDERS", "compose_zcdp", "rdp_delta", "rdp_epsilon", "zcdp_delta",
           "zcdp_epsilon", "zcdp_rho"]  # fmt: skip

SMALLEST_RHO, LARGEST_RHO = 1e-18, 1e6
# Relative margin on rho that exceeds the rounding errors between rho and its noise scale.
_RHO_MARGIN = 1e-12


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return a delta such that rho-zCDP implies (epsilon, delta)-privacy.

    Parameters
    ----------
    epsilon : float
        At least 0; may be infinite (then delta is 0).
    rho : float
        At least 0; may be infinite (then delta is 1).

    Returns
    -------
    float
        At most 1; 0 only where rho is 0 or epsilon infinite.

    Raises
    ------
    ValueError
        For negative numbers, and NaN.
    """
    if not epsilon >= 0.0 or not rho >= 0.0:
        raise ValueError(f"epsilon and rho must be at least 0; got {epsilon!r} and {rho!r}")
    # Every order proves a bound, so a suboptimal order makes the bound looser but not false.
    return kernel.zcdp_delta(epsilon, rho)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with ``zcdp_delta(epsilon, rho) <= delta``, rounded up.

    Parameters
    ----------
    rho : float
        At least 0.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        Infinite if no epsilon is found.
    """
    check_delta(delta)
    # The search is the same as for a mechanism of which only rho is known.
    return kernel.Zcdp(rho).epsilon(delta)


@lru_cache(maxsize=64)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho with ``zcdp_delta(epsilon, rho) <= delta``, rounded down.

    Parameters
    ----------
    epsilon : float
        Positive, finite.
    delta : float
        Strictly between 0 and 1.

    Raises
    ------
    CalibrationError
        If rho lies outside [1e-18, 1e6].
    """
    if not real_float("epsilon", epsilon) > 0.0:
        raise ValueError(f"epsilon must be positive; got {epsilon!r}")
    check_delta(delta)
    # The root is found on a log scale because delta underflows. The result is checked for delta
    # itself.
    return largest(
        "rho",
        (SMALLEST_RHO, LARGEST_RHO),
        lambda rho: kernel.log_zcdp_delta(epsilon, rho) - math.log(delta),
        lambda rho: zcdp_delta(epsilon, rho) <= delta,
        _RHO_MARGIN,
        1e-14,
    )


def compose_zcdp(rhos: Iterable[float]) -> float:
    """Return the rho of an adaptive composition of rho_i-zCDP mechanisms: the sum, rounded up.

    Parameters
    ----------
    rhos : iterable of float
        Each at least 0.
    """
    return sum_up(*((1, rho, 1.0) for rho in check_sums("rho", rhos)))


DEFAULT_ORDERS: tuple[float, ...] = tuple(ORDERS.tolist())


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

    Returns
    -------
    float
        At most 1; 1 if no order proves less. O(k).

    Raises
    ------
    ValueError, TypeError
        For arrays of other shapes, orders of at most 1, and negative numbers.
    """
    a, divergence = _check(orders, divergences)
    if not real_float("epsilon", epsilon) >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    return renyi_delta(divergence, epsilon, a)


def rdp_epsilon(orders: ArrayLike, divergences: ArrayLike, delta: float) -> float:
    """Return the smallest epsilon >= 0 proved at `delta`; other arguments as `rdp_delta`.

    Parameters
    ----------
    orders, divergences
        See `rdp_delta`; the errors are the same.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        Infinite if no order has a finite divergence.
    """
    a, divergence = _check(orders, divergences)
    check_delta(delta)
    # The bound on delta, solved for epsilon at each order. `raise_epsilon` corrects its rounding.
    t = a - 1.0
    epsilon = divergence - np.log1p(1.0 / t) - (math.log(delta) + np.log(a)) / t
    # The kernel's function, because `rdp_delta` would check the arrays again in every trial.
    least = max(0.0, float(epsilon.min()))
    return raise_epsilon(least, lambda e: renyi_delta(divergence, e, a) <= delta)


def _check(orders: ArrayLike, divergences: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return orders and divergences as arrays of one shape, or raise."""
    a = float_array("orders", orders, (None,))
    divergence = float_array("divergences", divergences, (a.shape[0],))
    if not a.size or not bool(np.all((a > 1.0) & np.isfinite(a))):
        raise ValueError("orders must be finite and above 1, at least one")
    if not bool(np.all(divergence >= 0.0)):  # also refuses NaN
        raise ValueError("divergences must be at least 0")
    return a, divergence
