"""Who audits which kind of mechanism, in learners of what they learn from.

The kind is that of the description of the learner's guarantee, so that a new learner on a known
kind is audited as it is, and a learner derived from another as what it claims to be.
"""

from __future__ import annotations

from typing import Any

from dpoco.audit._bandits import ArmReleases, Arms, Statistics
from dpoco.audit._coupled import Coupled, Transcripts
from dpoco.audit._experts import Batches, ReleasedBatches, TrackedPaths, Tracker
from dpoco.audit._family import Family, Scorer
from dpoco.audit._fits import FitReleases, Fits
from dpoco.audit._held import Held, describes, find_mechanisms
from dpoco.audit._intervals import Intervals
from dpoco.audit._playing import find_plays
from dpoco.audit._ranges import DrawnRanges, Searches
from dpoco.audit._selections import (
    DrawnSelections,
    Epochs,
    EpochsWithAlarms,
    EpochTranscripts,
    Selected,
    Tested,
    ThresholdAnswers,
)
from dpoco.audit._sum_noise import (
    LedByVectors,
    LedByWeights,
    ReleasedStatistics,
    ReleasedSums,
    Vertices,
)
from dpoco.audit._sums import Losses, Records, Unmoved, Vectors
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Parts
from dpoco.privacy.mechanisms.batch_release import BatchRelease
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.range_search import RangeSearch
from dpoco.privacy.mechanisms.selections import Selections, ThresholdTests
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws

Auditors = tuple[type[Family], type[Scorer] | None]

# By kind, of parts that of the first one, and by what a learner plays.
_AUDITORS: dict[tuple[type[Mechanism], str], Auditors] = {
    (GaussianSum, "sums"): (Vectors, ReleasedSums),
    (GaussianSum, "records"): (Records, LedByVectors),
    (GaussianSum, "experts"): (Losses, LedByWeights),
    (GaussianSum, "surface"): (Losses, LedByWeights),
    (GaussianSum, "arms"): (Statistics, ReleasedStatistics),
    (GaussianSum, "batch"): (Fits, FitReleases),
    (GaussianSum, "intervals"): (Intervals, ReleasedSums),
    (Selections, "scores"): (Selected, DrawnSelections),
    (Selections, "records"): (Records, Vertices),
    (Selections, "experts"): (Epochs, EpochTranscripts),
    (ThresholdTests, "queries"): (Tested, ThresholdAnswers),
    (CoupledDraws, "records"): (Coupled, Transcripts),
    (TrackerDraws, "experts"): (Tracker, TrackedPaths),
    (BatchRelease, "experts"): (Batches, ReleasedBatches),
    (RangeSearch, "ranges"): (Searches, DrawnRanges),
}


def _auditors(learner: Any) -> Auditors:
    """Return who replays and who scores a learner; ``TypeError`` saying what is missing."""
    kind, plays = type(learner).__name__, find_plays(learner)
    guarantee = getattr(learner, "guarantee", None)
    mechanism = getattr(guarantee, "description", None)
    if mechanism is None:
        raise TypeError(f"no audit of a {kind}: its guarantee describes no mechanism")
    if isinstance(mechanism, Nothing):
        return Unmoved, None
    parts = find_mechanisms(learner)
    if parts:
        if describes(mechanism, parts):
            return Held, None
        names = ", ".join(parts)
        raise TypeError(f"no audit of a {kind}: its guarantee is not that of {names} together")
    if isinstance(mechanism, Parts):
        if plays == "arms" and mechanism.how == "one_of":
            return Arms, ArmReleases
        if plays == "experts" and hasattr(learner, "alarms"):
            return EpochsWithAlarms, EpochTranscripts
        mechanism = mechanism.parts[0]
    found = _AUDITORS.get((type(mechanism), plays))
    if found is None:
        raise TypeError(
            f"no audit of a {kind}: there is none for a mechanism of kind {mechanism.kind!r} in a "
            f"learner of {plays}"
        )
    engine = getattr(learner, "_engine", None)
    missing = [name for name in found[0].needs if not hasattr(engine, name)]
    if missing:
        raise TypeError(f"no audit of a {kind}: its engine has no {', '.join(missing)}")
    return found


def find_family(learner: Any) -> Family:
    """Return who replays a learner; ``TypeError`` saying what is missing."""
    return _auditors(learner)[0](learner)


def find_known_family(learner: Any) -> Family | None:
    """Return who replays a learner, or None."""
    try:
        return find_family(learner)
    except TypeError:
        return None


def find_scorer(learner: Any, stream: Any, neighbour: Any) -> Scorer:
    """Return the scorer of a learner; ``TypeError`` or ``ValueError`` if its law is not known."""
    family, scorer = _auditors(learner)
    if scorer is None:
        raise ValueError("the law of what such a learner releases is not known here")
    return scorer(family(learner), stream, neighbour)
