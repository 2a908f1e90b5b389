"""What ``dpoco compare`` compares: a stream, builders of learners, and what regret is against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import dpoco
from dpoco.accounting import Budget
from dpoco.cli._arms_problem import arms_problem, load_classes
from dpoco.cli._problem import (
    Input,
    Problem,
    build_problem,
    expert_problem,
    load_losses,
    load_stream,
)
from dpoco.learners import Learner

__all__ = ["FAMILIES", "Contest", "contest_of"]

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
    from dpoco.evaluation._private_bandit import BanditProblem

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
    problem = BanditProblem(stream.features, classes.rewards[:horizon], (0.0, 1.0), "identity")
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
