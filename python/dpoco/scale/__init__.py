"""Pools of learners by key, and sweeps of experiments over a grid.

`KeyedPool` and `RayPool` play thousands of private learners: guide ``docs/scale.md``, guarantee
``docs/privacy/pools.md``.

Sweeps are for research: their noise is seeded, which voids every guarantee, and their records say
so.
"""

from __future__ import annotations

from dpoco.scale._pool import KeyedPool
from dpoco.scale._ray_pool import RayPool
from dpoco.scale._sweep import BuiltInRun, StreamRun, sweep
from dpoco.scale._sweep_records import Cell, SweepResults, read_sweep

__all__ = ["BuiltInRun", "Cell", "KeyedPool", "RayPool", "StreamRun", "SweepResults",
           "read_sweep", "sweep"]  # fmt: skip
