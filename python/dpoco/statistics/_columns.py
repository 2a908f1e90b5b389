"""Columns of numbers and of group codes, from records of any kind.

A column of another type than declared raises; a value that is missing or out of range never does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray, is_missing, number
from dpoco.statistics._layout import Column, Layout
from dpoco.statistics._statistics import Name

__all__ = ["Reader", "length_of"]

Codes = NDArray[np.int32]


class Reader:
    """Reads what a layout needs from single records and from tables."""

    def __init__(self, layout: Layout) -> None:
        self._columns = layout.columns
        self._codes = [_codes_by_value(column.values) for column in layout.columns]
        self._by = [(name, _codes_by_value(values), len(values) + 1) for name, values in layout.by]

    def recorder(self, room: int) -> _core.Recorder:
        """Return what takes single records of the usual types, at most `room` at once."""
        columns = [
            (column.name, None if column.values is None else codes)
            for column, codes in zip(self._columns, self._codes, strict=True)
        ]
        return _core.Recorder(columns, [(name, codes) for name, codes, _ in self._by], room)

    def record(self, record: Mapping[str, Any]) -> tuple[list[float], int]:
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
                group = group * size + (size - 1 if math.isnan(code) else int(code))
        except KeyError as error:
            raise ValueError(f"the record has no column {error.args[0]!r}") from None
        return numbers, group

    def table(self, table: Any, records: int) -> tuple[list[FloatArray], Codes | None]:
        """Return the columns of a table, each of shape (records,), and the codes of groups.

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
        self, table: Any, column: Column, codes: dict[Any, int], records: int
    ) -> FloatArray:
        values = take(table, column.name)
        found = _numbers(column.name, values) if column.values is None else _encode(values, codes)
        _check_length(column.name, found, records)
        return found


def _check_length(name: str, found: FloatArray, records: int) -> None:
    if found.shape != (records,):
        raise ValueError(f"column {name!r} must have shape ({records},); got {found.shape}")


def length_of(table: Any, *beside: Any) -> int:
    """Return how many records a table, a mapping of columns or a list of mappings holds.

    Of a mapping without columns: the length of the first of `beside` that is a sequence.
    """
    if isinstance(table, Mapping):
        given = (each for each in beside if each is not None and not isinstance(each, str))
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
        return values
    if hasattr(values, "to_numpy"):
        try:
            return np.asarray(values.to_numpy(zero_copy_only=False))  # Arrow
        except TypeError:
            return np.asarray(values.to_numpy())
    values = list(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _numbers(name: str, values: Any) -> FloatArray:
    array = _plain(values)
    if array.dtype.kind in "fiub":
        return np.ascontiguousarray(array, dtype=np.float64)
    if array.dtype.kind == "O":
        return np.array(
            [number(f"column {name!r}", value) for value in array.tolist()], dtype=np.float64
        )
    raise TypeError(f"column {name!r} must hold numbers; got {array.dtype}")


def _codes_by_value(values: tuple[Name, ...] | None) -> dict[Any, int]:
    return {} if values is None else {value: code for code, value in enumerate(values)}


def _code(codes: dict[Any, int], value: Any) -> float:
    """Return the code of a value, that of everything else, or NaN for a missing one."""
    if is_missing(value):
        return math.nan
    try:
        return float(codes.get(value, len(codes)))
    except TypeError:  # a value that is no name
        return float(len(codes))


def _encode(values: Any, codes: dict[Any, int]) -> FloatArray:
    array = _plain(values)
    if array.dtype.kind in "fM":
        missing = np.isnan(array) if array.dtype.kind == "f" else np.isnat(array)
    else:
        missing = None
    if array.dtype.kind != "O":
        found, inverse = np.unique(array, return_inverse=True)
        own = np.array([codes.get(value, len(codes)) for value in found.tolist()], dtype=np.float64)
        coded = own[inverse] if len(found) else np.empty(0)
        return coded if missing is None else np.where(missing, math.nan, coded)
    return np.array([_code(codes, value) for value in array.tolist()], dtype=np.float64)
