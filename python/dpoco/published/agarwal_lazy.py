"""P-COMW: Agarwal, Kale, Singh and Thakurta, "Improved Differentially Private and Lazy OCO".

Plans of `dpoco.oco.ContinuousMultiplicativeWeights`. The errors in print, and the differences of
the learner's defaults:

* Theorem 4.1 leaves out the delta that its privacy theorem adds for the cap on the switches; for
  short horizons the sum exceeds 1. "Corrected" bounds the switches without it.
* The proof composes bits and draws without the mixed terms of the squares. "Corrected" has them.
* With its constants, 10^3 and 10^5, the regret bound exceeds that of a constant decision for all
  realistic horizons. "Corrected" takes the least noise that the repaired theorem allows.
* The coin of every round needs the normalising constant of the density, and costs privacy. The
  learner's default decides at the ends of blocks with the coupling of the least regret bound. If a
  fresh draw at every end ("scheduled", without a coin) is within 5 % of it, the default uses that.

Proofs: ``docs/privacy/oco_regret.md``, section "Published parameters".
"""

from __future__ import annotations

import math

from dpoco.accounting import continuous_multiplicative_weights as weights
from dpoco.accounting.budget import Budget
from dpoco.accounting.claims import gibbs_claim
from dpoco.accounting.continuous_multiplicative_weights import GibbsPlan
from dpoco.accounting.coupled_runs import EuclideanProblem, euclidean_problem
from dpoco.domains import Domain
from dpoco.losses import Loss
from dpoco.published._laws import couple, largest_ratio, lazy, require_limit, require_long

__all__ = ["continuous_multiplicative_weights", "lazy_continuous_multiplicative_weights"]


def continuous_multiplicative_weights(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int,
    budget: Budget,
    corrected: bool = False,
    unbounded: bool = False,
) -> GibbsPlan:
    """Return the plan of Theorem 4.1.

    Parameters
    ----------
    domain, loss
        A Euclidean ball or a box, and linear losses, because the coin needs a normalising constant.
    horizon : int
        Rounds T, at least 12 ln(1/delta).
    budget : Budget
        The claim of the theorem; delta > 0.
    corrected : bool, default False
        Whether every step of the proof is repaired. If False, the theorem is taken as printed.
    unbounded : bool, default False
        Whether decisions range over R^d.

    Raises
    ------
    ValueError
        If the coin does not fit domain and loss.
    CalibrationError
        If the theorem needs a longer horizon, or allows no noise.
    """
    budget.require_delta()
    problem = euclidean_problem(domain, loss, unbounded)
    require_long(horizon, budget.delta)
    found = _correct_parameters if corrected else _printed_parameters
    beta, lam = found(problem, horizon, budget)
    quiet = weights.calibrate(
        domain, loss, horizon=horizon, budget=None, block=1, unbounded=unbounded
    )
    law = {"inverse_temperature": beta, "regularization": lam}
    return couple(domain, loss, quiet, law, budget, corrected)


def lazy_continuous_multiplicative_weights(
    domain: Domain, loss: Loss, *, horizon: int, max_switches: float, unbounded: bool = False
) -> GibbsPlan:
    """Return the plan of Theorem 4.2, without privacy.

    Parameters
    ----------
    domain, loss, unbounded
        See `continuous_multiplicative_weights`.
    horizon : int
        Rounds T, at least 3.
    max_switches : float
        Expected number of switches, at most T.

    Raises
    ------
    ValueError
        If the coin does not fit domain and loss.
    CalibrationError
        If the theorem needs more switches or a longer horizon.
    """
    q, t = euclidean_problem(domain, loss, unbounded), float(horizon)
    require_limit(horizon, max_switches)
    log = math.log(t)
    lam = max(
        q.lipschitz * math.sqrt(2.0 * t) / q.diameter,
        math.sqrt(512.0 * q.dimension) * q.lipschitz * log * t / (q.diameter * max_switches),
    )
    beta = lam * (max_switches / t) ** 2 / (256.0 * q.lipschitz**2 * log)
    g2 = q.lipschitz**2 * beta / lam
    quiet = weights.calibrate(
        domain, loss, horizon=horizon, budget=None, block=1, unbounded=unbounded
    )
    law = {"inverse_temperature": beta, "regularization": lam}
    window = 2.0 * g2 + math.sqrt(8.0 * g2 * math.log(t * t))
    return lazy(domain, loss, quiet, law, window)


def _correct_parameters(q: EuclideanProblem, horizon: int, budget: Budget) -> tuple[float, float]:
    """Return the (beta, lam) with the least noise that the repaired theorem allows."""

    def spend(g: float) -> float:
        """Return the epsilon for a noise-to-signal ratio g."""
        return gibbs_claim(horizon, g, budget.delta, True).epsilon

    g = largest_ratio(spend, budget.epsilon)
    # lam balances stability against the width of the law, which counts as additional rounds.
    rounds = float(horizon) + q.dimension * math.log(float(horizon)) / g**2
    lam = q.lipschitz / q.diameter * math.sqrt(2.0 * rounds)
    return g**2 * lam / q.lipschitz**2, lam


def _printed_parameters(q: EuclideanProblem, horizon: int, budget: Budget) -> tuple[float, float]:
    """Return (beta, lam) as printed."""
    # The theorem is stated for epsilon <= 1, so a larger budget is not used.
    t, epsilon = float(horizon), min(budget.epsilon, 1.0)
    log = math.log(t / budget.delta)
    shape = 1e3 * math.sqrt(q.dimension) * log
    slow, fast = t ** (1.0 / 3.0) / epsilon, t**0.375 / epsilon**0.75
    lam = q.lipschitz / q.diameter * max(0.5 / math.sqrt(t), shape * slow, shape * fast)
    share = min((epsilon / t ** (1.0 / 3.0)) ** 2, (epsilon / math.sqrt(t)) ** 1.5)
    return lam / (1e5 * (q.lipschitz * log) ** 2) * share, lam
