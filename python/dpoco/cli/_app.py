"""The program ``dpoco``: its commands, each imported when it is asked for."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

import dpoco
from dpoco.cli._support import KEY_FILE, Group, GroupedCommand

# Commands, and groups of them, in the order of the help.
_HOMES = {
    "run": "_run.run_command",
    "publish": "_models.publish_command",
    "predict": "_models.predict_command",
    "monitor": "_monitor.monitor_command",
    "compare": "_run.compare_command",
    "plan": "_plan.plan_app",
    "datasets": "_lists.datasets_command",
    "audit": "_checks.audit_command",
    "explain": "_checks.explain_command",
    "verify": "_checks.verify_command",
    "sign": "_sign.sign_command",
    "journal": "_journals.journal_app",
    "serve": "_serve.serve_command",
    "table": "_lists.table_app",
}


_KEY_HELP = (
    "Key of encrypted states and journals: 32 random bytes, hexadecimal or base64, in a file that "
    "only its owner reads. [default: the variable DPOCO_KEY, if it is set; without, they are plain]"
)


class _Commands(Group):
    """All commands: the import of one costs the start of none of the others."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(_HOMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None."""
        if cmd_name not in _HOMES:
            return None
        module, _, name = _HOMES[cmd_name].partition(".")
        found = getattr(importlib.import_module(f"dpoco.cli.{module}"), name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(cls=GroupedCommand)(found)
            found = alone
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=_Commands,
    help="Private online learning: every decision of a stream under differential privacy.\n\n"
    "First steps: dpoco run; dpoco plan ctrl --horizon 100000 --dimension 10; dpoco datasets.\n\n"
    "Every command prints JSON with --json. Exit codes: 0; 1 if an audit or verify refuted a "
    "claim; 2 for bad input or a missing package; 3 if an audit had no power; 4 if a run with "
    "--checkpoint left out rows beyond its horizon; 5 if what verify found holds only if a promise "
    "is kept; 6 if something is not protected; 130 after an interrupt.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _entry(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    key_file: Annotated[Path | None, typer.Option(metavar="FILE", help=_KEY_HELP)] = None,
) -> None:
    KEY_FILE.set(key_file)
    if version:
        typer.echo(f"dpoco {dpoco.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
