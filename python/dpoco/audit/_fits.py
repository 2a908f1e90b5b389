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
from dpoco.audit._family import Change, Family, FloatArray, Play, Rounds, Shapes
from dpoco.audit._scorer import Scorer, Scores
from dpoco.audit._sums import record_shapes
from dpoco.frank_wolfe import LocalizedMirrorDescent, NoisyFrankWolfe, NoisySGD, PhasedSGD
from dpoco.privacy.mechanisms.batch_fits import SampledGaussian
from dpoco.random import Source


class Release(NamedTuple):
    """What a fit releases; the noise is None where its scale alone does not tell what is spent."""

    number: int
    declared: float
    noise: float | None
    grid: float
    first: int  # of its records
    last: int

    def __contains__(self, record: object) -> bool:
        return isinstance(record, int) and self.first <= record < self.last


_POINTS = 6  # pairs of decisions that each release is taken at
_SEEDED_POINTS = 1  # of their generator
_GAUSSIAN = 2  # kind of a compiled source's variates
_GRID_BITS = 13


class BatchFits(Family):
    """NoisyFrankWolfe, NoisySGD, PhasedSGD and LocalizedMirrorDescent."""

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
            if release.noise is not None and mu is not None:
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
                yield Release(record, m.movement, None, m.grid, record, record + 1)
            return
        number = first = 0
        for phase in (each for each in m.phases for _ in range(each.copies)):
            declared = phase.mu(m.dimension) / math.sqrt(phase.releases) * phase.scale
            last = first + phase.records
            yield Release(number, declared, phase.scale, phase.grid, first, last)
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


class _Tape:
    """The draws of one fit."""

    def __init__(self, claim: dict[str, Any]) -> None:
        self._engine = _core.Source(claim["key"], claim["stream"])

    def release(
        self, mean: FloatArray, scale: float, lattice: float = 0.0, count: int = 1
    ) -> FloatArray:
        """Return a mean with noise, on the grid of additive releases, in integers or doubles."""
        noise = np.empty(len(mean))
        if lattice > 0.0:  # the sum is what is released
            step = 2.0 ** (np.frexp(scale * count)[1] - _GRID_BITS)
            _core.fill_rounded_gaussian(self._engine, scale * count / lattice, noise)
            exact = (np.rint(count * mean / lattice) + noise) * lattice
            summed: FloatArray = step * np.rint(exact / step) / count
            return summed
        self._engine.fill(_GAUSSIAN, noise)
        grid = 2.0 ** (np.frexp(scale)[1] - _GRID_BITS)
        released: FloatArray = grid * np.rint((mean + scale * noise) / grid)
        return released

    def index(self, records: int) -> int:
        """Return a uniform index; words that would favour low ones do not occur."""
        return int(self._engine.words(1)[0]) % records


class FitReleases(Scorer):
    """NoisyFrankWolfe, NoisySGD, PhasedSGD and LocalizedMirrorDescent."""

    family: BatchFits

    def __init__(self, family: BatchFits, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        learner = self.learner
        self._releases = list(family.releases())
        # What is asked of an engine that never runs: releases at given points.
        self._probes = [learner._engine(*each.parts) for each in self.streams]

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        engine = learner._engine(*self.streams[world].parts)
        engine.advance(engine.units)
        model = np.array(engine.result())
        draws = _Tape(tape._claim())
        if isinstance(learner, NoisySGD):
            walk = self._steps
        else:
            walk = self._mirror if isinstance(learner, LocalizedMirrorDescent) else self._chain
        expected, loss, residuals = walk(draws, world)
        size = 1.0 + float(np.abs(model).max())
        stray = not float(np.abs(model - expected).max()) <= 1e-7 * size
        return loss, residuals, stray

    def score(self, runs: list[Any], world: int) -> Scores:
        from scipy.special import ndtr

        losses = np.array([loss for loss, _, _ in runs])
        stray = any(each for _, _, each in runs)
        findings = ("the model does not follow from the declared releases",) if stray else ()
        residuals = np.array([each for _, each, _ in runs])
        if isinstance(self.learner, NoisySGD):  # already uniform
            return Scores(losses, residuals, findings)
        return Scores(losses, ndtr(residuals), findings)

    def _chain(self, tape: _Tape, world: int) -> tuple[FloatArray, float, FloatArray]:
        """Return the model, the privacy loss and the noise of releases on disjoint batches."""
        learner, p = self.learner, self.learner.parameters
        domain, theta = learner.domain, np.array(learner._start)
        previous, direction = theta.copy(), np.zeros_like(theta)
        loss, residuals = 0.0, []
        for release in self._releases:
            released, change, noise = self._released(tape, world, release, theta, previous)
            loss += change
            residuals.append(noise)
            if isinstance(learner, NoisyFrankWolfe):
                direction = direction + released
                vertex = domain.minimize_linear(direction)
                previous, theta = theta, theta + p.step_size * (vertex - theta)
            else:
                theta = np.array(domain.project(released))
        return theta, loss, np.array(residuals)

    def _released(
        self, tape: _Tape, world: int, release: Release, at: FloatArray, previous: FloatArray
    ) -> tuple[FloatArray, float, FloatArray]:
        """Return a release at two decisions, its privacy loss and its noise in scales."""
        own, other = (
            np.array(self._probes[w].nonprivate_release(release.number, at, previous))
            for w in (world, 1 - world)
        )
        scale = release.noise
        assert scale is not None  # of noisy SGD alone
        count = 1 if isinstance(self.learner, PhasedSGD) else release.last - release.first
        released = tape.release(own, scale, release.grid, count)
        ours, theirs = (released - own) / scale, (released - other) / scale
        return released, float(0.5 * ((theirs - ours) * (theirs + ours)).sum()), ours

    def _mirror(self, tape: _Tape, world: int) -> tuple[FloatArray, float, FloatArray]:
        """Return the same of a phase's gradients at every mirror step, solved in the dual."""
        learner = self.learner
        norm, q = learner.domain.p, learner.domain.dual_exponent
        anchor, steps = np.array(learner._start), learner.parameters.steps
        loss, residuals = 0.0, []
        for release, (_, strength, radius, _) in zip(
            self._releases, learner._settings()["phases"], strict=True
        ):
            theta, dual, mean = anchor, np.zeros_like(anchor), np.zeros_like(anchor)
            for t in range(1, steps + 1):
                released, change, noise = self._released(tape, world, release, theta, theta)
                loss += change
                residuals.append(noise)
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
        return anchor, loss, np.array(residuals)

    def _steps(self, tape: _Tape, world: int) -> tuple[FloatArray, float, FloatArray]:
        """Return the same of gradients of records that are drawn in secret: mixtures.

        The last of the three is uniform on [0, 1]: the place of the first entry in its mixture.
        """
        from scipy.special import logsumexp, ndtr

        learner, p = self.learner, self.learner.parameters
        domain, theta = learner.domain, np.array(learner._start)
        total, loss, places = np.zeros_like(theta), 0.0, []
        for _ in range(p.steps):
            own, other = (
                np.array([probe.nonprivate_release(i, theta, theta) for i in range(p.records)])
                for probe in (self._probes[world], self._probes[1 - world])
            )
            record = own[tape.index(p.records)]
            released = tape.release(record, p.noise_scale, self._releases[0].grid)
            logs = [
                float(logsumexp(-0.5 * (((released - each) / p.noise_scale) ** 2).sum(axis=1)))
                for each in (own, other)
            ]
            loss += logs[0] - logs[1]
            places.append([float(ndtr((released[0] - own[:, 0]) / p.noise_scale).mean())])
            theta = np.array(domain.project(theta - p.step_size * released))
            total = total + theta
        model = np.array(domain.project(total / p.steps))
        return model, loss, np.array(places)
