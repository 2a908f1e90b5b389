"""A monitor in a journal: its releases, its records and the place in its input are one commit."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpoco._validation import Named
from dpoco.accounting.guarantee import Guarantee
from dpoco.journal._protocols import Home
from dpoco.journal._releases import DIGEST_BYTES, round_number
from dpoco.journal._stream import Stream
from dpoco.learning.participation import Digests, Person, Persons
from dpoco.statistics import Monitor, Partition, Release, Tally


class MonitorStream:
    """A monitor whose releases a journal keeps; see `Journal.open_monitor`.

    Each call that counts records is one commit: of the sums so far, of `position`, and of all
    releases of intervals that ended. It returns the releases once they are durable. After a crash
    the monitor is as after the last call that returned, or as after the one that was interrupted;
    `position` says which, and `releases` has the releases of an interrupted call.
    """

    def __init__(self, journal: Home, stream: Stream) -> None:
        self._journal, self._stream = journal, stream

    def add(
        self, record: Named, *, time: Any = None, person: Person = None, position: object = None
    ) -> list[Release]:
        """Count one record, as `Monitor.add`, and store `position` with it: see `add_many`."""
        return self._commit(lambda monitor: monitor.add(record, time=time, person=person), position)

    def add_many(
        self, records: Any, *, time: Any = None, person: Persons = None, position: object = None
    ) -> list[Release]:
        """Count many records, as `Monitor.add_many`, in one commit.

        Parameters
        ----------
        records, time, person
            As for `Monitor.add_many`.
        position : JSON-able, optional
            Where in the input these records end, such as the offset of each partition of a log. It
            is stored in the same commit; None leaves it as it is. Keyword-only.

        Returns
        -------
        list of Release
            Of all intervals that ended; they are durable.

        Raises
        ------
        ValueError, TypeError, HorizonExceeded
            As for `Monitor.add_many`; nothing is counted.
        JournalFenced
            If another writer has taken over; nothing was drawn.
        OSError, StateError
            If the journal cannot be written; nothing was released, and nothing is counted.

        Notes
        -----
        One commit, which waits for the disk. It writes the releases and the monitor's whole state:
        some 8 bytes a cell for each interval of the longest `Last`, and some 40 bytes for each
        person that was seen, if people are limited.
        """
        return self._commit(
            lambda monitor: monitor.add_many(records, time=time, person=person), position
        )

    def advance(self, now: Any, *, position: object = None) -> list[Release]:
        """End all intervals by the clock that are over: see `Monitor.advance` and `add_many`."""
        return self._commit(lambda monitor: monitor.advance(now), position)

    def release(self, *, position: object = None) -> Release:
        """End the running interval: see `Monitor.release` and `add_many`."""
        return self._commit(lambda monitor: [monitor.release()], position)[0]

    def merge(self, tally: Tally, *, position: object = None) -> None:
        """Add the sums of a partition: see `Monitor.merge` and `add_many`."""

        def add(monitor: Monitor) -> list[Release]:
            monitor.merge(tally)
            return []

        self._commit(add, position)

    def partition(self) -> Partition:
        """Return what adds up a part of the records elsewhere: see `Monitor.partition`."""
        with self._locked_monitor() as monitor:
            return monitor.partition()

    def releases(self, start: int = 0, stop: int | None = None) -> list[Release]:
        """Return the stored releases of the intervals start, ..., stop - 1.

        Parameters
        ----------
        start, stop : int
            Default: all.

        Raises
        ------
        RoundOrderError
            If some of these intervals are not over yet.
        StateError
            If some have been forgotten: see `Journal.forget`.
        """
        first = round_number("start", start)
        with self._locked_monitor() as monitor:
            last = monitor.round if stop is None else round_number("stop", stop)
            if last <= first:
                return []
            rows = self._stream.releases(first, last)
            return [monitor._read_row(first + i, row) for i, row in enumerate(rows)]

    def fork(self, name: str) -> MonitorStream:
        """Return a second continuation with its own noise, charged again: see `Stream.fork`."""
        return MonitorStream(self._journal, self._journal._fork(self._stream, name))

    # -- facts ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self._stream.name

    @property
    def position(self) -> Any:
        """Where in the input to read on: what was stored with the last records that count."""
        with self._locked_monitor() as monitor:
            return copy.deepcopy(monitor.position)

    @property
    def round(self) -> int:
        """Intervals that have been released; durable."""
        return self._stream.round

    @property
    def horizon(self) -> int:
        """Number of intervals that the guarantee covers."""
        return self._stream.horizon

    @property
    def kept_from(self) -> int:
        """First interval whose release is still kept: see `Journal.forget`."""
        return self._stream.kept_from

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything that this stream releases."""
        return self._stream.guarantee

    def unload(self) -> None:
        """Free the monitor's memory; the next use loads it from the journal."""
        self._stream.unload()

    def __repr__(self) -> str:
        return f"<MonitorStream {self.name!r}: {self.guarantee!r}>"

    # -- within -----------------------------------------------------------------------------------

    @contextmanager
    def _locked_monitor(self) -> Iterator[Monitor]:
        """Yield the monitor in its durable state, for reading.

        The lock is needed: a commit of another thread changes sums and position before they are
        stored, and takes the changes back if it fails.
        """
        with self._journal._guard(committed=True):
            self._stream._ready()
            yield self._stream._learner

    def _commit(self, count: Callable[[Monitor], list[Release]], position: object) -> list[Release]:
        """Count records, and return the releases once everything is stored."""
        stream = self._stream
        # Copy the position: the caller's later changes belong to later records, but the next
        # commit without a position would store them.
        place = json.loads(json.dumps(position))
        with self._journal.transaction() as transaction:
            stream._ready()
            monitor: Monitor = stream._learner
            transaction._touch(stream)  # from here on the sums may have moved
            ended = count(monitor)
            if place is not None:
                monitor.position = place
            if ended:
                rows = np.array([monitor._write_row(release) for release in ended])
                # Store no digests: the records of an interval come in any number of calls, so
                # nothing is compared.
                transaction._end_rounds(stream, bytes(DIGEST_BYTES * len(rows)), rows, Digests())
        return ended
