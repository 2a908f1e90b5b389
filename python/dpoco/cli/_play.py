"""Which game a command plays: by what the learner learns from.

Classes are the arms of bandits. For Lipschitz losses a decision is a number that should be near the
column's next value, or a point near the next values of two columns; the losses are those that
quantiles and geometric medians minimise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import dpoco
from dpoco import datasets
from dpoco._validation import FloatArray, named, positive_int
from dpoco.accounting import Budget
from dpoco.cli._problem import (
    Input,
    accepted,
    build_problem,
    bundled_losses,
    expert_problem,
    load_losses,
    load_stream,
    parse_range,
)
from dpoco.datasets import Stream
from dpoco.domains import Box, LpBall
from dpoco.learners import Learner
from dpoco.trace import Flags

if TYPE_CHECKING:
    from dpoco.evaluation import FitReport, RunReport


@dataclass(frozen=True)
class Targets:
    """Values that decisions should be near, shape (T, 1) or (T, 2), in a public range."""

    values: FloatArray
    low: float
    high: float
    facts: dict[str, Any]
    nonprivate_flags: Flags


@dataclass(frozen=True)
class _Pinball:
    """q (y - x) where x is too small, (1 - q) (x - y) where it is too large."""

    target: float
    quantile: float

    def __call__(self, points: FloatArray) -> FloatArray:
        short = self.target - points[:, 0]
        loss: FloatArray = np.where(short > 0.0, self.quantile, self.quantile - 1.0) * short + 0.0
        return loss


@dataclass(frozen=True)
class _Distance:
    """Euclidean distance."""

    target: FloatArray

    def __call__(self, points: FloatArray) -> FloatArray:
        distance: FloatArray = np.sqrt(np.sum((points - self.target) ** 2, axis=1))
        return distance


def load_targets(source: Input, label: str | None, label_range: str | None) -> Targets:
    """Return one column, or two, of a file or of a bundled table of losses."""
    wanted = None if label is None else [part.strip() for part in label.split(",")]
    if source.path is None:
        table, facts = bundled_losses(source.name or "pollsters")
        names = list(facts["feature_names"])
        wanted = wanted or names[:1]
        values = table[:, [names.index(named("column", each, names)) for each in wanted]]
        low, high = 0.0, 1.0
    else:
        if label is None or wanted is None or label_range is None:
            raise ValueError("--data needs --label COLUMN and --label-range LOW,HIGH")
        low, high = parse_range("--label-range", label_range)
        values = datasets.read_columns(source.path, wanted, header=source.header)
        file = Path(source.path).name
        facts = {
            "name": file,
            "description": f"Values of {file}",
            "scaling": f"declared range {label_range}, clipped",
        }
    if len(wanted) > 2 or len(set(wanted)) < len(wanted):
        raise ValueError("--label must name one column, or two different ones")
    flags = {"missing": ~np.isfinite(values), "out_of_range": (values < low) | (values > high)}
    facts["feature_names"] = wanted
    return Targets(np.clip(values, low, high), low, high, facts, flags)


def surface_problem(
    entry: Learner,
    targets: Targets,
    *,
    epsilon: float,
    delta: float | None,
    horizon: int | None,
    quantile: float | None,
    given: dict[str, Any],
) -> dict[str, Any]:
    """Return the arguments of `compare_private_lipschitz`."""
    rounds, d = targets.values.shape
    covered = positive_int("horizon", rounds if horizon is None else horizon)
    if d == 2:
        if quantile is not None:
            raise ValueError("--quantile is of one column; of two, the geometric median is learned")
        losses: list[Any] = [_Distance(row) for row in targets.values]
        slope, what = 1.0, "distance"
    else:
        q = 0.5 if quantile is None else quantile
        if not 0.0 < q < 1.0:
            raise ValueError("--quantile must be between 0 and 1")
        losses = [_Pinball(float(value), q) for value in targets.values[:, 0]]
        slope, what = max(q, 1.0 - q), f"pinball loss of the quantile {q:g}"
    return {
        "losses": losses,
        "domain": Box([targets.low] * d, [targets.high] * d),
        "lipschitz": slope,
        "budget": Budget._over(epsilon, delta, covered),
        "horizon": covered,
        "stream": {**targets.facts, "loss": what},
        "nonprivate_flags": targets.nonprivate_flags,
        **accepted(entry, given),
    }


# Factor on the proven widths of confidence intervals: with 0.1 LinUCB earned more in all worlds of
# docs/bandits.md and on both bundled streams.
_EXPLORATION = 0.1
_MOST_CLASSES = 4096  # rewards are a table of rounds x classes


@dataclass(frozen=True)
class Classes:
    """A stream whose labels are classes, which are the arms; `rewards` have shape (T, K)."""

    stream: Stream
    rewards: NDArray[np.float64]

    def facts(self) -> dict[str, Any]:
        """Public facts for the report."""
        return {
            **self.stream.summary(),
            "arms": self.rewards.shape[1],
            "rewards": "1 for the arm of the label's class, 0 for the others; 1/2 if it is missing",
        }


def load_classes(
    source: Input,
    label: str | None,
    columns: Sequence[str] | None,
    feature_ranges: Sequence[str],
    label_range: str | None,
    intercept: bool,
) -> Classes:
    """Load a stream as `load_stream` does; its labels are whole numbers in the label range."""
    low, high = (0.0, 1.0) if label_range is None else parse_range("--label-range", label_range)
    if not (low.is_integer() and high.is_integer()):
        raise ValueError("--label-range must be whole numbers: the first class and the last")
    if high - low >= _MOST_CLASSES:
        raise ValueError(f"--label-range names more than {_MOST_CLASSES} classes")
    stream = load_stream(
        source, label, columns, feature_ranges, None, intercept, "squared"
    )  # labels as they are
    rewards = dpoco.evaluation.class_rewards(stream.labels, int(high - low) + 1, first=int(low))
    if not np.any(rewards == 1.0):
        raise ValueError(
            f"no label of {stream.name} is a class in {low:g}..{high:g}: name the first class and "
            "the last with --label-range"
        )
    unknown = np.isfinite(stream.labels) & ~np.any(rewards == 1.0, axis=1)
    flags = {**stream.nonprivate_flags, "unknown_label": unknown}
    return Classes(replace(stream, task="classification", nonprivate_flags=flags), rewards)


def arms_problem(
    entry: Learner,
    classes: Classes,
    *,
    epsilon: float,
    delta: float | None,
    horizon: int | None,
    radius: float | None,
    feature_bound: float | None,
    given: dict[str, Any],
) -> dict[str, Any]:
    """Return the arguments of a bandit but for contexts and rewards: rewards are in [0, 1]."""
    d = classes.stream.dimension
    covered = positive_int("horizon", classes.stream.rounds if horizon is None else horizon)
    options = accepted(entry, given)
    problem: dict[str, Any] = {
        "budget": Budget._over(epsilon, delta, covered),
        "horizon": covered,
    }
    if entry.name == "linucb":
        if radius is not None:
            raise ValueError("linucb has no --radius: its coefficients are not bounded")
        # Root mean square length of a record spread evenly over the cube, as for other learners.
        bound = math.sqrt(d / 3.0)
        options = {"exploration": _EXPLORATION, **options}
    else:
        bound = 1.0  # of every entry
        problem["domain"] = LpBall(d, 1.0, 1.0 if radius is None else radius)
    options["context_bound"] = bound if feature_bound is None else feature_bound
    return {**problem, **options}


FAMILIES = ("records", "experts", "arms", "surface", "batch")

# Options that only some learners have a use for.
_ONLY = {
    "loss_range": ("experts", "learners of experts"),
    "switches": ("experts", "learners of experts"),
    "exploration": ("arms", "linucb"),
    "quantile": ("surface", "lipschitz"),
}
# What learners from something else than labelled records have no use for, and the reason.
_NOT_FOR = {
    "experts": (("label", "feature_range", "label_range", "p"), "takes losses"),
    "arms": (("p",), "learns which class is right"),
    "surface": (
        ("features", "feature_range", "p", "radius", "feature_bound"),
        "learns a number or a point near --label",
    ),
}


def play(entry: Learner, asked: dict[str, Any], common: dict[str, Any]) -> RunReport | FitReport:
    """Load what the learner learns from, and play.

    Parameters
    ----------
    entry : Learner
        The learner.
    asked : dict
        The options of the command, by name.
    common : dict
        ``repeats``, ``seed``, ``progress``, ``snapshot``, ``checkpoint``, ``resume`` and
        ``skip_played``.
    """
    _refuse(entry, asked)
    sums = asked["sum_method"]
    given = {
        "calibration": asked["calibration"],
        "noise": asked["noise"],
        "sum_method": None if sums == "auto" else sums,
        "step_scale": asked["step_scale"],
        "batch": asked["batch"],
    }
    limits: dict[str, Any] = {name: asked[name] for name in ("epsilon", "delta", "horizon")}
    if limits["horizon"] is None and common["resume"] is not None:
        limits["horizon"] = common["resume"].horizon
    columns = asked["features"]
    if columns is not None:
        columns = [name.strip() for name in columns.split(",")]
    source = Input.of(asked)
    if entry.plays == "experts":
        losses, facts = load_losses(source, columns, asked["loss_range"])
        return dpoco.evaluation.compare_private_experts(
            losses,
            entry.load(),
            stream=facts,
            **expert_problem(
                entry, len(losses), loss_range=asked["loss_range"], **limits,
                given={**given, "switches": asked["switches"]},
            ),
            **common,
        )  # fmt: skip
    if entry.plays == "surface":
        targets = load_targets(source, asked["label"], asked["label_range"])
        problem = surface_problem(entry, targets, **limits, quantile=asked["quantile"], given=given)
        return dpoco.evaluation.compare_private_lipschitz(**problem, **common)
    scales: tuple[Any, Any, Any] = (
        asked["feature_range"] or [],
        asked["label_range"],
        asked["intercept"],
    )
    if entry.plays == "arms":
        classes = load_classes(source, asked["label"], columns, *scales)
        problem = arms_problem(
            entry, classes, **limits, radius=asked["radius"],
            feature_bound=asked["feature_bound"],
            given={**given, "exploration": asked["exploration"]},
        )  # fmt: skip
        return dpoco.evaluation.compare_private_bandit(
            classes.stream.features, classes.rewards, entry.load(), stream=classes.facts(),
            nonprivate_flags=classes.stream.nonprivate_flags,
            **problem, **common,
        )  # fmt: skip
    stream = load_stream(source, asked["label"], columns, *scales, asked["loss"])
    p = asked["p"]
    made = build_problem(
        stream, entry, loss=asked["loss"], **limits, p=None if p is None else float(p),
        radius=asked["radius"], feature_bound=asked["feature_bound"], given=given,
    )  # fmt: skip
    if entry.plays == "batch":
        kept = {name: common[name] for name in ("repeats", "seed", "progress")}
        return dpoco.evaluation.compare_private_fit(
            stream, made.domain, made.loss, entry.load(), budget=made.budget,
            records=made.horizon, **kept, **made.options,
        )  # fmt: skip
    return dpoco.evaluation.compare_private(
        stream,
        made.domain,
        made.loss,
        learner=entry.load(),
        budget=made.budget,
        horizon=made.horizon,
        **common,
        **made.options,
    )


def _refuse(entry: Learner, asked: dict[str, Any]) -> None:
    """Raise for an option that the learner has no use for."""
    for name, (family, whose) in _ONLY.items():
        if asked[name] is not None and entry.plays != family:
            raise ValueError(f"--{name.replace('_', '-')} is for {whose}")
    names, reason = _NOT_FOR.get(entry.plays, ((), ""))
    for name in names:
        if asked[name] not in (None, []):
            raise ValueError(f"{entry.name} {reason}: no --{name.replace('_', '-')}")
    if entry.plays in ("experts", "surface") and not asked["intercept"]:
        raise ValueError(f"{entry.name} {reason}: no --no-intercept")
    if entry.plays in ("arms", "surface") and asked["loss"] != "logistic":
        raise ValueError(f"{entry.name} {reason}: no --loss")
