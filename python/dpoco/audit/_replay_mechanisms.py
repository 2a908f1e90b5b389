"""Replay of the mechanisms: continual sums, selections, threshold tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco._clipping import lp_norm
from dpoco._validation import float_array
from dpoco.audit._replay_base import (
    Change,
    Family,
    FloatArray,
    Play,
    Rounds,
    one_part,
    source_positions,
    words_of,
)
from dpoco.audit._replay_experts import granted
from dpoco.audit._replay_sums import add, grid_of, rounded, rounding_of, spent

__all__ = ["Selections", "Sums", "ThresholdTests", "clipped_vector", "sum_of"]


def sum_of(state: bytes, dimension: int) -> FloatArray:
    """Return the sum without noise that a continual sum's state holds, after its round."""
    values: FloatArray = words_of(state)[2 : 2 + dimension].view(np.float64).copy()
    return values


class Sums(Family):
    """ContinualSum: every vector enters the sum once, clipped."""

    def rounds(self, stream: Any) -> Rounds:
        d = self.learner.parameters.dimension
        return Rounds((float_array("stream", one_part("vectors", stream), (None, d)),))

    def play(self, learner: Any, rounds: Rounds) -> Play:
        p, play = learner.parameters, Play()
        play.variates.append(source_positions(learner._engine.state()))
        total = np.zeros(p.dimension)
        rest = np.zeros(p.dimension)
        grid = grid_of(learner)
        for (row,) in (rounds.record(t) for t in range(len(rounds))):
            released = learner.push(row)
            state = learner._engine.state()
            found = sum_of(state, p.dimension)
            leaf = clipped_vector(row, p.bound, p.norm)
            total, rest = add(rounded(leaf, grid), total, rest)
            # Our clipping may end on the other side of half a grid.
            slack = 1e-12 * p.bound + grid * (1 + len(play.published))
            if not np.allclose(total, found, rtol=1e-12, atol=slack):
                play.findings.append("what enters the sum is not the clipped vector alone")
                total, rest = found, np.zeros_like(found)
            play.published.append(None)
            play.note(sum=found, noise=released - found)
            play.variates.append(source_positions(state))
            play.fresh.append(p.noise_scale > 0.0)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        p = self.learner.parameters
        order = 2.0 if p.noise == "gaussian" else p.norm
        for t in range(at, len(base.notes["sum"])):
            gap = base.notes["sum"][t] - other.notes["sum"][t]
            moved = lp_norm(np.ascontiguousarray(gap), order)
            rounding = rounding_of(self.learner, p.dimension)
            yield "the sum", moved, p.sensitivity + rounding
            yield from spent(self.learner, moved, p.horizon)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        from dpoco.accounting.continual_sum import release_grid

        scale = self.learner.parameters.noise_scale
        tolerance = 2.0 * release_grid(scale) if scale > 0.0 else 1e-9
        for t, (a, b) in enumerate(zip(base.notes["noise"], other.notes["noise"], strict=True)):
            sums = base.notes["sum"][t], other.notes["sum"][t]
            if t < at and not np.array_equal(*sums):
                yield "an earlier sum depends on a later record"
                return
            if not np.all(np.abs(a - b) <= tolerance + 1e-12 * np.abs(sums[0])):
                yield "the noise depends on the record"
                return


def clipped_vector(row: FloatArray, bound: float, norm: float) -> FloatArray:
    """Return a vector scaled into its bound; zero if it is not finite."""
    if not np.all(np.isfinite(row)):
        return np.zeros_like(row)
    largest = float(np.abs(row).max())
    if largest == 0.0:
        return row
    size = largest * lp_norm(np.ascontiguousarray(row / largest), norm)
    return row if size <= bound else (row / largest) * (bound / (size / largest))


class _Answers(Family):
    """Base of mechanisms that hold nothing of the data: their state follows from their answers."""

    schedule = "published"
    first_affected = 0

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        # A mechanism that has raised its last alarm stops earlier.
        for t, (a, b) in enumerate(zip(base.notes["state"], other.notes["state"], strict=False)):
            if t > 0 and base.notes["state"][t - 1] != other.notes["state"][t - 1]:
                return
            if base.published[t] != other.published[t]:
                if t != at:
                    yield "an answer depends on the record of another round"
                return
            if a != b:
                yield "what the mechanism holds depends on more than its answers"
                return

    def _refuse(self, moved: float) -> None:
        if not moved <= self.learner.parameters.sensitivity * (1.0 + 1e-12):
            raise ValueError(
                "no neighbours: a replaced row moves a query by more than `sensitivity`, which is "
                "the caller's promise"
            )


class Selections(_Answers):
    """NoisyMax: the selected index and the public round determine the state."""

    def rounds(self, stream: Any) -> Rounds:
        n = self.learner.parameters.candidates
        return Rounds((float_array("stream", one_part("scores", stream), (None, n)),))

    def check_neighbours(self, old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
        super().check_neighbours(old, new)
        change = _finite(new[0]) - _finite(old[0])
        self._refuse(float(np.abs(change).max()))
        if self.learner.parameters.one_directional and change.max() > 0.0 > change.min():
            raise ValueError("no neighbours: scores move in both directions")

    def play(self, learner: Any, rounds: Rounds) -> Play:
        play = Play()
        play.variates.append(source_positions(learner._engine.state()))
        for t in range(len(rounds)):
            scores = rounds.record(t)[0]
            play.published.append(learner.select(scores))
            state = learner._engine.state()
            play.note(state=state, scores=_finite(scores))
            play.variates.append(source_positions(state))
            play.fresh.append(learner.parameters.private and learner.parameters.candidates > 1)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        p = self.learner.parameters
        change = base.notes["scores"][at] - other.notes["scores"][at]
        reach = float(max(change.max(), 0.0) - min(change.min(), 0.0))
        yield "the scores, range of their changes", reach, p.score_range
        # How far a selection can be moved, in units of what one selection was granted.
        spent = reach / p.scale if p.private else np.inf
        yield "the log odds of a selection", float(spent), self._granted()

    def _granted(self) -> float:
        return granted(self.learner.guarantee, self.learner.parameters.horizon)


class ThresholdTests(_Answers):
    """AboveThreshold: the answers and the threshold's one noise determine the state."""

    def rounds(self, stream: Any) -> Rounds:
        return Rounds((float_array("stream", one_part("excesses", stream), (None,)),))

    def check_neighbours(self, old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
        super().check_neighbours(old, new)
        self._refuse(abs(float(_finite(new[0]) - _finite(old[0]))))

    def play(self, learner: Any, rounds: Rounds) -> Play:
        play = Play()
        play.variates.append(source_positions(learner._engine.state()))
        for t in range(len(rounds)):
            if learner.alarms_left == 0:
                break
            value = float(rounds.record(t)[0])
            play.published.append(learner.test(value))
            state = learner._engine.state()
            play.note(state=state, value=float(_finite(np.float64(value))))
            play.variates.append(source_positions(state))
            play.fresh.append(learner.guarantee.private)
        if sum(play.published) > learner.parameters.alarms:
            play.findings.append("there are more alarms than were promised")
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        moved = 0.0
        if at < len(base.notes["value"]) and at < len(other.notes["value"]):
            moved = abs(base.notes["value"][at] - other.notes["value"][at])
        p = self.learner.parameters
        yield "the query", moved, p.sensitivity
        if self.learner.guarantee.private:
            # Of Theorem 1 of docs/privacy/shift_detector.md, for what moved.
            share = moved / p.sensitivity
            scales = p.threshold_noise_scale, p.query_noise_scale
            spent = share * (p.sensitivity / scales[0] + p.alarms * p.spread / scales[1])
            yield "the log odds of the answers", spent, self.learner.guarantee.epsilon_at(0.0)


def _finite(values: Any) -> Any:
    return np.where(np.isfinite(values), values, 0.0)
