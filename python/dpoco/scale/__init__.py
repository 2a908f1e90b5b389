"""Pools of learners by key: thousands of private learners in one process or on several.

Guide: ``docs/scale.md``; guarantee: ``docs/privacy/pools.md``.
"""

from __future__ import annotations

from dpoco.scale._pool import KeyedPool
from dpoco.scale._ray_pool import RayPool

__all__ = ["KeyedPool", "RayPool"]
