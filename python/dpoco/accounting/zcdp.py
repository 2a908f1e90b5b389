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

from dpoco._validation import real_float
from dpoco.accounting.gaussian import check_delta, check_sums, smallest_epsilon
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.loss import SMALLEST_DELTA

__all__ = ["compose_zcdp", "zcdp_delta", "zcdp_epsilon", "zcdp_rho"]

SMALLEST_RHO, LARGEST_RHO = 1e-18, 1e6
_RHO_MARGIN = 1e-12
# Added to log delta: more than its error, whose second part is the rounding of large terms.
_MARGIN, _TERM = 2.0**-44, 2.0**-50


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
    if rho == 0.0 or epsilon == math.inf:
        return 0.0
    if rho == math.inf:
        return 1.0
    return min(1.0, math.exp(min(0.0, _log_delta(epsilon, rho))) + SMALLEST_DELTA)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with ``zcdp_delta(epsilon, rho) <= delta``, rounded up."""
    check_delta(delta)
    if rho > 1e15 or zcdp_delta(0.0, rho) <= delta:
        return math.inf if rho > 1e15 else 0.0
    log_delta = math.log(delta)
    # Bun and Steinke's conversion bounds the answer.
    highest = (rho + 2.0 * math.sqrt(-rho * log_delta)) * (1.0 + 1e-12)
    return smallest_epsilon(
        lambda epsilon: _log_delta(epsilon, rho) - log_delta,
        lambda epsilon: zcdp_delta(epsilon, rho) <= delta,
        highest,
    )


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho with ``zcdp_delta(epsilon, rho) <= delta``, rounded down.

    Raises
    ------
    CalibrationError
        If it lies outside [1e-18, 1e6].
    """
    from scipy.optimize import brentq

    if not real_float("epsilon", epsilon) > 0.0:
        raise ValueError(f"epsilon must be positive; got {epsilon!r}")
    check_delta(delta)
    log_delta = math.log(delta)

    def excess(log_rho: float) -> float:
        return _log_delta(epsilon, math.exp(log_rho)) - log_delta

    low, high = math.log(SMALLEST_RHO), math.log(LARGEST_RHO)
    if excess(low) > 0.0 or excess(high) < 0.0:
        raise CalibrationError(
            f"no rho in [{SMALLEST_RHO:g}, {LARGEST_RHO:g}] corresponds to this epsilon and delta"
        )
    rho, margin = math.exp(float(brentq(excess, low, high, xtol=1e-14, rtol=1e-15))), _RHO_MARGIN
    rho *= 1.0 - margin
    while not zcdp_delta(epsilon, rho) <= delta:
        rho, margin = rho * (1.0 - margin), 2.0 * margin
    return rho


def compose_zcdp(rhos: Iterable[float]) -> float:
    """Return the rho of an adaptive composition of rho_i-zCDP mechanisms: the sum."""
    return math.fsum(check_sums("rho", rhos))


def _log_delta(epsilon: float, rho: float) -> float:
    """Return the minimum over a = 1 + t of the log of the bound.

    Its derivative in a is (2a - 1) rho - epsilon + log(1 - 1/a), which increases from -infinity to
    +infinity: the bound is log-convex with one minimum. Any a is valid, so a rough root is safe.
    """
    from scipy.optimize import brentq

    def slope(x: float) -> float:
        t = math.exp(x)
        return (2.0 * t + 1.0) * rho - epsilon - math.log1p(1.0 / t)

    low, high = -1.0, 1.0
    while slope(low) > 0.0 and low > -700.0:
        low = max(2.0 * low, -700.0)
    while slope(high) < 0.0 and high < 700.0:
        high = min(2.0 * high, 700.0)
    if slope(low) > 0.0 or slope(high) < 0.0:
        x = low if slope(low) > 0.0 else high
    else:
        x = float(brentq(slope, low, high, xtol=1e-12, rtol=1e-14))
    t = math.exp(x)
    # log(1 - 1/a) = -log1p(1/t) for a = 1 + t.
    up = _MARGIN + _TERM * (t * ((1.0 + t) * rho + epsilon) + abs(x))
    return t * ((1.0 + t) * rho - epsilon) - x - (1.0 + t) * math.log1p(1.0 / t) + up
