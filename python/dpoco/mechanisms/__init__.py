"""Private mechanisms that learners are built on: continual sums."""

from __future__ import annotations

from dpoco.mechanisms._continual_sum import (
    ContinualSum,
    ContinualSumParameters,
    continual_sum_settings,
)

__all__ = ["ContinualSum", "ContinualSumParameters", "continual_sum_settings"]
