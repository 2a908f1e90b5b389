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
from dpoco.evaluation._comparison import COMPARISON_SCHEMA, Comparison, ComparisonRow, compare
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
)
from dpoco.evaluation._traces import SavedTrace, load, save
from dpoco.evaluation.games import Comparators, Game, game_of_records
from dpoco.evaluation.playing import compare_private
from dpoco.evaluation.reports import SCHEMA, Curves, PlayedRuns, RunReport

__all__ = ["COMPARISON_SCHEMA", "SCHEMA", "BestSequence", "Comparators", "Comparison",
           "ComparisonRow", "ConstantPrediction", "Curves", "FixedDecision", "FixedExpert", "Game",
           "Learner", "LoggedBandit", "OffPolicyEstimate", "PlayedRuns", "PrequentialResult",
           "ProgressBar", "ReplayResult", "RunReport", "SavedTrace", "SeedTree", "Snapshot",
           "best_constant_prediction", "best_expert", "best_fixed_decision",
           "best_switching_sequence", "compare", "compare_private", "game_of_records",
           "interval_regret", "kl_divergence", "load", "load_logged_bandit",
           "off_policy_value", "play", "prequential", "repeat", "replay_log", "save",
           "suboptimality", "total_variation"]  # fmt: skip
