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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from dpoco._validation import LARGEST_HORIZON, choice, positive_int
from dpoco.accounting import continual_sum, polyhedral_frank_wolfe, tree_frank_wolfe
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import UNPROVED
from dpoco.accounting.generalized_gaussian import expected_norm_bound
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import L1Geometry
from dpoco.accounting.linucb import NEIGHBOURS, check_sizes
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralFrankWolfeParameters
from dpoco.accounting.regret_bounds import without_regret
from dpoco.accounting.statement import stated_delta
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.accounting.truncation import charged_gaussian_mu
from dpoco.errors import CalibrationError, StateError
from dpoco.privacy.mechanisms.base import Parts
from dpoco.privacy.neighbours import Neighbours

__all__ = ["HighDimensionalBanditParameters", "calibrate", "guarantee", "mechanism_of"]

LINKS = ("identity", "logistic")
_DOMINATES = 0.9  # measured: see `noise_dominates`
_FEWEST_FORCED = 50
_POINTS = 200  # of a mean over rounds
_WHY_UNPROVED = (
    "no bound is proved, because the published proof takes strong convexity in l2 for that in l1 "
    "and forgets that an arm's loss changes with what is chosen; a repair needs the margins and "
    "eigenvalues of the law of contexts, which nobody can declare"
)
# Noise in sums is charged for the worst pair of vertices, and stays the same from one update to
# the next; measured regret of both kinds of arms is equal where that bound is 2.5 times larger.
_SUM_SHARE = 0.4

ArmParameters: TypeAlias = PolyhedralFrankWolfeParameters | TreeFrankWolfeParameters
_ARM_KINDS: dict[str, type[ArmParameters]] = {
    each.kind: each for each in (PolyhedralFrankWolfeParameters, TreeFrankWolfeParameters)
}


def loss_of(link: str, context_bound: float, reward_bound: float) -> Any:
    """Return the loss of an arm's learner, or raise for bounds that do not fit the link."""
    from dpoco.losses import LogisticLoss, SquaredLoss

    if choice("link", link, LINKS) == "identity":
        return SquaredLoss(context_bound, reward_bound, weight=0.5)
    if reward_bound != 1.0:
        raise ValueError("reward_bound must be 1 for link 'logistic': rewards are in [0, 1]")
    return LogisticLoss(context_bound)


def arm_horizon(arms: int, horizon: int, forced_rounds: int) -> int:
    """Return the rounds an arm's clock can count: its forced ones, and all rounds with a choice."""
    return min(forced_rounds, horizon) + max(0, horizon - arms * forced_rounds)


@dataclass(frozen=True, kw_only=True)
class HighDimensionalBanditParameters(Parameters):
    """Parameters of the high-dimensional bandit.

    The value carries no claim of its own: `dpoco.accounting.high_dimensional_bandit.guarantee`
    recomputes every privacy quantity from noise scales and enforced bounds.

    Attributes
    ----------
    arms, dimension, horizon : int
        K, d and T.
    link : {"identity", "logistic"}
        Mean reward of an arm: <x, theta>, or 1/(1 + exp(-<x, theta>)).
    context_bound : float
        Contexts are clipped to this maximum norm.
    reward_bound : float
        "identity": rewards are clipped to [-reward_bound, reward_bound]. "logistic": to [0, 1].
    forced_rounds : int
        Rounds in which each arm is pulled before there is a choice.
    gap : float
        Arms whose estimates behind the forced rounds trail by half of it are out; infinite: none.
    arm : PolyhedralFrankWolfeParameters or TreeFrankWolfeParameters
        Those of each arm's learner, whose horizon is `arm_horizon`.
    predicted_error : float
        What noise is predicted to cost an arm's estimate, in its mean loss over the rounds.
        Derived, as is `attainable`.
    attainable : float
        What good coefficients gain over none in the same mean loss, if margins are spread evenly.
    """

    kind: ClassVar[str] = "dpoco.high_dimensional_bandit_parameters"

    arms: int = at_least(1, 2**12)
    dimension: int
    horizon: int
    link: str = one_of(*LINKS)
    context_bound: float
    reward_bound: float
    forced_rounds: int = at_least(0, LARGEST_HORIZON)
    gap: float = at_least(0.0, infinite=True)
    arm: ArmParameters
    predicted_error: float = at_least(0.0)
    attainable: float = at_least(0.0)

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        loss_of(self.link, self.context_bound, self.reward_bound)
        if self.forced_rounds > self.horizon:
            raise ValueError(f"forced_rounds must be at most the horizon, {self.horizon}")
        if getattr(self.arm, "numerics", "float") != "float":
            raise ValueError("the arms' sums are in doubles: arm must have numerics 'float'")
        if self.arm.horizon != self.arm_horizon:
            raise ValueError(
                f"the arms' learners must have horizon {self.arm_horizon}; got {self.arm.horizon}"
            )

    @property
    def arm_horizon(self) -> int:
        """Rounds N of an arm's clock."""
        return arm_horizon(self.arms, self.horizon, self.forced_rounds)

    @property
    def arm_learner(self) -> str:
        """Kind of the arms' learners: "polyhedral" or "tree"."""
        return "tree" if isinstance(self.arm, TreeFrankWolfeParameters) else "polyhedral"

    @property
    def calibration(self) -> str:
        """How the arms' noise scale was found."""
        return self.arm.calibration

    @property
    def selector(self) -> str | None:
        """How polyhedral arms choose a vertex; None for tree arms."""
        return getattr(self.arm, "selector", None)

    @property
    def sum_method(self) -> str | None:
        """Continual sum of tree arms; None for polyhedral ones."""
        return getattr(self.arm, "sum_method", None)

    @property
    def batch(self) -> int:
        """Rounds of an arm's clock per update of its estimate."""
        return self.arm.batch

    @property
    def relation(self) -> str:
        """What happens to one user's record between neighbours: "replace" or "zero_out"."""
        return self.arm.relation

    @property
    def private(self) -> bool:
        """Whether there is a guarantee: there is noise, or nothing depends on the data."""
        return self.arm.private

    @property
    def loss(self) -> Any:
        """The loss each arm's learner minimises, with the bounds on contexts and rewards."""
        return loss_of(self.link, self.context_bound, self.reward_bound)

    @property
    def forced_only(self) -> bool:
        """Whether the horizon ends before there is a choice."""
        return self.arms * self.forced_rounds >= self.horizon

    @property
    def noise_dominates(self) -> bool:
        """Whether the predicted error is close to what there is to gain, or above it.

        In all worlds of ``docs/bandits.md`` and ``docs/reproduce.md`` where it is, regret is more
        than 85 % of that of uniform play; where it is not, less.
        """
        return self.arm.private and self.predicted_error > _DOMINATES * self.attainable

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dictionary that `from_dict` restores exactly."""
        return {**super().to_dict(), "arm": self.arm.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> HighDimensionalBanditParameters:
        """Return the parameters written by `to_dict`; `StateError` if they are not."""
        own = record.get("arm") if isinstance(record, Mapping) else None
        kind = str(own.get("kind")) if isinstance(own, Mapping) else ""
        if not isinstance(own, Mapping) or kind not in _ARM_KINDS:
            raise StateError(f"malformed record of {cls.__name__}")
        return super().from_dict({**record, "arm": _ARM_KINDS[kind].from_dict(own)})


def forced_of(value: int | None, arms: int, horizon: int, batch: int) -> int:
    """Return the forced rounds of an arm.

    None: the first multiple of the batch that is at least 50, so that the estimates are fresh when
    choices begin, but at most half of all rounds are forced.
    """
    if value is not None:
        none = value == 0 and not isinstance(value, (bool, float))
        return 0 if none else positive_int("forced_rounds", value, maximum=horizon)
    updates = max(1, -(-_FEWEST_FORCED // batch))
    most = horizon // (2 * arms)
    return batch * min(updates, most // batch) if most >= batch else most


def planned_arm(
    learner: str,
    arms: int,
    horizon: int,
    domain: Any,
    loss: Any,
    batch: Any,
    forced_rounds: Any,
    **options: Any,
) -> tuple[int, ArmParameters]:
    """Return an arm's forced rounds, and the parameters of its learner of this kind."""
    budget, size = options["budget"], batch
    if batch in (None, "auto"):
        size = 1
        if learner == "polyhedral":  # what suits one stream, and each arm is forced half as often
            own = polyhedral_frank_wolfe.calibrate(domain, loss, horizon=horizon, **options)
            size = min(own.batch, max(1, horizon // (2 * arms)))
    forced = forced_of(forced_rounds, arms, horizon, size)
    clock = arm_horizon(arms, horizon, forced)
    if size == batch and size > clock:
        raise ValueError(f"batch must be at most the {clock} rounds of an arm's clock; got {size}")
    options |= {"horizon": clock, "batch": min(size, clock)}
    if learner == "polyhedral":
        return forced, polyhedral_frank_wolfe.calibrate(domain, loss, **options)
    tree = tree_frank_wolfe.calibrate(domain, loss, numerics="float", **options)
    if budget is not None:
        # The truncated tails of all arms' noise are charged, not those of one only.
        tails = arms * tree_frank_wolfe.mechanism_of(domain, loss, tree).mass
        mu = charged_gaussian_mu(budget, min(1.0, tails))
        scale, error = (v * (tree.mu / mu) for v in (tree.noise_scale, tree.predicted_error))
        tree = replace(tree, mu=mu, noise_scale=scale, predicted_error=error)
    return forced, tree


def noise_error(own: ArmParameters, domain: Any) -> float:
    """Return the predicted excess loss that noise causes, as a mean over an arm's clock.

    An update costs no more than the range of the loss, however much noise there is.
    """
    view = L1Geometry(domain)
    updates = own.horizon // own.batch
    at = np.unique(np.geomspace(1.0, updates, _POINTS).astype(np.int64))
    if isinstance(own, PolyhedralFrankWolfeParameters):
        errors = view.excess(own.selector) * own.scale * at.astype(np.float64) ** -own.exponent
    else:
        size = expected_norm_bound(own.norm_order, math.inf, view.dimension)
        rows = np.asarray(continual_sum.row_norm(own.correlation, at, updates))
        worst = view.diameter() * own.noise_scale * size * rows / (own.batch * at)
        errors = _SUM_SHARE * worst
    widths = np.diff(np.append(at, updates + 1))
    return float(np.minimum(errors, own.loss_range) @ widths) / updates


def total_error(own: ArmParameters, domain: Any, loss: Any) -> float:
    """Return the predicted excess loss of noise and of few updates: what learners compete in."""
    slow = polyhedral_frank_wolfe.slowness(L1Geometry(domain), loss, own.horizon // own.batch)
    return noise_error(own, domain) + slow


def attainable_gain(link: str, margin: float, reward_bound: float, arms: int) -> float:
    """Return what good coefficients gain over none, in an arm's mean loss.

    For margins spread evenly up to a, or up to the largest reward if that is less: a^2/6 with half
    the squared loss, about a^2/24 with the logistic one. K arms share the records.
    """
    if link == "logistic":
        return min(math.log(2.0), margin * margin / 24.0) / arms
    return min(margin, reward_bound) ** 2 / (6.0 * arms)


ARM_LEARNERS = ("auto", "polyhedral", "tree")
_NO_BOX = "tree arms need a domain in l_1 geometry, not a box"


def calibrate(
    arms: int,
    domain: Any,
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
        None adds no noise and gives no guarantee. delta = 0 is allowed with polyhedral arms.
    link : {"identity", "logistic"}
        Half the squared loss, or the logistic loss.
    context_bound, reward_bound : float
        Bounds on contexts, in the maximum norm, and on rewards; None is 1.
    arm_learner : {"auto", "polyhedral", "tree"}
        "auto" takes the one with the smaller predicted error of those that the other options allow.
    selector : {"gumbel", "laplace"}, optional
        For polyhedral arms.
    batch : int or "auto", optional
        Rounds of an arm's clock per update, at most those the clock can count; None and "auto"
        choose it.
    forced_rounds : int, optional
        Of each arm.
    gap : float
        In [0, inf].
    sum_method : {"auto", "blt", "blt_normalised", "tree", "toeplitz"}, optional
        For tree arms.
    relation : {"replace", "zero_out"}
        What happens to one user's record between neighbours.

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
    reward_bound = 1.0 if reward_bound is None else reward_bound  # the unit of rewards
    loss, view = loss_of(link, context_bound, reward_bound), L1Geometry(domain)
    options: dict[str, Any] = {"budget": budget, "relation": relation}
    learners, found = _learners(arm_learner, view, budget, selector, sum_method), []
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
    return best


def _learners(
    wanted: str,
    view: L1Geometry,
    budget: Budget | None,
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
    # Noise on sums cannot do without a delta.
    simple = budget is None or budget.delta == 0.0 or view.is_box
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
        UNPROVED: _WHY_UNPROVED,
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
        unit="",
        horizon=p.horizon,
        mechanism=what,
        reference="Han et al., DP-HDB, Theorem 4.1, corrected; "
        "docs/privacy/high_dimensional_bandit.md",
        conditions=(
            f"The program clips contexts to maximum norm {p.context_bound:g}, rewards to "
            f"{rewards}, and what a record adds to maximum norm {own.leaf_bound:g}.",
            "The program treats a missing record as no data.",
        ),
        regret_bound=None,
        details={**without_regret(one.details), **details},
    )


def mechanism_of(arms: int, domain: Any, parameters: HighDimensionalBanditParameters) -> Parts:
    """Return the arms' mechanisms: a record is data of one of them, and zeros for all others."""
    one = _learner_of(parameters).mechanism_of(domain, parameters.loss, parameters.arm)
    return Parts("one_of", (one,) * arms, "high_dimensional_bandit", parameters.forced_rounds)


def tuning_of_arm(p: HighDimensionalBanditParameters) -> dict[str, Any]:
    """Return what is made of the releases of an arm."""
    return _learner_of(p).tuning(p.arm)  # type: ignore[no-any-return]


def _learner_of(p: HighDimensionalBanditParameters) -> Any:
    """Return the accountant of an arm's learner."""
    return tree_frank_wolfe if p.arm_learner == "tree" else polyhedral_frank_wolfe
