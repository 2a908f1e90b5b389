"""Private mechanisms that learners are built on: continual sums, selections, threshold tests."""

from __future__ import annotations

from dpoco.mechanisms._above_threshold import AboveThreshold, AboveThresholdParameters
from dpoco.mechanisms._continual_sum import (
    ContinualSum,
    ContinualSumParameters,
    clipper_of,
    continual_sum_settings,
    sum_entries,
)
from dpoco.mechanisms._noisy_max import NoisyMax, NoisyMaxParameters

__all__ = [
    "AboveThreshold",
    "AboveThresholdParameters",
    "ContinualSum",
    "ContinualSumParameters",
    "NoisyMax",
    "NoisyMaxParameters",
    "clipper_of",
    "continual_sum_settings",
    "sum_entries",
]
