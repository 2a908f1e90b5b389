"""Families of learners whose records enter sums: of vectors, gradients, losses, statistics, totals.

The leaf of a record is computed from its definition, or by the engine as a function without state.
The engine's sum must be the sum of these leaves.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import islice, pairwise, takewhile
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray
from dpoco.accounting.continual_sum import release_grid
from dpoco.audit._family import (
    Change,
    Decision,
    Family,
    Learner,
    Play,
    Record,
    Rounds,
    Stream,
    present,
)
from dpoco.losses import LinearLoss
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.bounds import MomentsAndLoss, SecondMoments
from dpoco.privacy.mechanisms.factorisations import Buffered, Factorisation, Normalised, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.privacy.neighbours import Neighbours
from dpoco.statistics import Block, Layout

Part = Any  # index into sums: all of them, or an arm

# Rounding error in the computation of a leaf, relative to the bound.
ROUNDING = 1e-9


class Sums(Family):
    """Base of the families whose records enter a sum, alone or in batches.

    A play notes every leaf (the amount that a record adds) and the sum after every round. In each
    round, the engine's sum must be the previous sum plus the leaves of the batches that ended, up
    to `slack`. So nothing but leaves enters the sum. The leaves of two plays may differ by
    `sensitivity` in the replaced round, and not at all elsewhere.
    """

    unexplained: ClassVar[str] = (
        "what enters the sum is not a function of record and decisions alone"
    )
    needs: ClassVar[tuple[str, ...]] = ("leaf", "nonprivate_sum", "variates_drawn")
    joins_rounds = True

    def leaf(self, learner: Learner, decision: Decision, record: Record) -> FloatArray:
        """Return the amount that a record adds in the current round, before it is observed.

        Parameters
        ----------
        learner : Learner
            The learner before it observes the record.
        decision : object
            Decision of this round, at which gradients are computed.
        record : tuple
            Its raw parts. Clipping them is part of computing a leaf.
        """
        raise NotImplementedError

    def exact(self, learner: Learner) -> FloatArray:
        """Return the learner's sum without noise."""
        return np.array(learner._engine.nonprivate_sum())

    def find_complete(self, learner: Learner, t: int, play: Play) -> slice | list[int]:
        """Return the rows of the sum that are complete after round t: all of them, or none."""
        return slice(None) if self.is_batch_end(t + 1) else []

    def count_fresh(self, learner: Learner, ended: bool) -> int:
        """Return the least number of variates for a round."""
        return int(ended and learner.guarantee.private)

    def slack(self, found: FloatArray) -> float:
        """Return the allowed distance of a sum from the previous sum plus the leaves since then."""
        # Leaves may round to the other side of half a grid, and a batch adds them in another order.
        return max(self._least_slack, ROUNDING * float(np.abs(found).max()) + 2.0 * self.grid)

    @cached_property
    def _least_slack(self) -> float:
        """Distance that is allowed for any sum."""
        return ROUNDING * self.sensitivity + 2.0 * self.grid

    @cached_property
    def sensitivity(self) -> float:
        """Bound on one record's movement of the sum, in the norm that the noise is measured in."""
        m, near = self.mechanism, Neighbours(self.relation)
        if isinstance(m, GaussianSum):
            return m.summand.movement(near, m.order)
        if isinstance(m, Selections) and isinstance(m.scores, VertexScores):
            return near.sides * m.scores.slope * m.scores.leaf
        return float(self.learner.plan.sensitivity)

    @cached_property
    def batch(self) -> int:
        """Records of a push, or of the first push."""
        return int(getattr(self.mechanism, "scores", self.mechanism).batch)

    @cached_property
    def growth(self) -> str | None:
        """How batches grow; None if they do not."""
        return getattr(self.mechanism, "growth", None)

    def ends(self, rounds: int) -> Sequence[int]:
        """Return after how many rounds batches end, up to `rounds`."""
        if self.growth is None:
            return range(self.batch, rounds + 1, self.batch)
        ends = islice(batch_starts(self.batch, self.growth), 1, self.mechanism.pushes + 1)
        return tuple(takewhile(lambda end: end <= rounds, ends))

    def releases(self, rounds: int) -> dict[Part, NDArray[np.intp]]:
        """Return the rounds that end with a release of each part, up to `rounds`."""
        ends = self.ends(rounds)
        most = getattr(self.mechanism, "pushes", len(ends))
        return {...: np.array(ends[:most], dtype=np.intp) - 1}

    def is_batch_end(self, rounds: int) -> bool:
        """Return whether no batch is incomplete after so many rounds."""
        if self.growth is None:
            return rounds % self.batch == 0
        return rounds == 0 or rounds in self.ends(rounds)

    @cached_property
    def grid(self) -> float:
        """Leaves of the sum are rounded to multiples of it; 0 for doubles."""
        return float(getattr(self.mechanism, "grid", 0.0))

    def show(self, learner: Learner) -> FloatArray:
        """Return the learner's attribute that shows its releases, if there is one."""
        return np.array(getattr(learner, self.shows, 0.0))

    def start(self, learner: Learner, play: Play) -> None:
        """Store the first sum, and that no leaf waits for the end of its batch."""
        total = self.exact(learner)
        play.memory |= {"total": total, "pending": 0.0 * total}
        play.note(shown=self.show(learner))

    def before(self, learner: Learner, decision: Decision, record: Record, play: Play) -> None:
        """Note the leaf of the round, and that of the other stream's record."""
        leaf = other = self.leaf(learner, decision, record)
        t = len(play.published) - 1
        if self.other is not None and t in self.person_rounds:
            other = self.leaf(learner, self.decide_other(decision), self.other.record(t))
        play.note(leaf=leaf, other=other)

    def decide_other(self, decision: Decision) -> Decision:
        """Return the decision that the other stream's record would have received."""
        return decision

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Compare the engine's sum with the leaves so far; a difference is a finding."""
        ended, (total, pending) = self.find_complete(learner, t, play), play.memory.values()
        pending += play.notes["leaf"][t]
        total[ended] += pending[ended]
        pending[ended] = 0.0
        found = self.exact(learner)
        far = np.abs(total - found).max()
        # Written with `not`, so that a sum of NaN is a finding. The cheaper test comes first.
        if not far <= self._least_slack and not far <= self.slack(found):
            play.findings.append(self.unexplained)
        total[...] = found  # rounding errors of earlier rounds do not add up
        play.note(sum=found, shown=self.show(learner))
        return self.count_fresh(learner, ended != [])

    def size(self, change: FloatArray) -> float:
        """Return the size of a change, in the norm of the sensitivity."""
        m, norm = self.mechanism, np.inf  # for selections
        if isinstance(m, GaussianSum):
            norm = 2.0 if m.order == 2.0 else m.summand.norm
        return _core.norm(np.ascontiguousarray(change), norm)

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        """Yield the rounds whose sums differ by a record replaced in round `at` and no other."""
        ends = self.ends(len(base.notes["sum"]))
        own = bisect_right(ends, at)
        if own < len(ends):
            yield ends[own] - 1

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movements of the leaf and of the sum, in the noise's norm and as mu.

        The leaf reveals wrong clipping. The sum reveals records that were added twice or rounded to
        another grid than declared.
        """
        leaf = self.size(base.notes["leaf"][at] - other.notes["leaf"][at])
        yield "the sum", leaf, self.sensitivity
        yield from self.spend_mu(leaf)
        # The sums themselves, with records as they were added and rounded.
        for t in self.find_rounds_apart(base, other, at):
            gap = base.notes["sum"][t] - other.notes["sum"][t]
            size = self.size(gap)
            yield "the sum", size, self.sensitivity + math.sqrt(gap.size) * self.grid
            yield from self.spend_mu(size)

    @property
    def _has_mu(self) -> bool:
        """Return whether the guarantee is of Gaussian noise, so that movements cost mu."""
        return self.learner.guarantee.mu is not None and getattr(self.mechanism, "order", 0) == 2.0

    def spend_mu(self, moved: float) -> Iterator[Change]:
        """Yield the mu that a movement of the sum costs, and the guarantee's mu."""
        m, mu = self.mechanism, self.learner.guarantee.mu
        if mu is not None and self._has_mu:
            spent = moved * m.factorisation.column(m.pushes) / m.scale
            yield "mu of the releases", spent, mu

    def person_changes(self, other: Play) -> Iterator[Change]:
        """Yield the movement by all rounds of a person together, after the sum's factorisation.

        `whitening_matrix` turns the noise of prefix sums into white noise. The length of the
        whitened movement bounds what all releases reveal, in any combination.
        """
        # As in the proof, we compare at equal releases what each record adds with what the old
        # record would have added.
        moved = np.array(other.notes["leaf"]) - np.array(other.notes["other"])
        m, guarantee = self.mechanism, self.learner.guarantee
        yield "the sum", max(self.size(row) for row in moved), self.sensitivity
        if guarantee.mu is None or not self._has_mu:
            return
        ends = self.ends(len(moved))[: m.pushes]
        pushed = np.array([moved[a:b].sum(axis=0) for a, b in pairwise([0, *ends])])
        white = whitening_matrix(m.factorisation, len(ends)) @ np.cumsum(pushed, axis=0)
        size, most = float(np.linalg.norm(white)), m.column(guarantee.neighbours)
        yield "all sums, by all rounds of a person", size, most * self.sensitivity
        yield "mu of the releases", size / m.scale, guarantee.mu


# ---- vectors that a learner is given, and totals of intervals ------------------------------------


class Vectors(Sums):
    """Sums of clipped vectors that a learner receives; every sum is released.

    On one tape the noise is equal, so releases differ like the sums: from the round of the record
    on, by the movement of its leaf, and by nothing else.
    """

    needs = ("variates_drawn",)

    def leaf(self, learner: Learner, decision: Decision, record: Record) -> FloatArray:
        """Return the vector, scaled to its bound if it is longer; zero if it is not finite."""
        vector, row = self.mechanism.summand, record[0]
        largest = float(np.abs(row).max())
        if not np.all(np.isfinite(row)) or largest == 0.0:
            return np.zeros_like(row)
        # The norm of the unscaled row would overflow for entries of 1e300.
        size = largest * _core.norm(np.ascontiguousarray(row / largest), vector.norm)
        inside: FloatArray = (row / largest) * (vector.bound / (size / largest))
        return row if size <= vector.bound else inside

    def exact(self, learner: Learner) -> FloatArray:
        """Return zeros, because the engine shows releases and no sum without noise."""
        return np.zeros(self.mechanism.summand.size)

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Note the release; every noisy release must draw."""
        play.note(released=answer)
        return int(self.mechanism.scale > 0.0)

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        """Yield nothing, because `compare` checks all releases."""
        yield from ()

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield releases that differ by anything but the leaves' prefix sums."""
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
            yield self.unexplained if late else "an earlier sum depends on a later record"


class Intervals(Vectors):
    """Totals of intervals, by the statistics' definitions; their running sums are released.

    A round is an interval. Its record is a matrix with one row per record of one person.
    """

    unexplained = "what is released is not the sum of what records add by definition"

    @cached_property
    def sensitivity(self) -> float:
        """Bound on one person's movement of an interval's total; entries of records are rounded."""
        most, m = super().sensitivity, self.mechanism
        # Rounding moves an entry by at most half a step, for both records if one replaces the
        # other.
        sides = 1.0 if self.relation == "replace" else 0.5
        rounding: float = sides * m.summand.records * math.sqrt(m.summand.size) * m.grid
        return most + rounding

    def is_empty(self, record: Record) -> bool:
        """Return whether the interval has no record of the person."""
        return len(present(record[0])) == 0

    def check_records(self, old: Record, new: Record) -> None:
        """Raise if an interval's record became a different one under relation "zero_out"."""
        if self.relation != "zero_out":
            return
        changed = ~np.all((old[0] == new[0]) | (np.isnan(old[0]) & np.isnan(new[0])), axis=1)
        if np.any((old[0][changed, 0] > 0.0) & (new[0][changed, 0] > 0.0)):
            raise ValueError(
                "no neighbours under relation 'zero_out': records may be there or not, not differ"
            )

    def replaces(self, old: Record, new: Record) -> bool:
        """Return whether an interval may replace another: any may become empty, or be filled."""
        return self.is_empty(old) or self.is_empty(new) or super().replaces(old, new)

    def leaf(self, learner: Learner, decision: Decision, record: Record) -> FloatArray:
        """Return the total of an interval's records by the definition of each statistic.

        Cells are arranged block by block, and within a block group by group. Every entry is rounded
        to the grid separately, as in the monitor, before it is added.
        """
        layout: Layout = self.learner._layout
        grid, total = self.grid or layout.grid, np.zeros(self.mechanism.summand.size)
        for row in present(record[0]):
            numbers, codes = row[1 : 1 + len(layout.columns)], row[1 + len(layout.columns) :]
            group = start = 0
            for (_, public), code in zip(layout.by, codes, strict=True):
                known = code in range(len(public))
                group = group * (len(public) + 1) + (int(code) if known else len(public))
            units = self.mechanism.summand.units
            for (block, _, at), unit in zip(layout.blocks, units, strict=True):
                x = float(numbers[at]) if block.entry != "one" else 0.0
                values = layout.columns[at].values if block.entry == "code" else None
                cell, share = _entry(block, values, x)
                if cell is not None:
                    place = start + group * block.cells + cell
                    total[place] += float(np.rint(unit * share / grid)) * grid
                start += block.cells * len(layout.groups)
        return total


def _entry(block: Block, values: Record | None, x: float) -> tuple[int | None, float]:
    """Return the cell of a group that a record changes, if any, and the change in units.

    Parameters
    ----------
    block : Block
        Part of a statistic in each group: its kind of entry, cells, scale and edges.
    values : tuple or None
        Public values of a column of codes; None for other columns.
    x : float
        The record's number in the block's column.
    """
    if block.entry == "one":
        return 0, 1.0
    if values is not None:  # all codes but NaN stand for a value, public or not
        known = int(x) if x in range(len(values)) else len(values)
        return (None if math.isnan(x) else known), 1.0
    if not math.isfinite(x):
        return None, 0.0
    if block.entry == "present":
        return 0, 1.0
    if block.entry == "value":
        low, high, middle, half = block.scale
        return 0, min(max((min(max(x, low), high) - middle) / half, -1.0), 1.0)
    if block.entry == "bin":
        return sum(edge <= x for edge in block.edges), 1.0
    return (int(x) if x in range(block.cells) else None), 1.0


# ---- records at decisions, and losses ------------------------------------------------------------


class Records(Sums):
    """Sums of what records add at decisions: gradients, curvatures, second moments."""

    shows = "last_decision"
    _decisions: tuple[FloatArray, FloatArray]  # of the previous and of the current batch

    def decide(self, learner: Learner, record: Record) -> Decision:
        """Return the round's decision, and store the decisions of this and the previous batch."""
        decision, t = learner.decide(), learner.round
        if self.is_batch_end(t):  # some leaves are also taken at the previous decision
            self._decisions = self._decisions[1] if t > 0 else decision, decision
        return decision

    def leaf(self, learner: Learner, decision: Decision, record: Record) -> FloatArray:
        """Return a gradient or second moments; other leaves come from the engine's function.

        Linear losses and second moments are computed from their definitions here. Gradients and
        curvatures of other losses come from the engine, which is called as a function of decision
        and record, so that nothing else can affect them.
        """
        loss, row = learner.loss, record[0]
        norm = learner._domain.dual_exponent
        if isinstance(loss, LinearLoss):
            return clip_vector(row, loss.gradient_bound, norm, loss.gradient_bound_l2)
        summand = getattr(self.mechanism, "summand", None)
        if not isinstance(summand, SecondMoments):
            return np.array(learner._engine.leaf(decision, self._decisions[0], row, record[1]))
        own = clip_vector(row, loss.feature_bound, norm, loss.feature_bound_l2)
        label = float(np.clip(record[1], -loss.label_bound, loss.label_bound))
        if not (np.isfinite(record[1]) and np.isfinite(row).all()):
            own, label = np.zeros_like(row), 0.0
        moments = quadratic_statistics(own, summand.weight * label)
        if not isinstance(summand, MomentsAndLoss):
            return moments
        played = min(loss.weight * (decision @ own - label) ** 2, summand.largest_loss)
        return np.append(moments, summand.loss_weight * played)

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        """Yield the end of the record's batch, if batches have several records."""
        if self.batch > 1 or self.growth is not None:
            yield from super().find_rounds_apart(base, other, at)


def clip_vector(row: FloatArray, bound: float, norm: float, bound_l2: float | None) -> FloatArray:
    """Return a vector as clipped by learners; zero if it is not finite.

    Parameters
    ----------
    row : ndarray, shape (d,)
    bound, norm : float
        Largest length, in the dual norm of the domain with this exponent.
    bound_l2 : float or None
        Largest Euclidean length, if that is also bounded.
    """
    clipper = _clipper(len(row), bound, norm, np.inf if bound_l2 is None else bound_l2)
    factor = clipper.multipliers(np.ascontiguousarray(row[None, :]))[0]
    return factor * row if factor > 0 else np.zeros_like(row)


@cache
def _clipper(dimension: int, bound: float, norm: float, bound_l2: float) -> _core.RecordClipper:
    """Return a compiled clipper, which is shared by all rounds of all runs."""
    return _core.RecordClipper(dimension, bound, norm, bound_l2)


def quadratic_statistics(row: FloatArray, weight: float) -> FloatArray:
    """Return the upper triangle of x x', off the diagonal times sqrt(2), and weight times x.

    It is computed by definition, not by the engine. Its norm is that of the matrix and the vector.
    """
    first, second, factors = triangle(len(row))
    return np.concatenate([row[first] * row[second] * factors, weight * row])


@cache
def triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
    """Return the indices of the upper triangle, with factors 1 on the diagonal, sqrt(2) off it."""
    first, second = np.triu_indices(size)
    return first, second, np.where(first == second, 1.0, math.sqrt(2.0))


class Losses(Sums):
    """Sums of losses of experts, or of points of a net, that determine weights.

    Weights follow from the released sums, and the decision is drawn by them. A draw is
    post-processing, so only the sums are compared.
    """

    shows = "weights"
    unexplained = "what enters the sum is not a function of the losses alone"

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return the decision and the law by which it was drawn, which is also public."""
        return decision, learner.weights.tobytes()

    def leaf(self, learner: Learner, decision: Decision, record: Record) -> FloatArray:
        """Return the losses as they are added, for any decision; zero in the last round."""
        leaf: FloatArray = np.array(learner._engine.leaf(record[0]))
        return leaf if self._enters(learner.round + 1) else np.zeros_like(leaf)

    def find_complete(self, learner: Learner, t: int, play: Play) -> slice | list[int]:
        """Return all rows of the sum if the round's losses enter it, otherwise none."""
        return slice(None) if self._enters(t + 1) else []

    def _enters(self, rounds: int) -> bool:
        """Return whether a round follows after so many rounds; the last affects nothing."""
        learner = self.learner
        return bool(rounds < learner.horizon and learner._engine.experts > 1)

    def count_fresh(self, learner: Learner, ended: bool) -> int:
        """Return two if a release is due: its noise, and the draw of the next decision."""
        return 2 * super().count_fresh(learner, ended)  # the next decision's variate is not noise

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        """Yield the last round."""
        # Leaves do not depend on decisions, so the distance of the sums is the same in all rounds.
        yield len(base.notes["sum"]) - 1


# ---- bandits -------------------------------------------------------------------------------------


class Actions(Sums):
    """Base of bandits: privacy is joint, because only the user sees the user's own action.

    Given equal releases, all later actions are equal, whatever the record was.
    """

    joint = True
    shows = "coefficients"
    _advised: Sequence[int] = ()  # actions for the contexts of this and of the other stream

    @cached_property
    @abstractmethod
    def forced(self) -> int:
        """Number of first rounds, in which the schedule decides whatever the context."""

    def decide(self, learner: Learner, record: Record) -> Decision:
        """Return the action; with another stream, first note the recommended actions."""
        if self.other is not None:
            contexts = [record[0], self.other.record(learner.round)[0]]
            self._advised = learner.recommend(np.array(contexts)).tolist()
        return super().decide(learner, record)

    def decide_other(self, decision: Decision) -> Decision:
        """Return the action for the other context, given the releases."""
        return self._advised[1]

    def before(self, learner: Learner, decision: Decision, record: Record, play: Play) -> None:
        """Note the leaves. The action must be recommended for its context, or scheduled."""
        if learner.round < self.forced:
            self._advised = (decision, decision)
        if self.other is not None and decision != self._advised[0]:
            play.findings.append("an action is not the one that is recommended")
        super().before(learner, decision, record, play)

    def admit(
        self, learner: Learner, decision: int, record: Record, norm: float
    ) -> tuple[FloatArray, float] | None:
        """Return context and reward as bounded by a bandit; None if they are not finite."""
        context, reward = record[0], record[1][decision]
        if not np.all(np.isfinite(context)) or not np.isfinite(reward):
            return None
        low, high = learner._reward_range()
        own = clip_vector(context, learner._context_bound(), norm, None)
        return own, min(max(float(reward), low), high)


class Statistics(Actions):
    """Statistics of all arms in one sum, whose noisy value others see.

    A record is added to the rows of the played arm.
    """

    unexplained = "what enters the sum is not a function of record and action alone"

    @cached_property
    def forced(self) -> int:
        """Rounds of the first batch for sums of residuals; 0 for others."""
        m = self.mechanism
        return m.batch if isinstance(m.summand, ResidualStatistics) else 0

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return the action and the noisy sums; others only see the sums."""
        return decision, learner._engine.released().tobytes()

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Also note the noisy statistics."""
        play.note(released=np.array(learner._engine.released()))
        return super().after(learner, t, answer, play)

    def leaf(self, learner: Learner, decision: Decision, record: Record) -> FloatArray:
        """Return moments of the context and the reward, in the rows of the played arm."""
        summand, found = self.mechanism.summand, self.admit(learner, decision, record, 2.0)
        if found is None:
            return np.zeros(summand.size)
        own, reward = found
        if isinstance(summand, ResidualStatistics):
            return residual_statistics(learner, summand, decision, own, reward)
        leaf: FloatArray = np.zeros((summand.arms, summand.size // summand.arms))
        leaf[decision] = quadratic_statistics(own, summand.weight * reward)
        return leaf.ravel()

    def find_complete(self, learner: Learner, t: int, play: Play) -> slice | list[int]:
        """Return all rows at the end of a batch, and none after the last round."""
        return super().find_complete(learner, t, play) if learner.round < learner.horizon else []

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        """Yield the end of the record's batch, if the batch's other actions are equal."""
        for t in super().find_rounds_apart(base, other, at):
            ours, theirs = ([arm for arm, _ in x.published[at + 1 : t + 1]] for x in (base, other))
            if t + 1 < self.learner.horizon and ours == theirs:
                yield t

    def find_release(self, base: Play, other: Play, at: int) -> int | None:
        """Return the first round at whose end a release contains the changed record, or None."""
        return next((end - 1 for end in self.ends(len(base.published)) if end > at), None)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield cases in which others see a record before the release that contains it."""
        # Within its batch, a record is not released to anyone.
        released = self.find_release(base, other, at)
        for t in range(at, len(base.published) if released is None else released + 1):
            if base.published[t][1] != other.published[t][1]:
                yield "an estimate depends on a record before it was released"
                return
            if t not in self.person_rounds and base.published[t] != other.published[t]:
                yield "an action depends on a record of its batch"
                return


def residual_statistics(
    learner: Learner, summand: ResidualStatistics, arm: int, context: FloatArray, reward: float
) -> FloatArray:
    """Return a bounded record's addition to sums of residuals, by definition; `clip` is released.

    Returns
    -------
    ndarray, shape (size,)
        Clipped residual times context, in the rows of the arm; moments of the context, once or in
        the arm's rows; the context, if means are needed; and a count of the residual's size, in
        bins that grow by sqrt(2).
    """
    units = context / summand.features
    residual = (reward - learner.coefficients[arm] @ context) / learner.clip
    vectors, bins = np.zeros((summand.arms, len(units))), np.zeros(summand.bins)
    vectors[arm] = np.clip(residual, -1.0, 1.0) * units
    edges = 2.0 ** (0.5 * np.arange(summand.bins - 1) - 3.0)
    bins[np.count_nonzero(abs(residual) > edges)] = summand.mark
    moments = summand.weight * quadratic_statistics(units, 0.0)[: math.comb(len(units) + 1, 2)]
    if summand.mean is None:
        return np.concatenate([vectors.ravel(), moments, bins])
    own = np.zeros((summand.arms, len(moments)))
    own[arm] = moments
    return np.concatenate([vectors.ravel(), own.ravel(), summand.mean * units, bins])


class Arms(Actions):
    """A learner and a clock for every arm. Privacy is joint: others see all estimates.

    An arm's learner is updated when its clock has counted a batch of rounds. Clocks are public:
    they count all rounds after the forced ones, and never depend on the chosen actions.
    """

    needs = ("clocks", "leaf", "nonprivate_sums", "variates_drawn")
    joins_rounds = False
    unexplained = "what enters an arm's sum is not a function of its records and estimates alone"

    @property
    def mechanism(self) -> Any:
        """The description of one arm's learner, which is the same for all arms."""
        return super().mechanism.parts[0]

    @property
    def tuning(self) -> Any:
        """The tuning of one arm's learner."""
        return super().tuning.arm

    @cached_property
    def forced(self) -> int:
        """First rounds, in which arms are pulled in turn, each as often as the description says."""
        learner: Learner = self.learner
        return min(learner.arms * int(learner._mechanism.forced), learner.horizon)

    def releases(self, rounds: int) -> dict[Part, NDArray[np.intp]]:
        """Return the rounds that end with an update of each arm: its clock ends a batch."""
        arms, each = np.arange(self.learner.arms), self.learner._mechanism.forced
        done = np.arange(rounds + 1)[:, None]
        clocks = np.clip(done - arms * each, 0, each) + np.maximum(done - self.forced, 0)
        due = (np.diff(clocks, axis=0) > 0) & (clocks[1:] % self.batch == 0)
        return {int(arm): np.flatnonzero(due[:, arm]) for arm in arms}

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return the action and the estimates of all arms."""
        return decision, learner._engine.coefficients().tobytes()

    def leaf(self, learner: Learner, decision: Decision, record: Record) -> FloatArray:
        """Return the gradient at the played arm's estimate, in its row; shape (K, d)."""
        leaf: FloatArray = np.zeros((learner.arms, learner.dimension))
        found = self.admit(learner, decision, record, np.inf)
        if found is not None:
            leaf[decision] = learner._engine.leaf(decision, *found)
        return leaf

    def exact(self, learner: Learner) -> FloatArray:
        """Return the sums of all arms without noise, shape (K, d)."""
        return np.array(learner._engine.nonprivate_sums()).reshape(learner.arms, -1)

    def start(self, learner: Learner, play: Play) -> None:
        """Also note the clocks, which are compared at the end."""
        super().start(learner, play)
        play.note(clocks=learner._engine.clocks())

    def find_complete(self, learner: Learner, t: int, play: Play) -> slice | list[int]:
        """Return the arms whose clock has just completed a batch."""
        before, now = play.notes["clocks"][-1], learner._engine.clocks()
        play.note(clocks=now)
        return [k for k in range(len(now)) if now[k] > before[k] and now[k] % self.batch == 0]

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movements of the arms' leaves, and of their sums when the batch is released."""
        yield from self._sizes(base, other, at, "leaf", at, 0.0)
        # The record as it was added, after all later records of the batch.
        released = self.find_release(base, other, at)
        if self.batch > 1 and released is not None:
            rounding = math.sqrt(self.learner.dimension) * self.grid
            yield from self._sizes(base, other, at, "sum", released, rounding)

    def _sizes(
        self, base: Play, other: Play, at: int, name: str, when: int, rest: float
    ) -> Iterator[Change]:
        """Yield the movement of each arm's row in a note.

        Parameters
        ----------
        base, other : Play
            See `changes`.
        at, when : int
            The changed round, and the round of the note.
        name : {"leaf", "sum"}
            Which note to compare.
        rest : float
            Allowance for the grid of the sums.
        """
        gap, moved = base.notes[name][when] - other.notes[name][when], self.sensitivity
        arms = {base.published[at][0], other.published[at][0]}
        sizes = np.array([self.size(row) for row in gap])
        if len(arms) == 1:
            yield "the sum of one arm", float(sizes.max()), moved + rest
        else:
            # One arm loses the record and another gets one, which is half of a replacement each.
            single = moved * (0.5 if self.relation == "replace" else 1.0)
            yield "the sums of two arms, each", float(sizes.max()), single + rest
        untouched = [k for k in range(len(sizes)) if k not in arms]
        if untouched:
            # The sums of two batches only differ by rounding.
            most = float(sizes[untouched].max())
            yield "the sums of other arms", most, ROUNDING * moved + rest
        yield from self.spend_mu(float(np.linalg.norm(gap)))

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield clocks, estimates or later actions that depend on a record too early."""
        if base.notes["clocks"] != other.notes["clocks"]:
            yield "an arm's clock depends on a record"
        released = self.find_release(base, other, at)
        end = len(base.published) if released is None else released + 1
        for t in range(at, len(base.published)):
            if base.published[t][1] != other.published[t][1]:
                if t < end:
                    yield "an estimate depends on a record before it was released"
                return
            # An observer of the estimates knows all actions except that of the changed round.
            if t > at and base.published[t][0] != other.published[t][0]:
                yield "an action depends on the record of another round"
                return

    def find_release(self, base: Play, other: Play, at: int) -> int | None:
        """Return the round in which the first arm that the record entered is updated."""
        clocks, ends = base.notes["clocks"], []
        for arm in {base.published[at][0], other.published[at][0]}:
            due = (clocks[at][arm] // self.batch + 1) * self.batch
            ends += [t for t in range(at, len(base.published)) if clocks[t + 1][arm] >= due][:1]
        return min(ends, default=None)


# ---- fits to whole data sets ---------------------------------------------------------------------


class Fits(Family):
    """A single release of the second moments of all records.

    A fit has no rounds. Its stream is the data set, and `at` is the index of a record.
    """

    needs = ()  # the engine belongs to one fit

    def rounds(self, stream: Stream) -> Rounds:
        """Return the data set, whose number of records must be the planned number."""
        rounds = super().rounds(stream)
        settle(self.learner, len(rounds))
        if self.learner.plan.mechanism.batch != len(rounds):
            raise ValueError(f"stream must have {self.learner.plan.mechanism.batch} records")
        return rounds

    def releases(self, rounds: int) -> dict[Part, NDArray[np.intp]]:
        """Return the single release, as if the data were one round."""
        return {...: np.zeros(1, dtype=np.intp)}

    def play(self, learner: Learner, rounds: Rounds) -> Play:
        """Add all records to an engine and release once; the model is a function of the release."""
        settle(learner, len(rounds))
        # The sum of the other stream is computed, but nothing of it is released.
        (engine, leaf), (_, other) = (
            _add_records(learner, each) for each in (rounds, self.other or rounds)
        )
        play = Play(published=[None], variates=[tuple(engine.variates_drawn())])
        play.note(leaf=leaf, other=other, released=np.array(engine.release()))
        play.variates.append(tuple(engine.variates_drawn()))
        # The number of draws of a fit depends on its dimension; with none there would be no noise.
        if learner.guarantee.private and sum(play.variates[-1]) == 0:
            play.findings.append("the fit drew no noise")
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movement of the moments in l2, and the mu that it costs."""
        m, mu = self.mechanism, self.learner.guarantee.mu
        moved = float(np.linalg.norm(base.notes["leaf"][0] - other.notes["leaf"][0]))
        yield "the sum", moved, m.reach(Neighbours())
        if mu is not None:
            yield "mu of the release", moved / m.scale, mu


def _add_records(learner: Learner, rounds: Rounds) -> tuple[Any, FloatArray]:
    """Return a new engine of a fit with all records, and its sum."""
    engine = learner._engine()
    engine.add(*rounds.parts)
    return engine, np.array(engine.nonprivate_sum())


def settle(learner: Learner, records: int) -> None:
    """Calibrate a learner that needs to know the number of records."""
    if learner._plan is None:
        learner._settle(learner._calibrate(records, learner._arguments["budget"]))


# ---- the noise of sums ---------------------------------------------------------------------------


def noise_map(factor: Factorisation, rounds: int) -> FloatArray:
    """Return the matrix from independent draws of scale 1 to the noise of the first sums.

    Shape (rounds, draws). It is computed from the definition of each factorisation, not by the
    engine.

    Parameters
    ----------
    factor : Factorisation
        Factorisation from the sum's description.
    rounds : int
        Number of releases, at least 1.
    """
    if isinstance(factor, Tree):
        return _tree_map(rounds)
    if isinstance(factor, Banded):
        band = np.zeros(max(rounds, factor.band))
        band[: factor.band] = factor.coefficients
        return _decoder(_lower_toeplitz(band[:rounds]) / factor.levels[:rounds])
    if not isinstance(factor, Buffered):
        steps = np.arange(1, rounds)
        # Coefficients of (1 - x)^(-1/2). The square of their Toeplitz matrix is that of prefix
        # sums.
        return _lower_toeplitz(np.cumprod(np.append(1.0, (2.0 * steps - 1.0) / (2.0 * steps))))
    # Each buffer decays geometrically, so the encoder's coefficients are weighted sums of powers.
    powers = (1.0 - np.array(factor.decay)) ** np.arange(max(rounds - 1, 0))[:, None]
    encoder = _lower_toeplitz(np.concatenate([[1.0], powers @ np.array(factor.weights)]))
    if isinstance(factor, Normalised):
        encoder = encoder / np.repeat(factor.levels, np.diff(factor.ends, prepend=0))[:rounds]
    return _decoder(encoder)


def _decoder(encoder: FloatArray) -> FloatArray:
    """Return the decoder of an encoder: the map from draws to the noise of prefix sums."""
    # The decoder is A C^-1, with A the matrix of prefix sums and C the encoder.
    sums = np.triu(np.ones(encoder.shape))
    return np.asarray(np.linalg.solve(encoder.T, sums).T, dtype=np.float64)


@cache
def whitening_matrix(factor: Factorisation, rounds: int) -> FloatArray:
    """Return the inverse of a lower-triangular L with L L' = M M', M the noise map.

    Shape (rounds, rounds). A tree has more draws than releases, so its map is not invertible.
    O(rounds^3), cached for each factorisation and length.
    """
    # Computed by a QR decomposition of M', because the condition number of M M' is that of M
    # squared.
    upper = np.asarray(np.linalg.qr(noise_map(factor, rounds).T, mode="r"))
    return np.linalg.inv(upper.T)


def _lower_toeplitz(first: FloatArray) -> FloatArray:
    """Return the lower-triangular Toeplitz matrix with this first column."""
    lags = np.subtract.outer(np.arange(len(first)), np.arange(len(first)))
    return np.where(lags >= 0, first[np.abs(lags)], 0.0)


def _tree_map(rounds: int) -> FloatArray:
    """Return the map of the binary tree: nodes as columns, the nodes of every prefix as rows."""
    top = rounds.bit_length()
    nodes = {
        node: k for k, node in enumerate((h, i) for h in range(top) for i in range(rounds >> h))
    }
    out: FloatArray = np.zeros((rounds, len(nodes)))
    for t in range(1, rounds + 1):
        # A prefix of t rounds is the union of one node for each bit of t.
        for h in (h for h in range(top) if t >> h & 1):
            out[t - 1, nodes[h, (t >> h) - 1]] = 1.0
    return out
