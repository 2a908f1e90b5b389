"""Bounded range: log-likelihood ratios confined to an interval of length r, wherever it lies.

Every selection by softmax is of this kind, and so is the draw of an expert from exponential
weights. The exponential mechanism (Gumbel noise) that is epsilon-private has range epsilon.
Claim: if every two neighbouring streams have log-likelihood ratios in some interval of length r,

    delta(epsilon) = (1 - e^((epsilon - r) / 2))^2 / (1 - e^-r)   for -r <= epsilon <= r,

0 beyond r and 1 - e^epsilon below -r; the logarithm of the moment of order a > 1 is at most

    m(r, a) = max over t in [0, r] of log(p_1 e^((a-1) t) + p_0 e^((a-1)(t-r))),

p_1 = (1 - e^(t-r)) / (1 - e^-r) = 1 - p_0, and at most a (a-1) r^2 / 8. All are attained.

Proof: ``docs/privacy/bounded_range.md``. Source: Dong, Durfee and Rogers, "Optimal differential
privacy composition for exponential mechanisms" (2020); Cesar and Rogers, "Bounding, concentrating,
and truncating" (2021).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import positive_int, real_float
from dpoco.accounting.events import zcdp_event
from dpoco.accounting.gaussian import SMALLEST_DELTA, raised
from dpoco.accounting.pure import pure_delta, pure_epsilon_at
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_delta, rdp_epsilon
from dpoco.accounting.zcdp import zcdp_delta, zcdp_epsilon

__all__ = [
    "bounded_range_delta",
    "bounded_range_epsilon",
    "bounded_range_moment",
    "bounded_range_profile",
    "checked",
    "describe",
    "event",
    "profile_delta",
    "profile_epsilon",
    "pure_epsilon",
]

FloatArray = NDArray[np.float64]

# Below this value of order * range the quadratic bound exceeds the moment by less than 1e-7 of it;
# shorter ranges leave the stationary point without digits.
_QUADRATIC, _SHORT = 1e-3, 1e-9
# Relative error of a moment, added to round upwards.
_ROUNDING = 2e-11
# Relative, of delta: more than its error.
_MARGIN = 2.0**-48


def bounded_range_moment(r: ArrayLike, order: ArrayLike) -> FloatArray:
    """Return the largest log E_Q (dP/dQ)^order of log-likelihood ratios of range r.

    Parameters
    ----------
    r : array_like
        Ranges, at least 0, possibly infinite.
    order : array_like
        Orders above 1; broadcast against `r`.

    Returns
    -------
    ndarray
        Of the broadcast shape: order - 1 times the Renyi divergence. Rounded up, by a relative
        2e-11 (1e-7 where order * r < 1e-3); a simple bound for r below 1e-6.
    """
    ranges, a = np.broadcast_arrays(
        np.asarray(r, dtype=np.float64), np.asarray(order, dtype=np.float64)
    )
    if not bool(np.all(ranges >= 0.0)):
        raise ValueError("r must be at least 0")
    if not bool(np.all((a > 1.0) & np.isfinite(a))):
        raise ValueError("order must be finite and above 1")
    return np.asarray(moment(ranges, a))


def moment(ranges: FloatArray, a: FloatArray) -> FloatArray:
    """Return `bounded_range_moment` of arrays of one shape or of shapes that broadcast."""
    b = a - 1.0
    with np.errstate(all="ignore"):
        quadratic = 0.125 * a * b * ranges * ranges
        # s = r - t, from the stationary point of the maximum; no difference of close numbers
        # matters, since the maximum is flat.
        gap = -np.expm1(-ranges)  # 1 - e^-r
        s = np.log(a * np.expm1(-b * ranges) / (b * np.expm1(-a * ranges)))
        s = np.minimum(np.maximum(s, 0.0), ranges)
        t = ranges - s
        one = -np.expm1(-s) / gap  # P of the likelier side
        other = np.exp(-s) * -np.expm1(-t) / gap  # its complement
        grown = b * t
        small = np.log1p(one * np.expm1(grown) + other * np.expm1(-b * s))
        large = grown + np.log(one + other * np.exp(-b * ranges))
        value = np.where(grown < 1.0, small, large) * (1.0 + _ROUNDING)
        bound = np.fmin(quadratic, b * ranges) * (1.0 + 1e-15)
        simple = (a * ranges < _QUADRATIC) | (ranges < _SHORT) | np.isnan(value)
    return np.asarray(np.where(simple, bound, np.fmin(value, bound)))


def bounded_range_delta(epsilon: float, r: float) -> float:
    """Return delta(epsilon) of log-likelihood ratios of range r.

    Parameters
    ----------
    epsilon : float
        Any real number, also below 0; infinite gives 0.
    r : float
        Range, at least 0; infinite gives 1.
    """
    if math.isnan(epsilon):
        raise ValueError("epsilon must be a number")
    if not r >= 0.0:
        raise ValueError(f"r must be at least 0; got {r!r}")
    if epsilon >= r:
        return 0.0
    if r == math.inf:
        return 1.0
    if epsilon <= -r:
        return min(1.0, -math.expm1(epsilon) * (1.0 + _MARGIN))
    value = math.expm1(0.5 * (epsilon - r)) ** 2 / -math.expm1(-r)
    return min(1.0, value * (1.0 + _MARGIN) + SMALLEST_DELTA)


def bounded_range_epsilon(delta: float, r: float) -> float:
    """Return the smallest epsilon >= 0 with ``bounded_range_delta(epsilon, r) <= delta``.

    Parameters
    ----------
    delta : float
        In [0, 1).
    r : float
        Range, at least 0.
    """
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be in [0, 1); got {delta!r}")
    if bounded_range_delta(0.0, r) <= delta:
        return 0.0
    if r == math.inf:
        return math.inf
    epsilon = max(0.0, r + 2.0 * math.log1p(-math.sqrt(delta * -math.expm1(-r))))
    return raised(epsilon, lambda e: bounded_range_delta(e, r) <= delta, r)


def bounded_range_profile(r: float, count: int = 1) -> dict[str, Any]:
    """Return the record of `count` adaptive releases of range r, for ``Guarantee.profile``."""
    return checked({"kind": "bounded_range", "range": r, "count": count})


def checked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of a record."""
    if set(record) != {"kind", "range", "count"}:
        raise ValueError("a profile of kind 'bounded_range' has the fields range and count")
    r = real_float("range", record["range"])
    if r < 0.0:
        raise ValueError(f"range must be at least 0; got {r!r}")
    return {"kind": "bounded_range", "range": r, "count": positive_int("count", record["count"])}


def profile_delta(record: Mapping[str, Any], epsilon: float) -> float:
    """Return delta at `epsilon` >= 0: exact for one release, else the best of three bounds."""
    r, count = float(record["range"]), int(record["count"])
    if count == 1 or r == 0.0:
        return bounded_range_delta(epsilon, r)
    if epsilon == math.inf:
        return 0.0
    candidates = (
        pure_delta(epsilon, count * r),
        zcdp_delta(epsilon, 0.125 * count * r * r),
        rdp_delta(DEFAULT_ORDERS, _divergences(r, count), epsilon),
    )
    return min(candidates)


def profile_epsilon(record: Mapping[str, Any], delta: float) -> float:
    """Return the smallest epsilon >= 0 known at `delta` in (0, 1)."""
    r, count = float(record["range"]), int(record["count"])
    if count == 1 or r == 0.0:
        return bounded_range_epsilon(delta, r)
    return min(
        pure_epsilon_at(delta, count * r),
        zcdp_epsilon(0.125 * count * r * r, delta),
        rdp_epsilon(DEFAULT_ORDERS, _divergences(r, count), delta),
    )


def pure_epsilon(record: Mapping[str, Any]) -> float:
    """Return the epsilon at delta = 0."""
    return float(record["range"]) * int(record["count"])


def describe(record: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    text = f"log-likelihood ratios in an interval of length {record['range']:.6g}"
    count = int(record["count"])
    return text if count == 1 else f"{count} releases with {text} each"


def event(record: Mapping[str, Any]) -> Any:
    """Return a zCDP event with rho = count range^2 / 8, which is weaker than the profile.

    Raises
    ------
    ValueError
        If the range is 0.
    """
    return zcdp_event(0.125 * int(record["count"]) * float(record["range"]) ** 2)


def _divergences(r: float, count: int) -> FloatArray:
    orders = np.array(DEFAULT_ORDERS)
    return count * bounded_range_moment(r, orders) / (orders - 1.0)
