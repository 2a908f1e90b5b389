"""What commands share: options, also from a file, errors in one line, notes, progress, tables.

The options of a command are the parameters of a function: their types and defaults are in its
signature, their help is in its docstring, as for the constructors of learners.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich import progress as bars
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

import dpoco
from dpoco._validation import LARGEST_HORIZON, named, unknown

if TYPE_CHECKING:
    from dpoco.evaluation import Snapshot


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Function = TypeVar("Function", bound=Callable[..., None])


class Note(UserWarning):
    """Something that the user of a command should know about a file."""


KEY_FILE: ContextVar[Path | None] = ContextVar("KEY_FILE", default=None)
# Warnings that commands show as notes.
SHOWN = (
    dpoco.LargeDeltaWarning, dpoco.NoiseDominatesWarning, dpoco.UnspentBudgetWarning, Note,
)  # fmt: skip
_WIDTH = 100
_MANY = 20  # options that need headings
_FIGURES = (".png", ".svg", ".pdf")


# Headings of the help of a command with many options, and which ones are below them.
_PANELS = {
    "Data": "data header format encoding separator decimal skip-lines stream label positive "
    "features range feature-range label-range loss-range categories missing intercept person "
    "anonymous",
    "Privacy": "epsilon delta horizon rounds-per-person separation seed",
    "Learner": "learner learners epsilons loss p radius feature-bound slope-bound switches "
    "exploration quantile sum-method noise step-scale batch option",
    "Files": "out output decision force figure checkpoint resume skip-played trust-columns config",
}


class GroupedCommand(TyperCommand):
    """A command whose help shows many options below headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options: under one heading where they are few."""
        shown: dict[str, list[tuple[str, str]]] = {}
        of = {name: title for title, names in _PANELS.items() for name in names.split()}
        for each in self.get_params(ctx):
            row = each.get_help_record(ctx)
            if row is not None:
                argument = each.param_type_name == "argument"
                title = "Arguments" if argument else of.get(each.opts[0][2:], "Options")
                shown.setdefault(title, []).append(row)
        if sum(map(len, shown.values())) < _MANY:
            super().format_options(ctx, formatter)
            return
        for title in ("Arguments", *_PANELS, "Options"):
            if title in shown:
                with formatter.section(title):
                    formatter.write_dl(shown[title])


class Group(TyperGroup):
    """Commands that are made when they are asked for: `list_commands` names them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was meant, or say which one probably was."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            ctx.fail(unknown("command", args[0], names))
        return super().resolve_command(ctx, args)


def option_of(kind: Any, values: str, meaning: str) -> Any:
    """Return the annotation of an option: words with a dash are its names, others its metavar.

    ``argument METAVAR`` is none, but an argument.
    """
    if values.startswith("argument "):
        metavar = values.removeprefix("argument ")
        return Annotated[kind, typer.Argument(metavar=metavar, help=meaning)]
    flags = [word for word in values.split() if word.startswith("-")]
    metavar = " ".join(word for word in values.split() if word not in flags)
    return Annotated[kind, typer.Option(*flags, metavar=metavar or None, help=meaning)]


def documented(item: Any) -> dict[str, tuple[str, str]]:
    """Return what a docstring says of every parameter: the values it takes, and what it means."""
    sections = re.split(r"\n(\w[\w ]*)\n-+\n", inspect.getdoc(item) or "")
    said = dict(zip(sections[1::2], sections[2::2], strict=True)).get("Parameters", "")
    entries = re.findall(
        r"^(\w[\w, ]*?)(?: : (.*))?\n((?:[ ]{4}.*(?:\n|$)|\n)+)", f"{said}\n", re.M
    )
    return {
        name: (values, " ".join(text.split()))
        for names, values, text in entries
        for name in names.split(", ")
    }


def documented_options(function: Function) -> Function:
    """Make options of a function's parameters, and leave the rest of its docstring as the help.

    A parameter whose type is a dataclass stands for a group of options that commands share: the
    dataclass's fields, with the help of its own docstring.
    """
    # Not `get_type_hints`: where the default is None, Python 3.10 hides annotations in a union.
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    groups: dict[str, Any] = {
        each.name: each.annotation for each in parameters if is_dataclass(each.annotation)
    }
    shown = [
        option
        for each in parameters
        for option in (_options_in(groups[each.name]) if each.name in groups
                       else _with_help([each], function))
    ]  # fmt: skip

    @functools.wraps(function)
    def command(*ordered: Any, **given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(*ordered, **given)

    described: Any = command
    described.__signature__ = inspect.Signature(shown)
    described.__annotations__ = {each.name: each.annotation for each in shown}
    command.__doc__ = (inspect.getdoc(function) or "").partition("\nParameters\n")[0]
    return described  # type: ignore[no-any-return]


def _options_in(group: Any) -> list[inspect.Parameter]:
    """Return the options of a dataclass."""
    own = inspect.signature(group, eval_str=True).parameters.values()
    return _with_help([each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own], group)


def _with_help(parameters: Sequence[inspect.Parameter], owner: Any) -> list[inspect.Parameter]:
    """Return parameters as options with the help of a docstring, where it says something."""
    said = documented(owner)
    return [
        each.replace(
            kind=inspect.Parameter.KEYWORD_ONLY,
            annotation=option_of(each.annotation, *said[each.name])
            if each.name in said
            else each.annotation,
        )
        for each in parameters
    ]


# Options that a report does not tell, nor gives to another run: where it goes, what is continued.
_NOT_TOLD = (
    "out", "output", "decision", "force", "figure", "checkpoint", "resume", "skip_played",
    "trust_columns", "progress", "config", "json", "quiet",
)  # fmt: skip


def _apply(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's entries the defaults of this command's options."""
    if path is None or context.resilient_parsing:
        return path
    with errors_in_one_line():
        given = _read(path)
        options = _options_of(context)
        del options["config"]
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            name = named("option", str(key).replace("-", "_"), tuple(options))
            if isinstance(value, dict):
                raise ValueError(f"{path.name}: {key} must be a value, not a table")
            chosen[options[name]] = value
        context.default_map = {**(context.default_map or {}), **chosen}
    return path


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    try:
        record: Any = parse_file(path)
    except (ValueError, RecursionError):
        raise ValueError(f"{path.name} is not a {path.suffix[1:].upper()} file") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path.name} must hold options by name")
    settings = record.get("settings")
    if "schema" in record and isinstance(settings, dict):
        command = settings.get("command")
        if not isinstance(command, dict):
            raise ValueError(f"{path.name} is a report without the options it was made with")
        record = {k: v for k, v in command.items() if k not in _NOT_TOLD}
    return {key: value for key, value in record.items() if value is not None}


def parse_file(path: Path) -> Any:
    """Return what a TOML or JSON file holds."""
    suffix = path.suffix.lower()
    text = path.read_text(encoding="utf-8")
    if suffix == ".json":
        return json.loads(text)
    if suffix != ".toml":
        raise ImportError(f"{path.name}: the format must be .toml or .json")
    if sys.version_info < (3, 11):
        raise ImportError("TOML files need Python 3.11 or later; JSON does on every version")
    import tomllib

    return tomllib.loads(text)


Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        is_eager=True,
        callback=_apply,
        help="Options from a TOML or JSON file, by their names without dashes in front; or from "
        "the report of an earlier run. What is given here as well wins.",
    ),
]


def _horizon(given: str | int) -> int:
    """Return a number of rounds; the largest for "unknown"."""
    try:
        return LARGEST_HORIZON if given == "unknown" else int(given)
    except ValueError:
        raise typer.BadParameter("it must be a number of rounds, or unknown") from None


Horizon = Annotated[
    int | None,
    typer.Option(
        parser=_horizon,
        metavar="T",
        help="Rounds the guarantee covers; later rows are left out. A stream without an end: "
        "unknown, which is 10^12, with twice the noise of 10^6. [default: all rows; with --resume, "
        "what the learner has]",
    ),
]


def state_key() -> dpoco.EncryptionKey | None:
    """Return the key of ``--key-file``, or else of the environment, if there is one."""
    file = KEY_FILE.get()
    if file is not None:
        return dpoco.EncryptionKey.from_file(file)
    return dpoco.EncryptionKey.from_environment() if "DPOCO_KEY" in os.environ else None


@contextmanager
def errors_in_one_line(checkpoint: Path | None = None) -> Iterator[None]:
    """Turn bad input into one line and exit code 2, an interrupt into exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        text = "interrupted"
        if checkpoint is not None and checkpoint.exists():
            kept = dpoco.load(checkpoint, key=state_key())
            text += f"; state kept in {checkpoint}, after round {kept.round:,}"
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


def asked_of(context: typer.Context) -> dict[str, Any]:
    """Return what a command was asked, by its options' names, in their order, as a report says."""
    given = {name: context.params[own] for name, own in _options_of(context).items()}
    # Of numbers, --p may be infinite; others are refused as such.
    return {
        name: value if value == math.inf and name != "p" else told(value)
        for name, value in given.items()
        if name not in _NOT_TOLD
    }


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether an option stands on the command line, and not only in a file of options."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def typed_options(context: typer.Context) -> set[str]:
    """Return the names of the options that stand on the command line or in a file of options."""
    return {
        name
        for name, own in _options_of(context).items()
        if (source := context.get_parameter_source(own)) is not None
        and source.name in ("COMMANDLINE", "DEFAULT_MAP")
    }


def told(value: Any) -> Any:
    """Return an option as JSON carries it: repeatable ones that were not given are None."""
    if isinstance(value, (tuple, list)):
        return list(value) or None
    return "inf" if value == math.inf else value


def _options_of(context: typer.Context) -> dict[str, str]:
    """Return the parameters of a command's options, by their names without dashes in front."""
    own = [
        each
        for each in context.command.params
        if each.name != "help" and each.param_type_name == "option"
    ]
    return {each.opts[0][2:].replace("-", "_"): str(each.name) for each in own}


def numbers(name: str, text: str, whole: bool = False, *, positive: bool = False) -> list[float]:
    """Return the numbers of a text, separated by commas; positive ones are below 10^13."""
    try:
        values = [float(part) for part in text.split(",")]
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
    """Find out before the runs, not after them, that the figure cannot be drawn."""
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--figure: no such directory: {path.parent}")
    if path.suffix.lower() not in _FIGURES:
        raise ValueError(f"--figure must end in {', '.join(_FIGURES[:-1])} or {_FIGURES[-1]}")
    dpoco.plotting.new_figure((1.0, 1.0))  # raises without matplotlib
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as reason:
        raise ValueError(f"--figure cannot be written: {reason.strerror}") from None
    if not existed:
        path.unlink()


def check_new(*files: Path | None) -> None:
    """Refuse to overwrite what an earlier run wrote."""
    for file in files:
        if file is not None and file.exists():
            raise ValueError(f"{file} exists: name another place, or add --force to replace it")


def write_report(report: Any, path: Path, draw: Callable[[Any], Any] | None) -> list[str]:
    """Write a report, and what is drawn of it beside it; return the files' names."""
    path.parent.mkdir(parents=True, exist_ok=True)
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


def print_json(record: Any) -> None:
    """Print a record, without NaN and infinity, which JSON does not have."""
    typer.echo(json.dumps(record, allow_nan=False, indent=2))


def console() -> Console:
    """Return standard output; a file or a pipe has no width to respect."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=_WIDTH)


def say(text: str = "") -> None:
    """Print a line as it is."""
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def table(left: Sequence[str] = (), right: Sequence[str] = (), *, header: bool = True) -> Table:
    """Return a table without lines: first columns of text, then columns of numbers."""
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
        except typer.Exit:  # of a command that has done its work
            failed = False
            raise
        finally:  # what is to know of a file is no line beside an error
            told = [each for each in caught if not (failed and issubclass(each.category, Note))]
            if not quiet:
                for text in dict.fromkeys(str(each.message) for each in told):
                    typer.echo(f"note: {text}", err=True)


class _Rate(bars.ProgressColumn):
    """Rounds per second."""

    def render(self, task: bars.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rounds/s", style="progress.data.speed")


# The columns that users of online learners know, and what privacy adds: title, attribute, format.
_COLUMNS = (
    ("round", "round", ","), ("average loss", "average_loss", ".4f"),
    ("since last", "since_last", ".4f"), ("regret", "regret", ",.1f"),
    ("switches", "switches", ","), ("epsilon", "epsilon", ".4g"),
)  # fmt: skip


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
    rows = [[title for title, _, _ in _COLUMNS]]

    def snapshot(seen: Snapshot) -> None:
        rows.append([format(getattr(seen, name), form) for _, name, form in _COLUMNS])
        for row in rows:
            text = " ".join(f"{cell:>12}" for cell in row)
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        rows.clear()

    shown = snapshot if table and lines is not False else None
    if not console.is_terminal:
        yield None, shown
        return
    shape = (
        bars.TextColumn("{task.description:<14}"), bars.BarColumn(), bars.MofNCompleteColumn(),
        _Rate(), bars.TimeRemainingColumn(),
    )  # fmt: skip
    with bars.Progress(*shape, console=console, transient=True) as shown_bars:
        tasks: dict[str, Any] = {}

        def show(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = shown_bars.add_task(phase, total=total)
            shown_bars.update(tasks[phase], completed=done)

        yield show, shown
