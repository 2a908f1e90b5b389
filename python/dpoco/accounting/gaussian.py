"""Gaussian noise for a budget: the inverse of its curve, truncated tails, and other norms.

The curves are those of `dpoco.privacy.losses.gaussian`, and roots are found by Brent's method. If
possible, we load only the compiled function behind ``scipy.optimize.brentq`` and test it on a known
root. Otherwise we import ``scipy.optimize``. The roots are the same.

Proof: ``docs/privacy/gaussian.md``. Source: Balle and Wang, "Improving the Gaussian mechanism for
differential privacy: analytical calibration and optimal denoising" (2018).

The bounded tails of real samplers are charged to delta. The library's samplers compute each
elementary variate (normal, uniform, exponential, sign, ...) from finitely many random bits, so its
law lacks the outermost tail. The law of each variate is within total variation
``TAIL_MASS_PER_VARIATE`` of the ideal one, given all earlier draws.

Claim: if a mechanism is (epsilon, delta)-private with ideal noise and its joint output law is
within total variation tau of the ideal one under both of any two neighbouring streams, it is
(epsilon, delta + (1 + e^epsilon) tau)-private; and v variates used in expectation give
tau <= v * TAIL_MASS_PER_VARIATE.

Proof: ``docs/privacy/noise.md``. The rounding of real numbers to doubles is not covered.

Claims for the generalized Gaussian mechanism, of density prop. to exp(-||z||_r^2/(2 sigma^2)), an
l_q sensitivity D and 2 <= r < infinity, with
kappa(r) = (r - 1) d^max(0, 2/r - 2/q):

* the mechanism is rho-zCDP with rho = kappa(r) D^2 / (2 sigma^2), and
* it is mu-GDP with mu = sqrt(kappa(r)) D / sigma (which implies rho-zCDP).

For q < 2 we only use r = 2, the plain Gaussian with kappa = 1. Orders below 2 have no finite
smoothness constant and are refused.

Proof: ``docs/privacy/generalized_gaussian.md``. Source: Han et al., DP-TOFW, Lemmas 2.1 and 3.2,
corrected: the printed exponent min{q - 1, ln d - 1} is a smoothness constant, not an order.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from dpoco._validation import exponent, positive_float, positive_int, real_float
from dpoco.accounting.budget import Budget
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import with_tails
from dpoco.privacy.losses.gaussian import (
    Gaussian,
    gaussian_delta,
    log_gaussian_delta,
    turning_point,
)
from dpoco.privacy.losses.loss import SMALLEST_DELTA, Loss, charge
from dpoco.privacy.mechanisms.gaussian_sum import TAIL
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.special import special_functions

__all__ = ["TAIL_MASS_PER_VARIATE", "best_order", "charged_delta", "charged_epsilon",
           "charged_gaussian_delta", "charged_gaussian_epsilon", "charged_gaussian_mu",
           "compose_gdp", "coordinate_variance", "expected_norm_bound", "find_root",
           "gaussian_epsilon", "gaussian_mu", "gaussian_sigma", "generalized_gaussian_mu",
           "paper_order", "reserve", "truncation_mass", "unspent_note"]  # fmt: skip

_RELATIVE = 4.0 * 2.0**-52  # the smallest that SciPy allows


def find_root(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    xtol: float,
    rtol: float = _RELATIVE,
    maxiter: int = 100,
) -> float:
    """Return a root of a function that has different signs at the two ends.

    Parameters
    ----------
    function : callable
        Continuous, from float to float.
    low, high : float
        Ends of the bracket.
    xtol, rtol : float
        Absolute and relative tolerance of the root; their sum is allowed.
    maxiter : int
        Largest number of steps.

    Raises
    ------
    RuntimeError
        If the root is not found in so many steps.
    """
    compiled = _compiled_roots()
    if compiled is not None:
        return float(compiled(function, low, high, xtol, rtol, maxiter, (), False, True))
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=xtol, rtol=rtol, maxiter=maxiter))


@cache
def _compiled_roots() -> Callable[..., Any] | None:
    """Return SciPy's compiled Brent method, or None if it is not as expected."""
    home = importlib.util.find_spec("scipy")
    if home is None or not home.submodule_search_locations:
        return None
    folder = Path(home.submodule_search_locations[0]) / "optimize"
    # Importing the package `scipy.optimize` takes many times longer than loading this file.
    for file in (folder / f"_zeros{suffix}" for suffix in EXTENSION_SUFFIXES):
        spec = importlib.util.spec_from_file_location("_zeros", file)
        if spec is None or spec.loader is None or not file.exists():
            continue
        try:
            module: Any = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            own: Callable[..., Any] = module._brentq
            # The function is private to SciPy and may change. If it does not find a known root, the
            # public one is used.
            known = own(lambda x: x - 1.0, 0.0, 3.0, 1e-12, _RELATIVE, 100, (), False, True)
        except (ImportError, AttributeError, TypeError):
            return None
        return own if abs(known - 1.0) < 1e-9 else None
    return None


TAIL_MASS_PER_VARIATE = TAIL
# If epsilon is below its budget by less than this relative amount, the budget counts as spent. A
# charge below this share of delta does not explain an unspent budget.
_SPENT, _SMALL_CHARGE = 1.0 - 1e-3, 0.1


def truncation_mass(variates: float) -> float:
    """Return the total variation tau of `variates` elementary draws together (at most 1)."""
    variates = real_float("variates", variates)
    if variates < 0.0:
        raise ValueError(f"variates must be at least 0; got {variates!r}")
    return min(1.0, variates * TAIL_MASS_PER_VARIATE)


def reserve(budget: Budget, variates: float) -> Budget:
    """Return `budget` with the truncation charge subtracted from its delta, for calibration.

    If tails cost too much at this epsilon, the result has a smaller epsilon and a guarantee at
    least as strong.

    Parameters
    ----------
    budget : Budget
        Budget of the real noise, tails included.
    variates : float
        Expected number of elementary draws over the horizon.

    Returns
    -------
    Budget
        Budget of the ideal noise.

    Raises
    ------
    CalibrationError
        If no delta is left.
    """
    mass = truncation_mass(variates)
    left = budget.delta - charge(budget.epsilon, mass)
    if left > 0.0:
        return Budget._derived(budget.epsilon, left)
    # From a tenth of delta on, the epsilon below is at least ln(1.5).
    if 10.0 * mass >= budget.delta:
        raise CalibrationError(
            f"the truncated tails (total variation {mass:.3g}) cost more than delta = "
            f"{budget.delta:.3g}; raise delta, or lower the horizon"
        )
    # At this epsilon, tails take a quarter of delta and the noise gets half of it. A guarantee at a
    # smaller epsilon also holds at the budget's.
    return Budget._derived(math.log(0.25 * budget.delta / mass - 1.0), 0.5 * budget.delta)


def unspent_note(budget: Budget, epsilon: float, mass: float) -> str | None:
    """Return why noise for `budget` spends only `epsilon`; None if tails are not the reason.

    Above some epsilon, the charge (1 + e^epsilon) tau exceeds delta. Then a larger epsilon does not
    allow less noise.

    Parameters
    ----------
    budget : Budget
        Available budget.
    epsilon : float
        Epsilon that is spent, at the delta of the budget.
    mass : float
        tau.
    """
    spent = epsilon >= _SPENT * budget.epsilon
    if spent or charge(budget.epsilon, mass) <= _SMALL_CHARGE * budget.delta:
        return None
    return (
        f"of epsilon = {budget.epsilon:g} only {epsilon:.4g} is spent: the noise is proved to have "
        f"its exact law but for a chance of {mass:.2g}, which is charged (1 + e^epsilon) times to "
        f"delta = {budget.delta:g}, so no larger epsilon allows less noise"
    )


def charged_gaussian_delta(epsilon: float, mu: float, mass: float) -> float:
    """Return delta(epsilon) of a mu-GDP mechanism whose law is within `mass` of the ideal one.

    It is the minimum over epsilon' <= epsilon of delta(epsilon'; mu) + (1 + e^epsilon') mass,
    because a guarantee at epsilon' also holds at epsilon. This sum decreases up to the epsilon'
    with Phi(-mu/2 - epsilon'/mu) = mass and increases beyond.

    Parameters
    ----------
    epsilon, mu : float
        At least 0.
    mass : float
        Total variation, in [0, 1].
    """
    return with_tails(Gaussian(mu), mass).delta(epsilon)


def charged_gaussian_epsilon(mu: float, delta: float, mass: float) -> float:
    """Return the smallest epsilon with ``charged_gaussian_delta(epsilon, mu, mass) <= delta``.

    Infinite if there is none. For the arguments see `charged_gaussian_delta`; delta is in (0, 1).
    """
    return (
        gaussian_epsilon(mu, delta)
        if mass == 0.0
        else with_tails(Gaussian(mu), mass).epsilon(delta)
    )


def charged_gaussian_mu(budget: Budget, mass: float) -> float:
    """Return the largest mu with ``charged_gaussian_delta(epsilon, mu, mass) <= delta``.

    Exact to a relative 1e-12 and rounded down.

    Parameters
    ----------
    budget : Budget
        Budget with a positive delta.
    mass : float
        Total variation between the real law and the ideal one.

    Raises
    ------
    CalibrationError
        If no mu in [1e-9, 1e3] qualifies, because delta does not even cover the truncated tails.
    """
    budget.require_delta()
    return _charged_mu(budget.epsilon, budget.delta, mass)


@lru_cache(maxsize=1024)
def _charged_mu(epsilon: float, delta: float, mass: float) -> float:
    """Compute `charged_gaussian_mu`, cached because learners often plan the same budget."""
    # The charge grows with epsilon. If it exceeds delta at 0, no epsilon has a solution.
    if charge(0.0, mass) >= delta:
        raise CalibrationError(
            f"the truncated tails (total variation {mass:.3g}) cost more than delta = {delta:.3g}"
        )

    def excess(mu: float) -> float:
        if mass == 0.0:
            return log_gaussian_delta(epsilon, mu) - math.log(delta)
        at = min(epsilon, turning_point(mu, mass))
        ideal, tails = log_gaussian_delta(at, mu), math.log1p(math.exp(at)) + math.log(mass)
        # The sum of two exponentials is computed in logarithms, because either may underflow.
        top = max(ideal, tails)
        return top + math.log1p(math.exp(min(ideal, tails) - top)) - math.log(delta)

    # The root is only a start. The second function uses the curve that guarantees state.
    return largest_mu(excess, lambda mu: charged_gaussian_delta(epsilon, mu, mass) <= delta)


def charged_delta(curve: Callable[[float], float], epsilon: float, mass: float) -> float:
    """Return the charged delta at `epsilon` of any ideal curve epsilon -> delta.

    It is the minimum of curve(e) + (1 + e^e) mass over some e <= epsilon. Every such e is valid.
    """
    return curve(epsilon) if mass == 0.0 else _Curve(curve).delta_with_tails(epsilon, mass)


def charged_epsilon(
    ideal_epsilon: Callable[[float], float],
    delta_at: Callable[[float], float],
    delta: float,
    mass: float,
) -> float:
    """Return the smallest epsilon with ``delta_at(epsilon) <= delta``; infinite if none is found.

    Parameters
    ----------
    ideal_epsilon : callable
        Function delta -> epsilon of the ideal mechanism.
    delta_at : callable
        Function epsilon -> delta of the real mechanism.
    delta : float
        Target, strictly between 0 and 1.
    mass : float
        Total variation between the two laws.
    """
    return ideal_epsilon(delta) if mass == 0.0 else _Curve(delta_at).epsilon(delta)


class _Curve(Loss):
    """A loss that is only known by its curve."""

    def __init__(self, curve: Callable[[float], float]) -> None:
        self.delta = curve  # type: ignore[assignment, method-assign]


SMALLEST_MU, LARGEST_MU = 1e-9, 1e3

# Relative margin on mu that exceeds the rounding errors between mu and its noise scale.
_MU_MARGIN = 2e-13
_ROUNDS = 500  # largest number of steps of a search
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
# The platform's libm affects the last digits of a search. So plans have twelve digits, rounded to
# the private side.
_DOWN, _UP = (Context(prec=12, rounding=side) for side in (ROUND_FLOOR, ROUND_CEILING))
# Below this step in epsilon, the curve does not change in double precision.
_EPSILON_STEP = 2.0**-50


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with ``gaussian_delta(epsilon, mu) <= delta``.

    Rounded up: the inequality holds exactly for the returned value. Infinite if mu >= 1e8, where
    double precision no longer resolves the curve.

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
    # delta(epsilon; mu) <= exp(-(epsilon/mu - mu/2)^2 / 2) for epsilon above mu^2 / 2.
    epsilon = 0.5 * mu * mu + mu * math.sqrt(-2.0 * math.log(delta)) * (1.0 + 1e-12) + 1e-300

    def excess(epsilon: float) -> float:
        return log_gaussian_delta(epsilon, mu) - math.log(delta)

    if excess(epsilon) < 0.0 < excess(0.0):
        # Only the relative tolerance matters, because epsilon may be tiny.
        epsilon = find_root(excess, 0.0, epsilon, xtol=1e-300, rtol=1e-15, maxiter=_ROUNDS)
    return raise_epsilon(epsilon, lambda epsilon: gaussian_delta(epsilon, mu) <= delta)


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
        Budget of the release.
    sensitivity : float
        l2 norm of the largest difference between neighbouring values, positive.

    Returns
    -------
    float
        In units of the sensitivity; at most a relative 2e-11 above the optimum, and not below it.

    Raises
    ------
    CalibrationError
        If no mu in [1e-9, 1e3] corresponds to the budget.

    Examples
    --------
    >>> from dpoco.accounting import Budget
    >>> from dpoco.accounting.gaussian import gaussian_sigma
    >>> round(gaussian_sigma(Budget(1.0, 1e-6), sensitivity=1.0), 4)
    4.2247
    """
    sensitivity = positive_float("sensitivity", sensitivity)
    return sensitivity / gaussian_mu(budget.epsilon, budget.delta)


def compose_gdp(mus: Iterable[float]) -> float:
    """Return the mu of an adaptive composition of mu_i-GDP mechanisms: sqrt(sum of squares), up.

    Parameters
    ----------
    mus : iterable of float
        Each at least 0. ``docs/privacy/gaussian.md`` has the proof.
    """
    parts = check_sums("mu", mus)
    mu = math.hypot(*parts)
    if mu < math.inf:
        # `hypot` is below the exact root in about half of all cases. Squares of fractions are
        # compared exactly, and mu of (3, 4) remains 5.
        square = sum(Fraction(part) ** 2 for part in parts)
        while Fraction(mu) ** 2 < square:
            mu = math.nextafter(mu, math.inf)
    return mu


def raise_epsilon(
    epsilon: float, holds: Callable[[float], bool], highest: float = math.inf
) -> float:
    """Return `epsilon` or the next larger tried value, up to `highest`, for which `holds` is true.

    If none before it holds, `highest` is returned. This turns an approximate root into a value that
    satisfies the inequality.
    """
    step = _EPSILON_STEP
    while epsilon < highest and not holds(epsilon):
        # Steps double, so that a valid value is reached soon. 1e-300 makes progress from 0.
        epsilon, step = min(highest, max(epsilon * (1.0 + step), 1e-300)), 2.0 * step
    return epsilon


def largest_mu(excess: Callable[[float], float], holds: Callable[[float], bool]) -> float:
    """Return the root of the increasing `excess` on [1e-9, 1e3], reduced until `holds`.

    The result is rounded down to twelve digits.
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
    """Return the root of the increasing `excess` between `ends`, reduced until `holds`.

    Parameters
    ----------
    name : str
        Name of the searched quantity, for the message.
    ends : (float, float)
        Positive ends of the bracket.
    excess, holds : callable
        The search uses `excess`, on a log scale; `holds` decides.
    margin, precision : float
        Relative numbers: the least distance of the value below the root, and the root's precision.

    Raises
    ------
    CalibrationError
        If the root lies outside, or `holds` is false down to the lower end.
    """
    low, high = ends
    if excess(low) > 0.0 or excess(high) < 0.0:
        raise CalibrationError(
            f"no {name} in [{low:g}, {high:g}] corresponds to this epsilon and delta"
        )
    log_ends = math.log(low), math.log(high)
    # The ends are many powers of ten apart, so the search uses a log scale.
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
    """Return by bisection the largest tried number that fits, or None.

    Assumes that all numbers below a fitting number fit. `low` itself is not tried.
    """
    best = None
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if fits(middle):
            low = best = middle
        else:
            high = middle
    return best


def least(value: Callable[[float], float], low: float, high: float, steps: int = 52) -> float:
    """Return the x in [low, high] with the least value by golden section; it must be unimodal."""
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
    """Return the parameters of composed mechanisms, or raise if one is negative."""
    numbers = [real_float(name, value) for value in values]
    if any(number < 0.0 for number in numbers):
        raise ValueError(f"every {name} must be at least 0")
    return numbers


def check_delta(delta: float) -> None:
    """Raise unless `delta` is strictly between 0 and 1."""
    if not 0.0 < real_float("delta", delta) < 1.0:
        raise ValueError(f"delta must be strictly between 0 and 1; got {delta!r}")


def best_order(q: float, dimension: int) -> float:
    """Return the order in [2, q] with the smallest `smoothness_constant`.

    log kappa has derivative 1/(r-1) - 2 ln(d)/r^2, negative exactly between the two roots of
    r^2 - 2 ln(d) (r - 1); the smaller root is at most 2.

    Parameters
    ----------
    q : float
        Exponent of the norm of the sensitivity, in [1, inf].
    dimension : int
        d.
    """
    q = exponent("q", q)
    log_d = math.log(positive_int("dimension", dimension))
    if log_d <= 2.0 or q <= 2.0:
        return 2.0
    return max(2.0, min(q, log_d + math.sqrt(log_d * (log_d - 2.0))))


def paper_order(q: float, dimension: int) -> float:
    """Return the order that the paper intends: max(2, min(q, ln d)) (Lemma 3.2, corrected)."""
    q = exponent("q", q)
    return max(2.0, min(q, math.log(positive_int("dimension", dimension))))


def generalized_gaussian_mu(
    sensitivity: float, sigma: float, order: float, q: float, dimension: int
) -> float:
    """Return the GDP parameter sqrt(kappa(r)) D / sigma for l_q sensitivity D.

    Parameters
    ----------
    sensitivity, sigma : float
        D and the scale of the noise, positive.
    order, q : float
        r, and the exponent of the sensitivity's norm.
    dimension : int
        d.

    Raises
    ------
    ValueError
        For orders without a finite smoothness constant.
    """
    sensitivity = positive_float("sensitivity", sensitivity)
    sigma = positive_float("sigma", sigma)
    return math.sqrt(smoothness_constant(order, q, dimension)) * sensitivity / sigma


def coordinate_variance(order: float, dimension: int) -> float:
    """Return E Z_1^2 / sigma^2 for density prop. to exp(-||z||_r^2 / (2 sigma^2)).

    ||Z||_r^2 / (2 sigma^2) is Gamma(d/2), and independently (|Z_1| / ||Z||_r)^r is Beta(1/r,
    (d-1)/r). The second moment is the product of the two.

    Parameters
    ----------
    order : float
        r in [1, inf]; the law need not have a privacy claim.
    dimension : int
        Number of coordinates d.

    Returns
    -------
    float
        1 for d = 1 or r = 2; (d + 2)/3 for r = inf.
    """
    return math.exp(
        _log_moment(2.0, exponent("order", order), positive_int("dimension", dimension))
    )


def expected_norm_bound(order: float, q: float, dimension: int) -> float:
    """Return an upper bound on E||Z||_q / sigma for density prop. to exp(-||z||_r^2/(2 sigma^2)).

    By Jensen's inequality, E||Z||_s <= (d E|Z_1|^s)^(1/s), and ||z||_q <= ||z||_s for s <= q. The
    bound is the best over a grid of s. For the plain Gaussian and q = inf, the sharper sqrt(2
    ln(2d)) is used.

    Parameters
    ----------
    order, q : float
        r and q in [1, inf].
    dimension : int
        d.
    """
    order, q = exponent("order", order), exponent("q", q)
    dimension = positive_int("dimension", dimension)
    bounds = [
        math.exp((_log_moment(s, order, dimension) + math.log(dimension)) / s)
        for s in {min(q, 2.0**k) for k in range(8)} | {min(q, 2.0 * math.log(2.0 * dimension) + 1)}
    ]
    if order == 2.0 and q >= 2.0:
        # ||z||_q <= d^(1/q) max|z_i|, and E max|z_i| <= sqrt(2 ln(2d)).
        bounds.append(math.sqrt(2.0 * math.log(2.0 * dimension)) * dimension ** (1.0 / q))
    return min(bounds)


def _log_moment(power: float, order: float, dimension: int) -> float:
    """Return log E|Z_1|^power for sigma = 1, from the two independent factors."""
    betaln, gammaln = special_functions().betaln, special_functions().gammaln
    d, s = float(dimension), power
    radius = 0.5 * s * math.log(2.0) + float(gammaln(0.5 * s) - betaln(0.5 * d, 0.5 * s))
    if dimension == 1:
        return radius
    if order == math.inf:
        # In this limit, one coordinate is the maximum and the others are uniform below it.
        return radius + math.log((1.0 + (d - 1.0) / (s + 1.0)) / d)
    # Gamma((1+s)/r) Gamma(d/r) / (Gamma(1/r) Gamma((d+s)/r)), computed with two beta functions.
    angle = float(betaln(d / order, s / order) - betaln(1.0 / order, s / order))
    return radius + angle


def noise_in_words(order: float) -> str:
    """Return "Gaussian noise" for order 2, or "generalized Gaussian noise, r = 3"."""
    return "Gaussian noise" if order == 2.0 else f"generalized Gaussian noise, r = {order:g}"
