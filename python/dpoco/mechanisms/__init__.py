"""Private mechanisms for learners: continual sums, selections, threshold tests."""

from __future__ import annotations

from dpoco.mechanisms._mechanisms import AboveThreshold, ContinualSum, NoisyMax, sum_entries

__all__ = ["AboveThreshold", "ContinualSum", "NoisyMax",
           "sum_entries"]  # fmt: skip
