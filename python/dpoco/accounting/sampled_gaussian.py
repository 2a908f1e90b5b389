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
privacy via characteristic function" (2022). Composition: connect-the-dots discretisation, and the
fast Fourier transforms of ``dp_accounting``, whose rounding is charged to delta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_float, positive_int, real_float
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpoco.errors import CalibrationError

__all__ = [
    "ROUNDING_PER_STEP",
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
]

FloatArray = NDArray[np.float64]

LARGEST_STEPS = 10**10
# Below this the loss of a step may exceed what exp can represent; secrecy hides nothing there.
_LEAST_MULTIPLIER = 0.04
# Powers of a transform carry a relative error of about one rounding per step.
ROUNDING_PER_STEP = 2.0**-49
_TRUNCATION = 1e-16
_TAILS = 1e-18
_CELLS_PER_DEVIATION = 8.0  # of one step's loss: inflates its variance by at most 0.4 %
_CELLS_IN_ALL = 1000.0  # per deviation of the sum's loss, at least
_MOST_CELLS = 2.0**20


def sampled_gaussian_delta(epsilon: float, *, records: int, multiplier: float, steps: int) -> float:
    """Return an upper bound of delta at `epsilon` >= 0, tight to a fraction of a percent.

    Parameters
    ----------
    epsilon : float
        At least 0.
    records : int
        n: every step's record is drawn with probability 1/n each.
    multiplier : float
        Noise standard deviation over the largest distance of two vectors (2 L), positive.
    steps : int
        K, at most 1e10.
    """
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    return _delta(float(epsilon), *_arguments(records, multiplier, steps))


@lru_cache(maxsize=4096)
def _delta(epsilon: float, n: int, factor: float, k: int) -> float:
    direct = gaussian_delta(epsilon, math.sqrt(k) / factor)
    if n == 1 or epsilon == math.inf or factor < _LEAST_MULTIPLIER:
        return direct
    composed = float(_composed(n, factor, k).get_delta_for_epsilon(epsilon))
    return min(direct, max(composed, 0.0) + k * ROUNDING_PER_STEP)


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
    high = gaussian_epsilon(math.sqrt(k) / factor, delta)
    if not math.isfinite(high):
        high = 1e9

    def holds(epsilon: float) -> bool:
        return _delta(epsilon, n, factor, k) <= delta

    if holds(0.0):
        return 0.0
    if not holds(high):
        return math.inf
    low = 0.0
    while high - low > 1e-9 * max(1.0, high):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


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

    def excess(log_multiplier: float) -> float:
        value = _delta(epsilon, n, math.exp(log_multiplier), k)
        return math.log(max(value, 1e-300)) - math.log(delta)

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


def step_delta(epsilons: FloatArray, rate: float, mu: float) -> FloatArray:
    """Return the profile of one step at all `epsilons` >= 0."""
    from scipy.special import log_ndtr, ndtr

    # The Gaussian curve's own epsilon, log(1 + (e^epsilon - 1) / rate), without overflow.
    near = np.log1p(np.expm1(np.minimum(epsilons, 1.0)) / rate)
    far = epsilons - math.log(rate) + np.log1p((rate - 1.0) * np.exp(-np.maximum(epsilons, 1.0)))
    inner = np.where(epsilons <= 1.0, near, far)
    above = ndtr(0.5 * mu - inner / mu) - np.exp(inner + log_ndtr(-0.5 * mu - inner / mu))
    result: FloatArray = rate * np.maximum(above, 0.0)
    return result


def step_masses(width: float, half: int, rate: float, mu: float) -> tuple[FloatArray, float]:
    """Return the masses at losses -half, ..., half times `width`, and the one at infinity.

    Connect-the-dots (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022): the distribution whose
    profile is the step's at the grid and above it in between. It is symmetric, mass(-l) = e^-l
    mass(l), so only the right side is taken from differences of the profile: those of the left
    would round to a mass that a million steps can see.
    """
    losses = np.arange(1, half + 1) * width
    deltas = step_delta(np.concatenate([[0.0], losses]), rate, mu)
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    drops = -np.diff(deltas)
    right = drops / -math.expm1(-width)
    right[:-1] -= drops[1:] / math.expm1(width)
    right = np.maximum(right, 0.0)
    left = np.exp(-losses) * right
    middle = max(0.0, 1.0 - float(np.sum(right + left)) - float(deltas[-1]))
    return np.concatenate([left[::-1], [middle], right]), float(deltas[-1])


@lru_cache(maxsize=8)
def _composed(records: int, multiplier: float, steps: int) -> Any:
    """Return the privacy loss distribution of all steps, as ``dp_accounting`` has it."""
    from dp_accounting.pld import pld_pmf

    rate, mu = 1.0 / records, 1.0 / multiplier
    # Beyond this loss a step has less mass than the tails may have in all.
    reach = 0.5 * mu * mu + mu * math.sqrt(2.0 * max(1.0, math.log(rate * steps / _TAILS)))
    largest = float(np.logaddexp(math.log1p(-rate), math.log(rate) + reach))
    deviation = min(largest, rate * math.sqrt(math.expm1(min(mu * mu, 600.0))))
    total = deviation * math.sqrt(steps)
    width = min(deviation / _CELLS_PER_DEVIATION, total / _CELLS_IN_ALL)
    # Wider cells are a worse bound, not a wrong one.
    width = max(width, (total * total + 16.0 * total) / _MOST_CELLS, 4.0 * largest / _MOST_CELLS)
    # A long grid keeps the package's search for the truncated range near the optimum.
    half = math.ceil(max(largest, total / 8.0) / width) + 1
    masses, beyond = step_masses(width, half, rate, mu)
    step = pld_pmf.DensePLDPmf(width, -half, masses, beyond, True)
    with np.errstate(all="ignore"):  # the package's search tries orders that overflow
        return step.self_compose(steps, tail_mass_truncation=_TRUNCATION)
