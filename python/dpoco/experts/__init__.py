"""Private prediction with expert advice: static, shifting, oblivious and adaptive losses.

Every learner plays the index of one of N experts a round and then sees the losses of all of them;
the whole sequence of indices is differentially private.
"""

from __future__ import annotations

from dpoco.experts._trace import ExpertTrace

__all__ = ["ExpertTrace"]
