"""``dpoco compare``: several learners at several budgets on one stream, at equal privacy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

import dpoco
from dpoco.accounting import Budget
from dpoco.cli._config import Config
from dpoco.cli._contest import FAMILIES, contest_of
from dpoco.cli._render import print_comparison
from dpoco.cli._support import errors_in_one_line, notes, progress
from dpoco.learners import learner_named

if TYPE_CHECKING:
    from dpoco.evaluation import Comparison

__all__ = ["compare_command"]

_RECORDS, _EXPERTS = "tree-frank-wolfe,noisy-ftrl,comw", "prefix-hedge,batch-share"


def compare_command(
    learners: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="All of records (batch baselines too), all of experts or all bandits, as for "
            f"dpoco run. [default: {_RECORDS}; with pollsters or stocks {_EXPERTS}]",
        ),
    ] = None,
    epsilons: Annotated[
        str, typer.Option(metavar="E,E,...", help="Privacy budgets of one run.")
    ] = "0.5,1,2,4",
    delta: Annotated[
        float | None, typer.Option(help="Privacy budget of one run. [default: 1/(10 horizon)]")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="CSV, Parquet or NPZ file, one round a row, in order."),
    ] = None,
    header: Annotated[bool | None, typer.Option(help="As for dpoco run.")] = None,
    stream_name: Annotated[
        str | None,
        typer.Option(
            "--stream",
            metavar="NAME",
            help="Bundled stream; see dpoco datasets. [default: phishing]",
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="As for dpoco run.")] = None,
    features: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="As for dpoco run.")
    ] = None,
    feature_range: Annotated[
        list[str] | None, typer.Option(metavar="[COLUMN=]LOW,HIGH", help="As for dpoco run.")
    ] = None,
    label_range: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="As for dpoco run.")
    ] = None,
    loss_range: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="As for dpoco run.")
    ] = None,
    loss: Annotated[str, typer.Option(metavar="NAME", help="logistic, squared or huber.")] = (
        "logistic"
    ),
    p: Annotated[
        float, typer.Option("--p", help="Decisions lie in an l_p ball, the same for all learners.")
    ] = 2.0,
    radius: Annotated[float | None, typer.Option(help="As for dpoco run.")] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Rounds the guarantees cover. [default: all]")
    ] = None,
    repeats: Annotated[
        int, typer.Option(help="Runs of each learner at each budget, with independent noise.")
    ] = 5,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Reproducible noise, which voids the guarantees. [default: the operating system's "
            "entropy]"
        ),
    ] = None,
    baseline: Annotated[bool, typer.Option(help="Also without noise.")] = True,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where comparison.json and comparison.png go.")
    ] = Path("results"),
    figure: Annotated[bool, typer.Option(help="Draw comparison.png (needs matplotlib).")] = True,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as JSON, and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Compare learners on one stream, each at the same privacy: table, figure and JSON.

    Every learner is held to the same epsilon, delta, rounds and neighbouring relation. Medians over
    repeated runs, with their ranges. Batch baselines, which see all records beforehand, have rows
    of their own. For evaluation: computed from raw records.

    For example:

    dpoco compare --learners tree-frank-wolfe,noisy-ftrl --epsilons 1,4 --seed 1

    dpoco compare --stream pollsters --learners prefix-hedge,batch-share,oblivious-tracker

    dpoco compare --stream shuttle --learners linucb,high-dimensional-bandit

    dpoco compare --learners noisy-ftrl,noisy-sgd,phased-sgd
    """
    asked = {
        "learners": learners,
        "epsilons": epsilons,
        "delta": delta,
        "data": data,
        "header": header,
        "stream": stream_name,
        "label": label,
        "features": features,
        "feature_range": feature_range,
        "label_range": label_range,
        "loss_range": loss_range,
        "loss": loss,
        "p": "inf" if p == float("inf") else p,
        "radius": radius,
        "horizon": horizon,
        "repeats": repeats,
        "seed": seed,
        "baseline": baseline,
    }
    with errors_in_one_line(), notes(quiet):
        if learners is None:
            learners = _EXPERTS if stream_name in ("pollsters", "stocks") else _RECORDS
        entries = [learner_named(name.strip(), FAMILIES) for name in learners.split(",")]
        if len({entry.name for entry in entries}) < len(entries):
            raise ValueError("--learners names one of them twice")
        sizes = _positive(epsilons)
        if out.exists() and not out.is_dir():
            raise ValueError("--out must be a directory")
        contest = contest_of(entries, asked)
        covered = contest.horizon
        budgets: list[Budget | None] = [Budget._over(size, delta, covered) for size in sizes]
        if baseline:
            budgets.append(None)
        with progress(quiet or as_json) as (show, _):
            result = dpoco.evaluation.compare(
                contest.build, contest.rows, budgets=budgets, comparator=contest.comparator,
                repeats=repeats, seed=seed, stream=contest.stream,
                settings={"horizon": covered, "command": asked}, progress=show,
            )  # fmt: skip
        files = _write(result, out, figure)
        if as_json:
            typer.echo(result.to_json())
        elif not quiet:
            print_comparison(result, files)


def _positive(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--epsilons must be numbers separated by commas; got {text!r}") from None
    if not all(np.isfinite(value) and value > 0.0 for value in values):
        raise ValueError("--epsilons must be positive")
    if len(set(values)) < len(values):
        raise ValueError("--epsilons names one of them twice")
    return sorted(values)


def _write(result: Comparison, out: Path, figure: bool) -> list[str]:
    out.mkdir(parents=True, exist_ok=True)
    text = out / "comparison.json"
    text.write_text(result.to_json() + "\n", encoding="utf-8")
    files = [os.fspath(text)]
    if figure:
        image = out / "comparison.png"
        try:
            axes = dpoco.plotting.plot_comparison(result, measure="average_loss")
            axes.set_title(
                f"{result.stream['name']}: {result.settings['horizon']:,} rounds, median and range "
                f"of {result.settings['repeats']} runs", loc="left", fontsize="medium",
            )  # fmt: skip
            axes.figure.get_figure(root=True).savefig(image)
        except ImportError as error:
            typer.echo(f"note: no figure: {error}", err=True)
        else:
            files.append(os.fspath(image))
    return files
