"""The inverse of the Gaussian curve `dpoco.privacy.losses.gaussian`: epsilons, and the least noise.

Proof: ``docs/privacy/gaussian.md``. Source: Balle and Wang, "Improving the Gaussian mechanism for
differential privacy: analytical calibration and optimal denoising" (2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from dpoco._validation import positive_float, real_float
from dpoco.accounting._roots import find_root
from dpoco.accounting.budget import Budget
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.gaussian import gaussian_delta, log_gaussian_delta
from dpoco.privacy.losses.loss import SMALLEST_DELTA

__all__ = ["compose_gdp", "gaussian_epsilon", "gaussian_mu", "gaussian_sigma"]

SMALLEST_MU, LARGEST_MU = 1e-9, 1e3

# Of mu: more than the roundings between mu and the noise scale that is calibrated to it.
_MU_MARGIN = 2e-13
_ROUNDS = 500  # of a search, at most
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
# A search ends in digits that the platform's libm decides: a plan has twelve, on the private side.
_DOWN, _UP = (Context(prec=12, rounding=side) for side in (ROUND_FLOOR, ROUND_CEILING))
# Below this epsilon step the curve does not change in double precision.
_EPSILON_STEP = 2.0**-50


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with ``gaussian_delta(epsilon, mu) <= delta``.

    Rounded up: the inequality holds exactly for the returned value. Infinite from
    mu = 1e8 on, where double precision no longer resolves the curve.

    Parameters
    ----------
    mu : float
        At least 0.
    delta : float
        Strictly between 0 and 1.
    """
    check_delta(delta)
    if not mu >= 0.0:
        raise ValueError(f"mu must be at least 0; got {mu!r}")
    if mu >= 1e8:
        return math.inf
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    # delta(epsilon; mu) <= exp(-(epsilon/mu - mu/2)^2 / 2) to the right of epsilon = mu^2 / 2.
    epsilon = 0.5 * mu * mu + mu * math.sqrt(-2.0 * math.log(delta)) * (1.0 + 1e-12) + 1e-300

    def excess(epsilon: float) -> float:
        return log_gaussian_delta(epsilon, mu) - math.log(delta)

    if excess(epsilon) < 0.0 < excess(0.0):
        epsilon = find_root(excess, 0.0, epsilon, xtol=1e-300, rtol=1e-15, maxiter=_ROUNDS)
    return raised(epsilon, lambda epsilon: gaussian_delta(epsilon, mu) <= delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu in [1e-9, 1e3] with ``gaussian_delta(epsilon, mu) <= delta``.

    Exact to relative 2e-11 and rounded down to twelve digits: the inequality holds for the value.

    Parameters
    ----------
    epsilon : float
        At least 0, finite.
    delta : float
        Strictly between 0 and 1.

    Raises
    ------
    CalibrationError
        If the solution lies outside [1e-9, 1e3].
    """
    epsilon = real_float("epsilon", epsilon)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    check_delta(delta)
    return largest_mu(
        lambda mu: log_gaussian_delta(epsilon, mu) - math.log(delta),
        lambda mu: gaussian_delta(epsilon, mu) <= delta,
    )


def gaussian_sigma(budget: Budget, sensitivity: float) -> float:
    """Return the smallest noise standard deviation meeting `budget` (the analytic optimum).

    Parameters
    ----------
    budget : Budget
        What may be spent.
    sensitivity : float
        l2 norm of the largest difference between neighbouring values, positive.
    """
    sensitivity = positive_float("sensitivity", sensitivity)
    return sensitivity / gaussian_mu(budget.epsilon, budget.delta)


def compose_gdp(mus: Iterable[float]) -> float:
    """Return the mu of an adaptive composition of mu_i-GDP mechanisms: sqrt(sum of squares)."""
    return math.hypot(*check_sums("mu", mus))


def raised(epsilon: float, holds: Callable[[float], bool], highest: float = math.inf) -> float:
    """Return `epsilon`, or the next of ever larger ones up to `highest`, that `holds`.

    `highest` is returned if none before it holds.
    """
    step = _EPSILON_STEP
    while epsilon < highest and not holds(epsilon):
        epsilon, step = min(highest, max(epsilon * (1.0 + step), 1e-300)), 2.0 * step
    return epsilon


def largest_mu(excess: Callable[[float], float], holds: Callable[[float], bool]) -> float:
    """Return the root of the increasing `excess` on [1e-9, 1e3], moved down until `holds`.

    Rounded down to twelve digits.
    """
    found = largest("mu", (SMALLEST_MU, LARGEST_MU), excess, holds, _MU_MARGIN, 1e-15)
    return rounded_down(found)


def largest(
    name: str,
    ends: tuple[float, float],
    excess: Callable[[float], float],
    holds: Callable[[float], bool],
    margin: float,
    precision: float,
) -> float:
    """Return the root of the increasing `excess` between `ends`, moved down until `holds`."""
    low, high = ends
    if excess(low) > 0.0 or excess(high) < 0.0:
        raise CalibrationError(
            f"no {name} in [{low:g}, {high:g}] corresponds to this epsilon and delta"
        )
    log_ends = math.log(low), math.log(high)
    at = find_root(
        lambda x: excess(math.exp(x)), *log_ends, xtol=precision, rtol=1e-15, maxiter=_ROUNDS
    )
    found = math.exp(at) * (1.0 - margin)
    while not holds(found):
        found, margin = found * (1.0 - margin), 2.0 * margin
        if found < low:
            raise CalibrationError(f"delta is below {SMALLEST_DELTA:g}, which no curve can show")
    return found


def largest_fitting(
    fits: Callable[[float], bool], low: float, high: float, steps: int
) -> float | None:
    """Return by bisection the largest number tried that fits, or None."""
    best = None
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if fits(middle):
            low = best = middle
        else:
            high = middle
    return best


def least(value: Callable[[float], float], low: float, high: float, steps: int = 52) -> float:
    """Return the x in [low, high] with the least value, if there is one minimum: golden section."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(steps):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
    return left if at_left <= at_right else right


def rounded_down(value: float) -> float:
    """Return `value`, positive, rounded down to twelve digits."""
    return float(_DOWN.create_decimal_from_float(value))


def rounded_up(value: float) -> float:
    """Return `value`, positive, rounded up to twelve digits."""
    return float(_UP.create_decimal_from_float(value))


def check_sums(name: str, values: Iterable[float]) -> list[float]:
    """Return the parameters of what is composed, if they are at least 0."""
    numbers = [real_float(name, value) for value in values]
    if any(number < 0.0 for number in numbers):
        raise ValueError(f"every {name} must be at least 0")
    return numbers


def check_delta(delta: float) -> None:
    """Raise unless `delta` is strictly between 0 and 1."""
    if not 0.0 < real_float("delta", delta) < 1.0:
        raise ValueError(f"delta must be strictly between 0 and 1; got {delta!r}")
