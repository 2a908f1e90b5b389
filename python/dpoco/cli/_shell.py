"""Shared parts of commands: options, errors in one line, notes, progress, tables."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich import progress as bars
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

import dpoco
from dpoco.cli._key import state_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpoco.evaluation import Comparison, RunReport, Snapshot


def option(
    default: object,
    text: str,
    *names: str,
    metavar: str | None = None,
    panel: str | None = None,
    shown: bool = True,
) -> Any:
    """Return an option of a command, with its default, help, names and heading.

    The default is ``...`` for a required option, and in annotations. `shown` says whether the help
    ends with the default.
    """
    return typer.Option(
        default,
        *names,
        # rich would interpret brackets in a help text as marks.
        help=escape(text),
        metavar=metavar,
        rich_help_panel=panel,
        show_default=shown,
    )


def argument(default: object, text: str, *, metavar: str) -> Any:
    """Return an argument of a command; for its default see `option`."""
    return typer.Argument(default, help=escape(text), metavar=metavar, show_default=False)


# Options that several commands have.
JsonFlag = Annotated[bool, option(..., "Print JSON, and nothing else.", "--json")]
Epsilon = Annotated[float, option(..., "Privacy budget.")]
Delta = Annotated[
    float | None, option(..., "Privacy budget; 0: pure privacy. [default: 1/(10 horizon)]")
]
RoundsPerPerson = Annotated[
    int | None, option(..., "The budget is for all rounds of a person, who has at most so many.")
]
_APART = "With --rounds-per-person: two of them are at least so many rounds apart. [default: 1]"
Separation = Annotated[int | None, option(..., _APART)]


Act = Callable[[Any], None]  # action of a command, on the object of its options
Progress = Callable[[str, int, int], None]  # phase, rounds done, total


class Note(UserWarning):
    """Something that the user of a command should know about a file."""


# Warnings that commands show as notes.
SHOWN = (
    dpoco.LargeDeltaWarning, dpoco.NoiseDominatesWarning, dpoco.UnspentBudgetWarning, Note,
)  # fmt: skip
_WIDTH = 100
_FIGURES = (".png", ".svg", ".pdf")


Source = typer.Typer | Callable[..., object]  # a group, a function or a dataclass


def command(
    source: Source, name: str, act: Act | None = None, text: str | None = None
) -> TyperCommand | TyperGroup:
    """Return a command from a group, a function or a dataclass.

    The fields of a dataclass are options, and `act` is called with an object of it. The help is
    `text`, or by default the docstring of the function or of `act`.
    """
    if not isinstance(source, typer.Typer):
        cls = Command if act is None else type("Acting", (Command,), {"act": staticmethod(act)})
        described = _join_lines(text or inspect.getdoc(act or source) or "")
        # Completion belongs to the program; here it would add two options to each command.
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(name, cls=cls, help=described)(source)
        source = app
    found = cast(TyperCommand | TyperGroup, typer.main.get_command(source))
    found.name = name
    return found


def commands(**sources: Source) -> dict[str, TyperCommand | TyperGroup]:
    """Return commands by name; for their sources see `command`."""
    return {name: command(source, name) for name, source in sources.items()}


def group(text: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Return a group of commands; without a command it prints its help, which begins with `text`.

    Completion belongs to the program; here it would add two options to each group.
    """
    return typer.Typer(
        help=text, cls=cls, add_completion=False, callback=_show_help, invoke_without_command=True
    )


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


class Command(TyperCommand):
    """A command that says in one line what is wrong with its input."""

    act: Act | None = None  # for options that are a dataclass

    def invoke(self, ctx: Any) -> None:
        """Call the function of the command, or `act` with an object of its dataclass."""
        with errors_in_one_line():
            made = super().invoke(ctx)
            if self.act is not None:
                self.act(made)


def _join_lines(text: str) -> str:
    """Return a text with each paragraph in one line, for terminals of any width."""
    return "\n\n".join(escape(" ".join(each.split())) for each in text.split("\n\n"))


@contextmanager
def errors_in_one_line(checkpoint: Path | None = None) -> Iterator[None]:
    """Convert bad input into one line and exit code 2, and an interrupt into exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        text = "interrupted"
        # A user who interrupts a long run wants to know what remains of it.
        if checkpoint is not None and checkpoint.exists():
            kept = dpoco.load(checkpoint, key=state_key())
            text += f"; state kept in {checkpoint}, after round {kept.round:,}"
        typer.echo(text, err=True)
        raise typer.Exit(130) from None
    # This is also an `OSError`, but not bad input: a reader such as `head` has seen enough.
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ImportError, MemoryError, dpoco.DpocoError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename:
            text = f"{error.filename}: {error.strerror}"
        # Messages of several lines, such as those of other packages, are joined.
        typer.echo(f"{typer.style('error:', fg='red')} {' '.join(text.split())}", err=True)
        raise typer.Exit(2) from None


def numbers(
    name: str, text: str, whole: bool = False, *, positive: bool = False
) -> tuple[float, ...]:
    """Return the numbers in a text, separated by commas; positive ones must be below 10^13."""
    try:
        values = tuple(float(part) for part in text.split(","))
        fits = not whole or all(value.is_integer() for value in values)
    except ValueError:
        fits = False
    if not fits or (positive and not all(0.0 < value < 1e13 for value in values)):
        kind = "whole numbers" if whole else "positive numbers" if positive else "numbers"
        raise ValueError(f"{name} must be {kind} separated by commas; got {text!r}")
    return values


def whole_numbers(name: str, text: str) -> list[int]:
    """Return the positive whole numbers of a text, separated by commas."""
    return [int(value) for value in numbers(name, text, True, positive=True)]


def check_figure(path: Path | None) -> None:
    """Check before the runs, and not after them, that the figure can be drawn."""
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--figure: no such directory: {path.parent}")
    if path.suffix.lower() not in _FIGURES:
        raise ValueError(f"--figure must end in {', '.join(_FIGURES[:-1])} or {_FIGURES[-1]}")
    dpoco.plotting.new_figure((1.0, 1.0))  # raises without matplotlib
    # Permissions are not enough, because the disk may be read-only, or the path a folder.
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as reason:
        raise ValueError(f"--figure cannot be written: {reason.strerror}") from None
    if not existed:
        path.unlink()


def check_new(*files: Path | str | None) -> None:
    """Raise if a file of an earlier run would be overwritten."""
    # Checked before the work: a run whose result cannot be stored would have spent its budget.
    for file in files:
        if file is not None and Path(file).exists():
            raise ValueError(f"{file} exists: name another place, or add --force to replace it")


def write_report(
    report: RunReport | Comparison, path: Path, draw: Callable[[Any], Figure] | None
) -> list[str]:
    """Write a report, and its figure next to it; return the names of the files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Before the figure, which may fail, so that the numbers of a long run are kept.
    path.write_text(report.to_json() + "\n", encoding="utf-8")
    files = [str(path)]
    if draw is not None:
        image = path.with_suffix(".png")
        try:
            draw(report).savefig(image)
        except ImportError as error:
            typer.echo(f"note: no figure: {error}", err=True)
        else:
            files.append(str(image))
    return files


def print_json(record: object) -> None:
    """Print a record, without NaN and infinity, which JSON does not have."""
    typer.echo(json.dumps(record, allow_nan=False, indent=2))


def show(as_json: bool, record: object, text: str) -> None:
    """Print a record as JSON, or else the text that says the same."""
    if as_json:
        print_json(record)
    else:
        typer.echo(text)


def console() -> Console:
    """Return standard output; a file or a pipe has no width limit."""
    # Names of streams, columns and groups may contain brackets and colons, which rich would
    # interpret as marks and pictures.
    made = Console(markup=False, emoji=False)
    if not made.is_terminal:
        made.width = _WIDTH
    return made


def escape_controls(text: str) -> str:
    """Return a text with escapes for line feeds, control characters and invisible characters.

    Otherwise the name of a file, or a text in it, could look like another verdict.
    """
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def say(text: str = "") -> None:
    """Print a line unchanged."""
    console().print(text, highlight=False, soft_wrap=True)


def table(left: Sequence[str] = (), right: Sequence[str] = (), *, header: bool = True) -> Table:
    """Return a table without lines: first text columns, then number columns."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=header)
    for name in left:
        made.add_column(name, no_wrap=True)
    for name in right:
        made.add_column(name, justify="right", no_wrap=True)
    return made


@contextmanager
def notes(quiet: bool) -> Iterator[None]:
    """Show the library's warnings once each, as notes."""
    with warnings.catch_warnings(record=True) as caught:
        for category in SHOWN:
            warnings.simplefilter("always", category)
        failed = True
        try:
            yield
            failed = False
        except typer.Exit:  # from a command that has finished its work
            failed = False
            raise
        finally:  # notes about a file are not printed next to an error
            told = [each for each in caught if not (failed and issubclass(each.category, Note))]
            if not quiet:
                for text in dict.fromkeys(str(each.message) for each in told):
                    typer.echo(f"{typer.style('note:', fg='yellow')} {text}", err=True)


class _Rate(bars.ProgressColumn):
    """Rounds per second."""

    def render(self, task: bars.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rounds/s", style="progress.data.speed")


# The columns that users of online learners know: title, attribute, format.
_COLUMNS = (
    ("round", "round", ","), ("average loss", "average_loss", ".4f"),
    ("since last", "since_last", ".4f"), ("regret", "regret", ",.1f"),
    ("switches", "switches", ","),
)  # fmt: skip


@contextmanager
def progress(
    silent: bool, *, lines: bool | None = None, table: bool = False
) -> Iterator[tuple[Progress | None, Callable[[Snapshot], None] | None]]:
    """Yield callbacks for progress and for snapshots, or None for those whose output is not shown.

    Parameters
    ----------
    silent : bool
        Show nothing at all.
    lines : bool, optional
        False: no lines for snapshots. True: lines even if standard error is not a terminal.
    table : bool
        Whether there are snapshots.
    """
    console = Console(stderr=True)
    if silent or not (console.is_terminal or lines):
        yield None, None
        return
    rows = [[title for title, _, _ in _COLUMNS]]

    def snapshot(seen: Snapshot) -> None:
        rows.append([format(getattr(seen, name), form) for _, name, form in _COLUMNS])
        for row in rows:
            text = " ".join(f"{cell:>12}" for cell in row)
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        rows.clear()

    shown = snapshot if table and lines is not False else None
    # In a log, a bar would be a line for each of its steps.
    if not console.is_terminal:
        yield None, shown
        return
    shape = (
        bars.TextColumn("{task.description:<14}"), bars.BarColumn(), bars.MofNCompleteColumn(),
        _Rate(), bars.TimeRemainingColumn(),
    )  # fmt: skip
    with bars.Progress(*shape, console=console, transient=True) as shown_bars:
        tasks: dict[str, bars.TaskID] = {}

        def show(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = shown_bars.add_task(phase, total=total)
            shown_bars.update(tasks[phase], completed=done)

        yield show, shown
