"""Statistics of a stream by interval: ``dpoco monitor``, and ``dpoco plan statistics``."""

import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dpoco
from dpoco._files import sole_user
from dpoco._validation import import_package
from dpoco.accounting import Budget
from dpoco.cli import _shell as shell
from dpoco.cli._growing import Places, Sink, check_columns, read_parts
from dpoco.cli._key import state_key
from dpoco.cli._settings import column_pairs, parse_range, read_list
from dpoco.errors import HorizonExceeded
from dpoco.learning.participation import Participation
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
    parse_view,
)

_BINS = 40  # number of bins between the ends of a range, for quantiles
_STATISTICS, _INTERVALS, _PRIVACY = "Statistics", "Intervals", "Privacy"
_RANGE, _VALUES = "COLUMN=LOW:HIGH", "COLUMN=VALUE,VALUE,..."
_EDGES, _QUANTILES = "COLUMN=EDGE,EDGE,...", "COLUMN=Q,Q,...@LOW:HIGH"
_PERSON = "COLUMN=INTERVALS,APART,RECORDS"
Words = list[str] | None


def _several(text: str, metavar: str) -> Any:
    """Return an option that can be repeated."""
    return shell.option(
        None, f"{text} Can be repeated.", metavar=metavar, panel=_STATISTICS, shown=False
    )


@dataclass(kw_only=True)
class Statistics:
    """The statistics to publish, how often, and under which guarantee."""

    count: bool = shell.option(False, "Count records.", "--count", panel=_STATISTICS, shown=False)
    sum: Words = _several("Sum of a column with a public range.", _RANGE)
    mean: Words = _several("Mean of a column with a public range.", _RANGE)
    share: Words = _several("Share of true or 1 in a column.", "COLUMN")
    histogram: Words = _several("Counts of a column by public bins.", _EDGES)
    categories: Words = _several("Counts of a column by public values.", _VALUES)
    quantiles: Words = _several(
        "Quantiles of a column, from 40 bins; the range may be that of --mean.", _QUANTILES
    )
    by: Words = _several("Column to group by, with its public values.", _VALUES)
    every: str = shell.option(
        "1h",
        "Length of an interval, such as 15min, 1h, 1D (a day) or MS (a month).",
        metavar="LENGTH", panel=_INTERVALS,
    )  # fmt: skip
    view: Words = shell.option(
        None,
        'interval, total, "last 24" or "half-life 24". Can be repeated. [default: interval]',
        metavar="VIEW", panel=_INTERVALS,
    )  # fmt: skip
    releases: int = shell.option(
        8760, "Largest number of intervals, all under one budget.", panel=_INTERVALS
    )
    epsilon: float = shell.option(
        1.0, "Privacy budget of all releases together: smaller protects more.", panel=_PRIVACY
    )
    delta: float = shell.option(
        1e-6, "Probability with which the promise of epsilon may fail.", panel=_PRIVACY
    )
    person: str = shell.option(
        "",
        "Protect all records of a person: at most so many intervals, so far apart, with so many "
        "records in each; further ones count as empty. Without it, single records are protected.",
        metavar=_PERSON, panel=_PRIVACY, shown=False,
    )  # fmt: skip

    def monitor(self) -> Monitor:
        """Return the requested monitor."""
        people, records = self._people()
        return Monitor(
            self._statistics(),
            every=self.every,
            releases=self.releases,
            budget=Budget(self.epsilon, self.delta),
            views=[parse_view(text) for text in self.view or ()] or ["interval"],
            by={
                name: tuple(read_list(own)) for name, own in column_pairs("--by", self.by, _VALUES)
            },
            participation=people,
            records_per_interval=records,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Columns whose values are names, which are read as texts."""
        column = self.person.partition("=")[0]
        grouped = column_pairs("--by", self.by, _VALUES)
        listed = column_pairs("--categories", self.categories, _VALUES)
        own = [name for name, _ in (*grouped, *listed)]
        return tuple(dict.fromkeys(own + [column] * bool(column)))

    def _statistics(self) -> dict[str, Statistic]:
        """Return the statistics by name."""
        found: dict[str, Statistic] = {"count": Count()} if self.count else {}
        ranges: dict[str, tuple[float, float]] = {}
        for what, kind, texts in (("sum", Sum, self.sum), ("mean", Mean, self.mean)):
            for name, text in column_pairs(f"--{what}", texts, _RANGE):
                ranges[name] = parse_range(f"--{what} {name}", text)
                found[f"{name} {what}"] = kind(*ranges[name], column=name)
        for name in self.share or ():
            found[f"{name} share"] = Share(column=name)
        for name, text in column_pairs("--histogram", self.histogram, _EDGES):
            found[f"{name} histogram"] = Histogram(shell.numbers("--histogram", text), column=name)
        for name, text in column_pairs("--categories", self.categories, _VALUES):
            found[f"{name} categories"] = Categories(tuple(read_list(text)), column=name)
        for name, text in column_pairs("--quantiles", self.quantiles, _QUANTILES):
            asked, given, ends = text.partition("@")
            if not given and name not in ranges:
                raise ValueError(f"--quantiles {name} needs a range: {name}={asked}@LOW:HIGH")
            low, high = parse_range(f"--quantiles {name}", ends) if given else ranges[name]
            edges = tuple(np.linspace(low, high, _BINS + 1).tolist())
            found[f"{name} quantiles"] = Quantiles(
                shell.numbers("--quantiles", asked), edges, column=name
            )
        if not found:
            raise ValueError("name at least one statistic: --count, --mean COLUMN=LOW:HIGH, ...")
        return found

    def _people(self) -> tuple[Participation | None, int]:
        """Return how often a person comes, and the most records of one in an interval."""
        if not self.person:
            return None, 1
        ((_, numbers),) = column_pairs("--person", [self.person], _PERSON)
        given = shell.whole_numbers("--person", numbers)
        if len(given) > 3:
            raise ValueError(f"--person must have at most three numbers; got {numbers!r}")
        # Missing numbers are 1.
        intervals, apart, records = [*given, 1, 1][:3]
        return Participation(intervals, separation=apart), records


_KINDS = (".csv", ".jsonl", ".prom")
_FILES = "Files"


@dataclass(kw_only=True)
class Asked(Statistics):
    """The options of ``dpoco monitor``."""

    files: list[str] = shell.argument(
        ..., "CSV or Parquet files; - is standard input as CSV.", metavar="FILE..."
    )
    time: str = shell.option(
        ..., "Column of times, in order: a late record counts in the current interval.",
        metavar="COLUMN", panel=_INTERVALS,
    )  # fmt: skip
    output: Path | None = shell.option(
        None,
        "Append releases to a .csv or .jsonl file, or keep the latest in a .prom file "
        "(OpenMetrics). Without it they are shown in the terminal.",
        metavar="FILE", panel=_FILES,
    )  # fmt: skip
    page: Path | None = shell.option(
        None, "Write a page with charts, without scripts.", metavar="FILE", panel=_FILES
    )
    state: Path | None = shell.option(
        None,
        "Keep state and position here after each part of the input: see --resume.",
        metavar="FILE", panel=_FILES,
    )  # fmt: skip
    resume: bool = shell.option(
        False,
        "Continue from the state, if there is one: nothing is lost or published twice if the "
        "program was killed.",
        "--resume", panel=_FILES, shown=False,
    )  # fmt: skip
    follow: bool = shell.option(
        False, "Wait for further lines of the last file.", "--follow", panel=_FILES, shown=False
    )
    clock: bool = shell.option(
        False,
        "With --follow: end intervals by this machine's clock, also while no record comes.",
        "--clock", panel=_INTERVALS, shown=False,
    )  # fmt: skip

    def check(self) -> None:
        """Raise `ValueError` for files that do not fit together or would be overwritten."""
        if self.state is not None and self.output is None:
            raise ValueError("--state needs --output, which is continued with it")
        if self.resume and self.state is None:
            raise ValueError("--resume needs --state FILE")
        if self.clock and not self.follow:
            raise ValueError("--clock needs --follow")
        if self.output is not None and self.output.suffix not in _KINDS:
            raise ValueError(f"--output must end in one of {', '.join(_KINDS)}")
        lines = self.output is not None and self.output.suffix == ".jsonl"
        if self.page is not None and self.state is not None and not lines:
            raise ValueError(
                "--page with --state needs --output FILE.jsonl, because the page shows this file"
            )
        # Releases that cannot be written are lost, and a second run would draw other noise.
        for path in (self.output, self.page, self.state):
            if path is not None and not path.absolute().parent.is_dir():
                raise ValueError(f"no such directory: {path.parent}")
        # Existing files are continued, and checked against the state.
        if self.resume:
            # Without its state, an output is not continued, because its records would be released
            # again.
            if self.output is not None and self.output.exists() and not self.state.exists():  # type: ignore[union-attr]
                raise ValueError(f"{self.output} exists, but not its state {self.state}")
            return
        for name, path in (("--output", self.output), ("--page", self.page)):
            if path is not None and path.exists():
                raise ValueError(
                    f"{name}: {path} exists: name a new file, or continue it with --state FILE "
                    "--resume"
                )
        if self.state is not None and self.state.exists():
            raise ValueError(f"{self.state} exists: add --resume to continue it, or remove it")


def _monitor(asked: Asked) -> None:
    asked.check()  # again, because another run may have ended meanwhile
    made = asked.monitor()
    person = asked.person.partition("=")[0] or None
    needed = (*(c.name for c in made._layout.columns), *asked.names, asked.time)
    # All files are checked before the first is read, so that the tenth is not refused after hours.
    check_columns(asked.files, tuple(dict.fromkeys(needed)), asked.follow)
    sink = Sink(asked.output, asked.page)
    monitor = _resume(made, asked.state, sink)
    go_on = asked.state is not None
    folder = Path() if asked.state is None else asked.state.parent
    positions = Places(folder, (monitor.position or {}).get("files", {}))
    with sink.show():
        for part in read_parts(asked.files, positions, asked.names, person, asked.follow, go_on):
            used_up: HorizonExceeded | None = None
            try:
                if part.table is not None:
                    ended = monitor.add_many(part.table, time=asked.time, person=person)
                else:
                    ended = _advance(monitor) if asked.clock else []
            except TypeError as error:  # a text among numbers
                raise ValueError(f"{part.file}: {error}") from None
            except HorizonExceeded as error:
                last = _finish(monitor, part.table, asked.time, person)
                if last is None:
                    raise
                ended, used_up = last, error
            if part.table is not None:
                positions[part.file] = part.position
            elif not ended and used_up is None:
                sink.draw(monitor)
                continue
            # The state is stored first, with these lines as pending, so `restore` writes them again
            # if the program is killed before the next line.
            _keep(monitor, asked.state, positions, sink, ended)
            sink.write(ended)
            if used_up is not None:
                sink.draw(monitor)
                raise used_up
        # With a state, the next run continues the interval.
        if asked.state is None and not asked.follow:
            # The first record begins the first interval.
            if monitor._clock is not None and not monitor._clock.started:
                warnings.warn("no record has come, and no interval has begun", shell.Note,
                              stacklevel=1)  # fmt: skip
            elif monitor.round < monitor.horizon:
                sink.write([monitor.release()])
    sink.draw(monitor)


def _finish(monitor: Monitor, table: Any, time: str, person: str | None) -> list[Release] | None:
    """End the last interval with its records, because later records follow, which are left out.

    `table` has a record after the last interval; None if the clock has passed it. The result is
    None unless the last interval is the current one: a run that has not begun can be given more
    releases, and a wrong time far ahead must not end all remaining intervals.
    """
    inside, last = 0, monitor.round
    if table is not None and monitor._clock is not None:
        intervals = monitor._clock.intervals(monitor._clock.times(table[time], len(table)))
        running = np.maximum.accumulate(np.maximum(intervals, monitor.round))
        inside = int(np.searchsorted(running, monitor.horizon))
        last = int(running[inside - 1]) if inside else last
    if not monitor._is_started() or last != monitor.horizon - 1:
        return None
    ended = monitor.add_many(table[:inside], time=time, person=person) if inside else []
    return [*ended, monitor.release()]


def _advance(monitor: Monitor) -> list[Release]:
    """End intervals by this machine's clock, after the first one has begun."""
    pandas = import_package("pandas", "intervals by the clock", "files")
    clock = monitor._clock
    if clock is None or not clock.started:
        return []
    return monitor.advance(pandas.Timestamp.now(tz=clock.zone))


def _resume(made: Monitor, state: Path | None, sink: Sink) -> Monitor:
    """Return the monitor of the state, if there is one, after writing its last releases again."""
    if state is None or not state.exists():
        return made
    found = dpoco.load(state, Monitor, key=state_key())
    # Headers and not objects are compared, because they only contain what a state can restore.
    if found._header()["arguments"] != made._header()["arguments"]:
        raise ValueError(
            f"{state} belongs to a monitor with other options: repeat them, or name a new file"
        )
    sink.restore(found.position["written"], found.position["pending"])
    return found


def _keep(
    monitor: Monitor, state: Path | None, positions: Places, sink: Sink, ended: list[Release]
) -> None:
    """Store state, positions and pending output, before anybody sees the output."""
    if state is None:
        return
    pending = [sink.line(release) for release in ended]
    monitor.position = {"files": positions.known, "written": sink.written, "pending": pending}
    monitor.save(state, key=state_key())


def _act(asked: Asked) -> None:
    """Publish statistics of a stream, interval by interval, under one guarantee.

    dpoco plan statistics shows beforehand how accurate the numbers will be. A second run on the
    same records spends the budget again, unless it continues the first with --state and --resume.

    For example:

    dpoco monitor log.csv --time at --count --share failed --output site.jsonl --state site.dpoco

    dpoco monitor log.csv --time at --mean latency=0:1000 --person user=10,24,3 --page site.html
    """
    with shell.notes(False):
        asked.check()
        # Two runs that continue from one state would draw the same noise for different records.
        with nullcontext() if asked.state is None else sole_user(asked.state):
            _monitor(asked)


@dataclass(kw_only=True)
class _Planned(Statistics):
    as_json: shell.JsonFlag = False


def _plan(asked: _Planned) -> None:
    """Show how accurate running statistics will be, before any data: see dpoco monitor.

    For example:

    dpoco plan statistics --count --mean latency=0:1000 --by country=DE,FR --view "last 24"
    """
    monitor = asked.monitor()
    plan = monitor.plan()
    record = {
        "schema": "dpoco.plan-statistics/1", "room": plan.room,
        "rows": [asdict(row) for row in plan.rows], "guarantee": monitor.guarantee.to_dict(),
    }  # fmt: skip
    shell.show(asked.as_json, record, f"{plan}\n\n{monitor.guarantee}")


plan_statistics_command = shell.command(_Planned, "statistics", _plan)
COMMANDS = {"monitor": shell.command(Asked, "monitor", _act)}
