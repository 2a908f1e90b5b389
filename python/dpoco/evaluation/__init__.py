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
from dpoco.evaluation._logged_bandit import LoggedBandit, load_logged_bandit
from dpoco.evaluation._offline import (
    OffPolicyEstimate,
    ReplayResult,
    off_policy_value,
    replay_log,
)
from dpoco.evaluation._report import SCHEMA, Curves, PlayedRuns, RunReport
from dpoco.evaluation._runs import compare_private, repeat_runs
from dpoco.evaluation._sequences import (
    BestSequence,
    FixedExpert,
    best_expert,
    best_switching_sequence,
    interval_regret,
)
from dpoco.local._divergences import kl_divergence, total_variation

__all__ = [
    "SCHEMA",
    "BestSequence",
    "ConstantPrediction",
    "Curves",
    "FixedDecision",
    "FixedExpert",
    "LoggedBandit",
    "OffPolicyEstimate",
    "PlayedRuns",
    "ReplayResult",
    "RunReport",
    "best_constant_prediction",
    "best_expert",
    "best_fixed_decision",
    "best_switching_sequence",
    "compare_private",
    "interval_regret",
    "kl_divergence",
    "load_logged_bandit",
    "off_policy_value",
    "repeat_runs",
    "replay_log",
    "suboptimality",
    "total_variation",
]
