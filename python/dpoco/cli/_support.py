"""What all commands share: errors in one line, notes, progress."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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

__all__ = ["errors_in_one_line", "notes", "progress"]


@contextmanager
def errors_in_one_line(checkpoint: Path | None = None) -> Iterator[None]:
    """Turn bad input into one line and exit code 2, an interrupt into exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        kept = checkpoint is not None and checkpoint.exists()
        typer.echo("interrupted" + (f"; state kept in {checkpoint}" if kept else ""), err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ImportError, dpoco.DpocoError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename:
            text = f"{error.filename}: {error.strerror}"
        typer.echo(f"error: {' '.join(text.split())}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def notes(quiet: bool) -> Iterator[None]:
    """Show the library's warnings once each, as notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dpoco.NoiseDominatesWarning)
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


@contextmanager
def progress(silent: bool) -> Iterator[Any]:
    """Yield a progress callback, or None where nobody would see it."""
    console = Console(stderr=True)
    if silent or not console.is_terminal:
        yield None
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

        yield show
