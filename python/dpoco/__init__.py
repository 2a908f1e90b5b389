"""Private online learning: every decision on a stream is differentially private.

>>> import dpoco
>>> domain = dpoco.domains.LpBall(dimension=3, p=2.0, radius=1.0)
>>> loss = dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
>>> learner = dpoco.frank_wolfe.TreeFrankWolfe(
...     domain, loss, horizon=10_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
>>> theta = learner.decide()
>>> learner.observe([0.6, 0.0, 0.8], 0.5)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpoco import errors
from dpoco.errors import (
    BudgetExceeded,
    CalibrationError,
    DpocoError,
    HorizonExceeded,
    JournalFenced,
    LargeDeltaWarning,
    NoiseDominatesWarning,
    RepeatedFitsWarning,
    ReplayMismatch,
    RoundOrderError,
    StateError,
    UnspentBudgetWarning,
)

if TYPE_CHECKING:
    from dpoco import accounting
    from dpoco.accounting import Budget, Guarantee
    from dpoco.learning.state import encrypt_file, load

    __version__: str

_HOMES = {
    "Budget": "accounting",
    "Choice": "learning.choice",
    "EncryptionKey": "_encryption",
    "Guarantee": "accounting",
    "Model": "learning.model",
    "Participation": "learning.participation",
    "Plan": "accounting.plan",
    "RecordShares": "trace",
    "Ticket": "learning.tickets",
    "Trace": "trace",
    "choose": "learning.choice",
    "encrypt_file": "learning.state",
    "load": "learning.state",
}

__all__ = [
    "Budget",
    "BudgetExceeded",
    "CalibrationError",
    "Choice",
    "DpocoError",
    "EncryptionKey",
    "Guarantee",
    "HorizonExceeded",
    "JournalFenced",
    "LargeDeltaWarning",
    "Model",
    "NoiseDominatesWarning",
    "Participation",
    "Plan",
    "RecordShares",
    "RepeatedFitsWarning",
    "ReplayMismatch",
    "RoundOrderError",
    "StateError",
    "Ticket",
    "Trace",
    "UnspentBudgetWarning",
    "__version__",
    "accounting",
    "adapters",
    "audit",
    "bandits",
    "choose",
    "datasets",
    "domains",
    "encrypt_file",
    "environments",
    "errors",
    "evaluation",
    "experts",
    "frank_wolfe",
    "journal",
    "learners",
    "load",
    "local",
    "losses",
    "mechanisms",
    "noise",
    "oco",
    "plotting",
    "published",
    "random",
    "ranges",
    "samplers",
    "scale",
    "statistics",
]


def __getattr__(name: str) -> Any:
    """Import submodules on first use, so that ``import dpoco`` and ``dpoco --help`` are fast."""
    if name in ("__version__", "_core"):
        core = importlib.import_module("dpoco._core")
        return core.__version__ if name == "__version__" else core
    # The classes that users need most often, each from its room.
    if name in _HOMES:
        return getattr(importlib.import_module(f"dpoco.{_HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"dpoco.{name}")
    # Tools ask for names such as `_repr_html_`, for which no hint is needed.
    hint = "" if name.startswith("_") else _probably(name)
    raise AttributeError(f"module 'dpoco' has no attribute {name!r}{hint}")


def _probably(name: str) -> str:
    """Return a question that suggests the path of a public name, as part of a message."""
    from difflib import get_close_matches

    from dpoco import domains, learners, losses

    # People look for these at the top level: modules, learners, domains and losses.
    paths = [*__all__, *(each.path for each in learners.LEARNERS)]
    paths += [f"domains.{each}" for each in domains.__all__]
    paths += [f"losses.{each}" for each in losses.__all__]
    known = {path.rpartition(".")[2].lower(): path for path in paths}
    close = get_close_matches(name.replace("_", "").lower(), known, n=1, cutoff=0.75)
    return f"; did you mean 'dpoco.{known[close[0]]}'?" if close else ""


def __dir__() -> list[str]:
    return sorted(__all__)
