"""Intervals by a public clock. Months, days and time zones are those of pandas."""

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
_AHEAD = 1024  # number of boundaries that are computed together
_LAST = 2**63 - 1  # nanoseconds since 1970; pandas' calendar ends in April 2262
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
    """Boundaries of intervals, in order, and the interval of each time.

    Intervals of hours or less have a constant length. Days and longer intervals begin at a time of
    day, and are an hour shorter or longer when the time zone changes. If the zone skips the first
    moment of a day, the day begins with its first existing moment. If the first moment occurs
    twice, the day begins with the earlier one.

    Parameters
    ----------
    every : str or offset
        Length of an interval, as in pandas: "15min", "1h", "1D", "MS", or an offset.
    start : time-like, optional
        Beginning of the first interval, with or without a time zone; all times must match it. None:
        the beginning of the interval of the first time.

    Raises
    ------
    ValueError
        For lengths that are not positive, have no name, or exceed the calendar, and for a `start`
        at which no interval begins.
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
            # Boundaries that do not advance would be computed forever.
            if not epoch + self.every > epoch:
                raise ValueError(f"every must be longer than 0; got {every!r}")
        except (OverflowError, pandas.errors.OutOfBoundsDatetime):
            raise ValueError(f"every is longer than pandas' calendar; got {every!r}") from None
        try:
            known = pandas.tseries.frequencies.to_offset(self.every.freqstr) == self.every
        except ValueError:  # pandas cannot read the name
            known = False
        if not known:
            # States and journals only store the name, which does not contain holidays, for example.
            raise ValueError("every must be a length of time that has a name, such as 'MS' or '2D'")
        # Calendars count days, although some versions of pandas treat a day as 24 hours.
        fixed = isinstance(self.every, pandas.offsets.Tick)
        fixed = fixed and not isinstance(self.every, pandas.offsets.Day)
        self._length = int(self.every.nanos) if fixed else None
        self._zone: Any = None
        self._begin: Any = None
        self._wall: Any = None  # wall-clock time at the beginning of the first interval
        self._bounds = np.empty(0, dtype=np.int64)  # boundaries of intervals without a fixed length
        self._next: Any = None  # wall-clock time of the last boundary; None: the calendar ends
        if start is not None:
            time = self._named_zone(self._read([start])[0])
            self._set_start(time, time.tz_localize(None))

    @property
    def started(self) -> bool:
        """Whether the beginning of the first interval is known."""
        return self._begin is not None

    @property
    def start(self) -> str | None:
        """Beginning of the first interval, as text; None before it is known."""
        return None if self._begin is None else self._begin.isoformat()

    @property
    def zone(self) -> str | None:
        """Name of the time zone; None without a zone."""
        return None if self._zone is None else str(self._zone)

    def _named_zone(self, time: Any) -> Any:
        """Return a time whose zone can be restored from its name, or raise."""
        zone: tzinfo | None = time.tzinfo
        if zone is None:
            return time
        if isinstance(zone, timezone):
            # The name may belong to a zone with other rules, such as "CET".
            return time.tz_convert(timezone(zone.utcoffset(None)))
        try:
            found = time.tz_convert(_find_zone(str(zone)))
            if found.utcoffset() == time.utcoffset():
                return found
        except (ValueError, KeyError):  # from the zone's name
            pass
        raise ValueError("time zones must be those of zoneinfo, or differences from UTC")

    def _set_start(self, begin: Any, wall: Any) -> None:
        """Set the beginning of the first interval, or raise; `wall` is its wall-clock time."""
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
        """Make the interval of the first time the first interval."""
        time = self._named_zone(time)
        shown = time.tz_localize(None)
        try:
            wall = shown.floor(self.every)  # for fixed lengths, and days
        except ValueError:  # for months, weeks and other calendar offsets
            wall = self.every.rollback(shown.normalize())
        begin = self._localize(wall, time.tz, earlier=True)
        if self._length is not None:
            # An hour that occurs twice is two intervals; use the later one if it contains the time.
            later = self._localize(wall, time.tz, earlier=False)
            begin = later if later <= time else begin
        self._set_start(begin, wall)

    def _localize(self, wall: Any, zone: Any, *, earlier: bool) -> Any:
        """Return the moment of a wall-clock time; of two, the earlier or the later one."""
        if zone is None:
            return wall
        several = isinstance(wall, self._pandas.DatetimeIndex)
        chosen = np.full(len(wall), earlier) if several else earlier
        return wall.tz_localize(zone, ambiguous=chosen, nonexistent="shift_forward")

    def _extend(self) -> None:
        """Compute more boundaries, up to the end of the calendar."""
        pandas, walls = self._pandas, [self._next]
        # A month of reserve for time zones.
        end = pandas.Timestamp(_LAST).normalize() - pandas.Timedelta(days=31)
        # One by one, because a whole range of long intervals would be refused near the calendar's
        # end.
        with suppress(OverflowError, pandas.errors.OutOfBoundsDatetime):
            while len(walls) <= _AHEAD and (later := walls[-1] + self.every) < end:
                walls.append(later)
        if len(walls) == 1:
            raise ValueError(_TOO_LATE)
        index = pandas.DatetimeIndex(walls).as_unit("ns")
        # The last old boundary is the first of these, and is already localized.
        more = self._localize(index, self._zone, earlier=True).asi8[len(self._bounds) > 0 :]
        self._bounds, self._next = np.concatenate([self._bounds, more]), walls[-1]

    def times(self, values: Any, count: int) -> Times:
        """Return times as nanoseconds, shape (n,); the first time may set the first interval.

        Parameters
        ----------
        values : array_like of shape (n,)
            Times, or ISO 8601 texts.
        count : int
            Required number n of times.

        Raises
        ------
        ValueError
            For values that are not times, for mixed times with and without a zone, and for another
            shape. Then the first interval is not set.
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
        """Return times as a pandas index in nanoseconds, or raise `ValueError`.

        Each time is read separately, so that no text determines how others are interpreted.
        """
        pandas, values = self._pandas, without_mask(values)
        try:
            zone = _zone_of_column(values)
            given = (
                values if hasattr(getattr(values, "dtype", None), "kind") else np.asarray(values)
            )
            if given.dtype.kind in "iufb" and not pandas.isna(given).all():
                raise ValueError(_NUMBERS)
            # Without a format, pandas infers it from the first text. Datetimes need no format.
            plain = pandas.api.types.infer_dtype(given, skipna=True) in _DATETIMES
            form = {} if plain else {"format": "ISO8601"}
            if form and any(each in ("now", "today") for each in given if isinstance(each, str)):
                raise ValueError("a time of this machine")  # pandas takes the current time
            try:
                index = pandas.DatetimeIndex(pandas.to_datetime(given, **form))
            except (ValueError, TypeError):
                # There are several differences from UTC, for example in summer and winter.
                index = self._one_by_one(given, form)
            if zone is not None:
                index = index.tz_localize("UTC").tz_convert(zone)
            return index.as_unit("ns")
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(_NUMBERS if error.args == (_NUMBERS,) else _UNREADABLE) from None

    def _one_by_one(self, values: Iterable[Any], form: Mapping[str, str]) -> Any:
        """Return times, each with its own difference from UTC, in the zone of the first time."""
        if form:
            self._pandas.to_datetime(values, utc=True, **form)  # raises for texts in other forms
        # Some versions of pandas cannot read NumPy texts one by one.
        stamps = [self._pandas.Timestamp(str(v) if isinstance(v, str) else v) for v in values]
        if any(stamp.tz is None for stamp in stamps):
            raise ValueError("a time without a zone")
        return self._pandas.DatetimeIndex([stamp.tz_convert(stamps[0].tz) for stamp in stamps])

    def intervals(self, times: Times) -> NDArray[np.int64]:
        """Return the interval numbers of times, shape (n,); -1 before the first interval.

        Raises
        ------
        ValueError
            For a time whose interval ends after the calendar.
        """
        if times.size == 0:
            return np.empty(0, dtype=np.int64)
        latest = int(times.max())
        if self._length is not None:
            begin = self._begin.as_unit("ns").value
            if latest > _LAST - self._length:
                raise ValueError(_TOO_LATE)
            # Unsigned, because a difference of two times may need 64 bits.
            passed = np.maximum(times, begin).astype(np.uint64) - np.int64(begin).astype(np.uint64)
            found = (passed // np.uint64(self._length)).astype(np.int64)
            return np.where(times < begin, -1, found)
        while self._bounds[-1] <= latest:
            self._extend()
        return np.searchsorted(self._bounds, times, side="right") - 1

    def bounds(self, interval: int) -> tuple[str, str]:
        """Return the beginning and end of an interval, as ISO 8601 texts.

        Raises
        ------
        ValueError
            Before the first interval is set, and for an interval that ends after the calendar.
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
        """Return the end of an interval, and the types of times that can be compared with it.

        It is the type of `time` if that is a datetime; for texts there is none.
        """
        if not isinstance(time, datetime) or (time.tzinfo is None) != (self._zone is None):
            return (), None
        end = self._pandas.Timestamp(self.bounds(interval)[1])
        if type(time) is datetime:
            # A datetime has no nanoseconds, so the end is rounded down. Times that are not below
            # the rounded end are looked up exactly.
            end = end.floor("us").to_pydatetime(warn=False)
        return (type(time),), end

    def _stamp(self, nanoseconds: int) -> Any:
        """Return a pandas timestamp in the zone of all times."""
        stamp = self._pandas.Timestamp(nanoseconds, tz="UTC")
        return stamp.tz_localize(None) if self._zone is None else stamp.tz_convert(self._zone)

    def state(self) -> dict[str, str | None]:
        """Return the state for `restore`."""
        state = {"start": self.start, "zone": self.zone}
        # Only needed if clocks never show the beginning of the first interval, because then its
        # moment does not determine the wall-clock time.
        if self._begin is not None and self._begin.tz_localize(None) != self._wall:
            state["wall"] = self._wall.isoformat()
        return state

    def restore(self, state: dict[str, str | None]) -> None:
        """Continue from a state."""
        if state["start"] is None:
            return
        begin = read_start(state)
        wall = state.get("wall")
        shown = begin.tz_localize(None) if wall is None else self._pandas.Timestamp(wall)
        self._set_start(begin, shown)


def read_start(state: Mapping[str, str | None]) -> Any:
    """Return the beginning of the first interval from `Clock.state`, in its time zone."""
    begin = import_package("pandas", "intervals by the clock", "files").Timestamp(state["start"])
    return begin if state["zone"] is None else begin.tz_convert(_find_zone(state["zone"]))


def _find_zone(name: str) -> tzinfo | str:
    """Return a zone by its name; a difference from UTC, which pandas reads, remains a text.

    Pandas before version 3 would use the rules of another library, with other repeated hours.
    """
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError):
        return name


def _zone_of_column(values: Any) -> str | None:
    """Return the time zone of a polars or Arrow column, which NumPy drops; None without a zone."""
    zone = getattr(getattr(values, "dtype", None), "time_zone", None)
    zone = getattr(getattr(values, "type", None), "tz", None) if zone is None else zone
    return zone if isinstance(zone, str) else None
