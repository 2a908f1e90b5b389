"""Replay of the learners of records whose data enter one sum, alone or in batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from dpoco._clipping import lp_norm, record_multipliers
from dpoco._validation import float_array
from dpoco.audit._replay_base import (
    ROUNDING,
    Change,
    Family,
    FloatArray,
    Play,
    Rounds,
    one_part,
    positions,
    two_parts,
)
from dpoco.domains import Simplex, VertexSet
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.losses import GlmLoss, LinearLoss

__all__ = [
    "SumOfRecords",
    "add",
    "leaf_of",
    "quadratic_statistics",
    "record_rounds",
    "spent",
]


def record_rounds(learner: Any, stream: Any) -> Rounds:
    """Return a stream of features and labels, or of gradients."""
    d = learner.domain.dimension
    if isinstance(learner.loss, LinearLoss):
        return Rounds((float_array("stream", one_part("gradients", stream), (None, d)),))
    if not isinstance(learner.loss, GlmLoss):
        raise TypeError("a custom loss has no records to replace")
    features, labels = two_parts("features and labels", stream)
    rows = float_array("features", features, (None, d))
    return Rounds((rows, float_array("labels", labels, (rows.shape[0],))))


def add(leaf: FloatArray, total: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sum with a leaf added and what rounding lost of it, as the engines add."""
    own = leaf + rest
    after = total + own
    added = after - total
    return after, (total - (after - added)) + (own - added)


def grid_of(learner: Any) -> float:
    """Return the lattice that what is added to the learner's sum is rounded to; 0 for none."""
    return float(getattr(getattr(learner, "_mechanism", None), "grid", 0.0))


def rounding_of(learner: Any, entries: int) -> float:
    """Return by how much rounding to the lattice may move two vectors apart."""
    return math.sqrt(entries) * grid_of(learner)


def rounded(leaf: FloatArray, grid: float) -> FloatArray:
    """Return a leaf as it enters a sum on a lattice."""
    return np.rint(leaf / grid) * grid if grid > 0.0 else leaf


def spent(learner: Any, moved: float, pushes: int) -> Iterator[Change]:
    """Yield the mu that a movement of a continual sum spends, and the guarantee's."""
    from dpoco.accounting.continual_sum import column_norm

    p, mu = learner.parameters, learner.guarantee.mu
    method = getattr(p, "sum_method", getattr(p, "method", None))
    if mu is None or method is None or getattr(p, "noise", "gaussian") != "gaussian":
        return
    yield "mu of the releases", moved * column_norm(method, pushes) / p.noise_scale, mu


class SumOfRecords(Family):
    """TreeFrankWolfe, PolyhedralFrankWolfe and NoisyFTRL."""

    def rounds(self, stream: Any) -> Rounds:
        return record_rounds(self.learner, stream)

    def play(self, learner: Any, rounds: Rounds) -> Play:
        engine, batch, play = learner._engine, learner.parameters.batch, Play()
        grid = grid_of(learner)
        total = np.zeros_like(engine.nonprivate_sum())
        rest, pending = np.zeros_like(total), np.zeros_like(total)
        previous = learner.decide()
        play.variates.append(positions(learner))
        noisy = learner.guarantee.private and _draws(learner)
        for t in range(len(rounds)):
            record = rounds.record(t)
            decision = learner.decide()
            before = previous if batch == 1 else _previous(engine, decision)
            play.published.append(decision.tobytes())
            leaf = _leaf(learner, decision, before, *record)
            pending = pending + leaf
            learner.observe(record[0], *(float(y) for y in record[1:]))
            previous = decision
            ends = (t + 1) % batch == 0
            if ends:
                total, rest = add(rounded(pending, grid), total, rest)
                pending = np.zeros_like(total)
            found = np.array(engine.nonprivate_sum())
            # In a batch other roundings than ours may end on the other side of half a grid.
            slack = grid * (t + 1) if batch > 1 or _is_quadratic(learner) else 0.0
            if not _equal(total, found, batch, learner, slack):
                play.findings.append(
                    "what enters the sum is not a function of record and decisions alone"
                )
                total, rest = found, np.zeros_like(found)
            play.note(leaf=leaf, sum=found)
            play.variates.append(positions(learner))
            play.fresh.append(ends and noisy)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        declared = self.learner.parameters.sensitivity
        moved = base.notes["leaf"][at] - other.notes["leaf"][at]
        yield "the sum", self._size(moved), declared
        yield from spent(self.learner, self._size(moved), self._pushes)
        rest = rounding_of(self.learner, moved.size)
        # In batches: as it was added, after all later records of the batch were.
        end = at + self.learner.parameters.batch - at % self.learner.parameters.batch
        if self.learner.parameters.batch > 1 and end <= len(base.notes["sum"]):
            moved = base.notes["sum"][end - 1] - other.notes["sum"][end - 1]
            yield "the sum", self._size(moved), declared + rest
            yield from spent(self.learner, self._size(moved), self._pushes)

    @property
    def _pushes(self) -> int:
        return int(getattr(self.learner.parameters, "pushes", 0))

    def _size(self, change: FloatArray) -> float:
        """Return the size of a change, in the norm the sensitivity is stated in."""
        learner = self.learner
        if isinstance(learner, PolyhedralFrankWolfe):
            order = np.inf
        else:
            order = 2.0 if learner.parameters.noise == "gaussian" else learner.domain.dual_exponent
        return lp_norm(np.ascontiguousarray(change), order)


def _draws(learner: Any) -> bool:
    """Whether there is anything to draw: one vertex is no choice."""
    if not isinstance(learner, PolyhedralFrankWolfe):
        return True
    domain = learner.domain
    if isinstance(domain, VertexSet):
        return len(domain.vertices) > 1
    return not (isinstance(domain, Simplex) and domain.dimension == 1)


def _previous(engine: Any, decision: FloatArray) -> FloatArray:
    """Return the decision of the batch before, which some leaves are taken at, too."""
    known = getattr(engine, "previous_decision", None)
    previous: FloatArray = decision if known is None else known()
    return previous


def _is_quadratic(learner: Any) -> bool:
    return getattr(learner.parameters, "statistics", "gradient") == "quadratic"


def _equal(
    total: FloatArray, found: FloatArray, batch: int, learner: Any, slack: float = 0.0
) -> bool:
    if batch == 1 and not _is_quadratic(learner):
        return bool(np.array_equal(total, found))
    # The engine adds a batch's leaves in another order of roundings, and shortens statistics.
    scale = max(float(np.abs(found).max()), learner.parameters.sensitivity)
    return bool(np.all(np.abs(total - found) <= ROUNDING * scale + slack))


def quadratic_statistics(row: FloatArray, weight: float) -> FloatArray:
    """Return the upper triangle of x x', off the diagonal times sqrt(2), and weight times x.

    By definition, not by the engine: its norm is that of the matrix and the vector.
    """
    first, second, factors = _triangle(len(row))
    return np.concatenate([row[first] * row[second] * factors, weight * row])


@cache
def _triangle(size: int) -> tuple[Any, Any, FloatArray]:
    first, second = np.triu_indices(size)
    return first, second, np.where(first == second, 1.0, math.sqrt(2.0))


def leaf_of(learner: Any, decision: Any, *record: Any) -> FloatArray:
    """Return what a record adds in the learner's current round, in which it decided `decision`."""
    engine = learner._engine
    if isinstance(learner, ExpertLearner):  # of losses, which are no function of decisions
        leaf: FloatArray = np.array(engine.leaf(record[0]))
        return leaf
    return _leaf(learner, decision, _previous(engine, decision), *record)


def _leaf(
    learner: Any,
    decision: FloatArray,
    previous: FloatArray,
    row: FloatArray,
    label: float | None = None,
) -> FloatArray:
    """Return what the record adds at the given decisions: the learner's rule, without state."""
    loss = learner.loss
    if _is_quadratic(learner):
        if label is None or not np.isfinite(label):
            return quadratic_statistics(np.zeros_like(row), 0.0)
        bounds = loss.feature_bound, loss._l2
        multiplier = record_multipliers(learner._domain, row[None, :], *bounds)[0]
        own = multiplier * row if multiplier > 0 else np.zeros_like(row)
        answer = np.clip(label, -loss.label_bound, loss.label_bound)
        return quadratic_statistics(own, learner.parameters.vector_scale * answer)
    if not isinstance(loss, LinearLoss):
        leaf: FloatArray = learner._engine.leaf(decision, previous, row, label)
        return leaf
    bounds = loss.gradient_bound, loss.gradient_bound_l2
    multiplier = record_multipliers(learner._domain, row[None, :], *bounds)[0]
    return multiplier * row if multiplier > 0 else np.zeros_like(row)
