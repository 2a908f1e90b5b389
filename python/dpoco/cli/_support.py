"""What all commands share: errors in one line, notes, progress."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

import dpoco

if TYPE_CHECKING:
    from dpoco.evaluation import Snapshot

__all__ = ["errors_in_one_line", "notes", "progress"]


@contextmanager
def errors_in_one_line(checkpoint: Path | None = None) -> Iterator[None]:
    """Turn bad input into one line and exit code 2, an interrupt into exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        text = "interrupted"
        if checkpoint is not None and checkpoint.exists():
            text += f"; state kept in {checkpoint}, after round {dpoco.load(checkpoint).round:,}"
        typer.echo(text, err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ImportError, MemoryError, dpoco.DpocoError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename:
            text = f"{error.filename}: {error.strerror}"
        typer.echo(f"error: {' '.join(text.split())}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def notes(quiet: bool) -> Iterator[None]:
    """Show the library's warnings once each, as notes."""
    with warnings.catch_warnings(record=True) as caught:
        for category in (dpoco.LargeDeltaWarning, dpoco.NoiseDominatesWarning):
            warnings.simplefilter("always", category)
        try:
            yield
        finally:
            if not quiet:
                for text in dict.fromkeys(str(warning.message) for warning in caught):
                    typer.echo(f"note: {text}", err=True)


class _Rate(ProgressColumn):
    """Rounds per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rounds/s", style="progress.data.speed")


# The columns that users of online learners know, and what privacy adds.
_COLUMNS = ("round", "average loss", "since last", "regret", "switches", "epsilon")


def _heading() -> str:
    return " ".join(f"{name:>12}" for name in _COLUMNS)


def _line(seen: Snapshot) -> str:
    cells = (f"{seen.round:,}", f"{seen.average_loss:.4f}", f"{seen.since_last:.4f}",
             f"{seen.regret:,.1f}", f"{seen.switches:,}", f"{seen.epsilon:.4g}")  # fmt: skip
    return " ".join(f"{cell:>12}" for cell in cells)


@contextmanager
def progress(
    silent: bool, *, lines: bool | None = None, table: bool = False
) -> Iterator[tuple[Any, Any]]:
    """Yield callbacks for progress and for snapshots, each None where nobody would see it.

    Parameters
    ----------
    silent : bool
        Nothing at all.
    lines : bool, optional
        False: no lines of snapshots; True: also where standard error is no terminal.
    table : bool
        Whether there are snapshots.
    """
    console = Console(stderr=True)
    if silent or not (console.is_terminal or lines):
        yield None, None
        return
    told: list[Snapshot] = []

    def snapshot(seen: Snapshot) -> None:
        text = ([] if told else [_heading()]) + [_line(seen)]
        told.append(seen)
        if console.is_terminal:
            console.print("\n".join(text), markup=False, highlight=False, soft_wrap=True)
        else:
            typer.echo("\n".join(text), err=True)

    shown = snapshot if table and lines is not False else None
    if not console.is_terminal:
        yield None, shown
        return
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total)
            bars.update(tasks[phase], completed=done)

        yield show, shown
