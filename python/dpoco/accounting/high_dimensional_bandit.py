"""Accounting of the high-dimensional bandit (DP-HDB): joint differential privacy.

Claim: each of K arms has a private Frank-Wolfe learner with its own noise and its own clock, which
follows a public schedule, and every arm that is not chosen gets a record whose leaf is exactly
zero. Then a change of one user's record changes one leaf of one arm by at most 2 C, or one leaf
each of two arms, at the same time of their clocks, by at most C. So the estimates of all arms
together are as private as the decisions of ONE such learner over N = t0 + max(0, T - K t0) rounds.
The same holds for all actions shown to users other than the one whose record changed, because each
action is a function of the published estimates and that user's context.

Proof: ``docs/privacy/high_dimensional_bandit.md``. Source: Han et al., DP-HDB, Theorem 4.1, with
local clocks and zero records for all arms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpoco._validation import Fields, choice, positive_int
from dpoco.accounting import continual_sum, polyhedral_frank_wolfe, tree_frank_wolfe
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import UNPROVED
from dpoco.accounting.frank_wolfe_regret import ErrorForecast
from dpoco.accounting.gaussian import charged_gaussian_mu, expected_norm_bound
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import L1Geometry, enforced_leaf_bounds
from dpoco.accounting.linucb import NEIGHBOURS
from dpoco.accounting.plan import Plan
from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralTuning
from dpoco.accounting.regret_bounds import without_regret
from dpoco.accounting.statement import stated_delta
from dpoco.accounting.tree_frank_wolfe import TreeTuning
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.losses import LogisticLoss, Loss, MarginLoss, SquaredLoss
from dpoco.privacy.mechanisms.base import Mechanism, Parts
from dpoco.privacy.mechanisms.bounds import GlmGradient
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["ArmsForecast", "ArmsTuning", "BanditPlan", "calibrate", "guarantee", "make_plan"]

LINKS = ("identity", "logistic")
# Link, and bound on rewards, of a loss that has no bound on labels.
LOGISTIC = ("logistic", 1.0)
_DOMINATES = 0.9  # measured: see `noise_dominates`
_FEWEST_FORCED = 50
_POINTS = 200  # points at which a mean over rounds is evaluated
_WHY_UNPROVED = (
    "no bound is proved, because the published proof takes strong convexity in l2 for that in l1 "
    "and forgets that an arm's loss changes with what is chosen; a repair needs the margins and "
    "eigenvalues of the law of contexts, which nobody can declare"
)
# Noise in sums is charged for the worst pair of vertices and is correlated between updates. The
# measured regret of both kinds of arms is equal when this bound is 2.5 times larger.
_SUM_SHARE = 0.4

ArmPlan = Plan[Any, Any, ErrorForecast]


def link_loss(link: str, context_bound: float, reward_bound: float) -> MarginLoss:
    """Return the loss of an arm's learner, or raise for bounds that do not fit the link.

    Parameters
    ----------
    link : {"identity", "logistic"}
        Half the squared loss, or the logistic loss.
    context_bound, reward_bound : float
        Bounds on contexts, in the maximum norm, and on rewards.
    """
    if choice("link", link, LINKS) == "identity":
        return SquaredLoss(context_bound, reward_bound, weight=0.5)
    if reward_bound != 1.0:
        raise ValueError("reward_bound must be 1 for link 'logistic': rewards are in [0, 1]")
    return LogisticLoss(context_bound)


def arm_horizon(arms: int, horizon: int, forced_rounds: int) -> int:
    """Return the most rounds of an arm's clock: forced rounds, and all rounds with a choice."""
    return min(forced_rounds, horizon) + max(0, horizon - arms * forced_rounds)


@dataclass(frozen=True)
class ArmsTuning(Description):
    """Parameters of the post-processing of the arms' releases.

    Attributes
    ----------
    horizon : int
        T.
    link : {"identity", "logistic"}
        Mean reward of an arm: <x, theta>, or 1/(1 + exp(-<x, theta>)).
    reward_bound : float
        "identity": rewards are clipped to [-reward_bound, reward_bound]. "logistic": to [0, 1].
    arm : TreeTuning or PolyhedralTuning
        Tuning of each arm, whose horizon is `arm_horizon`.
    gap : float
        Arms are eliminated if their estimates after the forced rounds trail by half of it; infinite
        eliminates no arm.
    """

    kind = "high_dimensional_bandit_tuning"
    horizon: int
    link: str
    reward_bound: float
    arm: TreeTuning | PolyhedralTuning
    gap: float = limits(zero=True, infinite=True)

    def __post_init__(self) -> None:
        """Raise for bounds that do not fit the link."""
        super().__post_init__()
        link_loss(self.link, 1.0, self.reward_bound)


@dataclass(frozen=True)
class ArmsForecast(Description):
    """Expected cost of noise.

    Attributes
    ----------
    predicted_error : float
        Predicted cost of noise in an arm's estimate, in its mean loss over the rounds.
    attainable : float
        Gain of good coefficients over zero in the same mean loss, if margins are spread evenly.
    """

    kind = "high_dimensional_bandit_forecast"
    predicted_error: float = limits(zero=True)
    attainable: float = limits(zero=True)

    @property
    def noise_dominates(self) -> bool:
        """Whether the predicted error is close to the attainable gain, or above it.

        In all environments of ``docs/bandits.md`` and ``docs/reproduce.md``, the regret is above 85
        % of that of uniform play if this is True, and below otherwise.
        """
        return self.predicted_error > _DOMINATES * self.attainable


BanditPlan = Plan[Parts, ArmsTuning, ArmsForecast]


def record_bound(part: Mechanism) -> float:
    """Return the bound on contexts, in the maximum norm, that an arm enforces."""
    if isinstance(part, GaussianSum) and isinstance(part.summand, GlmGradient):
        return part.summand.features
    if isinstance(part, Selections) and isinstance(part.scores, VertexScores):
        return part.scores.leaf
    raise TypeError("plan must be a plan for arms that sum gradients or select vertices")


def loss_in(plan: BanditPlan) -> MarginLoss:
    """Return the loss that each arm's learner minimises, with bounds on contexts and rewards."""
    bound = record_bound(plan.mechanism.parts[0])
    return link_loss(plan.tuning.link, bound, plan.tuning.reward_bound)


def make_plan(
    arms: int, domain: Domain, arm: ArmPlan, loss: MarginLoss, forced: int, horizon: int, gap: float
) -> BanditPlan:
    """Return the plan in which all arms have the plan `arm`, with its forecast.

    Parameters
    ----------
    arms : int
        K.
    domain, loss
        Set of coefficients, and the loss that each arm's learner minimises.
    arm : Plan
        Plan of a tree or polyhedral Frank-Wolfe learner over an arm's clock.
    forced, horizon : int
        Forced rounds of each arm, and the total number of rounds.
    gap : float
        See `ArmsTuning`.
    """
    link, bound = ("identity", loss.label_bound) if hasattr(loss, "label_bound") else LOGISTIC
    tuning = ArmsTuning(horizon, link, bound, arm.tuning, gap)
    margin = loss.feature_bound * L1Geometry(domain).max_norm()
    forecast = ArmsForecast(noise_error(arm, domain), attainable_gain(link, margin, bound, arms))
    whole = Parts("one_of", (arm.mechanism,) * arms, "high_dimensional_bandit", forced)
    return Plan(whole, tuning, forecast, arm.calibration)


def choose_forced_rounds(value: int | None, arms: int, horizon: int, batch: int) -> int:
    """Return the number of forced rounds of an arm.

    The default is the first multiple of the batch that is at least 50, so that the estimates are
    fresh when choices begin. At most half of all rounds are forced.
    """
    if value is not None:
        # False and 0.0 equal 0, but are refused because they are not counts.
        none = value == 0 and not isinstance(value, (bool, float))
        return 0 if none else positive_int("forced_rounds", value, maximum=horizon)
    updates = max(1, -(-_FEWEST_FORCED // batch))
    most = horizon // (2 * arms)
    return batch * min(updates, most // batch) if most >= batch else most


def planned_arm(
    learner: str,
    arms: int,
    horizon: int,
    domain: Domain,
    loss: Loss,
    batch: int | str | None,
    forced_rounds: int | None,
    **options: Any,
) -> tuple[int, ArmPlan]:
    """Return an arm's forced rounds, and the plan of its learner.

    Parameters
    ----------
    learner : {"polyhedral", "tree"}
        Learner that computes an arm's estimates.
    arms, horizon, domain, loss, batch, forced_rounds
        See `calibrate`.
    **options
        Arguments of that learner's planner: budget, relation, and a selector or a method.

    Raises
    ------
    CalibrationError
        If no noise scale meets the budget.
    ValueError
        For a batch longer than an arm's clock.
    """
    budget, size = options["budget"], 1
    if isinstance(batch, int):
        size = batch
    elif learner == "polyhedral":  # best for one stream, with each arm forced half as often
        own = polyhedral_frank_wolfe.calibrate(domain, loss, horizon=horizon, **options)
        size = min(arm_batch(own.mechanism), max(1, horizon // (2 * arms)))
    # After the forced rounds all clocks agree, so a record moves two arms at the same time of their
    # clocks (docs/privacy/high_dimensional_bandit.md, (a)).
    forced = choose_forced_rounds(forced_rounds, arms, horizon, size)
    clock = arm_horizon(arms, horizon, forced)
    if size == batch and size > clock:
        raise ValueError(f"batch must be at most the {clock} rounds of an arm's clock; got {size}")
    options |= {"horizon": clock, "batch": min(size, clock)}
    if learner == "polyhedral":
        return forced, polyhedral_frank_wolfe.calibrate(domain, loss, **options)
    # On a lattice, the rounding term is proved for the rows of one sum, but a record may move the
    # sums of two arms (docs/privacy/lattice.md, "What stays in doubles").
    tree = tree_frank_wolfe.calibrate(domain, loss, numerics="float", **options)
    if budget is not None:
        # The truncated tails of all arms are charged, not only those of one arm.
        total = tree.mechanism
        one, all_arms = (
            charged_gaussian_mu(budget, tails)
            for tails in (total.mass, min(1.0, arms * total.mass))
        )
        total = replace(total, scale=total.scale * (one / all_arms))
        tree = tree_frank_wolfe.make_plan(domain, loss, total, tree.tuning)
    return forced, tree


def noise_error(arm: ArmPlan, domain: Domain) -> float:
    """Return the predicted excess loss because of noise, as a mean over an arm's clock.

    An update costs at most the range of the loss, however large the noise.
    """
    view, own = L1Geometry(domain), arm.mechanism
    updates = own.rounds if isinstance(own, Selections) else own.pushes
    # There are too many updates to evaluate all. Those between two points count like the first
    # point.
    at = np.unique(np.geomspace(1.0, updates, _POINTS).astype(np.int64))
    if isinstance(own, Selections):
        errors = view.excess(own.law) * own.scale * at.astype(np.float64) ** -own.exponent
    else:
        size = expected_norm_bound(own.order, math.inf, view.dimension)
        rows = np.asarray(continual_sum.row_norm(own.factorisation, at, updates))
        worst = view.diameter() * own.scale * size * rows / (own.batch * at)
        errors = _SUM_SHARE * worst
    widths = np.diff(np.append(at, updates + 1))
    return float(np.minimum(errors, arm.forecast.loss_range) @ widths) / updates


def total_error(arm: ArmPlan, domain: Domain, loss: Loss) -> float:
    """Return the predicted excess loss from noise and few updates, to compare learners by."""
    own = arm.mechanism
    updates = own.rounds if isinstance(own, Selections) else own.pushes
    slow = polyhedral_frank_wolfe.slowness(L1Geometry(domain), loss, updates)
    return noise_error(arm, domain) + slow


def attainable_gain(link: str, margin: float, reward_bound: float, arms: int) -> float:
    """Return the gain of good coefficients over zero, in an arm's mean loss.

    For margins spread evenly up to a, or up to the largest reward if that is less, it is a^2/6 for
    half the squared loss and about a^2/24 for the logistic loss. The K arms share the records.
    """
    if link == "logistic":
        return min(math.log(2.0), margin * margin / 24.0) / arms
    return min(margin, reward_bound) ** 2 / (6.0 * arms)


ARM_LEARNERS = ("auto", "polyhedral", "tree")
_NO_BOX = "tree arms need a domain in l_1 geometry, not a box"


def calibrate(
    arms: int,
    domain: Domain,
    *,
    horizon: int | None,
    budget: Budget | None,
    link: str = "identity",
    context_bound: float = 1.0,
    reward_bound: float | None = None,
    arm_learner: str = "auto",
    selector: str | None = None,
    batch: int | str | None = None,
    forced_rounds: int | None = None,
    gap: float = math.inf,
    sum_method: str | None = None,
    relation: str = "replace",
) -> BanditPlan:
    """Return the least noise that meets `budget`, and suitable options.

    Parameters
    ----------
    arms : int
        K.
    domain : LpBall with p = 1, Simplex, VertexSet, or Box
        Set of an arm's coefficients. A box is for polyhedral arms only.
    horizon : int
        Rounds T. None is refused, because noise and schedule depend on T.
    budget : Budget or None
        None adds no noise and gives no guarantee. delta = 0 is allowed with polyhedral arms.
    link : {"identity", "logistic"}
        Half the squared loss, or the logistic loss.
    context_bound, reward_bound : float
        Bounds on contexts, in the maximum norm, and on rewards; None is 1.
    arm_learner : {"auto", "polyhedral", "tree"}
        "auto" takes the one with the smaller predicted error, among those that the other options
        allow.
    selector : {"gumbel", "laplace"}, optional
        For polyhedral arms.
    batch : int or "auto", optional
        Rounds of an arm's clock per update, at most those the clock can count; None and "auto"
        choose it.
    forced_rounds : int, optional
        Forced rounds of each arm.
    gap : float
        In [0, inf].
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        For tree arms.
    relation : {"replace", "zero_out"}
        Change of one user's record between neighbours.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    rounds = continual_sum.known_horizon(horizon)
    k = positive_int("arms", arms, maximum=2**12)
    if batch is not None and batch != "auto":
        batch = positive_int("batch", batch, maximum=rounds)
    reward_bound = 1.0 if reward_bound is None else reward_bound  # sets the unit of rewards
    loss, view = link_loss(link, context_bound, reward_bound), L1Geometry(domain)
    options: Fields = {"budget": budget, "relation": relation}
    needed = {choice("arm_learner", arm_learner, ARM_LEARNERS)} - {"auto"}
    needed |= {"polyhedral"} if selector is not None else set()
    needed |= {"tree"} if sum_method is not None else set()
    if len(needed) > 1:
        raise ValueError("selector is for polyhedral arms, and sum_method for tree arms only")
    if needed == {"tree"} and view.is_box:
        raise ValueError(_NO_BOX)
    # Noise on sums needs a positive delta.
    simple = budget is None or budget.delta == 0.0 or view.is_box
    learners = list(needed) or (["polyhedral"] if simple else ["polyhedral", "tree"])
    found: list[tuple[int, ArmPlan]] = []
    for learner in learners:
        own = {"sum_method": sum_method} if learner == "tree" else {"selector": selector}
        problem = (k, rounds, domain, loss, batch, forced_rounds)
        try:
            found.append(planned_arm(learner, *problem, **(options | own)))
        except CalibrationError:  # delta may not cover the tails of all sums; the other has none
            if learner == learners[-1] and not found:
                raise
    forced, arm = min(found, key=lambda one: total_error(one[1], domain, loss))
    return make_plan(k, domain, arm, loss, forced, rounds, gap)


def guarantee(
    arms: int,
    domain: Domain,
    plan: BanditPlan,
    *,
    relation: str = "replace",
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism.

    Parameters
    ----------
    arms, domain
        K, and where an arm's coefficients lie.
    plan, relation, budget, seeded
        See `dpoco.accounting.statement`.

    Raises
    ------
    TypeError, ValueError
        If the plan is for other sizes, or contradicts the domain.
    CalibrationError
        If the plan says "paper" and the published claim is false for it.
    """
    whole, tuning, view = plan.mechanism, plan.tuning, L1Geometry(domain)
    n, forced = tuning.horizon, whole.forced or 0
    part: Any = whole.parts[0]
    if whole != Parts("one_of", (part,) * arms, "high_dimensional_bandit", forced) or forced > n:
        raise ValueError(f"the plan is not for {arms} arms that are alike, and such a horizon")
    # Each arm's learner stops at its horizon, which must not end within the rounds.
    clock, bound = arm_horizon(arms, n, forced), record_bound(part)
    tree = isinstance(part, GaussianSum)
    if tuning.arm.horizon != clock:
        raise ValueError(f"arms must have horizon {clock}; got {tuning.arm.horizon}")
    if tree and view.is_box:
        raise ValueError(_NO_BOX)
    if tree and part.grid > 0.0:
        raise ValueError("the sums of arms must be in doubles")
    loss, delta = loss_in(plan), stated_delta(budget, n)
    kind = (
        f"{continual_sum.method_name(part.factorisation)!r} sums"
        if tree
        else (f"{part.law!r} selections")
    )
    what = (
        f"to every user the action of the high-dimensional bandit ({arms} arms, dimension "
        f"{view.dimension}, {kind}), to everybody the estimates of all arms"
    )
    details: dict[str, float | str | None] = {
        "neighbours": NEIGHBOURS[relation],
        "forced rounds of each arm": float(forced),
        "rounds of an arm's clock": float(clock),
        UNPROVED: _WHY_UNPROVED,
    }
    alone = Plan(part, tuning.arm, None, plan.calibration)
    learner: Any = tree_frank_wolfe if tree else polyhedral_frank_wolfe
    one: Guarantee = learner.guarantee(
        domain, loss, alone, relation=relation, budget=delta, seeded=seeded
    )
    # We use the description of all arms, not a single arm's guarantee, because the tails of all
    # arms count.
    all_arms = whole.loss(Neighbours(relation, "others"))
    if all_arms is None:
        return replace(Guarantee.none(n, what), details=details)
    low, high = reward_range(tuning)
    largest = enforced_leaf_bounds(domain, loss, part.summand if tree else part.scores).dual
    return replace(
        one,
        epsilon=all_arms.epsilon(one.delta),
        # Arms that select have no tails, so for a single record their loss is that of one arm.
        loss=all_arms if tree else one.loss,
        description=whole,
        change=relation,
        view="others",
        unit="",
        horizon=n,
        mechanism=what,
        reference="Han et al., DP-HDB, Theorem 4.1, corrected; "
        "docs/privacy/high_dimensional_bandit.md",
        conditions=(
            f"The program clips contexts to maximum norm {bound:g}, rewards to "
            f"[{low:g}, {high:g}], and what a record adds to maximum norm {largest:g}.",
            "The program treats a missing record as no data.",
        ),
        regret_bound=None,
        details={**without_regret(one.details), **details},
    )


def arm_batch(part: Mechanism) -> int:
    """Return the number of rounds of an arm's clock per update of its estimate."""
    if isinstance(part, GaussianSum):
        return part.batch
    assert isinstance(part, Selections)
    assert isinstance(part.scores, VertexScores)
    return part.scores.batch


def reward_range(tuning: ArmsTuning) -> tuple[float, float]:
    """Return the interval to which rewards are clipped."""
    bound = tuning.reward_bound
    return (0.0, 1.0) if tuning.link == "logistic" else (-bound, bound)
