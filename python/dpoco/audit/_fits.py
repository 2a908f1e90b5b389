"""The batch baselines: releases of fits at given points, and likelihoods of chains of them.

A fit shows its model only. Its noise is drawn once more from a copy of the tape, the releases and
the decisions between them are computed with it from their definitions, and the model must be the
fit's; then every release is scored given those before it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray
from dpoco.audit._family import Change, Family, Play, Rounds, Scorer, Scores, Shapes
from dpoco.audit._sums import record_shapes
from dpoco.frank_wolfe import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    SufficientStatistics,
)
from dpoco.privacy.mechanisms.batch_fits import SampledGaussian
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source


class Release(NamedTuple):
    """What a fit releases: of one of the records, drawn in `secret`, or of some that are known."""

    number: int
    declared: float
    noise: float
    grid: float
    first: int  # of its records
    last: int
    averaged: int = 1  # records that it is a mean of
    secret: bool = False

    def __contains__(self, record: object) -> bool:
        return isinstance(record, int) and self.first <= record < self.last


_POINTS = 6  # pairs of decisions that each release is taken at
_SEEDED_POINTS = 1  # of their generator
_GAUSSIAN = 2  # kind of a compiled source's variates
_GRID_BITS = 13


class BatchFits(Family):
    """NoisyFrankWolfe, NoisySGD, PhasedSGD, LocalizedMirrorDescent and SufficientStatistics."""

    relation = "replace"

    def shapes(self) -> Shapes:
        return record_shapes(self.learner)

    def rounds(self, stream: Any) -> Rounds:
        rounds = super().rounds(stream)
        _settle(self.learner, len(rounds))
        if self.learner.parameters.records != len(rounds):
            raise ValueError(f"stream must have {self.learner.parameters.records} records")
        return rounds

    def play(self, learner: Any, rounds: Rounds) -> Play:
        _settle(learner, len(rounds))
        engine = learner._engine(*rounds.parts)
        # A second one: what is asked of the first must not be read off while it works.
        probe = learner._engine(*rounds.parts)
        play = Play(published=[None], variates=[tuple(engine.variates_drawn())])
        while engine.completed < engine.units:
            engine.advance(1)
            play.variates.append(tuple(engine.variates_drawn()))
        if learner.guarantee.private and sum(play.variates[-1]) == 0:
            play.findings.append("the fit drew no noise")
        points = list(self._points())
        for release in self.releases():
            ask = functools.partial(probe.nonprivate_release, release.number)
            play.note(values=[np.array(ask(*pair)) for pair in points])
        play.note(model=np.array(engine.result()))
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        mu = self.learner.guarantee.mu
        values = base.notes["values"], other.notes["values"]
        for release, ours, theirs in zip(self.releases(), *values, strict=True):
            moved = max(float(np.linalg.norm(a - b)) for a, b in zip(ours, theirs, strict=True))
            if at not in release:  # a record of one release may not act in another
                yield "releases of other records", moved, 0.0
                continue
            yield f"release {release.number}", moved, release.declared
            if mu is not None and not release.secret:
                yield "mu of the releases", moved / release.noise, mu

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        unused = not any(at in release for release in self.releases())
        if unused and not np.array_equal(base.notes["model"][0], other.notes["model"][0]):
            yield "a record that enters no release moved the model"

    def releases(self) -> Iterator[Release]:
        """Yield all releases, as the description states them."""
        m = self.learner._mechanism
        if isinstance(m, SampledGaussian):  # one record's gradient, drawn or not
            for record in range(m.records):
                yield Release(record, m.movement, m.scale, m.grid, record, record + 1, secret=True)
            return
        if isinstance(m, GaussianSum):
            yield Release(0, m.reach(Neighbours()), m.scale, m.grid, 0, m.batch)
            return
        number = first = 0
        for phase in (each for each in m.phases for _ in range(each.copies)):
            declared = phase.mu(m.dimension) / math.sqrt(phase.releases) * phase.scale
            last = first + phase.records
            count = 1 if isinstance(self.learner, PhasedSGD) else phase.records
            yield Release(number, declared, phase.scale, phase.grid, first, last, count)
            number, first = number + 1, last

    def _points(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield pairs (decision, earlier decision) that a fit could hold."""
        learner, domain, tape = self.learner, self.learner.domain, Source.seeded(_SEEDED_POINTS)
        for _ in range(_POINTS):
            draws = 8.0 * tape.uniform(2 * domain.dimension) - 4.0
            at = domain.project(draws[: domain.dimension])
            vertex = domain.minimize_linear(draws[domain.dimension :])
            if isinstance(learner, NoisyFrankWolfe):
                yield np.array(at + learner.parameters.step_size * (vertex - at)), np.array(at)
            else:
                yield np.array(vertex), np.array(at)


def _settle(learner: Any, records: int) -> None:
    """Calibrate a learner that waits for the number of records."""
    if learner._parameters is None:
        learner._settle(learner._plan(records, learner._arguments["budget"]))


# ---- likelihoods ---------------------------------------------------------------------------------


class _Game:
    """One fit played again: its draws, what its releases lost, and their places in their laws.

    `own` and `other` are engines that never run, which are asked for releases at given points.
    """

    def __init__(self, claim: _core.Claim, own: Any, other: Any) -> None:
        self._source = _core.Source(claim["key"], claim["stream"])
        self._engines = own, other
        self.loss, self.places = 0.0, list[FloatArray]()

    def released(self, among: list[Release], at: FloatArray, previous: FloatArray) -> FloatArray:
        """Return a release at two decisions; of several, one that is drawn in secret: a mixture."""
        from scipy.special import logsumexp, ndtr

        own, other = (
            np.array([engine.nonprivate_release(each.number, at, previous) for each in among])
            for engine in self._engines
        )
        first, drawn = among[0], 0
        if first.secret:  # words that would favour low ones do not occur
            drawn = int(self._source.words(1)[0]) % len(among)
        found = self._noisy(own[drawn], first)
        away = [(found - means) / first.noise for means in (own, other)]
        ours, theirs = (logsumexp(-0.5 * (each**2).sum(axis=1)) for each in away)
        self.loss += float(ours - theirs)
        places = ndtr(away[0]).mean(axis=0)
        self.places.append(places[:1] if first.secret else places)
        return found

    def _noisy(self, mean: FloatArray, release: Release) -> FloatArray:
        """Return a mean with noise, on the grid of additive releases, in integers or doubles."""
        noise, scale, count = np.empty(len(mean)), release.noise, release.averaged
        if release.grid > 0.0:  # the sum is what is released
            step = 2.0 ** (np.frexp(scale * count)[1] - _GRID_BITS)
            _core.fill_rounded_gaussian(self._source, scale * count / release.grid, noise)
            exact = (np.rint(count * mean / release.grid) + noise) * release.grid
            summed: FloatArray = step * np.rint(exact / step) / count
            return summed
        self._source.fill(_GAUSSIAN, noise)
        step = 2.0 ** (np.frexp(scale)[1] - _GRID_BITS)
        released: FloatArray = step * np.rint((mean + scale * noise) / step)
        return released


class FitReleases(Scorer):
    """NoisyFrankWolfe, NoisySGD, PhasedSGD, LocalizedMirrorDescent and SufficientStatistics."""

    family: BatchFits

    def __init__(self, family: BatchFits, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        learner = self.learner
        self._releases = list(family.releases())
        self._probes = [learner._engine(*each.parts) for each in self.streams]

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        engine = learner._engine(*self.streams[world].parts)
        engine.advance(engine.units)
        model = np.array(engine.result())
        game = _Game(tape._claim(), self._probes[world], self._probes[1 - world])
        if isinstance(learner, NoisySGD):
            expected = self._steps(game)
        else:
            mirrored = isinstance(learner, LocalizedMirrorDescent)
            expected = self._mirror(game) if mirrored else self._chain(game)
        size = 1.0 + float(np.abs(model).max())
        stray = not float(np.abs(model - expected).max()) <= 1e-7 * size
        return game.loss, np.array(game.places), stray

    def score(self, runs: list[Any], world: int) -> Scores:
        losses, places, stray = zip(*runs, strict=True)
        findings = ("the model does not follow from the declared releases",) if any(stray) else ()
        return Scores(np.array(losses), np.array(places), findings)

    def _chain(self, game: _Game) -> FloatArray:
        """Return the model of releases on disjoint batches."""
        learner, theta = self.learner, np.array(self.learner._start)
        previous, direction = theta.copy(), np.zeros_like(theta)
        for release in self._releases:
            released = game.released([release], theta, previous)
            if isinstance(learner, SufficientStatistics):
                theta = released
            elif isinstance(learner, NoisyFrankWolfe):
                direction = direction + released
                vertex = learner.domain.minimize_linear(direction)
                step = learner.parameters.step_size
                previous, theta = theta, theta + step * (vertex - theta)
            else:
                theta = np.array(learner.domain.project(released))
        return theta

    def _mirror(self, game: _Game) -> FloatArray:
        """Return the model of a phase's gradients at every mirror step, solved in the dual."""
        learner = self.learner
        norm, q = learner.domain.p, learner.domain.dual_exponent
        anchor, steps = np.array(learner._start), learner.parameters.steps
        for release, (_, strength, radius, _) in zip(
            self._releases, learner._settings()["phases"], strict=True
        ):
            theta, dual, mean = anchor, np.zeros_like(anchor), np.zeros_like(anchor)
            for t in range(1, steps + 1):
                released = game.released([release], theta, theta)
                size = 2.0 / (strength * (t + 1))
                dual = (dual - size * released) / (1.0 + size * strength)
                length = float(np.linalg.norm(dual, ord=q))
                if length > 0.0:
                    dual = dual * min(1.0, radius / ((norm - 1.0) * length))
                    length = float(np.linalg.norm(dual, ord=q))
                    power = np.sign(dual) * (np.abs(dual) / length) ** (q - 1.0)
                    theta = anchor + (norm - 1.0) * length * power
                else:
                    theta = anchor
                mean = mean + 2.0 * t / (steps * (steps + 1.0)) * theta
            reach = float(np.linalg.norm(mean, ord=norm))
            anchor = mean * min(1.0, learner.domain.radius / reach) if reach > 0.0 else mean
        return anchor

    def _steps(self, game: _Game) -> FloatArray:
        """Return the mean of steps along gradients of records that are drawn in secret."""
        p, domain, theta = self.learner.parameters, self.learner.domain, self.learner._start
        total = np.zeros_like(theta)
        for _ in range(p.steps):
            released = game.released(self._releases, theta, theta)
            theta = np.array(domain.project(theta - p.step_size * released))
            total = total + theta
        return np.array(domain.project(total / p.steps))
