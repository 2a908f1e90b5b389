"""What a sweep found, read back from its file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.scale._sweep_cells import Cell, line_of
from dpoco.scale._sweep_file import read_records

__all__ = ["SweepResults", "read_sweep", "sorted_records"]


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
