"""The command ``dpoco monitor``: statistics of files and streams, interval by interval."""

from __future__ import annotations

import time as clocks
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

import dpoco
from dpoco import Budget, Participation
from dpoco._validation import imported
from dpoco.cli import _shell as shell
from dpoco.cli._key import state_key
from dpoco.statistics import (
    Categories,
    Count,
    Histogram,
    Mean,
    Monitor,
    Quantiles,
    Release,
    Share,
    Statistic,
    Sum,
    draw_page,
    parse_view,
)

_BLOCK = 2**22  # bytes that are read at once
_ROWS = 2**16
_BINS = 40  # between the ends of a range, for quantiles
_KINDS = (".csv", ".jsonl", ".prom")
_WAIT = 1.0  # seconds between two looks at a growing file


class _Part(NamedTuple):
    """Some records, the file they are of, and how far it has been read behind them."""

    table: Any
    file: str
    position: int


def _several(text: str, metavar: str) -> Any:
    """Return an option that can be repeated."""
    return shell.option(f"{text} Can be repeated.", metavar=metavar, panel=_STATISTICS)


_STATISTICS, _INTERVALS, _PRIVACY, _FILES = "Statistics", "Intervals", "Privacy", "Files"
_RANGE, _VALUES = "COLUMN=LOW:HIGH", "COLUMN=VALUE,VALUE,..."


def monitor_command(
    files: Annotated[
        list[str] | None,
        shell.argument("CSV or Parquet files; - is standard input as CSV.", metavar="[FILE]..."),
    ] = None,
    count: Annotated[
        bool, shell.option("Count records.", "--count", panel=_STATISTICS, shown=False)
    ] = False,
    sum: Annotated[
        list[str], _several("Sum of a column with a public range.", _RANGE)
    ] = [],  # noqa: B006  # typer makes a copy
    mean: Annotated[
        list[str], _several("Mean of a column with a public range.", _RANGE)
    ] = [],  # noqa: B006
    share: Annotated[
        list[str], _several("Share of yes or 1 in a column.", "COLUMN")
    ] = [],  # noqa: B006
    histogram: Annotated[
        list[str], _several("Counts of a column by public bins.", "COLUMN=EDGE,EDGE,...")
    ] = [],  # noqa: B006
    categories: Annotated[
        list[str], _several("Counts of a column by public values.", _VALUES)
    ] = [],  # noqa: B006
    quantiles: Annotated[
        list[str],
        _several(
            "Quantiles of a column, from 40 bins; the range may be that of --mean.",
            "COLUMN=Q,Q,...@LOW:HIGH",
        ),
    ] = [],  # noqa: B006
    by: Annotated[
        list[str], _several("Column to group by, with its public values.", _VALUES)
    ] = [],  # noqa: B006
    time: Annotated[
        str, shell.option("Column of times.", metavar="COLUMN", panel=_INTERVALS, shown=False)
    ] = "",
    every: Annotated[
        str,
        shell.option(
            "Length of an interval, such as 15min, 1h, 1D or MS.", metavar="LENGTH",
            panel=_INTERVALS,
        ),
    ] = "1h",
    view: Annotated[
        list[str] | None,
        shell.option(
            'interval, total, "last 24" or "half-life 24". Can be repeated. [default: interval]',
            metavar="VIEW", panel=_INTERVALS,
        ),
    ] = None,
    releases: Annotated[
        int, shell.option("Largest number of intervals.", panel=_INTERVALS)
    ] = 8760,
    epsilon: Annotated[
        float, shell.option("Privacy budget of all releases together.", panel=_PRIVACY)
    ] = 1.0,
    delta: Annotated[
        float, shell.option("Privacy budget of all releases together.", panel=_PRIVACY)
    ] = 1e-6,
    person: Annotated[
        str,
        shell.option(
            "Protect all records of a person, who comes in at most so many intervals, so far "
            "apart, with so many records in each; further ones count as empty.",
            metavar="COLUMN=INTERVALS,APART,RECORDS", panel=_PRIVACY, shown=False,
        ),
    ] = "",
    output: Annotated[
        Path | None,
        shell.option(
            "Append releases to a .csv or .jsonl file, or keep the latest in a .prom file "
            "(OpenMetrics).", metavar="FILE", panel=_FILES,
        ),
    ] = None,
    page: Annotated[
        Path | None,
        shell.option("Write a page with charts, without scripts.", metavar="FILE", panel=_FILES),
    ] = None,
    state: Annotated[
        Path | None,
        shell.option(
            "Keep state and position here after each part of the input, and continue from it if it "
            "exists: nothing is lost or published twice if the program is killed.",
            metavar="FILE", panel=_FILES,
        ),
    ] = None,
    follow: Annotated[
        bool,
        shell.option(
            "Wait for further lines of the last file.", "--follow", panel=_FILES, shown=False
        ),
    ] = False,
) -> None:  # fmt: skip
    """Publish statistics of a stream, interval by interval, under one guarantee.

    Without files it prints how accurate the numbers will be, and reads nothing.

    For example:

    dpoco monitor --count --mean latency=0:1000 --by country=DE,FR

    dpoco monitor log.csv --time at --count --share failed --output site.jsonl --state site.dpoco

    dpoco monitor log.csv --time at --mean latency=0:1000 --person user=10,24,3 --page site.html
    """
    with shell.errors_in_one_line(), shell.notes(False):
        _check_files(output, page, state)
        made = Monitor(
            _statistics(count, sum, mean, share, histogram, categories, quantiles),
            every=every,
            releases=releases,
            budget=Budget(epsilon, delta),
            views=[parse_view(text) for text in view or ()] or ["interval"],
            by={name: tuple(values.split(",")) for name, values in map(_split_name, by)},
            **_people(person),
        )
        if not files:
            typer.echo(str(made.plan()))
            return
        if not time:
            raise ValueError("--time COLUMN is needed for intervals by the clock")
        sink = _Sink(output, page)
        monitor = _resume(made, state, sink)
        column = person.partition("=")[0] or None
        positions: dict[str, int] = dict((monitor.position or {}).get("files", {}))
        for part in _parts(files, positions, follow):
            ended = monitor.add_many(part.table, time=time, person=column)
            positions[part.file] = part.position
            _keep(monitor, state, positions, sink, ended)
            sink.write(ended)
        if state is None and not follow:
            sink.write([monitor.release()] if monitor.round < monitor.horizon else [])
        sink.finish(monitor)


def _check_files(output: Path | None, page: Path | None, state: Path | None) -> None:
    if state is not None and output is None:
        raise ValueError("--state needs --output, which is continued with it")
    if output is not None and output.suffix not in _KINDS:
        raise ValueError(f"--output must end in one of {', '.join(_KINDS)}")
    for name, path in (("--output", output), ("--page", page)):
        if path is not None and state is None and path.exists():
            raise ValueError(f"{name}: {path} exists")
    if page is not None and state is not None and (output is None or output.suffix != ".jsonl"):
        raise ValueError("--page with --state needs --output FILE.jsonl, which it is drawn from")


def _split_name(text: str) -> tuple[str, str]:
    name, found, rest = text.partition("=")
    if not (name and found and rest):
        raise ValueError(f"expected COLUMN=...; got {text!r}")
    return name, rest


def _range(text: str) -> tuple[float, float]:
    low, found, high = text.partition(":")
    try:
        return float(low), float(high if found else "")
    except ValueError:
        raise ValueError(f"expected LOW:HIGH; got {text!r}") from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError:
        raise ValueError(f"expected numbers with commas between them; got {text!r}") from None


def _statistics(
    count: bool,
    sums: list[str],
    means: list[str],
    shares: list[str],
    histograms: list[str],
    categories: list[str],
    quantiles: list[str],
) -> dict[str, Statistic]:
    """Return the statistics of the options, by name."""
    found: dict[str, Statistic] = {"count": Count()} if count else {}
    ranges = {name: _range(text) for name, text in map(_split_name, [*sums, *means])}
    for name, text in map(_split_name, sums):
        found[f"{name} sum"] = Sum(*_range(text), column=name)
    for name, text in map(_split_name, means):
        found[f"{name} mean"] = Mean(*_range(text), column=name)
    for name in shares:
        found[f"{name} share"] = Share(column=name)
    for name, text in map(_split_name, histograms):
        found[f"{name} histogram"] = Histogram(_numbers(text), column=name)
    for name, text in map(_split_name, categories):
        found[f"{name} categories"] = Categories(tuple(text.split(",")), column=name)
    for name, text in map(_split_name, quantiles):
        asked, given, ends = text.partition("@")
        if not given and name not in ranges:
            raise ValueError(f"--quantiles {name} needs a range: {name}={asked}@LOW:HIGH")
        low, high = _range(ends) if given else ranges[name]
        edges = tuple(np.linspace(low, high, _BINS + 1).tolist())
        found[f"{name} quantiles"] = Quantiles(_numbers(asked), edges, column=name)
    if not found:
        raise ValueError("no statistic is asked for: --count, --mean COLUMN=LOW:HIGH, ...")
    return found


def _people(text: str) -> dict[str, Any]:
    if not text:
        return {}
    _, numbers = _split_name(text)
    try:
        intervals, apart, records = (*map(int, numbers.split(",")), 1, 1)[:3]
    except ValueError:
        raise ValueError(f"expected whole numbers; got {numbers!r}") from None
    rule = Participation(intervals, separation=apart)
    return {"participation": rule, "records_per_interval": records}


def _resume(made: Monitor, state: Path | None, sink: _Sink) -> Monitor:
    """Return the monitor of the state, if there is one, whose last releases are written again."""
    if state is None or not state.exists():
        return made
    found = dpoco.load(state, Monitor, key=state_key())
    if found._header()["arguments"] != made._header()["arguments"]:
        raise ValueError(f"{state} is of a monitor with other options")
    sink.restore(found.position["written"], found.position["pending"])
    return found


def _keep(
    monitor: Monitor,
    state: Path | None,
    positions: dict[str, int],
    sink: _Sink,
    ended: list[Release],
) -> None:
    """Store state, positions and what is about to be written: before anybody sees it."""
    if state is None:
        return
    pending = [sink.line(release) for release in ended]
    monitor.position = {"files": positions, "written": sink.written, "pending": pending}
    monitor.save(state, key=state_key())


class _Sink:
    """Where releases go: a file that is appended to, the terminal, and a page."""

    def __init__(self, output: Path | None, page: Path | None) -> None:
        self._output, self._page = output, page
        self._shown: list[dict[str, Any]] = []
        self._kept = output is not None and output.suffix != ".prom"
        self.written = 0  # bytes of the output

    def line(self, release: Release) -> str:
        """Return what a release adds to the output."""
        if self._output is None or self._output.suffix == ".jsonl":
            return release.to_json() + "\n"
        if self._output.suffix == ".prom":
            return release.open_metrics()
        return str(release.to_frame().to_csv(index=False, header=release.interval == 0))

    def restore(self, written: int, pending: list[str]) -> None:
        """Continue an output that may lack the last releases, or have a part of them."""
        self.written = written
        if self._output is None:
            return
        if self._kept and written > 0:
            with self._output.open("r+b") as out:
                out.truncate(written)
        elif self._kept:
            self._output.write_bytes(b"")
        self._append(pending)

    def write(self, releases: list[Release]) -> None:
        """Publish releases."""
        if self._output is None:
            for release in releases:
                typer.echo(str(release))
        self._append([self.line(release) for release in releases])
        if self._page is not None and not (self._kept and self._output is not None):
            self._shown += [release.to_dict() for release in releases]

    def _append(self, lines: list[str]) -> None:
        if self._output is None or not lines:
            return
        if not self._kept:
            beside = self._output.with_suffix(".prom.new")
            beside.write_text(lines[-1], encoding="utf-8")
            beside.replace(self._output)
            return
        with self._output.open("ab") as out:
            self.written += out.write("".join(lines).encode())

    def finish(self, monitor: Monitor) -> None:
        """Draw the page."""
        if self._page is None:
            return
        import json

        shown = self._shown
        if self._output is not None and self._output.suffix == ".jsonl":
            with self._output.open(encoding="utf-8") as lines:
                shown = [json.loads(line) for line in lines]
        title = ", ".join(name for name, _ in monitor.statistics)
        self._page.write_text(draw_page(shown, monitor.guarantee, title), encoding="utf-8")


def _parts(files: list[str], positions: dict[str, int], follow: bool) -> Iterator[_Part]:
    """Yield the records of files behind their positions."""
    for at, name in enumerate(files):
        last = follow and at == len(files) - 1
        start = positions.get(name, 0)
        if name.endswith((".parquet", ".pq")):
            yield from _parquet(name, start)
        else:
            yield from _csv(name, start, last)


def _parquet(name: str, start: int) -> Iterator[_Part]:
    arrow = imported("pyarrow.parquet", "Parquet files", "files")
    position = 0
    for batch in arrow.ParquetFile(name).iter_batches(batch_size=_ROWS):
        begin, position = position, position + batch.num_rows
        if position > start:
            yield _Part(batch.slice(max(0, start - begin)), name, position)


def _csv(name: str, start: int, follow: bool) -> Iterator[_Part]:
    """Yield complete lines, read again from a growing file; positions are bytes."""
    import io
    import sys

    pandas = imported("pandas", "CSV files", "files")
    with sys.stdin.buffer if name == "-" else Path(name).open("rb") as source:
        header = source.readline()
        position = len(header)
        if start > position:
            if name == "-":
                source.read(start - position)
            else:
                source.seek(start)
            position = start
        rest = b""
        while True:
            block = source.read(_BLOCK)
            rest += block
            cut = len(rest) if not block and not follow else _complete(rest)
            if cut:
                lines, rest = rest[:cut], rest[cut:]
                position += cut
                table = pandas.read_csv(io.BytesIO(header + lines))
                if len(table):
                    yield _Part(table, name, position)
            if not block:
                if not follow:
                    return
                clocks.sleep(_WAIT)


def _complete(text: bytes) -> int:
    """Return where the last line ends whose quotes are closed; 0 if there is none."""
    end = text.rfind(b"\n") + 1
    while end and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, end - 1) + 1
    return end
