"""Private prediction with expert advice: static, shifting, oblivious and adaptive losses.

In each round every learner plays the index of one of N experts and then sees the losses of all of
them. The whole sequence of indices is differentially private.
"""

from __future__ import annotations

from dpoco.experts._expert_learner import ExpertTrace
from dpoco.experts._selectors import EpochSelector, ShiftDetector, WindowSelector
from dpoco.experts._weights import BatchShare, ObliviousTracker, PrefixHedge
from dpoco.learning.choice import ADVERSARIES as ADVERSARIES

__all__ = ["BatchShare", "EpochSelector", "ExpertTrace", "ObliviousTracker", "PrefixHedge",
           "ShiftDetector", "WindowSelector"]  # fmt: skip
