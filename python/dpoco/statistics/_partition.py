"""Adding a part of a stream: in a monitor, or in workers that return tallies.

Totals of an interval are integers, so the tallies of any partition sum to the same bits. People are
limited where their records are added, so all records of a person must go to one partition.
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
    """Reads the columns of a layout from single records and from tables."""

    def __init__(self, layout: Layout) -> None:
        self._columns = layout.columns
        self._codes = [_codes_by_value(column.values) for column in layout.columns]
        self._by = [(name, _codes_by_value(values), len(values) + 1) for name, values in layout.by]

    def recorder(self, room: int) -> _core.Recorder:
        """Return a recorder for single records of the usual types, at most `room` at a time.

        It is a compiled version of `record`, and leaves records of unknown types to `record`.
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
            For a column that is missing or has another type.
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
                # A missing value belongs to the group "other", so that its record is not dropped.
                group = group * size + (size - 1 if math.isnan(code) else int(code))
        except KeyError as error:
            raise ValueError(f"the record has no column {error.args[0]!r}") from None
        return numbers, group

    def table(self, table: object, records: int) -> tuple[list[FloatArray], Codes | None]:
        """Return the columns of a table, each of shape (records,), and the codes of groups.

        Parameters
        ----------
        table : table
            See `Monitor.add_many`.
        records : int
            Required length of each column.

        Returns
        -------
        columns : list of ndarray of float64
            Numbers, or codes of public values; NaN for missing values.
        group : ndarray of int32 or None
            Group number of each record; None without groups.

        Raises
        ------
        ValueError, TypeError
            See `record`; also for columns of another length.
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
    """Raise unless a column has one entry per record; the message only contains its shape."""
    if found.shape != (records,):
        raise ValueError(f"column {name!r} must have shape ({records},); got {found.shape}")


def count_records(table: Any, *beside: object) -> int:
    """Return the number of records in a table, a mapping of columns or a list of mappings.

    For a mapping without columns, it is the length of the first sequence among the other arguments.
    """
    if isinstance(table, (str, bytes)):
        raise TypeError("records must be a table, not a text: read a file with pandas.read_csv")
    if isinstance(table, Mapping):
        # A text is the name of a column, so its length is not a number of records.
        given = (each for each in beside if isinstance(each, Sized) and not isinstance(each, str))
        return len(next(iter(table.values())) if table else next(given, ()))
    rows = getattr(table, "num_rows", None)  # for Arrow tables
    return len(table) if rows is None else int(rows)


def take(table: Any, name: str) -> Any:
    """Return a column of a table; `ValueError` if there is none with this name."""
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
        if type(error).__module__.partition(".")[0] == "polars":  # the error of polars
            raise ValueError(f"the records have no column {name!r}") from None
        raise


def _plain(values: Any) -> NDArray[Any]:
    """Return a column as a NumPy array, of objects if necessary."""
    if isinstance(values, np.ndarray):
        return np.asarray(without_mask(values))
    if hasattr(values, "to_numpy"):
        try:
            return np.asarray(values.to_numpy(zero_copy_only=False))  # for Arrow columns
        except TypeError:
            return np.asarray(values.to_numpy())
    values = list(values)
    # `np.array` would make a matrix from texts or lists of equal length.
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
    """Return the code of each public value; empty for a column of numbers."""
    return {} if values is None else {value: code for code, value in enumerate(values)}


def _code(codes: dict[object, int], value: object) -> float:
    """Return the code of a value, the code of all other values, or NaN for a missing value."""
    if is_missing(value):
        return math.nan
    try:
        return float(codes.get(value, len(codes)))
    except TypeError:  # not hashable, and so not a public value
        return float(len(codes))


def _encode(values: object, codes: dict[object, int]) -> FloatArray:
    """Return the codes of a column's values, like `_code` for each."""
    array = _plain(values)
    if array.dtype.kind in "fM":
        missing = np.isnan(array) if array.dtype.kind == "f" else np.isnat(array)
    else:
        missing = None
    if array.dtype.kind != "O":
        # A column has few different values, and each is looked up once.
        found, inverse = np.unique(array, return_inverse=True)
        own = np.array([codes.get(value, len(codes)) for value in found.tolist()], dtype=np.float64)
        coded = own[inverse] if len(found) else np.empty(0)
        return coded if missing is None else np.where(missing, math.nan, coded)
    return np.array([_code(codes, value) for value in array.tolist()], dtype=np.float64)


# Largest absolute value of cells; twice this value fits into 64 bits. If a sum wrapped around, one
# record could cause the largest possible change.
_FULL = 2**61


@dataclass(frozen=True, eq=False)
class Tally:
    """Exact sums of a part of an interval. Keep them as secret as the records.

    Attributes
    ----------
    interval : int
        Number of the interval.
    cells : ndarray of int64
        In the order of the monitor's layout, in multiples of its grid.
    records : int
        Number of added records.
    """

    interval: int
    # Not shown in texts, which may be logged.
    cells: NDArray[np.int64] = field(repr=False)
    records: int = field(repr=False)

    def merge(self, *others: Tally) -> Tally:
        """Return the joint tally of several parts of the same interval, in any order.

        Parameters
        ----------
        *others : Tally
            Each part once: a repeated part is not detected.

        Raises
        ------
        ValueError
            For tallies of other intervals, or with another number of cells.
        """
        # A worker's message may be damaged, and beyond 2^61 a sum could wrap around.
        cells, records = np.clip(self.cells, -_FULL, _FULL), self.records
        for other in others:
            if other.interval != self.interval or other.cells.shape != cells.shape:
                raise ValueError("tallies must be of the same interval and layout")
            # Two numbers within 2^61 add without overflow, and clipping does not increase the
            # distance of neighbours (docs/privacy/statistics.md, "Saturation").
            np.clip(cells + np.clip(other.cells, -_FULL, _FULL), -_FULL, _FULL, out=cells)
            records += other.records
        return Tally(self.interval, cells, records)

    def to_arrow(self) -> Any:
        """Return an Arrow record batch with one row, for engines that move data as Arrow.

        Returns
        -------
        pyarrow.RecordBatch
            Columns ``interval``, ``cells`` (a list) and ``records``. Keep them as secret as the
            records.
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
            Rows from `to_arrow`.

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
    """Adds the records of a part of a stream, interval by interval.

    Made by `Monitor.partition`. It can be sent to a worker before it has records. Then it stays
    there, because it counts how often people came. One thread at a time may use it; calls from a
    second thread raise.

    Parameters
    ----------
    layout : Layout
        Positions of the statistics.
    summand : IntervalTotals
        Bounds on a record's addition to a cell of each block, and the number of records per person.
    people : Participation or None
        Limits on the records of a person, if the partition enforces them.
    horizon : int
        Number of intervals.
    secret : bytes, optional
        Key for hashing names of people; drawn if not given.
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
        self._turn = 0  # of the limiter; per tally it grows by at most its intervals
        self._sole = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        if self.records or self._interval:
            raise TypeError("a partition that has counted records stays in its process")
        # Without the secret, so that other partitions hash names of people with another key.
        return Partition, self._made_of

    def add_many(self, records: object, *, person: Persons = None) -> None:
        """Add records of the current interval; for arguments see `Monitor.add_many`.

        Raises
        ------
        RoundOrderError
            If another thread uses the partition; nothing is added.
        ValueError, TypeError
            See `Monitor.add_many`; nothing is added.
        """
        with self._alone():
            count = count_records(records, person)
            columns, group = self.reader.table(records, count)
            self.add(self._turn, columns, group, self.digests(records, person, count), count)

    def _alone(self) -> threading.Lock:
        """Return the lock that excludes other threads, or raise if a thread holds it."""
        # Adding releases the interpreter lock, so cells and counts of two threads could mix.
        if self._sole.locked():
            raise RoundOrderError("the partition is in use by another thread")
        return self._sole

    def digests(self, records: object, person: Persons, count: int) -> Digests:
        """Return the digests of the records' people, or raise; nobody is counted yet."""
        self.check_person(person is not None)
        if self.limiter is None:
            return Digests()
        names: Any = take(records, person) if isinstance(person, str) else person
        if hasattr(names, "to_numpy"):
            names = names.to_numpy()
        return self.limiter.digests(names, count)

    def check_person(self, given: bool) -> None:
        """Raise `TypeError` unless people are given if and only if they are limited."""
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
        """Add checked records to the cells of an interval.

        Parameters
        ----------
        interval : int
            The limiter's interval number, which never decreases.
        columns, group
            Results of `Reader.table`.
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
        """Return the sums of an interval, each within `limit` grids, and start the next interval.

        Parameters
        ----------
        interval : int
            Number of the interval that ends.
        limit : int
            Largest contribution for which noise is planned, in multiples of the grid.
        """
        self.records, self._interval = 0, interval + 1
        return self._tally.take(self.cells, limit, self._made_of[0].grid)

    def tally(self, interval: int | None = None) -> Tally:
        """Return the sums of the current interval, and start the next interval.

        Parameters
        ----------
        interval : int, optional
            Number of the interval that ends; default: the current one. Numbers must not decrease.

        Raises
        ------
        RoundOrderError
            If another thread uses the partition.
        ValueError
            For an interval that has already ended.
        """
        with self._alone():
            ended = self._interval if interval is None else whole_number("interval", interval)
            if ended < self._interval:
                raise ValueError(f"interval must be at least {self._interval}; got {ended}")
            # People were admitted before the interval's number was known. Counting 1 for this
            # interval never makes two of their intervals seem farther apart than they are
            # (docs/privacy/statistics.md, "Partitions"). Without records nobody was admitted, so
            # all intervals up to this one have passed.
            self._turn += 1 if self.records else ended + 1 - self._interval
            # The tally keeps the array, so a new array replaces it.
            found = Tally(ended, self.cells, self.records)
            self.cells = np.zeros_like(self.cells)
            self.records, self._interval = 0, ended + 1
            return found
