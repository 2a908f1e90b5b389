"""Accounting of zero-concentrated differential privacy (zCDP).

A mechanism is rho-zCDP when its Renyi divergence of every order a > 1 between neighbouring streams
is at most a rho. Claim: it is then (epsilon, delta)-private for every epsilon >= 0 with

    delta = min over a > 1 of exp((a - 1)(a rho - epsilon)) / (a - 1) * (1 - 1/a)^a.

Proof: ``docs/privacy/gaussian.md``, section "Renyi divergences". Sources: Bun and Steinke (2016);
Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), Prop. 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from dpoco._validation import real_float
from dpoco.accounting.gaussian import check_delta, check_sums, largest
from dpoco.privacy.losses import loss as kernel

__all__ = ["compose_zcdp", "zcdp_delta", "zcdp_epsilon", "zcdp_rho"]

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
