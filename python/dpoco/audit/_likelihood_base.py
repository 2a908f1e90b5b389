"""The protocol of a likelihood audit: runs of a learner, and their exact likelihoods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._replay_base import Rounds
from dpoco.audit._replay_families import family_of
from dpoco.random import Source

__all__ = ["Scorer", "Scores", "spread"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Runs on one stream, scored.

    Attributes
    ----------
    losses : ndarray, shape (trials,)
        Privacy losses: log-likelihood under their own stream less that under the other.
    uniforms : ndarray, shape (trials, steps) or (trials, steps, entries)
        What is uniform on [0, 1] and independent if the noise has its declared law; in the order of
        the releases.
    findings : tuple of str
        Violations that single runs show.
    """

    losses: FloatArray
    uniforms: FloatArray
    findings: tuple[str, ...] = ()


class Scorer(ABC):
    """What the audit asks of a family of learners whose law is known.

    A subclass raises ``ValueError`` from its constructor where the law is not known after all.
    """

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        self.learner = learner
        family = family_of(learner)
        self.streams: tuple[Rounds, Rounds] = family.rounds(stream), family.rounds(neighbour)
        ours, theirs = self.streams
        if len(ours) != len(theirs):
            raise ValueError("no neighbours: the streams have different numbers of rounds")
        if not 1 <= len(ours) <= getattr(learner, "horizon", len(ours)):
            raise ValueError("stream must have at least one round and at most the horizon's")
        apart = [t for t in range(len(ours)) if _differ(ours.record(t), theirs.record(t))]
        if not apart:
            raise ValueError("no neighbours: the streams are equal")
        if len(apart) > 1 and not self.everywhere:
            raise ValueError(f"no neighbours: the streams differ in {len(apart)} rounds")
        for t in apart:
            family.check_neighbours(ours.record(t), theirs.record(t))

    everywhere = False  # whether neighbours may differ in all rounds: one record, many queries

    @abstractmethod
    def run(self, learner: Any, world: int, tape: Source) -> Any:
        """Play a fresh learner on stream `world`; `tape` is a copy of the source it was given."""

    @abstractmethod
    def score(self, runs: list[Any], world: int) -> Scores:
        """Return the likelihoods of all runs on one stream."""


def _differ(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    return not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ours, theirs, strict=True))


def spread(chances: FloatArray, chosen: NDArray[np.int64], jitter: FloatArray) -> FloatArray:
    """Return uniforms for draws from finite laws: the drawn cell's place, by a uniform within it.

    Parameters
    ----------
    chances : ndarray, shape (n, values)
        Laws, one a row.
    chosen, jitter : ndarray, shape (n,)
        What was drawn, and uniforms of one's own.
    """
    rows = np.arange(len(chosen))
    upper = np.cumsum(chances, axis=1)[rows, chosen]
    values: FloatArray = np.clip(upper - jitter * chances[rows, chosen], 0.0, 1.0)
    return values
