"""Private prediction with expert advice: static, shifting, oblivious and adaptive losses.

Every learner plays the index of one of N experts a round and then sees the losses of all of them;
the whole sequence of indices is differentially private.
"""

from __future__ import annotations

from dpoco.experts._batch_share import BatchShare, BatchShareParameters
from dpoco.experts._epoch_selector import EpochSelector, EpochSelectorParameters
from dpoco.experts._oblivious_tracker import ObliviousTracker, ObliviousTrackerParameters
from dpoco.experts._planner import ExpertPlan, plan_experts
from dpoco.experts._prefix_hedge import PrefixHedge, PrefixHedgeParameters
from dpoco.experts._shift_detector import ShiftDetector, ShiftDetectorParameters
from dpoco.experts._trace import ExpertTrace

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
