"""``dpoco compare``: several learners at several budgets on one stream, at equal privacy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import dpoco
from dpoco.accounting import Budget
from dpoco.cli._play import arms_problem, load_classes
from dpoco.cli._problem import (
    Input,
    Problem,
    build_problem,
    expert_problem,
    load_losses,
    load_stream,
)
from dpoco.cli._render import print_comparison
from dpoco.cli._support import Config, asked_of, errors_in_one_line, notes, numbers, progress
from dpoco.learners import Learner, learner_named

if TYPE_CHECKING:
    from dpoco.evaluation import Comparison


FAMILIES = ("records", "batch", "experts", "arms")
Builder = Callable[[Budget | None, Any], Any]


@dataclass(frozen=True)
class Contest:
    """The arguments of `dpoco.evaluation.compare` that hang on the learners."""

    build: dict[str, Builder]
    rows: tuple[Any, ...]
    comparator: dict[str, Any]
    stream: dict[str, Any]
    horizon: int


def contest_of(entries: list[Learner], asked: Mapping[str, Any]) -> Contest:
    """Load what the learners learn from; `asked` are the options of the command, by name."""
    families = {"records" if entry.plays == "batch" else entry.plays for entry in entries}
    if len(families) > 1:
        raise ValueError("learners of records, of experts and of arms have no stream in common")
    columns = asked["features"]
    if columns is not None:
        columns = [name.strip() for name in columns.split(",")]
    family = families.pop()
    if family != "experts" and asked["loss_range"] is not None:
        raise ValueError("--loss-range is for learners of experts")
    if family == "experts":
        return _of_experts(entries, asked, columns)
    return (_of_arms if family == "arms" else _of_records)(entries, asked, columns)


def _stream(asked: Mapping[str, Any]) -> Input:
    source = Input.of(asked)
    neither = source.path is None and source.name is None
    return replace(source, name="phishing") if neither else source


def _of_records(
    entries: list[Learner], asked: Mapping[str, Any], columns: list[str] | None
) -> Contest:
    stream = load_stream(
        _stream(asked), asked["label"], columns, asked["feature_range"] or [],
        asked["label_range"], True, asked["loss"],
    )  # fmt: skip
    made = {
        entry.name: build_problem(
            stream, entry, loss=asked["loss"], epsilon=1.0, delta=asked["delta"],
            horizon=asked["horizon"], p=float(asked["p"]), radius=asked["radius"],
            feature_bound=None, given={"calibration": "tight"},
        )
        for entry in entries
    }  # fmt: skip
    first = made[entries[0].name]
    left = max(0, len(stream) - first.horizon)
    stream = stream.take(first.horizon)
    rows = (stream.features, stream.labels)
    best = dpoco.evaluation.best_fixed_decision(first.domain, first.loss, *rows)
    return Contest(
        {entry.name: _of_problem(entry, made[entry.name], len(stream)) for entry in entries},
        rows,
        _compared("best fixed decision", best.total_loss, len(stream)),
        {**stream.summary(), "beyond_horizon": left},
        first.horizon,
    )


def _of_problem(entry: Learner, problem: Problem, records: int) -> Builder:
    covered = {"records": records} if entry.plays == "batch" else {"horizon": problem.horizon}
    return _cached(entry, (problem.domain, problem.loss), covered, problem.options)


def _of_experts(
    entries: list[Learner], asked: Mapping[str, Any], columns: list[str] | None
) -> Contest:
    losses, facts = load_losses(Input.of(asked), columns, asked["loss_range"])
    made = {
        entry.name: expert_problem(
            entry, len(losses), 1.0, asked["delta"], asked["horizon"], asked["loss_range"], {}
        )
        for entry in entries
    }
    first = made[entries[0].name]
    left = max(0, len(losses) - first["horizon"])
    losses = losses[: first["horizon"]]
    best = dpoco.evaluation.best_expert(losses, loss_range=first.get("loss_range", (0.0, 1.0)))
    rounds, experts = losses.shape
    return Contest(
        {entry.name: _of_options(entry, (experts,), made[entry.name]) for entry in entries},
        (losses,),
        _compared("best expert", best.total_loss, rounds),
        {**facts, "rounds": rounds, "dimension": experts, "beyond_horizon": left},
        first["horizon"],
    )


def _of_arms(
    entries: list[Learner], asked: Mapping[str, Any], columns: list[str] | None
) -> Contest:
    if asked["loss"] != "logistic" or float(asked["p"]) != 2.0:
        raise ValueError("bandits learn which class is right: no --loss, no --p")
    if asked["radius"] is not None and all(entry.name == "linucb" for entry in entries):
        raise ValueError("linucb has no --radius: its coefficients are not bounded")
    classes = load_classes(
        _stream(asked), asked["label"], columns, asked["feature_range"] or [],
        asked["label_range"], True,
    )  # fmt: skip
    made = {
        entry.name: arms_problem(
            entry, classes, epsilon=1.0, delta=asked["delta"], horizon=asked["horizon"],
            radius=None if entry.name == "linucb" else asked["radius"], feature_bound=None,
            given={},
        )
        for entry in entries
    }  # fmt: skip
    horizon = made[entries[0].name]["horizon"]
    stream = classes.stream.take(horizon)
    problem = dpoco.evaluation.BanditProblem(
        stream.features, classes.rewards[:horizon], (0.0, 1.0), "identity"
    )
    build = {}
    for entry in entries:
        options = {**made[entry.name], **problem.declared}
        domain = options.pop("domain", problem.dimension)
        build[entry.name] = _of_options(entry, (problem.arms, domain), options)
    fitted = problem.linear_policy()[1]
    return Contest(
        build,
        (problem.contexts, problem.table),
        {
            **_compared("least-squares linear policy", float(fitted.sum()), len(stream)),
            "largest_reward": 1.0,
        },
        {
            **classes.facts(),
            "rounds": len(stream),
            "beyond_horizon": len(classes.stream) - len(stream),
        },
        horizon,
    )


def _compared(name: str, total: float, rounds: int) -> dict[str, Any]:
    return {"name": name, "total_loss": total, "average_loss": total / rounds}


def _of_options(entry: Learner, problem: tuple[Any, ...], made: dict[str, Any]) -> Builder:
    options = {k: v for k, v in made.items() if k not in ("budget", "horizon")}
    return _cached(entry, problem, {"horizon": made["horizon"]}, options)


def _cached(
    entry: Learner, problem: tuple[Any, ...], covered: dict[str, int], options: dict[str, Any]
) -> Builder:
    """Return a builder that calibrates once for every budget."""
    cls = entry.load()
    known: dict[Any, Any] = {}
    kept = {k: v for k, v in options.items() if k not in cls._options}

    def build(budget: Budget | None, source: Any) -> Any:
        if budget not in known:
            learner = cls(*problem, **covered, budget=budget, source=source, **options)
            known[budget] = learner.parameters
            return learner
        return cls(
            *problem, **covered, budget=budget, source=source, parameters=known[budget], **kept
        )

    return build


# Options that a report does not tell: where it goes.
_NOT_TOLD = ("out", "figure", "config", "json", "quiet")
_RECORDS, _EXPERTS = "tree-frank-wolfe,noisy-ftrl,comw", "prefix-hedge,batch-share"


def compare_command(
    context: typer.Context,
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
    asked = asked_of(context, _NOT_TOLD)
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
    values = numbers("--epsilons", text)
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
