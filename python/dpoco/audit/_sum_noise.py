"""Likelihoods of what is released of running sums, and of batches of losses.

Sums with noise, vertices that they select, and releases of single batches; decisions and estimates
must be those that follow from what is released.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray
from dpoco.accounting.continual_sum import release_grid
from dpoco.accounting.linucb import find_confidence
from dpoco.audit._family import (
    Change,
    Decision,
    Family,
    Learner,
    Play,
    Record,
    Stream,
    admit,
    ratio,
)
from dpoco.audit._laws import Scorer, Scores, place_draws, score_draws, selection_law, softmax
from dpoco.audit._sums import Arms, Sums, triangle, whitening_matrix
from dpoco.domains import Box, LpBall, Simplex
from dpoco.privacy.mechanisms.batch_release import movement
from dpoco.privacy.mechanisms.bounds import ClippedVector, GradientAndCurvature, SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.random import Source

Part = Any  # index into sums: all of them, or an arm
Noise = Any  # of releases, drawn again: of all, or of each arm
Choice = tuple[slice | list[int], FloatArray]  # entries, and their values

_Fit = tuple[FloatArray, FloatArray, bool]  # above either sum; whether it follows from its noise

SILENT = "a release has no noise at all"
# Of cube noise all entries may move; a response on one coordinate sees one entry.
_NORMS = {"gaussian": (2, "l2"), "laplace": (1, "l1")}
_GAUSSIAN, _GRID_BITS = 2, 13  # of a compiled source, the kind of variates; of a fit, its grid
_GRID = 1e-12  # losses of a batch are rounded to a grid of 2^-52 rounds


def whiten(
    matrix: FloatArray, own: FloatArray, other: FloatArray, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return privacy losses, shape (trials,), of what releases have above the sums of two streams.

    And that of the own stream as independent standard normal variates; shapes (trials, pushes, d).

    Parameters
    ----------
    matrix : ndarray, shape (pushes, pushes)
        From `whitening_matrix`.
    own, other : ndarray, shape (trials, pushes, d)
        What releases have above the exact sums of the own and of the other stream.
    scale : float
        Standard deviation of one draw.
    """
    ours, theirs = (np.einsum("st,ntd->nsd", matrix, each) / scale for each in (own, other))
    losses: FloatArray = 0.5 * ((theirs - ours) * (theirs + ours)).sum(axis=(1, 2))
    return losses, ours


def sum_alone(total: GaussianSum, claim: _core.Claim) -> _core.ContinualSum:
    """Return a compiled sum with the noise of another one, for vectors that are not clipped.

    Parameters
    ----------
    total : GaussianSum
        The sum whose noise is drawn: its factorisation, scale, grid and number of pushes.
    claim : dict
        Key and stream of a source.
    """
    return _core.ContinualSum(_without_clip(total), claim)


@cache  # the same in every run
def _without_clip(total: GaussianSum) -> GaussianSum:
    """Return the description of a sum of vectors that are not clipped, with the same noise."""
    far = total.limit * total.grid if total.grid > 0.0 else 1e12  # no push is longer
    vector = ClippedVector(total.summand.size, 2.0, 1e100, far)
    return replace(total, summand=vector, batch=1, growth=None)


def sum_noise(family: Sums, dimension: int, count: int, claim: _core.Claim) -> FloatArray:
    """Return the noise of the first sums, drawn once more by a sum alone, shape (count, d).

    `claim` is a copy of what the learner's own sum was given of the tape.
    """
    out = np.empty((count, dimension))
    sum_alone(family.mechanism, claim).run(np.zeros((count, dimension)), out)
    return out


@dataclass
class Run:
    """One run: what releases have above the sums of the own and the other stream, and decisions.

    Attributes
    ----------
    gaps : dict of part to pair of lists of ndarray
        What each release has above the sums of the own and of the other stream.
    clocks : Counter of int
        Rounds that each arm's clock has counted.
    choices : list of tuple
        Scores by either sum, in units of their noise, and what was chosen.
    findings : list of str
        Violations that the run shows by itself.
    chances, chosen, exact : lists of ndarray, int and ndarray
        Laws of drawn decisions, the decisions, and scores without noise; one a round.
    released : list of ndarray
        Releases of batches.
    """

    gaps: dict[Part, tuple[list[FloatArray], list[FloatArray]]] = field(default_factory=dict)
    clocks: Counter[int] = field(default_factory=Counter)  # of arms
    choices: list[tuple[Any, ...]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    chances: list[FloatArray] = field(default_factory=list)  # laws of decisions that are drawn
    chosen: list[int] = field(default_factory=list)  # and what was drawn
    exact: list[FloatArray] = field(default_factory=list)  # what would be known without noise
    released: list[FloatArray] = field(default_factory=list)  # of batches, each by itself

    def decide(self, chances: FloatArray, chosen: int, exact: FloatArray) -> None:
        """Note a decision that is drawn by weights."""
        self.chances.append(np.array(chances))
        self.chosen.append(chosen)
        self.exact.append(exact)


def score_decisions(scores: Scores, runs: list[Run], world: int) -> Scores:
    """Return scores with the findings of the runs, and decisions that were drawn by weights."""
    own = (text for run in runs for text in run.findings)
    findings = (*scores.findings, *dict.fromkeys(own))
    if not runs[0].chosen:
        return replace(scores, findings=findings)
    # Decisions that are functions of the releases tell nothing more, and are not scored.
    names = ("chances", "chosen", "exact")
    chances, chosen, exact = (np.array([getattr(run, name) for run in runs]) for name in names)
    return replace(scores, findings=findings, draws=place_draws(chances, chosen, exact, world))


class Push(NamedTuple):
    """Facts about one release of a sum, or of an arm's part of it.

    Attributes
    ----------
    part : int or Ellipsis
        An arm, or the whole sum.
    number : int
        How many releases of the part this makes.
    step : pair of ndarray
        What the learner shows before and after: a decision, or an arm's estimate.
    sums : list of two ndarray
        Exact sums of the part on the own and on the other stream.
    answer : object
        What a mechanism answered.
    """

    part: Part  # index into sums and into what is shown
    number: int  # of its releases, from 1
    step: tuple[FloatArray, FloatArray]  # what the learner shows, before and after
    sums: list[FloatArray]  # of the own and the other stream
    answer: Decision


class Pushes(Scorer):
    """Base of scorers of what is released of sums, given the sums of either stream.

    Both streams are added up during one run: leaves of the other stream are taken at the
    decisions of this run, since the likelihood is that of the same releases under the other
    stream.
    """

    family: Sums
    astray = ""

    def __init__(self, family: Sums, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        ends = family.ends(len(self.streams[0]))
        self._numbers = {end: number for number, end in enumerate(ends, 1)}  # of releases
        self._counts = self._releases()
        if not any(self._counts.values()):
            raise ValueError("stream must be long enough for a release")

    def _releases(self) -> dict[Part, int]:
        """Return how many releases the stream has, of every part."""
        ended = len(self._numbers)
        return {...: min(ended, getattr(self.mechanism, "pushes", ended))}

    def run(self, learner: Learner, world: int, tape: Source) -> Run:
        """Play all rounds up to the last release, and note each release and both exact sums.

        `tape` gives the noise a second time, where releases do not show it.
        """
        run, family, noise = Run(), self.family, self._noise(learner, tape)
        sums = [np.zeros_like(family.exact(learner)) for _ in (0, 1)]
        rounds = len(self.streams[0])
        if ... in self._counts:
            rounds = family.ends(rounds)[self._counts[...] - 1]
        for t in range(rounds):
            records = [self.streams[w].record(t) for w in (world, 1 - world)]
            decisions = self._decisions(learner, records, run)
            before = self._show(learner)
            leaf = other = family.leaf(learner, decisions[0], records[0])
            if t in self.apart:  # elsewhere the same record enters at the same decision
                other = family.leaf(learner, decisions[1], records[1])
            sums = [sums[0] + leaf, sums[1] + other]
            answer = family.observe(learner, decisions[0], records[0])
            for part, number in self._due(t, decisions[0], run):
                step = before[part], self._show(learner)[part]
                push = Push(part, number, step, [each[part] for each in sums], answer)
                if not self._release(learner, run, push, noise):
                    run.findings.append(self.astray)
        self._finish(learner, run)
        return run

    def _noise(self, learner: Learner, tape: Source) -> Noise:
        """Return the noise of all releases, drawn again, where they do not show it themselves."""

    def _decisions(self, learner: Learner, records: list[Record], run: Run) -> list[Decision]:
        """Return the round's decision, and that for the other stream's record.

        Both are the same unless a part of a record is seen before the decision: a context.
        """
        return [self.family.decide(learner, records[0])] * 2

    def _show(self, learner: Learner) -> FloatArray:
        """Return what follows from the releases and is seen."""
        return np.array(getattr(learner, "last_decision", 0.0))

    def _due(self, t: int, decision: Decision, run: Run) -> list[tuple[Part, int]]:
        """Return part and number of what is released at the end of round t."""
        return [(..., self._numbers[t + 1])] if t + 1 in self._numbers else []

    @abstractmethod
    def _release(self, learner: Learner, run: Run, push: Push, noise: Noise) -> bool:
        """Note a release; return whether what the learner shows follows from it."""

    def _finish(self, learner: Learner, run: Run) -> None:
        """Look at the decision after the last release."""


# ---- sums with noise -----------------------------------------------------------------------------


class ReleasedSums(Pushes):
    """Sums that are released with Gaussian noise.

    After whitening the noise is standard normal: its distribution function gives the uniforms
    that are tested, and its squares the privacy losses.

    Raises
    ------
    ValueError
        For generalized Gaussian noise, whose density after a tree is not known.
    """

    def __init__(self, family: Sums, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        m = family.mechanism
        if m.order != 2.0:
            raise ValueError("no density is known of sums with generalized Gaussian noise")
        self._scale, self._grid = m.scale, release_grid(m.scale) if m.scale > 0.0 else 0.0
        self._maps = {
            part: whitening_matrix(m.factorisation, count)
            for part, count in self._counts.items()
            if count
        }

    def _release(self, learner: Learner, run: Run, push: Push, noise: Noise) -> bool:
        """Note what the release has above both sums; return whether decisions follow from it."""
        released = self._read_release(learner, push, noise)
        for path, total in zip(run.gaps.setdefault(push.part, ([], [])), push.sums, strict=True):
            path.append(released - total)
        return self._follows(learner, push, released)

    def _read_release(self, learner: Learner, push: Push, noise: Noise) -> FloatArray:
        """Return what was released."""
        return np.array(push.answer)

    def _follows(self, learner: Learner, push: Push, released: FloatArray) -> bool:
        """Whether what the learner shows follows from what was released."""
        return True

    def _moves_to_best(self, push: Push, step_scale: float, released: FloatArray) -> bool:
        """Whether a decision moved to a vertex that the released sum prefers, up to its grid.

        Parameters
        ----------
        push : Push
            With the decision before and after.
        step_scale : float
            s of the steps s / (k + s).
        released : ndarray, shape (d,)
            The sum with its noise.
        """
        # An update moves by a share eta towards a vertex: undone, it shows which one.
        (before, after), eta = push.step, step_scale / (push.number + step_scale)
        vertex = before + (after - before) / eta
        best = self.learner.domain.minimize_linear(np.ascontiguousarray(released))
        slack = 4 * self._grid + 1e-9 * float(np.abs(released).max())
        return bool(released @ (vertex - best) <= slack * (np.abs(vertex - best).sum() + 1e-9))

    def score(self, runs: list[Run], world: int) -> Scores:
        """Return losses and uniforms of all parts' noise; parts are independent of one another."""
        from scipy.special import ndtr

        if self._scale == 0.0:
            return Scores(np.zeros(len(runs)), np.empty((len(runs), 0)), (SILENT,))
        losses, residuals = np.zeros(len(runs)), []
        for part, matrix in self._maps.items():
            ours, theirs = (np.array([run.gaps[part][w] for run in runs]) for w in (0, 1))
            change, own = whiten(matrix, ours, theirs, self._scale)
            losses += change
            residuals.append(own)
        # Parts are independent of one another, as each arm has its own stream of noise.
        uniforms = ndtr(np.concatenate(residuals, axis=1))
        return score_decisions(Scores(losses, uniforms), runs, world)


class LedByVectors(ReleasedSums):
    """Decisions are functions of released sums: steps, vertices, solutions.

    The noise is drawn again from a copy of the tape by a sum alone, and the learner's decisions
    must be those that follow from its own sum with that noise.
    """

    astray = "decisions do not follow from sums with the declared noise"

    def _noise(self, learner: Learner, tape: Source) -> FloatArray:
        """Return the noise of all sums, from the claim that the learner's own sum was given."""
        size = self.family.exact(learner).size
        return sum_noise(self.family, size, self._counts[...], tape._claim())

    def _read_release(self, learner: Learner, push: Push, noise: FloatArray) -> FloatArray:
        """Return the learner's own sum with the noise that was drawn again."""
        released: FloatArray = self.family.exact(learner) + noise[push.number - 1]
        return released

    def _decisions(self, learner: Learner, records: list[Record], run: Run) -> list[Decision]:
        """Return the decision; it must be the one that the last update made."""
        decisions = super()._decisions(learner, records, run)
        if not np.array_equal(decisions[0], learner.last_decision):
            run.findings.append("a round decides otherwise than the last update did")
        return decisions

    def _finish(self, learner: Learner, run: Run) -> None:
        """Ask for the decision after the last update, if there is a round for it."""
        if learner.round < learner.horizon:
            self._decisions(learner, [()], run)

    def _follows(self, learner: Learner, push: Push, released: FloatArray) -> bool:
        """Whether the decision is a projected step, or a move towards the preferred vertex.

        Of learners that solve equations for their decision nothing is compared.
        """
        own, domain = learner.plan.tuning, learner.domain
        solved = isinstance(learner._mechanism.summand, SecondMoments | GradientAndCurvature)
        if learner.round >= learner.horizon or solved:
            return True
        if not hasattr(own, "step_size"):
            return self._moves_to_best(push, own.step_scale, released)
        expected = domain.project(domain.center - own.step_size * released)
        return bool(np.abs(push.step[1] - expected).max() <= 4 * own.step_size * self._grid + 1e-9)


class LedByWeights(LedByVectors):
    """Decisions, experts or points of a net, are drawn by weights that follow."""

    def __init__(self, family: Sums, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        # The transform's inverse is linear: what a grid of the releases becomes, at most.
        axes = np.eye(family.exact(self.learner).size)
        units = np.array([self._losses(self.learner, axis) for axis in axes])
        self._slack = self._grid * float(np.abs(units).sum(axis=0).max())

    def _decisions(self, learner: Learner, records: list[Record], run: Run) -> list[Decision]:
        """Return the decision, and note the law that it must be drawn by."""
        decision = self.family.decide(learner, records[0])
        run.decide(learner.weights, decision, self._losses(learner, self.family.exact(learner)))
        return [decision] * 2

    @staticmethod
    def _losses(learner: Learner, sums: FloatArray) -> FloatArray:
        """Return losses from sums: of a net's points, those of transformed losses."""
        checker = getattr(learner, "_checker", None)
        return sums if checker is None else np.array(checker.invert(np.ascontiguousarray(sums)))

    def _follows(self, learner: Learner, push: Push, released: FloatArray) -> bool:
        """Whether the weights are the exponential ones of the released losses."""
        rate = learner.plan.tuning.learning_rate
        values = self._losses(learner, released)
        expected = np.exp(-rate * (values - values.min()))
        expected /= expected.sum()
        # A value that is off by the slack moves a weight by a share rate * slack, and so does their
        # sum.
        allowed = 1e-8 + (4 * rate * self._slack + 1e-9) * expected
        return bool((np.abs(learner.weights - expected) <= allowed).all())


class FitReleases(Scorer):
    """The one release of a fit, which shows its model only.

    Its noise is drawn once more from a copy of the tape, and the engine's sum must be the one that
    follows.
    """

    def run(self, learner: Learner, world: int, tape: Source) -> _Fit:
        """Add both streams to engines of one fit, release one, and draw its noise again."""
        engines = learner._engine(), self.learner._engine()
        # The second engine only adds up the other stream, and releases nothing.
        for w, engine in zip((world, 1 - world), engines, strict=True):
            engine.add(*self.streams[w].parts)
        exact = [np.array(engine.nonprivate_sum()) for engine in engines]
        released, claim = np.array(engines[0].release()), tape._claim()
        noise, scale = np.empty(len(released)), self.mechanism.scale
        _core.Source(claim["key"], claim["stream"]).fill(_GAUSSIAN, noise)
        # The grid of the release, a power of two in proportion to the noise.
        step = 2.0 ** (np.frexp(scale)[1] - _GRID_BITS)
        expected = step * np.rint((exact[0] + scale * noise) / step)
        size = 1.0 + float(np.abs(released).max())
        follows = bool(np.abs(released - expected).max() <= 1e-7 * size)
        return (released - exact[0])[None], (released - exact[1])[None], follows

    def score(self, runs: list[_Fit], world: int) -> Scores:
        """Return the scores of Gaussian noise, whose coordinates are independent as they are."""
        from scipy.special import ndtr

        ours, theirs = (np.array([run[w] for run in runs]) for w in (0, 1))
        losses, own = whiten(np.eye(1), ours, theirs, self.mechanism.scale)
        stray = not all(follows for _, _, follows in runs)
        findings = ("the sum does not follow from the declared noise",) if stray else ()
        return Scores(losses, ndtr(own[:, 0]), findings)


# ---- bandits -------------------------------------------------------------------------------------


def pick_actions(
    learner: Learner, records: list[Record], run: Run, forced_rounds: int
) -> list[Decision]:
    """Return the actions for contexts, given all that was released; begins the round of the first.

    Unless the schedule decides, as in the first rounds, whatever the context, the round's action
    must be the one that the estimates recommend.

    Parameters
    ----------
    learner : Learner
        A bandit at the beginning of a round.
    records : list of records
        Of the own and of the other stream; of one alone, only its action is returned.
    run : Run
        Where a finding is noted.
    forced_rounds : int
        First rounds, in which the schedule decides.
    """
    contexts, forced = [context for context, _ in records], learner.round < forced_rounds
    advised = [int(arm) for arm in learner.recommend(np.array(contexts))]
    arm = int(learner.decide(contexts[0]))
    if not forced and arm != advised[0]:
        run.findings.append("an action is not the one that is recommended")
    return [arm, *(arm if forced else other for other in advised[1:])]


class ReleasedStatistics(ReleasedSums):
    """Noisy statistics of all arms, and estimates that follow from them.

    Privacy is joint: all actions but the own one follow from what is released, so that is what is
    scored. The changed record may get another action on the other stream; given equal releases,
    both actions are known.
    """

    astray = "estimates do not follow from the released statistics"

    def __init__(self, family: Sums, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        self._of_residuals = isinstance(self.mechanism.summand, ResidualStatistics)
        self._forced = self.mechanism.batch if self._of_residuals else 0

    def _decisions(self, learner: Learner, records: list[Record], run: Run) -> list[Decision]:
        """Return the actions for both contexts, in whose rows the records enter."""
        return pick_actions(learner, records, run, self._forced)

    def _read_release(self, learner: Learner, push: Push, noise: Noise) -> FloatArray:
        """Return the noisy statistics of all arms, which the engine shows."""
        return np.array(learner._engine.released())

    def _follows(self, learner: Learner, push: Push, released: FloatArray) -> bool:
        """Whether every arm's estimate solves its released equations, where it has some."""
        # Damped sums depend on all releases: tests compare them with an independent program.
        if self._of_residuals or learner.plan.tuning.half_life is not None:
            return True
        d, arms, tuning = learner.dimension, learner.arms, learner.plan.tuning
        own = released.reshape(arms, -1)
        first, second, factors = triangle(d)
        matrices, count = np.zeros((arms, d, d)), len(factors)
        matrices[:, first, second] = matrices[:, second, first] = own[:, :count] / factors
        margin = find_confidence(self.mechanism, tuning).margin
        shifts = np.full(arms, tuning.regularization + margin)
        least = np.linalg.eigvalsh(matrices)[:, 0]
        while np.any(least + shifts <= 1e-12 * shifts):  # doubled until it can be solved
            shifts = np.where(least + shifts <= 1e-12 * shifts, 2.0 * shifts, shifts)
        solved = np.linalg.solve(
            matrices + shifts[:, None, None] * np.eye(d),
            own[:, count:, None] / self.mechanism.summand.weight,
        )[:, :, 0]
        size = 1.0 + np.abs(solved).max()
        return bool(np.abs(learner.coefficients - solved).max() <= 1e-6 * size)


# ---- vertices that are chosen --------------------------------------------------------------------


def vertex_choices(domain: Any) -> list[Choice]:
    """Return entries that are chosen independently, and their values, one choice a row.

    A box chooses an end on each coordinate, independently; all other domains one vertex.
    Complexity O(number of vertices).
    """
    d = domain.dimension
    if isinstance(domain, Box):
        ends = np.stack([domain.lower, domain.upper], axis=1)
        return [([j], ends[j][:, None]) for j in range(d)]
    if isinstance(domain, LpBall):
        return [(slice(None), domain.radius * np.vstack([np.eye(d), -np.eye(d)]))]
    simplex = isinstance(domain, Simplex)
    return [(slice(None), domain.scale * np.eye(d) if simplex else np.array(domain.vertices))]


def note_vertex(choices: list[Choice], own: Selections, run: Run, push: Push) -> bool:
    """Note scores by either sum and what an update chose, read off its step.

    Returns whether it is a vertex. `own` is the description of the selections.

    Parameters
    ----------
    choices : list of (entries, table)
        From `vertex_choices`.
    own : Selections
        Description of the selections, with the scale of the first.
    run : Run
        Where the scores are noted, in units of their noise.
    push : Push
        Decision before and after, and both exact sums.
    """
    k, (before, after) = push.number, push.step
    vertex, scores = before + (after - before) * (k + 1), own.scores
    assert isinstance(scores, VertexScores)
    # The noise shrinks with the updates, for so does the weight of a record in the mean.
    noise_scale = own.scale * math.pow(k, -own.exponent)
    rate, found = 1.0 / (scores.batch * (k + scores.offset) * noise_scale), True
    for entries, table in choices:
        gap = np.abs(table - vertex[entries]).sum(axis=1)
        chosen = int(np.argmin(gap))
        found = found and bool(gap[chosen] <= 1e-6 * (1.0 + np.abs(table).max()))
        run.choices.append((*(-(table @ x[entries]) * rate for x in push.sums), chosen))
    return found


def score_choices(law: str, runs: list[Run], world: int, astray: str) -> Scores:
    """Return the scores of the choices noted in runs, whose noise has this law."""
    *scores, chosen = (
        np.array([[each[part] for each in run.choices] for run in runs]) for part in range(3)
    )
    own, other = (selection_law(law, each, 1.0) for each in scores)
    found = score_draws(own, other, chosen, world, astray)
    stray = found.findings or any(run.findings for run in runs)
    return replace(found, findings=(astray,) if stray else ())


class Vertices(Pushes):
    """The vertex of every update, read off the decisions."""

    astray = "decisions do not move towards vertices of the declared law"

    def __init__(self, family: Sums, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        self._choices = vertex_choices(self.learner.domain)

    def _release(self, learner: Learner, run: Run, push: Push, noise: Noise) -> bool:
        """Note which vertex the decision moved to; return whether it moved to any."""
        return note_vertex(self._choices, self.mechanism, run, push)

    def score(self, runs: list[Run], world: int) -> Scores:
        """Return the scores of selections; uniforms have shape (trials, updates, choices)."""
        found = score_choices(self.mechanism.law, runs, world, self.astray)
        # Updates in order; a box has several draws in each.
        shape = (len(runs), self._counts[...], -1)
        return replace(found, uniforms=found.uniforms.reshape(shape))


class ArmReleases(ReleasedSums):
    """The vertices that polyhedral arms select, or the sums of tree arms."""

    family: Arms
    astray = "estimates do not follow from releases of the declared law"

    def __init__(self, family: Arms, stream: Stream, neighbour: Stream) -> None:
        learner: Learner = family.learner
        self._tree = isinstance(family.mechanism, GaussianSum)
        self._forced = min(learner.arms * learner._mechanism.forced, learner.horizon)
        (ReleasedSums if self._tree else Pushes).__init__(self, family, stream, neighbour)

    def _releases(self) -> dict[Part, int]:
        """Return the updates of every arm, by its share of forced rounds and all later ones."""
        each, rounds = self.learner._mechanism.forced, len(self.streams[0])
        own = (min(max(rounds - k * each, 0), each) for k in range(self.learner.arms))
        later = max(rounds - self._forced, 0)  # in which all clocks count
        return {arm: (forced + later) // self.family.batch for arm, forced in enumerate(own)}

    def _decisions(self, learner: Learner, records: list[Record], run: Run) -> list[Decision]:
        """Return the actions for both contexts."""
        return pick_actions(learner, records, run, self._forced)

    def _show(self, learner: Learner) -> FloatArray:
        """Return the estimates of all arms, shape (K, d)."""
        return np.array(learner.coefficients)

    def _due(self, t: int, decision: Decision, run: Run) -> list[tuple[Part, int]]:
        """Count the round on its clocks; return the arms whose batch is full."""
        due, batch = [], self.family.batch
        for arm in [decision] if t < self._forced else range(self.learner.arms):
            run.clocks[arm] += 1
            if run.clocks[arm] % batch == 0:
                due.append((arm, run.clocks[arm] // batch))
        return due

    def _noise(self, learner: Learner, tape: Source) -> list[FloatArray] | None:
        """Return the noise of every tree arm, by the keys that `dpoco.bandits` derives."""
        if not self._tree:
            return None
        claim = tape._claim()
        message = b"dpoco arms of a bandit" + claim["key"] + claim["stream"].to_bytes(8, "little")
        # Learners of arms have this key and one stream an arm: see `dpoco.bandits`.
        key, d = hashlib.sha256(message).digest(), learner.dimension
        return [
            sum_noise(self.family, d, n, {"key": key, "stream": arm})
            for arm, n in self._counts.items()
        ]

    def _release(self, learner: Learner, run: Run, push: Push, noise: Noise) -> bool:
        """Note a sum of a tree arm, or the vertex of a polyhedral one."""
        if self._tree:
            return super()._release(learner, run, push, noise)
        return note_vertex(vertex_choices(learner.domain), self.mechanism, run, push)

    def _read_release(self, learner: Learner, push: Push, noise: list[FloatArray]) -> FloatArray:
        """Return an arm's own sum with the noise that was drawn again."""
        drawn: FloatArray = noise[push.part][push.number - 1]
        return self.family.exact(learner)[push.part] + drawn

    def _follows(self, learner: Learner, push: Push, released: FloatArray) -> bool:
        """Whether the arm's estimate moved to the vertex that its released sum prefers."""
        return self._moves_to_best(push, learner.plan.tuning.arm.step_scale, released)

    def score(self, runs: list[Run], world: int) -> Scores:
        """Return the scores of sums, or of choices."""
        if self._tree:
            return super().score(runs, world)
        return score_choices(self.mechanism.law, runs, world, self.astray)


# ---- batches of losses, each in one release ------------------------------------------------------


class Batches(Family):
    """Every batch of losses enters one separate release.

    What enters a release is the batch's sum, centred where the noise is Gaussian. Its movement
    is compared in the norm of the noise, and with the noise in use as log odds or mu.
    """

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return the decision and the weights that it was drawn by."""
        return decision, learner.weights.tobytes()

    def look(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Note what entered the release of a batch that ends; return how much it must draw."""
        p, (release, left) = learner.plan.tuning, divmod(t + 1, self.mechanism.batch)
        if left or (p.releases is not None and release > p.releases):
            return 0
        play.note(input=np.array(learner._engine.nonprivate_input()))
        # The next decision's variate is no noise.
        noisy = learner.guarantee.private and learner.experts > 1
        return 1 + (learner.round < learner.horizon) if noisy else 0

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield how far the record moved its own batch's release, and that it moved no other."""
        m = self.mechanism
        inputs = (play.notes.get("input", []) for play in (base, other))
        for k, (a, b) in enumerate(zip(*inputs, strict=True)):
            if k != at // m.batch:
                yield "releases of other batches", float(np.abs(a - b).max()), _GRID
                continue
            order, name = _NORMS.get(m.law, (np.inf, "the maximum norm"))
            moved = float(np.linalg.norm(a - b, order))
            yield f"a batch's sum in {name}", moved, movement(m.law, self.learner.experts)
            yield from self._spend(a, b, moved)

    def _spend(self, ours: FloatArray, theirs: FloatArray, moved: float) -> Iterator[Change]:
        """Yield what the movement of a release spends with the noise in use, and the promise."""
        m, found = self.mechanism, self.learner.guarantee
        if not found.private:
            return
        pure = found.epsilon_at(0.0)
        if m.law == "gaussian":
            if found.mu is not None:
                yield "mu of the releases", ratio(moved, m.scale), found.mu
        elif m.law == "response":
            bias = 0.5 * np.tanh(0.5 * m.epsilon)
            high = [0.5 + (2.0 * x - 1.0) * bias for x in (ours, theirs)]
            with np.errstate(divide="ignore"):
                logs = [np.abs(np.log(a / b)) for a, b in (high, [1.0 - x for x in high])]
            yield "the log odds of a response", float(np.max(logs)), pure
        else:
            yield "the log odds of a release", ratio(moved, m.scale), pure

    def facts(self) -> dict[str, bool]:
        """Whether weights were shared between experts, as against a sequence with switches."""
        return {"shared weights": self.learner.plan.tuning.share_rate > 0.0}


def _raise_floor(weights: FloatArray, floor: float) -> FloatArray:
    """Return the law nearest to one in relative entropy whose entries are at least `floor`."""
    low = np.zeros(len(weights), dtype=bool)
    while True:
        # Raised entries lower the others, which may then fall below the floor as well.
        scaled = weights * ((1.0 - floor * low.sum()) / weights[~low].sum())
        below = ~low & (scaled < floor)
        if not below.any():
            return np.where(low, floor, scaled)
        low |= below


class ReleasedBatches(Scorer):
    """Releases of batches, and the weights that decisions are drawn by.

    Raises
    ------
    ValueError
        For a stream without a whole batch, or for one expert, who is never chosen from.
    """

    family: Batches

    def __init__(self, family: Batches, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        p, m = self.learner.plan.tuning, self.mechanism
        releases = len(self.streams[0]) // m.batch
        self._releases = releases if p.releases is None else min(releases, p.releases)
        if self._releases < 1 or self.learner.experts < 2:
            raise ValueError("stream must be long enough for a release, of at least two experts")
        self._admitted = [admit(family.learner, each.parts[0]) for each in self.streams]
        used = (rows[: self._releases * m.batch] for rows in self._admitted)
        sums = [rows.reshape(self._releases, m.batch, -1).sum(axis=1) for rows in used]
        # Centring comes before Gaussian noise (docs/privacy/batch_share.md).
        centred = m.law == "gaussian"
        self._inputs = [x - x.mean(axis=1, keepdims=True) if centred else x for x in sums]

    def run(self, learner: Learner, world: int, tape: Source) -> Run:
        """Play to the round after the last release; weights must be those of the printed rule."""
        batch, rows, experts = self.mechanism.batch, self.streams[world].parts[0], learner.experts
        # The rule: logarithms of weights, up to a constant.
        run, state, exact = Run(), np.zeros(experts), np.zeros(experts)
        expected = np.full(experts, 1.0 / experts)
        for t in range(self._releases * batch + 1):
            if learner.round == learner.horizon:
                break
            run.decide(learner.weights, self.family.decide(learner, ()), exact)
            if not (np.abs(run.chances[-1] - expected) <= 1e-12 + 1e-6 * expected).all():
                run.findings.append("weights do not follow from what is released")
            if t == self._releases * batch:
                break
            learner.observe(rows[t])
            exact = exact + self._admitted[world][t]
            if (t + 1) % batch == 0:
                run.released.append(np.array(learner._engine.released()))
                state = self._update(state, run.released[-1])
                expected = softmax(state)
        return run

    def _update(self, state: FloatArray, released: FloatArray) -> FloatArray:
        """Return log-weights after a release: exponential weights, then shares or a floor."""
        p, n = self.learner.plan.tuning, self.learner.experts
        # Weights depend on differences only; without the least, sums of many releases stay small.
        state = state - p.learning_rate * (released - released.min())
        if p.share_rate > 0.0:
            shared = (1.0 - p.share_rate - p.share_rate / (n - 1)) * softmax(state)
            state = np.log(shared + p.share_rate / (n - 1))
        elif p.floor > 0.0:
            state = np.log(_raise_floor(softmax(state), p.floor))
        return np.asarray(state, dtype=np.float64)

    def score(self, runs: list[Run], world: int) -> Scores:
        """Return the scores of releases, and of the decisions drawn by their weights."""
        released = np.array([run.released for run in runs])  # (trials, releases, N)
        return score_decisions(self._score_releases(released, world), runs, world)

    def _score_releases(self, released: FloatArray, world: int) -> Scores:
        """Return the scores of the noise of batches, by its law.

        Gaussian and Laplace noise have independent coordinates. Noise with density
        exp(-max |x| / scale) has a Gamma-distributed largest entry and others uniform below it.

        Parameters
        ----------
        released : ndarray, shape (trials, releases, N)
        world : int
            Of the runs.
        """
        from scipy import special

        law, scale = self.mechanism.law, self.mechanism.scale
        if law == "response":
            return self._responses(released, world)
        own, other = (released - self._inputs[w] for w in (world, 1 - world))
        if not scale > 0.0 or np.any(np.all(np.abs(own) <= 1e-9 * scale, axis=2)):
            return Scores(np.zeros(len(released)), np.empty((len(released), 0)), (SILENT,))
        if law == "gaussian":
            change = 0.5 * ((other / scale) ** 2 - (own / scale) ** 2).sum(axis=2)
            uniforms = special.ndtr(own / scale)
        elif law == "laplace":
            change = (np.abs(other) - np.abs(own)).sum(axis=2) / scale
            tail = 0.5 * np.exp(-np.abs(own) / scale)
            uniforms = np.where(own > 0.0, 1.0 - tail, tail)
        else:
            radius = np.abs(own).max(axis=2)
            change = (np.abs(other).max(axis=2) - radius) / scale
            # The largest entry is Gamma(N), and the first of the others uniform below it.
            place = (np.abs(own).argmax(axis=2) + 1) % own.shape[2]
            entry = np.take_along_axis(own, place[:, :, None], axis=2)[:, :, 0]
            parts = special.gammainc(own.shape[2], radius / scale), 0.5 * (entry / radius + 1.0)
            uniforms = np.stack(parts, axis=2)
        return Scores(change.sum(axis=1), uniforms)

    def _responses(self, released: FloatArray, world: int) -> Scores:
        """Return the scores of randomized responses: a coordinate drawn uniformly, and its sign."""
        n, epsilon = released.shape[2], self.mechanism.epsilon
        place = np.abs(released).argmax(axis=2)
        up = np.take_along_axis(released, place[:, :, None], axis=2)[:, :, 0] > 0.0
        laws = []
        for w in (world, 1 - world):
            high = 0.5 + (2.0 * self._inputs[w] - 1.0) * np.tanh(0.5 * epsilon) / 2.0
            cells = (np.stack([1.0 - high, high], axis=2) / n).reshape(-1, 2 * n)
            laws.append(np.broadcast_to(cells, (len(released), *cells.shape)))
        stray = "a response is impossible under the declared law"
        return score_draws(laws[0], laws[1], 2 * place + up, world, stray)
