"""Published methods: the parameters of papers, as printed and corrected, and their learners.

There is one module per paper. A function named after a learner returns parameters for its
constructor::

    planned = dpoco.published.asi_tracking.shift_detector(10, horizon=1000, budget=budget)
    learner = dpoco.experts.ShiftDetector(10, horizon=1000, budget=None, plan=planned)

The guarantee is computed from these parameters like from any others; its ``claimed`` is the claim
of the paper's own argument. Some published constants spend more than the budget for which they are
made: learners refuse these next to that budget, but take them with ``budget=None``.
``docs/errata.md`` lists the errors in print.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["agarwal_ctrl", "agarwal_lazy", "asi_tracking", "han_frank_wolfe", "sima_local",
           "tables"]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a paper's module on first use."""
    if name in __all__:
        return importlib.import_module(f"dpoco.published.{name}")
    raise AttributeError(f"module 'dpoco.published' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
