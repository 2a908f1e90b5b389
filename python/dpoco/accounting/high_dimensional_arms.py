"""Parameters of the high-dimensional bandit: its arms' learners, and how many rounds are forced.

The choices are made from public numbers and claim nothing about privacy.

Proof: ``docs/privacy/high_dimensional_bandit.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from dpoco._validation import LARGEST_HORIZON, choice, positive_int
from dpoco.accounting import continual_sum, polyhedral_frank_wolfe, tree_frank_wolfe
from dpoco.accounting.budget import Budget
from dpoco.accounting.generalized_gaussian import expected_norm_bound
from dpoco.accounting.leaf_bounds import L1Geometry
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralFrankWolfeParameters
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.accounting.truncation import charged_gaussian_mu
from dpoco.errors import StateError

LINKS = ("identity", "logistic")
_DOMINATES = 0.9  # measured: see `noise_dominates`
_FEWEST_FORCED = 50
_POINTS = 200  # of a mean over rounds
# Of the worst-case curvature in the comparison of batches, as in the planner of polyhedral arms.
_CURVATURE = 0.125
# Noise in sums is charged for the worst pair of vertices, and stays the same from one update to
# the next; measured regret of both kinds of arms is equal where that bound is 2.5 times larger.
_SUM_SHARE = 0.4

ArmParameters: TypeAlias = PolyhedralFrankWolfeParameters | TreeFrankWolfeParameters
_ARM_KINDS: dict[str, type[ArmParameters]] = {
    "dpoco.polyhedral_frank_wolfe_parameters": PolyhedralFrankWolfeParameters,
    "dpoco.tree_frank_wolfe_parameters": TreeFrankWolfeParameters,
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
        """Whether anything is promised: there is noise, or nothing depends on the data."""
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
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        return {**super().to_dict(), "arm": self.arm.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> HighDimensionalBanditParameters:
        """Return the parameters written by `to_dict`; `StateError` if they are not."""
        own = record.get("arm") if isinstance(record, Mapping) else None
        kind = str(own.get("kind")) if isinstance(own, Mapping) else ""
        if not isinstance(own, Mapping) or kind not in _ARM_KINDS:
            raise StateError(f"malformed record of {cls.__name__}")
        return super().from_dict({**record, "arm": _ARM_KINDS[kind].from_dict(own)})


def forced_of(
    value: Any, arms: int, dimension: int, horizon: int, batch: int, budget: Budget | None
) -> int:
    """Return the forced rounds of an arm.

    None: the first multiple of the batch that is at least 50, so that the estimates are fresh when
    choices begin, but at most half of all rounds are forced. "paper": log(d T) log(T) / epsilon^2.
    """
    if value == "paper":
        if budget is None:
            raise ValueError("forced_rounds='paper' depends on the budget; there is none")
        rounds = math.log(dimension * horizon) * math.log(horizon) / budget.epsilon**2
        return int(min(rounds, horizon))
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
    forced = forced_of(forced_rounds, arms, L1Geometry(domain).dimension, horizon, size, budget)
    clock = arm_horizon(arms, horizon, forced)
    if size == batch and size > clock:
        raise ValueError(f"batch must be at most the {clock} rounds of an arm's clock; got {size}")
    options |= {"horizon": clock, "batch": min(size, clock)}
    if learner == "polyhedral":
        return forced, polyhedral_frank_wolfe.calibrate(domain, loss, **options)
    tree = tree_frank_wolfe.calibrate(domain, loss, numerics="float", **options)
    if budget is not None and tree.calibration == "tight":
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
        rows = np.asarray(continual_sum.row_norm(own.sum_method, at, updates))
        worst = view.diameter() * own.noise_scale * size * rows / (own.batch * at)
        errors = _SUM_SHARE * worst
    widths = np.diff(np.append(at, updates + 1))
    return float(np.minimum(errors, own.loss_range) @ widths) / updates


def total_error(own: ArmParameters, domain: Any, loss: Any) -> float:
    """Return the predicted excess loss of noise and of few updates: what learners compete in."""
    view = L1Geometry(domain)
    updates = own.horizon // own.batch
    curvature = _CURVATURE * float(loss.smoothness(cast(Any, view))) * view.diameter() ** 2
    return noise_error(own, domain) + curvature * (1.0 + math.log(updates)) / (2.0 * updates)


def attainable_gain(link: str, margin: float, reward_bound: float, arms: int) -> float:
    """Return what good coefficients gain over none, in an arm's mean loss.

    For margins spread evenly up to a, or up to the largest reward if that is less: a^2/6 with half
    the squared loss, about a^2/24 with the logistic one. K arms share the records.
    """
    if link == "logistic":
        return min(math.log(2.0), margin * margin / 24.0) / arms
    return min(margin, reward_bound) ** 2 / (6.0 * arms)
