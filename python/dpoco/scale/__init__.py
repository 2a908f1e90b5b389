"""Beyond one learner: pools of learners by key, and sweeps of experiments over a grid.

`KeyedPool` and `RayPool` play thousands of private learners: guide ``docs/scale.md``, guarantee
``docs/privacy/pools.md``.

Sweeps are for research: their noise is seeded, which voids every guarantee, and their records say
so.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpoco.scale._pool import KeyedPool
    from dpoco.scale._ray_pool import RayPool
    from dpoco.scale._sweep import sweep
    from dpoco.scale._sweep_results import SweepResults, read_sweep
    from dpoco.scale._sweep_runs import BuiltInRun, Cell, StreamRun

_HOMES = {
    "BuiltInRun": "_sweep_runs",
    "Cell": "_sweep_runs",
    "KeyedPool": "_pool",
    "RayPool": "_ray_pool",
    "StreamRun": "_sweep_runs",
    "SweepResults": "_sweep_results",
    "read_sweep": "_sweep_results",
    "sweep": "_sweep",
}

__all__ = [
    "BuiltInRun",
    "Cell",
    "KeyedPool",
    "RayPool",
    "StreamRun",
    "SweepResults",
    "read_sweep",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, and nothing else."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"dpoco.scale.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dpoco.scale' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
