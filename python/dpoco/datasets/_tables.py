"""Tables in files: finding files, reading each format, kinds of columns."""

from __future__ import annotations

import contextlib
import csv
import glob
import gzip
import io
import os
import re
import zipfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import (
    FloatArray,
    MalformedError,
    choice,
    import_package,
    reading,
    whole_number,
)

Opened = io.StringIO | io.BytesIO
Source = str | os.PathLike[str] | Opened

_TEXT = (".csv", ".tsv", ".txt", ".data")
_PACKED = (".gz", ".zip")
_ENDINGS = {
    **{end + more: "csv" for end in _TEXT for more in ("", *_PACKED)},
    ".parquet": "parquet", ".pq": "parquet", ".npz": "npz",
}  # fmt: skip
_MARKS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": " ", "\\t": "\t"}
# Rows that decide a column's kind; as many as `dpoco init` can show without reading the file.
_LOOKS = 1000
_SHOWN = 20  # largest number of names in a message


@dataclass(frozen=True)
class FileFormat:
    """How files are read, if the files themselves do not show it.

    Parameters
    ----------
    kind : {"csv", "parquet", "npz"}, optional
        Format of files, whatever their extension. None: by the extension.
    separator : str, optional
        Separator of the cells of a CSV file: a character, or comma, semicolon, tab or space (any
        number of spaces). None: the separator of semicolon, tab, comma and bar on which the first
        two rows agree.
    decimal : {"point", "comma"}, optional
        Decimal mark of numbers in a CSV file. None: a point; in files with semicolons, also a
        comma.
    encoding : str, default "utf-8"
        Encoding of a CSV file. A byte order mark of UTF-8 or UTF-16 takes precedence.
    skip_lines : int, default 0
        Number of lines on top of a CSV file that do not belong to the table.

    Raises
    ------
    ValueError, TypeError
        For anything else.
    """

    kind: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    skip_lines: int = 0

    def __post_init__(self) -> None:
        if self.kind is not None:
            choice("format", self.kind, ("csv", "parquet", "npz"))
        if self.decimal is not None:
            choice("decimal", self.decimal, ("point", "comma"))
        if self.separator is not None and len(self.mark) != 1:
            raise ValueError(
                "separator must be one character, or comma, semicolon, tab or space; "
                f"got {self.separator!r}"
            )
        whole_number("skip_lines", self.skip_lines)
        try:
            # A codec that exists but is not for text, such as hex, is also a `LookupError`.
            "".encode(self.encoding)
        except LookupError:
            raise ValueError(f"unknown encoding {self.encoding!r}; for example latin-1") from None

    @property
    def mark(self) -> str:
        """The separating character; empty if it must be found."""
        return _MARKS.get(self.separator or "", self.separator or "")


def files(path: Source | Sequence[Source]) -> list[Path | Opened]:
    """Return the selected files: one, the files of a pattern or a folder by name, or several.

    hour10 follows hour9. In folders, names that begin with a dot or underscore are skipped.
    """
    if isinstance(path, Opened):
        return [path]
    if not isinstance(path, (str, os.PathLike)):
        return [file for each in path for file in files(each)]
    place = Path(path)
    # `Path("")` is the current folder, whose files were not meant.
    if not str(path):
        raise FileNotFoundError("no such file: its name is empty")
    if place.is_dir():
        inside = [each.relative_to(place) for each in place.rglob("*") if each.is_file()]
        data = [each for each in inside if not any(part[0] in "._" for part in each.parts)]
        if not data:
            raise FileNotFoundError(f"no file of data in the folder {place}")
        return [place / each for each in sorted(data, key=_in_order)]
    # A file may be called data[1].csv, which as a pattern would match another file.
    if place.exists() or not set(str(path)) & set("*?["):
        return [place]
    found = sorted(map(Path, glob.glob(str(path), recursive=True)), key=_in_order)
    if not found:
        raise FileNotFoundError(f"no file is called {path}")
    return [file for each in found for file in files(each)]


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Return the key for sorting paths, in which digits count as numbers."""
    parts = re.split(r"(\d+)", str(path))
    # Texts and digits alternate, so that texts are compared with texts and numbers with numbers.
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


@dataclass(frozen=True)
class Table:
    """Columns of a file by name.

    Attributes
    ----------
    title : str
        Name of the file.
    names : list of str
        Names of its columns, in order.
    select : callable
        Return selected columns as numbers, shape (T, columns).
    entries : callable
        Return the entries of one column unchanged.
    head : callable
        Return the first thousand rows as a list of entries for each column.
    """

    title: str
    names: list[str]
    select: Callable[[list[str]], FloatArray]
    entries: Callable[[str], list[object]]
    head: Callable[[], list[list[object]]]

    def check(self, wanted: Iterable[str]) -> None:
        """Raise `ValueError` unless the table has each of these columns exactly once."""
        for name in wanted:
            number = self.names.count(name)
            if number > 1:
                raise ValueError(
                    f"{self.title} has several columns of the same name, {number} times {name!r}: "
                    "rename all but one, or name other columns (--features)"
                )
            if not number:
                more = ", ..." if len(self.names) > _SHOWN else ""
                raise ValueError(
                    f"{self.title} has no column {name!r} among its {len(self.names)}: "
                    f"{', '.join(self.names[:_SHOWN])}{more}"
                )

    def begins_with_numbers(self, name: str) -> bool:
        """Return whether more than half of the first thousand entries of a column are numbers."""
        cells = self.head()[self.names.index(name)]
        return 2 * sum(number_in(str(cell), True) is not None for cell in cells) > len(cells)

    def kinds(self) -> dict[str, str]:
        """Return the kinds of the columns, by name."""
        return dict(zip(self.names, map(_kind, self.head()), strict=True))


def open_table(
    path: Source | Table | Sequence[Source],
    *,
    header: bool | None = None,
    file_format: FileFormat | None = None,
    fewest: int = 1,
) -> Table:
    """Return files as one table, whose columns are read on demand.

    Parameters
    ----------
    path : path-like, io.StringIO, io.BytesIO, Table or a sequence of them
        See `load_file`; a table is returned unchanged.
    header, file_format, fewest
        See `load_file`.

    Raises
    ------
    FileNotFoundError, TypeError, ValueError, ImportError
        See `load_file`; also `ValueError` if files have different columns.
    """
    if isinstance(path, Table):
        return path
    if not (header is None or isinstance(header, bool)):
        raise TypeError(f"header must be a bool or None; got {type(header).__name__}")
    parts = [open_one(each, header, file_format or FileFormat()) for each in files(path)]
    if not parts:
        raise ValueError("name at least one file")
    first, more = parts[0], len(parts) - 1
    # Sorted, because two programs may export the same columns in another order.
    for each in parts:
        if sorted(each.names) != sorted(first.names):
            raise ValueError(f"{each.title} has other columns than {first.title}")
    title = f"{first.title} and {more} more file{'s' * (more > 1)}" if more else first.title

    def require(rows: int) -> None:
        if rows < fewest:
            raise ValueError(f"{title} has {rows} rows of data; at least {fewest} are needed")

    def select(chosen: list[str]) -> FloatArray:
        tables = [each.select(chosen) for each in parts]
        table = np.concatenate(tables) if more else tables[0]
        require(len(table))
        return table

    def entries(chosen: str) -> list[object]:
        found = [entry for each in parts for entry in each.entries(chosen)]
        # A table of categories only has no columns that are selected as numbers.
        require(len(found))
        return found

    def head() -> list[list[object]]:
        columns: list[list[object]] = [[] for _ in first.names]
        for each in parts:
            # Files may have the same columns in another order. Duplicate names remain duplicates,
            # so that `check` refuses them.
            orders = (sorted(range(len(names)), key=names.__getitem__)
                      for names in (first.names, each.names))  # fmt: skip
            cells = each.head()
            for place, own in zip(*orders, strict=True):
                columns[place] += cells[own]
        return columns

    return Table(title, first.names, select, entries, head)


def open_one(
    given: Path | Opened, header: bool | None, file_format: FileFormat, before: int = 0
) -> Table:
    """Return one file as a table; `before` counts data rows of earlier files, for messages."""
    title = str(getattr(given, "name", "standard input"))
    if isinstance(given, Path) and not given.is_file():
        raise FileNotFoundError(f"no such file: {given}")
    kind = find_format(given, file_format)
    if kind == "csv":
        read: Callable[..., Table] = partial(_read_csv, header=header, form=file_format,
                                             before=before)  # fmt: skip
        about = f"a CSV file in {file_format.encoding.upper()}"
    elif header is not None or file_format != FileFormat(kind=file_format.kind):
        raise ValueError(
            f"{title}: only a CSV file can be with or without a header, and has an encoding, "
            "a separator and lines"
        )
    elif kind == "parquet":
        read, about = _read_parquet, "a Parquet file"
    else:
        read, about = _read_npz, "a NumPy archive of plain arrays"
    with reading(title, about):
        table = read(given, title)

    guard = reading(title, about)  # also a decorator, with a separate context per call
    return replace(
        table,
        select=guard(table.select), entries=guard(table.entries), head=guard(table.head),
    )  # fmt: skip


def find_format(source: Path | Opened, file_format: FileFormat) -> str:
    """Return the format of a file, as declared or by its name."""
    if file_format.kind is not None:
        return file_format.kind
    if isinstance(source, Opened):
        return "csv"
    name = source.name.lower()
    for ending, kind in _ENDINGS.items():
        if name.endswith(ending):
            return kind
    raise ValueError(
        f"{source.name}: the format must be .csv, .tsv, .txt, .data (also .gz or .zip of them), "
        ".parquet or .npz, or be named: FileFormat(kind), --set format=NAME"
    )


# ---- CSV -----------------------------------------------------------------------------------------

# A number in any country's notation, a date or a time; probably not the name of a column.
_DATUM = re.compile(r"[^\w]*\d[\W\d_]*(?:[et][\W\d_]+)?z?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)


def open_text(source: Path | Opened, encoding: str) -> IO[str]:
    """Open a CSV file; compression and Unicode marks are recognised by its first bytes."""
    if isinstance(source, io.StringIO):
        # A copy, because the table is read several times and the caller's position must not change.
        return io.StringIO(source.getvalue().removeprefix("\ufeff"), newline="")

    def place() -> Any:
        return source if isinstance(source, Path) else io.BytesIO(source.getvalue())

    def plain() -> Any:
        return source.open("rb") if isinstance(source, Path) else io.BufferedReader(place())

    with plain() as file:
        start = file.read(4)
    # Not decided by the name, because downloads are often called .csv although compressed.
    if start[:2] == b"\x1f\x8b":
        raw: Any = gzip.open(place())  # noqa: SIM115  # closed with the text
    elif start == b"PK\x03\x04":
        raw = _only_entry(place())
    else:
        raw = plain()
    try:
        mark = raw.peek(3)[:3]
    except BaseException:  # damaged file
        raw.close()
        raise
    # Overrides the declared encoding, because text in other encodings does not begin like this.
    # Spreadsheets begin UTF-8 with such a mark, which would become part of the first column's name.
    if mark[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif mark == b"\xef\xbb\xbf":
        encoding = "utf-8-sig"
    return io.TextIOWrapper(raw, encoding, newline="")


def _only_entry(source: Any) -> IO[bytes]:
    """Open the only file of an archive; closing it also closes the archive."""
    with zipfile.ZipFile(source) as archive:
        # macOS adds a second file, with the icon and the like, for each file.
        inside = [name for name in archive.namelist()
                  if not name.endswith("/") and not name.startswith("__MACOSX/")]  # fmt: skip
        if len(inside) != 1:
            name = source.name if isinstance(source, Path) else "the archive"
            raise MalformedError(f"{name} holds {len(inside)} files, and must hold one")
        return archive.open(inside[0])


def _rows(file: Iterable[str], mark: str) -> Iterator[list[str]]:
    """Yield the cells of each row; any number of spaces is one separator."""
    try:
        yield from csv.reader(file, delimiter=mark, skipinitialspace=mark == " ")
    except csv.Error:
        # After a stray quote, all lines form one cell.
        raise MalformedError(
            f"a cell is longer than {csv.field_size_limit():,} characters: is a quote not closed?"
        ) from None


def layout(source: Path | Opened, form: FileFormat) -> tuple[int, str]:
    """Return the number of lines above the table, and the separator of its cells."""
    skipped, line = form.skip_lines, ""
    with open_text(source, form.encoding) as file:
        for line in islice(file, skipped, None):
            # Exports from spreadsheets may begin with empty lines.
            if line.strip():
                break
            skipped += 1
    declared = re.fullmatch(r'"?sep=(.)"?\s*', line)
    if declared:  # a line for Excel
        return skipped + 1, form.mark or declared[1]
    if form.mark:
        return skipped, form.mark
    # The first two rows must have the same number of cells. Semicolons come first, because with
    # decimal commas the rows may also agree on commas.
    for mark in (";", "\t", ",", "|"):
        with open_text(source, form.encoding) as file:
            rows = islice(_rows(islice(file, skipped, None), mark), 2)
            widths = {len(row) for row in rows}
        if len(widths) == 1 and widths.pop() > 1:
            return skipped, mark
    return skipped, ","


def _read_csv(
    source: Path | Opened, title: str, header: bool | None, form: FileFormat, before: int
) -> Table:
    """Return a CSV file as a table; names are read now, and rows each time they are needed."""
    skipped, mark = layout(source, form)
    comma = form.decimal == "comma" or (mark == ";" and form.decimal is None)

    @contextlib.contextmanager
    def table() -> Iterator[IO[str]]:
        """Open the file at the beginning of the table."""
        with open_text(source, form.encoding) as file:
            for _ in range(skipped):
                next(file, None)
            yield file

    with table() as file:
        rows = _rows(file, mark)
        first = next(rows, None)
        has_rows = header is False or any(rows)
    if not first:
        raise MalformedError(f"{title} is empty")
    names = [cell.strip() for cell in first]
    if header is None and any(map(_DATUM.fullmatch, names)):
        raise MalformedError(
            f"the first row of {title} holds a number, a date or a time, so it may be a record:"
            " header=False (--set header=false) names the columns 1, 2, ...; header=True says"
            " that it holds their names"
        )
    if header is False:
        names = [str(number) for number in range(1, len(first) + 1)]
    # Unnamed columns, such as pandas' index, get this name in messages and options.
    names = [name or f"column {number}" for number, name in enumerate(names, start=1)]
    named = 0 if header is False else 1
    width = len(names)

    def rest() -> Iterator[tuple[int, list[str]]]:
        """Yield numbered rows without empty ones; raise for a row with a wrong length."""
        with table() as file:
            above = skipped + named
            for number, row in enumerate(islice(_rows(file, mark), named, None), start=above + 1):
                if len(row) > width and not any(map(str.strip, row[width:])):
                    del row[width:]  # a separator at the end of each row
                if row and len(row) != width:
                    raise MalformedError(f"{title}, row {number + before}: expected {width} cells")
                if row:
                    yield number + before, row

    def plain(lines: Iterable[str]) -> Iterator[str]:
        """Yield lines with one cell per name; lines with quoted separators are left to `rest`."""
        for line in lines:
            if line.count(mark) + 1 != width and line.strip("\r\n"):
                raise ValueError
            yield line

    def parse(indices: list[int]) -> Iterator[float]:
        """Yield the numbers of the given columns, row by row."""
        for number, row in rest():
            for index in indices:
                value = number_in(row[index], comma)
                if value is None:
                    hint = "; is its comma a decimal one (--set decimal=comma)?" * (
                        "," in row[index]
                    )
                    raise MalformedError(_not_numeric(title, number, names[index]) + hint)
                yield value

    def select(chosen: list[str]) -> FloatArray:
        if not has_rows:
            return np.empty((0, len(chosen)))
        indices = [names.index(name) for name in chosen]
        # With a space as delimiter, `loadtxt` reads two spaces as an empty cell.
        if mark != " ":
            # The fast path for plain numbers only; other files go through `parse`.
            with table() as file, suppress(ValueError):
                if named:
                    next(_rows(file, mark))
                return np.loadtxt(
                    plain(file), delimiter=mark, quotechar='"', comments=None, usecols=indices,
                    ndmin=2,
                )  # fmt: skip
        # Outside of the handler, because the text of that error quotes a cell and would be shown as
        # context. A flat array of doubles, because lists of lists need ten times the memory.
        return np.array(array("d", parse(indices))).reshape(-1, len(indices))

    def entries(chosen: str) -> list[object]:
        index = names.index(chosen)
        return [row[index] for _, row in rest()]

    def head() -> list[list[object]]:
        found = [row for _, row in islice(rest(), _LOOKS)]
        return [[row[index] for row in found] for index in range(width)]

    return Table(title, names, select, entries, head)


# ---- cells ---------------------------------------------------------------------------------------

# Texts with which R, pandas, Excel, SQL and UCI mark missing values.
_MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?", "\\n"))
_WORDS = dict.fromkeys(("yes", "y", "true", "t"), 1.0)
_WORDS |= dict.fromkeys(("no", "n", "false", "f"), 0.0)


def _not_numeric(title: str, row: int, name: str) -> str:
    """Return the message about a cell, without quoting the cell, which is data."""
    return (
        f"{title}, row {row}: column {name!r} is not numeric: it holds more than numbers, yes and "
        "no, and NA"
    )


def number_in(text: str, comma: bool = False) -> float | None:
    """Return the number in a cell, NaN if it is empty, None for other texts.

    Parameters
    ----------
    text : str
        The cell; surrounding spaces and case do not matter.
    comma : bool
        Whether 1,5 is a number, as in spreadsheets of many countries.
    """
    text = text.strip().lower()
    if text in _MISSING:
        return np.nan
    if text in _WORDS:
        return _WORDS[text]
    # 1.234,5 is refused, because 1.234 alone does not show whether its point separates thousands.
    if comma and "." not in text:
        text = text.replace(",", ".")
    # Python reads 12_34 as a number, but in a file it is a code.
    with suppress(ValueError):
        return None if "_" in text else float(text)
    return None


def is_missing(entry: object) -> bool:
    """Return whether an entry is missing: None, NaN, NA, null, ? or an empty text."""
    return entry is None or str(entry).strip().lower() in _MISSING


def is_whole(entry: object) -> TypeGuard[float]:
    """Return whether an entry of a column of doubles is a whole number."""
    return isinstance(entry, float) and entry.is_integer()


def category_text(entry: object) -> str:
    """Return an entry as written in a list of categories: 2.0 becomes 2, and True becomes true."""
    if isinstance(entry, bool):
        return str(entry).lower()
    if is_whole(entry):
        return str(int(entry))
    text = str(entry).strip()
    if "_" in text:  # a code, although Python would read a number
        return text
    # First as an int, because codes of twenty digits may be equal as doubles.
    with suppress(ValueError):
        return str(int(text))
    with suppress(ValueError):  # 2.0 and 2 in a CSV file
        if float(text).is_integer():
            return str(int(float(text)))
    return text


def _kind(entries: Iterable[object]) -> str:
    """Return the kind of a column, judged by some of its entries."""
    # Converted to texts as in a CSV file, so that a column has one kind in every format.
    texts = {"" if each is None else str(each).strip().lower() for each in entries} - _MISSING
    if not texts:
        return "nothing"
    if texts <= _WORDS.keys():
        return "yes or no"
    values = {number_in(text, True) for text in texts}
    if None in values:
        return "text"
    return "0 or 1" if values <= {0.0, 1.0} else "numbers"


def _parse_numbers(entries: Iterable[object], title: str, name: str) -> FloatArray:
    """Return texts as numbers, as in a CSV file."""
    # Texts repeat in columns of strings, so each is parsed once.
    known: dict[str, float | None] = {}
    found = array("d")
    for row, entry in enumerate(entries, start=1):
        text = "" if entry is None else str(entry)
        value = known[text] if text in known else known.setdefault(text, number_in(text))
        if value is None:
            raise MalformedError(_not_numeric(title, row, name))
        found.append(value)
    return np.array(found)


# ---- Parquet, NumPy ------------------------------------------------------------------------------


def _read_parquet(path: Path, title: str) -> Table:
    """Return a Parquet file as a table, of which only the needed columns are read."""
    pq = import_package("pyarrow.parquet", "a Parquet file", "files")
    names = list(pq.read_schema(path).names)

    def head() -> list[list[object]]:
        with pq.ParquetFile(path) as file:
            batch = next(file.iter_batches(batch_size=_LOOKS), None)
        return [[] for _ in names] if batch is None else [c.to_pylist() for c in batch.columns]

    return Table(
        title, names,
        lambda chosen: arrow_columns(pq.read_table(path, columns=chosen), title, chosen),
        lambda chosen: arrow_entries(pq.read_table(path, columns=[chosen]), chosen),
        head,
    )  # fmt: skip


def arrow_columns(table: Any, title: str, chosen: list[str]) -> FloatArray:
    """Return columns of a pyarrow table or batch, shape (T, len(chosen)); nulls are NaN."""
    return np.column_stack([_arrow_column(table[name], title, name) for name in chosen])


def arrow_entries(table: Any, chosen: str) -> list[object]:
    """Return the entries of a column of a pyarrow table or batch."""
    return list(table[chosen].to_pylist())


_TEXT_TYPES = ("string", "large_string", "string_view")  # the last one is from polars


def _arrow_column(column: Any, title: str, name: str) -> FloatArray:
    """Return a pyarrow column as doubles, shape (T,); `MalformedError` for other types."""
    pa = import_package("pyarrow", "a Parquet file", "files")
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    # Compared by name, because older versions of pyarrow lack some of these types.
    if str(kind) in _TEXT_TYPES:
        return _parse_numbers(column.to_pylist(), title, name)
    if types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
              or types.is_null(kind)):  # fmt: skip
        raise MalformedError(f"column {name!r} is not numeric: it is of type {kind}")
    # Unsafe: 64-bit integers beyond 2^53 are rounded, as everywhere else.
    values = column.cast(pa.float64(), safe=False).fill_null(np.nan)
    return np.ascontiguousarray(values, dtype=np.float64)


def _read_npz(path: Path, title: str) -> Table:
    """Return the arrays of an archive as a table, without arrays of three or more axes."""
    found: list[tuple[str, NDArray[Any]]] = []
    # Opened here and not by its name, because a damaged file would stay open.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        for name in archive.files:
            array_ = archive[name]
            if array_.ndim == 1:
                found.append((name, array_))
            elif array_.ndim == 2:
                found += [(f"{name}{j}", array_[:, j]) for j in range(array_.shape[1])]
    columns = dict(found)
    if len({len(column) for _, column in found}) > 1:
        raise MalformedError(f"{path.name}: the arrays differ in length")

    def numbers(name: str) -> FloatArray:
        # Dates and bytes could also be converted to doubles, but these would be meaningless.
        kind = columns[name].dtype.kind
        if kind == "U":
            return _parse_numbers(columns[name].tolist(), title, name)
        if kind not in "fiub":
            raise MalformedError(f"column {name!r} is not numeric: it is of type {kind}")
        return columns[name].astype(np.float64)

    return Table(
        # This keeps duplicate names (X0, and the first column of X), which `check` refuses.
        title, [name for name, _ in found],
        lambda chosen: np.column_stack([numbers(name) for name in chosen]),
        lambda chosen: columns[chosen].tolist(),
        lambda: [column[:_LOOKS].tolist() for _, column in found],
    )  # fmt: skip
