"""How learners are played and observed: records, rounds, and rules for a kind of mechanism.

`Playing` knows which calls make a round. A `Family` plays a learner round by round, records a
`Play`, and computes how far two plays are apart. `dpoco.audit._kinds` finds the family of a learner
by the description of its guarantee. So a new learner with a known kind of mechanism needs no new
family.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any, ClassVar, Protocol

import numpy as np

from dpoco import learners
from dpoco._validation import FloatArray, float_array
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.plan import Plan
from dpoco.errors import BudgetExceeded
from dpoco.losses import CustomLoss, QuadraticLoss
from dpoco.random import Source

Record = tuple[Any, ...]  # arrays and numbers, or one loss object
Stream = Any  # as given by callers: an array, a tuple of arrays, a list of loss objects
Options = dict[str, Any]  # arguments, or other values, by name
LearnerPlan = Plan[Any, Any, Any]
Decision = Any  # an index, a point, or the answer of a mechanism
Change = tuple[str, float, float]  # name of a quantity, measured, declared


class Learner(Protocol):
    """Members of a learner or mechanism that audits read; each kind has some of them.

    Members of a single kind are not listed here; audits look them up by name.

    Attributes
    ----------
    guarantee : Guarantee
        The attacked claim. Its description decides the kind of mechanism.
    horizon, round : int
        Number of rounds that the guarantee covers, and number of finished rounds.
    experts, arms, dimension : int
        Numbers of experts, of arms of a bandit, and of coordinates of a context.
    alarms : sequence of int
        Rounds after which a detector raised an alarm.
    points : ndarray of float64, shape (N, d)
        Points of the net of a learner for Lipschitz losses.
    weights : ndarray of float64, shape (N,)
        Law of the next decision over experts or points.
    coefficients : ndarray of float64, shape (K, d)
        Estimates of a bandit, one row per arm.
    """

    guarantee: Guarantee
    horizon: int
    round: int
    experts: int
    arms: int
    dimension: int
    alarms: Sequence[int]
    points: FloatArray
    weights: FloatArray
    coefficients: FloatArray
    _is_seeded: bool
    _limiter: object
    _mechanism: Any

    def decide(self, *context: FloatArray) -> Decision:
        """Return the decision of the round.

        Bandits take the context of the round, shape (d,); other learners take no argument.
        """

    def observe(self, *record: object) -> None:
        """End the round.

        It takes the parts of the record: features and label, a gradient, losses, or one reward.
        """

    def __getattr__(self, name: str) -> Any:
        """Return a member that only some kinds have."""


Make = Callable[[Source], Learner]  # a new, unstarted learner on a source

# Method that answers a record, by the kind of rounds.
VERBS = {"sums": "push", "scores": "select", "queries": "test"}
# Compiled loops that play many learners, by the kind of output.
_LOOPS = {
    "records": "vectors", "sums": "vectors", "intervals": "vectors", "experts": "experts",
    "surface": "experts", "arms": "bandit", "scores": "selections", "queries": "tests",
}  # fmt: skip


# ---- streams -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounds:
    """A stream: arrays (or lists of loss objects) with one entry per round.

    Attributes
    ----------
    parts : tuple of ndarray or list
        Each of length T, for example features and labels. Entry t of all parts is one record.

    Raises
    ------
    ValueError
        If the parts have different lengths.
    """

    parts: Record

    def __post_init__(self) -> None:
        """Raise `ValueError` for parts of different lengths."""
        if len({len(part) for part in self.parts}) != 1:
            raise ValueError("stream must have parts of one length")

    def __len__(self) -> int:
        return len(self.parts[0])

    def record(self, t: int) -> Record:
        """Return the record of round t, counted from 0."""
        return tuple(part[t] for part in self.parts)

    def with_record(self, t: int, record: Sequence[object]) -> Rounds:
        """Return the neighbouring stream with another record in round t.

        The original is unchanged, because the parts are copied: O(T d).
        """
        parts = tuple(part.copy() for part in self.parts)
        for part, entry in zip(parts, record, strict=True):
            part[t] = entry
        return Rounds(parts)

    @property
    def stream(self) -> Stream:
        """The stream in the form that callers of an audit use."""
        return self.parts if len(self.parts) > 1 else self.parts[0]


def split_parts(stream: Stream) -> Record:
    """Return the parts of a stream: those of a tuple that are not None, or the stream itself.

    Raises
    ------
    ValueError, TypeError
        For a tuple without parts, and for mappings, whose parts are not ordered.
    """
    # Parts are identified by position, so a mapping in another order would be another stream.
    if isinstance(stream, Mapping):
        raise TypeError("stream must be an array or a tuple of arrays")
    if not isinstance(stream, tuple):
        return (stream,)
    parts = tuple(part for part in stream if part is not None)
    if not parts:
        raise ValueError("stream must have at least one part")
    return parts


def same(ours: Record, theirs: Record) -> bool:
    """Return whether two records are equal, in every bit or as objects.

    NaN equals NaN here: a record with the same gap in the same place is not a neighbour.
    """
    return all(
        # Loss objects need not be comparable. `equal_nan` raises `TypeError` for non-numbers.
        a is b or bool(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f"))
        for a, b in zip(ours, theirs, strict=True)
    )


def finite(values: FloatArray) -> FloatArray:
    """Return an array with zeros in place of numbers that are not finite.

    Mechanisms treat input from callers in the same way.
    """
    return np.where(np.isfinite(values), values, 0.0)


# ---- records of monitors: a matrix for each interval ---------------------------------------------

# The matrix has a row for each record that may come from one person. Its columns are: 1 if there is
# a record, otherwise 0; the columns that statistics read; and the columns for grouping, as codes of
# their public values. NaN is a missing value, and any unknown code stands for all other values.


def present(rows: FloatArray) -> FloatArray:
    """Return the rows that are records: their first number is positive and finite.

    Parameters
    ----------
    rows : ndarray, shape (r, 1 + columns + groups)
        Record of an interval, see above.
    """
    found = np.asarray(rows, dtype=np.float64)
    return found[(found[:, 0] > 0.0) & np.isfinite(found[:, 0])]


def count_interval(monitor: Learner, rows: FloatArray) -> FloatArray:
    """Count the records of an interval, end the interval, and return the released sum.

    It is the noisy sum over all intervals so far, with shape (cells,).
    """
    _count(monitor, rows)
    monitor.release()
    return np.asarray(monitor._past[-1])


def add_up(monitor: Learner, intervals: FloatArray) -> FloatArray:
    """Return what a monitor pushes for each interval, without ending intervals; (n, cells).

    This is for the compiled loop of black-box audits, which plays the monitor's sum alone.
    """
    totals = np.empty((len(intervals), monitor._mechanism.summand.size))
    for t, rows in enumerate(intervals):
        _count(monitor, rows)
        monitor._flush()
        totals[t] = monitor._part.end(t, monitor._limit)
    return totals


def renew(first: Learner, source: Source) -> Learner:
    """Return an unstarted learner or monitor with plan and guarantee of another, on this source.

    This avoids repeating the search for a plan and the accounting in every run.
    """
    new: Learner = first._sibling(source._claim())
    new._is_seeded = source.is_seeded
    return new


def _count(monitor: Learner, rows: FloatArray) -> None:
    """Add the records of an interval to a monitor, as mappings with the names that it reads."""
    layout = monitor._layout
    names = [(column.name, column.values) for column in layout.columns] + list(layout.by)
    for row in present(rows):
        pairs = zip(names, row[1:].tolist(), strict=True)
        monitor.add(
            {name: x if values is None else _value(values, x) for (name, values), x in pairs}
        )


def _value(values: Record, code: float) -> object:
    """Return the public value of a code; None for NaN, and another value for unknown codes."""
    if math.isnan(code):
        return None
    return values[int(code)] if code in range(len(values)) else "none of the public values"


# ---- rounds --------------------------------------------------------------------------------------


def find_plays(learner: Learner) -> str:
    """Return what a learner plays, as in `dpoco.learners`; for foreign classes, by its methods.

    "records" if no method decides otherwise.
    """
    listed = learners.plays(learner)
    if listed:
        return listed
    named = {verb: plays for plays, verb in VERBS.items()}
    named |= {"fit": "batch", "arms": "arms", "experts": "experts", "points": "surface"}
    return next((plays for name, plays in named.items() if hasattr(learner, name)), "records")


class Playing:
    """The way to play a learner, by its kind of rounds; a base class for observers.

    Attributes
    ----------
    plays : str
        Its kind of rounds, as in `dpoco.learners`.
    first_affected : int
        Number of rounds after the changed one until publications may differ: 1 if a round's
        decision is made before its record is seen, and 0 if the record is an argument of the
        decision.
    loop : str or None
        The compiled loop for such learners. All except "vectors" give integers.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.plays = find_plays(learner)
        self.first_affected = int(self.plays not in ("arms", "scores", "queries"))
        self.loop = _LOOPS.get(self.plays)

    @property
    def marks(self) -> bool:
        """Whether the loop also marks the rounds with fresh draws."""
        return self.loop == "vectors" and hasattr(self.learner, "switches")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return names and shapes of the parts of a record; ``TypeError`` if there are none."""
        learner: Learner = self.learner
        if self.plays in ("experts", "surface"):
            return {"losses": (len(getattr(learner, "points", ())) or learner.experts,)}
        if self.plays == "arms":
            return {"contexts": (learner.dimension,), "rewards": (learner.arms,)}
        if self.plays == "sums":
            return {"vectors": (learner.plan.mechanism.summand.size,)}
        if self.plays == "scores":
            return {"scores": (learner.plan.tuning.candidates,)}
        if self.plays == "queries":
            return {"excesses": ()}
        if self.plays == "intervals":
            layout, summand = learner._layout, learner._mechanism.summand
            return {"records": (summand.records, 1 + len(layout.columns) + len(layout.by))}
        if self.plays == "ranges":
            return {"records": (learner.plan.mechanism.counts.summand.size,)}
        d = learner.domain.dimension
        if isinstance(learner.loss, CustomLoss):
            raise TypeError("a custom loss has no records to replace")
        if isinstance(learner.loss, QuadraticLoss):
            return {"matrices": (d, d), "vectors": (d,)}
        return {"features": (d,), "labels": ()} if learner.loss.glm else {"gradients": (d,)}

    def rounds(self, stream: Stream) -> Rounds:
        """Return the stream, checked; ``ValueError`` or ``TypeError`` name an invalid part."""
        parts, shapes = split_parts(stream), self.shapes()
        if len(parts) != len(shapes):
            names = " and ".join(shapes)
            wanted = f"one array of {names}" if len(shapes) == 1 else f"a pair of {names}"
            raise ValueError(f"stream must be {wanted}; got {len(parts)} part(s)")
        own = shapes if len(shapes) > 1 else ("stream",)
        pairs = zip(own, parts, shapes.values(), strict=True)
        return Rounds(tuple(float_array(name, part, (None, *shape)) for name, part, shape in pairs))

    def decide(self, learner: Learner, record: Record) -> Decision:
        """Return the decision of a round with this record; None if the mechanism answers records.

        Parameters
        ----------
        learner : Learner
            In any round before its horizon.
        record : tuple
            Only a bandit uses a part of it, the context. For all others it may be empty.
        """
        if self.plays in VERBS or self.plays in ("intervals", "ranges"):
            return None
        if self.plays == "arms":
            return int(learner.decide(record[0]))
        decision = learner.decide()
        if self.plays == "surface":
            # A decision is a row of `points`, bit for bit. Otherwise it would contain more
            # information than the row's number, which the audit uses.
            found = np.flatnonzero(np.all(learner.points == decision, axis=1))
            if not len(found):
                raise ValueError("a decision is none of the learner's points")
            return int(found[0])
        return int(decision) if isinstance(decision, np.integer) else decision

    def observe(self, learner: Learner, decision: Decision, record: Record) -> Decision:
        """Pass the record to the learner, and return its answer, if there is one.

        The answer of a threshold test is 1 for an alarm, 0 for silence, and -1 after the last
        alarm.
        """
        # After its last alarm, a threshold test accepts no query.
        if self.plays == "queries" and not getattr(learner, "alarms_left", 1):
            return -1
        if self.plays in VERBS:
            answer = getattr(learner, VERBS[self.plays])(*record)
            return answer if self.plays == "sums" else int(answer)
        if self.plays == "intervals":
            return count_interval(learner, *record)
        learner.observe(*((record[1][decision],) if self.plays == "arms" else record))
        return None

    def step(self, learner: Learner, record: Record) -> Decision:
        """Play one round, and return its decision or answer as numbers."""
        decision = self.decide(learner, record)
        answer = self.observe(learner, decision, record)
        return answer if decision is None else decision


# ---- replays -------------------------------------------------------------------------------------


@dataclass
class Play:
    """One run on the random tape.

    Attributes
    ----------
    published : list
        Publications of each round, comparable with ``==``. The decision of a round is made before
        its record is seen.
    variates : list of tuple of int
        Numbers of variates drawn, by kind: before the first round, and after each round.
    due : list of int
        Least number of variates for each round. A round with fewer draws reused noise.
    notes : dict
        Data of each round that the family needs to compare two plays.
    memory : dict
        Data that the family keeps between rounds.
    findings : list of str
        Violations that this run shows on its own.
    """

    published: list[Any] = field(default_factory=list)
    variates: list[tuple[int, ...]] = field(default_factory=list)
    due: list[int] = field(default_factory=list)
    notes: dict[str, list[Any]] = field(default_factory=dict)
    memory: Options = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def note(self, **values: object) -> None:
        """Add one entry to each of the named lists of `notes`."""
        for name, value in values.items():
            self.notes.setdefault(name, []).append(value)


class Family(Playing, ABC):
    """Methods with which audits observe one kind of mechanism in a learner.

    Attributes
    ----------
    needs : tuple of str
        Methods of the learner's engine that the audit calls.
    shows : str
        Attribute of a learner that follows from releases and may be published; "" for none.
    schedule : {"fixed", "published"}
        Whether the number of variates depends on the round alone or also on publications.
    moves_all_rounds : bool
        Whether neighbours may differ in all rounds: one record affects many queries.
    joint : bool
        Whether privacy is joint: only the round's own user sees its publication.
    joins_rounds : bool
        Whether a replay compares all rounds of a person at once; see `person_changes`. Otherwise
        these rounds are treated as a group, and the movement by each round is compared.
    person_rounds : tuple of int
        Rounds in which two streams differ.
    other : Rounds or None
        The neighbouring stream, if the play of a stream must also note the effect of the
        neighbour's records.
    relation : str
        Neighbouring streams: "replace" or "zero_out".
    person : (int, int)
        Number of rounds that the claim protects together, and their least distance.

    Notes
    -----
    A replay plays the stream twice and every neighbour once on the same random tape. It passes
    pairs of plays to `changes`, or to `person_changes` for all rounds of a person. Everything that
    these yield is an inequality of the proof in ``docs/privacy``. If one fails on a single tape,
    the proof does not hold.
    """

    needs: ClassVar[tuple[str, ...]] = ("variates_drawn",)
    shows: ClassVar[str] = ""
    schedule: ClassVar[str] = "fixed"
    moves_all_rounds: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    joins_rounds: ClassVar[bool] = False

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.person_rounds: tuple[int, ...] = ()
        self.other: Rounds | None = None
        self.relation = str(learner.guarantee.change)
        self.person: tuple[int, int] = getattr(learner.guarantee, "person", None) or (1, 1)

    @property
    def mechanism(self) -> Any:
        """The description of the engine; the guarantee's, if the learner does not hold one."""
        own = getattr(self.learner, "_mechanism", None)
        return self.learner.guarantee.description if own is None else own

    @property
    def tuning(self) -> Any:
        """Parameters of post-processing."""
        return self.learner.plan.tuning

    @cached_property
    def sensitivity(self) -> float:
        """Bound on a record's change of the values that noise hides, in the noise's norm."""
        raise NotImplementedError

    # ---- streams ---------------------------------------------------------------------------------

    def record(self, rounds: Rounds, replacement: Sequence[object]) -> Record:
        """Return a replacement's record with the shapes of the stream's records."""
        count = len(rounds.parts)
        if len(replacement) != count:
            raise ValueError(f"a replacement must be (round, {count} parts of a record)")
        return tuple(
            float_array("replacement", entry, part.shape[1:])
            if isinstance(part, np.ndarray)
            else entry
            for part, entry in zip(rounds.parts, replacement, strict=True)
        )

    def replaces(self, old: Record, new: Record) -> bool:
        """Return whether a record changes a round, as neighbours may."""
        free = self.relation != "zero_out" or self.is_empty(old) or self.is_empty(new)
        return free and not same(old, new)

    def check_records(self, old: Record, new: Record) -> None:
        """Raise ``ValueError`` unless one record may replace the other."""
        if self.relation == "zero_out" and not (self.is_empty(old) or self.is_empty(new)):
            raise ValueError(
                "no neighbours under relation 'zero_out': one of the two records must be empty"
            )

    def check_streams(self, ours: Rounds, theirs: Rounds) -> None:
        """Raise ``ValueError`` unless one record explains all differences."""
        return

    def is_empty(self, record: Record) -> bool:
        """Return whether a record counts as no data: all zero, or not finite.

        For the relation "zero_out", one of two neighbouring records is such a record.
        """
        return not np.any(record[0]) or not all(np.all(np.isfinite(part)) for part in record)

    # ---- one learner at a time -------------------------------------------------------------------

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return what a round publishes, comparable with ``==``."""
        return decision.tobytes() if isinstance(decision, np.ndarray) else decision

    def count_variates(self, learner: Learner) -> tuple[int, ...]:
        """Return the number of variates that a learner has drawn, by kind."""
        return tuple(learner._engine.variates_drawn())

    def facts(self) -> dict[str, bool]:
        """Return the facts that only this family can reach, and whether the learner reached them.

        Reports list the facts that no exercise reached, so that branches that were never played are
        visible.
        """
        return {}

    def play(self, learner: Learner, rounds: Rounds) -> Play:
        """Play a fresh learner on the stream, round by round.

        It calls `start`, then `publication`, `before` and `after` in each round, and `finish` at
        the end. Families override these, and seldom the loop itself.
        """
        play = Play(variates=[self.count_variates(learner)])
        self.start(learner, play)
        for t in range(len(rounds)):
            record = rounds.record(t)
            decision = self.decide(learner, record)
            play.published.append(self.publication(learner, decision))
            self.before(learner, decision, record, play)
            answer = self.observe(learner, decision, record)
            play.variates.append(self.count_variates(learner))
            play.due.append(self.after(learner, t, answer, play))
        self.finish(learner, play)
        return play

    def transcript(self, learner: Learner, rounds: Rounds) -> tuple[Any, ...]:
        """Return what a run publishes or answers, in each round and at the end, without notes."""
        play = Play()
        for t in range(len(rounds)):
            record = rounds.record(t)
            decision = self.decide(learner, record)
            seen = self.publication(learner, decision)
            answer = self.observe(learner, decision, record)
            play.published.append(answer if decision is None else seen)
        self.finish(learner, play)
        return tuple(play.published)

    def start(self, learner: Learner, play: Play) -> None:
        """Note the values before the first round.

        For example, the sum before any record.
        """
        return

    def before(self, learner: Learner, decision: Decision, record: Record, play: Play) -> None:
        """Note the effect of a record that the learner is about to observe.

        Engines compute such values by functions without state, for example the leaf of a sum.
        """
        return

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Note a learner's values after round t, and return the number of variates due.

        Parameters
        ----------
        learner : Learner
            The learner after the round.
        t : int
            Round, counted from 0.
        answer : object
            Answer of a mechanism to the record; None for learners that decide.
        play : Play
            The play to write to.

        Returns
        -------
        int
            Fewer draws mean that a release reused noise. 0 if no draw is due.
        """
        return 0

    def finish(self, learner: Learner, play: Play) -> None:
        """Note the decision after the last round, if there is one."""
        if self.plays in ("records", "experts", "surface") and learner.round < learner.horizon:
            play.published.append(self.publication(learner, self.decide(learner, ())))

    # ---- two plays -------------------------------------------------------------------------------

    @abstractmethod
    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield movements caused by replacing the record of round `at`, with their bounds.

        Parameters
        ----------
        base, other : Play
            Plays of the stream and of its neighbour on one tape.
        at : int
            The round with the replaced record.

        Yields
        ------
        tuple of (str, float, float)
            Name of a quantity, its movement, and the declared bound, in the same unit.
        """

    def person_changes(self, other: Play) -> Iterator[Change]:
        """Yield movements caused by all rounds of a person, with their bounds.

        Only families with `joins_rounds` have this method. `other` notes what the old records would
        have added.
        """
        raise NotImplementedError

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield other violations that only the pair of plays shows."""
        yield from ()


class Unmoved(Family):
    """Releases that depend on no record, and are equal on all streams."""

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        yield from ()

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        if base.published != other.published:
            yield "a release depends on a record, and none may"


def ratio(moved: float, scale: float) -> float:
    """Return a movement in units of the noise; infinite without noise.

    A movement of 0 gives 0 for any noise.
    """
    if moved == 0.0:
        return 0.0
    return moved / scale if scale > 0.0 else np.inf * np.sign(moved)


def admit(learner: Learner, rows: FloatArray) -> FloatArray:
    """Return losses of experts as used by a learner, in [0, 1].

    Losses that are not finite count as the smallest loss, 0.
    """
    low, high = learner._loss_range
    inside: FloatArray = np.clip((rows - low) / (high - low), 0.0, 1.0)
    return np.where(np.isfinite(rows), inside, 0.0)


def check_neighbours(family: Family | None, ours: Rounds, theirs: Rounds) -> tuple[int, ...]:
    """Return the rounds in which two streams differ, or raise ``ValueError`` with a reason.

    If no family knows the learner, only the number of these rounds is checked.

    Returns
    -------
    tuple of int
        Rounds, counted from 0, in increasing order: one; or several, for a person or if all queries
        may move.
    """
    if len(ours.parts) != len(theirs.parts) or len(ours) != len(theirs):
        raise ValueError("no neighbours: the streams have different numbers of rounds or parts")
    differ = tuple(t for t in range(len(ours)) if not same(ours.record(t), theirs.record(t)))
    # An audit of equal streams could find nothing, although its report would look normal.
    if not differ:
        raise ValueError("no neighbours: the streams are equal, so nothing could be found")
    if len(differ) > 1 and not (family is not None and family.moves_all_rounds):
        most, apart = (1, 1) if family is None else family.person
        if most == 1:
            raise ValueError(
                f"no neighbours: the streams differ in {len(differ)} rounds, and at most one round "
                "may"
            )
        if len(differ) > most or min(np.diff(differ)) < apart:
            raise ValueError(
                f"no neighbours: the streams differ in rounds {list(differ)}, and one person has "
                f"at most {most}, at least {apart} apart"
            )
    if family is not None:
        for t in differ:
            # Streams that are not neighbours would refute a true claim.
            family.check_records(ours.record(t), theirs.record(t))
        family.check_streams(ours, theirs)
    return differ


# ---- makers --------------------------------------------------------------------------------------


def make_fresh(make: Make, source: Source, before: Learner | None = None) -> Learner:
    """Return a new learner on a source, or raise with a reason.

    Parameters
    ----------
    make : callable
        The maker that was passed to an audit.
    source : Source
        Must be seeded, because audits must be able to repeat their findings.
    before : Learner, optional
        The learner that the maker returned first.

    Raises
    ------
    ValueError, TypeError
        For a learner that has played, was returned before, or ignores the source.
    """
    learner = make(source)
    # A learner that is returned twice would be played twice with the same noise.
    if before is not None and (learner is before or type(learner) is not type(before)):
        raise TypeError("make_learner must return a new learner of one class at every call")
    if getattr(learner, "round", 0) != 0 or getattr(learner, "_fitted", False):
        raise ValueError("make_learner must return learners that have not played yet")
    # A learner on entropy could not be repeated, so its findings could not be reproduced.
    if getattr(learner, "_is_seeded", None) is False and source.is_seeded:
        raise ValueError("make_learner must give the learner the source it is called with")
    # Streams of audits obey the rule of participation, so the limiter lets all records pass.
    if getattr(learner, "_limiter", None) is not None:
        learner._limiter = None
    if getattr(learner, "_part", None) is not None:
        learner._part.limiter = None
    return learner


def length_name(cls: type) -> str:
    """Return the name of a class's argument for the number of rounds."""
    known = ("records", "releases") if hasattr(cls, "fit") else ("releases",)
    return next((name for name in known if name in signature(cls).parameters), "horizon")


def calibrate_once(
    cls: type,
    *arguments: object,
    budget: Budget,
    changes: Options | None = None,
    plan: LearnerPlan | None = None,
    **options: object,
) -> Make:
    """Return ``Source -> learner`` of one class, with a single calibration and certification.

    All learners share parameters and guarantee, so a new one only costs its engine; audits make
    thousands. `changes` are made to the calibrated parameters, and the guarantee is computed for
    the changed ones. `plan` replaces calibration; a published plan may exceed the budget. A class
    that takes no plan is constructed completely every time, except for monitors, whose plan is
    found again. A foreign class is constructed every time, with the plan, because only its
    constructor knows its attributes.

    Parameters
    ----------
    cls : type
        Class of the library, or one derived from it.
    *arguments, **options
        Arguments of its constructor.
    budget : Budget
        Budget for calibration.
    changes : dict, optional
        New values by name, or functions of the old value, for fields of tuning and mechanism.
    plan : Plan, optional
        Plan from `dpoco.published`.
    """
    if "plan" not in signature(cls).parameters:
        whole = partial(cls, *arguments, budget=budget, **options)
        known = learners.find_learner(cls)
        if known is None or known.plays != "intervals":
            return lambda source: whole(source=source)
        return partial(renew, whole(source=None))
    with quiet():
        planned = {} if plan is None else {"plan": plan}
        try:
            first = cls(*arguments, budget=budget, **planned, **options)
        except BudgetExceeded:
            # Some published plans exceed their budget (docs/errata.md). Their claims are audited
            # nevertheless.
            if plan is None:
                raise
            first = cls(*arguments, budget=None, **planned, **options)
        if changes:
            plan = _change(first.plan, changes)
            first = cls(*arguments, budget=None, plan=plan, **options)
    if learners.own_class(cls) is not None and hasattr(cls, "_sibling"):
        return partial(renew, first)

    def promise(*_: object, **__: object) -> Guarantee:
        """Return the shared guarantee instead of computing it again."""
        guarantee: Guarantee = first.guarantee
        return guarantee

    # The subclass has the same name, so that messages and cases name the user's class.
    shared = type(cls.__name__, (cls,), {"_certify": promise, "__doc__": cls.__doc__})

    def make(source: Source) -> Learner:
        """Return a new learner with the shared plan, on this source."""
        with quiet():
            learner: Learner = shared(
                *arguments, budget=None, plan=first.plan, source=source, **options
            )
        return learner

    return make


def _change(plan: LearnerPlan, changes: Options) -> LearnerPlan:
    """Return the plan with changed fields in tuning or mechanism, given as values or functions."""
    parts = {}
    for name in ("tuning", "mechanism"):
        part = getattr(plan, name)
        own = {key: value for key, value in changes.items() if hasattr(part, key)}
        parts[name] = replace(
            part, **{k: v(getattr(part, k)) if callable(v) else v for k, v in own.items()}
        )
    return replace(plan, **parts)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings about utility: audited learners should reveal as much as possible.

    Only the library's warnings for users are hidden; NumPy's warnings would be bugs.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
