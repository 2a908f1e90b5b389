"""Streams from CSV, Parquet and NumPy files."""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray, MalformedError, reading
from dpoco.datasets._stream import PublicScaling, Stream


def load_file(
    path: str | os.PathLike[str],
    *,
    label: str,
    features: Sequence[str] | None = None,
    header: bool | None = None,
    scaling: PublicScaling | None = None,
    label_scaling: PublicScaling | None = None,
    task: str = "classification",
) -> Stream:
    """Read a stream from a table whose rows are rounds, in order of arrival.

    Parameters
    ----------
    path : path-like
        ``.csv`` (or ``.csv.gz``; comma-separated), ``.parquet`` (needs pyarrow) or ``.npz`` (every
        one-dimensional array is a column; a two-dimensional array ``X`` gives columns ``X0``,
        ``X1``, ...).
    label : str
        Name of the label's column.
    features : sequence of str, optional
        Names of the feature columns, in order; default all columns but the label's.
    header : bool, optional
        Whether the first row of a CSV file names the columns. False: they are named by number,
        "1", "2", ... None: it does, unless a cell is a number, a date or a time: such a row may be
        a record and is refused.
    scaling : PublicScaling, optional
        Public transformation of the features; default none.
    label_scaling : PublicScaling, optional
        Public transformation of the labels (its intercept is ignored); default none.
    task : {"classification", "regression"}
        What the labels are.

    Returns
    -------
    Stream
        Missing entries are NaN: learners take such a record as a zero record.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `header` is no bool.
    ValueError
        If the format is unknown, the file is malformed or has fewer than two rounds, or a column
        is missing or not numeric. Messages contain no cell of a CSV file, its first row included:
        they say the column's number.
    ImportError
        If the format needs a package that is not installed.
    """
    source = Path(path)
    names, select, _ = _opened(source, header)
    wanted = [name for name in names if name != label] if features is None else list(features)
    _check_columns(source, names, [label, *wanted])
    if label in wanted:
        raise ValueError(f"column {label!r} is the label and cannot be a feature")
    if not wanted:
        raise ValueError(f"{source.name} has no feature column besides the label")
    table = select([*wanted, label])
    labels = table[:, -1]
    flags = {}
    if label_scaling is not None:
        flags["label_out_of_range"] = label_scaling.outside(labels[:, None])[:, 0]
        labels = label_scaling.apply(labels[:, None])[:, 0]
    stream = Stream(
        name=source.name,
        features=table[:, :-1],
        labels=labels,
        feature_names=tuple(wanted),
        task=task,
        description=f"Records of {source.name}, label {label!r}",
        source="file given by the user",
        nonprivate_flags=flags,
    )
    return stream if scaling is None else stream.scaled(scaling)


def column_names(path: str | os.PathLike[str], *, header: bool | None = None) -> list[str]:
    """Return the names of a table's columns, in order; formats and errors as of `load_file`."""
    return _opened(Path(path), header)[0]


def read_columns(
    path: str | os.PathLike[str], wanted: list[str], *, header: bool | None = None
) -> FloatArray:
    """Return columns of a table that may have no others, shape (T, len(wanted)); as `load_file`."""
    source = Path(path)
    names, select, _ = _opened(source, header)
    _check_columns(source, names, wanted)
    return select(wanted)


def read_people(
    path: str | os.PathLike[str], column: str, *, header: bool | None = None
) -> list[str]:
    """Return whose record each row of a table is, as texts; formats and errors as of `load_file`.

    Texts and whole numbers name people; a row that names nobody is a `ValueError`.
    """
    source = Path(path)
    names, _, entries = _opened(source, header)
    _check_columns(source, names, [column])
    named = entries(column)
    if not all(isinstance(each, (str, int)) or each is None for each in named):
        raise MalformedError(f"column {column!r} must hold texts or whole numbers")
    people = ["" if each is None else str(each).strip() for each in named]
    if not {"", "nan", "NaN"}.isdisjoint(people):
        raise MalformedError(f"column {column!r} has missing values: each row must be somebody's")
    return people


# A reader returns the column names, a function that loads chosen columns, shape (T, columns), and
# one that loads the entries of a column as they are.
Select = Callable[[list[str]], FloatArray]
Entries = Callable[[str], list[Any]]
Opened = tuple[list[str], Select, Entries]


def _opened(source: Path, header: bool | None) -> Opened:
    if not (header is None or isinstance(header, bool)):
        raise TypeError(f"header must be a bool or None; got {type(header).__name__}")
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {source}")
    read, kind = _reader(source, header)
    with reading(source, kind):
        names, select, raw = read(source)

    def load(chosen: list[str]) -> FloatArray:
        with reading(source, kind):
            table = select(chosen)
        if len(table) < 2:
            raise ValueError(
                f"{source.name} has {len(table)} rows of data; a stream needs at least 2"
            )
        return table

    def entries(chosen: str) -> list[Any]:
        with reading(source, kind):
            return raw(chosen)

    return names, load, entries


def _check_columns(source: Path, names: list[str], wanted: list[str]) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"{source.name} has several columns of the same name")
    for name in wanted:
        if name not in names:
            raise ValueError(f"{source.name} has no column {name!r} among its {len(names)}")


def _reader(path: Path, header: bool | None) -> tuple[Callable[[Path], Opened], str]:
    """Return what reads a file, and what that should be."""
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        return partial(_read_csv, header=header), "a CSV file in UTF-8"
    if header is not None:
        raise ValueError(f"{path.name}: only a CSV file can be with or without a header")
    if name.endswith((".parquet", ".pq")):
        return _read_parquet, "a Parquet file"
    if name.endswith(".npz"):
        return _read_npz, "a NumPy archive of plain arrays"
    raise ValueError(f"{path.name}: the format must be .csv, .csv.gz, .parquet or .npz")


# A number in any country's writing, a date or a time: hardly a column's name, and maybe a record's.
_DATUM = re.compile(r"[^\w]*\d[\W\d_]*(?:[et][\W\d_]+)?z?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)


def _open_csv(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _read_csv(path: Path, header: bool | None) -> Opened:
    with _open_csv(path) as file:
        rows = csv.reader(file)
        first = next(rows, None)
        has_rows = header is False or any(rows)
    if not first:
        raise MalformedError(f"{path.name} is empty")
    names = [cell.strip() for cell in first]
    if header is None and any(map(_DATUM.fullmatch, names)):
        raise MalformedError(
            f"the first row of {path.name} holds a number, a date or a time, so it may be a record:"
            " header=False (--no-header) names the columns 1, 2, ...; header=True (--header) says"
            " that it holds their names"
        )
    if header is False:
        names = [str(number) for number in range(1, len(first) + 1)]
    skipped = 0 if header is False else 1

    def select(chosen: list[str]) -> FloatArray:
        if not has_rows:
            return np.empty((0, len(chosen)))
        indices = [names.index(name) for name in chosen]
        with _open_csv(path) as file:
            if skipped:
                next(csv.reader(file))
            with suppress(ValueError):
                return np.loadtxt(
                    file, delimiter=",", quotechar='"', comments=None, usecols=indices, ndmin=2
                )
        # Not while that error is handled: its text quotes a cell, and would be shown as context.
        cells = [[_number(row[i], i) for i in indices] for row in _rows(path, len(names), skipped)]
        return np.array(cells, np.float64).reshape(-1, len(indices))

    def entries(chosen: str) -> list[Any]:
        index = names.index(chosen)
        return [row[index] for row in _rows(path, len(names), skipped)]

    return names, select, entries


def _rows(path: Path, width: int, skipped: int) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, without empty ones, or tell which has a wrong length."""
    with _open_csv(path) as file:
        rows = islice(csv.reader(file), skipped, None)
        for number, row in enumerate(rows, start=skipped + 1):
            if row and len(row) != width:
                raise MalformedError(f"{path.name}, row {number}: expected {width} cells")
            if row:
                yield row


def _number(cell: str, index: int) -> float:
    text = cell.strip()
    try:
        return float(text) if text else np.nan
    except ValueError:
        # The cause's text quotes the cell.
        raise MalformedError(f"column {index + 1} is not numeric") from None


def _read_parquet(path: Path) -> Opened:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            'Parquet files need pyarrow: pip install "dpoco[data]"', name="pyarrow"
        ) from None
    names = list(pq.read_schema(path).names)

    def select(chosen: list[str]) -> FloatArray:
        table = pq.read_table(path, columns=chosen)
        return np.column_stack([_arrow_column(pa, table.column(name), name) for name in chosen])

    def entries(chosen: str) -> list[Any]:
        found: list[Any] = pq.read_table(path, columns=[chosen]).column(chosen).to_pylist()
        return found

    return names, select, entries


def _arrow_column(pa: Any, column: Any, name: str) -> FloatArray:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise MalformedError(f"column {name!r} is not numeric")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    # Unsafe: a 64-bit integer beyond 2^53 is rounded like everywhere else.
    values = column.cast(pa.float64(), safe=False).to_numpy()  # nulls become NaN
    return np.ascontiguousarray(values, dtype=np.float64)


def _read_npz(path: Path) -> Opened:
    columns: dict[str, NDArray[Any]] = {}
    # Not by its name: a damaged file would stay open.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        for name in archive.files:
            array = archive[name]
            if array.ndim == 1:
                columns[name] = array
            elif array.ndim == 2:
                columns.update({f"{name}{j}": array[:, j] for j in range(array.shape[1])})
    if len({len(column) for column in columns.values()}) > 1:
        raise MalformedError(f"{path.name}: the arrays differ in length")

    def select(chosen: list[str]) -> FloatArray:
        for name in chosen:
            if columns[name].dtype.kind not in "fiub":
                raise MalformedError(f"column {name!r} is not numeric")
        return np.column_stack([columns[name].astype(np.float64) for name in chosen])

    return list(columns), select, lambda chosen: columns[chosen].tolist()
