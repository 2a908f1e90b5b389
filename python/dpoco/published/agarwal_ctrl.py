"""CTRL: Agarwal, Kale, Singh and Thakurta, "Differentially Private and Lazy OCO" (2023).

Plans of `dpoco.oco.CoupledRegularizedLeader` and `dpoco.oco.LipschitzLearner`. The errors in print,
and the differences of the learners' defaults:

* Theorem 6 counts squares of sums without their mixed terms, and fewer of them than its own cap of
  3 p T switches allows. "Corrected" counts all of them.
* Theorem 8 leaves out the delta that Theorem 6 adds for this cap; for short horizons the sum
  exceeds 1. "Corrected" bounds the switches without it.
* Theorem 11 has no factor for the dimension, because of a lemma about one added loss of rank 1, but
  the proof exchanges three. So for generalised linear losses, "corrected" also pays for all
  dimensions: about sqrt(d) times the printed noise.
* The coin of every round is made for the worst case. The learner's default decides at the ends of
  blocks, with the window and the coupling of the least regret bound. If a fresh draw at every end
  ("scheduled", without a coin) is within 5 % of it, the default uses that.
* Lipschitz losses, Theorem 14 and Lemma 16: the constants C_1 = 1 and C_2 = 2 (k + 1) are too
  small, and the sensitivity is that of adding a loss although one is replaced. The parameters here
  use the published transform and tree with the right constants; the learner's default has better
  ones.

Proofs: ``docs/privacy/oco_regret.md``, section "Published parameters", and
``docs/privacy/lipschitz.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpoco._validation import positive_float
from dpoco.accounting import coupled_regularized_leader as leader
from dpoco.accounting import lipschitz as nets_accountant
from dpoco.accounting.budget import Budget
from dpoco.accounting.claims import leader_claim
from dpoco.accounting.coupled_regularized_leader import TiltedPlan
from dpoco.accounting.coupled_runs import EuclideanProblem, euclidean_problem
from dpoco.accounting.gaussian import least
from dpoco.accounting.lipschitz import NetPlan
from dpoco.accounting.nets import candidate_nets, checked_counts, net_shape
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.losses import Loss
from dpoco.published._laws import couple, largest_ratio, lazy, require_limit, require_long

__all__ = ["coupled_regularized_leader", "lazy_coupled_regularized_leader", "lipschitz"]


def coupled_regularized_leader(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int,
    budget: Budget,
    corrected: bool = False,
    unbounded: bool = False,
) -> TiltedPlan:
    """Return the plan of Theorem 8, for generalised linear losses of Theorem 11.

    Parameters
    ----------
    domain, loss
        For the learner: convex, smooth losses.
    horizon : int
        Rounds T, at least 12 ln(1/delta).
    budget : Budget
        The claim of the theorem; delta > 0.
    corrected : bool, default False
        Whether every step of the proof is repaired, and free parameters minimise the printed regret
        bound. If False, the theorem is taken as printed.
    unbounded : bool, default False
        Whether decisions range over R^d.

    Raises
    ------
    ValueError
        If domain and loss do not fit the learner.
    CalibrationError
        If the theorem needs a longer horizon, or allows no noise.
    """
    budget.require_delta()
    problem = euclidean_problem(domain, loss, unbounded)
    require_long(horizon, budget.delta)
    eta, sigma = (_correct_parameters if corrected else _printed_parameters)(
        problem, horizon, budget
    )
    quiet = leader.calibrate(
        domain, loss, horizon=horizon, budget=None, block=1, unbounded=unbounded
    )
    law = {"step": eta, "noise": sigma}
    return couple(domain, loss, quiet, law, budget, corrected)


def lazy_coupled_regularized_leader(
    domain: Domain, loss: Loss, *, horizon: int, max_switches: float, unbounded: bool = False
) -> TiltedPlan:
    """Return the plan of Theorems 9, 12 and (strongly convex losses) 13, without privacy.

    Parameters
    ----------
    domain, loss, unbounded
        See `coupled_regularized_leader`.
    horizon : int
        Rounds T, at least 3.
    max_switches : float
        Expected number of switches, at most T.

    Raises
    ------
    ValueError
        If domain and loss do not fit the learner.
    CalibrationError
        If the theorem needs more switches or a longer horizon.
    """
    q, t = euclidean_problem(domain, loss, unbounded), float(horizon)
    require_limit(horizon, max_switches)
    quiet = leader.calibrate(
        domain, loss, horizon=horizon, budget=None, block=1, unbounded=unbounded
    )
    # Theorem 13.
    if q.strong_convexity > 0.0 and not unbounded:
        n, log = q.dimension, math.log(t)
        needed = (4.0 * q.smoothness * n / q.strong_convexity + 16.0 * n * log) * log
        if max_switches < needed:
            raise CalibrationError(f"the published theorem needs at least {needed:.6g} switches")
        own = replace(quiet.tuning, strong_convexity=q.strong_convexity)
        noise = 16.0 * q.lipschitz * math.sqrt(n * t * log) / max_switches
        # Theorem 28: no regulariser, and noise that grows with sqrt(t), like the curvature.
        growing = {"step": math.inf, "noise": noise}
        return lazy(domain, loss, replace(quiet, tuning=own), growing, 0.0)
    # Theorems 9 and 12; for losses of rank one the dimension does not matter.
    size = 1 if q.rank <= 1 else q.dimension
    root = math.sqrt(size * math.log(t))
    sigma = 12.0 * q.lipschitz * t * root / max_switches
    eta = q.diameter / (2.0 * q.lipschitz * math.sqrt(t))
    if q.smoothness > 0.0:
        eta = min(eta, max_switches / (6.0 * q.smoothness * size * t))
    g = q.lipschitz / sigma
    # ln Phi of Theorem 9, with g = G / sigma.
    window = eta * q.smoothness * size + 0.5 * (g * g + 4.0 * g * root)
    return lazy(domain, loss, quiet, {"step": eta, "noise": sigma}, window)


def lipschitz(
    domain: Domain,
    *,
    lipschitz: float,
    horizon: int,
    budget: Budget,
    resolution: int | tuple[int, ...] | None = None,
    learning_rate: float | None = None,
) -> NetPlan:
    """Return the published transform and binary tree of Section 4, with sufficient noise.

    Parameters
    ----------
    domain : Box, LpBall, Simplex or Polytope
        With one or two dimensions.
    lipschitz : float
        G, per unit of Euclidean distance.
    horizon : int
        Rounds T.
    budget : Budget
        Met by the plan; delta > 0.
    resolution : int or tuple of int, optional
        Points per axis; None balances the error of the net against noise.
    learning_rate : float, optional
        eta, per unit of loss; None minimises the regret bound.

    Raises
    ------
    ValueError, TypeError, NotImplementedError, CalibrationError
        See `dpoco.accounting.lipschitz.calibrate`.
    """

    def plan(net: tuple[int, ...], rate: float) -> NetPlan:
        """Return the plan for a net and a learning rate."""
        return nets_accountant.calibrate(
            domain, lipschitz=lipschitz, horizon=horizon, budget=budget, resolution=net or None,
            transform="parent", sum_method="tree", learning_rate=rate,
        )  # fmt: skip

    if learning_rate is not None:
        learning_rate = positive_float("learning_rate", learning_rate)
    shape, best, value = net_shape(domain), None, math.inf
    if resolution is None:
        nets = candidate_nets(shape, "parent")
    else:
        nets = [checked_counts(shape, resolution)]
    for net in nets:
        try:
            # The rate does not matter here, because the noise is planned without it.
            silent = plan(net, 1.0)
        except CalibrationError:  # the tails of so many variates exceed delta
            if best is None and net == nets[-1]:
                raise
            continue
        run = nets_accountant.hedge_run(domain, silent)
        rate = run.best_learning_rate(True) if learning_rate is None else learning_rate
        # One point means no choice and no regret.
        bound = run.growing_regret(rate).total if run.points > 1 else 0.0
        if best is None or bound < value:
            best, value = (net, rate), bound
    assert best is not None
    return replace(plan(*best), calibration="paper")


def _printed_parameters(q: EuclideanProblem, horizon: int, budget: Budget) -> tuple[float, float]:
    """Return (eta, sigma) as printed."""
    # The theorem is stated for epsilon <= 1, so a larger budget is not used.
    t, epsilon, size = float(horizon), min(budget.epsilon, 1.0), 1 if q.rank <= 1 else q.dimension
    # The step of the regret bound; the privacy proof needs the two steps below.
    steps = [q.diameter / (2.0 * q.lipschitz * math.sqrt(t))]
    if q.smoothness > 0.0:
        log = math.sqrt(math.log(t / budget.delta))
        slow = 1e3 * t ** (5.0 / 12.0) * q.smoothness * math.sqrt(size) * log
        fast = 1e3 * t ** (1.0 / 3.0) * q.smoothness * size * log
        steps += [math.sqrt(epsilon) / slow, epsilon / fast]
    private = 1e3 * q.lipschitz * t ** (1.0 / 3.0) / epsilon
    private *= math.sqrt(size * math.log(120.0 * t / budget.delta))
    return min(steps), max(q.lipschitz * math.sqrt(t / size), private)


def _correct_parameters(q: EuclideanProblem, horizon: int, budget: Budget) -> tuple[float, float]:
    """Return the (eta, sigma) with the least printed regret bound under the repaired theorem."""

    def noise(eta: float) -> float:
        """Return the least sigma that the repaired theorem allows for this step."""

        def spend(g: float) -> float:
            """Return the epsilon for a noise-to-signal ratio."""
            ratio = q.lipschitz / (q.lipschitz / g)  # for the returned sigma
            claim = leader_claim(
                horizon, ratio, eta * q.smoothness, q.dimension, budget.delta, True
            )
            return claim.epsilon

        return q.lipschitz / largest_ratio(spend, budget.epsilon)

    def bound(log_eta: float) -> float:
        """Return the printed regret bound; infinite if no noise meets the budget."""
        try:
            sigma = noise(math.exp(log_eta))
        except CalibrationError:
            return math.inf
        eta, whole = math.exp(log_eta), q.lipschitz * q.diameter
        steps = (0.5 * q.diameter**2 / eta, 2.0 * q.lipschitz**2 * eta * horizon)
        return math.fsum((*steps, sigma * math.sqrt(q.dimension) * q.diameter, 2.0 * whole))

    # The printed theorem allows no larger steps, and e^-25 of this one is far below any best step.
    top = math.log(q.diameter / (2.0 * q.lipschitz * math.sqrt(horizon)))
    eta = math.exp(least(bound, top - 25.0, top, 45) if q.smoothness > 0.0 else top)
    return eta, noise(eta)
