"""``dpoco audit``: every attack that applies to a learner, on its standard case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpoco.cli._support import errors_in_one_line

__all__ = ["audit_command"]

SCHEMA, NAMES_SCHEMA = "dpoco.audit/2", "dpoco.audit-names/1"
# 2 is bad input, of all commands.
_EXIT_CODES = {"not refuted": 0, "refuted": 1, "no power": 3}


def audit_command(
    learner: Annotated[
        str | None,
        typer.Argument(
            metavar="LEARNER",
            help="Name of a learner or mechanism, such as tree-frank-wolfe; see --list.",
        ),
    ] = None,
    list_names: Annotated[
        bool, typer.Option("--list", help="Print all names, and nothing else.")
    ] = False,
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    delta: Annotated[
        float | None,
        typer.Option(help="Privacy budget. [default: 0 where the learner allows it, else 1e-3]"),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Rounds. [default: a few, the hardest]")
    ] = None,
    dimension: Annotated[
        int | None,
        typer.Option(help="Coordinates, experts, points or candidates. [default: a few]"),
    ] = None,
    calibration: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="tight, corrected or paper. With paper the published claim is attacked where it "
            "is stronger than what is stated here for the same noise.",
        ),
    ] = "tight",
    trials: Annotated[
        int | None,
        typer.Option(help="Runs on each of the two streams. [default: enough for power]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all runs, at least 0.")] = 0,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw claimed and measured curves (needs matplotlib)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Attack a learner's privacy claim: on one random tape, by exact likelihoods, by frequencies.

    Exit code 0 says that the claim is not refuted, by attacks with the power that the report names;
    1 that it is refuted; 2 stands for bad input; 3 that there was no power: nothing is said about
    the claim. No exit code says that a claim holds.

    For example:

    dpoco audit tree-frank-wolfe --trials 2000

    dpoco audit --list
    """
    from dpoco import audit

    with errors_in_one_line():
        if list_names:
            names = audit.standard_names()
            if as_json:
                typer.echo(json.dumps({"schema": NAMES_SCHEMA, "names": names}, indent=2))
            else:
                typer.echo("\n".join(names))
            return
        if learner is None:
            raise ValueError("name a learner, or ask for --list")
        if figure is not None:
            _check_figure(figure)
        if seed < 0:
            raise ValueError(f"--seed must be at least 0; got {seed}")
        report = audit.audit_learner(
            learner,
            epsilon=epsilon,
            delta=delta,
            horizon=horizon,
            dimension=dimension,
            calibration=calibration,
            trials=trials,
            seed=seed,
        )
        if as_json:
            record = {"schema": SCHEMA, **report.to_dict()}
            typer.echo(json.dumps(record, allow_nan=False, indent=2))
        else:
            typer.echo(str(report))
        if figure is not None:
            from dpoco.plotting import plot_audit
            from dpoco.plotting._drawing import new_figure

            canvas = new_figure((6.5, 5.5))
            plot_audit(report, ax=canvas.subplots())
            canvas.savefig(figure)
            if not as_json:
                typer.echo(f"\nWritten: {figure}")
    raise typer.Exit(_EXIT_CODES[report.outcome])


def _check_figure(path: Path) -> None:
    """Find out before the runs, not after them, that the figure cannot be drawn."""
    if not path.parent.is_dir():
        raise ValueError(f"no such directory: {path.parent}")
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--figure must end in .png, .svg or .pdf; got {path.name}")
    from dpoco.plotting._drawing import new_figure

    new_figure((1.0, 1.0))
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as reason:
        raise ValueError(f"--figure cannot be written: {reason.strerror}") from None
    if not existed:
        path.unlink()
