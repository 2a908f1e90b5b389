"""From the options of ``dpoco run`` and ``compare`` to a contextual bandit: classes as arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpoco
from dpoco._validation import positive_int
from dpoco.accounting import Budget
from dpoco.cli._problem import Input, accepted, load_stream, parse_range
from dpoco.datasets import Stream
from dpoco.domains import LpBall
from dpoco.learners import Learner

__all__ = ["Classes", "arms_problem", "load_classes"]

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
