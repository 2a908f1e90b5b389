"""Which family replays which learner.

A new learner: write a subclass of `dpoco.audit._replay_base.Family` in ``_replay_<family>.py`` and
add its line here. Families are looked up by class, so that a learner derived from one of these,
right or wrong, is audited as what it claims to be.
"""

from __future__ import annotations

from typing import Any

from dpoco.audit._replay_arms import Arms
from dpoco.audit._replay_bandits import Bandits
from dpoco.audit._replay_base import Family
from dpoco.audit._replay_batch import BatchFits
from dpoco.audit._replay_coupled import Coupled
from dpoco.audit._replay_experts import SumOfBatches, SumOfLosses
from dpoco.audit._replay_mechanisms import Selections, Sums, ThresholdTests
from dpoco.audit._replay_selections import Epochs, EpochsWithAlarms, Tracker
from dpoco.audit._replay_sums import SumOfRecords
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.experts import BatchShare, EpochSelector, ObliviousTracker, PrefixHedge, ShiftDetector
from dpoco.frank_wolfe import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    PolyhedralFrankWolfe,
    TreeFrankWolfe,
)
from dpoco.mechanisms import AboveThreshold, ContinualSum, NoisyMax
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    CoupledRegularizedLeader,
    LipschitzLearner,
    NoisyFTRL,
)

__all__ = ["FAMILIES", "family_of"]

FAMILIES: dict[type, type[Family]] = {
    TreeFrankWolfe: SumOfRecords,
    PolyhedralFrankWolfe: SumOfRecords,
    NoisyFTRL: SumOfRecords,
    NoisyFrankWolfe: BatchFits,
    NoisySGD: BatchFits,
    PhasedSGD: BatchFits,
    LocalizedMirrorDescent: BatchFits,
    CoupledRegularizedLeader: Coupled,
    ContinuousMultiplicativeWeights: Coupled,
    LipschitzLearner: SumOfLosses,
    PrefixHedge: SumOfLosses,
    BatchShare: SumOfBatches,
    EpochSelector: Epochs,
    ShiftDetector: EpochsWithAlarms,
    ObliviousTracker: Tracker,
    LinUCB: Bandits,
    HighDimensionalBandit: Arms,
    ContinualSum: Sums,
    NoisyMax: Selections,
    AboveThreshold: ThresholdTests,
}


def family_of(learner: Any) -> Family:
    """Return the family that replays a learner; ``TypeError`` if none does."""
    for known in type(learner).__mro__:
        if known in FAMILIES:
            return FAMILIES[known](learner)
    names = ", ".join(sorted(known.__name__ for known in FAMILIES))
    raise TypeError(f"no replay of a {type(learner).__name__}; known are {names}")
