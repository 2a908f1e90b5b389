"""The program ``dpoco``: its commands, each imported on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import dpoco
from dpoco.cli._key import KEY_FILE

# The commands in the order of the help, each with its help text and heading.
_STREAMS, _CLAIMS, _OPERATE = "Learn from a stream", "Check what is claimed", "Operate"
_COMMANDS = {
    "init": (_STREAMS, "Write a file of settings for a table, with its columns and ranges."),
    "run": (_STREAMS, "Play a private learner on a stream and report how it compares."),
    "compare": (_STREAMS, "Compare learners on one stream, each at the same privacy."),
    "publish": (_STREAMS, "Write the model that a saved learner released last."),
    "predict": (_STREAMS, "Apply a model to new records."),
    "monitor": (_STREAMS, "Publish statistics of a stream, interval by interval."),
    "plan": (_STREAMS, "Show what a budget buys, without data."),
    "datasets": (_STREAMS, "List the bundled streams, or describe one."),
    "explain": (_CLAIMS, "Say what a guarantee protects, and what it leaves out."),
    "verify": (_CLAIMS, "Say whether anything is protected, from what files describe."),
    "sign": (_CLAIMS, "Sign a certificate, with what it is about."),
    "audit": (_CLAIMS, "Attack the privacy claim of a learner."),
    "table": (_CLAIMS, "Print tables of the accounting."),
    "serve": (_OPERATE, "Serve a private bandit over HTTP."),
    "journal": (_OPERATE, "Look at a journal, copy it, verify it."),
}


_EXIT_CODES = (
    "Exit codes: 0; 1 if an audit or verify refuted a claim; 2 for bad input or a missing package; "
    "3 if an audit had no power; 4 if a run with --checkpoint left out rows beyond its horizon; 5 "
    "if what verify found holds only if a promise is kept; 6 if something is not protected; 130 "
    "after an interrupt."
)
_KEY_HELP = (
    "Key of encrypted states and journals: 32 random bytes, hexadecimal or base64, in a file that "
    "only its owner reads. Without it, and without the variable DPOCO_KEY, they are plain."
)


def load_command(name: str) -> TyperCommand | TyperGroup:
    """Import and return a command, so that no command pays for the imports of the others."""
    match name:
        case "init" | "datasets":
            from dpoco.cli._init import COMMANDS
        case "run" | "compare":
            from dpoco.cli._run import COMMANDS
        case "publish" | "predict":
            from dpoco.cli._models import COMMANDS
        case "monitor":
            from dpoco.cli._monitor import COMMANDS
        case "plan":
            from dpoco.cli._plan import COMMANDS
        case "verify":
            from dpoco.cli._verify import COMMANDS
        case "serve" | "journal":
            from dpoco.cli._operate import COMMANDS
        # audit, explain, sign and table; `_COMMANDS` has no others.
        case _:
            from dpoco.cli._claims import COMMANDS
    return COMMANDS[name]


class _Commands(TyperGroup):
    """All commands; the help only knows one sentence about each."""

    def list_commands(self, ctx: object) -> list[str]:
        """Return the names of the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:
        """Return a placeholder for a command, with its help; None if there is no such command."""
        if cmd_name not in _COMMANDS:
            return None
        panel, sentence = _COMMANDS[cmd_name]
        # The help lists all commands, and importing them all would take long.
        return TyperCommand(cmd_name, help=sentence, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the requested command, or raise with a suggestion."""
        name, *rest = args
        if name in _COMMANDS:
            return name, load_command(name), rest
        # For an unknown option, the library that parses options writes the message.
        if not name.startswith("-"):
            from dpoco._validation import unknown

            ctx.fail(unknown("command", name, list(_COMMANDS)))
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    help="Private online learning: every decision of a stream under differential privacy.\n\n"
    "First steps: dpoco run; dpoco init events.csv; dpoco plan ctrl --help. Every command prints "
    "JSON with --json.",
    epilog=_EXIT_CODES,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _enter(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    key_file: Annotated[Path | None, typer.Option(metavar="FILE", help=_KEY_HELP)] = None,
) -> None:
    # Commands are imported later and take no argument of the program, so we store it for them here.
    KEY_FILE.set(key_file)
    if version:
        typer.echo(f"dpoco {dpoco.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
