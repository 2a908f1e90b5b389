"""Online distribution learning from locally private reports.

K known hypotheses map a public context to a distribution over labels. Each round one user's device
sends a report on her private label that is private by itself; the server learns which hypothesis
is true, and publishes predictions.

With ``protect="label"`` only the label is protected: **the context is disclosed** to the server.
With ``protect="label_and_context"`` the report protects both, and the context stays on the device.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "BitRandomizer": "_randomizers",
    "ClientPool": "_pool",
    "CoordinateRandomizer": "_randomizers",
    "DevicePredictor": "_device",
    "DistributionLearner": "_learner",
    "HadamardQuery": "_queries",
    "Hypotheses": "_hypotheses",
    "LocalClient": "_client",
    "LocalHypothesisSelector": "_selector",
    "LocalTrace": "_trace",
    "LossQuery": "_queries",
    "MedianSelection": "_median",
    "Prediction": "_prediction",
    "PublicCoins": "_coins",
    "Report": "_specs",
    "ReportBatch": "_specs",
    "RoundReports": "_many",
    "RoundSpec": "_specs",
    "RoundSpecs": "_many",
    "Selection": "_selection",
    "SubsetRandomizer": "_randomizers",
    "ThresholdQuery": "_queries",
    "VectorRandomizer": "_vector",
    "audit": "_audit",
    "kl_divergence": "._divergences",
    "median_select": "_median",
    "required_users": "_planning",
    "select_hypothesis": "_selection",
    "simulate": "_simulate",
    "total_variation": "._divergences",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that a device loads no learner."""
    if name in _MODULES:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module 'dpoco.local' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
