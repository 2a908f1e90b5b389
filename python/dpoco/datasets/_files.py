"""Streams from CSV, Parquet and NumPy files."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray, MalformedError, imported, reading
from dpoco.datasets._stream import PublicScaling, Stream

Source = str | os.PathLike[str] | io.StringIO


def load_file(
    path: Source | Sequence[Source],
    *,
    label: str,
    features: Sequence[str] | None = None,
    header: bool | None = None,
    scaling: PublicScaling | None = None,
    label_scaling: PublicScaling | None = None,
    task: str = "classification",
    fewest: int = 2,
) -> Stream:
    """Read a stream from a table whose rows are rounds, in order of arrival.

    Parameters
    ----------
    path : path-like, io.StringIO or a sequence of them
        ``.csv`` or ``.csv.gz`` (or its text), ``.parquet`` (needs pyarrow) or ``.npz`` (every
        one-dimensional array is a column; a two-dimensional array ``X`` gives columns ``X0``,
        ``X1``, ...). Several files with the same columns follow one another. A CSV file is
        separated by commas, semicolons or tabs, as its first rows are; after a semicolon 1,5 is a
        number, too. yes, no, true and false are 1 and 0; NA, null, ? and nothing are missing.
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
    fewest : int, default 2
        Rounds that there must be.

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
        If the format is unknown, a file is malformed, there are fewer than `fewest` rounds, or a
        column is missing or not numeric. Messages contain no cell of a CSV file, its first row
        included: they say the column's number.
    ImportError
        If the format needs a package that is not installed.
    """
    return stream_of(_opened(path, header, fewest), label, features, scaling, label_scaling, task)


def stream_of(
    table: _Table,
    label: str,
    features: Sequence[str] | None,
    scaling: PublicScaling | None,
    label_scaling: PublicScaling | None,
    task: str,
) -> Stream:
    """Return the rows of a table as a stream; arguments and errors as of `load_file`."""
    wanted = [name for name in table.names if name != label] if features is None else list(features)
    table.check([label, *wanted])
    if label in wanted:
        raise ValueError(f"column {label!r} is the label and cannot be a feature")
    if not wanted:
        raise ValueError(f"{table.title} has no feature column besides the label")
    cells = table.select([*wanted, label])
    labels = cells[:, -1]
    flags = {}
    if label_scaling is not None:
        flags["label_out_of_range"] = label_scaling.outside(labels[:, None])[:, 0]
        labels = label_scaling.apply(labels[:, None])[:, 0]
    stream = Stream(
        name=table.title,
        features=cells[:, :-1],
        labels=labels,
        feature_names=tuple(wanted),
        task=task,
        description=f"Records of {table.title}, label {label!r}",
        source="file given by the user",
        label_transform=label_scaling,
        nonprivate_flags=flags,
    )
    return stream if scaling is None else stream.scaled(scaling)


def column_names(path: Source | Sequence[Source], *, header: bool | None = None) -> list[str]:
    """Return the names of a table's columns, in order; formats and errors as of `load_file`."""
    return _opened(path, header).names


def column_kinds(path: Source | Sequence[Source], *, header: bool | None = None) -> dict[str, str]:
    """Return what a table's columns hold, by name: "numbers", "yes or no", "text" or "nothing".

    As the first thousand rows of each file look: not private, but no number of a record is told.
    """
    table = _opened(path, header)
    return {name: _kind(table.entries(name, _LOOKS)) for name in table.names}


def read_columns(
    path: Source | Sequence[Source],
    wanted: list[str],
    *,
    header: bool | None = None,
    fewest: int = 2,
) -> FloatArray:
    """Return columns of a table that may have no others, shape (T, len(wanted)); as `load_file`."""
    table = _opened(path, header, fewest)
    table.check(wanted)
    return table.select(wanted)


def read_people(
    path: Source | Sequence[Source], column: str, *, header: bool | None = None
) -> list[str]:
    """Return whose record each row of a table is, as texts; formats and errors as of `load_file`.

    Texts and whole numbers name people; a row that names nobody is a `ValueError`.
    """
    table = _opened(path, header)
    table.check([column])
    named = table.entries(column, None)
    if not all(isinstance(each, (str, int)) or each is None for each in named):
        raise MalformedError(f"column {column!r} must hold texts or whole numbers")
    people = ["" if each is None else str(each).strip() for each in named]
    if not {"", "nan", "NaN"}.isdisjoint(people):
        raise MalformedError(f"column {column!r} has missing values: each row must be somebody's")
    return people


class _Table(NamedTuple):
    """A title, the names of columns, and what loads them.

    `select` returns chosen columns, shape (T, columns), and `entries` the entries of one as they
    are, the first so many or all of them.
    """

    title: str
    names: list[str]
    select: Callable[[list[str]], FloatArray]
    entries: Callable[[str, int | None], list[Any]]

    def check(self, wanted: list[str]) -> None:
        """Raise `ValueError` unless the table has these columns, and every name once."""
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"{self.title} has several columns of the same name")
        for name in wanted:
            if name not in self.names:
                raise ValueError(f"{self.title} has no column {name!r} among its {len(self.names)}")


def _opened(given: Source | Sequence[Source], header: bool | None, fewest: int = 1) -> _Table:
    """Return files as one table; `ValueError` if they differ in their columns."""
    if not (header is None or isinstance(header, bool)):
        raise TypeError(f"header must be a bool or None; got {type(header).__name__}")
    one = isinstance(given, (str, os.PathLike, io.StringIO))
    sources: Iterable[Any] = [given] if one else given  # type: ignore[assignment]
    parts = [_opened_one(each, header) for each in sources]
    if not parts:
        raise ValueError("name at least one file")
    first, more = parts[0], len(parts) - 1
    for each in parts:
        if sorted(each.names) != sorted(first.names):
            raise ValueError(f"{each.title} has other columns than {first.title}")
    title = f"{first.title} and {more} more file{'s' * (more > 1)}" if more else first.title

    def select(chosen: list[str]) -> FloatArray:
        tables = [each.select(chosen) for each in parts]
        table = np.concatenate(tables) if more else tables[0]
        if len(table) < fewest:
            raise ValueError(f"{title} has {len(table)} rows of data; at least {fewest} are needed")
        return table

    def entries(chosen: str, most: int | None) -> list[Any]:
        return [entry for each in parts for entry in each.entries(chosen, most)]

    return _Table(title, first.names, select, entries)


def _opened_one(given: Source, header: bool | None) -> _Table:
    source = given if isinstance(given, io.StringIO) else Path(given)
    title = str(getattr(source, "name", "standard input"))
    if isinstance(source, Path) and not source.is_file():
        raise FileNotFoundError(f"no such file: {source}")
    read, kind = _reader(title, header)
    with reading(title, kind):
        names, select, raw = read(source)

    def load(chosen: list[str]) -> FloatArray:
        with reading(title, kind):
            return select(chosen)

    def entries(chosen: str, most: int | None) -> list[Any]:
        with reading(title, kind):
            return raw(chosen, most)

    return _Table(title, names, load, entries)


# What a reader returns: names, and what loads them, as in `_Table`.
Read = tuple[list[str], Callable[[list[str]], FloatArray], Callable[[str, int | None], list[Any]]]


def _reader(title: str, header: bool | None) -> tuple[Callable[[Any], Read], str]:
    """Return what reads a file, and what that should be."""
    name = title.lower()
    if name.endswith((".csv", ".csv.gz", "standard input")):
        return partial(_read_csv, title=title, header=header), "a CSV file in UTF-8"
    if header is not None:
        raise ValueError(f"{title}: only a CSV file can be with or without a header")
    if name.endswith((".parquet", ".pq")):
        return _read_parquet, "a Parquet file"
    if name.endswith(".npz"):
        return _read_npz, "a NumPy archive of plain arrays"
    raise ValueError(f"{title}: the format must be .csv, .csv.gz, .parquet or .npz")


# A number in any country's writing, a date or a time: hardly a column's name, and maybe a record's.
_DATUM = re.compile(r"[^\w]*\d[\W\d_]*(?:[et][\W\d_]+)?z?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)


def _open_csv(source: Path | io.StringIO) -> IO[str]:
    if isinstance(source, io.StringIO):
        return io.StringIO(source.getvalue(), newline="")
    if source.name.lower().endswith(".gz"):
        return gzip.open(source, "rt", encoding="utf-8-sig", newline="")
    return source.open(encoding="utf-8-sig", newline="")


def _separator(source: Path | io.StringIO) -> str:
    """Return what separates the cells of the first two rows, the same number in each."""
    for mark in (";", "\t"):
        with _open_csv(source) as file:
            widths = {len(row) for row in islice(csv.reader(file, delimiter=mark), 2)}
        if len(widths) == 1 and widths.pop() > 1:
            return mark
    return ","


def _read_csv(source: Path | io.StringIO, title: str, header: bool | None) -> Read:
    mark = _separator(source)
    with _open_csv(source) as file:
        rows = csv.reader(file, delimiter=mark)
        first = next(rows, None)
        has_rows = header is False or any(rows)
    if not first:
        raise MalformedError(f"{title} is empty")
    names = [cell.strip() for cell in first]
    if header is None and any(map(_DATUM.fullmatch, names)):
        raise MalformedError(
            f"the first row of {title} holds a number, a date or a time, so it may be a record:"
            " header=False (--no-header) names the columns 1, 2, ...; header=True (--header) says"
            " that it holds their names"
        )
    if header is False:
        names = [str(number) for number in range(1, len(first) + 1)]
    skipped = 0 if header is False else 1

    def rest() -> Iterator[list[str]]:
        """Yield the rows, without empty ones, or tell which has a wrong length."""
        with _open_csv(source) as file:
            rows = islice(csv.reader(file, delimiter=mark), skipped, None)
            for number, row in enumerate(rows, start=skipped + 1):
                if row and len(row) != len(names):
                    raise MalformedError(f"{title}, row {number}: expected {len(names)} cells")
                if row:
                    yield row

    def plain(lines: Iterable[str]) -> Iterator[str]:
        """Yield lines that have as many cells as names; quoted marks are left to `rest`."""
        for line in lines:
            if line.count(mark) + 1 != len(names) and line.strip("\r\n"):
                raise ValueError
            yield line

    def select(chosen: list[str]) -> FloatArray:
        if not has_rows:
            return np.empty((0, len(chosen)))
        indices = [names.index(name) for name in chosen]
        with _open_csv(source) as file:
            if skipped:
                next(csv.reader(file))
            with suppress(ValueError):
                return np.loadtxt(
                    plain(file), delimiter=mark, quotechar='"', comments=None, usecols=indices,
                    ndmin=2,
                )  # fmt: skip
        # Not while that error is handled: its text quotes a cell, and would be shown as context.
        # Flat and of doubles: of lists of lists, a large file would need ten times the memory.
        cells = array("d", (_number(row[i], i, mark) for row in rest() for i in indices))
        return np.array(cells).reshape(-1, len(indices))

    def entries(chosen: str, most: int | None) -> list[Any]:
        index = names.index(chosen)
        return [row[index] for row in islice(rest(), most)]

    return names, select, entries


_MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?"))
_WORDS = dict.fromkeys(("yes", "y", "true"), 1.0) | dict.fromkeys(("no", "n", "false"), 0.0)
_LOOKS = 1000  # rows that show what a column holds


def _number(cell: str, index: int, mark: str) -> float:
    text = cell.strip().lower()
    if text in _MISSING:
        return np.nan
    if text in _WORDS:
        return _WORDS[text]
    if mark == ";" and "." not in text:
        text = text.replace(",", ".")  # as spreadsheets write numbers where cells end so
    try:
        return float(text)
    except ValueError:
        # The cause's text quotes the cell.
        raise MalformedError(
            f"column {index + 1} is not numeric: it holds more than numbers, yes and no, and NA"
        ) from None


def _kind(entries: Iterable[Any]) -> str:
    """Return what a column holds, as some of its entries look."""
    texts = {"" if each is None else str(each).strip().lower() for each in entries} - _MISSING
    if not texts:
        return "nothing"
    if texts <= _WORDS.keys():
        return "yes or no"
    try:
        for text in texts:
            _number(text, 0, ";")
    except MalformedError:
        return "text"
    return "numbers"


def _read_parquet(path: Path) -> Read:
    pq = imported("pyarrow.parquet", "a Parquet file", "files")
    names = list(pq.read_schema(path).names)

    def select(chosen: list[str]) -> FloatArray:
        return arrow_columns(pq.read_table(path, columns=chosen), chosen)

    def entries(chosen: str, most: int | None) -> list[Any]:
        found: list[Any] = pq.read_table(path, columns=[chosen]).column(chosen)[:most].to_pylist()
        return found

    return names, select, entries


def arrow_columns(table: Any, chosen: list[str]) -> FloatArray:
    """Return columns of a table or batch of pyarrow, shape (T, len(chosen)); nulls are NaN."""
    pa = imported("pyarrow", "a Parquet file", "files")
    return np.column_stack([_arrow_column(pa, table[name], name) for name in chosen])


def _arrow_column(pa: Any, column: Any, name: str) -> FloatArray:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise MalformedError(f"column {name!r} is not numeric")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    # Unsafe: a 64-bit integer beyond 2^53 is rounded like everywhere else.
    values = column.cast(pa.float64(), safe=False).fill_null(np.nan)
    return np.ascontiguousarray(values, dtype=np.float64)


def _read_npz(path: Path) -> Read:
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

    return list(columns), select, lambda chosen, most: columns[chosen][:most].tolist()
