"""Everything calibration fixes for the high-dimensional bandit, as one stored value.

Proof: ``docs/privacy/high_dimensional_bandit.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero, count_of
from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralFrankWolfeParameters
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.errors import StateError

__all__ = [
    "LARGEST_ARMS",
    "LINKS",
    "ArmParameters",
    "HighDimensionalBanditParameters",
    "arm_horizon",
    "gap_of",
    "loss_of",
]

LINKS = ("identity", "logistic")
LARGEST_ARMS = 2**12
_DOMINATES = 0.9  # measured: see `noise_dominates`

ArmParameters: TypeAlias = PolyhedralFrankWolfeParameters | TreeFrankWolfeParameters

_ARM_KINDS: dict[str, type[ArmParameters]] = {
    "dpoco.polyhedral_frank_wolfe_parameters": PolyhedralFrankWolfeParameters,
    "dpoco.tree_frank_wolfe_parameters": TreeFrankWolfeParameters,
}


def arm_horizon(arms: int, horizon: int, forced_rounds: int) -> int:
    """Return the rounds an arm's clock can count: its forced ones, and all rounds with a choice."""
    return min(forced_rounds, horizon) + max(0, horizon - arms * forced_rounds)


def gap_of(value: Any) -> float:
    """Return a gap in [0, inf], or raise."""
    if isinstance(value, float) and value == math.inf:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0:
        return 0.0
    return positive_float("gap", value)


def loss_of(link: str, context_bound: float, reward_bound: float) -> Any:
    """Return the loss of an arm's learner, or raise for bounds that do not fit the link."""
    from dpoco.losses import LogisticLoss, SquaredLoss

    if link == "identity":
        return SquaredLoss(context_bound, reward_bound, weight=0.5)
    if reward_bound != 1.0:
        raise ValueError("reward_bound must be 1 for link 'logistic': rewards are in [0, 1]")
    return LogisticLoss(context_bound)


@dataclass(frozen=True)
class HighDimensionalBanditParameters(StoredParameters):
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

    _kind: ClassVar[str] = "dpoco.high_dimensional_bandit_parameters"

    arms: int
    dimension: int
    horizon: int
    link: str
    context_bound: float
    reward_bound: float
    forced_rounds: int
    gap: float
    arm: ArmParameters
    predicted_error: float
    attainable: float

    def __post_init__(self) -> None:
        """Validate."""
        positive_int("arms", self.arms, maximum=LARGEST_ARMS)
        positive_int("dimension", self.dimension)
        positive_int("horizon", self.horizon)
        choice("link", self.link, LINKS)
        for name in ("context_bound", "reward_bound"):
            object.__setattr__(self, name, positive_float(name, getattr(self, name)))
        loss_of(self.link, self.context_bound, self.reward_bound)
        if count_of("forced_rounds", self.forced_rounds) > self.horizon:
            raise ValueError(f"forced_rounds must be at most the horizon, {self.horizon}")
        object.__setattr__(self, "gap", gap_of(self.gap))
        if not isinstance(self.arm, (PolyhedralFrankWolfeParameters, TreeFrankWolfeParameters)):
            raise TypeError("arm must be parameters of a Frank-Wolfe learner")
        if getattr(self.arm, "numerics", "float") != "float":
            raise ValueError("the arms' sums are in doubles: arm must have numerics 'float'")
        if self.arm.horizon != self.arm_horizon:
            raise ValueError(
                f"the arms' learners must have horizon {self.arm_horizon}; got {self.arm.horizon}"
            )
        for name in ("predicted_error", "attainable"):
            object.__setattr__(self, name, at_least_zero(name, getattr(self, name)))

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
