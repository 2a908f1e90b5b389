"""The least noise of sampled Gaussian releases: planning for `dpoco.privacy.losses.sampled`."""

from __future__ import annotations

import math
from functools import lru_cache

from dpoco._validation import positive_int
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.sampled import LARGEST_STEPS, Sampled
from dpoco.privacy.losses.sampled_few import MOST_TRANSFORMED, ROUNDING_PER_STEP

__all__ = ["sampled_gaussian_multiplier"]

# What is unknown of a Fourier sum, and how much a bound moves with the last bits of its arguments.
_UNKNOWN, _JITTER = 2e-3, 1e-6


def sampled_gaussian_multiplier(epsilon: float, delta: float, *, records: int, steps: int) -> float:
    """Return the smallest noise multiplier with delta at `epsilon`, to relative 1e-4, rounded up.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        Strictly between 0 and 1.
    records, steps : int
        n and K of `Sampled`.

    Raises
    ------
    CalibrationError
        If there is none in the range of double precision.
    """
    n, k = positive_int("records", records), positive_int("steps", steps, maximum=LARGEST_STEPS)
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
        value = Sampled(n, math.exp(log_multiplier), k).delta(epsilon)
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
