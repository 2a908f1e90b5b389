"""The command ``dpoco monitor``: statistics of files and streams, interval by interval."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer.core import TyperCommand

import dpoco
from dpoco._validation import imported
from dpoco.cli import _shell as shell
from dpoco.cli._growing import check_columns, read_parts
from dpoco.cli._key import state_key
from dpoco.cli._sink import Sink
from dpoco.cli._statistics import Statistics
from dpoco.statistics import Monitor, Release

_KINDS = (".csv", ".jsonl", ".prom")
_INTERVALS, _FILES = "Intervals", "Files"


@dataclass(kw_only=True)
class Asked(Statistics):
    """The options of ``dpoco monitor``."""

    files: Annotated[
        list[str],
        shell.argument("CSV or Parquet files; - is standard input as CSV.", metavar="FILE..."),
    ]
    time: Annotated[str, shell.option("Column of times.", metavar="COLUMN", panel=_INTERVALS)]
    output: Annotated[
        Path | None,
        shell.option(
            "Append releases to a .csv or .jsonl file, or keep the latest in a .prom file "
            "(OpenMetrics). Without it they are shown in the terminal.",
            metavar="FILE",
            panel=_FILES,
        ),
    ] = None
    page: Annotated[
        Path | None,
        shell.option("Write a page with charts, without scripts.", metavar="FILE", panel=_FILES),
    ] = None
    state: Annotated[
        Path | None,
        shell.option(
            "Keep state and position here after each part of the input: see --resume.",
            metavar="FILE",
            panel=_FILES,
        ),
    ] = None
    resume: Annotated[
        bool,
        shell.option(
            "Continue from the state, if there is one: nothing is lost or published twice if the "
            "program was killed.",
            "--resume",
            panel=_FILES,
            shown=False,
        ),
    ] = False
    follow: Annotated[
        bool,
        shell.option(
            "Wait for further lines of the last file.", "--follow", panel=_FILES, shown=False
        ),
    ] = False
    clock: Annotated[
        bool,
        shell.option(
            "With --follow: end intervals by this machine's clock, also while no record comes.",
            "--clock", panel=_INTERVALS, shown=False,
        ),
    ] = False  # fmt: skip

    def check(self) -> None:
        """Raise `ValueError` for files that do not go together, or would be overwritten."""
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
        if self.resume:
            return
        for name, path in (("--output", self.output), ("--page", self.page)):
            if path is not None and path.exists():
                raise ValueError(f"{name}: {path} exists")
        if self.state is not None and self.state.exists():
            raise ValueError(f"{self.state} exists: add --resume to continue it, or remove it")


def _monitor(asked: Asked) -> None:
    asked.check()
    made = asked.monitor()
    person = asked.person.partition("=")[0] or None
    needed = (*(c.name for c in made._layout.columns), *asked.names, asked.time)
    check_columns(asked.files, tuple(dict.fromkeys(needed)))
    sink = Sink(asked.output, asked.page)
    monitor = _resume(made, asked.state, sink)
    positions: dict[str, int] = dict((monitor.position or {}).get("files", {}))
    with sink.show():
        for part in read_parts(asked.files, positions, asked.names, person, asked.follow):
            if part.table is not None:
                ended = monitor.add_many(part.table, time=asked.time, person=person)
                positions[part.file] = part.position
            else:
                ended = _advance(monitor) if asked.clock else []
                if not ended:
                    sink.draw(monitor)
                    continue
            _keep(monitor, asked.state, positions, sink, ended)
            sink.write(ended)
        if asked.state is None and not asked.follow:
            sink.write([monitor.release()] if monitor.round < monitor.horizon else [])
    sink.draw(monitor)


def _advance(monitor: Monitor) -> list[Release]:
    """End intervals by this machine's clock, once the first has begun."""
    pandas = imported("pandas", "intervals by the clock", "files")
    clock = monitor._clock
    if clock is None or not clock.started:
        return []
    return monitor.advance(pandas.Timestamp.now(tz=clock.zone))


def _resume(made: Monitor, state: Path | None, sink: Sink) -> Monitor:
    """Return the monitor of the state, if there is one, whose last releases are written again."""
    if state is None or not state.exists():
        return made
    found = dpoco.load(state, Monitor, key=state_key())
    if found._header()["arguments"] != made._header()["arguments"]:
        raise ValueError(
            f"{state} belongs to a monitor with other options: repeat them, or name a new file"
        )
    sink.restore(found.position["written"], found.position["pending"])
    return found


def _keep(
    monitor: Monitor,
    state: Path | None,
    positions: dict[str, int],
    sink: Sink,
    ended: list[Release],
) -> None:
    """Store state, positions and what is about to be written: before anybody sees it."""
    if state is None:
        return
    pending = [sink.line(release) for release in ended]
    monitor.position = {"files": positions, "written": sink.written, "pending": pending}
    monitor.save(state, key=state_key())


class _Command(TyperCommand):
    def invoke(self, ctx: Any) -> None:
        """Publish statistics as asked."""
        asked: Asked = super().invoke(ctx)
        with shell.errors_in_one_line(), shell.notes(False):
            _monitor(asked)


monitor_command = shell.command(
    Asked,
    "monitor",
    cls=_Command,
    help="""Publish statistics of a stream, interval by interval, under one guarantee.

dpoco plan statistics shows beforehand how accurate the numbers will be.

For example:

dpoco monitor log.csv --time at --count --share failed --output site.jsonl --state site.dpoco

dpoco monitor log.csv --time at --mean latency=0:1000 --person user=10,24,3 --page site.html
""",
)
