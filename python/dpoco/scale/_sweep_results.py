"""The file of a sweep, and what is read back from it.

Append-only JSON lines, one record a cell, that survive an interrupt.
A record is one line, written whole and synced before the next. What a crash can leave is a torn
last line; it is cut off when the sweep goes on, and its cell is done again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.errors import StateError
from dpoco.scale._sweep_runs import Cell, decoded, encoded, line_of

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


KIND = "dpoco.sweep/1"
_FIELDS = {"kind", "configuration", "values", "seed", "noise"}
# Bytes every record starts with, since names are sorted; anything else was not written by us.
_START = b'{"configuration":'
# A lock of Windows covers bytes; this one is past every byte that is written.
_LOCKED_BYTE = 2**62


def read_records(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the intact records and the bytes they take; the rest of the file is a torn line.

    Raises
    ------
    StateError
        If anything but a last line without an end is no record.
    OSError
        If the file cannot be read.
    """
    records: list[dict[str, Any]] = []
    intact = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                if not line.startswith(_START[: len(line)]):
                    raise StateError(f"line {number} of the file is not the record of a sweep")
                break
            records.append(_record(line, number))
            intact += len(line)
    return records, intact


def _record(line: bytes, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line, object_hook=decoded)
    except (ValueError, RecursionError):
        record = None
    if (
        not isinstance(record, dict)
        or record.get("kind") != KIND
        or not record.keys() >= _FIELDS
        or ("result" in record) == ("error" in record)
        or not isinstance(record["values"], dict)
        or not isinstance(record["configuration"], dict)
        or type(record["seed"]) is not int
    ):
        raise StateError(f"line {number} of the file is not the record of a sweep")
    return record


class SweepFile:
    """The open file of one sweep, locked against others; a context manager.

    Parameters
    ----------
    path : Path
        Created if absent.
    configuration : mapping
        What every record of the file must agree with.

    Raises
    ------
    StateError
        If the file is of another sweep, foreign, damaged or in use.
    OSError
        If it cannot be written.
    """

    def __init__(self, path: Path, configuration: Mapping[str, Any]) -> None:
        self._configuration = dict(configuration)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            self._lock()
            records, intact = read_records(path)
            for number, record in enumerate(records, start=1):
                self._check(record, number)
            os.ftruncate(self._file, intact)
            os.lseek(self._file, intact, os.SEEK_SET)
        except BaseException:
            os.close(self._file)
            raise
        self._root = int(configuration["root"])
        self.done = {
            Cell(record["values"], record["seed"], self._root).key: record
            for record in records
            if "result" in record
        }

    def _lock(self) -> None:
        try:
            if sys.platform == "win32":
                os.lseek(self._file, _LOCKED_BYTE, os.SEEK_SET)
                msvcrt.locking(self._file, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateError("the file is in use by another sweep") from None

    def _check(self, record: Mapping[str, Any], number: int) -> None:
        said = encoded("configuration", record["configuration"])
        if said == self._configuration:
            return
        names = sorted(
            name
            for name in {*self._configuration, *said}
            if said.get(name) != self._configuration.get(name)
        )
        raise StateError(
            f"line {number} of the file is of another sweep: {', '.join(names)} changed; "
            "continue it as it was, or choose another output"
        )

    def append(self, cell: Cell, outcome: Mapping[str, Any]) -> dict[str, Any]:
        """Write one record so that it survives a power cut, and return it as read back."""
        line = line_of(
            {
                "kind": KIND,
                "configuration": self._configuration,
                "values": json.loads(cell.key)["values"],
                "seed": cell.seed,
                "noise": "seeded: guarantee void",
                **outcome,
            }
        )
        rest = memoryview(line.encode() + b"\n")
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)
        record: dict[str, Any] = json.loads(line, object_hook=decoded)
        return record

    def __enter__(self) -> SweepFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


@dataclass(frozen=True)
class SweepResults:
    """Records of a sweep, one a cell, sorted by values and seed: the same in every mode.

    **Not private**: noise was seeded, and results may be computed from raw records.

    Attributes
    ----------
    path : Path
        The file.
    records : tuple of dict
        ``configuration``, ``values``, ``seed``, ``noise``, and ``result`` or ``error``.
    """

    path: Path
    records: tuple[dict[str, Any], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    @property
    def failed(self) -> tuple[dict[str, Any], ...]:
        """Records of the cells that raised; the next `sweep` does them again."""
        return tuple(record for record in self.records if "error" in record)

    def rows(self) -> list[dict[str, Any]]:
        """Return a flat dictionary for every cell that succeeded: its values, seed and result.

        A result named like a value of the grid, or "seed", becomes ``"result.<name>"``.
        """
        found = []
        for record in self.records:
            if "result" in record:
                row = {**record["values"], "seed": record["seed"]}
                for name, value in record["result"].items():
                    row[f"result.{name}" if name in row else name] = value
                found.append(row)
        return found

    def to_numpy(self) -> NDArray[Any]:
        """Return `rows` as a structured array, shape (cells,).

        Columns are bool, int64, float64 (None is NaN) or str; object for anything else.
        """
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = [_column([row.get(name) for row in rows]) for name in names]
        types = [(name, column.dtype) for name, column in zip(names, columns, strict=True)]
        table = np.empty(len(rows), dtype=types)
        for name, column in zip(names, columns, strict=True):
            table[name] = column
        return table

    def to_pandas(self) -> Any:
        """Return `rows` as a ``pandas.DataFrame``.

        Raises
        ------
        ImportError
            Without pandas.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError('to_pandas needs pandas: pip install "dpoco[data]"') from error
        return pandas.DataFrame(self.rows())


def read_sweep(path: str | os.PathLike[str]) -> SweepResults:
    """Read the file of a sweep, also of one that is still running or was interrupted.

    Of a cell that was done again, the last record counts; a torn last line is passed over.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    SweepResults

    Raises
    ------
    StateError
        If a line is not the record of a sweep.
    OSError
        If the file cannot be read.
    """
    place = Path(path)
    records, _ = read_records(place)
    last = {
        Cell(record["values"], record["seed"]).key + line_of_configuration(record): record
        for record in records
    }
    return SweepResults(place, sorted_records(last.values()))


def line_of_configuration(record: Mapping[str, Any]) -> str:
    """Return what tells records of two sweeps apart that were concatenated into one file."""
    return line_of({"root": record["configuration"].get("root")})


def sorted_records(records: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return records in the order of their values, name by name, and of their seeds."""
    return tuple(sorted(records, key=_place))


def _place(record: Mapping[str, Any]) -> tuple[Any, ...]:
    values = [_rank(value) for _, value in sorted(record["values"].items())]
    return (*values, record["seed"])


def _rank(value: Any) -> tuple[int, float, str]:
    if isinstance(value, (bool, int, float)):
        return (1 if isinstance(value, bool) else 2, float(value), "")
    return (0 if value is None else 3, 0.0, str(value))


def _column(values: list[Any]) -> NDArray[Any]:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return np.array(values, dtype=np.bool_)
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return np.array(values, dtype=np.int64)
    if kinds <= {int, float, type(None)} and kinds != {type(None)}:
        return np.array([np.nan if v is None else float(v) for v in values])
    if kinds == {str}:
        return np.array(values)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
