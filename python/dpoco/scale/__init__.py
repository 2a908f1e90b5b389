"""Pools of learners by key, and learners whose batches are added up by many machines.

Guide: ``docs/scale.md``; guarantees: ``docs/privacy/pools.md``, ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

from dpoco.scale._batches import Batch, Batches, BatchPartition
from dpoco.scale._pool import KeyedPool
from dpoco.scale._ray_pool import RayPool

__all__ = ["Batch", "BatchPartition", "Batches", "KeyedPool", "RayPool"]
