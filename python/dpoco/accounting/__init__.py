"""Privacy accounting: parameters to guarantee, and budget to parameters.

Pure functions of public quantities; nothing here draws a random number. One module per proof, whose
docstring states the claim and where it is proved. Modules are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee

if TYPE_CHECKING:
    from dpoco.accounting import (
        above_threshold,
        attack_power,
        batch_baselines,
        batch_share,
        blt,
        continual_sum,
        continuous_multiplicative_weights,
        coupled_regularized_leader,
        epoch_selector,
        euclidean,
        events,
        explanation,
        gaussian,
        generalized_gaussian,
        high_dimensional_bandit,
        ledger,
        linucb,
        lipschitz,
        local_reports,
        local_vector,
        noisy_ftrl,
        noisy_max,
        oblivious_tracker,
        polyhedral_frank_wolfe,
        prefix_hedge,
        published,
        rdp,
        regret_bounds,
        release,
        sampled_gaussian,
        shift_detector,
        sum_release,
        tables,
        tree_frank_wolfe,
        truncation,
        zcdp,
    )
    from dpoco.accounting.above_threshold import AboveThresholdParameters
    from dpoco.accounting.batch_baselines import (
        LocalizedMirrorDescentParameters,
        NoisyFrankWolfeParameters,
        NoisySGDParameters,
        PhasedSGDParameters,
    )
    from dpoco.accounting.batch_share import BatchShareParameters
    from dpoco.accounting.continuous_multiplicative_weights import (
        ContinuousMultiplicativeWeightsParameters,
    )
    from dpoco.accounting.coupled_regularized_leader import CoupledRegularizedLeaderParameters
    from dpoco.accounting.epoch_selector import EpochSelectorParameters
    from dpoco.accounting.explanation import explain
    from dpoco.accounting.high_dimensional_bandit import HighDimensionalBanditParameters
    from dpoco.accounting.ledger import Ledger
    from dpoco.accounting.linucb import LinUCBParameters
    from dpoco.accounting.lipschitz import LipschitzParameters
    from dpoco.accounting.noisy_ftrl import NoisyFTRLParameters
    from dpoco.accounting.noisy_max import NoisyMaxParameters
    from dpoco.accounting.oblivious_tracker import ObliviousTrackerParameters
    from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralFrankWolfeParameters
    from dpoco.accounting.prefix_hedge import PrefixHedgeParameters
    from dpoco.accounting.shift_detector import ShiftDetectorParameters
    from dpoco.accounting.sum_release import ContinualSumParameters
    from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters

_MODULES = frozenset(
    {
        "above_threshold",
        "attack_power",
        "explanation",
        "ledger",
        "local_reports",
        "local_vector",
        "batch_baselines",
        "batch_share",
        "blt",
        "continual_sum",
        "continuous_multiplicative_weights",
        "coupled_regularized_leader",
        "epoch_selector",
        "euclidean",
        "events",
        "gaussian",
        "generalized_gaussian",
        "high_dimensional_bandit",
        "linucb",
        "lipschitz",
        "noisy_ftrl",
        "noisy_max",
        "oblivious_tracker",
        "polyhedral_frank_wolfe",
        "prefix_hedge",
        "published",
        "rdp",
        "regret_bounds",
        "release",
        "sampled_gaussian",
        "shift_detector",
        "sum_release",
        "tables",
        "tree_frank_wolfe",
        "truncation",
        "zcdp",
    }
)
_CLASSES = {
    "AboveThresholdParameters": "above_threshold",
    "BatchShareParameters": "batch_share",
    "ContinualSumParameters": "sum_release",
    "ContinuousMultiplicativeWeightsParameters": "continuous_multiplicative_weights",
    "CoupledRegularizedLeaderParameters": "coupled_regularized_leader",
    "EpochSelectorParameters": "epoch_selector",
    "HighDimensionalBanditParameters": "high_dimensional_bandit",
    "Ledger": "ledger",
    "LinUCBParameters": "linucb",
    "explain": "explanation",
    "LipschitzParameters": "lipschitz",
    "LocalizedMirrorDescentParameters": "batch_baselines",
    "NoisyFTRLParameters": "noisy_ftrl",
    "NoisyFrankWolfeParameters": "batch_baselines",
    "NoisyMaxParameters": "noisy_max",
    "NoisySGDParameters": "batch_baselines",
    "ObliviousTrackerParameters": "oblivious_tracker",
    "PhasedSGDParameters": "batch_baselines",
    "PolyhedralFrankWolfeParameters": "polyhedral_frank_wolfe",
    "PrefixHedgeParameters": "prefix_hedge",
    "ShiftDetectorParameters": "shift_detector",
    "TreeFrankWolfeParameters": "tree_frank_wolfe",
}

__all__ = [
    "AboveThresholdParameters",
    "BatchShareParameters",
    "Budget",
    "ContinualSumParameters",
    "ContinuousMultiplicativeWeightsParameters",
    "CoupledRegularizedLeaderParameters",
    "EpochSelectorParameters",
    "Guarantee",
    "HighDimensionalBanditParameters",
    "Ledger",
    "LinUCBParameters",
    "LipschitzParameters",
    "LocalizedMirrorDescentParameters",
    "NoisyFTRLParameters",
    "NoisyFrankWolfeParameters",
    "NoisyMaxParameters",
    "NoisySGDParameters",
    "ObliviousTrackerParameters",
    "PhasedSGDParameters",
    "PolyhedralFrankWolfeParameters",
    "PrefixHedgeParameters",
    "ShiftDetectorParameters",
    "TreeFrankWolfeParameters",
    "above_threshold",
    "attack_power",
    "batch_baselines",
    "batch_share",
    "blt",
    "continual_sum",
    "continuous_multiplicative_weights",
    "coupled_regularized_leader",
    "epoch_selector",
    "euclidean",
    "events",
    "explain",
    "explanation",
    "gaussian",
    "generalized_gaussian",
    "high_dimensional_bandit",
    "ledger",
    "linucb",
    "lipschitz",
    "local_reports",
    "local_vector",
    "noisy_ftrl",
    "noisy_max",
    "oblivious_tracker",
    "polyhedral_frank_wolfe",
    "prefix_hedge",
    "published",
    "rdp",
    "regret_bounds",
    "release",
    "sampled_gaussian",
    "shift_detector",
    "sum_release",
    "tables",
    "tree_frank_wolfe",
    "truncation",
    "zcdp",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dpoco.accounting.{name}")
    if name in _CLASSES:
        return getattr(importlib.import_module(f"dpoco.accounting.{_CLASSES[name]}"), name)
    raise AttributeError(f"module 'dpoco.accounting' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
