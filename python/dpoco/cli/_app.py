"""Commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer

import dpoco
from dpoco.cli._bench import bench_command, sweep_command
from dpoco.cli._checks import audit_command, reproduce_app
from dpoco.cli._compare import compare_command
from dpoco.cli._guarantees import explain_command, verify_command
from dpoco.cli._plan import plan_app
from dpoco.cli._run import run_command
from dpoco.cli._tables import datasets_command, table_app

app = typer.Typer(
    help="Private online learning: every decision of a stream under differential privacy.\n\n"
    "First steps: dpoco run; dpoco plan ctrl --horizon 100000 --dimension 10; dpoco datasets.\n\n"
    "Every command prints JSON with --json. Exit codes: 0; 1 if an audit or verify refuted a "
    "claim; 2 for bad input or a missing package; 4 if a run with --checkpoint left out rows "
    "beyond its horizon; 130 after an interrupt.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run_command)
app.command("compare")(compare_command)
app.add_typer(plan_app, name="plan")
app.command("datasets")(datasets_command)
app.command("audit")(audit_command)
app.command("sweep")(sweep_command)
app.command("explain")(explain_command)
app.command("verify")(verify_command)
app.add_typer(table_app, name="table")
app.add_typer(reproduce_app, name="reproduce")
app.command("bench")(bench_command)


@app.callback(invoke_without_command=True)
def _entry(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"dpoco {dpoco.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
