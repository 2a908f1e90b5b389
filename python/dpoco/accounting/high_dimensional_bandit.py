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

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import polyhedral_frank_wolfe, tree_frank_wolfe
from dpoco.accounting._bandits.high_dimensional_arms import (
    arm_of,
    attainable_gain,
    automatic_batch,
    forced_of,
    noise_error,
    total_error,
)
from dpoco.accounting._bandits.high_dimensional_parameters import (
    LARGEST_ARMS,
    LINKS,
    HighDimensionalBanditParameters,
    arm_horizon,
    gap_of,
    loss_of,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import CALIBRATIONS, L1Geometry
from dpoco.accounting.polyhedral_planner import SELECTORS
from dpoco.accounting.release import common_conditions
from dpoco.accounting.statement import stated_delta
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.errors import BudgetExceeded, CalibrationError
from dpoco.privacy.mechanisms.base import Mechanism, Parts
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = [
    "ARM_LEARNERS",
    "HighDimensionalBanditParameters",
    "calibrate",
    "guarantee",
    "mechanism_of",
]

ARM_LEARNERS = ("auto", "polyhedral", "tree")


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
    sum_method : {"auto", "blt", "tree", "honaker", "toeplitz"}, optional
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
    k = positive_int("arms", arms, maximum=LARGEST_ARMS)
    if horizon is None:
        raise ValueError("horizon must be an int: the noise depends on the number of rounds")
    rounds = positive_int("horizon", horizon)
    choice("calibration", calibration, CALIBRATIONS)
    choice("relation", relation, CHANGES)
    choice("link", link, LINKS)
    if selector is not None:
        choice("selector", selector, SELECTORS)
    if batch is not None and batch != "auto":
        batch = positive_int("batch", batch, maximum=rounds)
    reach, top = (
        positive_float("context_bound", context_bound),
        positive_float("reward_bound", reward_bound),
    )
    wide, loss, view = gap_of(gap), loss_of(link, reach, top), L1Geometry(domain)
    d = view.dimension

    def candidate(learner: str) -> HighDimensionalBanditParameters:
        """Return the parameters with arms of one kind."""
        options: dict[str, Any] = {
            "budget": budget,
            "calibration": calibration,
            "relation": relation,
            **({"sum_method": sum_method} if learner == "tree" else {"selector": selector}),
        }
        size = batch
        if not isinstance(size, int):
            size = automatic_batch(k, rounds, learner, domain, loss, options)
        forced = forced_of(forced_rounds, k, d, rounds, size, budget)
        clock = arm_horizon(k, rounds, forced)
        if size == batch and size > clock:
            raise ValueError(
                f"batch must be at most the {clock} rounds of an arm's clock; got {size}"
            )
        own = arm_of(learner, k, clock, domain, loss, size, options)
        return HighDimensionalBanditParameters(
            arms=k,
            dimension=d,
            horizon=rounds,
            link=link,
            context_bound=reach,
            reward_bound=top,
            forced_rounds=forced,
            gap=wide,
            arm=own,
            predicted_error=noise_error(own, domain),
            attainable=attainable_gain(link, reach * view.max_norm(), top, k),
        )

    learners = _learners(arm_learner, view, budget, calibration, selector, sum_method)
    candidates = []
    for learner in learners:
        try:
            candidates.append(candidate(learner))
        except CalibrationError:  # delta may not pay for the tails of all sums: others have none
            if learner == learners[-1] and not candidates:
                raise
    best = min(candidates, key=lambda p: total_error(p.arm, domain, loss))
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
    choice("arm_learner", wanted, ARM_LEARNERS)
    given = {"selector": selector, "sum_method": sum_method}
    foreign = {"polyhedral": "sum_method", "tree": "selector"}
    if wanted != "auto":
        if given[foreign[wanted]] is not None:
            raise ValueError(f"{foreign[wanted]} does not apply to arm_learner {wanted!r}")
        if wanted == "tree" and view.is_box:
            raise ValueError("tree arms need a domain in l_1 geometry, not a box")
        return [wanted]
    if selector is not None and sum_method is not None:
        raise ValueError("selector is for polyhedral arms, sum_method for tree arms: give one")
    if sum_method is not None:
        return _learners("tree", view, budget, calibration, selector, sum_method)
    # The published bandit has selections for arms; noise on sums cannot do without a delta.
    simple = budget is None or budget.delta == 0.0 or calibration != "tight"
    if selector is not None or simple or view.is_box:
        return ["polyhedral"]
    return ["polyhedral", "tree"]


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
    if (p.arms, p.dimension) != (arms, view.dimension):
        raise ValueError(
            f"parameters are for {p.arms} arms and dimension {p.dimension}; "
            f"got {arms} and {view.dimension}"
        )
    tree = isinstance(own, TreeFrankWolfeParameters)
    kind = f"{p.sum_method!r} sums" if tree else f"{p.selector!r} selections"
    what = (
        f"to every user the action of the high-dimensional bandit ({p.arms} arms, dimension "
        f"{p.dimension}, {kind}), to everybody the estimates of all arms"
    )
    details: dict[str, float | str | None] = {
        "neighbours": (
            "a user's record is replaced" if p.relation == "replace" else "a record is emptied"
        ),
        "forced rounds of each arm": float(p.forced_rounds),
        "rounds of an arm's clock": float(p.arm_horizon),
        "regret": "no bound is claimed",
    }
    delta = stated_delta(budget, p.horizon)
    one: Guarantee
    if isinstance(own, TreeFrankWolfeParameters):
        if view.is_box:
            raise ValueError("tree arms need a domain in l_1 geometry, not a box")
        one = tree_frank_wolfe.guarantee(domain, p.loss, own, budget=delta, seeded=seeded)
    else:
        one = polyhedral_frank_wolfe.guarantee(domain, p.loss, own, budget=delta, seeded=seeded)
    if not p.private:
        return replace(Guarantee.none(p.horizon, what), details=details)
    whole = mechanism_of(arms, domain, p)
    if not isinstance(own, TreeFrankWolfeParameters):
        one = replace(one, description=whole)
    else:
        loss = whole.loss(Neighbours(p.relation, "others"))
        assert loss is not None
        one = replace(
            one, epsilon=loss.epsilon(delta), truncation_mass=loss.mass, description=whole
        )
    rewards = "[0, 1]" if p.link == "logistic" else f"[{-p.reward_bound:g}, {p.reward_bound:g}]"
    return replace(
        one,
        change=p.relation,
        view="others",
        unit="one user's record",
        horizon=p.horizon,
        mechanism=what,
        certified=not seeded and math.isfinite(one.epsilon),
        reference="Han et al., DP-HDB, Theorem 4.1, corrected; "
        "docs/privacy/high_dimensional_bandit.md",
        conditions=(
            f"contexts are clipped to maximum norm {p.context_bound:g}, rewards to {rewards}, what "
            f"a record adds to maximum norm {own.leaf_bound:g}; a missing record counts as no "
            "data, enforced",
            "a user's record is the context and the rewards of all arms; it is hidden from all "
            "OTHER users and from everybody who sees the estimates, not from those who see the "
            "user's own action or reward: a log of all actions is not covered",
            "other users' records do not depend on a user's own action and reward",
            *common_conditions(one.truncation_mass, seeded, sums=tree),
        ),
        details={**one.details, **details},
    )


def mechanism_of(arms: int, domain: Any, parameters: HighDimensionalBanditParameters) -> Mechanism:
    """Return the arms' mechanisms: a record is data of one of them, and zeros for all others."""
    own = parameters.arm
    one: Mechanism
    if isinstance(own, TreeFrankWolfeParameters):
        one = tree_frank_wolfe.mechanism_of(domain, parameters.loss, own)
    else:
        one = polyhedral_frank_wolfe.mechanism_of(domain, parameters.loss, own)
    return Parts("one_of", (one,) * arms, "high_dimensional_bandit")
