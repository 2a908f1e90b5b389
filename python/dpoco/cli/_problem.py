"""From the options of ``dpoco run`` to a stream, a domain, a loss and a learner's settings.

Every default is a function of public quantities alone: the number of rounds, of columns, the loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import datasets
from dpoco._validation import choice, named, positive_float, positive_int
from dpoco.accounting import Budget
from dpoco.datasets import PublicScaling, Stream
from dpoco.domains import LpBall
from dpoco.learners import Learner
from dpoco.losses import HuberLoss, LogisticLoss, SquaredLoss

LOSSES = ("huber", "logistic", "squared")
# Euclidean length of the largest decision. Logistic: a confident answer needs margins of several
# units; chosen after runs on the shuttle stream with 2 to 16, where 6 to 12 are equally good.
# Regression: labels are scaled to [-1, 1].
_DECISION_LENGTH = {"logistic": 8.0, "squared": 1.0, "huber": 1.0}
# A thousand updates are plenty for the steps 1/(k + 1); fewer updates mean fewer noisy ones.
_UPDATES = 1000


@dataclass(frozen=True)
class Problem:
    """Everything `dpoco.evaluation.compare_private` needs."""

    domain: LpBall
    loss: SquaredLoss | LogisticLoss | HuberLoss
    budget: Budget
    horizon: int
    options: dict[str, Any]


@dataclass(frozen=True)
class Input:
    """Where rounds come from: a file, a bundled stream by name, or neither."""

    path: str | None
    name: str | None
    header: bool | None

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Input:
        """Return what the options say; they must not say both, nor describe a file that is none."""
        if asked["data"] is not None and asked["stream"] is not None:
            raise ValueError("--data and --stream exclude each other")
        described = ("features", "feature_range", "label_range", "loss_range", "header")
        if asked["data"] is None and (
            any(asked[name] not in (None, []) for name in described)
            or not asked.get("intercept", True)
        ):
            raise ValueError("options that describe a file need --data FILE")
        return cls(asked["data"], asked["stream"], asked["header"])


def parse_range(name: str, text: str) -> tuple[float, float]:
    """Return LOW and HIGH of the text "LOW,HIGH"."""
    parts = text.split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"{name} must be LOW,HIGH, two numbers; got {text!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"{name} must have LOW < HIGH, both finite; got {text!r}")
    return low, high


def load_stream(
    source: Input,
    label: str | None,
    columns: Sequence[str] | None,
    feature_ranges: Sequence[str],
    label_range: str | None,
    intercept: bool,
    loss: str,
) -> Stream:
    """Load the file, or a bundled stream by name, scaled by the declared public ranges.

    Without either, the shuttle stream; on a Python whose river does not have it yet, the shorter
    phishing stream.
    """
    choice("loss", loss, LOSSES)
    if source.path is None:
        if label is not None:
            raise ValueError("options that describe a file need --data FILE")
        if source.name is not None:
            return datasets.load(named("stream", source.name, datasets.available()))
        try:
            return datasets.load_shuttle()
        except ImportError:
            return datasets.load_phishing()
    if label is None:
        raise ValueError("--data needs --label COLUMN")
    stream = datasets.load_file(
        source.path,
        label=label,
        features=columns or None,
        header=source.header,
        label_scaling=None
        if label_range is None
        else PublicScaling(*parse_range("--label-range", label_range), intercept=False),
        task="classification" if loss == "logistic" else "regression",
    )
    if label_range is not None and loss == "logistic":  # [-1, 1] to [0, 1]
        stream = replace(stream, labels=(stream.labels + 1.0) / 2.0)
    low, high = _column_ranges(feature_ranges, stream.feature_names)
    return stream.scaled(PublicScaling(low, high, intercept=intercept))


def _column_ranges(
    texts: Sequence[str], names: Sequence[str]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """One range for every column: the general one, or its own."""
    general, own = (-1.0, 1.0), {}
    for text in texts:
        column, mark, rest = text.rpartition("=")
        interval = parse_range("--feature-range", rest)
        if not mark:
            general = interval
        elif column in names:
            own[column] = interval
        else:
            raise ValueError(f"--feature-range names {column!r}, which is no feature column")
    ranges = [own.get(name, general) for name in names]
    low, high = zip(*ranges, strict=True)
    return low, high


def load_losses(
    source: Input, columns: Sequence[str] | None, loss_range: str | None
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return losses of experts, shape (T, N), and public facts about them."""
    if source.path is None:
        return bundled_losses(source.name or "pollsters")
    path = Path(source.path)
    losses, names = _columns(path, columns, source.header)
    facts = {
        "name": path.name,
        "description": f"Losses of experts in {path.name}",
        "scaling": f"declared range {loss_range or '0,1'}, clipped",
        "feature_names": list(names),
    }
    return losses, facts


def _columns(
    path: Path, columns: Sequence[str] | None, header: bool | None
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return columns of a table file; all of them if none are named."""
    wanted = list(columns or datasets.column_names(path, header=header))
    if len(wanted) < 2:
        raise ValueError("losses must be at least two columns, one an expert")
    return datasets.read_columns(path, wanted, header=header), tuple(wanted)


def bundled_losses(name: str) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return a bundled table of experts' losses."""
    loaders = {
        "pollsters": (datasets.pollster_losses, datasets.POLLSTERS, "Errors of pollsters"),
        "stocks": (datasets.stock_losses, datasets.STOCKS, "Days of ten stocks"),
    }
    load, names, about = loaders[named("stream of experts", name, tuple(loaders))]
    return load(), {
        "name": name,
        "description": about,
        "scaling": "public constants, to [0, 1]",
        "feature_names": list(names),
    }


def expert_problem(
    entry: Learner,
    rounds: int,
    epsilon: float,
    delta: float | None,
    horizon: int | None,
    loss_range: str | None,
    given: dict[str, Any],
) -> dict[str, Any]:
    """Return the arguments of a learner of experts but for the losses."""
    covered = positive_int("horizon", rounds if horizon is None else horizon)
    options = accepted(entry, given)
    if loss_range is not None:
        options["loss_range"] = parse_range("--loss-range", loss_range)
    return {
        "budget": Budget._over(epsilon, delta, covered),
        "horizon": covered,
        **options,
    }


# What an option has when nobody gave it: learners without it are then not told.
_NOT_GIVEN = {
    "noise": None, "sum_method": None, "step_scale": 1.0, "batch": None, "switches": None,
    "exploration": None,
}  # fmt: skip


def accepted(entry: Learner, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, or raise for one that the learner does not have."""
    known = entry.load()._options
    options = {}
    for name, value in given.items():
        if name in known and (name not in _NOT_GIVEN or value != _NOT_GIVEN[name]):
            options[name] = value
        elif name not in known and value != _NOT_GIVEN.get(name, value):
            raise ValueError(f"{entry.name} has no --{name.replace('_', '-')}")
    return options


def build_problem(
    stream: Stream,
    entry: Learner,
    *,
    loss: str,
    epsilon: float,
    delta: float | None,
    horizon: int | None,
    p: float | None,
    radius: float | None,
    feature_bound: float | None,
    given: dict[str, Any],
) -> Problem:
    """Fill in the defaults and build the problem; `given` are options of the learner."""
    choice("loss", loss, LOSSES)
    d = stream.dimension
    rounds = positive_int("horizon", stream.rounds if horizon is None else horizon)
    if p is None:
        p = 1.0 if entry.name == "polyhedral-frank-wolfe" else 2.0
    unit = LpBall(d, p, 1.0)
    if radius is None:
        radius = _DECISION_LENGTH[loss] / unit.max_norm(2.0)
    domain = LpBall(d, p, radius)
    # Root mean square length of a record spread evenly over the cube [-1, 1]^d.
    length = math.sqrt(d / 3.0) if feature_bound is None else feature_bound
    bounds: dict[str, Any] = {
        "feature_bound": _dual_bound(positive_float("feature_bound", length), domain)
    }
    if domain.dual_exponent != 2.0:
        bounds["feature_bound_l2"] = length
    options = accepted(entry, given)
    if entry.name == "tree-frank-wolfe":
        batch = 1 if options["calibration"] == "paper" else max(1, rounds // _UPDATES)
        options = {"noise": None, "sum_method": None, "step_scale": 1.0, "batch": batch, **options}
    if entry.name == "noisy-ftrl":  # for what is to be expected, not for the worst case
        options = {"step_size": "predicted", **options}
    kinds = {"logistic": LogisticLoss, "squared": SquaredLoss, "huber": HuberLoss}
    return Problem(
        domain=domain,
        loss=kinds[loss](**bounds),
        budget=Budget._over(epsilon, delta, rounds),
        horizon=rounds,
        options=options,
    )


def _dual_bound(length: float, domain: LpBall) -> float:
    """Largest ``||x||_q`` over records of the cube [-1, 1]^d with ``||x||_2 <= length``.

    For q >= 2, ``sum |x|^q <= sum x^2``; for q < 2, Hoelder's inequality. Declaring it clips
    nothing further.
    """
    q, d = domain.dual_exponent, domain.dimension
    longest = min(length, math.sqrt(d))
    if math.isinf(q):
        return min(1.0, longest)
    if q >= 2.0:
        return min(longest, math.pow(longest, 2.0 / q))
    return longest * math.pow(d, 1.0 / q - 0.5)
