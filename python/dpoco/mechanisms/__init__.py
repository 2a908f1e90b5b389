"""Private mechanisms for learners: continual sums, selections, threshold tests."""

from __future__ import annotations

from dpoco.accounting.above_threshold import AboveThresholdParameters
from dpoco.accounting.noisy_max import NoisyMaxParameters
from dpoco.mechanisms._mechanisms import (
    AboveThreshold,
    ContinualSum,
    NoisyMax,
    clipper_of,
    sum_entries,
)

__all__ = ["AboveThreshold", "AboveThresholdParameters", "ContinualSum",
           "NoisyMax", "NoisyMaxParameters", "clipper_of",
           "sum_entries"]  # fmt: skip
