"""Many independent runs of a learner or mechanism on one stream, compiled where it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import float_array
from dpoco.audit._streams import check_neighbours, parts_of, record_of, rounds_of, shapes_of
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import CustomLoss
from dpoco.mechanisms import AboveThreshold, ContinualSum, NoisyMax
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    CoupledRegularizedLeader,
    LipschitzLearner,
    NoisyFTRL,
)
from dpoco.random import Source

__all__ = ["LearnerRuns", "learner_runs"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Outcomes = NDArray[Any]

# Of what the compiled loop plays, by the name it goes by there.
_INTEGERS: dict[type, str] = {
    ExpertLearner: "experts",
    LipschitzLearner: "experts",
    LinUCB: "bandit",
    HighDimensionalBandit: "bandit",
    NoisyMax: "selections",
    AboveThreshold: "tests",
}
_VECTORS = (
    TreeFrankWolfe,
    PolyhedralFrankWolfe,
    NoisyFTRL,
    CoupledRegularizedLeader,
    ContinuousMultiplicativeWeights,
    ContinualSum,
)
_COUPLED = (CoupledRegularizedLeader, ContinuousMultiplicativeWeights)

# What a class derived from ours may have changed: then its own methods are played.
_METHODS = (
    "decide", "observe", "run", "last_decision", "select", "test", "push", "fit",
    "_decision", "_row", "_check_turn",
)  # fmt: skip

_LARGEST_OUTCOMES = 2**32  # bytes
_KEY_WORDS = 4


@dataclass(frozen=True)
class LearnerRuns:
    """A ``run`` for `black_box_audit` that plays a learner or a mechanism; see `learner_runs`."""

    make_learner: Callable[[Source], Any]
    directions: FloatArray | None = None
    last: bool = False
    hidden: tuple[int, ...] = ()

    def __call__(self, stream: Any, count: int, source: Source) -> Outcomes:
        learner = self._made(source)
        kind = compiled_kind(learner)
        if kind is None:
            outcomes = self._played(learner, stream, count, source)
        else:
            outcomes = self._compiled(learner, kind, stream, count, source)
        return np.delete(outcomes, self.hidden, axis=1) if self.hidden else outcomes

    def paired(self, stream: Any, neighbour: Any) -> LearnerRuns:
        """Return the run for these two streams, or raise ``ValueError`` if they are no neighbours.

        Under joint privacy the outcome leaves out what only the changed round's user sees.
        """
        learner = self._made(Source.seeded(0))
        at = check_neighbours(learner, stream, neighbour, last=self.last)
        if isinstance(learner, (LinUCB, HighDimensionalBandit)):
            return replace(self, hidden=at)
        return self

    def _made(self, source: Source) -> Any:
        streams = source._next_stream
        learner = self.make_learner(source)
        if getattr(learner, "round", 0) != 0 or getattr(learner, "_fitted", False):
            raise ValueError("make_learner must return learners that have not played yet")
        claims = source._next_stream != streams
        # A fit claims later, and is played in Python.
        waits = hasattr(learner, "fit") and getattr(learner, "_source", None) is source
        if hasattr(learner, "_arguments") and not (claims or waits):
            raise ValueError("make_learner must give the learner the source it is called with")
        return learner

    # ---- in compiled code -----------------------------------------------------------------------

    def _compiled(
        self, learner: Any, kind: str, stream: Any, count: int, source: Source
    ) -> Outcomes:
        first, second = _arrays(learner, kind, stream)
        rounds = len(first)
        if rounds < 1:
            raise ValueError("stream must have at least one round")

        def build(key: bytes) -> Any:
            return learner._build_engine({"key": key, "stream": 1})

        if kind in _INTEGERS.values():
            if self.directions is not None or self.last:
                raise ValueError("directions and last are for decisions that are vectors")
            decisions = np.empty((_counted(count, rounds), rounds), dtype=np.int64)
            keys = source.words(_KEY_WORDS * count)
            _core.repeat_decisions(kind, build, keys, first, second, decisions)
            return decisions
        d = learner.parameters.dimension if kind == "ContinualSum" else learner.domain.dimension
        marks = isinstance(learner, _COUPLED) and not self.last and self.directions is None
        width = d if self.last else self._width(rounds * d)
        width += rounds if marks else 0
        out = np.empty((_counted(count, width), width))
        keys = source.words(_KEY_WORDS * count)
        _core.repeat_vectors(
            kind, build, keys, first, second, rounds, self.directions, self.last, marks, out
        )
        return out

    def _width(self, entries: int) -> int:
        if self.directions is None:
            return entries
        if self.directions.shape[1] != entries:
            raise ValueError(
                f"directions must have {entries} columns, all decisions one after another; "
                f"got {self.directions.shape[1]}"
            )
        return len(self.directions)

    # ---- in Python ------------------------------------------------------------------------------

    def _played(self, learner: Any, stream: Any, count: int, source: Source) -> Outcomes:
        rows: list[NDArray[Any]] = []
        for run in range(count):
            player = learner if run == 0 else self._made(source)
            transcript = np.asarray(list(_play(player, stream, self.last)))
            if transcript.dtype.kind not in "iufb":
                raise TypeError("decisions must be numbers or arrays of numbers")
            rows.append(transcript.reshape(-1))
        outcomes = np.stack(rows)
        if self.directions is not None:
            self._width(outcomes.shape[1])
            return outcomes @ self.directions.T
        return outcomes if outcomes.dtype.kind == "f" else outcomes.astype(np.int64)


def learner_runs(
    make_learner: Callable[[Source], Any], *, directions: Any = None, last: bool = False
) -> LearnerRuns:
    """Return a `run` for `black_box_audit` that plays a learner or a mechanism.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``: an unstarted learner or mechanism on that source, always the same
        one. Anything with ``decide()`` and ``observe(record)`` will do; learners and mechanisms of
        this library run in compiled code.
    directions : array_like of shape (k, T d), optional
        For decisions that are vectors: the outcome is the inner products of all T decisions, one
        after another, with these. Keyword-only, as the next.
    last : bool, default False
        For decisions that are vectors: the outcome is the one after the last round.

    Returns
    -------
    callable
        ``run(stream, count, source)``; streams are fixed beforehand, as for `replay_audit`. Its
        outcomes: decisions that are integers (of a `LipschitzLearner` the index among its
        `points`), shape (count, T); those that are vectors, shape (count, T d), for coupled
        learners with T more entries that are 1 where a round drew afresh; or what `directions` and
        `last` say. Of a mechanism: its answers (alarms as 1, silence as 0, and -1 after the last
        alarm) or sums; of a batch learner the fitted vector.
        Its ``paired(stream, neighbour)``, which `black_box_audit` calls, refuses streams that are
        no neighbours, and leaves out what only the user of the changed round of a bandit sees.

    Raises
    ------
    ValueError, TypeError
        When run: for a learner that has played, one that does not use the source it is given, or a
        stream of another shape.

    Notes
    -----
    The learner is made once for all runs, and calibrated once; every run has an engine with a key
    of its own, built by the learner's own method, or restored to its round 0 under the next key
    where that is checked to be the same. The interpreter lock is released, and interrupts are
    served between runs. A class derived from ours with methods of its own, a learner on custom
    losses and one with ``on_violation="raise"`` are played round by round in Python.
    """
    matrix = None if directions is None else float_array("directions", directions, (None, None))
    if matrix is not None and last:
        raise ValueError("directions are for all decisions: they exclude last=True")
    return LearnerRuns(make_learner, matrix, bool(last))


def compiled_kind(learner: Any) -> str | None:
    """Return the name of the compiled loop that plays a learner as it is, if there is one."""
    own = vars(learner) if hasattr(learner, "__dict__") else {}
    for name in _METHODS:
        method = getattr(type(learner), name, None)
        method = getattr(method, "fget", method)
        if name in own or not getattr(method, "__module__", "dpoco.").startswith("dpoco."):
            return None
    if getattr(learner, "_raises", False) or isinstance(getattr(learner, "loss", None), CustomLoss):
        return None
    if type(getattr(learner, "_engine", None)).__module__ != _core.__name__:
        return None
    for kind, name in _INTEGERS.items():
        if isinstance(learner, kind):
            return name
    return next((kind.__name__ for kind in _VECTORS if isinstance(learner, kind)), None)


def _counted(count: int, width: int) -> int:
    if count * width * 8 > _LARGEST_OUTCOMES:
        raise ValueError("outcomes need more than 4 GiB: give directions, or play fewer runs")
    return count


def _arrays(learner: Any, kind: str, stream: Any) -> tuple[FloatArray, FloatArray | None]:
    """Return the stream as the compiled loop takes it, checked."""
    parts = parts_of(stream)
    wanted = [(None, *shape) for shape in shapes_of(learner)]
    if len(parts) != len(wanted):
        raise ValueError(f"stream must have {len(wanted)} part(s); got {len(parts)}")
    arrays = [float_array("stream", part, shape) for part, shape in zip(parts, wanted, strict=True)]
    if any(len(array) != len(arrays[0]) for array in arrays):
        raise ValueError("stream must have parts of one length")
    if kind == "tests":  # what the mechanism compares with zero
        finite = np.where(np.isfinite(arrays[0]), arrays[0], 0.0)
        arrays[0] = finite - learner.parameters.margin
    return arrays[0], arrays[1] if len(arrays) > 1 else None


def _play(learner: Any, stream: Any, last: bool) -> Iterator[Any]:
    """Yield what a learner publishes, round by round."""
    if hasattr(learner, "fit"):
        yield np.array(learner.fit(*parts_of(stream)).theta)
        return
    parts, rounds = parts_of(stream), rounds_of(stream)
    if isinstance(learner, (NoisyMax, AboveThreshold, ContinualSum)):
        yield from _answers(learner, parts[0], last)
        return
    bandit = isinstance(learner, (LinUCB, HighDimensionalBandit))
    points = learner.points if isinstance(learner, LipschitzLearner) else None
    for t in range(rounds):
        record = record_of(parts, t)
        decision = learner.decide(record[0]) if bandit else learner.decide()
        if not last:
            found = decision if points is None else np.all(points == decision, axis=1).argmax()
            yield np.array(found)
        # What comes after the last round is played by nobody, but published by some.
        if last or t + 1 < rounds:
            learner.observe(*((record[1][decision],) if bandit else record))
    if last:
        yield np.array(learner.last_decision)


def _answers(learner: Any, stream: Any, last: bool) -> Iterator[Any]:
    for t, query in enumerate(stream):
        if isinstance(learner, NoisyMax):
            yield learner.select(query)
        elif isinstance(learner, AboveThreshold):
            yield int(learner.test(float(query))) if learner.alarms_left > 0 else -1
        else:
            released = learner.push(query)
            if not last or t + 1 == len(stream):
                yield released
