"""The cells of a sweep, the file of their records, and what is read back from it.

A cell is values, a seed, and randomness that depends on nothing else. The file is JSON lines, one
record a cell, each written whole and synced before the next: what a crash can leave is a torn last
line; it is cut off when the sweep goes on, and its cell is done again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import imported, positive_int, whole_number
from dpoco.errors import StateError
from dpoco.random import Source

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_LARGEST_SEED = 2**63 - 1
_LARGEST_SWEEP = 10**7


def encoded(name: str, value: Any) -> Any:
    """Return `value` as JSON carries it: NumPy's types become Python's, no value is lost.

    Floats that are not finite, which JSON lacks, become ``{"$float": "nan"}`` and the like.
    """
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, (list, tuple)):
        return [encoded(name, item) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value) or "$float" in value:
            raise TypeError(f"{name} must have strings for names")
        return {key: encoded(name, item) for key, item in value.items()}
    raise TypeError(
        f"{name} must be of numbers, strings, booleans, None, lists, mappings and arrays; "
        f"got {type(value).__name__}"
    )


def decoded(pairs: dict[str, Any]) -> Any:
    """Undo `encoded`: the ``object_hook`` of ``json.loads``."""
    return float(pairs["$float"]) if pairs.keys() == {"$float"} else pairs


def line_of(record: Mapping[str, Any]) -> str:
    """Return the one JSON text of a record."""
    return json.dumps(record, allow_nan=False, separators=(",", ":"), sort_keys=True)


def _identity(value: Any) -> Any:
    """Return what tells values apart: 1 and 1.0 are the same, True is neither."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


@dataclass(frozen=True)
class Cell:
    """One cell of a sweep, which the swept function receives.

    Attributes
    ----------
    values : dict
        The grid's values, by name; also ``cell["epsilon"]``.
    seed : int
        One of the sweep's seeds.
    root : int
        Root of the sweep's seed tree.
    """

    values: dict[str, Any]
    seed: int
    root: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def key(self) -> str:
        """JSON of the cell's values and seed, which identifies it within a sweep."""
        values = {name: _identity(value) for name, value in self.values.items()}
        return line_of({"seed": self.seed, "values": encoded("values", values)})

    def source(self) -> Source:
        """Return the seeded source of this cell's noise, which voids guarantees.

        Sources are equal for equal root, values and seed. They are independent of every other
        cell's, whatever the order of the cells and the rest of the grid. Every call returns the
        source from its beginning.
        """
        return Source.seeded(self._digest("noise", self.key))

    def generator(self) -> np.random.Generator:
        """Return a generator for simulated data, never for privacy.

        It depends only on root and seed, so all values of the grid see the same data.
        """
        return np.random.default_rng(self._digest("data", str(self.seed)))

    def _digest(self, use: str, text: str) -> int:
        message = f"dpoco sweep {use}\n{self.root}\n{text}".encode()
        return int.from_bytes(hashlib.sha256(message).digest(), "little")


def cells_of(
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    seeds: int | Iterable[int],
    root: int,
) -> list[Cell]:
    """Return all cells: the product of the grid (or its rows) with the seeds, seeds fastest."""
    rows = _rows(grid)
    numbers = _seeds(seeds)
    whole_number("root", root, 0, _LARGEST_SEED)
    if len(rows) * len(numbers) > _LARGEST_SWEEP:
        raise ValueError(f"a sweep has at most {_LARGEST_SWEEP} cells")
    cells = [Cell(row, seed, int(root)) for row in rows for seed in numbers]
    if len({cell.key for cell in cells}) != len(cells):
        raise ValueError("the grid or the seeds name the same cell twice")
    return cells


def _rows(
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    if isinstance(grid, Mapping):
        columns = {name: _column(name, values) for name, values in grid.items()}
        rows = [
            dict(zip(columns, values, strict=True))
            for values in itertools.product(*columns.values())
        ]
    else:
        rows = [dict(row) for row in grid]
    if not rows:
        raise ValueError("the grid has no cells")
    names = rows[0].keys()
    if any(row.keys() != names for row in rows):
        raise ValueError("every row of the grid must have the same names")
    if not all(isinstance(name, str) for name in names):
        raise TypeError("the names of the grid must be strings")
    return [{name: _scalar(name, value) for name, value in row.items()} for row in rows]


def _column(name: Any, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"grid[{name!r}] must be a sequence of values")
    return list(values)


def _scalar(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise TypeError(
            f"grid[{name!r}] must hold numbers, strings, booleans or None; "
            f"got {type(value).__name__}"
        )
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"grid[{name!r}] holds a NaN, which is no value")
    return value


def _seeds(seeds: int | Iterable[int]) -> Sequence[int]:
    single = isinstance(seeds, (bool, np.bool_, str, bytes))
    if single or not isinstance(seeds, (int, np.integer, Iterable)):
        raise TypeError("seeds must be a number of seeds or a sequence of them")
    if isinstance(seeds, (int, np.integer)):
        return range(positive_int("seeds", seeds, maximum=_LARGEST_SWEEP))
    numbers = [whole_number("a seed", seed, 0, _LARGEST_SEED) for seed in seeds]
    if not numbers:
        raise ValueError("seeds is empty")
    return numbers


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
    """Records of a sweep, one per cell, sorted by values and seed; equal with every backend.

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

    @classmethod
    def of(cls, path: Path, records: Iterable[dict[str, Any]]) -> SweepResults:
        """Return records in their order."""
        return cls(path, tuple(sorted(records, key=_place)))

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    @property
    def failed(self) -> tuple[dict[str, Any], ...]:
        """Records of the cells that raised an error; the next `sweep` repeats them."""
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
        columns = [_typed([row.get(name) for row in rows]) for name in names]
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
        return imported("pandas", "to_pandas", "files").DataFrame(self.rows())


def read_sweep(path: str | os.PathLike[str]) -> SweepResults:
    """Read the file of a sweep, even of one that is running or was interrupted.

    If a cell was run again, its last record counts; a torn last line is ignored.

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
    # Records of two roots are told apart: files of two sweeps may have been concatenated.
    roots = [line_of({"root": record["configuration"].get("root")}) for record in records]
    keys = [Cell(record["values"], record["seed"]).key for record in records]
    last = dict(zip(zip(keys, roots, strict=True), records, strict=True))
    return SweepResults.of(place, last.values())


def _place(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return where a record is sorted: by its values, name by name, and by its seed."""
    values = [_rank(value) for _, value in sorted(record["values"].items())]
    return (*values, record["seed"])


def _rank(value: Any) -> tuple[int, float, str]:
    if isinstance(value, (bool, int, float)):
        return (1 if isinstance(value, bool) else 2, float(value), "")
    return (0 if value is None else 3, 0.0, str(value))


def _typed(values: list[Any]) -> NDArray[Any]:
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
