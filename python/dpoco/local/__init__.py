"""Online distribution learning from locally private reports.

K known hypotheses map a public context to a distribution over labels. In each round one user's
device sends a report on the private label; the report is private by itself. The server learns which
hypothesis is true, and publishes predictions.

With ``protect="label"`` only the label is protected: **the context is disclosed** to the server.
With ``protect="label_and_context"`` the report protects both, and the context stays on the device.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "_client": ("ClientPool", "DevicePredictor", "LocalClient"),
    "_hypotheses": ("Hypotheses", "Prediction"),
    "_learner": ("DistributionLearner",),
    "_messages": ("Report", "ReportBatch", "RoundSpec"),
    "_queries": ("HadamardQuery", "LossQuery", "PublicCoins", "ThresholdQuery"),
    "_randomizers": ("BitRandomizer", "SubsetRandomizer"),
    "_selector": ("LocalHypothesisSelector", "MedianSelection", "median_select", "required_users"),
    "_simulate": ("LocalTrace", "simulate"),
    "._divergences": ("kl_divergence", "total_variation"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that a device loads no learner."""
    if name in _MODULES:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module 'dpoco.local' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
