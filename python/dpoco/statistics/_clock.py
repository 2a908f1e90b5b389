"""Intervals by a public clock: months, days and time zones are those of pandas."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import imported

Times = NDArray[np.int64]
_AHEAD = 1024  # boundaries that are computed at once


class Clock:
    """Boundaries of intervals, in order, and in which interval a time lies.

    Parameters
    ----------
    every : str or offset
        Length of an interval, as pandas writes it: "15min", "1h", "1D", "MS", or an offset.
    start : time-like, optional
        Begin of the first interval, with a time zone or without: all times are like it. None: the
        begin of the interval of the first time that comes.
    """

    def __init__(self, every: object, start: object = None) -> None:
        self._pandas = imported("pandas", "intervals by the clock", "files")
        try:
            self.every = self._pandas.tseries.frequencies.to_offset(every)
        except ValueError:
            self.every = None
        if self.every is None:
            raise ValueError(f"every must be a length of time such as '1h'; got {every!r}")
        try:
            self._pandas.Timestamp(0) + self.every
        except (OverflowError, self._pandas.errors.OutOfBoundsDatetime):
            raise ValueError(f"every is longer than pandas' calendar; got {every!r}") from None
        self._bounds = np.empty(0, dtype=np.int64)
        self._first = 0  # number of the interval that begins at the first of these bounds
        self._zone: Any = None
        self._begin: Any = None
        if start is not None:
            self._set_start(self._pandas.Timestamp(start), exact=True)

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

    def _set_start(self, time: Any, *, exact: bool) -> None:
        begin = time
        if not exact:
            try:
                begin = time.floor(self.every)  # of fixed lengths
            except ValueError:  # months, weeks and other offsets of the calendar
                begin = self.every.rollback(time.normalize())
        self._zone, self._begin = begin.tz, begin
        self._bounds, self._first = self._after(begin), 0
        if int(self._bounds[0]) != begin.as_unit("ns").value:
            raise ValueError(f"start must be where an interval of {self.every.freqstr} begins")

    def _after(self, begin: Any) -> Times:
        # One more than is kept ahead: the last boundary begins the next part.
        index = self._pandas.date_range(begin, periods=_AHEAD + 1, freq=self.every)
        # pandas counts in seconds, micro- or nanoseconds, by what it was given.
        return np.asarray(index.as_unit("ns").asi8)

    def times(self, values: object) -> Times:
        """Return times as nanoseconds, shape (n,), and begin with the first if nothing has begun.

        Raises
        ------
        ValueError, TypeError
            For what is no time, and for times with a zone among times without, or vice versa.
        """
        pandas = self._pandas
        try:
            index = pandas.DatetimeIndex(pandas.to_datetime(values))
        except (ValueError, TypeError, OverflowError):
            raise ValueError(
                "time must be times that pandas reads, all with a time zone or all without"
            ) from None
        if index.hasnans:
            raise ValueError("time must not be missing")
        if self._begin is None and len(index):
            self._set_start(index[0], exact=False)
        if len(index) and (index.tz is None) != (self._zone is None):
            have = "no time zone" if self._zone is None else "a time zone"
            raise ValueError(f"time must have {have}, as the first time or start has")
        return np.asarray(index.as_unit("ns").asi8)

    def intervals(self, times: Times) -> NDArray[np.int64]:
        """Return the numbers of the intervals of times, shape (n,); -1 before the first."""
        if times.size == 0:
            return np.empty(0, dtype=np.int64)
        latest = int(times.max())
        while self._bounds[-1] <= latest:
            last = self._stamp(int(self._bounds[-1]))
            self._bounds = np.concatenate([self._bounds, self._after(last)[1:]])
        return self._first + np.searchsorted(self._bounds, times, side="right") - 1

    def bounds(self, interval: int) -> tuple[str, str]:
        """Return begin and end of an interval, as texts of ISO 8601."""
        at = interval - self._first
        while at + 1 >= len(self._bounds):
            self.intervals(self._bounds[-1:])
        begin, end = (self._stamp(int(bound)) for bound in self._bounds[at : at + 2])
        return begin.isoformat(), end.isoformat()

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

    def forget(self, interval: int) -> None:
        """Drop the boundaries before an interval: they are not asked for again."""
        # Only now and then, since the rest is copied.
        if interval - self._first > _AHEAD:
            self._bounds = self._bounds[interval - self._first :].copy()
            self._first = interval

    def _stamp(self, nanoseconds: int) -> Any:
        stamp = self._pandas.Timestamp(nanoseconds, tz="UTC")
        return stamp.tz_localize(None) if self._zone is None else stamp.tz_convert(self._zone)

    def again(self) -> Clock:
        """Return a clock with all boundaries from the start on."""
        clock = Clock(self.every)
        clock.restore(self.state())
        return clock

    def state(self) -> dict[str, str | None]:
        """Return what `restore` continues from."""
        return {"start": self.start, "zone": self.zone}

    def restore(self, state: dict[str, str | None]) -> None:
        """Go on from a state."""
        if state["start"] is None:
            return
        begin = self._pandas.Timestamp(state["start"])
        if state["zone"] is not None:
            begin = begin.tz_convert(state["zone"])
        self._set_start(begin, exact=True)
