"""From the options of ``dpoco run`` to Lipschitz losses: running quantiles, running centres.

A decision is a number that should be near the column's next value, or a point near the next values
of two columns. The losses are those that quantiles and geometric medians minimise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import named, positive_int
from dpoco.accounting import Budget
from dpoco.cli._problem import Input, accepted, bundled_losses, parse_range
from dpoco.datasets._files import read_columns
from dpoco.domains import Box
from dpoco.learners import Learner
from dpoco.trace import Flags

__all__ = ["Targets", "load_targets", "surface_problem"]

FloatArray = NDArray[np.float64]


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
        values = read_columns(source.path, wanted, header=source.header)
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
