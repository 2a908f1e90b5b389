"""Gaussian releases of one record of n, drawn uniformly with replacement, many times over.

Claim: let every step draw an index uniformly among n records, whatever was drawn before, and
release that record's vector plus N(0, sigma^2 I); vectors of any two records, of either of two
neighbouring data sets, are at most D apart in l2 (D = 2 L for gradients of length L). With q = 1/n
and mu = D/sigma, every step's hockey-stick divergences, in either direction and given the past, are
at most

    delta(e) = q gaussian_delta(log(1 + (exp(e) - 1) / q), mu)      for e >= 0,
    delta(e) = 1 - exp(e) + exp(e) delta(-e)                        for e < 0,

and so K steps have at most the K-fold composition of that profile: removing is the worse direction
to the right of 0, adding to the left, and both count in every step. They are sqrt(K) mu-GDP, too.

Proof: ``docs/privacy/batch_baselines.md``. Sources: Balle, Barthe and Gaboardi, "Privacy
amplification by subsampling" (2018); Zhu, Dong and Wang, "Optimal accounting of differential
privacy via characteristic function" (2022); Mironov, "Renyi differential privacy" (2017).
Numerics: the least of a Fourier sum (`_batch.sampled_composition`), Renyi divergences
(`_batch.sampled_step`), fast Fourier transforms for few steps (`_batch.sampled_transform`) and the
composition without secrecy. Each is an upper bound, its rounding included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import float_array, positive_float, positive_int, real_float
from dpoco.accounting._batch.sampled_composition import least_composed_delta
from dpoco.accounting._batch.sampled_step import LARGEST_MU, step_divergences
from dpoco.accounting._batch.sampled_transform import (
    FEW_STEPS,
    MOST_TRANSFORMED,
    ROUNDING_PER_STEP,
    transformed_delta,
)
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu, raised
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_delta, rdp_epsilon
from dpoco.errors import CalibrationError

__all__ = [
    "LARGEST_STEPS",
    "checked",
    "describe",
    "event",
    "profile_delta",
    "profile_epsilon",
    "pure_epsilon",
    "sampled_gaussian_delta",
    "sampled_gaussian_epsilon",
    "sampled_gaussian_multiplier",
    "sampled_gaussian_profile",
    "sampled_gaussian_rdp",
]

FloatArray = NDArray[np.float64]

LARGEST_STEPS = 10**13
# Below this the loss of a step may exceed what exp can represent; secrecy hides nothing there.
_LEAST_MULTIPLIER = 0.04
_LARGEST_EPSILON = 1e9
# More noise is accounted for as this much: its squares would underflow.
_LARGEST_MULTIPLIER = 1e9
# What is unknown of a Fourier sum may be this share of it before others are asked.
_UNKNOWN = 2e-3
_JITTER = 1e-6


def sampled_gaussian_delta(epsilon: float, *, records: int, multiplier: float, steps: int) -> float:
    """Return an upper bound of delta at `epsilon` >= 0.

    Tight to about 2 % for deltas down to 1e-20 if steps are many, far above 2^-49 a step if they
    are few; to orders of magnitude only below 1e-60. Where another bound becomes the least, it may
    rise with epsilon: by less than 0.1 %, or a factor of 3 at deltas below 1e-11.

    Parameters
    ----------
    epsilon : float
        At least 0.
    records : int
        n: every step's record is drawn with probability 1/n each.
    multiplier : float
        Noise standard deviation over the largest distance of two vectors (2 L), positive.
    steps : int
        K, at most 1e13.
    """
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    return _delta(float(epsilon), *_arguments(records, multiplier, steps))


@lru_cache(maxsize=4096)
def _delta(epsilon: float, n: int, factor: float, k: int) -> float:
    """Return the least of the bounds that hold."""
    best = gaussian_delta(epsilon, math.sqrt(k) / factor)
    if n == 1 or epsilon == math.inf or factor < _LEAST_MULTIPLIER or best == 0.0:
        return best
    factor = min(factor, _LARGEST_MULTIPLIER)
    mu, rounding, unknown = 1.0 / factor, k * ROUNDING_PER_STEP, math.inf
    best = min(best, rdp_delta(DEFAULT_ORDERS, k * step_divergences(n, mu), epsilon))
    # Transforms first where they are quick; a sum where their rounding, or its own, would show.
    if k <= FEW_STEPS and rounding < best:
        best = min(best, transformed_delta(epsilon, n, factor, k))
    if mu <= LARGEST_MU and (k > FEW_STEPS or rounding > _UNKNOWN * best):
        bound, unknown = least_composed_delta(epsilon, n, mu, k, best)
        best = min(best, bound)
    fits = FEW_STEPS < k <= MOST_TRANSFORMED and rounding < best
    if fits and unknown > max(_UNKNOWN * best, rounding):
        best = min(best, transformed_delta(epsilon, n, factor, k))
    return best


def sampled_gaussian_epsilon(delta: float, *, records: int, multiplier: float, steps: int) -> float:
    """Return the smallest epsilon with ``sampled_gaussian_delta(epsilon, ...) <= delta``.

    Exact to 1e-9 and rounded up.

    Parameters
    ----------
    delta : float
        Strictly between 0 and 1.
    records, multiplier, steps
        As for `sampled_gaussian_delta`.
    """
    return _epsilon(float(delta), *_arguments(records, multiplier, steps))


@lru_cache(maxsize=256)
def _epsilon(delta: float, n: int, factor: float, k: int) -> float:
    from scipy.optimize import brentq

    high = min(_LARGEST_EPSILON, gaussian_epsilon(math.sqrt(k) / factor, delta))
    divergences = k * step_divergences(n, 1.0 / factor)
    high = min(high, rdp_epsilon(DEFAULT_ORDERS, divergences, delta) * (1.0 + 1e-9))

    def excess(epsilon: float) -> float:
        return math.log(max(_delta(epsilon, n, factor, k), 1e-300) / delta)

    # Smaller deltas underflow: what holds in logarithms is returned for them.
    if delta < 1e-299 or (high < _LARGEST_EPSILON and excess(high) > 0.0):
        return high if high < _LARGEST_EPSILON else math.inf
    if excess(0.0) <= 0.0:
        return 0.0
    if excess(high) > 0.0:
        return math.inf
    step = 1e-9 * max(1.0, high)
    root = float(brentq(excess, 0.0, high, xtol=0.25 * step))
    while excess(root) > 0.0:
        root, step = min(root + 0.25 * step, high), 2.0 * step
    return raised(root, lambda e: _delta(e, n, factor, k) <= delta, high)


def sampled_gaussian_multiplier(epsilon: float, delta: float, *, records: int, steps: int) -> float:
    """Return the smallest noise multiplier with delta at `epsilon`, to relative 1e-4, rounded up.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        Strictly between 0 and 1.
    records, steps : int
        As for `sampled_gaussian_delta`.

    Raises
    ------
    CalibrationError
        If there is none in the range of double precision.
    """
    n, _, k = _arguments(records, 1.0, steps)
    return _least_multiplier(epsilon, delta, n, k)


@lru_cache(maxsize=64)
def _least_multiplier(epsilon: float, delta: float, n: int, k: int) -> float:
    from scipy.optimize import brentq

    target = gaussian_mu(epsilon, delta)
    least = math.sqrt(k) / target  # enough without the secrecy of the index
    if n == 1:
        return least

    # A bound jitters with the last bits of its arguments: who evaluates it again, at a multiplier
    # or epsilon computed another way, must find it below delta, too.
    rounding = k * ROUNDING_PER_STEP / delta
    transformed = k <= MOST_TRANSFORMED and rounding < 1.0
    jitter = _JITTER + (min(rounding, _UNKNOWN) if transformed else 0.0)

    def excess(log_multiplier: float) -> float:
        value = _delta(epsilon, n, math.exp(log_multiplier), k)
        return math.log(max(value, 1e-300)) - math.log(delta) + jitter

    # In the limit of many steps the loss is that of a Gaussian with mu^2 = K q^2 (exp(1/z^2) - 1).
    guess = -0.5 * math.log(math.log1p((target * n) ** 2 / k))
    high = min(guess, math.log(least))
    low, step = high, 0.05
    while excess(high) > 0.0:
        low, high = high, min(high + step, math.log(least))
        step *= 2.0
        if high == low:
            break
    step = 0.05
    while excess(low) <= 0.0:
        high, low = low, low - step
        step *= 2.0
        if step > 100.0:
            raise CalibrationError("no noise scale fits these steps")
    root = float(brentq(excess, low, high, xtol=1e-5)) if low < high else high
    margin = 2e-5
    while excess(root) > 0.0:
        root, margin = min(root + margin, high), 2.0 * margin
        if root == high:
            break
    return min(math.exp(root), least)


def sampled_gaussian_rdp(orders: ArrayLike, *, records: int, multiplier: float) -> FloatArray:
    """Return bounds on the Renyi divergences of one step, replacing a record either way.

    Parameters
    ----------
    orders : array_like of shape (k,)
        Above 1, integer or not.
    records, multiplier
        As for `sampled_gaussian_delta`.

    Returns
    -------
    ndarray of shape (k,)
        Tight to a fraction of a percent where secrecy helps; they add up over the steps.
    """
    a = float_array("orders", orders, (None,))
    if not bool(np.all((a > 1.0) & np.isfinite(a))):
        raise ValueError("orders must be finite and above 1")
    n, factor, _ = _arguments(records, multiplier, 1)
    return step_divergences(n, 1.0 / factor, tuple(a))


def sampled_gaussian_profile(records: int, multiplier: float, steps: int) -> dict[str, Any]:
    """Return the record of such a composition, for ``Guarantee.profile``."""
    return checked(
        {"kind": "sampled_gaussian", "records": records, "multiplier": multiplier, "steps": steps}
    )


def checked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of a record."""
    if set(record) != {"kind", "records", "multiplier", "steps"}:
        raise ValueError(
            "a profile of kind 'sampled_gaussian' has the fields records, multiplier and steps"
        )
    n, factor, k = _arguments(record["records"], record["multiplier"], record["steps"])
    return {"kind": "sampled_gaussian", "records": n, "multiplier": factor, "steps": k}


def profile_delta(record: Mapping[str, Any], epsilon: float) -> float:
    """Return delta at `epsilon` >= 0."""
    return sampled_gaussian_delta(epsilon, **_numbers(record))


def profile_epsilon(record: Mapping[str, Any], delta: float) -> float:
    """Return the smallest epsilon at `delta`."""
    return sampled_gaussian_epsilon(delta, **_numbers(record))


def pure_epsilon(record: Mapping[str, Any]) -> float:
    """Return infinity: Gaussian noise has no bounded likelihood ratio."""
    return math.inf


def describe(record: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    return (
        f"{record['steps']} Gaussian releases with noise multiplier {record['multiplier']:.6g}, "
        f"each of one record of {record['records']}, drawn with replacement"
    )


def event(record: Mapping[str, Any]) -> Any:
    """Raise: accountants of ``dp_accounting`` have no such event for records that are replaced."""
    raise ValueError(
        "no dp_accounting event describes a replaced record that is drawn with replacement; "
        "use delta_at and epsilon_at"
    )


def _numbers(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("records", "multiplier", "steps")}


def _arguments(records: Any, multiplier: Any, steps: Any) -> tuple[int, float, int]:
    factor = positive_float("multiplier", multiplier)
    return (
        positive_int("records", records),
        real_float("multiplier", factor),
        positive_int("steps", steps, maximum=LARGEST_STEPS),
    )
