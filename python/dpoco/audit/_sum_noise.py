"""Likelihoods of the releases of running sums and of batches of losses.

These are sums with noise, vertices that they select, and releases of single batches. Decisions and
estimates must be those that follow from the releases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray
from dpoco.accounting.continual_sum import release_grid
from dpoco.accounting.linucb import find_confidence
from dpoco.audit._family import Change, Decision, Family, Learner, Play, Stream, admit, ratio
from dpoco.audit._laws import Scorer, Scores, place_draws, score_draws, selection_law, softmax
from dpoco.audit._sums import Arms, Fits, Part, Sums, triangle, whitening_matrix
from dpoco.domains import Box, LpBall, Simplex
from dpoco.privacy.mechanisms.batch_release import movement
from dpoco.privacy.mechanisms.bounds import ClippedVector, GradientAndCurvature, SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.random import Source

Choice = tuple[slice | list[int], FloatArray]  # entries, and their values
Times = NDArray[np.intp]  # rounds that end with a release

SILENT = "a release has no noise at all"
# With cube noise, all entries may move; a response on one coordinate depends on one entry.
_NORMS = {"gaussian": (2, "l2"), "laplace": (1, "l1")}
_GAUSSIAN, _GRID_BITS = 2, 13  # kind of variates in a compiled source; grid of a fit
_GRID = 1e-12  # losses of a batch are rounded to multiples of 2^-52 times the rounds


def whiten(
    matrix: FloatArray, own: FloatArray, other: FloatArray, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return privacy losses of a sum's releases, and the residuals as standard normal variates.

    Parameters
    ----------
    matrix : ndarray, shape (pushes, pushes)
        Result of `whitening_matrix`.
    own, other : ndarray, shape (trials, pushes, d)
        Residuals: releases minus the exact sums of the played stream, and of the other stream.
    scale : float
        Standard deviation of one draw.

    Returns
    -------
    (ndarray of shape (trials,), ndarray of shape (trials, pushes, d))
        Losses, and the whitened residuals of the played stream.
    """
    ours, theirs = (np.einsum("st,ntd->nsd", matrix, each) / scale for each in (own, other))
    losses: FloatArray = 0.5 * ((theirs - ours) * (theirs + ours)).sum(axis=(1, 2))
    return losses, ours


def sum_alone(total: GaussianSum, claim: _core.Claim) -> _core.ContinualSum:
    """Return a compiled sum with the noise of another sum, for vectors that are not clipped.

    Parameters
    ----------
    total : GaussianSum
        The sum that determines the noise: its factorisation, scale, grid and number of pushes.
    claim : dict
        Key and stream of a source.
    """
    return _core.ContinualSum(_without_clip(total), claim)


@cache  # equal in every run
def _without_clip(total: GaussianSum) -> GaussianSum:
    """Return the description of a sum of vectors that are not clipped, with the same noise."""
    far = total.limit * total.grid if total.grid > 0.0 else 1e12  # longer than any push
    vector = ClippedVector(total.summand.size, 2.0, 1e100, far)
    return replace(total, summand=vector, batch=1, growth=None)


def stack(plays: Sequence[Play], name: str) -> FloatArray:
    """Return the notes with this name of all plays, shape (trials, rounds, ...)."""
    return np.array([play.notes[name] for play in plays])


def collect_findings(plays: Sequence[Play], *own: str) -> tuple[str, ...]:
    """Return the findings of plays and of their scorer, without duplicates."""
    return tuple(dict.fromkeys([*(text for play in plays for text in play.findings), *own]))


def score_decisions(plays: Sequence[Play], exact: FloatArray, world: int) -> dict[str, FloatArray]:
    """Return uniforms of decisions that were drawn by the weights published with them.

    Parameters
    ----------
    plays : sequence of Play
        Plays that publish pairs of a decision and the bytes of its weights.
    exact : ndarray, shape (trials, decisions, N) or (decisions, N)
        Sums without noise, as in `place_draws`; the first decisions are scored.
    world : int
        World of the runs.
    """
    count = exact.shape[-2]
    chosen = np.array([[decision for decision, _ in play.published[:count]] for play in plays])
    return place_draws(published_weights(plays)[:, :count], chosen, exact, world)


def published_weights(plays: Sequence[Play]) -> FloatArray:
    """Return the weights published with all decisions, (trials, decisions, N)."""
    return np.array([[np.frombuffer(law) for _, law in play.published] for play in plays])


# ---- sums of either stream -----------------------------------------------------------------------


class SumScorer(Scorer):
    """Base of scorers of releases of sums, given the exact sums of both streams.

    Both sums are computed during one run. Records of the other stream enter at the decisions of
    this run, because we need the likelihood of the same releases under the other stream.

    Raises
    ------
    ValueError
        For a stream without a release, and for a learner that does not show its releases.
    """

    family: Sums | Fits
    mismatch: ClassVar[str] = ""

    def __init__(self, family: Sums | Fits, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        times = family.releases(len(self.streams[0])).items()
        self._times = {part: rounds for part, rounds in times if len(rounds)}
        if not self._times:
            raise ValueError("stream must be long enough for a release")
        if family.shows and not hasattr(self.learner, family.shows):
            raise ValueError(f"releases are only known of learners with {family.shows}")

    def run(self, learner: Learner, world: int, tape: Source) -> Play:
        """Play a stream, and note what the records of the other stream would have added."""
        self.family.person_rounds, self.family.other = self.apart, self.streams[1 - world]
        play = self.family.play(learner, self.streams[world])
        if self.family.shows == "last_decision":
            pairs = zip(play.published, play.notes["shown"], strict=False)
            if any(decision != shown.tobytes() for decision, shown in pairs):
                play.findings.append("a round decides otherwise than the last update did")
        return play

    def _exact(self, plays: list[Play]) -> Iterator[tuple[Part, Times, list[FloatArray]]]:
        """Yield each part, the rounds that end with its releases, and its sums on both streams.

        The sums are those of the played stream and of the other one, each with shape (trials,
        releases, d).
        """
        paths = [np.cumsum(stack(plays, name), axis=1) for name in ("leaf", "other")]
        for part, at in self._times.items():
            yield part, at, [path[:, at][:, :, part] for path in paths]


class ReleasedSums(SumScorer):
    """Sums that are released with Gaussian noise and shown.

    After whitening, the noise is standard normal. Its distribution function gives the tested
    uniforms, and its squares give the privacy losses.

    Raises
    ------
    ValueError
        For generalized Gaussian noise, whose density after a tree is unknown.
    """

    def __init__(self, family: Sums | Fits, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        m = family.mechanism
        if m.order != 2.0:
            raise ValueError("no density is known of sums with generalized Gaussian noise")
        self._scale, self._grid = m.scale, release_grid(m.scale) if m.scale > 0.0 else 0.0

    def _read(self, plays: list[Play], part: Part, at: Times) -> FloatArray:
        """Return the releases of a part, shape (trials, releases, d)."""
        return stack(plays, "released")[:, at]

    def _follows(self, play: Play, part: Part, at: Times, released: FloatArray) -> bool:
        """Return whether the learner's output follows from a part's releases, (releases, d)."""
        return True

    def score(self, plays: list[Play], world: int) -> Scores:
        """Return losses and uniforms of the noise of all parts, which are independent."""
        from scipy.special import ndtr

        losses, residuals, stray = np.zeros(len(plays)), [], False
        if self._scale == 0.0:
            return Scores(losses, np.empty((len(plays), 0)), (SILENT,))
        for part, at, sums in self._exact(plays):
            released = self._read(plays, part, at)
            pairs = zip(plays, released, strict=True)
            stray = stray or not all(self._follows(play, part, at, rows) for play, rows in pairs)
            matrix = whitening_matrix(self.mechanism.factorisation, len(at))
            ours, theirs = (released - each for each in sums)
            change, white = whiten(matrix, ours, theirs, self._scale)
            losses += change
            residuals.append(white)
        uniforms = ndtr(np.concatenate(residuals, axis=1))
        return Scores(losses, uniforms, collect_findings(plays, *[self.mismatch] * stray))


class HiddenSums(ReleasedSums):
    """Sums whose releases only show in decisions: steps, vertices, solutions.

    A separate sum draws the noise again from a copy of the tape. The learner's decisions must
    follow from its own sum with that noise.
    """

    family: Sums
    mismatch = "decisions do not follow from sums with the declared noise"

    def run(self, learner: Learner, world: int, tape: Source) -> Play:
        """Play a stream, and draw the noise of all releases again."""
        play = super().run(learner, world, tape)
        total, claims = self.mechanism, self._claims(tape._claim())
        play.memory["noise"] = {}
        for part, at in self._times.items():
            drawn = np.empty((len(at), total.summand.size))
            sum_alone(total, claims[part]).run(np.zeros_like(drawn), drawn)
            play.memory["noise"][part] = drawn
        return play

    def _claims(self, claim: _core.Claim) -> dict[Part, _core.Claim]:
        """Return key and stream of each part's noise; for arms, as `dpoco.bandits` derives them."""
        if not isinstance(self.family, Arms):
            return {...: claim}
        message = b"dpoco arms of a bandit" + claim["key"] + claim["stream"].to_bytes(8, "little")
        key = hashlib.sha256(message).digest()
        return {arm: {"key": key, "stream": arm} for arm in range(self.learner.arms)}

    def _read(self, plays: list[Play], part: Part, at: Times) -> FloatArray:
        """Return the learner's own sums plus the noise that was drawn again."""
        noise = np.array([play.memory["noise"][part] for play in plays])
        return np.asarray(stack(plays, "sum")[:, at][:, :, part] + noise)

    def _follows(self, play: Play, part: Part, at: Times, released: FloatArray) -> bool:
        """Return whether decisions are projected steps, or moves towards the preferred vertices.

        Nothing is compared for learners that solve equations for their decision.
        """
        tuning, learner = self.family.tuning, self.learner
        if isinstance(self.mechanism.summand, SecondMoments | GradientAndCurvature):
            return True
        for number, (t, row) in enumerate(zip(at, released, strict=True), 1):
            before, after = (play.notes["shown"][t + k][part] for k in (0, 1))
            if part is ... and t + 1 >= learner.horizon:
                break  # no decision follows the last record
            if hasattr(tuning, "step_size"):
                expected = learner.domain.project(learner.domain.center - tuning.step_size * row)
                found = np.abs(after - expected).max() <= 4 * tuning.step_size * self._grid + 1e-9
            else:
                share = tuning.step_scale / (number + tuning.step_scale)
                found = self._is_best(before + (after - before) / share, row)
            if not found:
                return False
        return True

    def _is_best(self, vertex: FloatArray, released: FloatArray) -> bool:
        """Return whether the sum prefers the vertex that a decision moved to, up to its grid."""
        best = self.learner.domain.minimize_linear(np.ascontiguousarray(released))
        slack = 4 * self._grid + 1e-9 * float(np.abs(released).max())
        return bool(released @ (vertex - best) <= slack * (np.abs(vertex - best).sum() + 1e-9))


class HiddenLosses(HiddenSums):
    """Experts or points of a net, drawn by weights that follow from the sums."""

    def __init__(self, family: Sums, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        # The transform's inverse is linear. This is the largest image of a grid of the releases.
        units = self._losses(np.eye(self.mechanism.summand.size))
        self._slack = self._grid * float(np.abs(units).sum(axis=0).max())

    def _losses(self, sums: FloatArray) -> FloatArray:
        """Return losses from rows of sums; for a net, those of its points."""
        checker = getattr(self.learner, "_checker", None)
        return sums if checker is None else np.array([checker.invert(row.copy()) for row in sums])

    def _follows(self, play: Play, part: Part, at: Times, released: FloatArray) -> bool:
        """Return whether the weights are the exponential weights of the released losses."""
        rate = self.family.tuning.learning_rate
        expected = softmax(-rate * self._losses(released))
        # A value that differs by the slack changes a weight by a share rate * slack, and their sum
        # equally.
        allowed = 1e-8 + (4 * rate * self._slack + 1e-9) * expected
        return bool((np.abs(np.array(play.notes["shown"])[at + 1] - expected) <= allowed).all())

    def score(self, plays: list[Play], world: int) -> Scores:
        """Return the scores of the sums, and of the decisions that were drawn by weights."""
        totals = stack(plays, "sum")
        # Sums without noise before each decision, which are 0 before the first.
        before = np.concatenate([np.zeros_like(totals[:, :1]), totals], axis=1)
        count = len(plays[0].published)
        exact = np.array([self._losses(rows) for rows in before[:, :count]])
        return replace(super().score(plays, world), draws=score_decisions(plays, exact, world))


class FitSums(ReleasedSums):
    """The single release of a fit: its noise is drawn again, and the sum is compared."""

    family: Fits
    mismatch = "the sum does not follow from the declared noise"

    def run(self, learner: Learner, world: int, tape: Source) -> Play:
        """Fit a stream, and draw the noise of its release again."""
        play, claim = super().run(learner, world, tape), tape._claim()
        play.memory["noise"] = np.empty(self.mechanism.summand.size)
        _core.Source(claim["key"], claim["stream"]).fill(_GAUSSIAN, play.memory["noise"])
        return play

    def _follows(self, play: Play, part: Part, at: Times, released: FloatArray) -> bool:
        """Return whether the release is the sum plus the noise drawn again, on its grid."""
        # The grid of the release, a power of two proportional to the noise.
        step = 2.0 ** (np.frexp(self._scale)[1] - _GRID_BITS)
        exact = play.notes["leaf"][0] + self._scale * play.memory["noise"]
        far = np.abs(released[0] - step * np.rint(exact / step)).max()
        return bool(far <= 1e-7 * (1.0 + np.abs(released).max()))


class StatisticSums(ReleasedSums):
    """Noisy statistics of all arms, and the estimates that follow from them.

    Privacy is joint: all actions but the user's own follow from the releases, so the releases are
    scored. The changed record may get another action on the other stream. Given equal releases,
    both actions are known.
    """

    mismatch = "estimates do not follow from the released statistics"

    def _follows(self, play: Play, part: Part, at: Times, released: FloatArray) -> bool:
        """Return whether every arm's estimate, if any, solves its released equations."""
        learner, tuning, summand = self.learner, self.family.tuning, self.mechanism.summand
        # Damped sums depend on all releases. Tests compare them with an independent program.
        if isinstance(summand, ResidualStatistics) or tuning.half_life is not None:
            return True
        d = learner.dimension
        first, second, factors = triangle(d)
        count, own = len(factors), released.reshape(len(at), learner.arms, -1)
        matrices = np.zeros((*own.shape[:2], d, d))
        matrices[..., first, second] = matrices[..., second, first] = own[..., :count] / factors
        margin = find_confidence(self.mechanism, tuning).margin
        shifts = np.full(own.shape[:2], tuning.regularization + margin)
        least = np.linalg.eigvalsh(matrices)[..., 0]
        while np.any(least + shifts <= 1e-12 * shifts):  # doubled until it can be solved
            shifts = np.where(least + shifts <= 1e-12 * shifts, 2.0 * shifts, shifts)
        solved = np.linalg.solve(
            matrices + shifts[..., None, None] * np.eye(d), own[..., count:, None] / summand.weight
        )[..., 0]
        far = np.abs(np.array(play.notes["shown"])[at + 1] - solved).max(axis=(1, 2))
        return bool(np.all(far <= 1e-6 * (1.0 + np.abs(solved).max(axis=(1, 2)))))


# ---- vertices that are chosen --------------------------------------------------------------------


def vertex_choices(domain: Any) -> list[Choice]:
    """Return the independently chosen entries and their values, one choice per item.

    A box chooses an end on each coordinate independently; all other domains choose one vertex.
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


class Vertices(SumScorer):
    """The vertex of every update, computed from the step that a decision or estimate takes."""

    family: Sums
    mismatch = "steps do not lead towards vertices of the declared law"

    def score(self, plays: list[Play], world: int) -> Scores:
        """Return the scores of selections; uniforms have shape (trials, updates, choices)."""
        choices, m, found = vertex_choices(self.learner.domain), self.mechanism, True
        shown, parts = stack(plays, "shown"), list[list[FloatArray]]()
        for part, at, sums in self._exact(plays):
            k = np.arange(1.0, len(at) + 1.0)[:, None]
            before, after = (shown[:, times][:, :, part] for times in (at, at + 1))
            vertices = before + (after - before) * (k + 1.0)
            # The noise falls with the updates, because the weight of a record in the mean also
            # falls.
            rate = 1.0 / (m.scores.batch * (k + m.scores.offset) * m.scale * k**-m.exponent)
            columns = list[list[FloatArray]]()
            for entries, table in choices:
                gaps = np.abs(table - vertices[:, :, None, entries]).sum(axis=3)
                found &= bool(np.all(gaps.min(axis=2) <= 1e-6 * (1.0 + np.abs(table).max())))
                scores = (-(each[:, :, entries] @ table.T) * rate for each in sums)
                columns.append(
                    [gaps.argmin(axis=2), *(selection_law(m.law, each, 1.0) for each in scores)]
                )
            parts.append([np.stack(each, axis=2) for each in zip(*columns, strict=True)])
        # Updates of each part in order. A box has several draws in each update.
        chosen, own, other = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        count, values = len(plays), own.shape[-1]
        own, other = (law.reshape(count, -1, values) for law in (own, other))
        scored = score_draws(own, other, chosen.reshape(count, -1).astype(np.int64), world)
        stray = () if found and not scored.findings else (self.mismatch,)
        uniforms = scored.uniforms.reshape(count, -1, len(choices))
        return replace(scored, uniforms=uniforms, findings=collect_findings(plays, *stray))


# ---- batches of losses, each in one release ------------------------------------------------------


class Batches(Family):
    """Every batch of losses enters one separate release.

    The input of a release is the batch's sum, centred if the noise is Gaussian. Its movement is
    compared in the norm of the noise, and as log odds or mu for the noise in use.
    """

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return the decision and the weights by which it was drawn."""
        return decision, learner.weights.tobytes()

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Note the input of the release of a batch that ends; return the variates due."""
        p, (release, left) = learner.plan.tuning, divmod(t + 1, self.mechanism.batch)
        if left or (p.releases is not None and release > p.releases):
            return 0
        play.note(input=np.array(learner._engine.nonprivate_input()))
        play.note(released=np.array(learner._engine.released()))
        # The variate of the next decision is not noise.
        noisy = learner.guarantee.private and learner.experts > 1
        return 1 + (learner.round < learner.horizon) if noisy else 0

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield how far the record moved its batch's release, and the others (by 0)."""
        m = self.mechanism
        inputs = (play.notes.get("input", []) for play in (base, other))
        for k, (a, b) in enumerate(zip(*inputs, strict=True)):
            if k != at // m.batch:
                yield "releases of other batches", float(np.abs(a - b).max()), _GRID
                continue
            order, name = _NORMS.get(m.law, (np.inf, "the maximum norm"))
            moved = float(np.linalg.norm(a - b, order))
            yield f"a batch's sum in {name}", moved, movement(m.law, self.learner.experts)
            yield from self._spend(moved)

    def _spend(self, moved: float) -> Iterator[Change]:
        """Yield the cost of a release's movement with the noise in use, and the promised bound."""
        m, found = self.mechanism, self.learner.guarantee
        if not found.private:
            return
        if m.law != "gaussian":
            yield "the log odds of a release", ratio(moved, m.scale), found.epsilon_at(0.0)
        elif found.mu is not None:
            yield "mu of the releases", ratio(moved, m.scale), found.mu

    def facts(self) -> dict[str, bool]:
        """Return whether weights were shared between experts, for sequences with switches."""
        return {"shared weights": self.learner.plan.tuning.share_rate > 0.0}


def _raise_floor(weights: FloatArray, floor: float) -> FloatArray:
    """Return the law with entries of at least `floor` that is nearest in relative entropy."""
    low = np.zeros(len(weights), dtype=bool)
    while True:
        # Raising entries reduces the others, which may then also fall below the floor.
        scaled = weights * ((1.0 - floor * low.sum()) / weights[~low].sum())
        below = ~low & (scaled < floor)
        if not below.any():
            return np.where(low, floor, scaled)
        low |= below


class ReleasedBatches(Scorer):
    """Releases of batches, and the weights by which decisions are drawn.

    Raises
    ------
    ValueError
        For a stream without a complete batch, and for a single expert.
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
        # Sums are centred before adding Gaussian noise (docs/privacy/batch_share.md).
        centred = m.law == "gaussian"
        self._inputs = [x - x.mean(axis=1, keepdims=True) if centred else x for x in sums]

    def run(self, learner: Learner, world: int, tape: Source) -> Play:
        """Play the stream."""
        return self.family.play(learner, self.streams[world])

    def score(self, plays: list[Play], world: int) -> Scores:
        """Return the scores of releases, and of the decisions drawn by their weights.

        The weights must follow the printed rule.
        """
        released, findings = stack(plays, "released"), list[str]()
        laws = published_weights(plays)[:, : self._releases * self.mechanism.batch + 1]
        state = np.zeros_like(laws[:, 0])  # log weights, up to a constant
        for t in range(laws.shape[1]):
            if t and t % self.mechanism.batch == 0:
                state = self._update(state, released[:, t // self.mechanism.batch - 1])
            expected = softmax(state)
            if not (np.abs(laws[:, t] - expected) <= 1e-12 + 1e-6 * expected).all():
                findings.append("weights do not follow from what is released")
        before = np.cumsum(np.vstack([0.0 * laws[0, 0], self._admitted[world]]), axis=0)
        draws = score_decisions(plays, before[: laws.shape[1]], world)
        scores = self._score_releases(released, world)
        found = (*scores.findings, *collect_findings(plays, *findings))
        return replace(scores, findings=found, draws=draws)

    def _update(self, state: FloatArray, released: FloatArray) -> FloatArray:
        """Return log weights after a release: exponential weights, followed by shares or a floor.

        All have shape (trials, N).
        """
        p, n = self.learner.plan.tuning, self.learner.experts
        # Weights only depend on differences. Subtracting the least keeps sums of many releases
        # small.
        state = state - p.learning_rate * (released - released.min(axis=1, keepdims=True))
        if p.share_rate > 0.0:
            shared = (1.0 - p.share_rate - p.share_rate / (n - 1)) * softmax(state)
            state = np.log(shared + p.share_rate / (n - 1))
        elif p.floor > 0.0:
            state = np.log([_raise_floor(weights, p.floor) for weights in softmax(state)])
        return np.asarray(state, dtype=np.float64)

    def _score_releases(self, released: FloatArray, world: int) -> Scores:
        """Return the scores of the noise of batches, by its law.

        Gaussian and Laplace noise have independent coordinates. For density exp(-max |x| / scale),
        the largest entry is Gamma-distributed and the others are uniform below it.

        Parameters
        ----------
        released : ndarray, shape (trials, releases, N)
        world : int
            World of the runs.
        """
        from scipy import special

        law, scale = self.mechanism.law, self.mechanism.scale
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
            # The largest entry is Gamma(N), and the first of the others is uniform below it.
            place = (np.abs(own).argmax(axis=2) + 1) % own.shape[2]
            entry = np.take_along_axis(own, place[:, :, None], axis=2)[:, :, 0]
            parts = special.gammainc(own.shape[2], radius / scale), 0.5 * (entry / radius + 1.0)
            uniforms = np.stack(parts, axis=2)
        return Scores(change.sum(axis=1), uniforms)
