"""Families of learners whose records enter sums: of vectors, gradients, losses, statistics."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, pairwise, takewhile
from typing import Any, ClassVar

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray
from dpoco.accounting.continual_sum import release_grid
from dpoco.audit._family import Change, Family, Play
from dpoco.losses import LinearLoss
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.bounds import MomentsAndLoss, SecondMoments
from dpoco.privacy.mechanisms.factorisations import Buffered, Factorisation, Normalised, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.privacy.neighbours import Neighbours

# Rounding of a leaf's own arithmetic, relative to the bound.
ROUNDING = 1e-9


class Unmoved(Family):
    """Releases that depend on no record: all of them are the same on all streams."""

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        yield from ()

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        if base.published != other.published:
            yield "a release depends on a record, and none may"


class Sums(Family):
    """Base of the families whose records enter a sum, alone or in batches.

    What a record adds is computed from its definition, or by the engine as a function without
    state, and the sum that the engine holds must be that of these leaves.
    """

    astray: ClassVar[str] = "what enters the sum is not a function of record and decisions alone"
    needs: ClassVar[tuple[str, ...]] = ("leaf", "nonprivate_sum", "variates_drawn")
    several = True
    charges_leaves: ClassVar[bool] = False  # the movement of a record before others are added

    @abstractmethod
    def leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        """Return what a record adds in the learner's current round, before it is observed."""

    def exact(self, learner: Any) -> FloatArray:
        """Return the sum that a learner holds, without noise."""
        return np.array(learner._engine.nonprivate_sum())

    def find_complete(self, learner: Any, t: int, play: Play) -> Any:
        """Return the rows of the sum that are complete after round t: all of them, or none."""
        return slice(None) if t + 1 in self.ends(t + 1) else []

    def count_fresh(self, learner: Any, ended: bool) -> int:
        """Return how many variates a round must have drawn."""
        return int(ended and learner.guarantee.private)

    def slack(self, found: FloatArray) -> float:
        """Return how far a sum may be from the one before and the leaves since."""
        # Leaves may end on the other side of half a grid; a batch's are added in another order.
        scale = max(float(np.abs(found).max()), self.sensitivity)
        return float(ROUNDING * scale + 2.0 * self.grid)

    @property
    def plan(self) -> Any:
        """The parameters of one sum."""
        return self.learner.plan

    @property
    def sensitivity(self) -> float:
        """How far one record moves the sum, in the norm that its noise is measured against."""
        m = self.mechanism
        if isinstance(m, GaussianSum):
            return m.summand.movement(Neighbours(self.relation), m.order)
        if isinstance(m, Selections) and isinstance(m.scores, VertexScores):
            return Neighbours(self.relation).sides * m.scores.slope * m.scores.leaf
        return float(self.plan.sensitivity)

    @property
    def batch(self) -> int:
        """Records of a push, or of the first one."""
        return int(getattr(self.mechanism, "scores", self.mechanism).batch)

    @property
    def growth(self) -> str | None:
        """How batches grow, if they do."""
        return getattr(self.mechanism, "growth", None)

    def ends(self, rounds: int) -> Sequence[int]:
        """Return how many rounds are over when batches end, of so many rounds."""
        if self.growth is None:
            return range(self.batch, rounds + 1, self.batch)
        ends = islice(batch_starts(self.batch, self.growth), 1, self.mechanism.pushes + 1)
        return tuple(takewhile(lambda end: end <= rounds, ends))

    @property
    def grid(self) -> float:
        """What is added to the sum is rounded to multiples of it; 0 for doubles."""
        return float(getattr(self.mechanism, "grid", 0.0))

    def start(self, learner: Any, play: Play) -> None:
        total = self.exact(learner)
        play.memory |= {"total": total, "pending": 0.0 * total}

    def ask(self, learner: Any, decision: Any, record: tuple[Any, ...], play: Play) -> None:
        play.note(leaf=self.leaf(learner, decision, record))
        if self.before is not None:
            old = self.before.record(len(play.notes["leaf"]) - 1)
            play.note(old=self.leaf(learner, decision, old))

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        ended, (total, pending) = self.find_complete(learner, t, play), play.memory.values()
        pending += play.notes["leaf"][t]
        total[ended] += pending[ended]
        pending[ended] = 0.0
        found = self.exact(learner)
        if not np.all(np.abs(total - found) <= self.slack(found)):
            play.findings.append(self.astray)
        total[...] = found  # roundings of earlier rounds are no later round's
        play.note(sum=found, released=answer)
        return self.count_fresh(learner, ended != [])

    def size(self, change: FloatArray) -> float:
        """Return the size of a change, in the norm the sensitivity is stated in."""
        m, norm = self.mechanism, np.inf  # of selections
        if isinstance(m, GaussianSum):
            norm = 2.0 if m.order == 2.0 else m.summand.norm
        return _core.norm(np.ascontiguousarray(change), norm)

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        """Yield the rounds whose sums may differ by a record replaced in round `at` alone."""
        ends = self.ends(len(base.notes["sum"]))
        own = bisect_right(ends, at)
        if own < len(ends):
            yield ends[own] - 1

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        leaf = self.size(base.notes["leaf"][at] - other.notes["leaf"][at])
        yield "the sum", leaf, self.sensitivity
        if self.charges_leaves:
            yield from self.spend_mu(leaf)
        yield from self.compare_sums(base, other, at)

    def compare_sums(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield how far the sums themselves are apart: as records were added and rounded."""
        for t in self.find_rounds_apart(base, other, at):
            gap = base.notes["sum"][t] - other.notes["sum"][t]
            size = self.size(gap)
            rounding = math.sqrt(gap.size) * self.grid
            yield "the sum", size, self.sensitivity + rounding
            yield from self.spend_mu(size)

    def spend_mu(self, moved: float) -> Iterator[Change]:
        """Yield the mu that a movement of the sum spends, and the guarantee's."""
        m, mu = self.mechanism, self.learner.guarantee.mu
        if mu is not None and isinstance(m, GaussianSum) and m.order == 2.0:
            spent = moved * m.factorisation.column(m.pushes) / m.scale
            yield "mu of the releases", spent, mu

    def spent_by(self, other: Play) -> Iterator[Change]:
        # At equal releases, as the proof has it: what each record adds is compared with what the
        # old one would have added.
        moved = np.array(other.notes["leaf"]) - np.array(other.notes["old"])
        sensitivity, m = self.sensitivity, self.mechanism
        yield "the sum", max(self.size(row) for row in moved), sensitivity
        guarantee = self.learner.guarantee
        if guarantee.mu is None or not isinstance(m, GaussianSum) or m.order != 2.0:
            return
        ends = self.ends(len(moved))[: m.pushes]
        pushed = np.array([moved[a:b].sum(axis=0) for a, b in pairwise([0, *ends])])
        white = whitening_matrix(noise_map(m.factorisation, len(ends))) @ np.cumsum(pushed, axis=0)
        most = m.column(guarantee.neighbours) * sensitivity
        size = float(np.linalg.norm(white))
        yield "all sums, by all rounds of a person", size, most
        yield "mu of the releases", size / m.scale, guarantee.mu


class Vectors(Sums):
    """Sums of the vectors that a learner is given, each clipped; every sum is released.

    On one tape the noise is the same, so releases differ by what sums do: from the round of the
    record on by what it moves, and by nothing else.
    """

    needs = ("variates_drawn",)

    def leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        vector, row = self.mechanism.summand, record[0]
        largest = float(np.abs(row).max())
        if not np.all(np.isfinite(row)) or largest == 0.0:
            return np.zeros_like(row)
        size = largest * _core.norm(np.ascontiguousarray(row / largest), vector.norm)
        inside: FloatArray = (row / largest) * (vector.bound / (size / largest))
        return row if size <= vector.bound else inside

    def exact(self, learner: Any) -> FloatArray:
        return np.zeros(self.mechanism.summand.size)

    def start(self, learner: Any, play: Play) -> None:
        return

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        play.note(released=answer)
        return int(self.mechanism.scale > 0.0)

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        moved = self.size(base.notes["leaf"][at] - other.notes["leaf"][at])
        yield "the sum", moved, self.sensitivity
        yield from self.spend_mu(moved)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        ours, theirs = (np.array(play.notes["released"]) for play in (base, other))
        moved = np.array(base.notes["leaf"]) - np.array(other.notes["leaf"])
        apart = (ours - theirs) - np.cumsum(moved, axis=0)
        scale = self.mechanism.scale
        steps = release_grid(scale) if scale > 0.0 else 0.0  # releases are rounded
        sizes = self.sensitivity + np.abs(ours).max(axis=1)
        slack = 2.0 * steps + 2.0 * self.grid + 1e-12 * sizes
        stray = np.flatnonzero(~(np.abs(apart).max(axis=1) <= slack))
        if len(stray):
            late = stray[0] >= at
            yield self.astray if late else "an earlier sum depends on a later record"


class Records(Sums):
    """Sums of what records add at decisions: gradients, curvatures, second moments."""

    charges_leaves = True
    _decisions: tuple[FloatArray, FloatArray]  # of the batch before, and of the current one

    def decide(self, learner: Any, record: tuple[Any, ...]) -> Any:
        decision = learner.decide()
        if learner.round in (
            0,
            *self.ends(learner.round)[-1:],
        ):  # some leaves are taken at the one before, too
            before = self._decisions[1] if learner.round > 0 else decision
            self._decisions = before, decision
        return decision

    def leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        loss, row = learner.loss, record[0]
        norm = learner._domain.dual_exponent
        if isinstance(loss, LinearLoss):
            return clip_vector(row, loss.gradient_bound, norm, loss.gradient_bound_l2)
        if not self._is_quadratic:
            return np.array(learner._engine.leaf(decision, self._decisions[0], row, record[1]))
        own = clip_vector(row, loss.feature_bound, norm, loss.feature_bound_l2)
        label = np.clip(record[1], -loss.label_bound, loss.label_bound)
        if not np.isfinite(record[1]):
            own, label = np.zeros_like(row), 0.0
        summand = self.mechanism.summand
        moments = quadratic_statistics(own, summand.weight * label)
        if not isinstance(summand, MomentsAndLoss):
            return moments
        played = min(loss.weight * (decision @ own - label) ** 2, summand.largest_loss)
        return np.append(moments, summand.loss_weight * played)

    @property
    def _is_quadratic(self) -> bool:
        return isinstance(getattr(self.mechanism, "summand", None), SecondMoments)

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        if self.batch > 1 or self.growth is not None:
            yield from super().find_rounds_apart(base, other, at)


def clip_vector(row: FloatArray, bound: float, norm: float, bound_l2: float | None) -> FloatArray:
    """Return a vector as learners clip it; zero if it is not finite."""
    limit = np.inf if bound_l2 is None else bound_l2
    clipper = _core.RecordClipper(len(row), bound, norm, limit)
    factor = clipper.multipliers(np.ascontiguousarray(row[None, :]))[0]
    return factor * row if factor > 0 else np.zeros_like(row)


def quadratic_statistics(row: FloatArray, weight: float) -> FloatArray:
    """Return the upper triangle of x x', off the diagonal times sqrt(2), and weight times x.

    By definition, not by the engine: its norm is that of the matrix and the vector.
    """
    first, second, factors = triangle(len(row))
    return np.concatenate([row[first] * row[second] * factors, weight * row])


@cache
def triangle(size: int) -> tuple[Any, Any, FloatArray]:
    """Return the indices of the upper triangle, and 1 on the diagonal, sqrt(2) off it."""
    first, second = np.triu_indices(size)
    return first, second, np.where(first == second, 1.0, math.sqrt(2.0))


class Losses(Sums):
    """Sums of losses of experts, or of points of a net, that weights follow from."""

    astray = "what enters the sum is not a function of the losses alone"

    def publication(self, learner: Any, decision: Any) -> Any:
        return decision, learner.weights.tobytes()

    def leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        leaf: FloatArray = np.array(learner._engine.leaf(record[0]))
        return leaf if self._enters(learner.round + 1) else np.zeros_like(leaf)

    def find_complete(self, learner: Any, t: int, play: Play) -> Any:
        return slice(None) if self._enters(t + 1) else []

    def _enters(self, rounds: int) -> bool:
        """Whether so many rounds are followed by another: the last one decides nothing."""
        learner = self.learner
        return bool(rounds < learner.horizon and learner._engine.experts > 1)

    def count_fresh(self, learner: Any, ended: bool) -> int:
        # The next decision's variate is no noise.
        return 2 * int(ended and learner.guarantee.private)

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        # What is added does not depend on decisions: the sums stay as near in all rounds.
        yield len(base.notes["sum"]) - 1


def noise_map(factor: Factorisation, rounds: int) -> FloatArray:
    """Return the matrix from independent draws of scale 1 to the noise of the first sums.

    Shape (rounds, draws). Computed from the definition of each factorisation, not by the engine.
    """
    if isinstance(factor, Tree):
        return _tree_map(rounds)
    if isinstance(factor, Banded):
        band = np.zeros(max(rounds, factor.band))
        band[: factor.band] = factor.coefficients
        return _decoder(_lower_toeplitz(band[:rounds]) / factor.levels[:rounds])
    if not isinstance(factor, Buffered):
        first: Any = np.cumprod([1.0, *((2.0 * k - 1.0) / (2.0 * k) for k in range(1, rounds))])
        return _lower_toeplitz(first)
    powers = (1.0 - np.array(factor.decay)) ** np.arange(max(rounds - 1, 0))[:, None]
    encoder = _lower_toeplitz(np.concatenate([[1.0], powers @ np.array(factor.weights)]))
    if isinstance(factor, Normalised):
        encoder = encoder / np.repeat(factor.levels, np.diff(factor.ends, prepend=0))[:rounds]
    return _decoder(encoder)


def _decoder(encoder: FloatArray) -> FloatArray:
    sums = np.triu(np.ones(encoder.shape))
    return np.asarray(np.linalg.solve(encoder.T, sums).T, dtype=np.float64)


def whitening_matrix(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a lower-triangular L with L L' = M M'."""
    upper: Any = np.linalg.qr(matrix.T, mode="r")
    return np.linalg.inv(upper.T)


def _lower_toeplitz(first: Any) -> FloatArray:
    n = len(first)
    lags = np.arange(n)[:, None] - np.arange(n)[None, :]
    return np.where(lags >= 0, first[np.abs(lags)], 0.0)


def _tree_map(rounds: int) -> FloatArray:
    """Return the map of the binary tree."""
    top = rounds.bit_length()
    nodes = [(h, i) for h in range(top) for i in range(rounds >> h)]
    rows: dict[tuple[int, int], FloatArray] = dict(zip(nodes, np.eye(len(nodes)), strict=True))
    prefixes = range(1, rounds + 1)
    levels = [[h for h in range(top) if t >> h & 1] for t in prefixes]
    out: FloatArray = np.array(
        [sum(rows[h, (t >> h) - 1] for h in hs) for t, hs in zip(prefixes, levels, strict=True)]
    )
    return out
