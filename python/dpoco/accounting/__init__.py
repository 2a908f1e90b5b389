"""Privacy accounting: parameters to guarantee, and budget to parameters.

Pure functions of public quantities; nothing here draws a random number. One module per proof, whose
docstring states the claim and where it is proved. Modules are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpoco.accounting.budget import Budget as Budget
from dpoco.accounting.guarantee import Guarantee as Guarantee

if TYPE_CHECKING:
    from dpoco.accounting.above_threshold import (
        AboveThresholdParameters as AboveThresholdParameters,
    )
    from dpoco.accounting.batch_baselines import (
        LocalizedMirrorDescentParameters as LocalizedMirrorDescentParameters,
    )
    from dpoco.accounting.batch_baselines import (
        NoisyFrankWolfeParameters as NoisyFrankWolfeParameters,
    )
    from dpoco.accounting.batch_baselines import (
        NoisySGDParameters as NoisySGDParameters,
    )
    from dpoco.accounting.batch_baselines import (
        PhasedSGDParameters as PhasedSGDParameters,
    )
    from dpoco.accounting.batch_share import BatchShareParameters as BatchShareParameters
    from dpoco.accounting.continuous_multiplicative_weights import (
        ContinuousMultiplicativeWeightsParameters as ContinuousMultiplicativeWeightsParameters,
    )
    from dpoco.accounting.coupled_regularized_leader import (
        CoupledRegularizedLeaderParameters as CoupledRegularizedLeaderParameters,
    )
    from dpoco.accounting.epoch_selector import EpochSelectorParameters as EpochSelectorParameters
    from dpoco.accounting.explanation import explain as explain
    from dpoco.accounting.high_dimensional_bandit import (
        HighDimensionalBanditParameters as HighDimensionalBanditParameters,
    )
    from dpoco.accounting.ledger import Ledger as Ledger
    from dpoco.accounting.linucb import LinUCBParameters as LinUCBParameters
    from dpoco.accounting.lipschitz import LipschitzParameters as LipschitzParameters
    from dpoco.accounting.noisy_ftrl import NoisyFTRLParameters as NoisyFTRLParameters
    from dpoco.accounting.noisy_max import NoisyMaxParameters as NoisyMaxParameters
    from dpoco.accounting.oblivious_tracker import (
        ObliviousTrackerParameters as ObliviousTrackerParameters,
    )
    from dpoco.accounting.polyhedral_frank_wolfe import (
        PolyhedralFrankWolfeParameters as PolyhedralFrankWolfeParameters,
    )
    from dpoco.accounting.prefix_hedge import PrefixHedgeParameters as PrefixHedgeParameters
    from dpoco.accounting.shift_detector import ShiftDetectorParameters as ShiftDetectorParameters
    from dpoco.accounting.sum_release import ContinualSumParameters as ContinualSumParameters
    from dpoco.accounting.tree_frank_wolfe import (
        TreeFrankWolfeParameters as TreeFrankWolfeParameters,
    )

# What comes from modules under its own name; modules themselves go by theirs.
_HOMES = {
    "Budget": "budget",
    "Guarantee": "guarantee",
    "AboveThresholdParameters": "above_threshold",
    "BatchShareParameters": "batch_share",
    "ContinualSumParameters": "sum_release",
    "ContinuousMultiplicativeWeightsParameters": "continuous_multiplicative_weights",
    "CoupledRegularizedLeaderParameters": "coupled_regularized_leader",
    "EpochSelectorParameters": "epoch_selector",
    "HighDimensionalBanditParameters": "high_dimensional_bandit",
    "Ledger": "ledger",
    "LinUCBParameters": "linucb",
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
    "explain": "explanation",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = f"{__name__}.{_HOMES.get(name, name)}"
    if name.startswith("_"):
        raise AttributeError(f"module 'dpoco.accounting' has no attribute {name!r}")
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError as error:
        if error.name != home:
            raise
        raise AttributeError(f"module 'dpoco.accounting' has no attribute {name!r}") from None
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    import pkgutil

    modules = (each.name for each in pkgutil.iter_modules(__path__))
    return sorted({*_HOMES, *(name for name in modules if not name.startswith("_"))})
