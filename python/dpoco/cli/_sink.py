"""Where the releases of ``dpoco monitor`` go: a file, the terminal, a page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.live import Live
from rich.table import Table

from dpoco.cli import _shell as shell
from dpoco.statistics import Monitor, Release


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
    """Where releases go: a file that is appended to, the terminal, and a page."""

    def __init__(self, output: Path | None, page: Path | None) -> None:
        self._output, self._page = output, page
        self._shown: list[dict[str, Any]] = []
        self._kept = output is not None and output.suffix != ".prom"
        self._live: Live | None = None
        self._drawn = False
        self.written = 0  # bytes of the output

    @contextmanager
    def show(self) -> Iterator[None]:
        """Show the latest release as a table that changes, if the terminal can."""
        console = shell.console()
        if self._output is not None or not console.is_terminal:
            yield
            return
        with Live(console=console, auto_refresh=False) as self._live:
            yield
        self._live = None

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
                if out.seek(0, os.SEEK_END) < written:
                    raise ValueError(f"{self._output} is shorter than what was written to it")
                out.truncate(written)
        elif self._kept:
            self._output.write_bytes(b"")
        self._append(pending)

    def write(self, releases: list[Release]) -> None:
        """Publish releases."""
        if not releases:
            return
        self._drawn = False
        if self._live is not None:
            self._live.update(make_table(releases[-1]), refresh=True)
        elif self._output is None:
            for release in releases:
                typer.echo(str(release))
        self._append([self.line(release) for release in releases])
        if self._page is not None and not self._is_read_again:
            self._shown += [release.to_dict() for release in releases]

    @property
    def _is_read_again(self) -> bool:
        """Whether the page is drawn from the output, which has all releases."""
        return self._output is not None and self._output.suffix == ".jsonl"

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
            out.flush()
            os.fsync(out.fileno())  # before a state says that it is written

    def draw(self, monitor: Monitor) -> None:
        """Draw the page, unless it shows all releases."""
        if self._page is None or self._drawn:
            return
        shown = self._shown
        if self._is_read_again and self._output is not None and self._output.exists():
            with self._output.open(encoding="utf-8") as lines:
                shown = [json.loads(line) for line in lines]
        from dpoco.plotting import draw_page  # on use: most commands draw nothing

        title = ", ".join(name for name, _ in monitor.statistics)
        beside = self._page.with_name(self._page.name + ".new")
        beside.write_text(draw_page(shown, monitor.guarantee, title), encoding="utf-8")
        beside.replace(self._page)
        self._drawn = True
