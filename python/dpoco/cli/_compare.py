"""``dpoco compare``: several learners at several budgets on one stream, at equal privacy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import dpoco
from dpoco.accounting import Budget
from dpoco.cli._catalogue import Entry, entry_of
from dpoco.cli._config import Config
from dpoco.cli._problem import build_problem, expert_problem, load_losses, load_stream
from dpoco.cli._render import print_comparison
from dpoco.cli._support import errors_in_one_line, notes, progress
from dpoco.evaluation import Comparison

__all__ = ["compare_command"]

_RECORDS, _EXPERTS = "tree-frank-wolfe,noisy-ftrl,comw", "prefix-hedge,batch-share"


def compare_command(
    learners: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="All of records or all of experts, as for dpoco run. "
            f"[default: {_RECORDS}; with pollsters or stocks {_EXPERTS}]",
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
    repeated runs, with their ranges. For evaluation: computed from raw records.

    For example:

    dpoco compare --learners tree-frank-wolfe,noisy-ftrl --epsilons 1,4 --seed 1

    dpoco compare --stream pollsters --learners prefix-hedge,batch-share,oblivious-tracker
    """
    asked = {
        "learners": learners,
        "epsilons": epsilons,
        "delta": delta,
        "data": data,
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
    columns = None if features is None else [name.strip() for name in features.split(",")]
    with errors_in_one_line(), notes(quiet):
        if learners is None:
            learners = _EXPERTS if stream_name in ("pollsters", "stocks") else _RECORDS
        entries = [entry_of(name.strip(), ("records", "experts")) for name in learners.split(",")]
        if len({entry.family for entry in entries}) > 1:
            raise ValueError("learners of records and of experts have no stream in common")
        if len({entry.name for entry in entries}) < len(entries):
            raise ValueError("--learners names one of them twice")
        sizes = _positive(epsilons)
        if out.exists() and not out.is_dir():
            raise ValueError("--out must be a directory")
        made: dict[str, Any] = {}
        if entries[0].family == "experts":
            losses, facts = load_losses(data, stream_name, columns, loss_range)
            for entry in entries:
                made[entry.name] = expert_problem(
                    entry, len(losses), 1.0, delta, horizon, loss_range, {}
                )
            first = made[entries[0].name]
            rows: tuple[Any, ...] = (losses[: first["horizon"]],)
            low, high = first.get("loss_range", (0.0, 1.0))
            best = dpoco.evaluation.best_expert(rows[0], loss_range=(low, high))
            total = best.total_loss
            compared: dict[str, Any] = {"name": "best expert", "total_loss": total}
            stream_facts = {**facts, "rounds": len(rows[0]), "dimension": rows[0].shape[1]}
            build = {
                name: _expert_builder(entry_of(name), rows[0].shape[1], problem)
                for name, problem in made.items()
            }
        else:
            name = stream_name if data is not None or stream_name is not None else "phishing"
            stream = load_stream(
                data, name, label, columns, feature_range or [], label_range, True, loss
            )
            for entry in entries:
                made[entry.name] = build_problem(
                    stream, entry, loss=loss, epsilon=1.0, delta=delta, horizon=horizon, p=p,
                    radius=radius, feature_bound=None, given={"calibration": "tight"},
                )  # fmt: skip
            problem = made[entries[0].name]
            stream = stream.take(problem.horizon)
            rows = (stream.features, stream.labels)
            fixed = dpoco.evaluation.best_fixed_decision(problem.domain, problem.loss, *rows)
            total = fixed.total_loss
            compared = {"name": "best fixed decision", "total_loss": total}
            stream_facts = stream.summary()
            first = {"horizon": problem.horizon}
            build = {name: _builder(entry_of(name), each) for name, each in made.items()}
        compared["average_loss"] = total / len(rows[0])
        covered = first["horizon"]
        budgets: list[Budget | None] = [
            Budget(size, 1.0 / (10.0 * covered) if delta is None else delta) for size in sizes
        ]
        if baseline:
            budgets.append(None)
        with progress(quiet or as_json) as (show, _):
            result = dpoco.evaluation.compare(
                build, rows, budgets=budgets, comparator=compared, repeats=repeats, seed=seed,
                stream=stream_facts, settings={"horizon": covered, "command": asked},
                progress=show,
            )  # fmt: skip
        files = _write(result, out, figure)
        if as_json:
            typer.echo(result.to_json())
        elif not quiet:
            print_comparison(result, files)


def _builder(entry: Entry, problem: Any) -> Any:
    return _cached(entry, (problem.domain, problem.loss), problem.horizon, problem.options)


def _expert_builder(entry: Entry, experts: int, problem: dict[str, Any]) -> Any:
    options = {k: v for k, v in problem.items() if k not in ("budget", "horizon")}
    return _cached(entry, (experts,), problem["horizon"], options)


def _cached(entry: Entry, problem: tuple[Any, ...], horizon: int, options: dict[str, Any]) -> Any:
    """Return a builder that calibrates once for every budget."""
    cls = entry.load()
    known: dict[Any, Any] = {}
    kept = {k: v for k, v in options.items() if k not in cls._options}

    def build(budget: Budget | None, source: Any) -> Any:
        if budget not in known:
            learner = cls(*problem, horizon=horizon, budget=budget, source=source, **options)
            known[budget] = learner.parameters
            return learner
        return cls(
            *problem,
            horizon=horizon,
            budget=budget,
            source=source,
            parameters=known[budget],
            **kept,
        )

    return build


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
        from dpoco.cli._compare_figure import draw_comparison

        image = out / "comparison.png"
        try:
            draw_comparison(result).savefig(image)
        except ImportError as error:
            typer.echo(f"note: no figure: {error}", err=True)
        else:
            files.append(os.fspath(image))
    return files
