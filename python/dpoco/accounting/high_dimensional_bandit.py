"""Accounting of the high-dimensional bandit (DP-HDB): joint differential privacy.

Claim: let each of K arms have a private Frank-Wolfe learner with noise of its own, on a clock of
its own that runs by a public schedule, and let every arm that is not chosen get a record whose leaf
is exactly zero. A change of one user's record then changes one leaf of one arm by at most 2 C, or
one leaf each of two arms, at the same time of their clocks, by at most C. So the estimates of all
arms together are as private as the decisions of ONE such learner over N = t0 + max(0, T - K t0)
rounds, and so are all actions shown to users other than the one whose record changed: each is a
function of what is published and of its own user's context.

Proof: ``docs/privacy/high_dimensional_bandit.md``. Source: Han et al., DP-HDB, Theorem 4.1, with
local clocks and zero records for all arms.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpoco._validation import choice, positive_int
from dpoco.accounting import polyhedral_frank_wolfe, tree_frank_wolfe
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.high_dimensional_arms import (
    HighDimensionalBanditParameters,
    attainable_gain,
    loss_of,
    noise_error,
    planned_arm,
    total_error,
)
from dpoco.accounting.leaf_bounds import L1Geometry
from dpoco.accounting.linucb import JOINT, NEIGHBOURS, check_sizes
from dpoco.accounting.release import common_conditions
from dpoco.accounting.statement import stated_delta
from dpoco.errors import BudgetExceeded, CalibrationError
from dpoco.privacy.mechanisms.base import Parts
from dpoco.privacy.neighbours import Neighbours

__all__ = [
    "ARM_LEARNERS",
    "HighDimensionalBanditParameters",
    "calibrate",
    "guarantee",
    "mechanism_of",
]

ARM_LEARNERS = ("auto", "polyhedral", "tree")
_NO_BOX = "tree arms need a domain in l_1 geometry, not a box"


def calibrate(
    arms: int,
    domain: Any,
    *,
    horizon: int | None,
    budget: Budget | None,
    calibration: str = "tight",
    link: str = "identity",
    context_bound: float = 1.0,
    reward_bound: float = 1.0,
    arm_learner: str = "auto",
    selector: str | None = None,
    batch: int | str | None = None,
    forced_rounds: int | str | None = None,
    gap: float = math.inf,
    sum_method: str | None = None,
    relation: str = "replace",
) -> HighDimensionalBanditParameters:
    """Return the least noise that meets `budget`, and options that suit it.

    Parameters
    ----------
    arms : int
        K.
    domain : LpBall with p = 1, Simplex, VertexSet, or Box
        Where an arm's coefficients lie. A box is for polyhedral arms only.
    horizon : int
        Rounds T. None is refused: noise and schedule depend on their number.
    budget : Budget or None
        None adds no noise and promises nothing. delta = 0 is allowed with polyhedral arms.
    calibration : {"tight", "corrected", "paper"}
        Of the arms' learners.
    link : {"identity", "logistic"}
        Half the squared loss, or the logistic loss.
    context_bound, reward_bound : float
        Bounds on contexts, in the maximum norm, and on rewards.
    arm_learner : {"auto", "polyhedral", "tree"}
        "auto" takes the one with the smaller predicted error of those that the other options allow.
    selector : {"gumbel", "laplace"}, optional
        For polyhedral arms.
    batch : int or "auto", optional
        Rounds of an arm's clock per update, at most those the clock can count; None and "auto"
        choose it.
    forced_rounds : int or "paper", optional
        Of each arm.
    gap : float
        In [0, inf].
    sum_method : {"auto", "blt", "blt_normalised", "tree", "honaker", "toeplitz"}, optional
        For tree arms.
    relation : {"replace", "zero_out"}
        What happens to one user's record between neighbours.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no noise scale meets the budget, or the published constants miss it.
    """
    if horizon is None:
        raise ValueError("horizon must be an int: the noise depends on the number of rounds")
    rounds = positive_int("horizon", horizon)
    k = positive_int("arms", arms, maximum=2**12)
    if batch is not None and batch != "auto":
        batch = positive_int("batch", batch, maximum=rounds)
    loss, view = loss_of(link, context_bound, reward_bound), L1Geometry(domain)
    options: dict[str, Any] = {"budget": budget, "calibration": calibration, "relation": relation}
    learners, found = _learners(arm_learner, view, budget, calibration, selector, sum_method), []
    for learner in learners:
        own = {"sum_method": sum_method} if learner == "tree" else {"selector": selector}
        problem = (k, rounds, domain, loss, batch, forced_rounds)
        try:
            found.append(planned_arm(learner, *problem, **(options | own)))
        except CalibrationError:  # delta may not pay for the tails of all sums: others have none
            if learner == learners[-1] and not found:
                raise
    forced, arm = min(found, key=lambda one: total_error(one[1], domain, loss))
    best = HighDimensionalBanditParameters(
        arms=k,
        dimension=view.dimension,
        horizon=rounds,
        link=link,
        context_bound=context_bound,
        reward_bound=reward_bound,
        forced_rounds=forced,
        gap=gap,
        arm=arm,
        predicted_error=noise_error(arm, domain),
        attainable=attainable_gain(link, context_bound * view.max_norm(), reward_bound, k),
    )
    if budget is not None:
        try:
            guarantee(k, domain, best, budget=budget).require(budget)
        except BudgetExceeded as error:
            raise CalibrationError(f"the published constants miss the budget: {error}") from None
    return best


def _learners(
    wanted: str,
    view: L1Geometry,
    budget: Budget | None,
    calibration: str,
    selector: str | None,
    sum_method: str | None,
) -> list[str]:
    """Return the kinds of arms that the options allow, at least one."""
    needed = {choice("arm_learner", wanted, ARM_LEARNERS)} - {"auto"}
    needed |= {"polyhedral"} if selector is not None else set()
    needed |= {"tree"} if sum_method is not None else set()
    if len(needed) > 1:
        raise ValueError("selector is for polyhedral arms, and sum_method for tree arms only")
    if needed == {"tree"} and view.is_box:
        raise ValueError(_NO_BOX)
    # The published bandit has selections for arms; noise on sums cannot do without a delta.
    simple = budget is None or budget.delta == 0.0 or calibration != "tight" or view.is_box
    return list(needed) or (["polyhedral"] if simple else ["polyhedral", "tree"])


def guarantee(
    arms: int,
    domain: Any,
    parameters: HighDimensionalBanditParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scales and enforced bounds.

    Parameters
    ----------
    arms, domain
        K, and where an arm's coefficients lie.
    parameters : HighDimensionalBanditParameters
        Calibrated or the user's own; only noise scales, sizes and enforced bounds are trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters are for other sizes, or contradict the domain.
    CalibrationError
        If the parameters say "paper" and the published claim is false for them.
    """
    p, own, view = parameters, parameters.arm, L1Geometry(domain)
    check_sizes(p, arms, view.dimension)
    tree = p.arm_learner == "tree"
    if tree and view.is_box:
        raise ValueError(_NO_BOX)
    kind = f"{p.sum_method!r} sums" if tree else f"{p.selector!r} selections"
    what = (
        f"to every user the action of the high-dimensional bandit ({p.arms} arms, dimension "
        f"{p.dimension}, {kind}), to everybody the estimates of all arms"
    )
    details: dict[str, float | str | None] = {
        "neighbours": NEIGHBOURS[p.relation],
        "forced rounds of each arm": float(p.forced_rounds),
        "rounds of an arm's clock": float(p.arm_horizon),
        "regret": "no bound is claimed",
    }
    delta = stated_delta(budget, p.horizon)
    one: Guarantee = _learner_of(p).guarantee(domain, p.loss, own, budget=delta, seeded=seeded)
    whole = mechanism_of(arms, domain, p)
    loss = whole.loss(Neighbours(p.relation, "others"))
    if loss is None:
        return replace(Guarantee.none(p.horizon, what), details=details)
    epsilon = loss.epsilon(one.delta)
    rewards = "[0, 1]" if p.link == "logistic" else f"[{-p.reward_bound:g}, {p.reward_bound:g}]"
    return replace(
        one,
        epsilon=epsilon,
        loss=loss if tree else one.loss,
        description=whole,
        change=p.relation,
        view="others",
        unit="one user's record",
        horizon=p.horizon,
        mechanism=what,
        certified=not seeded and math.isfinite(epsilon),
        reference="Han et al., DP-HDB, Theorem 4.1, corrected; "
        "docs/privacy/high_dimensional_bandit.md",
        conditions=(
            f"contexts are clipped to maximum norm {p.context_bound:g}, rewards to {rewards}, what "
            f"a record adds to maximum norm {own.leaf_bound:g}; a missing record counts as no "
            "data, enforced",
            *JOINT,
            *common_conditions(loss.mass, seeded, sums=tree),
        ),
        details={**one.details, **details},
    )


def mechanism_of(arms: int, domain: Any, parameters: HighDimensionalBanditParameters) -> Parts:
    """Return the arms' mechanisms: a record is data of one of them, and zeros for all others."""
    one = _learner_of(parameters).mechanism_of(domain, parameters.loss, parameters.arm)
    return Parts("one_of", (one,) * arms, "high_dimensional_bandit")


def _learner_of(p: HighDimensionalBanditParameters) -> Any:
    """Return the accountant of an arm's learner."""
    return tree_frank_wolfe if p.arm_learner == "tree" else polyhedral_frank_wolfe
