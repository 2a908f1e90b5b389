"""Likelihoods of what is released of running sums: the sums with noise, or vertices they select."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray
from dpoco.accounting.continual_sum import release_grid
from dpoco.accounting.linucb import find_confidence
from dpoco.audit._family import Scorer, Scores, place_draws, score_draws
from dpoco.audit._laws import selection_law
from dpoco.audit._sums import Records, Sums, noise_map, triangle, whitening_matrix
from dpoco.domains import Box, LpBall, Simplex
from dpoco.privacy.mechanisms.bounds import ClippedVector, GradientAndCurvature, SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.random import Source

SILENT = "a release has no noise at all"
_DRAWN = ("chances", "chosen", "exact")


def whiten(
    matrix: FloatArray, own: FloatArray, other: FloatArray, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return privacy losses, shape (trials,), of what releases have above the sums of two streams.

    And that of the own stream as independent standard normal variates; shapes (trials, pushes, d).
    """
    ours, theirs = (np.einsum("st,ntd->nsd", matrix, each) / scale for each in (own, other))
    losses: FloatArray = 0.5 * ((theirs - ours) * (theirs + ours)).sum(axis=(1, 2))
    return losses, ours


def sum_alone(total: GaussianSum, claim: _core.Claim) -> _core.ContinualSum:
    """Return a compiled sum with the noise of another one, for vectors that are not clipped."""
    far = total.limit * total.grid if total.grid > 0.0 else 1e12  # no push is longer
    vector = ClippedVector(total.summand.size, 2.0, 1e100, far)
    return _core.ContinualSum(replace(total, summand=vector, batch=1, growth=None), claim)


def sum_noise(family: Sums, dimension: int, count: int, claim: _core.Claim) -> FloatArray:
    """Return the noise of the first sums, drawn once more by a sum alone, shape (count, d).

    `claim` is a copy of what the learner's own sum was given of the tape.
    """
    twin = sum_alone(family.mechanism, claim)
    out = np.empty((count, dimension))
    twin.run(np.zeros((count, dimension)), out)
    return out


def pick_actions(
    learner: Any, records: list[tuple[Any, ...]], run: Run, forced_rounds: int
) -> list[int]:
    """Return the actions for contexts, given all that was released; begins the round of the first.

    Unless the schedule decides, as in the first rounds, whatever the context, the round's action
    must be the one that the estimates recommend.
    """
    contexts, forced = [context for context, _ in records], learner.round < forced_rounds
    advised = [int(arm) for arm in learner.recommend(np.array(contexts))]
    arm = int(learner.decide(contexts[0]))
    if not forced and arm != advised[0]:
        run.findings.append("an action is not the one that is recommended")
    return [arm, *(arm if forced else other for other in advised[1:])]


@dataclass
class Run:
    """One run: what releases have above the sums of the own and the other stream, and decisions."""

    gaps: dict[Any, tuple[list[FloatArray], list[FloatArray]]] = field(default_factory=dict)
    clocks: Counter[int] = field(default_factory=Counter)  # of arms
    choices: list[Any] = field(default_factory=list)  # laws given either sum, and what was drawn
    findings: list[str] = field(default_factory=list)
    chances: list[FloatArray] = field(default_factory=list)  # laws of decisions that are drawn
    chosen: list[int] = field(default_factory=list)  # and what was drawn
    exact: list[FloatArray] = field(default_factory=list)  # what would be known without noise
    released: list[FloatArray] = field(default_factory=list)  # of batches, each by itself


class Push(NamedTuple):
    """What is known when a sum, or an arm's part of it, is released."""

    part: Any  # index into sums and into what is shown
    number: int  # of its releases, from 1
    step: tuple[FloatArray, FloatArray]  # what the learner shows, before and after
    sums: list[FloatArray]  # of the own and the other stream
    answer: Any


class Pushes(Scorer):
    """Base of scorers of what is released of sums, given the sums of either stream."""

    family: Sums
    astray = ""

    def __init__(self, family: Sums, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        self._counts = self._releases()
        if not any(self._counts.values()):
            raise ValueError("stream must be long enough for a release")

    def _releases(self) -> dict[Any, int]:
        """Return how many releases the stream has, of every part."""
        most = getattr(self.family.mechanism, "pushes", 0)
        return {...: min(len(self.family.ends(len(self.streams[0]))), most)}

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        run, family, noise = Run(), self.family, self._noise(learner, tape)
        sums = [np.zeros_like(family.exact(learner)) for _ in (0, 1)]
        rounds = len(self.streams[0])
        if ... in self._counts:
            rounds = family.ends(rounds)[self._counts[...] - 1]
        for t in range(rounds):
            records = [self.streams[w].record(t) for w in (world, 1 - world)]
            decisions = self._decisions(learner, records, run)
            before = self._show(learner)
            for w in (0, 1):
                sums[w] = sums[w] + family.leaf(learner, decisions[w], records[w])
            answer = family.observe(learner, decisions[0], records[0])
            for part, number in self._due(t, decisions[0], run):
                step = before[part], self._show(learner)[part]
                push = Push(part, number, step, [each[part] for each in sums], answer)
                if not self._release(learner, run, push, noise):
                    run.findings.append(self.astray)
        self._finish(learner, run)
        return run

    def _noise(self, learner: Any, tape: Source) -> Any:
        """Return the noise of all releases, drawn again, where they do not show it themselves."""

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: Run) -> list[Any]:
        """Return the round's decision, and that for the other stream's record."""
        return [self.family.decide(learner, records[0])] * 2

    def _show(self, learner: Any) -> FloatArray:
        """Return what follows from the releases and is seen."""
        return np.array(getattr(learner, "last_decision", 0.0))

    def _due(self, t: int, decision: Any, run: Run) -> list[tuple[Any, int]]:
        """Return part and number of what is released at the end of round t."""
        ends = self.family.ends(t + 1)
        return [(..., len(ends))] if t + 1 in ends else []

    @abstractmethod
    def _release(self, learner: Any, run: Run, push: Push, noise: Any) -> bool:
        """Note a release; return whether what the learner shows follows from it."""

    def _finish(self, learner: Any, run: Run) -> None:
        """Look at the decision after the last release."""


class ReleasedSums(Pushes):
    """ContinualSum."""

    def __init__(self, family: Sums, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        m = family.mechanism
        if m.order != 2.0:
            raise ValueError("no density is known of sums with generalized Gaussian noise")
        self._scale, self._grid = m.scale, release_grid(m.scale) if m.scale > 0.0 else 0.0
        self._maps = {
            part: whitening_matrix(noise_map(m.factorisation, count))
            for part, count in self._counts.items()
            if count
        }

    def _release(self, learner: Any, run: Run, push: Push, noise: Any) -> bool:
        released = self._read_release(learner, push, noise)
        for path, total in zip(run.gaps.setdefault(push.part, ([], [])), push.sums, strict=True):
            path.append(released - total)
        return self._follows(learner, push, released)

    def _read_release(self, learner: Any, push: Push, noise: Any) -> FloatArray:
        """Return what was released."""
        return np.array(push.answer)

    def _follows(self, learner: Any, push: Push, released: FloatArray) -> bool:
        """Whether what the learner shows follows from what was released."""
        return True

    def _moves_to_best(self, push: Push, step_scale: float, released: FloatArray) -> bool:
        """Whether a decision moved to a vertex that the released sum prefers, up to its grid."""
        (before, after), eta = push.step, step_scale / (push.number + step_scale)
        vertex = before + (after - before) / eta
        best = self.learner.domain.minimize_linear(np.ascontiguousarray(released))
        slack = 4 * self._grid + 1e-9 * float(np.abs(released).max())
        return bool(released @ (vertex - best) <= slack * (np.abs(vertex - best).sum() + 1e-9))

    def score(self, runs: list[Any], world: int) -> Scores:
        from scipy.special import ndtr

        if self._scale == 0.0:
            return Scores(np.zeros(len(runs)), np.empty((len(runs), 0)), (SILENT,))
        losses, residuals = np.zeros(len(runs)), []
        for part, matrix in self._maps.items():
            ours, theirs = (np.array([run.gaps[part][w] for run in runs]) for w in (0, 1))
            change, own = whiten(matrix, ours, theirs, self._scale)
            losses += change
            residuals.append(own)
        uniforms = ndtr(np.concatenate(residuals, axis=1))
        return score_decisions(Scores(losses, uniforms), runs, world)


def score_decisions(scores: Scores, runs: list[Run], world: int) -> Scores:
    """Return scores with the findings of the runs, and decisions that were drawn by weights."""
    own = (text for run in runs for text in run.findings)
    findings = (*scores.findings, *dict.fromkeys(own))
    if not runs[0].chosen:
        return replace(scores, findings=findings)
    chances, chosen, exact = (np.array([getattr(run, name) for run in runs]) for name in _DRAWN)
    draws = place_draws(chances, chosen, exact, world)
    return replace(scores, findings=findings, draws=draws)


class LedByVectors(ReleasedSums):
    """TreeFrankWolfe, NoisyFTRL, NoisyNewton: decisions are functions of released sums.

    The noise is drawn again from a copy of the tape by a sum alone, and the learner's decisions
    must be those that follow from its own sum with that noise.
    """

    astray = "decisions do not follow from sums with the declared noise"

    def _noise(self, learner: Any, tape: Source) -> Any:
        size = self.family.exact(learner).size
        return sum_noise(self.family, size, self._counts[...], tape._claim())

    def _read_release(self, learner: Any, push: Push, noise: Any) -> FloatArray:
        released: FloatArray = self.family.exact(learner) + noise[push.number - 1]
        return released

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: Run) -> list[Any]:
        decisions = super()._decisions(learner, records, run)
        if not np.array_equal(decisions[0], learner.last_decision):
            run.findings.append("a round decides otherwise than the last update did")
        return decisions

    def _finish(self, learner: Any, run: Run) -> None:
        if learner.round < learner.horizon:
            self._decisions(learner, [()], run)

    def _follows(self, learner: Any, push: Push, released: FloatArray) -> bool:
        own = learner.plan.tuning
        solved = isinstance(learner._mechanism.summand, SecondMoments | GradientAndCurvature)
        if learner.round >= learner.horizon or solved:
            return True
        if not hasattr(own, "step_size"):
            return self._moves_to_best(push, own.step_scale, released)
        expected = learner.domain.project(learner.domain.center - own.step_size * released)
        return bool(np.abs(push.step[1] - expected).max() <= 4 * own.step_size * self._grid + 1e-9)


class LedByWeights(LedByVectors):
    """PrefixHedge, and LipschitzLearner on a net: decisions are drawn by weights that follow."""

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: Run) -> list[Any]:
        decision = self.family.decide(learner, records[0])
        run.chances.append(np.array(learner.weights))
        run.chosen.append(decision)
        run.exact.append(self._losses(learner, self.family.exact(learner)))
        return [decision] * 2

    @staticmethod
    def _losses(learner: Any, sums: FloatArray) -> FloatArray:
        """Return losses from sums: of a net's points, those of transformed losses."""
        checker = getattr(learner, "_checker", None)
        if checker is None:
            return sums
        return np.array(checker.invert(np.ascontiguousarray(sums)))

    def _follows(self, learner: Any, push: Push, released: FloatArray) -> bool:
        rate = learner.plan.tuning.learning_rate
        values = self._losses(learner, released)
        # The transform's inverse is linear: what a grid of the releases becomes, at most.
        unit = np.array([self._losses(learner, row) for row in np.eye(len(released))])
        slack = self._grid * np.abs(unit).sum(axis=0).max()
        expected = np.exp(-rate * (values - values.min()))
        expected /= expected.sum()
        return bool(np.allclose(learner.weights, expected, rtol=4 * rate * slack + 1e-9))


class ReleasedStatistics(ReleasedSums):
    """LinUCB, ResidualPhases: noisy statistics of all arms, and estimates that follow from them.

    Privacy is joint: all actions but the own one follow from what is released, so that is what is
    scored. The changed record may get another action on the other stream; given equal releases,
    both actions are known.
    """

    astray = "estimates do not follow from the released statistics"

    def __init__(self, family: Sums, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        total = family.mechanism
        self._of_residuals = isinstance(total.summand, ResidualStatistics)
        self._forced = total.batch if self._of_residuals else 0

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: Run) -> list[Any]:
        return pick_actions(learner, records, run, self._forced)

    def _read_release(self, learner: Any, push: Push, noise: Any) -> FloatArray:
        return np.array(learner._engine.released())

    def _follows(self, learner: Any, push: Push, released: FloatArray) -> bool:
        """Whether every arm's estimate solves its released equations, where it has some."""
        # Damped sums depend on all releases: tests compare them with an independent program.
        if self._of_residuals or learner.plan.tuning.half_life is not None:
            return True
        d, arms, tuning = learner.dimension, learner.arms, learner.plan.tuning
        summand = self.family.mechanism.summand
        own = released.reshape(arms, -1)
        first, second, factors = triangle(d)
        matrices, count = np.zeros((arms, d, d)), len(factors)
        matrices[:, first, second] = matrices[:, second, first] = own[:, :count] / factors
        margin = find_confidence(self.family.mechanism, tuning).margin
        shifts = np.full(arms, tuning.regularization + margin)
        least = np.linalg.eigvalsh(matrices)[:, 0]
        while np.any(least + shifts <= 1e-12 * shifts):  # doubled until it can be solved
            shifts = np.where(least + shifts <= 1e-12 * shifts, 2.0 * shifts, shifts)
        solved = np.linalg.solve(
            matrices + shifts[:, None, None] * np.eye(d),
            own[:, count:, None] / summand.weight,
        )[:, :, 0]
        size = 1.0 + np.abs(solved).max()
        return bool(np.abs(learner.coefficients - solved).max() <= 1e-6 * size)


# ---- vertices that are chosen --------------------------------------------------------------------


class VertexChoices:
    """Vertices that a polyhedral learner's updates move to, read off its decisions and scored.

    Parameters
    ----------
    selections : Selections
    domain : Domain
    """

    def __init__(self, selections: Any, domain: Any) -> None:
        self._selections = selections
        # Entries that are chosen independently, and their values, one choice a row.
        self.choices: list[tuple[Any, FloatArray]]
        d = domain.dimension
        if isinstance(domain, Box):
            ends = np.stack([domain.lower, domain.upper], axis=1)
            self.choices = [([j], ends[j][:, None]) for j in range(d)]
        elif isinstance(domain, LpBall):
            table = domain.radius * np.vstack([np.eye(d), -np.eye(d)])
            self.choices = [(slice(None), table)]
        else:
            simplex = isinstance(domain, Simplex)
            table = domain.scale * np.eye(d) if simplex else np.array(domain.vertices)
            self.choices = [(slice(None), table)]

    def note(self, run: Run, push: Push) -> bool:
        """Note laws given either sum and what an update chose; return whether it is a vertex."""
        own, k, (before, after) = self._selections, push.number, push.step
        vertex, scores = before + (after - before) * (k + 1), own.scores
        noise_scale = own.scale * math.pow(k, -own.exponent)
        rate, found = 1.0 / (scores.batch * (k + scores.offset) * noise_scale), True
        for entries, table in self.choices:
            gap = np.abs(table - vertex[entries]).sum(axis=1)
            chosen = int(np.argmin(gap))
            found = found and bool(gap[chosen] <= 1e-6 * (1.0 + np.abs(table).max()))
            laws = (selection_law(own.law, -(table @ x[entries]) * rate, 1.0) for x in push.sums)
            run.choices.append((*laws, chosen))
        return found


class Vertices(Pushes):
    """PolyhedralFrankWolfe: the vertex of every update, read off the decisions."""

    astray = "decisions do not move towards vertices of the declared law"

    def __init__(self, family: Records, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        self._vertices = VertexChoices(self.learner._mechanism, self.learner.domain)

    def _releases(self) -> dict[Any, int]:
        return {...: len(self.streams[0]) // self.family.batch}

    def _release(self, learner: Any, run: Run, push: Push, noise: Any) -> bool:
        return self._vertices.note(run, push)

    def score(self, runs: list[Any], world: int) -> Scores:
        found = score_choices(runs, world, self.astray)
        # Updates in order; a box has several draws in each.
        shape = (len(runs), self._counts[...], -1)
        return replace(found, uniforms=found.uniforms.reshape(shape))


def score_choices(runs: list[Run], world: int, astray: str) -> Scores:
    """Return the scores of the choices noted in runs."""
    own, other, chosen = (
        np.array([[each[part] for each in run.choices] for run in runs]) for part in range(3)
    )
    found = score_draws(own, other, chosen, world, astray)
    stray = found.findings or any(run.findings for run in runs)
    return replace(found, findings=(astray,) if stray else ())
