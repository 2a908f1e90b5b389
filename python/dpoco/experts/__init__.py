"""Private prediction with expert advice: static, shifting, oblivious and adaptive losses.

Every learner plays the index of one of N experts a round and then sees the losses of all of them;
the whole sequence of indices is differentially private.
"""

from __future__ import annotations

from dpoco.experts._expert_learner import ExpertTrace
from dpoco.experts._oblivious_tracker import ObliviousTracker, ObliviousTrackerParameters
from dpoco.experts._planner import ExpertPlan, plan_experts
from dpoco.experts._selectors import (
    EpochSelector,
    EpochSelectorParameters,
    ShiftDetector,
    ShiftDetectorParameters,
)
from dpoco.experts._weights import (
    BatchShare,
    BatchShareParameters,
    PrefixHedge,
    PrefixHedgeParameters,
)

__all__ = [
    "BatchShare",
    "BatchShareParameters",
    "EpochSelector",
    "EpochSelectorParameters",
    "ExpertPlan",
    "ExpertTrace",
    "ObliviousTracker",
    "ObliviousTrackerParameters",
    "PrefixHedge",
    "PrefixHedgeParameters",
    "ShiftDetector",
    "ShiftDetectorParameters",
    "plan_experts",
]
