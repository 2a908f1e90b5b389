"""Private mechanisms that learners are built on: continual sums, selections, threshold tests."""

from __future__ import annotations

from dpoco.accounting.above_threshold import AboveThresholdParameters
from dpoco.accounting.noisy_max import NoisyMaxParameters
from dpoco.accounting.sum_release import ContinualSumParameters
from dpoco.mechanisms._continual_sum import (
    ContinualSum,
    clipper_of,
    continual_sum_settings,
    sum_entries,
)
from dpoco.mechanisms._selection import AboveThreshold, NoisyMax

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
