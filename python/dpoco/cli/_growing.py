"""Growing files: records are read from where an earlier run stopped, and releases are appended."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time as clocks
import warnings
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import typer
from rich.live import Live
from rich.table import Table

from dpoco._validation import Fields, import_package, reading
from dpoco.cli import _shell as shell
from dpoco.datasets import person_name
from dpoco.statistics import Monitor, Release

if TYPE_CHECKING:
    from pandas import DataFrame

_BLOCK = 2**22  # number of bytes that are read at once
_ROWS = 2**16
_WAIT = 1.0  # seconds between two checks of a growing file


class Part(NamedTuple):
    """Some records, their file, and the position after them.

    A part without records means that all current records were read.
    """

    table: DataFrame | None
    file: str
    position: int


def check_columns(files: Collection[str], needed: Collection[str], follow: bool) -> None:
    """Raise `ValueError` for the first file that lacks a column, before any record is read.

    Some files are checked later: standard input, an empty file, and the last file if it is followed
    and its first line is incomplete.
    """
    for at, name in enumerate(files):
        if _is_parquet(name):
            arrow = import_package("pyarrow.parquet", "Parquet files", "files")
            with Path(name).open("rb") as source, reading(name, "a Parquet file"):
                found = arrow.read_schema(source).names
        elif name != "-":
            with Path(name).open("rb") as source:
                header = source.readline()
            waits = follow and at == len(files) - 1 and not header.endswith(b"\n")
            if not header or waits:
                continue
            # The names are read as a row, because pandas would rename the second of two equal
            # columns.
            found = _parse(name, header, header=None, dtype=str).iloc[0].tolist()
            # Otherwise the whole file would be read as a header without records.
            if b"\r" in header.rstrip(b"\r\n"):
                raise ValueError(f"{name}: lines must end in a line feed, not in a return alone")
        else:
            continue
        for column in needed:
            if column not in found:
                raise ValueError(f"{name} has no column {column!r}")
            if found.count(column) > 1:
                raise ValueError(f"{name} has several columns of the same name, {column!r}")


def _parse(name: str, data: bytes, **options: Any) -> DataFrame:
    """Return the lines of a CSV file; for other data, the message quotes nothing."""
    pandas = import_package("pandas", "CSV files", "files")
    with reading(name, "a CSV file in UTF-8, separated by commas"), warnings.catch_warnings():
        # This is for rows with more cells than names. Without `index_col`, their first cells would
        # become an index, and all others would move by one column.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        table: DataFrame = pandas.read_csv(io.BytesIO(data), index_col=False, **options)
    return table


class Places:
    """Positions up to which files have been read; files are identified by path and not by spelling.

    A file that is read again under another name, such as ./log.csv, would count twice. Files are
    identified by their path relative to the folder of the state, so they may be moved with it.

    Parameters
    ----------
    folder : Path
        Folder of the state.
    known : dict of str to int
        The value of `known` when the state was saved.
    """

    def __init__(self, folder: Path, known: dict[str, int]) -> None:
        self._folder, self.known = os.path.realpath(folder), dict(known)

    def __getitem__(self, name: str) -> int:
        """Return how many bytes, or rows of a Parquet file, have been read."""
        return self.known.get(self._place(name), 0)

    def __setitem__(self, name: str, position: int) -> None:
        self.known[self._place(name)] = position

    def _place(self, name: str) -> str:
        if name == "-":
            return name
        path = os.path.realpath(name)
        try:
            return Path(os.path.relpath(path, self._folder)).as_posix()
        except ValueError:  # on another drive in Windows
            return path


def read_parts(
    files: Collection[str],
    positions: Places,
    names: Collection[str],
    person: str | None,
    follow: bool,
    go_on: bool,
) -> Iterator[Part]:
    """Yield the records of files after their positions.

    Parameters
    ----------
    files : collection of str
        CSV or Parquet files; "-" is standard input.
    positions : Places
        Numbers of bytes, or of rows of Parquet files, that have been read.
    names : collection of str
        Columns to read as texts.
    person : str or None
        One of them. All missing values in it are one person without a name.
    follow : bool
        Whether to wait for more lines of the last file.
    go_on : bool
        Whether a later run continues; it then also reads a last line that is not complete yet.
    """
    for at, name in enumerate(files):
        start = positions[name]
        if _is_parquet(name):
            parts = _parquet(name, start, names)
        else:
            parts = _csv(name, start, names, follow and at == len(files) - 1, go_on)
        for part in parts:
            if person is not None and part.table is not None:
                # Two spellings of one person, such as 7 and 7.0, would count as two people.
                named = part.table[person].fillna("").tolist()
                part.table[person] = list(map(person_name, named))
            yield part


def _is_parquet(name: str) -> bool:
    return name.endswith((".parquet", ".pq"))


def _parquet(name: str, start: int, names: Collection[str]) -> Iterator[Part]:
    arrow = import_package("pyarrow", "Parquet files", "files")
    parquet = import_package("pyarrow.parquet", "Parquet files", "files")
    position = 0
    with reading(name, "a Parquet file"):
        file = parquet.ParquetFile(name)
    # Rows that were read twice would count twice.
    if start > file.metadata.num_rows:
        raise ValueError(
            f"{name} has fewer rows than were already read: it was shortened or replaced"
        )
    batches = file.iter_batches(batch_size=_ROWS)
    while True:
        with reading(name, "a Parquet file"):
            batch = next(batches, None)
        if batch is None:
            return
        begin, position = position, position + batch.num_rows
        if position > start:
            table = arrow.Table.from_batches([batch.slice(max(0, start - begin))])
            for each in names:
                with reading(f"{name}, column {each!r},", "a column of names"):
                    own = table.column(each).cast(arrow.string())
                table = table.set_column(table.column_names.index(each), each, own)
            # With pandas' metadata, a column might become the index and be overlooked.
            yield Part(table.to_pandas(ignore_metadata=True), name, position)


def _csv(
    name: str, start: int, names: Collection[str], follow: bool, go_on: bool
) -> Iterator[Part]:
    """Yield complete lines, rereading a growing file; positions are in bytes."""
    with sys.stdin.buffer if name == "-" else Path(name).open("rb") as source:
        header = source.readline()
        # The program that writes the file may not have completed its first line.
        while follow and not header.endswith(b"\n"):
            yield Part(None, name, 0)
            clocks.sleep(_WAIT)
            header += source.readline()
        position = len(header)
        if start > position:
            _skip(source, name, start - position)
            position = start
        rest = b""
        while True:
            block = source.read(_BLOCK)
            rest += block
            # In a file that does not grow, the last line may lack its line end. But if another run
            # continues, it would read the rest of a line that is just being written as a record.
            cut = _complete(rest) if block or follow or go_on else len(rest)
            if not cut and len(rest) > 2 * _BLOCK:
                raise ValueError(
                    f"{name}: a cell is longer than {_BLOCK:,} bytes: is a quote not closed?"
                )
            if cut:
                # An incomplete line waits for its rest.
                lines, rest = rest[:cut], rest[cut:]
                position += cut
                table = _parse(name, header + lines)
                if names:  # unchanged texts: 007 is not a number, and NA is Namibia
                    table[list(names)] = _parse(
                        name, header + lines, usecols=list(names), dtype="object",
                        keep_default_na=False, na_values=[""],
                    )[list(names)]  # fmt: skip
                if len(table):
                    yield Part(table, name, position)
            if not block:
                if not follow:
                    if rest:
                        warnings.warn(
                            f"{name}: the last line has no line end, and waits for the next run",
                            shell.Note, stacklevel=1,
                        )  # fmt: skip
                    return
                if name != "-" and os.stat(name).st_size < position:
                    raise ValueError(f"{name} became shorter than the part that was already read")
                yield Part(None, name, position)
                clocks.sleep(_WAIT)


def _skip(source: BinaryIO, name: str, size: int) -> None:
    """Skip bytes that were read before, or raise if they are missing."""
    if name == "-":
        # A pipe cannot go back, so the earlier bytes are read again and dropped.
        skipped = source.read(size)
        found, last = len(skipped), skipped[-1:]
    else:
        left = os.fstat(source.fileno()).st_size - source.tell()
        source.seek(size - 1, os.SEEK_CUR)
        found, last = min(left, size), source.read(1)
    if found < size:
        raise ValueError(
            f"{name} is shorter than the part that was already read: it was shortened or replaced"
        )
    if last != b"\n":
        raise ValueError(f"{name} has no line end where reading stopped: it was replaced")


# A quote opens a quoted cell only at the beginning of the cell: 5" is an ordinary cell. Within a
# quoted cell, two quotes represent one.
_QUOTED = re.compile(rb'(?:(?<=[,\r\n])|\A)"[^"]*(?:""[^"]*)*(?:"|\Z)')


def _complete(text: bytes) -> int:
    """Return the end of the last line whose quotes are closed; 0 if there is none."""
    end = text.rfind(b"\n")
    if b'"' in text:
        most: int | None
        for most in (64, None):  # usually the last cells decide, which keeps memory small
            cells = deque(_QUOTED.finditer(text), maxlen=most)
            for cell in reversed(cells):
                if cell.end() <= end:
                    return end + 1
                if cell.start() < end:  # the line end is inside of this cell
                    end = text.rfind(b"\n", 0, cell.start())
            if most is None or len(cells) < most:
                break
    return end + 1


def make_table(release: Release) -> Table:
    """Return the numbers of a release as a table for a terminal."""
    table = shell.table(["view", "statistic", "group"], ["value", "low", "high"])
    table.title = f"{release.begin or release.interval}"
    for cell in release.cells():
        name = " ".join(part for part in (cell.statistic, cell.label) if part)
        value = "unknown" if cell.value is None else f"{cell.value:,.4g}"
        table.add_row(cell.view, name, cell.group, value, f"{cell.low:,.4g}", f"{cell.high:,.4g}")
    return table


class Sink:
    """Destinations of releases: a file to append to, the terminal, and a page."""

    def __init__(self, output: Path | None, page: Path | None) -> None:
        self._output, self._page = output, page
        self._shown: list[Fields] = []
        # A .prom file only contains the latest release, because a scraper keeps the history.
        self._kept = output is not None and output.suffix != ".prom"
        self._live: Live | None = None
        self._drawn = False
        self.written = 0  # number of bytes of the output

    @contextmanager
    def show(self) -> Iterator[None]:
        """Show the latest release as a table that is updated, if the terminal can do this."""
        console = shell.console()
        if self._output is not None or not console.is_terminal:
            yield
            return
        with Live(console=console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def line(self, release: Release) -> str:
        """Return the text that a release adds to the output."""
        if self._output is None or self._output.suffix == ".jsonl":
            return release.to_json() + "\n"
        if self._output.suffix == ".prom":
            return release.open_metrics()
        # Only the first interval has the header, because later ones are appended, even by later
        # runs.
        return str(release.to_frame().to_csv(index=False, header=release.interval == 0))

    def restore(self, written: int, pending: list[str]) -> None:
        """Continue an output that may lack the last releases, or contain a part of them."""
        self.written = written
        if self._output is None:
            return
        if self._kept:
            with self._output.open("r+b" if written or self._output.exists() else "x+b") as out:
                if out.seek(0, os.SEEK_END) < written:
                    raise ValueError(f"{self._output} is shorter than what was written to it")
                out.seek(written)
                # The state was saved before its releases were written, so the file may end anywhere
                # within them. Otherwise it is another file, which would be truncated.
                if not "".join(pending).encode().startswith(out.read()):
                    raise ValueError(
                        f"{self._output} is not what the last run wrote: name the output of "
                        "that run, or take out what was added to it"
                    )
                out.truncate(written)
        self._append(pending)

    def write(self, releases: list[Release]) -> None:
        """Publish releases: on the terminal, in the output, and later on the page."""
        if not releases:
            return
        self._drawn = False
        if self._live is not None:
            self._live.update(make_table(releases[-1]), refresh=True)
        elif self._output is None:
            for release in releases:
                typer.echo(str(release))
        self._append([self.line(release) for release in releases])
        # The list would grow without end, so a .jsonl output is read again instead.
        if self._page is not None and not self._is_read_again:
            self._shown += [release.to_dict() for release in releases]

    @property
    def _is_read_again(self) -> bool:
        """Whether the page is drawn from the output, which contains all releases."""
        return self._output is not None and self._output.suffix == ".jsonl"

    def _append(self, lines: list[str]) -> None:
        if self._output is None or not lines:
            return
        if not self._kept:
            # A scraper may read the file at any time, and must never see a part of it.
            beside = self._output.with_suffix(".prom.new")
            beside.write_text(lines[-1], encoding="utf-8")
            beside.replace(self._output)
            return
        # The file is binary, because the state counts bytes and text files would change line ends
        # on Windows.
        with self._output.open("ab") as out:
            self.written += out.write("".join(lines).encode())
            out.flush()
            os.fsync(out.fileno())  # before a state says that it was written

    def draw(self, monitor: Monitor) -> None:
        """Draw the page, unless it already shows all releases."""
        if self._page is None or self._drawn:
            return
        shown = self._shown
        if self._is_read_again and self._output is not None and self._output.exists():
            with self._output.open(encoding="utf-8") as lines:
                shown = [json.loads(line) for line in lines]
        from dpoco.plotting import draw_page  # imported on use, because most commands draw nothing

        title = ", ".join(name for name, _ in monitor.statistics)
        # A browser may read the page at any time, and must never see a part of it.
        beside = self._page.with_name(self._page.name + ".new")
        beside.write_text(draw_page(shown, monitor.guarantee, title), encoding="utf-8")
        beside.replace(self._page)
        self._drawn = True
