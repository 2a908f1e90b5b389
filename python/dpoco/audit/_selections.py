"""Private selections and threshold tests: as mechanisms, of experts on epochs, and of ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray
from dpoco.accounting import Guarantee
from dpoco.accounting.shift_detector import bias
from dpoco.audit._family import (
    Change,
    Decision,
    Family,
    Learner,
    Play,
    Record,
    Rounds,
    Stream,
    admit,
    finite,
    ratio,
)
from dpoco.audit._laws import (
    FiniteScorer,
    Scorer,
    Scores,
    Transcript,
    answer_chances,
    selection_law,
)
from dpoco.audit._sums import whitening_matrix
from dpoco.privacy.mechanisms.range_search import RangeSearch
from dpoco.privacy.mechanisms.selections import Selections, ThresholdTests
from dpoco.random import Source
from dpoco.ranges.bins import ABSENT, EDGES, group_candidates, places

_GRID = 1e-12  # losses are rounded to multiples of 2^-46


def log_odds_cap(guarantee: Guarantee, selections: int) -> float:
    """Return the promised bound on the change of the log odds of one selection.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of all selections together.
    selections : int
        Number of selections that share it. A guarantee with a bounded range already states it for
        one selection.
    """
    profile = guarantee.profile or {}
    if profile.get("kind") == "bounded_range":
        return float(profile["range"])
    return float(guarantee.epsilon_at(0.0)) / selections


class _Answers(Family):
    """Base of mechanisms that store no data: their state follows from their answers.

    One record may change every query, so neighbours may differ in all rounds. After equal answers,
    the states must be equal to the byte, and the next answer may only depend on its own query.
    """

    schedule = "published"
    moves_all_rounds = True

    @cached_property
    def sensitivity(self) -> float:
        """Promised bound on the change of a query."""
        return float(getattr(self.mechanism, "scores", self.mechanism).sensitivity)

    def check_records(self, old: Record, new: Record) -> None:
        """Raise if a query changes by more than the caller promised, where nothing is claimed."""
        moved = np.abs(finite(new[0]) - finite(old[0])).max()
        # Differences of doubles may exceed the promise by a rounding error.
        if not moved <= self.sensitivity * (1.0 + 1e-12):
            raise ValueError(
                "no neighbours: a query moves by more than `sensitivity`, which is the caller's "
                "promise"
            )

    def play(self, learner: Learner, rounds: Rounds) -> Play:
        """Play all queries up to the last alarm, and note the state after each answer."""
        play = Play(variates=[self.count_variates(learner)])
        for record in (rounds.record(t) for t in range(len(rounds))):
            answer = self.observe(learner, None, record)
            if answer < 0:
                break
            play.published.append(answer)
            play.note(state=learner._engine.state(), query=finite(record[0]))
            play.variates.append(self.count_variates(learner))
            play.due.append(self.learner.guarantee.private)
        return play

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield answers, and states after equal answers, that depend on another round's record."""
        # A mechanism stops after its last alarm.
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


class Selected(_Answers):
    """Selections by promised scores; the indices and the public round determine the state."""

    def check_records(self, old: Record, new: Record) -> None:
        """Also raise if scores that were promised to move in one direction move in both."""
        super().check_records(old, new)
        change = finite(new[0]) - finite(old[0])
        if self.mechanism.scores.one_way and change.max() > 0.0 > change.min():
            raise ValueError("no neighbours: scores move in both directions")

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the range of the scores' changes, and the resulting change of the log odds."""
        m = self.mechanism
        change = base.notes["query"][at] - other.notes["query"][at]
        reach = float(max(change.max(), 0.0) - min(change.min(), 0.0))
        yield "the scores, range of their changes", reach, m.scores.range
        # Bound on the change of a selection, in units of the budget of one selection.
        cap = log_odds_cap(self.learner.guarantee, m.rounds)
        yield "the log odds of a selection", reach / m.scale, cap


class Tested(_Answers):
    """Threshold tests: the answers and the threshold's noise determine the state."""

    def check_streams(self, ours: Rounds, theirs: Rounds) -> None:
        """Raise if queries move farther apart, up and down, than the caller promised."""
        moved = finite(theirs.parts[0]) - finite(ours.parts[0])
        if np.ptp(np.append(moved, 0.0)) > self.mechanism.spread * (1.0 + 1e-12):
            raise ValueError(
                "no neighbours: queries are moved up and down by more than `spread` in all, which "
                "is the caller's promise"
            )

    def play(self, learner: Learner, rounds: Rounds) -> Play:
        """Play all queries; more alarms than the description allows are a finding."""
        play = super().play(learner, rounds)
        if sum(play.published) > self.mechanism.alarms:
            play.findings.append("there are more alarms than were promised")
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movement of the query, and the epsilon that it costs with the noise in use."""
        queries, moved = (base.notes["query"], other.notes["query"]), 0.0
        if at < min(len(each) for each in queries):
            moved = abs(float(queries[0][at] - queries[1][at]))
        m = self.mechanism
        yield "the query", moved, m.sensitivity
        if self.learner.guarantee.private:
            # Theorem 1 of docs/privacy/shift_detector.md, applied to this movement.
            each = m.sensitivity / m.threshold_scale + m.alarms * m.spread / m.query_scale
            spent = moved / m.sensitivity * each
            yield "the log odds of the answers", spent, self.learner.guarantee.epsilon_at(0.0)

    def facts(self) -> dict[str, bool]:
        """Return whether the last alarm was raised, after which the mechanism accepts no query."""
        return {"the cap on alarms": self.learner.alarms_left == 0}


class DrawnSelections(FiniteScorer):
    """Independent draws, one per row of scores."""

    def cells(self, transcript: Transcript, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the law of every row's selection, which does not depend on earlier selections."""
        m, scores = self.mechanism, finite(self.streams[world].parts[0])
        law = selection_law(m.law, scores if self.learner.plan.tuning.largest else -scores, m.scale)
        return law, np.array(transcript)


def answer_cells(
    excesses: FloatArray,
    answers: Sequence[int] | NDArray[np.int64],
    scales: tuple[float, float],
    noise: str,
) -> FloatArray:
    """Return the laws of answers (silence, alarm), each given the earlier answers; shape (T, 2).

    Parameters
    ----------
    excesses : ndarray, shape (T,)
        Queries minus the threshold, without noise.
    answers : sequence of int
        1 for an alarm, 0 for silence.
    scales : (float, float)
        Scales of the threshold's noise and of each query's noise.
    noise : {"exponential", "laplace"}
        Law of both noises.
    """
    asked = np.array(answers, dtype=np.int64)
    logs = answer_chances(excesses, asked > 0, scales, noise)
    chances = np.clip(np.exp(np.diff(logs, prepend=0.0)), 0.0, 1.0)
    return np.where(asked[:, None] == [0, 1], chances[:, None], 1.0 - chances[:, None])


class ThresholdAnswers(DrawnSelections):
    """Answers of tests, which share one threshold noise in each run."""

    def cells(self, transcript: Transcript, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the laws of the answers; after the last alarm, silence is certain."""
        m, rows = self.mechanism, self.streams[world].parts[0]
        asked = [answer for answer in transcript if answer >= 0]
        excesses = finite(rows[: len(asked)]) - self.learner.plan.tuning.margin
        scales = m.threshold_scale, m.query_scale
        cells = np.tile([1.0, 0.0], (len(transcript), 1))  # silence after the last alarm
        cells[: len(asked)] = answer_cells(excesses, asked, scales, m.law)
        return cells, np.maximum(transcript, 0)


# ---- selections of experts on epochs, with and without alarms ------------------------------------


def _count_selections(rounds: int, tuning: object) -> int:
    """Return the number of complete windows after so many rounds of an instance."""
    window: int = getattr(tuning, "window", rounds + 1)
    # Windows have 1, 2, 4, ... rounds as long as these are below `window`, and then that length.
    doubling = (window - 1).bit_length()
    grown = 2**doubling - 1
    if rounds <= grown:
        return (rounds + 1).bit_length() - 1
    return int(doubling + (rounds - grown) // window)


def _ends_epoch(rounds: int, tuning: object) -> bool:
    """Return whether an epoch, or a window, ends after so many rounds of an instance."""
    return _count_selections(rounds, tuning) > _count_selections(rounds - 1, tuning)


class Epochs(Family):
    """Selections of experts: the losses of an epoch enter the one selection at its end.

    An instance begins at the start and after each alarm. Its epochs double in length; those of a
    `WindowSelector` stop doubling at the window. Each epoch ends with one selection and then
    discards its losses.
    """

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return the decision and all alarms so far."""
        return decision, tuple(int(t) for t in getattr(learner, "alarms", ()))

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Note memory and sums of the epoch; a selection at an epoch's end must draw noise."""
        engine = learner._engine
        memory = engine.nonprivate_memory(), engine.variates_drawn()
        play.note(state=memory, sums=engine.nonprivate_sums())
        noisy = learner.guarantee.private and learner.experts > 1
        ended = _ends_epoch(t + 1, learner.plan.tuning)
        return int(noisy and ended and learner.round < learner.horizon)

    def _move_sums(self, base: Play, other: Play, t: int) -> tuple[Change, float]:
        """Return the distance of sums after round t, also in units of a selection's noise."""
        gap = base.notes["sums"][t] - other.notes["sums"][t]
        spent = ratio(float(np.ptp(gap)), self.mechanism.part(Selections).scale)
        return ("the sums of an epoch", float(np.abs(gap).max()), 1.0 + _GRID), spent

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movement of the sums of the record's epoch, and the cost of its selection."""
        found = self.learner.guarantee
        for t in range(at, len(base.notes["sums"])):
            change, spent = self._move_sums(base, other, t)
            yield change
            if found.private:  # a record is in one epoch, and so affects one selection
                yield "the log odds of a selection", spent, log_odds_cap(found, 1)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield differences in memory before the record, or after its epoch's selection."""
        p = self.learner.plan.tuning
        for t, (a, b) in enumerate(zip(base.notes["state"], other.notes["state"], strict=True)):
            over = _count_selections(t + 1, p) > _count_selections(at, p)
            if (t < at or over) and a != b:
                yield (
                    "a record is kept after the selection of its epoch"
                    if over
                    else "the state before it depends on a record"
                )
                return


class EpochsWithAlarms(Epochs):
    """Selections and alarms: a record is used by one test and discarded at the next alarm."""

    schedule = "published"

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Note alarms and the rows of the test statistic; every round with a test draws."""
        detects, engine = learner.experts > 1 and learner.horizon > 3, learner._engine
        super().after(learner, t, answer, play)
        play.note(decision=engine.decision(), alarms=tuple(learner.alarms))
        play.note(rows=engine.nonprivate_rows() if detects else np.zeros(1))
        return int(detects and learner.round < learner.horizon and learner.guarantee.private)

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movements of sums and test statistic, and the cost of selection and tests.

        Plays are compared up to the next alarm or difference, because later states follow from
        different answers.
        """
        alarmed = {t for play in (base, other) for t in play.notes["alarms"][-1]}
        found, parts = self.learner.guarantee, [0.0, 0.0]
        tests = self.mechanism.part(ThresholdTests)
        for t in range(at, len(base.notes["sums"])):
            if t in alarmed or base.published[: t + 1] != other.published[: t + 1]:
                break
            change, spent = self._move_sums(base, other, t)
            yield change
            parts[0] = max(parts[0], spent)
            a, b = base.notes["rows"][t], other.notes["rows"][t]
            if a.shape == b.shape:  # separately stored windows may have rows of other rounds
                seen = np.isfinite(a) & np.isfinite(b)
                moved = float(np.abs(a[seen] - b[seen]).max(initial=0.0))
                yield "the test statistic", moved, 2.0 + _GRID
                scales = tests.threshold_scale, tests.query_scale
                parts[1] = max(parts[1], sum(ratio(moved, scale) for scale in scales))
        if found.private:
            # A record affects one selection and the tests of one instance.
            yield "the log odds of selection and alarm", sum(parts), found.epsilon_at(0.0)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield differences in state before the record, or after the alarm that discards it."""
        ours, theirs = (
            list(zip(play.notes["state"], play.notes["decision"], strict=True))
            for play in (base, other)
        )
        for t, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if t < at and a != b:
                yield "the state before it depends on a record"
                return
            if base.published[: t + 2] != other.published[: t + 2]:
                return
            since = [
                [s for s in play.notes["alarms"][-1] if at <= s <= t] for play in (base, other)
            ]
            if since[0] and since[0] == since[1] and a != b:
                yield "a record is kept after the alarm that ended its instance"
                return

    def facts(self) -> dict[str, bool]:
        """Return whether there was an alarm; otherwise nothing was discarded early."""
        return {"alarms": len(self.learner.alarms) > 0}


def _window_statistic(
    gaps: FloatArray, allowances: FloatArray, offsets: FloatArray, slopes: FloatArray
) -> float:
    """Return the test statistic of an instance after its last round, by its definition.

    Parameters
    ----------
    gaps : ndarray, shape (n, N)
        Own loss minus that of every expert, oldest round first.
    allowances : ndarray, shape (n,)
        Bias allowance of the played expert.
    offsets, slopes : ndarray
        Allowance of a window for chance: the least of ``offsets + slopes * length``; without
        slopes, ``offsets[k]`` for aligned blocks of 2^k rounds.
    """
    rounds, worst = len(gaps), -np.inf
    lost = np.cumsum(gaps[::-1], axis=0).max(axis=1)  # windows of 1, 2, ... rounds that end now
    biases = np.cumsum(allowances[::-1])
    for length in range(1, rounds + 1):
        if len(slopes):
            allowed = float(np.min(offsets + slopes * length))
        else:
            k = length.bit_length() - 1
            if length != 1 << k or rounds % length or k >= len(offsets):
                continue
            allowed = float(offsets[k])
        worst = max(worst, float(lost[length - 1] - biases[length - 1]) - allowed)
    return worst


class EpochTranscripts(FiniteScorer):
    """All decisions and alarms of experts on epochs, computed from definitions."""

    family: Epochs

    def __init__(self, family: Epochs, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        learner = self.learner
        if learner.experts < 2 or learner.horizon < 2 or len(self.streams[0]) < 2:
            raise ValueError("stream must be long enough for a selection, of at least two experts")
        self._selection = self.mechanism.part(Selections)
        self._tests = self.mechanism.part(ThresholdTests)  # None if nothing is detected
        self._losses = [admit(learner, each.parts[0]) for each in self.streams]
        # The last round has no selection or test, because no round follows.
        self._rounds = min(len(self.streams[0]), learner.horizon - 1)

    def cells(self, transcript: Transcript, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the laws of all selections, followed by those of all tests; (2 * rounds, N).

        The tests of an instance share the threshold's noise, so their laws are computed together at
        the end of the instance.
        """
        # For every round: the next round's expert, and the answer of the test.
        decisions, (*_, alarms) = zip(*transcript, strict=True)
        losses, p = self._losses[world], self.learner.plan.tuning
        cells = np.zeros((2, self._rounds, losses.shape[1]))
        cells[1, :, 0] = 1.0
        chosen = np.zeros(cells.shape[:2], dtype=np.int64)
        chosen[0] = decisions[1 : self._rounds + 1]
        first, sums, excesses = 0, np.zeros(losses.shape[1]), []  # of the current instance
        for t in range(self._rounds):
            owners, alarm = np.array(decisions[first : t + 1]), t in alarms
            if self._tests is not None:
                excesses.append(self._excess(owners, losses[first : t + 1]))
            sums = sums + losses[t]
            # An alarm ends the instance before the selection of the same round.
            if _ends_epoch(len(owners), p) and not alarm:
                cells[0, t] = selection_law(self._selection.law, -sums, self._selection.scale)
                sums = np.zeros_like(sums)
            else:
                cells[0, t, decisions[t]] = 1.0
            if excesses and (alarm or t + 1 == self._rounds):
                chosen[1, t] = alarm
                scales = self._tests.threshold_scale, self._tests.query_scale
                own = slice(first, t + 1)
                cells[1, own, :2] = answer_cells(
                    np.array(excesses), chosen[1, own], scales, self._tests.law
                )
            if alarm:
                first, sums, excesses = t + 1, np.zeros_like(sums), []
        return cells.reshape(-1, cells.shape[2]), chosen.ravel()

    def _excess(self, owners: NDArray[np.int64], rows: FloatArray) -> float:
        """Return the test statistic of an instance minus its threshold, without noise.

        Parameters
        ----------
        owners : ndarray of int, shape (n,)
            The played expert in each of the instance's rounds.
        rows : ndarray, shape (n, N)
            Losses of all experts in these rounds.
        """
        plan, p = self.learner.plan, self.learner.plan.tuning
        gaps = rows[np.arange(len(rows)), owners][:, None] - rows
        # Number of rounds from which the expert of the instance's k-th round was selected.
        allowances = [bias(plan, (1 << k.bit_length() - 1) // 2) for k in range(1, len(rows) + 1)]
        offsets, slopes = p.window_lines()
        found = _window_statistic(gaps, np.array(allowances), np.array(offsets), np.array(slopes))
        return found - float(p.threshold * p.threshold_scale)


# ---- searches for ranges -------------------------------------------------------------------------


class Searches(Family):
    """Selections of medians, followed by prefix sums of counts.

    The places of values and the bins of counts are computed from their definitions.

    The search first draws a median of each column. Counts of bins around these medians are then a
    continual sum. At equal medians, records of the first phase must not affect the counts.
    """

    mechanism: RangeSearch

    def is_empty(self, record: Record) -> bool:
        """Return whether no column has a finite value; 0 counts as a value here."""
        return not np.any(np.isfinite(record[0]))

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Note the places of the first values before medians are drawn, and publish medians."""
        if t == self.mechanism.first - 2:  # the last place is computed in the round that draws
            play.memory["places"] = learner._values.copy()
        play.published.append(learner._centre.tobytes())
        return 0

    def finish(self, learner: Learner, play: Play) -> None:
        """Note medians and counts, and publish the ranges, if the search is complete."""
        play.note(centre=learner._centre.copy(), cells=learner._cells.copy())
        play.note(places=play.memory.get("places", learner._values))
        if learner.left == 0:
            play.published.append(learner.ranges.parts)

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the range of the medians' scores, and the length of the counts' movement."""
        own, sides = self.mechanism, 2.0 if self.relation == "replace" else 1.0
        if at < own.first:
            pairs = zip(base.notes["places"][0].T, other.notes["places"][0].T, strict=True)
            yield "scores of medians", max(_score_range(*pair) for pair in pairs), sides
        if np.array_equal(base.notes["centre"], other.notes["centre"], equal_nan=True):
            # At equal medians, only records for counts affect the counts.
            moved = _whiten(own, base.notes["cells"][0] - other.notes["cells"][0])
            length, columns = float(np.linalg.norm(moved)), own.counts.summand.size
            reach = own.counts.factorisation.column(own.counts.pushes) * np.sqrt(sides * columns)
            # Shorter movements are rounding errors of differences.
            seen = length if length > 1e-6 else 0.0
            yield "counts", seen, 0.0 if at < own.first else float(reach)


def _score_range(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> float:
    """Return the largest difference of log-probabilities of candidates, in units of the scale."""
    runs = [group_candidates(each) for each in (ours, theirs)]
    known = np.unique(np.concatenate([each.first[each.sizes > 0] for each in runs]))
    scores = []
    for each in runs:
        held = each.sizes > 0
        found = np.searchsorted(each.first[held], known, side="right") - 1
        scores.append(each.scores[held][found])
    return float(np.ptp(scores[0] - scores[1]))


def _whiten(own: RangeSearch, cells: FloatArray) -> FloatArray:
    """Return increments of prefix sums in the basis in which draws are independent."""
    factor, n = own.counts.factorisation, own.counts.pushes
    return whitening_matrix(factor, n) @ np.cumsum(cells[:n], axis=0)


# Privacy loss, uniforms, and normal variates of one run.
_Search = tuple[float, FloatArray, FloatArray]


class _MedianLaw(NamedTuple):
    """Law of a median: candidates between two values have equal scores and probabilities.

    Attributes
    ----------
    first : ndarray of int64, shape (n,)
        First candidate of each run of equal probabilities.
    chances, below : ndarray of float64, shape (n,)
        Probability of each candidate of a run, and of all candidates before the run.
    """

    first: NDArray[np.int64]
    chances: FloatArray
    below: FloatArray

    def find(self, place: int) -> int:
        """Return the run that contains a candidate."""
        return int(np.searchsorted(self.first, place, side="right")) - 1


class DrawnRanges(Scorer):
    """A search's medians, and its noisy counts minus the counts."""

    family: Searches

    def __init__(self, family: Searches, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        if len(self.streams[0]) != self.mechanism.longest:
            raise ValueError("stream must have all records of the search")
        self._searched = np.array([each is None for each in self.learner._known])
        rows = (each.parts[0][: self.mechanism.first, self._searched] for each in self.streams)
        self._laws = [[self._law(places(column)) for column in each.T] for each in rows]

    def run(self, learner: Learner, world: int, tape: Source) -> _Search:
        """Return the privacy loss of a search, uniforms of its medians, and draws of its counts."""
        learner.run(self.streams[world].parts[0])
        loss, uniforms, first = 0.0, [], self.mechanism.first
        if first:
            laws = (self._laws[w] for w in (world, 1 - world))
            drawn = places(learner._centre[self._searched])
            for place, own, other in zip(drawn, *laws, strict=True):
                at = own.find(place)
                loss += float(np.log(own.chances[at] / other.chances[other.find(place)]))
                uniforms.append(own.below[at] + own.chances[at] * (place - own.first[at] + 0.5))
        draws = [self._draws(learner, each.parts[0][first:]) for each in self.streams]
        loss += float(np.square(draws[1 - world]).sum() - np.square(draws[world]).sum()) / 2.0
        return loss, np.array(uniforms), draws[world]

    def _law(self, values: NDArray[np.int64]) -> _MedianLaw:
        """Return the law of a median of values at these places."""
        runs = group_candidates(np.where(values >= ABSENT, ABSENT, values))
        held = runs.sizes > 0
        sizes, scores = runs.sizes[held].astype(float), runs.scores[held] / self.mechanism.scale
        weights = np.exp(scores - scores.max())
        masses = sizes * weights / (sizes @ weights)
        return _MedianLaw(runs.first[held], masses / sizes, np.cumsum(masses) - masses)

    def _draws(self, learner: Learner, rows: FloatArray) -> FloatArray:
        """Return the standard normal draws behind the counts, assuming these records."""
        # Infinite values are not records, and the next line excludes them.
        with np.errstate(all="ignore"):
            away = rows - learner._centre
        present = np.isfinite(rows) & np.isfinite(away)
        counts = np.zeros_like(learner._cells)
        for column in range(rows.shape[1]):
            bins = np.searchsorted(EDGES, away[present[:, column], column])
            counts[:, column] = np.bincount(bins, minlength=len(counts))
        whole = _whiten(self.mechanism, learner._cells - counts)
        return whole / float(self.mechanism.counts.scale)

    def score(self, runs: list[_Search], world: int) -> Scores:
        """Return the scores. Medians and counts draw separately, so their losses add up."""
        from scipy.special import ndtr

        losses, medians, draws = (np.array(each) for each in zip(*runs, strict=True))
        flat = ndtr(draws).reshape(len(runs), -1)
        return Scores(losses, np.concatenate([medians, flat], axis=1))
