"""Whose likelihoods are known, and by which scorer.

A new learner: write a subclass of `dpoco.audit._likelihood_base.Scorer` and add its line here.
"""

from __future__ import annotations

from typing import Any

from dpoco.audit._likelihood_bandits import ArmReleases, ReleasedStatistics
from dpoco.audit._likelihood_base import Scorer
from dpoco.audit._likelihood_batch import Fits
from dpoco.audit._likelihood_coupled import Transcripts
from dpoco.audit._likelihood_epochs import EpochTranscripts
from dpoco.audit._likelihood_nets import LedByNetSums
from dpoco.audit._likelihood_selections import Selections, Vertices
from dpoco.audit._likelihood_share import ReleasedBatches
from dpoco.audit._likelihood_sums import LedBySums, PlainSums
from dpoco.audit._likelihood_thresholds import ThresholdAnswers
from dpoco.audit._likelihood_tracker import TrackedPaths
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

__all__ = ["SCORERS", "scorer_of"]

SCORERS: dict[type, type[Scorer]] = {
    ContinualSum: PlainSums,
    TreeFrankWolfe: LedBySums,
    NoisyFTRL: LedBySums,
    PrefixHedge: LedBySums,
    LipschitzLearner: LedByNetSums,
    LinUCB: ReleasedStatistics,
    HighDimensionalBandit: ArmReleases,
    NoisyMax: Selections,
    AboveThreshold: ThresholdAnswers,
    PolyhedralFrankWolfe: Vertices,
    BatchShare: ReleasedBatches,
    EpochSelector: EpochTranscripts,
    ShiftDetector: EpochTranscripts,
    ObliviousTracker: TrackedPaths,
    NoisyFrankWolfe: Fits,
    NoisySGD: Fits,
    PhasedSGD: Fits,
    LocalizedMirrorDescent: Fits,
    ContinuousMultiplicativeWeights: Transcripts,
    CoupledRegularizedLeader: Transcripts,
}


def scorer_of(learner: Any, stream: Any, neighbour: Any) -> Scorer:
    """Return the scorer of a learner; ``TypeError`` if its law is not known here."""
    for known in type(learner).__mro__:
        if known in SCORERS:
            return SCORERS[known](learner, stream, neighbour)
    names = ", ".join(sorted(known.__name__ for known in SCORERS))
    raise TypeError(f"no likelihood of a {type(learner).__name__} is known; known are {names}")
