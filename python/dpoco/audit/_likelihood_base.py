"""The protocol of a likelihood audit: runs of a learner, and their exact likelihoods."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._replay_base import Rounds
from dpoco.random import Source

__all__ = ["Scorer", "Scores", "draws_of", "log_odds", "spread"]

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
    draws : dict of str to ndarray, shape (trials, draws)
        What is uniform and independent if decisions are drawn by their law given what is released;
        under the name of the order of decisions that it was computed in. Empty where decisions are
        scored themselves, or are functions of the releases.
    """

    losses: FloatArray
    uniforms: FloatArray
    findings: tuple[str, ...] = ()
    draws: dict[str, FloatArray] = field(default_factory=dict)


class Scorer(ABC):
    """What the audit asks of a family of learners whose law is known.

    A subclass raises ``ValueError`` from its constructor where the law is not known after all.
    """

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        from dpoco.audit._families import family_of  # which knows all scorers

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


def log_odds(own: float, other: float) -> float:
    """Return ln(own / other); infinite if one of the two laws cannot give what was drawn."""
    return math.log(own / other) if own > 0.0 and other > 0.0 else math.inf


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


def draws_of(
    chances: FloatArray, chosen: NDArray[np.int64], exact: FloatArray, world: int
) -> dict[str, FloatArray]:
    """Return uniforms for decisions drawn by released weights, in two orders of the decisions.

    By their weights, so that decisions that do not heed the weights are seen; and by what is not
    released, so that those that heed this are.

    Parameters
    ----------
    chances : ndarray, shape (trials, draws, N)
        Laws of the decisions.
    chosen : ndarray of int, shape (trials, draws)
    exact : ndarray, shape (trials, draws, N) or (draws, N)
        Scores without noise, the best least; they may depend on what was released before.
    world : int
        Of the runs; picks the uniforms that spread the draws.
    """
    n = chances.shape[-1]
    laws, picked = chances.reshape(-1, n), chosen.ravel()
    scores = np.broadcast_to(exact, chances.shape).reshape(-1, n)
    out = {}
    for k, (name, keys) in enumerate((("their weights", -laws), ("the exact losses", scores))):
        order = np.argsort(keys, axis=1, kind="stable")
        place = np.argmax(order == picked[:, None], axis=1)
        jitter = Source.seeded(2 + 2 * k + world).uniform(len(picked))
        ordered = np.take_along_axis(laws, order, axis=1)
        out[name] = spread(ordered, place, jitter).reshape(chosen.shape)
    return out
