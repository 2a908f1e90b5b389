"""Streams of learners: the shapes of records, rounds, and whether two streams are neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpoco.audit._replay_base import parts_of
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.losses import QuadraticLoss
from dpoco.mechanisms import AboveThreshold, ContinualSum, NoisyMax
from dpoco.oco import LipschitzLearner

__all__ = ["check_neighbours", "parts_of", "record_of", "rounds_of", "shapes_of"]


def shapes_of(learner: Any) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the parts of a record; of a bandit, the context and all arms' rewards.

    Of what has no shape of its own, such as a custom loss, nothing is known: ``TypeError``.
    """
    if isinstance(learner, (LinUCB, HighDimensionalBandit)):
        return (learner.dimension,), (learner.arms,)
    if isinstance(learner, (ExpertLearner, LipschitzLearner)):
        return ((learner._engine.experts,),)
    if isinstance(learner, NoisyMax):
        return ((learner.parameters.candidates,),)
    if isinstance(learner, AboveThreshold):
        return ((),)
    if isinstance(learner, ContinualSum):
        return ((learner.parameters.dimension,),)
    if not hasattr(learner, "loss"):
        raise TypeError(f"the records of a {type(learner).__name__} are not known")
    d = learner.domain.dimension
    if isinstance(learner.loss, QuadraticLoss):
        return (d, d), (d,)
    return ((d,), ()) if learner.loss.glm else ((d,),)


def rounds_of(stream: Any) -> int:
    """Return the number of rounds of a stream, or raise if its parts do not agree."""
    lengths = {len(part) for part in parts_of(stream)}
    if len(lengths) != 1:
        raise ValueError("stream must have parts of one length")
    return lengths.pop()


def record_of(parts: tuple[Any, ...], t: int) -> tuple[Any, ...]:
    """Return the record of round t, counted from 0."""
    return tuple(part[t] for part in parts)


def check_neighbours(learner: Any, stream: Any, neighbour: Any, *, last: bool) -> tuple[int, ...]:
    """Return the rounds in which two streams differ, or raise ``ValueError`` saying what is wrong.

    `last`: whether the outcome is the decision after the last round.
    """
    ours, theirs = parts_of(stream), parts_of(neighbour)
    rounds = rounds_of(stream)
    if len(ours) != len(theirs) or rounds != rounds_of(neighbour):
        raise ValueError("no neighbours: the streams have different lengths or parts")
    differ = tuple(t for t in range(rounds) if not _same(record_of(ours, t), record_of(theirs, t)))
    if not differ:
        raise ValueError("no neighbours: the streams are equal, so that nothing could show")
    if isinstance(learner, (NoisyMax, AboveThreshold)):
        # All queries are about the same data: one record may move each of them.
        _check_promise(learner, np.asarray(ours[0], float), np.asarray(theirs[0], float))
        return differ
    if len(differ) > 1:
        raise ValueError(
            f"no neighbours: the streams differ in {len(differ)} rounds, and at most one round may"
        )
    (at,) = differ
    if getattr(getattr(learner, "parameters", None), "relation", "replace") == "zero_out" and not (
        _empty(record_of(ours, at)) or _empty(record_of(theirs, at))
    ):
        raise ValueError(
            "no neighbours under relation 'zero_out': one of the two records must be empty"
        )
    chooses = isinstance(learner, (ExpertLearner, LipschitzLearner))
    if chooses and at + 1 == rounds and not last:
        raise ValueError(
            "no neighbours that could be told apart: they differ in the last round only, which no "
            "decision of the stream comes after; append a round"
        )
    return differ


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(
        x is y or bool(np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind == "f"))
        for x, y in zip(a, b, strict=True)
    )


def _empty(record: tuple[Any, ...]) -> bool:
    """Whether a record counts as no data: all zero, or not finite."""
    first = np.asarray(record[0], float)
    return not np.any(first) or not all(
        np.all(np.isfinite(np.asarray(part, float))) for part in record
    )


def _check_promise(learner: NoisyMax | AboveThreshold, ours: Any, theirs: Any) -> None:
    ours, theirs = (np.where(np.isfinite(part), part, 0.0) for part in (ours, theirs))
    if ours.shape != theirs.shape:
        raise ValueError("no neighbours: the streams have different shapes")
    change = theirs - ours
    if not np.abs(change).max() <= learner.parameters.sensitivity * (1.0 + 1e-12):
        raise ValueError(
            "no neighbours: a query moves by more than `sensitivity`, which is the caller's promise"
        )
    if isinstance(learner, NoisyMax):
        both_ways = (change.max(axis=-1) > 0.0) & (change.min(axis=-1) < 0.0)
        if learner.parameters.one_directional and np.any(both_ways):
            raise ValueError("no neighbours: scores move in both directions")
    elif np.ptp(np.append(change, 0.0)) > learner.parameters.spread * (1.0 + 1e-12):
        raise ValueError(
            "no neighbours: queries move apart by more than `spread`, which is the caller's promise"
        )
