"""Han, Liang, Liang, Wang, Yao and Zhang, "On Private Online Convex Optimization" (2022).

Plans of `dpoco.frank_wolfe.TreeFrankWolfe` (DP-TOFW), `PolyhedralFrankWolfe` (DP-POFW) and
`dpoco.bandits.HighDimensionalBandit` (DP-HDB). The errors in print, and the differences of the
learners' defaults:

* The order of the noise norm and the law of its radius are misprinted; the plans here use those of
  the proofs.
* Theorem 3.1 adds epsilons and deltas over one node too many, each by a closed form that fails for
  large epsilon. "Corrected" composes exact nodes; the default composes exactly, with better sums
  and Gaussian noise.
* The first leaf has twice the weight that the proof gives it. Here all leaves have the weights k +
  1 of the proof; the default has the unbiased weights k.
* Theorem 3.4 replaces sums by integrals, so that for one round there is no noise. It uses a lemma
  about counts, but the scores are not counts. "Corrected" has exact sums.
* Theorem 3.4 updates in every round. The default of `PolyhedralFrankWolfe` updates in batches and
  its noise falls like k^(-2/3) instead of k^(-1/2): for 10^5 rounds the predicted error is 300
  times smaller.
* Theorem 4.1 drops later factors of a likelihood, and Algorithm 3 gives each arm two clocks. The
  learner has one clock per arm, and no update for arms that are not pulled.

Proofs: ``docs/privacy/tree_frank_wolfe.md``, ``docs/privacy/polyhedral_frank_wolfe.md`` and
``docs/privacy/high_dimensional_bandit.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpoco.accounting import gaussian
from dpoco.accounting import high_dimensional_bandit as bandit
from dpoco.accounting import polyhedral_frank_wolfe as polyhedral
from dpoco.accounting import tree_frank_wolfe as tree
from dpoco.accounting.budget import Budget
from dpoco.accounting.claims import published_sigma
from dpoco.accounting.gaussian import gaussian_mu, paper_order
from dpoco.accounting.leaf_bounds import L1Geometry, published_leaf_bound
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.losses import Loss
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.neighbours import Neighbours

__all__ = ["forced_rounds", "high_dimensional_bandit", "polyhedral_frank_wolfe",
           "tree_frank_wolfe"]  # fmt: skip


def tree_frank_wolfe(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int | None,
    budget: Budget,
    corrected: bool = False,
    step_scale: float = 1.0,
) -> tree.TreePlan:
    """Return the plan of Theorem 3.1: noise of the smooth norm on a binary tree.

    Parameters
    ----------
    domain, loss
        See the learner.
    horizon : int or None
        Rounds; None means at most 10^9.
    budget : Budget
        The claim of the theorem; delta > 0.
    corrected : bool, default False
        Whether exact nodes are composed. If False, the noise scale is the printed one.
    step_scale : float, default 1
        s in the steps s / (k + s); the theorem assumes 1.

    Raises
    ------
    CalibrationError
        If the constants miss the budget.
    """
    budget.require_delta()
    d, q = domain.dimension, domain.dual_exponent
    # Generalized Gaussian noise needs a smooth norm, with an exponent of at least 2.
    smooth = q >= 2.0
    # Without a budget, calibration sets everything but the noise.
    silent = tree.calibrate(
        domain, loss, horizon=horizon, budget=None,
        noise="generalized_gaussian" if smooth else "gaussian",
        norm_order=paper_order(q, d) if smooth else None,
        sum_method="tree", weights="paper", step_scale=step_scale, numerics="float",
    )  # fmt: skip
    total, near = silent.mechanism, Neighbours()
    if corrected:
        unit = total.summand.inflation(total.order) * total.summand.movement(near, total.order)
        scale = unit / _node_mu(budget, total.pushes, total.mass)
    else:
        kappa = smoothness_constant(total.order, q, d)
        bound = published_leaf_bound(domain, loss, step_scale)
        scale = published_sigma(budget, pushes=total.pushes, kappa=kappa, leaf_bound=bound)
    mu = total.reach(near) / scale
    # The exact accountant decides whether the published constants meet the budget.
    _require(gaussian.charged_gaussian_delta(budget.epsilon, mu, total.mass), budget)
    noisy = replace(total, scale=scale)
    return tree.make_plan(domain, loss, noisy, silent.tuning, _calibration(corrected))


def _calibration(corrected: bool) -> str:
    """Return the calibration of a plan: how its numbers were found."""
    return "corrected" if corrected else "paper"


def _node_mu(budget: Budget, pushes: int, mass: float) -> float:
    """Return the mu of one node such that basic composition over bit_length(n) meets `budget`."""
    # A record is in at most one node of each height.
    nodes = pushes.bit_length()
    # Compiled variates are truncated far out; the cost of this is subtracted from delta.
    rest = gaussian.reserve(budget, mass / gaussian.truncation_mass(1.0))
    return gaussian_mu(rest.epsilon / nodes, rest.delta / nodes)


def polyhedral_frank_wolfe(
    domain: Domain, loss: Loss, *, horizon: int, budget: Budget, corrected: bool = False
) -> polyhedral.PolyhedralPlan:
    """Return the plan of Theorem 3.4: Laplace noise that shrinks as k^(-1/2), every round.

    Parameters
    ----------
    domain, loss
        See the learner.
    horizon : int
        Rounds.
    budget : Budget
        The claim of the theorem; delta > 0 unless corrected.
    corrected : bool, default False
        Whether sums are computed exactly. If False, the noise scale is the printed one.

    Raises
    ------
    CalibrationError
        If the constants miss the budget.
    """
    silent = polyhedral.calibrate(
        domain, loss, horizon=horizon, budget=None, selector="laplace", exponent=0.5,
        weights="paper", batch=1,
    )  # fmt: skip
    own, near, view = silent.mechanism, Neighbours(), L1Geometry(domain)
    if view.diameter() > 0.0 and corrected:
        # A closed form, with exact sums instead of the printed integrals.
        own = polyhedral.with_least_scale(own, near, budget, tight=False)
    # A domain of one point needs no selection and no noise.
    elif view.diameter() > 0.0:
        budget.require_delta()
        factor = polyhedral.published_factor(view, loss, horizon, budget.delta)
        own = replace(own, scale=factor / budget.epsilon)
        # None means no noise: for one round, the printed integral is 0.
        known = own.loss(near)
        _require(1.0 if known is None else known.delta(budget.epsilon), budget)
    return polyhedral.make_plan(domain, loss, own, horizon, _calibration(corrected))


def forced_rounds(dimension: int, horizon: int, epsilon: float) -> int:
    """Return t_0 of Algorithm 3: log(d T) log(T) / epsilon^2, at most all rounds.

    Parameters
    ----------
    dimension, horizon : int
        d and T.
    epsilon : float
        Epsilon of the budget, positive.
    """
    # We divide twice, because the square of a small epsilon would underflow.
    rounds = math.log(dimension * horizon) * math.log(horizon) / epsilon / epsilon
    return int(min(rounds, horizon))


def high_dimensional_bandit(
    arms: int,
    domain: Domain,
    *,
    horizon: int,
    budget: Budget,
    corrected: bool = False,
    link: str = "identity",
    context_bound: float = 1.0,
    reward_bound: float = 1.0,
    arm_learner: str = "polyhedral",
    forced: int | None = None,
) -> bandit.BanditPlan:
    """Return the plan of Algorithm 3 with the published learner for every arm.

    Parameters
    ----------
    arms, domain, horizon, link, context_bound, reward_bound
        As for the learner.
    budget : Budget
        The claim of Theorem 4.1; delta > 0.
    corrected : bool, default False
        As for the learners of the arms.
    arm_learner : {"polyhedral", "tree"}, default "polyhedral"
        Published learner of the arms.
    forced : int, optional
        Number of rounds in which each arm is pulled before choices begin; None: `forced_rounds`.

    Raises
    ------
    CalibrationError
        If the constants miss the budget.
    """
    if forced is None:
        forced = forced_rounds(domain.dimension, horizon, budget.epsilon)
    silent = bandit.calibrate(
        arms, domain, horizon=horizon, budget=None, link=link, context_bound=context_bound,
        reward_bound=reward_bound, arm_learner=arm_learner, batch=1, forced_rounds=forced,
    )  # fmt: skip
    own, rounds = bandit.loss_in(silent), silent.tuning.arm.horizon
    plan: Any = tree_frank_wolfe if arm_learner == "tree" else polyhedral_frank_wolfe
    arm = plan(domain, own, horizon=rounds, budget=budget, corrected=corrected)
    found = bandit.make_plan(arms, domain, arm, own, forced, horizon, silent.tuning.gap)
    # Each arm meets the budget alone; all clocks of the bandit must meet it together.
    exact = bandit.guarantee(arms, domain, found, budget=budget).delta_at(budget.epsilon)
    _require(exact, budget)
    return found


def _require(exact: float, budget: Budget) -> None:
    """Raise `CalibrationError` if published constants miss the budget; `exact` is their delta."""
    if not exact <= budget.delta:
        raise CalibrationError(
            f"the published constants miss delta = {budget.delta:.3g} at epsilon = "
            f"{budget.epsilon:.6g}: exact delta {exact:.3g}"
        )
