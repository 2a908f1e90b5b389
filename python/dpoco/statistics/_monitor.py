"""A monitor publishes the statistics of a stream, interval by interval, with one guarantee."""

from __future__ import annotations

import json
import struct
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import Fields, FloatArray, choice, instance, positive_int, require_memory
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.statement import stated_delta
from dpoco.errors import HorizonExceeded, StateError
from dpoco.learning.participation import Participation, Person, Persons
from dpoco.learning.state import Stateful
from dpoco.mechanisms import sum_entries
from dpoco.privacy.mechanisms.bounds import IntervalTotals
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours
from dpoco.privacy.records import read, to_record
from dpoco.random import Source
from dpoco.statistics import _plan as planning
from dpoco.statistics._clock import Clock, read_start
from dpoco.statistics._layout import Layout
from dpoco.statistics._partition import Partition, Tally, count_records, take
from dpoco.statistics._plan import ENDLESS, HalfLife, Last, MonitorPlan, View, parse_view, view_name
from dpoco.statistics._release import Release
from dpoco.statistics._statistics import Count, Name, Statistic, from_dict

_TEXT = struct.Struct("<I")  # length of a state's JSON part
_BUFFERED = 4096  # number of records of `add` that are added together
_DIGEST = 16  # bytes that identify a person
_CLIPPED = "The program clips every record to its declared ranges and categories."
_ARRIVAL = (
    "A record counts in the interval in which it arrives, and no record is delayed or "
    "refused because of another's."
)
_ENDS = {
    "clock": "Intervals end by a public clock; the operator also releases empty and missed ones.",
    "caller": "The operator decides when an interval ends without looking at the data.",
    "records": "An interval ends after a fixed number of records: a protected record is emptied in "
    "place, and counts towards this number.",
}


class Monitor(Stateful):
    """Counts, sums, means, shares, histograms and quantiles of a stream, interval by interval.

    Parameters
    ----------
    statistics : mapping of str to Statistic
        Published statistics by name: `Count`, `Sum`, `Mean`, `Share`, `Histogram`, `Categories`,
        `Quantiles`. A statistic reads the column with its name, unless it has a ``column``.
    every : str, offset, int or None
        Length of an interval: a time as in pandas, such as "1h", "1D" or "MS"; or a number of
        records. None: the caller ends intervals with `release`. This and all following arguments
        are keyword-only.
    releases : int or None
        Largest number of intervals. None: an endless stream, planned for 1,048,576 intervals, for
        which only views with bounded noise are possible.
    budget : Budget or None
        Budget of all releases together; None adds no noise and gives no guarantee.
    participation : Participation, optional
        In how many intervals one person may come, and how far apart. The budget then covers all
        records of a person. None: each record is protected separately.
    records_per_interval : int, default 1
        Largest number of records of one person in an interval; additional ones count as empty.
    views : sequence of View
        Quantities to compute from the intervals: "interval", "total", `Last` and `HalfLife`. Views
        cost no privacy, but they decide which factorisation is used. Default: ``("interval",)``.
    by : mapping of str to sequence, optional
        Columns for grouping, with their public values. All other values form the group "other".
    weights : mapping of str to float, optional
        Weights of statistics, default 1: twice the weight means half the noise.
    start : time-like, optional
        Beginning of the first interval. None: it begins with the interval of the first record,
        whose time then counts as public.
    relation : {"zero_out", "replace"}
        Neighbouring streams: a person leaves or joins ("zero_out", default), or has other records
        ("replace"), which needs twice the noise.
    source : Source, optional
        Source of randomness; None: the operating system.

    Notes
    -----
    Each record is rounded to integers and added separately, so any number of records costs the
    same, and the noise is drawn once per interval. Days, weeks and months are those of the time
    zone of the first time. A day whose midnight the zone skips begins with its first moment. Memory
    does not grow with the number of intervals, except for the people of a participation. Proof:
    ``docs/privacy/statistics.md``.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.statistics import Count, Mean, Monitor
    >>> monitor = Monitor(
    ...     {"visits": Count(), "latency": Mean(0.0, 1000.0)}, every=None, releases=24,
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> monitor.add_many({"latency": [120.0, 80.0, 95.0] * 1000})
    []
    >>> release = monitor.release()
    >>> 2900 < release.value("visits") < 3100
    True
    """

    _mechanism: GaussianSum
    _guarantee: Guarantee
    # Each interval has fresh draws, given any earlier releases. This decides the charge for forks
    # and pools (docs/privacy/journal.md, "Forks").
    _noise: ClassVar[str] = "fresh"

    def __init__(
        self,
        statistics: Mapping[str, Statistic],
        *,
        every: object,
        releases: int | None,
        budget: Budget | None,
        participation: Participation | None = None,
        records_per_interval: int = 1,
        views: Sequence[View] = ("interval",),
        by: Mapping[str, Sequence[Name]] | None = None,
        weights: Mapping[str, float] | None = None,
        start: object = None,
        relation: Literal["zero_out", "replace"] = "zero_out",
        source: Source | None = None,
    ) -> None:
        arguments = {
            "statistics": statistics, "every": every, "releases": releases, "budget": budget,
            "participation": participation, "records_per_interval": records_per_interval,
            "views": views, "by": by, "weights": weights, "start": start, "relation": relation,
            "source": source,
        }  # fmt: skip
        origin = Source() if source is None else instance("source", source, Source, "a Source")
        self._set_up(arguments, None, origin.is_seeded, origin._claim())

    def _set_up(self, arguments: Fields, parameters: Any, seeded: bool, claim: _core.Claim) -> None:
        """Build the unstarted monitor; `parameters` is a state's sum, or None to plan one."""
        self._arguments, self._is_seeded = arguments, seeded
        budget: Budget | None = arguments["budget"]
        if budget is not None:
            instance("budget", budget, Budget, "a dpoco.Budget or None").require_delta()
        self._layout = Layout.of(arguments["statistics"], arguments["weights"], arguments["by"])
        releases = arguments["releases"]
        self._horizon = ENDLESS if releases is None else positive_int("releases", releases)
        self._views = _checked_views(arguments["views"], releases)
        self._set_intervals(arguments["every"], arguments["start"])
        self._near = self._neighbours()
        records = positive_int("records_per_interval", arguments["records_per_interval"])
        summand = self._layout.summand(records)
        require_memory({"the statistics": 12.0 * summand.size})
        if parameters is None:
            factor, _ = planning.choose(self._views, self._near, self._horizon)
            total = planning.plan_sum(summand, factor, self._near, self._horizon, budget)
        else:
            total = parameters
            # Use the noise of the state, because a later version might plan it differently. But the
            # bounds for which it was planned must be those of these statistics.
            if total.summand != summand or total.pushes != self._horizon:
                raise StateError("state is corrupt: it describes another sum")
        if min(summand.units) < (total.grid or self._layout.grid):
            raise ValueError(
                "weights are too far apart: what a record adds to the lightest statistic is below "
                "the grid that records are rounded to"
            )
        self._mechanism = total
        self._guarantee = self._state_guarantee(budget, seeded)
        if budget is not None:
            # This also checks a sum planned here, so that an error in planning cannot become a
            # promise.
            self._guarantee.require(budget)
        require_memory(sum_entries(total))
        self._build(claim)

    def _set_intervals(self, every: object, start: object) -> None:
        """Set how intervals end: by the clock, after a number of records, or on request."""
        self._clock: Clock | None = None
        self._every: int | None = None
        if isinstance(every, (int, np.integer)) and not isinstance(every, bool):
            self._every = positive_int("every", every)
            # docs/privacy/statistics.md, "Intervals by a number of records".
            if any(isinstance(each, Count) for _, each in self._layout.statistics):
                raise ValueError(
                    f"every={self._every} ends an interval after so many records, and a Count is "
                    f"constant: leave it out, or give a length of time such as every='1h'"
                )
        elif every is not None:
            self._clock = Clock(every, start)
        if start is not None and self._clock is None:
            raise ValueError("start needs intervals by the clock (every='1h')")

    def _neighbours(self) -> Neighbours:
        """Return in how many intervals neighbouring streams may differ."""
        relation = choice("relation", self._arguments["relation"], CHANGES)
        people: Participation | None = self._arguments["participation"]
        if people is None:
            # Without people, the owners of records are unknown, so each record is protected
            # separately.
            if self._arguments["records_per_interval"] != 1:
                raise ValueError("records_per_interval needs participation")
            return Neighbours(relation)
        instance("participation", people, Participation, "a dpoco.Participation or None")
        people.check(self._horizon)
        most = people.largest(self._horizon)
        return Neighbours(relation, rounds=most, separation=people.separation)

    def _state_guarantee(self, budget: Budget | None, seeded: bool) -> Guarantee:
        """Return the guarantee of all releases together, for a record or for a person."""
        people: Participation | None = self._arguments["participation"]
        ends = "clock" if self._clock else "caller" if self._every is None else "records"
        names = ", ".join(name for name, _ in self._layout.statistics)
        found = Guarantee.about(
            self._mechanism,
            Neighbours(self._near.change),
            released=f"statistics of {self._horizon} intervals: {names}",
            horizon=self._horizon,
            delta=stated_delta(budget, self._horizon),
            reference="adaptive Gaussian composition; docs/privacy/statistics.md",
            seeded=seeded,
            conditions=(_CLIPPED, _ENDS[ends], _ARRIVAL),
        )
        # Without noise nothing is promised, and a person without a largest number of rounds has no
        # unit.
        unlimited = people is not None and people.rounds is None and not found.private
        return found if people is None or unlimited else people.of(found)

    def _build(self, claim: _core.Claim) -> None:
        """Build all objects that records change."""
        total, size = self._mechanism, self._mechanism.summand.size
        if total.grid > 0.0:
            # Noise on a lattice has its own grid; without noise, that of the layout is used.
            self._layout = replace(self._layout, grid=total.grid)
        # Integers stored as doubles are exact up to 2^53.
        self._limit = total.limit or 2**53
        # Key for hashing the names of people, so that memory and states do not contain the names.
        secret = claim["key"] + int(claim["stream"]).to_bytes(32, "little")
        self._part = self._partition(secret)
        self._engine = self._build_engine(claim)
        widths = [view.intervals for view in self._views if isinstance(view, Last)]
        self._past: deque[FloatArray] = deque(maxlen=max(widths, default=1))
        self._totals = 0  # that `_past` contains, as many as ended intervals
        self._faded = {v: np.zeros(size) for v in self._views if isinstance(v, HalfLife)}
        self._recorder = self._part.reader.recorder(_BUFFERED)
        # If each record may end the interval or be refused, all records must be checked.
        quick = self._every is None and self._part.limiter is None
        self._take = self._recorder.take if quick else _take_none
        # Owners of the recorder's records, if people are limited.
        self._waiting = bytearray()
        self._untimed = self._clock is None
        self._stamps: tuple[type, ...] = ()  # types of times that can be compared with `_ending`
        self._ending: Any = None
        self.position: Any = None

    def _build_engine(self, claim: _core.Claim) -> _core.ContinualSum:
        return _core.ContinualSum(self._mechanism, claim)

    def _partition(self, secret: bytes | None) -> Partition:
        """Return the object that adds records; `secret` hashes names of people, drawn if None."""
        summand = self._mechanism.summand
        assert isinstance(summand, IntervalTotals)
        people: Participation | None = self._arguments["participation"]
        kept = people if people is not None and people.enforced else None
        return Partition(self._layout, summand, kept, self._horizon, secret)

    # -- records ----------------------------------------------------------------------------------

    def add(
        self, record: Mapping[str, object], *, time: object = None, person: Person = None
    ) -> list[Release]:
        """Count a record in the current interval.

        Parameters
        ----------
        record : mapping
            Values by column. Missing and non-finite numbers add nothing to their statistic, and
            numbers out of range are clipped.
        time : time-like
            For intervals by the clock: a datetime or an ISO 8601 text, not a number. A time before
            the current interval counts in the current interval. Keyword-only.
        person : int, str or bytes
            Owner of the record, if people are limited. Keyword-only.

        Returns
        -------
        list of Release
            Releases of the intervals that ended before this record; usually none.

        Raises
        ------
        ValueError, TypeError
            For missing columns, and for values of another type; nothing is counted.
        HorizonExceeded
            If the record is after the last interval; nothing is counted or drawn.
        """
        # This is the fast path for most records: plain types, in the current interval, without
        # limits on people. The compiled recorder takes each record completely, whatever other
        # threads do.
        try:
            try:
                if (
                    person is None
                    and (
                        self._untimed
                        if time is None
                        else time.__class__ in self._stamps and time < self._ending
                    )
                    and not self._suspended
                    and self._take(record)
                ):
                    return []
            except TypeError:  # times with a zone among times without: refused below
                pass
            with self._alone():
                return self._add_checked(record, time, person)
        except (KeyboardInterrupt, SystemExit):
            _warn_of_repeat("this record may have been counted: do not pass it again")
            raise

    def _add_checked(
        self, record: Mapping[str, object], time: object, person: Person
    ) -> list[Release]:
        """Count a record of any kind, like `add`; with two threads, an interval could end twice."""
        # All refusals come before intervals end, so that an error counts nothing.
        self._part.check_person(person is not None)
        interval = self._find_interval(time)
        if self._recorder.size >= _BUFFERED:
            self._flush()
        digest = self._digest(person)
        ended: list[Release] = []
        self._name_next(digest)
        if interval > self.round or not self._recorder.take(record):
            numbers, code = self._part.reader.record(record)
            ended = self._close(interval)
            self._name_next(digest)
            self._recorder.enter(numbers, code)
        if self._clock is not None and not self._stamps:
            self._stamps, self._ending = self._clock.end(self.round, time)
        if self._every is not None and self._part.records + self._recorder.size >= self._every:
            ended.append(self._end())
        return ended

    def _digest(self, person: Person) -> bytes:
        """Return the digest of a person, or raise if there is no room for another person.

        After the record is taken it would be too late, because the interval could not end any more.
        """
        limiter = self._part.limiter
        if limiter is None:
            return b""
        # If room is scarce, count the waiting people first.
        if not limiter.has_room_behind(self._recorder.size):
            self._flush()
        return limiter.digests(person)

    def _name_next(self, digest: bytes) -> None:
        """Assign the recorder's next record to this person."""
        # After an interrupt, there may be digests whose records were not taken or are already
        # added.
        del self._waiting[_DIGEST * self._recorder.size :]
        self._waiting += digest

    def add_many(
        self, records: object, *, time: object = None, person: Persons = None
    ) -> list[Release]:
        """Count many records in their order, like `add` for each, but faster.

        Parameters
        ----------
        records : table
            A pandas, polars or Arrow table, a structured array, a mapping of columns to arrays, or
            a sequence of mappings.
        time : str or array_like of shape (n,)
            Times of the records, or the name of their column, for intervals by the clock. Sort a
            log by its times: a late record counts in the current interval.
        person : str or array_like of shape (n,)
            Persons of the records, or the name of their column, if people are limited.

        Returns
        -------
        list of Release
            Releases of all intervals that ended.

        Raises
        ------
        ValueError, TypeError, HorizonExceeded
            See `add`; nothing is counted.
        """
        with self._alone():
            count = count_records(records, time, person)
            columns, group = self._part.reader.table(records, count)
            digests = self._part.digests(records, person, count)
            intervals = self._find_intervals(records, time, count)
            ended: list[Release] = []
            begun = 0
            try:
                for begun in self._play(columns, group, digests, intervals, ended):  # noqa: B007
                    pass
                return ended
            except BaseException:
                if begun:
                    _warn_of_repeat(
                        f"the first {begun:,} of its {count:,} records may have been counted, and "
                        f"{len(ended)} releases are lost: pass the other records only"
                    )
                raise

    def _play(
        self,
        columns: list[FloatArray],
        group: NDArray[np.int32] | None,
        digests: bytes,
        intervals: NDArray[np.int64],
        ended: list[Release],
    ) -> Iterator[int]:
        """Count records that are checked, part by part of one interval.

        Before each part it yields how many records will be counted then; `ended` takes releases.
        """
        starts = np.flatnonzero(np.diff(intervals, prepend=-1)).tolist()
        for start, stop in pairwise([*starts, len(intervals)]):
            if self._every is None:
                ended += self._close(int(intervals[start]))
            part = slice(start, stop)
            self._flush()
            own = [column[part] for column in columns]
            codes = None if group is None else group[part]
            named = digests[_DIGEST * start : _DIGEST * stop]
            yield stop
            self._part.add(self.round, own, codes, named, stop - start)
            if self._every is not None and self._part.records >= self._every:
                ended.append(self._end())

    def advance(self, now: object) -> list[Release]:
        """End all intervals by the clock that are over, and return their releases.

        Call it if no records arrive: intervals without records are also released.

        Parameters
        ----------
        now : time-like
            The current time.

        Raises
        ------
        HorizonExceeded
            If more intervals are over than remain; nothing is drawn.
        """
        with self._alone():
            if self._clock is None:
                raise TypeError("advance() needs intervals by the clock (every='1h')")
            self._check_active()
            interval = int(self._clock.intervals(self._clock.times([now], 1))[0])
            self._check_left(interval - 1)
            return self._close(interval)

    def release(self) -> Release:
        """End the current interval and return its release.

        For monitors with ``every=None``, and at the end of the data.

        Raises
        ------
        HorizonExceeded
            After `releases` intervals; nothing is drawn.
        StateError
            If an interrupt (Ctrl-C) lost an earlier release: load the last state.
        ValueError
            If a monitor by the clock has no `start` and no record yet; nothing is drawn.
        """
        with self._alone():
            return self._end()

    # -- many machines --------------------------------------------------------------------------

    def partition(self) -> Partition:
        """Return an object that adds a part of the records on another machine or process.

        It can be pickled. If people are limited, all records of a person must go to one partition,
        because a partition does not know how often people came to the others. If a partition is
        lost, its counts are also lost, and its people may come again; the guarantee does not cover
        that.

        Returns
        -------
        Partition
            In interval 0, without records. It draws no noise and publishes nothing.
        """
        return self._partition(None)

    def merge(self, tally: Tally) -> None:
        """Add the sums of a partition to the current interval, with the same bits as its records.

        Parameters
        ----------
        tally : Tally
            Sums of the interval `round`. Merge each tally once: a repeated merge is not detected.

        Raises
        ------
        ValueError
            For a tally of another interval, or with another monitor's layout.
        HorizonExceeded
            After the last interval.
        """
        with self._alone():
            self._check_left(tally.interval)
            if tally.interval != self.round:
                raise ValueError(f"the tally must be of interval {self.round}")
            self._part.merge(tally)

    # -- intervals --------------------------------------------------------------------------------

    def _find_interval(self, time: object) -> int:
        """Return the interval in which a record of `add` counts, or raise if none is left."""
        self._check_time(time)
        interval = self.round
        if self._clock is not None and not self._is_running(time):
            found = int(self._clock.intervals(self._clock.times([time], 1))[0])
            # A late record counts in the current interval, because its own interval was already
            # released.
            interval = max(interval, found)
        self._check_left(interval)
        return interval

    def _check_time(self, time: object) -> None:
        """Raise unless times are given exactly for intervals by the clock."""
        if time is None and self._clock is not None:
            raise TypeError("time must be given, because intervals end by the clock")
        if time is not None and self._clock is None:
            raise TypeError("time would be ignored: intervals do not end by the clock (every='1h')")

    def _is_running(self, time: object) -> bool:
        """Return whether a quick check shows that a time is not after the current interval."""
        try:
            return time.__class__ in self._stamps and bool(time < self._ending)
        except TypeError:  # mixed times with and without a zone are refused elsewhere
            return False

    def _find_intervals(self, records: object, time: object, count: int) -> NDArray[np.int64]:
        """Return the interval of each record, in non-decreasing order, shape (count,)."""
        self._check_time(time)
        first = self.round
        found = np.full(count, first, dtype=np.int64)
        if self._clock is not None:
            given = take(records, time) if isinstance(time, str) else time
            times = self._clock.times(given, count)
            # Records are counted in their order of arrival, and the current interval never goes
            # back.
            found = np.maximum.accumulate(np.maximum(self._clock.intervals(times), first))
        elif self._every is not None:
            done = self._part.records + self._recorder.size
            found = first + (done + np.arange(count)) // self._every
        if count:
            self._check_left(int(found[-1]))
        return found

    def _check_active(self) -> None:
        """Raise for suspended copies, and in processes that inherited the monitor through fork."""
        super()._check_active()
        self._engine.check_process()  # before adding records to sums of which a child has a copy

    def _check_left(self, interval: int) -> None:
        """Raise, before anything is counted, unless the guarantee covers an interval."""
        self._check_active()
        if interval >= self._horizon:
            raise HorizonExceeded(
                f"all {self._horizon} intervals are used up: the guarantee covers no more releases"
            )

    def _close(self, interval: int) -> list[Release]:
        """End all intervals before this one."""
        return [self._end() for _ in range(interval - self.round)]

    def _flush(self) -> None:
        """Add the records that `add` has taken to the cells."""
        count = self._recorder.size
        if count == 0:
            return
        digests = bytes(self._waiting[: _DIGEST * count])
        columns, codes = self._recorder.flush()
        self._part.add(self.round, columns, codes, digests, count)

    def _sibling(self, claim: _core.Claim) -> Monitor:
        """Return an unstarted monitor with the same plan and guarantee, not recomputed."""
        sibling = type(self).__new__(type(self))
        sibling.__dict__.update({**self.__dict__, "_taken": None})
        sibling._set_intervals(self._arguments["every"], None)  # a state has its own start
        sibling._build(claim)
        return sibling

    def _write_row(self, release: Release) -> FloatArray:
        """Return a release as a row of doubles for journals."""
        return np.concatenate([release.vectors[view_name(view)] for view in self._views])

    def _read_row(self, interval: int, row: FloatArray) -> Release:
        """Return the release of a row, with the beginning and end from the clock."""
        parts = np.split(row, len(self._views))
        vectors = {view_name(view): part for view, part in zip(self._views, parts, strict=True)}
        return self._release(interval, vectors, *self._bounds(interval))

    def _bounds(self, interval: int) -> tuple[str, str] | tuple[None, None]:
        """Return the beginning and end of an interval by the clock; None without a clock."""
        return (None, None) if self._clock is None else self._clock.bounds(interval)

    def _release(
        self, interval: int, vectors: dict[str, FloatArray], begin: str | None, end: str | None
    ) -> Release:
        """Return the release of an interval's noisy cells, by view."""
        deviations = {
            view_name(view): planning.deviation(self._mechanism, view, interval + 1)
            for view in self._views
        }
        return Release(interval, begin, end, vectors, deviations, self._layout)

    def _end(self) -> Release:
        """End the running interval."""
        self._check_left(self.round)
        if self._totals != self.round:
            # The next views would cover two intervals with the error bars of one.
            raise StateError(
                "an interrupt came behind the noise of an interval, and its release is lost: "
                "continue from the last state"
            )
        self._flush()
        interval = self.round
        # Before the engine advances, because there is no end after the calendar.
        begin, end = self._bounds(interval)
        total: FloatArray = self._engine.push(self._part.end(interval, self._limit))
        # Clear the types, so that times are looked up again: the compared end has passed.
        self._stamps = ()
        if interval + 1 >= self._horizon:
            self._recorder.close()
        vectors = {view_name(view): self._compute_view(view, total) for view in self._views}
        # After computing the views, which need the totals before this one.
        self._past.append(total)
        self._totals += 1
        return self._release(interval, vectors, begin, end)

    def _compute_view(self, view: View, total: FloatArray) -> FloatArray:
        """Return a view of the total that will be released next."""
        if view == "total":
            return total
        if isinstance(view, Last):
            full = len(self._past) >= view.intervals
            return total - self._past[-view.intervals] if full else total
        newest = total - self._past[-1] if self._past else total
        if isinstance(view, HalfLife):
            newest = self._faded[view] = view.damping * self._faded[view] + newest
        return newest

    # -- facts ------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """Number of released intervals."""
        return int(self._engine.round)

    @property
    def horizon(self) -> int:
        """Number of intervals that the guarantee covers."""
        return self._horizon

    @property
    def statistics(self) -> tuple[tuple[str, Statistic], ...]:
        """Names and statistics."""
        return self._layout.statistics

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of all releases together, whichever views are computed from them.

        It covers one record, or with a `participation` all records of a person.
        """
        return self._guarantee

    def plan(self) -> MonitorPlan:
        """Return the accuracy of each number, which does not depend on any record.

        Returns
        -------
        MonitorPlan
            Noise by view and statistic; as text, a table. It is meant to be read before there are
            data.
        """
        _, ratios = planning.choose(self._views, self._near, self._horizon)
        return planning.describe(self._layout, self._mechanism, self._views, ratios)

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self._layout.statistics)
        return f"Monitor({names})\n  {self._guarantee!r}"

    # -- state ------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Activate an unpickled copy, or one inherited through fork: see `Stateful.resume`."""
        super().resume()
        self._recorder.adopt()

    def clone(self) -> Monitor:
        """Return an unstarted monitor with the same arguments and separate noise."""
        return type(self)(**self._arguments)

    def _is_started(self) -> bool:
        return self.round > 0 or self._part.records > 0 or self._recorder.size > 0

    def _header(self) -> Fields:
        a = self._arguments
        every = a["every"] if self._clock is None else self._clock.every.freqstr
        arguments = {
            "statistics": [[name, each.to_dict()] for name, each in self._layout.statistics],
            "every": every,
            "releases": a["releases"],
            "budget": None if a["budget"] is None else a["budget"].to_dict(),
            "participation": None if a["participation"] is None else a["participation"].to_dict(),
            "records_per_interval": a["records_per_interval"],
            "views": [view_name(view) for view in self._views],
            "by": [[name, list(values)] for name, values in self._layout.by],
            "weights": a["weights"] and dict(a["weights"]),
            "relation": a["relation"],
        }
        mechanism = to_record(self._mechanism)
        header = {"arguments": arguments, "mechanism": mechanism, "seeded": self._is_seeded}
        # Stored next to the arguments, because journals compare those with earlier arguments.
        if self._clock is not None and a["start"] is not None:
            header["start"] = self._clock.state()  # fixes the beginning of the first interval
        return header

    @classmethod
    def _assemble(cls, header: Fields) -> Monitor:
        a = header["arguments"]
        budget, people = a["budget"], a["participation"]
        arguments = {
            **a,
            "statistics": {name: from_dict(record) for name, record in a["statistics"]},
            "budget": None if budget is None else Budget.from_dict(budget),
            "participation": None if people is None else Participation.from_dict(people),
            "views": [parse_view(text) for text in a["views"]],
            "by": {name: tuple(values) for name, values in a["by"]},
            # Earlier states do not contain it, but their payload does, once it is known.
            "start": read_start(header["start"]) if "start" in header else None,
            "source": None,
        }
        self = cls.__new__(cls)
        total = read(header["mechanism"], (GaussianSum,))
        # The payload contains the key and position of the noise.
        self._set_up(arguments, total, bool(header["seeded"]), {"key": bytes(32), "stream": 0})
        return self

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        """Return the number of cells in a header; the payload has 8 bytes for each cell."""
        return int(sum(header["mechanism"]["summand"]["cells"]))

    def _payload(self) -> bytes:
        # Records that `add` has taken are not in a cell yet. A state without them would lose
        # records that lie before its position in the input.
        self._flush()
        limiter = self._part.limiter
        parts = {
            "engine": self._engine.state(),
            "people": b"" if limiter is None else limiter.state(),
            "cells": self._part.cells.astype("<i8").tobytes(),
            "past": np.array(self._past, dtype="<f8").tobytes(),
            "faded": np.array(list(self._faded.values()), dtype="<f8").tobytes(),
        }
        words = {
            "records": self._part.records,
            "position": self.position,
            "clock": None if self._clock is None else self._clock.state(),
            "lengths": [len(part) for part in parts.values()],
        }
        text = json.dumps(words).encode()
        return b"".join((_TEXT.pack(len(text)), text, *parts.values()))

    def _go_on(self, payload: bytes) -> None:
        """Continue from a result of `_payload`; `StateError` for anything else."""
        try:
            start = _TEXT.size + _TEXT.unpack_from(payload)[0]
            words = json.loads(payload[_TEXT.size : start])
            ends = np.cumsum([start, *words["lengths"]]).tolist()
            if ends[-1] != len(payload) or len(ends) != 6 or min(words["lengths"]) < 0:
                raise StateError("state is corrupt: its parts have other lengths")
            engine, people, *rest = (payload[a:b] for a, b in pairwise(ends))
            cells, past, faded = (np.frombuffer(part, dtype="<i8") for part in rest)
            self._engine.restore(engine)
            if self._part.limiter is not None:
                self._part.limiter.restore(people)
            if self._clock is not None:
                self._clock.restore(words["clock"])
            # Restored by adding a tally, which compares sizes and keeps cells within 2^61.
            self._part.merge(Tally(self.round, cells, int(words["records"])))
            size = self._mechanism.summand.size
            self._past.extend(past.view(np.float64).reshape(-1, size))
            self._totals = self.round
            rows = faded.view(np.float64).reshape(len(self._faded), size)
            self._faded = dict(zip(self._faded, rows, strict=True))
            self.position = words["position"]
            if self.round >= self._horizon:
                self._recorder.close()
        except StateError:
            raise
        except Exception as error:
            raise StateError(f"state is corrupt ({type(error).__name__})") from None


def _warn_of_repeat(counted: str) -> None:
    """Warn after an interrupt: a record that is counted twice voids the guarantee."""
    warnings.warn(
        f"the call was interrupted, and {counted}, since a record that is counted twice voids the "
        "guarantee (unless you go on from a state that was saved before, or from a journal)",
        UserWarning, stacklevel=3,
    )  # fmt: skip


def _take_none(record: Mapping[str, object]) -> bool:
    """Take no record, and leave it to `Monitor._add_checked`."""
    return False


def _checked_views(views: Sequence[View], releases: int | None) -> tuple[View, ...]:
    """Return the requested views, which may be a single one, or raise for invalid ones."""
    found = (views,) if isinstance(views, (str, Last, HalfLife)) else tuple(views)
    known = all(
        view in ("interval", "total") or isinstance(view, (Last, HalfLife)) for view in found
    )
    if not found or not known or len(set(found)) < len(found):
        raise ValueError("views must be 'interval', 'total', Last(n) or HalfLife(n), each once")
    longest = max((view.intervals for view in found if isinstance(view, Last)), default=0)
    if releases is not None and longest > releases:
        raise ValueError(f"the view 'last {longest}' is longer than all {releases} intervals")
    if releases is None and "total" in found:
        raise ValueError("the noise of totals grows without end: pass releases, or another view")
    return found  # type: ignore[return-value]
