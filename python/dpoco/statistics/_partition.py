"""Adding up a part of a stream: by a monitor itself, or by workers that hand on their tallies.

Totals of an interval are integers, so that tallies of any partition add up to the same bits. People
are limited where their records are added, so all records of a person must come to one partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray, imported, whole_number
from dpoco.learning.participation import Digests, Limiter, Participation
from dpoco.privacy.mechanisms.bounds import IntervalTotals
from dpoco.statistics._columns import Reader, length_of, take
from dpoco.statistics._layout import Layout

__all__ = ["Partition", "Tally", "as_persons"]

_FULL = 2**61  # what cells stay within


@dataclass(frozen=True, eq=False)
class Tally:
    """Exact sums of a part of an interval: as secret as its records.

    Attributes
    ----------
    interval : int
        Number of the interval.
    cells : ndarray of int64
        In the order of the monitor's layout, in multiples of its grid.
    records : int
        How many records were added.
    """

    interval: int
    cells: NDArray[np.int64]
    records: int

    def merge(self, *others: Tally) -> Tally:
        """Return the tally of several parts of the same interval together.

        Raises
        ------
        ValueError
            For other intervals, or another number of cells.
        """
        cells, records = self.cells.copy(), self.records
        for other in others:
            if other.interval != self.interval or other.cells.shape != cells.shape:
                raise ValueError("tallies must be of the same interval and layout")
            np.clip(cells + other.cells, -_FULL, _FULL, out=cells)
            records += other.records
        return Tally(self.interval, cells, records)

    def to_arrow(self) -> Any:
        """Return an Arrow record batch of one row."""
        arrow = imported("pyarrow", "to_arrow", "files")
        return arrow.RecordBatch.from_pydict({
            "interval": [self.interval],
            "cells": arrow.array([self.cells], arrow.list_(arrow.int64())),
            "records": [self.records],
        })  # fmt: skip

    @classmethod
    def from_arrow(cls, batch: Any) -> list[Tally]:
        """Return the tallies of the rows of a record batch or table."""
        return [
            cls(row["interval"], np.array(row["cells"], dtype=np.int64), row["records"])
            for row in batch.to_pylist()
        ]


class Partition:
    """Adds up the records of a part of a stream, interval by interval.

    Made by `Monitor.partition`. It can be sent to a worker before it has seen a record, and lives
    there: it counts how often people came.

    Parameters
    ----------
    layout : Layout
        Where statistics lie.
    summand : IntervalTotals
        What a record adds at most to a cell of each block, and how many of a person count.
    people : Participation or None
        What people are kept to, if the partition is to do so.
    horizon : int
        Number of intervals.
    secret : bytes, optional
        What names of people are hashed under; drawn if not given.
    """

    def __init__(
        self,
        layout: Layout,
        summand: IntervalTotals,
        people: Participation | None,
        horizon: int,
        secret: bytes | None = None,
    ) -> None:
        self._made_of = (layout, summand, people, horizon)
        self._tally = layout.make_tally(summand)
        self.reader = Reader(layout)
        self.limiter: Limiter | None = None
        if people is not None:
            self.limiter = Limiter(people, horizon, secret, records=summand.records)
        self.cells = np.zeros(self._tally.size, dtype=np.int64)
        self.records = 0
        self._interval = 0

    def __reduce__(self) -> Any:
        if self.records or self._interval:
            raise TypeError("a partition that has counted records stays in its process")
        return Partition, self._made_of

    def add_many(self, records: Any, *, person: Any = None) -> None:
        """Add records of the running interval; arguments as of `Monitor.add_many`."""
        count = length_of(records, person)
        columns, group = self.reader.table(records, count)
        self.add(self._interval, columns, group, self.digests(records, person, count), count)

    def digests(self, records: Any, person: Any, count: int) -> Digests:
        """Return who the people of records are, or raise; none is counted yet."""
        self.check_person(person is not None)
        if self.limiter is None:
            return Digests()
        names = take(records, person) if isinstance(person, str) else person
        return self.limiter.digests(as_persons(names), count)

    def check_person(self, given: bool) -> None:
        """Raise `TypeError` unless people are given where they are limited, and only there."""
        if given and self.limiter is None:
            raise TypeError("person would be ignored: no participation is enforced here")
        if not given and self.limiter is not None:
            raise TypeError("person must be given, because a participation is enforced")

    def add(
        self,
        interval: int,
        columns: list[FloatArray],
        group: NDArray[np.int32] | None,
        digests: bytes,
        count: int,
    ) -> None:
        """Add records that are checked to the cells of an interval."""
        passed = None if self.limiter is None else self.limiter.admit(interval, digests)
        self._tally.add(columns, group, passed, count, self.cells)
        self.records += count

    def merge(self, tally: Tally) -> None:
        """Add a tally of the running interval."""
        found = Tally(tally.interval, self.cells, self.records).merge(tally)
        self.cells, self.records = found.cells, found.records

    def end(self, interval: int, limit: int) -> FloatArray:
        """Return the sums of an interval, each kept within `limit` grids, and begin with the next.

        Parameters
        ----------
        interval : int
            Number of the interval that ends.
        limit : int
            What noise is planned for, in multiples of the grid.
        """
        self.records, self._interval = 0, interval + 1
        return self._tally.take(self.cells, limit, self._made_of[0].grid)

    def tally(self, interval: int | None = None) -> Tally:
        """Return the sums of the running interval, and begin with the next.

        Parameters
        ----------
        interval : int, optional
            Number of the interval that ends; default: the running one. Numbers must not decrease.
        """
        ended = self._interval if interval is None else whole_number("interval", interval)
        if ended < self._interval:
            raise ValueError(f"interval must be at least {self._interval}; got {ended}")
        found = Tally(ended, self.cells, self.records)
        self.cells = np.zeros_like(self.cells)
        self.records, self._interval = 0, ended + 1
        return found


def as_persons(names: Any) -> Any:
    """Return the persons of a column as an array or list."""
    return names.to_numpy() if hasattr(names, "to_numpy") else names
