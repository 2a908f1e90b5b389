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
    "DevicePredictor": "_client",
    "DistributionLearner": "_learner",
    "HadamardQuery": "_queries",
    "Hypotheses": "_hypotheses",
    "LocalClient": "_client",
    "LocalHypothesisSelector": "_selector",
    "LocalTrace": "_simulate",
    "LossQuery": "_queries",
    "MedianSelection": "_planning",
    "Prediction": "_prediction",
    "PublicCoins": "_questions",
    "Report": "_reports",
    "ReportBatch": "_reports",
    "RoundReports": "_reports",
    "RoundSpec": "_specs",
    "RoundSpecs": "_rounds",
    "SubsetRandomizer": "_randomizers",
    "ThresholdQuery": "_queries",
    "VectorRandomizer": "_vector",
    "audit": "_randomizers",
    "kl_divergence": "._divergences",
    "median_select": "_planning",
    "required_users": "_planning",
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
