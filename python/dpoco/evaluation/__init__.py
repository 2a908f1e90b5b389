"""Evaluation of learners: comparators in hindsight, repeated runs, and reports.

All functions here look at raw records and losses. The results are **not private**: use them for
experiments and for tuning on public data.
"""

from __future__ import annotations

from dpoco._divergences import kl_divergence, total_variation
from dpoco.evaluation._comparators import (
    BestSequence,
    ConstantPrediction,
    FixedDecision,
    FixedExpert,
    best_constant_prediction,
    best_expert,
    best_fixed_decision,
    best_switching_sequence,
    interval_regret,
    suboptimality,
)
from dpoco.evaluation._comparison import (
    COMPARATORS,
    COMPARISON_SCHEMA,
    Comparison,
    ComparisonRow,
    Regret,
    compare,
    compare_private,
    compare_private_bandit,
    compare_private_experts,
    compare_private_fit,
    compare_private_lipschitz,
    regret,
)
from dpoco.evaluation._offline import (
    LoggedBandit,
    OffPolicyEstimate,
    ReplayResult,
    load_logged_bandit,
    off_policy_value,
    replay_log,
)
from dpoco.evaluation._runs import (
    Learner,
    PrequentialResult,
    ProgressBar,
    SeedTree,
    Snapshot,
    play,
    prequential,
    repeat,
    repeat_runs,
)
from dpoco.evaluation._traces import SavedTrace, load, save
from dpoco.evaluation.games import class_rewards
from dpoco.evaluation.reports import FIT_SCHEMA, SCHEMA, Curves, FitReport, PlayedRuns, RunReport

__all__ = ["COMPARATORS", "COMPARISON_SCHEMA", "FIT_SCHEMA", "SCHEMA", "BestSequence",
           "Comparison", "ComparisonRow", "ConstantPrediction", "Curves", "FitReport",
           "FixedDecision", "FixedExpert", "Learner", "LoggedBandit", "OffPolicyEstimate",
           "PlayedRuns", "PrequentialResult", "ProgressBar", "Regret", "ReplayResult",
           "RunReport", "SavedTrace", "SeedTree", "Snapshot", "best_constant_prediction",
           "best_expert", "best_fixed_decision", "best_switching_sequence",
           "class_rewards", "compare", "compare_private", "compare_private_bandit",
           "compare_private_experts", "compare_private_fit",
           "compare_private_lipschitz", "interval_regret", "kl_divergence", "load",
           "load_logged_bandit", "off_policy_value", "play", "prequential", "regret",
           "repeat", "repeat_runs", "replay_log", "save", "suboptimality",
           "total_variation"]  # fmt: skip
