"""How learners and mechanisms are played: what their records are, and which calls make a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco import learners
from dpoco._validation import FloatArray, float_array
from dpoco.audit._interval_records import count_interval, interval_shape
from dpoco.losses import CustomLoss, QuadraticLoss

Shapes = dict[str, tuple[int, ...]]  # of the parts of a record, by name

# Methods of those that answer to a record, by what they play.
VERBS = {"sums": "push", "scores": "select", "queries": "test"}
# The compiled loop that plays them again and again, by what it writes down.
_LOOPS = {
    "records": "vectors", "sums": "vectors", "intervals": "vectors", "experts": "experts",
    "surface": "experts", "arms": "bandit", "scores": "selections", "queries": "tests",
}  # fmt: skip


def find_plays(learner: Any) -> str:
    """Return what a learner plays, as in `dpoco.learners`; of a foreign one its methods tell."""
    listed = learners.plays(learner)
    if listed:
        return listed
    for plays, verb in VERBS.items():
        if hasattr(learner, verb):
            return plays
    known = {"fit": "batch", "arms": "arms", "experts": "experts", "points": "surface"}
    return next((plays for name, plays in known.items() if hasattr(learner, name)), "records")


@dataclass(frozen=True)
class Rounds:
    """A stream: arrays (or lists of loss objects) with one entry a round."""

    parts: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len({len(part) for part in self.parts}) != 1:
            raise ValueError("stream must have parts of one length")

    def __len__(self) -> int:
        return len(self.parts[0])

    def record(self, t: int) -> tuple[Any, ...]:
        """Return the record of round t, counted from 0."""
        return tuple(part[t] for part in self.parts)

    def with_record(self, t: int, record: Sequence[Any]) -> Rounds:
        """Return the neighbouring stream with another record in round t."""
        parts = tuple(part.copy() for part in self.parts)
        for part, entry in zip(parts, record, strict=True):
            part[t] = entry
        return Rounds(parts)

    @property
    def stream(self) -> Any:
        """The stream as callers of an audit give it."""
        return self.parts if len(self.parts) > 1 else self.parts[0]


def split_parts(stream: Any) -> tuple[Any, ...]:
    """Return the parts of a stream: a tuple's, without those that are None, or itself."""
    if isinstance(stream, Mapping):
        raise TypeError("stream must be an array or a tuple of arrays")
    if not isinstance(stream, tuple):
        return (stream,)
    parts = tuple(part for part in stream if part is not None)
    if not parts:
        raise ValueError("stream must have at least one part")
    return parts


def same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    """Whether two records are equal, in every bit or as objects."""
    return all(
        a is b or bool(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f"))
        for a, b in zip(ours, theirs, strict=True)
    )


class Playing:
    """How a learner is played, by what it learns from; a base of what watches it meanwhile.

    Attributes
    ----------
    plays : str
        What it learns from or answers, as in `dpoco.learners`.
    first_affected : int
        Rounds after the changed one whose publication may differ first: 1 if a round's decision is
        made before its record is seen, 0 if the record is an argument of the decision.
    """

    def __init__(self, learner: Any) -> None:
        self.learner, self.plays = learner, find_plays(learner)
        self.first_affected = int(self.plays not in ("arms", "scores", "queries"))

    @property
    def loop(self) -> str | None:
        """The compiled loop for such learners; all but "vectors" are of integers."""
        return _LOOPS.get(self.plays)

    @property
    def marks(self) -> bool:
        """Whether the loop also marks the rounds that drew afresh."""
        return self.loop == "vectors" and hasattr(self.learner, "switches")

    # ---- streams ---------------------------------------------------------------------------------

    def shapes(self) -> Shapes:
        """Return names and shapes of the parts of a record; ``TypeError`` where it has none."""
        learner = self.learner
        if self.plays in ("experts", "surface"):
            surface = self.plays == "surface"
            return {"losses": (len(learner.points) if surface else learner.experts,)}
        if self.plays == "arms":
            return {"contexts": (learner.dimension,), "rewards": (learner.arms,)}
        if self.plays == "sums":
            return {"vectors": (learner.plan.mechanism.summand.size,)}
        if self.plays == "scores":
            return {"scores": (learner.plan.tuning.candidates,)}
        if self.plays == "queries":
            return {"excesses": ()}
        if self.plays == "intervals":
            return {"records": interval_shape(learner)}
        if self.plays == "ranges":
            return {"records": (learner.plan.mechanism.counts.summand.size,)}
        d = learner.domain.dimension
        if isinstance(learner.loss, CustomLoss):
            raise TypeError("a custom loss has no records to replace")
        if isinstance(learner.loss, QuadraticLoss):
            return {"matrices": (d, d), "vectors": (d,)}
        return {"features": (d,), "labels": ()} if learner.loss.glm else {"gradients": (d,)}

    def rounds(self, stream: Any) -> Rounds:
        """Return the stream, checked; raise ``ValueError`` or ``TypeError`` naming what is bad."""
        parts, shapes = split_parts(stream), self.shapes()
        if len(parts) != len(shapes):
            names = " and ".join(shapes)
            wanted = f"one array of {names}" if len(shapes) == 1 else f"a pair of {names}"
            raise ValueError(f"stream must be {wanted}; got {len(parts)} part(s)")
        own = shapes if len(shapes) > 1 else ("stream",)
        pairs = zip(own, parts, shapes.values(), strict=True)
        return Rounds(tuple(float_array(name, part, (None, *shape)) for name, part, shape in pairs))

    # ---- rounds ----------------------------------------------------------------------------------

    def decide(self, learner: Any, record: tuple[Any, ...]) -> Any:
        """Return the decision of a round with that record; None of what answers to records."""
        if self.plays in VERBS or self.plays in ("intervals", "ranges"):
            return None
        if self.plays == "arms":
            return int(learner.decide(record[0]))
        decision = learner.decide()
        if self.plays == "surface":
            return int(np.all(learner.points == decision, axis=1).argmax())
        return int(decision) if isinstance(decision, np.integer) else decision

    def observe(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> Any:
        """Hand over the record, and return the answer, if there is one."""
        if self.plays in VERBS:
            answer = getattr(learner, VERBS[self.plays])(*record)
            return answer if self.plays == "sums" else int(answer)
        if self.plays == "intervals":
            return count_interval(learner, *record)
        learner.observe(*((record[1][decision],) if self.plays == "arms" else record))
        return None

    def step(self, learner: Any, record: tuple[Any, ...]) -> Any:
        """Play one round, and return its decision or answer in numbers."""
        decision = self.decide(learner, record)
        answer = self.observe(learner, decision, record)
        return answer if decision is None else decision


def finite(values: Any) -> FloatArray:
    """Return numbers with zeros for those that are not finite."""
    return np.where(np.isfinite(values), values, 0.0)
