"""Replay of the batch baselines: every release of a fit at the same points, on two data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco._validation import float_array
from dpoco.audit._replay_base import Change, Family, FloatArray, Play, Rounds, two_parts
from dpoco.frank_wolfe import NoisyFrankWolfe, NoisySGD
from dpoco.random import Source

__all__ = ["BatchFits", "releases_of"]

_POINTS = 6  # pairs of decisions that each release is taken at
_SEEDED_POINTS = 1  # of their generator


class BatchFits(Family):
    """NoisyFrankWolfe, NoisySGD, PhasedSGD and LocalizedMirrorDescent."""

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._releases: list[tuple[int, float, float | None, int, int]] = []
        self._at: list[tuple[FloatArray, FloatArray]] = []

    def rounds(self, stream: Any) -> Rounds:
        d = self.learner.domain.dimension
        features, labels = two_parts("features and labels", stream)
        rows = float_array("features", features, (None, d))
        rounds = Rounds((rows, float_array("labels", labels, (rows.shape[0],))))
        learner = self.learner
        if learner._parameters is None:
            learner._settle(learner._plan(len(rounds), learner._arguments["budget"]))
        if learner.parameters.records != len(rounds):
            raise ValueError(f"stream must have {learner.parameters.records} records")
        self._releases = list(releases_of(learner))
        self._at = list(_points(learner))
        return rounds

    def play(self, learner: Any, rounds: Rounds) -> Play:
        if learner._parameters is None:
            learner._settle(learner._plan(len(rounds), learner._arguments["budget"]))
        features, labels = rounds.parts
        engine, play = learner._engine(features, labels), Play()
        # A second one: what is asked of the first must not be read off while it works.
        probe = learner._engine(features, labels)
        play.variates.append(tuple(int(n) for n in engine.variates_drawn()))
        while engine.completed < engine.units:
            engine.advance(1)
            play.variates.append(tuple(int(n) for n in engine.variates_drawn()))
        play.published.append(None)
        noisy = sum(play.variates[-1]) > 0
        if learner.guarantee.private and not noisy:
            play.findings.append("the fit drew no noise")
        for k, *_ in self._releases:
            values = [np.array(probe.nonprivate_release(k, *pair)) for pair in self._at]
            play.note(values=values)
        play.note(model=np.array(engine.result()))
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        pairs = zip(base.notes["values"], other.notes["values"], strict=True)
        mu = self.learner.guarantee.mu
        for (k, declared, scale, first, last), (ours, theirs) in zip(
            self._releases, pairs, strict=True
        ):
            moved = max(float(np.linalg.norm(a - b)) for a, b in zip(ours, theirs, strict=True))
            own = first <= at < last
            # Release by release: a record of one of them may not act in another.
            name = f"release {k}" if own else "releases of other records"
            yield name, moved, declared if own else 0.0
            if own and scale is not None and mu is not None:
                yield "mu of the releases", moved / scale, mu

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        unused = not any(first <= at < last for *_, first, last in self._releases)
        if unused and not np.array_equal(base.notes["model"][0], other.notes["model"][0]):
            yield "a record that enters no release moved the model"


def releases_of(learner: Any) -> Iterator[tuple[int, float, float | None, int, int]]:
    """Yield number, sensitivity, noise and range of records of every release.

    The noise is None where its scale alone does not tell what is spent.
    """
    p, found = learner.parameters, learner.guarantee
    if isinstance(learner, NoisySGD):
        for record in range(p.records):  # one record's gradient, drawn or not
            yield record, found.sensitivity, None, record, record + 1
    elif isinstance(learner, NoisyFrankWolfe):
        yield 0, found.sensitivity, p.first_scale, 0, p.first_batch
        later = found.details["later sensitivity"]
        for k in range(1, p.steps):
            first = p.first_batch + (k - 1) * p.batch
            yield k, later, p.later_scale, first, first + p.batch
    else:
        first = 0
        for k, row in enumerate(learner._settings()["phases"]):
            yield k, row[-1] / p.noise_multiplier, row[-1], first, first + row[0]
            first += row[0]


def _points(learner: Any) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield pairs (decision, earlier decision) that a fit could hold."""
    domain, tape = learner.domain, Source.seeded(_SEEDED_POINTS)
    for _ in range(_POINTS):
        draws = 8.0 * tape.uniform(2 * domain.dimension) - 4.0
        at = domain.project(draws[: domain.dimension])
        vertex = domain.minimize_linear(draws[domain.dimension :])
        if isinstance(learner, NoisyFrankWolfe):
            yield np.array(at + learner.parameters.step_size * (vertex - at)), np.array(at)
        else:
            yield np.array(vertex), np.array(at)
