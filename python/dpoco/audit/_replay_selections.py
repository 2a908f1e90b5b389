"""Replay of the learners of experts that select or draw: by epochs, with alarms, with coins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco.audit._replay_base import Change, FloatArray, Play, Rounds, positions, words_of
from dpoco.audit._replay_experts import ExpertFamily, granted, ratio

__all__ = ["Epochs", "EpochsWithAlarms", "Tracker"]

# Words of an expert learner's state: round, decision, count of clipped losses, then the source's.
_DECISION, _VIOLATIONS, _OWN = 1, 2, 14
_GRID = 1e-12  # losses are rounded to multiples of 2^-46


class _State:
    """What a learner by epochs holds: everything but the count of clipped losses."""

    def __init__(self, learner: Any) -> None:
        words = words_of(learner._engine.state()).copy()
        words[_VIOLATIONS] = 0  # of raw data, and read by nobody
        self.whole = words.tobytes()
        words[_DECISION] = 0
        self.but_decision = words.tobytes()
        self._words, self._at = words, _OWN

    def word(self) -> int:
        self._at += 1
        return int(self._words[self._at - 1])

    def reals(self) -> FloatArray:
        n = self.word()
        self._at += n
        values: FloatArray = self._words[self._at - n : self._at].view(np.float64)
        return values

    def sums(self) -> FloatArray:
        """Return the losses of an instance's epoch: rounds, rounds since a carry, two parts."""
        self.word()
        self.word()
        return self.reals() + self.reals()


class Epochs(ExpertFamily):
    """EpochSelector: losses of an epoch enter the one selection at its end."""

    def play(self, learner: Any, rounds: Rounds) -> Play:
        play = Play()
        self.start(learner, play)
        for t in range(len(rounds)):
            play.published.append(self.publication(learner))
            learner.observe(rounds.record(t)[0])
            state = _State(learner)
            last = learner.round == learner.horizon
            play.note(state=state.but_decision, sums=state.sums())
            play.variates.append(positions(learner))
            private = learner.guarantee.private and learner.experts > 1
            play.fresh.append(_ends_epoch(t + 1) and private and not last)
        self.finish(learner, play)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        p = self.learner.parameters
        for t in range(at, len(base.notes["sums"])):
            gap = base.notes["sums"][t] - other.notes["sums"][t]
            yield "the sums of an epoch", float(np.abs(gap).max()), 1.0 + _GRID
            if self.learner.guarantee.private:
                # A record is in one epoch, and so in one selection.
                moved, allowed = ratio(_reach(gap), p.scale), granted(self.learner.guarantee, 1)
                yield "the log odds of a selection", moved, allowed

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        for t, (a, b) in enumerate(zip(base.notes["state"], other.notes["state"], strict=True)):
            # An epoch ends where its rounds are one less than a power of two.
            over = (at + 2).bit_length() < (t + 2).bit_length() or (
                (at + 2).bit_length() == (t + 2).bit_length() and _ends_epoch(at + 1)
            )
            if t < at and a != b:
                yield "the state before it depends on a record"
                return
            if over and a != b:
                yield "a record is kept after the selection of its epoch"
                return


def _reach(gap: FloatArray) -> float:
    """Return the range of the changes of the sums of all experts."""
    return float(gap.max() - gap.min())


def _ends_epoch(rounds: int) -> bool:
    """Whether an epoch ends after so many rounds of an instance."""
    return (rounds + 1).bit_count() == 1


class EpochsWithAlarms(ExpertFamily):
    """ShiftDetector: a record is forgotten at the next alarm, and seen by one test until then."""

    schedule = "published"

    def publication(self, learner: Any) -> Any:
        return int(learner.decide()), tuple(int(t) for t in learner.alarms)

    def play(self, learner: Any, rounds: Rounds) -> Play:
        play = Play()
        self.start(learner, play)
        detects = learner.experts > 1 and learner.horizon > 3
        for t in range(len(rounds)):
            play.published.append(self.publication(learner))
            learner.observe(rounds.record(t)[0])
            state = _State(learner)
            for _ in range(state.word()):
                state.word()
            sums = state.sums()
            rows = np.zeros(1)
            if detects:
                state.word()
                rows = state.reals().copy()
            play.note(state=state.whole, sums=sums, rows=rows)
            play.variates.append(positions(learner))
            tested = detects and learner.round < learner.horizon
            play.fresh.append(tested and learner.guarantee.private)
        play.note(alarms=[int(t) for t in learner.alarms])
        self.finish(learner, play)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        alarmed = {t for play in (base, other) for t in play.notes["alarms"][0]}
        p, found, parts = self.learner.parameters, self.learner.guarantee, [0.0, 0.0]
        for t in range(at, len(base.notes["sums"])):
            if t in alarmed or base.published[: t + 1] != other.published[: t + 1]:
                break
            gap = base.notes["sums"][t] - other.notes["sums"][t]
            yield "the sums of an epoch", float(np.abs(gap).max()), 1.0 + _GRID
            parts[0] = max(parts[0], ratio(_reach(gap), p.selection_scale))
            a, b = base.notes["rows"][t], other.notes["rows"][t]
            if a.shape == b.shape:  # windows kept one by one have rows of other rounds
                seen = np.isfinite(a) & np.isfinite(b)
                moved = np.abs(a[seen] - b[seen]).max() if seen.any() else 0.0
                yield "the test statistic", float(moved), 2.0 + _GRID
                scales = p.threshold_noise_scale, p.query_noise_scale
                parts[1] = max(parts[1], sum(ratio(float(moved), scale) for scale in scales))
        if found.private:
            # A record is in one selection and in the tests of one instance.
            yield "the log odds of selection and alarm", sum(parts), found.epsilon_at(0.0)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        for t, (a, b) in enumerate(zip(base.notes["state"], other.notes["state"], strict=True)):
            if t < at and a != b:
                yield "the state before it depends on a record"
                return
            if base.published[: t + 2] != other.published[: t + 2]:
                return
            alarms = [s for s in base.notes["alarms"][0] if at <= s <= t]
            if (
                alarms
                and alarms == [s for s in other.notes["alarms"][0] if at <= s <= t]
                and a != b
            ):
                yield "a record is kept after the alarm that ended its instance"
                return


class Tracker(ExpertFamily):
    """ObliviousTracker: a record moves one coin and the law of later fresh draws."""

    schedule = "published"

    def publication(self, learner: Any) -> Any:
        return int(learner.decide()), int(learner.resamples)

    def play(self, learner: Any, rounds: Rounds) -> Play:
        engine, play = learner._engine, Play()
        self.start(learner, play)
        low, high = learner._loss_range
        for t in range(len(rounds)):
            play.published.append(self.publication(learner))
            row = rounds.record(t)[0]
            admitted = np.where(np.isfinite(row), np.clip((row - low) / (high - low), 0, 1), 0.0)
            keep, law, _ = engine.nonprivate_kernel(admitted)
            play.note(keep=float(keep), law=np.array(law), state=engine.nonprivate_state())
            play.note(lost=float(admitted[play.published[-1][0]]))
            learner.observe(row)
            play.variates.append(positions(learner))
            ends = (t + 1) % learner.parameters.batch == 0
            more = learner.round < learner.horizon and learner.experts > 1
            cap = learner.parameters.max_resamples
            left = cap is None or play.published[-1][1] < cap
            play.fresh.append(ends and more and left and learner.guarantee.private)
        self.finish(learner, play)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        promised = self._promised()
        rate, batch = promised["learning_rate"], promised["batch"]
        for t in range(len(base.notes["keep"])):
            same = base.published[: t + 1] == other.published[: t + 1]
            if not same or base.notes["state"][t] != other.notes["state"][t]:
                return
            pairs = base.notes["keep"][t], other.notes["keep"][t]
            moved = abs(float(np.diff(np.log(pairs))[0])) if min(pairs) > 0.0 else 0.0
            # Only the coin of the batch that the record lies in may know it.
            own = at // batch == t // batch and t >= at
            name = "the coin of its batch" if own else "coins of other batches"
            yield name, moved, rate if own else rate * 1e-9
            if t >= at:
                with np.errstate(divide="ignore", invalid="ignore"):
                    change = np.log(base.notes["law"][t]) - np.log(other.notes["law"][t])
                seen = change[np.isfinite(change)]
                reach = float(seen.max() - seen.min()) if seen.size else 0.0
                yield "the law of fresh draws, range of its logarithm", reach, 2.0 * rate

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        promised = self._promised()
        for play in (base, other):
            if not self._stays(play) <= (1.0 - promised["forced_switch"]) * (1.0 + 1e-9):
                # The odds of a switch are bounded by the least chance of one.
                yield "a coin stays with a larger chance than was promised"
            cap = promised["max_resamples"]
            if cap is not None and play.published[-1][1] > cap:
                yield "there are more fresh draws than were promised"

    def _stays(self, play: Play) -> float:
        """Return the largest chance to stay if nothing were lost."""
        p, most = self.learner.parameters, 0.0
        for t, due in enumerate(play.fresh):
            if due:
                lost = sum(play.notes["lost"][t + 1 - p.batch : t + 1])
                most = max(most, play.notes["keep"][t] * float(np.exp(p.learning_rate * lost)))
        return most

    def _promised(self) -> dict[str, Any]:
        """Return rate and coins that the guarantee is about, whatever is in use."""
        p, profile = vars(self.learner.parameters), self.learner.guarantee.profile or {}
        rate = min(p["learning_rate"], profile.get("learning_rate", np.inf))
        return {**p, **profile, "learning_rate": rate}
