"""Which family plays which learner, and which scorer knows its likelihoods.

A new learner: write a subclass of `dpoco.audit._family.Family` and one of
`dpoco.audit._scorer.Scorer`, and add its line here. Both are looked up by class, so that a learner
derived from one of these, right or wrong, is audited as what it claims to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from dpoco import bandits, experts, frank_wolfe, mechanisms, oco
from dpoco.audit._arms import ArmReleases, Arms
from dpoco.audit._batch_release import Batches, ReleasedBatches
from dpoco.audit._coupled import Coupled, Transcripts
from dpoco.audit._epochs import Epochs, EpochsWithAlarms, EpochTranscripts
from dpoco.audit._family import Family, Scorer
from dpoco.audit._fits import BatchFits, FitReleases
from dpoco.audit._selections import (
    DrawnSelections,
    Selections,
    ThresholdAnswers,
    ThresholdTests,
    Vertices,
)
from dpoco.audit._sum_noise import LedByVectors, LedByWeights, ReleasedStatistics, ReleasedSums
from dpoco.audit._sums import Losses, Records, Statistics, Vectors
from dpoco.audit._tracker import TrackedPaths, Tracker

__all__ = ["AUDITS", "family_of", "known_class", "of_class", "scorer_of"]

AUDITS: dict[type, tuple[type[Family], type[Scorer]]] = {
    frank_wolfe.TreeFrankWolfe: (Records, LedByVectors),
    frank_wolfe.PolyhedralFrankWolfe: (Records, Vertices),
    frank_wolfe.NoisyFrankWolfe: (BatchFits, FitReleases),
    frank_wolfe.NoisySGD: (BatchFits, FitReleases),
    frank_wolfe.PhasedSGD: (BatchFits, FitReleases),
    frank_wolfe.LocalizedMirrorDescent: (BatchFits, FitReleases),
    oco.NoisyFTRL: (Records, LedByVectors),
    oco.CoupledRegularizedLeader: (Coupled, Transcripts),
    oco.ContinuousMultiplicativeWeights: (Coupled, Transcripts),
    oco.LipschitzLearner: (Losses, LedByWeights),
    experts.PrefixHedge: (Losses, LedByWeights),
    experts.BatchShare: (Batches, ReleasedBatches),
    experts.EpochSelector: (Epochs, EpochTranscripts),
    experts.ShiftDetector: (EpochsWithAlarms, EpochTranscripts),
    experts.ObliviousTracker: (Tracker, TrackedPaths),
    bandits.LinUCB: (Statistics, ReleasedStatistics),
    bandits.HighDimensionalBandit: (Arms, ArmReleases),
    mechanisms.ContinualSum: (Vectors, ReleasedSums),
    mechanisms.NoisyMax: (Selections, DrawnSelections),
    mechanisms.AboveThreshold: (ThresholdTests, ThresholdAnswers),
}

T = TypeVar("T")


def of_class(table: Mapping[type, T], cls: type) -> T | None:
    """Return the entry of a class, or else of the next class that it is derived from."""
    return next((table[known] for known in cls.__mro__ if known in table), None)


def known_class(learner: Any) -> type:
    """Return the class of this library that a learner is of; ``TypeError`` if it is of none."""
    for known in type(learner).__mro__:
        if known in AUDITS:
            return known
    names = ", ".join(sorted(known.__name__ for known in AUDITS))
    raise TypeError(f"no audit of a {type(learner).__name__}; known are {names}")


def family_of(learner: Any) -> Family:
    """Return the family of a learner; ``TypeError`` if there is none."""
    family, _ = AUDITS[known_class(learner)]
    return family(learner)


def scorer_of(learner: Any, stream: Any, neighbour: Any) -> Scorer:
    """Return the scorer of a learner; ``TypeError`` if its law is not known here."""
    family, scorer = AUDITS[known_class(learner)]
    return scorer(family(learner), stream, neighbour)
