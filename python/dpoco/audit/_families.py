"""Which family replays which learner, and which scorer knows its likelihoods.

A new learner: write a subclass of `dpoco.audit._replay_base.Family` and one of
`dpoco.audit._likelihood_base.Scorer`, and add its line here. Both are looked up by class, so that a
learner derived from one of these, right or wrong, is audited as what it claims to be.
"""

from __future__ import annotations

from typing import Any

from dpoco.audit._likelihood_bandits import ArmReleases, ReleasedStatistics
from dpoco.audit._likelihood_base import Scorer
from dpoco.audit._likelihood_batch import Fits
from dpoco.audit._likelihood_coupled import Transcripts
from dpoco.audit._likelihood_epochs import EpochTranscripts
from dpoco.audit._likelihood_selections import Selections as DrawnSelections
from dpoco.audit._likelihood_selections import Vertices
from dpoco.audit._likelihood_share import ReleasedBatches
from dpoco.audit._likelihood_sums import LedByNetSums, LedBySums, PlainSums
from dpoco.audit._likelihood_thresholds import ThresholdAnswers
from dpoco.audit._likelihood_tracker import TrackedPaths
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

__all__ = ["AUDITS", "family_of", "scorer_of"]

AUDITS: dict[type, tuple[type[Family], type[Scorer]]] = {
    TreeFrankWolfe: (SumOfRecords, LedBySums),
    PolyhedralFrankWolfe: (SumOfRecords, Vertices),
    NoisyFTRL: (SumOfRecords, LedBySums),
    NoisyFrankWolfe: (BatchFits, Fits),
    NoisySGD: (BatchFits, Fits),
    PhasedSGD: (BatchFits, Fits),
    LocalizedMirrorDescent: (BatchFits, Fits),
    CoupledRegularizedLeader: (Coupled, Transcripts),
    ContinuousMultiplicativeWeights: (Coupled, Transcripts),
    LipschitzLearner: (SumOfLosses, LedByNetSums),
    PrefixHedge: (SumOfLosses, LedBySums),
    BatchShare: (SumOfBatches, ReleasedBatches),
    EpochSelector: (Epochs, EpochTranscripts),
    ShiftDetector: (EpochsWithAlarms, EpochTranscripts),
    ObliviousTracker: (Tracker, TrackedPaths),
    LinUCB: (Bandits, ReleasedStatistics),
    HighDimensionalBandit: (Arms, ArmReleases),
    ContinualSum: (Sums, PlainSums),
    NoisyMax: (Selections, DrawnSelections),
    AboveThreshold: (ThresholdTests, ThresholdAnswers),
}


def family_of(learner: Any) -> Family:
    """Return the family that replays a learner; ``TypeError`` if none does."""
    family, _ = _audits_of(learner, "replay")
    return family(learner)


def scorer_of(learner: Any, stream: Any, neighbour: Any) -> Scorer:
    """Return the scorer of a learner; ``TypeError`` if its law is not known here."""
    _, scorer = _audits_of(learner, "likelihood")
    return scorer(learner, stream, neighbour)


def _audits_of(learner: Any, audit: str) -> tuple[type[Family], type[Scorer]]:
    for known in type(learner).__mro__:
        if known in AUDITS:
            return AUDITS[known]
    names = ", ".join(sorted(known.__name__ for known in AUDITS))
    raise TypeError(f"no {audit} of a {type(learner).__name__}; known are {names}")
