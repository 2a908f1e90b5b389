"""``dpoco compare``: several learners at several budgets on one stream, at equal privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

import dpoco
from dpoco.accounting import Budget
from dpoco.cli._options import UNASKED
from dpoco.cli._problem import games_of
from dpoco.cli._render import print_comparison
from dpoco.cli._support import (
    Config,
    JsonFlag,
    Quiet,
    asked_of,
    documented_options,
    errors_in_one_line,
    notes,
    numbers,
    progress,
    write_report,
)
from dpoco.learners import learner_named

_FAMILIES = ("records", "batch", "experts", "arms")
# Options that a report does not tell: where it goes.
_NOT_TOLD = ("out", "figure", "config", "json", "quiet")
_RECORDS, _EXPERTS = "tree-frank-wolfe,noisy-ftrl,comw", "prefix-hedge,batch-share"


@documented_options
def compare_command(
    context: typer.Context,
    learners: str | None = None,
    epsilons: str = "0.5,1,2,4",
    delta: float | None = None,
    data: str | None = None,
    header: bool | None = None,
    stream_name: str | None = None,
    label: str | None = None,
    features: str | None = None,
    feature_range: list[str] | None = None,
    label_range: str | None = None,
    loss_range: str | None = None,
    loss: str = "logistic",
    p: float = 2.0,
    radius: float | None = None,
    horizon: int | None = None,
    repeats: int = 5,
    seed: int | None = None,
    baseline: bool = True,
    out: Path = Path("results"),
    figure: bool = True,
    config: Config = None,
    as_json: JsonFlag = False,
    quiet: Quiet = False,
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

    Parameters
    ----------
    learners : NAME,NAME,...
        All of records (batch baselines too), all of experts or all bandits, as for dpoco run.
        [default: tree-frank-wolfe,noisy-ftrl,comw; with pollsters or stocks
        prefix-hedge,batch-share]
    epsilons : E,E,...
        Privacy budgets of one run.
    delta
        Privacy budget of one run. [default: 1/(10 horizon)]
    data : FILE
        CSV, Parquet or NPZ file, one round a row, in order.
    header
        As for dpoco run.
    stream_name : --stream NAME
        Bundled stream; see dpoco datasets. [default: phishing]
    label : COLUMN
        As for dpoco run.
    features : A,B,...
        As for dpoco run.
    feature_range : [COLUMN=]LOW,HIGH
        As for dpoco run.
    label_range : LOW,HIGH
        As for dpoco run.
    loss_range : LOW,HIGH
        As for dpoco run.
    loss : NAME
        logistic, squared or huber.
    p
        Decisions lie in an l_p ball, the same for all learners.
    radius
        As for dpoco run.
    horizon
        Rounds the guarantees cover. [default: all]
    repeats
        Runs of each learner at each budget, with independent noise.
    seed
        Reproducible noise, which voids the guarantees. [default: the operating system's entropy]
    baseline
        Also without noise.
    out : DIR
        Where comparison.json and comparison.png go.
    figure
        Draw comparison.png (needs matplotlib).
    """
    asked = asked_of(context, _NOT_TOLD)
    with errors_in_one_line(), notes(quiet):
        if learners is None:
            learners = _EXPERTS if stream_name in ("pollsters", "stocks") else _RECORDS
        entries = [learner_named(name.strip(), _FAMILIES) for name in learners.split(",")]
        if len({entry.name for entry in entries}) < len(entries):
            raise ValueError("--learners names one of them twice")
        sizes = numbers("--epsilons", epsilons, positive=True)
        if len(set(sizes)) < len(sizes):
            raise ValueError("--epsilons names one of them twice")
        if out.exists() and not out.is_dir():
            raise ValueError("--out must be a directory")
        of_records = entries[0].plays in ("records", "batch")
        problem = {**UNASKED, **asked, "p": p if of_records or p != 2.0 else None}
        if data is None and stream_name is None and entries[0].plays != "experts":
            problem["stream"] = "phishing"
        games = games_of(entries, problem)
        first = games[0]
        covered, given = first.horizon if horizon is None else horizon, len(first.data[0])
        rows = slice(min(covered, given))
        best = first.comparators(rows, None).fixed
        comparator = {name: best[name] for name in ("total_loss", "average_loss")}
        if "reward_range" in first.loss:
            comparator["largest_reward"] = first.loss["reward_range"][1]
        budgets = [Budget._over(size, delta, covered) for size in sorted(sizes)]
        with progress(quiet or as_json) as (show, _):
            result = dpoco.evaluation.compare(
                {entry.name: game.build for entry, game in zip(entries, games, strict=True)},
                tuple(column[rows] for column in first.data),
                budgets=[*budgets, *([None] if baseline else [])],
                comparator={"name": best.get("name", "best fixed decision"), **comparator},
                repeats=repeats, seed=seed, progress=show,
                stream={**first.stream, "rounds": rows.stop, "beyond_horizon": given - rows.stop},
                settings={"horizon": covered, "command": asked},
            )  # fmt: skip
        files = write_report(result, out / "comparison.json", _draw if figure else None)
        if as_json:
            typer.echo(result.to_json())
        elif not quiet:
            print_comparison(result, files)


def _draw(result: Any) -> Any:
    axes = dpoco.plotting.plot_comparison(result, measure="average_loss")
    axes.set_title(
        f"{result.stream['name']}: {result.settings['horizon']:,} rounds, median and range "
        f"of {result.settings['repeats']} runs", loc="left", fontsize="medium",
    )  # fmt: skip
    return axes.figure.get_figure(root=True)
