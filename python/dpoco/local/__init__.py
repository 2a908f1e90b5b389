"""Online distribution learning from locally private reports.

K known hypotheses map a public context to a distribution over labels. In each round one user's
device sends a report on the private label; the report is private by itself. The server learns which
hypothesis is true, and publishes predictions. `dpoco.environments.simulate_local` plays both.

With ``protect="label"`` only the label is protected: **the context is disclosed** to the server.
With ``protect="label_and_context"`` the report protects both, and the context stays on the device.
"""

from __future__ import annotations

from dpoco._divergences import kl_divergence, total_variation
from dpoco.local._client import ClientPool, DevicePredictor, LocalClient
from dpoco.local._hypotheses import Hypotheses, Prediction
from dpoco.local._learner import (
    DistributionLearner,
    LocalHypothesisSelector,
    MedianSelection,
    median_select,
    required_users,
)
from dpoco.local._messages import (
    HadamardQuery,
    LossQuery,
    PublicCoins,
    Report,
    ReportBatch,
    RoundSpec,
    ThresholdQuery,
)
from dpoco.local._randomizers import BitRandomizer, SubsetRandomizer

__all__ = ["BitRandomizer", "ClientPool", "DevicePredictor", "DistributionLearner",
           "HadamardQuery", "Hypotheses", "LocalClient", "LocalHypothesisSelector", "LossQuery",
           "MedianSelection", "Prediction", "PublicCoins", "Report", "ReportBatch", "RoundSpec",
           "SubsetRandomizer", "ThresholdQuery", "kl_divergence", "median_select",
           "required_users", "total_variation"]  # fmt: skip
