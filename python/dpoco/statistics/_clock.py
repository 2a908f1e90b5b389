"""Intervals by a public clock: months, days and time zones are those of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import import_package, without_mask

Times = NDArray[np.int64]
_AHEAD = 1024  # boundaries that are computed at once
_LAST = 2**63 - 1  # nanoseconds since 1970: pandas' calendar ends in April 2262
_TOO_LATE = "time is behind the end of pandas' calendar, in the year 2262"
_DATETIMES = (
    "datetime",
    "datetime64",
    "date",
    "empty",
    "floating",
)  # kinds of pandas without texts
_NUMBERS = (
    "time must be dates and times, and numbers do not say their unit: convert them first, for "
    "example with pandas.to_datetime(numbers, unit='s')"
)
_UNREADABLE = (
    "time must be datetimes or texts in ISO 8601 such as 2026-01-31T10:00, all with a time zone or "
    "all without"
)


class Clock:
    """Boundaries of intervals, in order, and in which interval a time lies.

    Intervals of hours or less have one length. Days and longer ones begin at a time of the day,
    and are an hour shorter or longer where the time zone changes. A day whose first moment the zone
    skips begins with the first moment that there is; one whose first moment comes twice begins with
    the earlier one.

    Parameters
    ----------
    every : str or offset
        Length of an interval, as pandas writes it: "15min", "1h", "1D", "MS", or an offset.
    start : time-like, optional
        Begin of the first interval, with a time zone or without: all times are like it. None: the
        begin of the interval of the first time that comes.

    Raises
    ------
    ValueError
        For what is no length of time above 0, has no name, or is longer than the calendar, and for
        a `start` where no interval begins.
    """

    def __init__(self, every: object, start: object = None) -> None:
        self._pandas = pandas = import_package("pandas", "intervals by the clock", "files")
        try:
            self.every = pandas.tseries.frequencies.to_offset(every)
        except ValueError:
            self.every = None
        if self.every is None:
            raise ValueError(f"every must be a length of time such as '1h'; got {every!r}")
        epoch = pandas.Timestamp(0)
        try:
            # Boundaries that stay or go back would be computed without end.
            if not epoch + self.every > epoch:
                raise ValueError(f"every must be longer than 0; got {every!r}")
        except (OverflowError, pandas.errors.OutOfBoundsDatetime):
            raise ValueError(f"every is longer than pandas' calendar; got {every!r}") from None
        try:
            known = pandas.tseries.frequencies.to_offset(self.every.freqstr) == self.every
        except ValueError:  # of a name that pandas itself does not read
            known = False
        if not known:
            # States and journals hold the name alone: holidays, for example, are not in it.
            raise ValueError("every must be a length of time that has a name, such as 'MS' or '2D'")
        # Calendars count days, although some versions of pandas take a day for 24 hours.
        fixed = isinstance(self.every, pandas.offsets.Tick)
        fixed = fixed and not isinstance(self.every, pandas.offsets.Day)
        self._length = int(self.every.nanos) if fixed else None
        self._zone: Any = None
        self._begin: Any = None
        self._wall: Any = None  # what clocks on the wall show when the first interval begins
        self._bounds = np.empty(0, dtype=np.int64)  # of intervals without a fixed length
        self._next: Any = None  # what clocks show at the last of them; None: the calendar ends
        if start is not None:
            time = self._named_zone(self._read([start])[0])
            self._set_start(time, time.tz_localize(None))

    @property
    def started(self) -> bool:
        """Whether the begin of the first interval is known."""
        return self._begin is not None

    @property
    def start(self) -> str | None:
        """Begin of the first interval, as text; None before it is known."""
        return None if self._begin is None else self._begin.isoformat()

    @property
    def zone(self) -> str | None:
        """Name of the time zone; None without one."""
        return None if self._zone is None else str(self._zone)

    def _named_zone(self, time: Any) -> Any:
        """Return a time whose zone can be found by its name again, or raise."""
        zone: tzinfo | None = time.tzinfo
        if zone is None:
            return time
        if isinstance(zone, timezone):
            # Its name may be that of a zone with other rules, such as "CET".
            return time.tz_convert(timezone(zone.utcoffset(None)))
        try:
            found = time.tz_convert(_find_zone(str(zone)))
            if found.utcoffset() == time.utcoffset():
                return found
        except (ValueError, KeyError):  # of the zone's name
            pass
        raise ValueError("time zones must be those of zoneinfo, or differences from UTC")

    def _set_start(self, begin: Any, wall: Any) -> None:
        """Begin the first interval, or raise if none begins there; `wall` is the time shown."""
        self._zone, self._begin, self._wall = begin.tz, begin, wall
        if self._length is not None:
            return
        self._bounds, self._next = np.empty(0, dtype=np.int64), wall
        self._extend()
        on_offset = self.every.is_on_offset(wall)
        if not on_offset or int(self._bounds[0]) != begin.as_unit("ns").value:
            self._begin = None
            raise ValueError(f"start must be where an interval of {self.every.freqstr} begins")

    def _begin_with(self, time: Any) -> None:
        """Let the first interval be that of the first time."""
        time = self._named_zone(time)
        shown = time.tz_localize(None)
        try:
            wall = shown.floor(self.every)  # of fixed lengths, and days
        except ValueError:  # months, weeks and other offsets of the calendar
            wall = self.every.rollback(shown.normalize())
        begin = self._localize(wall, time.tz, earlier=True)
        if self._length is not None:
            # An hour that comes twice is two intervals: the later one, if the time lies in it.
            later = self._localize(wall, time.tz, earlier=False)
            begin = later if later <= time else begin
        self._set_start(begin, wall)

    def _localize(self, wall: Any, zone: Any, *, earlier: bool) -> Any:
        """Return when clocks show a time, the earlier or later moment where they do so twice."""
        if zone is None:
            return wall
        several = isinstance(wall, self._pandas.DatetimeIndex)
        chosen = np.full(len(wall), earlier) if several else earlier
        return wall.tz_localize(zone, ambiguous=chosen, nonexistent="shift_forward")

    def _extend(self) -> None:
        """Compute more boundaries, as far as the calendar reaches."""
        pandas, walls = self._pandas, [self._next]
        # A month of reserve, for time zones.
        end = pandas.Timestamp(_LAST).normalize() - pandas.Timedelta(days=31)
        # One by one: a whole range of long intervals would be refused near the calendar's end.
        with suppress(OverflowError, pandas.errors.OutOfBoundsDatetime):
            while len(walls) <= _AHEAD and (later := walls[-1] + self.every) < end:
                walls.append(later)
        if len(walls) == 1:
            raise ValueError(_TOO_LATE)
        index = pandas.DatetimeIndex(walls).as_unit("ns")
        # The last of the old boundaries is the first of these: it was localized already.
        more = self._localize(index, self._zone, earlier=True).asi8[len(self._bounds) > 0 :]
        self._bounds, self._next = np.concatenate([self._bounds, more]), walls[-1]

    def times(self, values: Any, count: int) -> Times:
        """Return times as nanoseconds, shape (n,), and begin with the first if nothing has begun.

        Parameters
        ----------
        values : array_like of shape (n,)
            Times, or texts of ISO 8601.
        count : int
            The n that they must have.

        Raises
        ------
        ValueError
            For what is no time, for times with a zone among times without, or vice versa, and for
            another shape; nothing has begun then.
        """
        index = self._read(values)
        if index.hasnans:
            raise ValueError("time must not be missing")
        if index.shape != (count,):
            raise ValueError(f"time must have shape ({count},); got {index.shape}")
        if self._begin is None and count:
            self._begin_with(index[0])
        if count and (index.tz is None) != (self._zone is None):
            have = "no time zone" if self._zone is None else "a time zone"
            raise ValueError(f"time must have {have}, as the first time or start has")
        return np.asarray(index.asi8)

    def _read(self, values: Any) -> Any:
        """Return times as an index of pandas in nanoseconds, or raise `ValueError`.

        Each is read by itself: no text decides how those next to it are meant.
        """
        pandas, values = self._pandas, without_mask(values)
        try:
            zone = _zone_of_column(values)
            given = (
                values if hasattr(getattr(values, "dtype", None), "kind") else np.asarray(values)
            )
            if given.dtype.kind in "iufb" and not pandas.isna(given).all():
                raise ValueError(_NUMBERS)
            # Without a format pandas takes that of the first text. Datetimes need none.
            plain = pandas.api.types.infer_dtype(given, skipna=True) in _DATETIMES
            form = {} if plain else {"format": "ISO8601"}
            if form and any(each in ("now", "today") for each in given if isinstance(each, str)):
                raise ValueError("a time of this machine")  # to pandas, and another one each run
            try:
                index = pandas.DatetimeIndex(pandas.to_datetime(given, **form))
            except (ValueError, TypeError):
                # Several differences from UTC, as of a summer and a winter.
                index = self._one_by_one(given, form)
            if zone is not None:
                index = index.tz_localize("UTC").tz_convert(zone)
            return index.as_unit("ns")
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(_NUMBERS if error.args == (_NUMBERS,) else _UNREADABLE) from None

    def _one_by_one(self, values: Iterable[Any], form: Mapping[str, str]) -> Any:
        """Return times, each with its own difference from UTC, in the zone of the first."""
        if form:
            self._pandas.to_datetime(values, utc=True, **form)  # raises for texts in other forms
        # Some versions of pandas read no texts of NumPy one by one.
        stamps = [self._pandas.Timestamp(str(v) if isinstance(v, str) else v) for v in values]
        if any(stamp.tz is None for stamp in stamps):
            raise ValueError("a time without a zone")
        return self._pandas.DatetimeIndex([stamp.tz_convert(stamps[0].tz) for stamp in stamps])

    def intervals(self, times: Times) -> NDArray[np.int64]:
        """Return the numbers of the intervals of times, shape (n,); -1 before the first.

        Raises
        ------
        ValueError
            For a time whose interval ends behind the calendar.
        """
        if times.size == 0:
            return np.empty(0, dtype=np.int64)
        latest = int(times.max())
        if self._length is not None:
            begin = self._begin.as_unit("ns").value
            if latest > _LAST - self._length:
                raise ValueError(_TOO_LATE)
            # Without signs: a difference of two times may need 64 bits.
            passed = np.maximum(times, begin).astype(np.uint64) - np.int64(begin).astype(np.uint64)
            found = (passed // np.uint64(self._length)).astype(np.int64)
            return np.where(times < begin, -1, found)
        while self._bounds[-1] <= latest:
            self._extend()
        return np.searchsorted(self._bounds, times, side="right") - 1

    def bounds(self, interval: int) -> tuple[str, str]:
        """Return begin and end of an interval, as texts of ISO 8601.

        Raises
        ------
        ValueError
            Before any interval has begun, and for one that ends behind the calendar.
        """
        if not self.started:
            raise ValueError("no interval has begun: add a record with its time, or give start")
        if self._length is not None:
            begin = self._begin.as_unit("ns").value + interval * self._length
            ends = begin, begin + self._length
        else:
            while interval + 1 >= len(self._bounds):
                self._extend()
            ends = int(self._bounds[interval]), int(self._bounds[interval + 1])
        begins, over = (self._stamp(end).isoformat() for end in ends)
        return begins, over

    def end(self, interval: int, time: object) -> tuple[tuple[type, ...], Any]:
        """Return the end of an interval, and the types of times that are compared with it as such.

        They are the type of `time` if that is a datetime; there are none for texts.
        """
        if not isinstance(time, datetime) or (time.tzinfo is None) != (self._zone is None):
            return (), None
        end = self._pandas.Timestamp(self.bounds(interval)[1])
        if type(time) is datetime:
            # A datetime has no nanoseconds. Times that are not below the rounded end are looked up
            # exactly, so that it has to be rounded down.
            end = end.floor("us").to_pydatetime(warn=False)
        return (type(time),), end

    def _stamp(self, nanoseconds: int) -> Any:
        """Return a time of pandas, in the zone of all times."""
        stamp = self._pandas.Timestamp(nanoseconds, tz="UTC")
        return stamp.tz_localize(None) if self._zone is None else stamp.tz_convert(self._zone)

    def state(self) -> dict[str, str | None]:
        """Return what `restore` continues from."""
        state = {"start": self.start, "zone": self.zone}
        # Only where clocks never show the begin of the first interval: its moment does not tell.
        if self._begin is not None and self._begin.tz_localize(None) != self._wall:
            state["wall"] = self._wall.isoformat()
        return state

    def restore(self, state: dict[str, str | None]) -> None:
        """Go on from a state."""
        if state["start"] is None:
            return
        begin = read_start(state)
        wall = state.get("wall")
        shown = begin.tz_localize(None) if wall is None else self._pandas.Timestamp(wall)
        self._set_start(begin, shown)


def read_start(state: Mapping[str, str | None]) -> Any:
    """Return the begin of the first interval that `Clock.state` wrote, in its time zone."""
    begin = import_package("pandas", "intervals by the clock", "files").Timestamp(state["start"])
    return begin if state["zone"] is None else begin.tz_convert(_find_zone(state["zone"]))


def _find_zone(name: str) -> tzinfo | str:
    """Return a zone by its name; a difference from UTC, which pandas reads, stays a text.

    Pandas before version 3 would take the rules of another library, with other hours that repeat.
    """
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError):
        return name


def _zone_of_column(values: Any) -> str | None:
    """Return the time zone of a column of polars or Arrow, which NumPy drops; None without one."""
    zone = getattr(getattr(values, "dtype", None), "time_zone", None)
    zone = getattr(getattr(values, "type", None), "tz", None) if zone is None else zone
    return zone if isinstance(zone, str) else None
