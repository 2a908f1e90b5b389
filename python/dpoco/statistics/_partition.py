"""Adding up a part of a stream: by a monitor itself, or by workers that hand on their tallies.

Totals of an interval are integers, so that tallies of any partition add up to the same bits. People
are limited where their records are added, so all records of a person must come to one partition.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import (
    FloatArray,
    import_package,
    is_missing,
    number,
    whole_number,
    without_mask,
)
from dpoco.errors import RoundOrderError
from dpoco.learning.participation import Digests, Limiter, Participation, Persons
from dpoco.privacy.mechanisms.bounds import IntervalTotals
from dpoco.statistics._layout import Column, Layout
from dpoco.statistics._statistics import Name

Codes = NDArray[np.int32]


class Reader:
    """Reads what a layout needs from single records and from tables."""

    def __init__(self, layout: Layout) -> None:
        self._columns = layout.columns
        self._codes = [_codes_by_value(column.values) for column in layout.columns]
        self._by = [(name, _codes_by_value(values), len(values) + 1) for name, values in layout.by]

    def recorder(self, room: int) -> _core.Recorder:
        """Return what takes single records of the usual types, at most `room` at once.

        It takes what `record` takes, compiled, and leaves to `record` what it does not know.
        """
        columns = [
            (column.name, None if column.values is None else codes)
            for column, codes in zip(self._columns, self._codes, strict=True)
        ]
        return _core.Recorder(columns, [(name, codes) for name, codes, _ in self._by], room)

    def record(self, record: Mapping[str, object]) -> tuple[list[float], int]:
        """Return the numbers of a record, and the code of its group.

        Raises
        ------
        ValueError, TypeError
            For a column that is missing or of another type.
        """
        try:
            numbers = [
                number(f"column {column.name!r}", record[column.name])
                if column.values is None
                else _code(codes, record[column.name])
                for column, codes in zip(self._columns, self._codes, strict=True)
            ]
            group = 0
            for name, codes, size in self._by:
                code = _code(codes, record[name])
                # A missing value belongs to the group of all others: it must not drop its record.
                group = group * size + (size - 1 if math.isnan(code) else int(code))
        except KeyError as error:
            raise ValueError(f"the record has no column {error.args[0]!r}") from None
        return numbers, group

    def table(self, table: object, records: int) -> tuple[list[FloatArray], Codes | None]:
        """Return the columns of a table, each of shape (records,), and the codes of groups.

        Parameters
        ----------
        table : table
            As for `Monitor.add_many`.
        records : int
            Length that every column must have.

        Returns
        -------
        columns : list of ndarray of float64
            Numbers, or codes of public values; NaN where a value is missing.
        group : ndarray of int32 or None
            Number of each record's group; None without groups.

        Raises
        ------
        ValueError, TypeError
            As for `record`, and for columns of another length.
        """
        columns = [
            self._column(table, column, codes, records)
            for column, codes in zip(self._columns, self._codes, strict=True)
        ]
        group: Codes | None = None
        for name, codes, size in self._by:
            found = _encode(take(table, name), codes)
            _check_length(name, found, records)
            own = np.where(np.isnan(found), size - 1, found).astype(np.int32)
            group = own if group is None else (group * size + own).astype(np.int32)
        return columns, group

    def _column(
        self, table: object, column: Column, codes: dict[object, int], records: int
    ) -> FloatArray:
        """Return a column as numbers, or as codes of its public values."""
        values = take(table, column.name)
        found = _numbers(column.name, values) if column.values is None else _encode(values, codes)
        _check_length(column.name, found, records)
        return found


def _check_length(name: str, found: FloatArray, records: int) -> None:
    """Raise unless a column has an entry for each record; the message has its shape alone."""
    if found.shape != (records,):
        raise ValueError(f"column {name!r} must have shape ({records},); got {found.shape}")


def count_records(table: Any, *beside: object) -> int:
    """Return how many records a table, a mapping of columns or a list of mappings holds.

    A mapping without columns has as many as the first sequence among the other arguments.
    """
    if isinstance(table, Mapping):
        # A text names a column, and has no length of records.
        given = (each for each in beside if isinstance(each, Sized) and not isinstance(each, str))
        return len(next(iter(table.values())) if table else next(given, ()))
    rows = getattr(table, "num_rows", None)  # of Arrow
    return len(table) if rows is None else int(rows)


def take(table: Any, name: str) -> Any:
    """Return a column of a table; `ValueError` if it has none of this name."""
    if isinstance(table, Sequence) and not isinstance(table, (str, bytes)):
        if not all(isinstance(record, Mapping) for record in table):
            raise TypeError("records of a sequence must be mappings")
        if not all(name in record for record in table):
            raise ValueError(f"a record has no column {name!r}")
        return [record[name] for record in table]
    try:
        return table[name]
    except (KeyError, IndexError, ValueError):
        raise ValueError(f"the records have no column {name!r}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "polars":  # its own error of a missing name
            raise ValueError(f"the records have no column {name!r}") from None
        raise


def _plain(values: Any) -> NDArray[Any]:
    """Return a column as a NumPy array, of objects where it has to be."""
    if isinstance(values, np.ndarray):
        return np.asarray(without_mask(values))
    if hasattr(values, "to_numpy"):
        try:
            return np.asarray(values.to_numpy(zero_copy_only=False))  # Arrow
        except TypeError:
            return np.asarray(values.to_numpy())
    values = list(values)
    # `np.array` would make a matrix of texts or lists of one length.
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _numbers(name: str, values: object) -> FloatArray:
    """Return a column of numbers, NaN where one is missing, or raise `TypeError`."""
    array = _plain(values)
    if array.dtype.kind in "fiub":
        return np.ascontiguousarray(array, dtype=np.float64)
    if array.dtype.kind == "O":
        return np.array(
            [number(f"column {name!r}", value) for value in array.tolist()], dtype=np.float64
        )
    raise TypeError(f"column {name!r} must hold numbers; got {array.dtype}")


def _codes_by_value(values: tuple[Name, ...] | None) -> dict[object, int]:
    """Return the code of each public value; none for a column of numbers."""
    return {} if values is None else {value: code for code, value in enumerate(values)}


def _code(codes: dict[object, int], value: object) -> float:
    """Return the code of a value, that of everything else, or NaN for a missing one."""
    if is_missing(value):
        return math.nan
    try:
        return float(codes.get(value, len(codes)))
    except TypeError:  # a value that is no name
        return float(len(codes))


def _encode(values: object, codes: dict[object, int]) -> FloatArray:
    """Return the codes of a column's values, as `_code` does one by one."""
    array = _plain(values)
    if array.dtype.kind in "fM":
        missing = np.isnan(array) if array.dtype.kind == "f" else np.isnat(array)
    else:
        missing = None
    if array.dtype.kind != "O":
        # A column has few values: each is looked up once.
        found, inverse = np.unique(array, return_inverse=True)
        own = np.array([codes.get(value, len(codes)) for value in found.tolist()], dtype=np.float64)
        coded = own[inverse] if len(found) else np.empty(0)
        return coded if missing is None else np.where(missing, math.nan, coded)
    return np.array([_code(codes, value) for value in array.tolist()], dtype=np.float64)


# Largest size of cells: twice that fits into 64 bits. A sum that wrapped would turn one record
# into the largest change there is.
_FULL = 2**61


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
    # Not in texts, which end up in logs.
    cells: NDArray[np.int64] = field(repr=False)
    records: int = field(repr=False)

    def merge(self, *others: Tally) -> Tally:
        """Return the tally of several parts of the same interval together, in any order.

        Parameters
        ----------
        *others : Tally
            Each part once: nothing notices a second time.

        Raises
        ------
        ValueError
            For other intervals, or another number of cells.
        """
        # A worker's message may be damaged: beyond 2^61 a sum could wrap.
        cells, records = np.clip(self.cells, -_FULL, _FULL), self.records
        for other in others:
            if other.interval != self.interval or other.cells.shape != cells.shape:
                raise ValueError("tallies must be of the same interval and layout")
            # Two numbers within 2^61 add up without overflow, and clipping keeps neighbours as near
            # as they were (docs/privacy/statistics.md, "Saturation").
            np.clip(cells + np.clip(other.cells, -_FULL, _FULL), -_FULL, _FULL, out=cells)
            records += other.records
        return Tally(self.interval, cells, records)

    def to_arrow(self) -> Any:
        """Return an Arrow record batch of one row, for engines that move data as Arrow does.

        Returns
        -------
        pyarrow.RecordBatch
            Columns ``interval``, ``cells`` (a list) and ``records``: as secret as the records.
        """
        arrow = import_package("pyarrow", "to_arrow", "files")
        return arrow.RecordBatch.from_pydict({
            "interval": [self.interval],
            "cells": arrow.array([self.cells], arrow.list_(arrow.int64())),
            "records": [self.records],
        })  # fmt: skip

    @classmethod
    def from_arrow(cls, batch: Any) -> list[Tally]:
        """Return the tallies of the rows of a record batch or table.

        Parameters
        ----------
        batch : pyarrow.RecordBatch or pyarrow.Table
            Rows that `to_arrow` made.

        Raises
        ------
        KeyError
            If a column is missing.
        """
        return [
            cls(row["interval"], np.array(row["cells"], dtype=np.int64), row["records"])
            for row in batch.to_pylist()
        ]


class Partition:
    """Adds up the records of a part of a stream, interval by interval.

    Made by `Monitor.partition`. It can be sent to a worker before it has seen a record, and lives
    there: it counts how often people came. One thread at a time may use it; a second one is
    refused.

    Parameters
    ----------
    layout : Layout
        Where statistics lie.
    summand : IntervalTotals
        Bounds on what a record adds to a cell of each block, and how many of a person count.
    people : Participation or None
        Limits on the records of a person, if the partition enforces them.
    horizon : int
        Number of intervals.
    secret : bytes, optional
        Key under which names of people are hashed; drawn if not given.
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
        self._turn = 0  # of the limiter: never more of them between two tallies than intervals
        self._sole = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        if self.records or self._interval:
            raise TypeError("a partition that has counted records stays in its process")
        # Without the secret: names of people are hashed under another one elsewhere.
        return Partition, self._made_of

    def add_many(self, records: object, *, person: Persons = None) -> None:
        """Add records of the running interval; arguments as of `Monitor.add_many`.

        Raises
        ------
        RoundOrderError
            If another thread uses the partition; nothing is added.
        ValueError, TypeError
            As for `Monitor.add_many`; nothing is added.
        """
        with self._alone():
            count = count_records(records, person)
            columns, group = self.reader.table(records, count)
            self.add(self._turn, columns, group, self.digests(records, person, count), count)

    def _alone(self) -> threading.Lock:
        """Return the lock that keeps other threads out, or raise if one is in."""
        # Adding leaves the interpreter lock: cells and counts of two threads would mix.
        if self._sole.locked():
            raise RoundOrderError("the partition is in use by another thread")
        return self._sole

    def digests(self, records: object, person: Persons, count: int) -> Digests:
        """Return who the people of records are, or raise; none is counted yet."""
        self.check_person(person is not None)
        if self.limiter is None:
            return Digests()
        names: Any = take(records, person) if isinstance(person, str) else person
        if hasattr(names, "to_numpy"):
            names = names.to_numpy()
        return self.limiter.digests(names, count)

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
        """Add records that are checked to the cells of an interval.

        Parameters
        ----------
        interval : int
            The limiter's number of the interval, which never decreases.
        columns, group
            As `Reader.table` returns them.
        digests : bytes
            16 bytes for the person of each record, if people are limited.
        count : int
            Number of records.
        """
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
            Largest contribution that noise is planned for, in multiples of the grid.
        """
        self.records, self._interval = 0, interval + 1
        return self._tally.take(self.cells, limit, self._made_of[0].grid)

    def tally(self, interval: int | None = None) -> Tally:
        """Return the sums of the running interval, and begin with the next.

        Parameters
        ----------
        interval : int, optional
            Number of the interval that ends; default: the running one. Numbers must not decrease.

        Raises
        ------
        RoundOrderError
            If another thread uses the partition.
        ValueError
            For an interval that has ended.
        """
        with self._alone():
            ended = self._interval if interval is None else whole_number("interval", interval)
            if ended < self._interval:
                raise ValueError(f"interval must be at least {self._interval}; got {ended}")
            # People were admitted before the number of their interval was said. Counting 1 for it
            # never takes two of their intervals for further apart than they are
            # (docs/privacy/statistics.md, "Partitions"). Without a record no one was admitted: all
            # intervals up to this one have passed.
            self._turn += 1 if self.records else ended + 1 - self._interval
            # The tally keeps the array, and a new one takes its place.
            found = Tally(ended, self.cells, self.records)
            self.cells = np.zeros_like(self.cells)
            self.records, self._interval = 0, ended + 1
            return found
