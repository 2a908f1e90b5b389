"""Measure what learners do: comparators, repeated runs, and a report of them all.

Everything here looks at raw records and losses. The results are **not private**: they are for
experiments and for tuning on public data.
"""

from __future__ import annotations

from dpoco.evaluation._comparators import (
    ConstantPrediction,
    FixedDecision,
    best_constant_prediction,
    best_fixed_decision,
    suboptimality,
)
from dpoco.evaluation._report import SCHEMA, Curves, PlayedRuns, RunReport
from dpoco.evaluation._runs import compare_private, repeat_runs

__all__ = [
    "SCHEMA",
    "ConstantPrediction",
    "Curves",
    "FixedDecision",
    "PlayedRuns",
    "RunReport",
    "best_constant_prediction",
    "best_fixed_decision",
    "compare_private",
    "repeat_runs",
    "suboptimality",
]
