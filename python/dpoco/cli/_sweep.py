"""``dpoco sweep``: a learner over seeds and a grid of budgets, horizons and dimensions."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import dpoco
from dpoco._validation import positive_int
from dpoco.accounting import Budget
from dpoco.cli._support import errors_in_one_line, notes, progress
from dpoco.scale._sweep_runs import SWEPT, BuiltInRun

__all__ = ["sweep_command"]

_WIDTH = 100
_MEASURES = ("average_loss", "average_regret", "switches")


def sweep_command(
    learner: Annotated[str, typer.Argument(metavar="LEARNER", help=", ".join(SWEPT) + ".")],
    epsilon: Annotated[str, typer.Option(metavar="E,E,...", help="Privacy budgets.")] = "1",
    horizon: Annotated[str, typer.Option(metavar="T,T,...", help="Rounds.")] = "1000",
    dimension: Annotated[
        str, typer.Option(metavar="D,D,...", help="Coordinates, or experts.")
    ] = "10",
    delta: Annotated[
        float | None, typer.Option(help="Privacy budget. [default: 1/(10 horizon)]")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs per cell, each with its own noise and data.")] = (
        10
    ),
    root: Annotated[int, typer.Option(help="Root of the seed tree.")] = 0,
    output: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="JSON lines, one a run. Runs that the file has are not done again.",
        ),
    ] = Path("results.jsonl"),
    backend: Annotated[
        str, typer.Option(metavar="NAME", help="serial, threads, loky or ray.")
    ] = "serial",
    workers: Annotated[
        int | None, typer.Option(help="[default: the cores of this machine; serial: 1]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Play a learner in simulated worlds, over seeds and all combinations of the given values.

    Linear regression on the unit ball against its true parameter, or experts of which one is better
    against the best. An interrupted sweep goes on when the command is given again, also with more
    values. The noise is seeded, for research: every guarantee is void.

    For example:

    dpoco sweep noisy-ftrl --epsilon 1,4 --horizon 1000,10000 --seeds 5
    """
    with errors_in_one_line(output), notes(quiet):
        run = BuiltInRun(learner)
        grid = {
            "epsilon": _listed("--epsilon", epsilon, _epsilon),
            "delta": [delta],
            "horizon": _listed("--horizon", horizon, _whole),
            "dimension": _listed("--dimension", dimension, _whole),
        }
        if delta is not None:
            Budget(1.0, delta)
        with progress(as_json or quiet) as (show, _):
            found = dpoco.scale.sweep(
                run,
                grid,
                seeds=positive_int("--seeds", seeds, maximum=10**6),
                root=root,
                output=output,
                backend=backend,
                workers=workers,
                progress=None if show is None else lambda done, total: show("runs", done, total),
            )
        cells = _summary(found)
        if as_json:
            record = {
                "schema": "dpoco.sweep/1",
                "learner": learner,
                "noise": "seeded: guarantee void",
                "output": str(output),
                "runs": len(found),
                "failed": len(found.failed),
                "cells": cells,
            }
            typer.echo(json.dumps(record, allow_nan=False, indent=2))
        elif not quiet:
            _print(learner, cells, found, output)
        if found.failed:
            first = found.failed[0]["error"]
            raise ValueError(
                f"{len(found.failed)} of {len(found)} runs failed, the first with "
                f"{first['type'].removeprefix('builtins.')}: {first['message']}"
            )


def _listed(name: str, text: str, read: Callable[[str], Any]) -> list[Any]:
    try:
        return [read(part) for part in text.split(",")]
    except ValueError:
        kind = "whole numbers from 1 on" if read is _whole else "positive numbers"
        raise ValueError(f"{name} must be {kind} separated by commas; got {text!r}") from None


def _epsilon(text: str) -> float:
    value = float(text)
    if not (value > 0.0 and math.isfinite(value)):
        raise ValueError
    return value


def _whole(text: str) -> int:
    return positive_int("value", int(text), maximum=10**9)


def _summary(found: dpoco.scale.SweepResults) -> list[dict[str, Any]]:
    """Return one entry for each combination of values: median and range over its seeds."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in found:
        groups.setdefault(json.dumps(record["values"], sort_keys=True), []).append(record)
    cells = []
    for records in groups.values():
        results = [record["result"] for record in records if "result" in record]
        entry: dict[str, Any] = {**records[0]["values"], "runs": len(results)}
        for name in _MEASURES if results else ():
            numbers = [result[name] for result in results]
            entry[name] = {
                "median": statistics.median(numbers),
                "min": min(numbers),
                "max": max(numbers),
            }
        cells.append(entry)
    return cells


def _print(
    learner: str,
    cells: list[dict[str, Any]],
    found: dpoco.scale.SweepResults,
    output: Path,
) -> None:
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width to respect
        console = Console(width=_WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    titles = ("horizon", "dimension", "epsilon", "runs", "average loss", "regret a round", "range")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for cell in sorted(cells, key=lambda c: (c["horizon"], c["dimension"], c["epsilon"])):
        row = [f"{cell['horizon']:,}", str(cell["dimension"]), f"{cell['epsilon']:g}"]
        row.append(str(cell["runs"]))
        if cell["runs"]:
            regret = cell["average_regret"]
            row += [
                f"{cell['average_loss']['median']:.4f}",
                f"{regret['median']:.4f}",
                f"{regret['min']:.4f}-{regret['max']:.4f}",
            ]
        table.add_row(*row)
    console.print(f"{learner}: medians over seeds", markup=False, highlight=False)
    console.print(table)
    text = f"Seeded noise, for research: the guarantee is void. {len(found)} runs in {output}"
    console.print(text, markup=False, highlight=False, soft_wrap=True)
