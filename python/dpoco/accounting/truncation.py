"""What the bounded tails of real samplers cost, charged to delta.

The library's samplers turn finitely many random bits into one elementary variate (normal, uniform,
exponential, sign, ...), so its law lacks the outermost tail. Each variate's law is within total
variation ``TAIL_MASS_PER_VARIATE`` of the ideal one, whatever was drawn before.

Claim: if a mechanism is (epsilon, delta)-private with ideal noise and its joint output law is
within total variation tau of the ideal one under both of any two neighbouring streams, it is
(epsilon, delta + (1 + e^epsilon) tau)-private; and v variates used in expectation give
tau <= v * TAIL_MASS_PER_VARIATE.

Proof: ``docs/privacy/noise.md``. The rounding of real numbers to doubles is not covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from dpoco._validation import real_float
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_epsilon, largest_mu
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import with_tails
from dpoco.privacy.losses.gaussian import Gaussian, log_gaussian_delta, turning_point
from dpoco.privacy.losses.loss import Loss, charge
from dpoco.privacy.mechanisms.gaussian_sum import TAIL

__all__ = ["TAIL_MASS_PER_VARIATE", "charged_delta", "charged_epsilon",
           "charged_gaussian_delta", "charged_gaussian_epsilon", "charged_gaussian_mu",
           "reserve", "truncation_mass", "unspent_note"]  # fmt: skip

TAIL_MASS_PER_VARIATE = TAIL
# An epsilon that misses its budget by so little is spent; a charge below this part of delta is not
# what keeps it from being.
_SPENT, _SMALL_CHARGE = 1.0 - 1e-3, 0.1


def truncation_mass(variates: float) -> float:
    """Return the total variation tau that `variates` elementary draws add up to (at most 1)."""
    variates = real_float("variates", variates)
    if variates < 0.0:
        raise ValueError(f"variates must be at least 0; got {variates!r}")
    return min(1.0, variates * TAIL_MASS_PER_VARIATE)


def reserve(budget: Budget, variates: float) -> Budget:
    """Return `budget` with the truncation charge taken off its delta, for calibration.

    Where tails cost more at its epsilon, it is at a smaller one, which says as much.

    Raises
    ------
    CalibrationError
        If nothing is left of delta.
    """
    mass = truncation_mass(variates)
    left = budget.delta - charge(budget.epsilon, mass)
    if left > 0.0:
        return Budget._derived(budget.epsilon, left)
    if 10.0 * mass >= budget.delta:
        raise CalibrationError(
            f"the truncated tails (total variation {mass:.3g}) cost more than delta = "
            f"{budget.delta:.3g}; raise delta, or lower the horizon"
        )
    return Budget._derived(math.log(0.25 * budget.delta / mass - 1.0), 0.5 * budget.delta)


def unspent_note(budget: Budget, epsilon: float, mass: float) -> str | None:
    """Return why noise planned for `budget` spends only `epsilon` of it; None if tails are not why.

    The charge (1 + e^epsilon) tau outgrows delta at some epsilon. From there on a larger one buys
    no smaller noise.

    Parameters
    ----------
    budget : Budget
        What may be spent.
    epsilon : float
        What is spent, at the delta of the budget.
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
    """Return delta(epsilon) of a mu-GDP mechanism whose law is within `mass` of the ideal.

    The smallest over all epsilon' <= epsilon of delta(epsilon'; mu) + (1 + e^epsilon') mass: a
    guarantee at epsilon' is one at epsilon. That sum decreases up to the epsilon' with
    Phi(-mu/2 - epsilon'/mu) = mass and increases beyond.
    """
    return with_tails(Gaussian(mu), mass).delta(epsilon)


def charged_gaussian_epsilon(mu: float, delta: float, mass: float) -> float:
    """Return the smallest epsilon with ``charged_gaussian_delta(epsilon, mu, mass) <= delta``.

    Infinite if there is none.
    """
    return (
        gaussian_epsilon(mu, delta)
        if mass == 0.0
        else with_tails(Gaussian(mu), mass).epsilon(delta)
    )


def charged_gaussian_mu(budget: Budget, mass: float) -> float:
    """Return the largest mu with ``charged_gaussian_delta(epsilon, mu, mass) <= delta``.

    Exact to relative 1e-12 and rounded down.

    Raises
    ------
    CalibrationError
        If no mu in [1e-9, 1e3] qualifies: delta does not even pay for the truncated tails.
    """
    budget.require_delta()
    return _charged_mu(budget.epsilon, budget.delta, mass)


@lru_cache(maxsize=1024)
def _charged_mu(epsilon: float, delta: float, mass: float) -> float:
    if charge(0.0, mass) >= delta:
        raise CalibrationError(
            f"the truncated tails (total variation {mass:.3g}) cost more than delta = {delta:.3g}"
        )

    def excess(mu: float) -> float:
        if mass == 0.0:
            return log_gaussian_delta(epsilon, mu) - math.log(delta)
        at = min(epsilon, turning_point(mu, mass))
        ideal, tails = log_gaussian_delta(at, mu), math.log1p(math.exp(at)) + math.log(mass)
        top = max(ideal, tails)
        return top + math.log1p(math.exp(min(ideal, tails) - top)) - math.log(delta)

    return largest_mu(excess, lambda mu: charged_gaussian_delta(epsilon, mu, mass) <= delta)


def charged_delta(curve: Callable[[float], float], epsilon: float, mass: float) -> float:
    """Return the charged delta at `epsilon` of any ideal curve epsilon -> delta.

    The minimum of curve(e) + (1 + e^e) mass over some e <= epsilon; every such e is valid.
    """
    return curve(epsilon) if mass == 0.0 else _Curve(curve).charged(epsilon, mass)


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
        delta -> epsilon of the ideal mechanism.
    delta_at : callable
        epsilon -> delta of the real one.
    delta : float
        Target, strictly between 0 and 1.
    mass : float
        Total variation between the two.
    """
    return ideal_epsilon(delta) if mass == 0.0 else _Curve(delta_at).epsilon(delta)


class _Curve(Loss):
    """A loss of which nothing but a curve is known."""

    def __init__(self, curve: Callable[[float], float]) -> None:
        self.delta = curve  # type: ignore[assignment, method-assign]
