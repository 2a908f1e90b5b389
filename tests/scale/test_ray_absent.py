"""Without Ray, a clear error; and where keys go."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import dpoco
from dpoco import Budget
from dpoco.scale import RayPool
from dpoco.scale._ray_pool import Routing


def test_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    hedge = dpoco.experts.PrefixHedge(4, horizon=1000, budget=Budget(1.0, 1e-6))
    with pytest.raises(ImportError, match=r"dpoco\[ray\]"):
        RayPool(hedge, shards=2, journal_directory=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_keys_stay_where_they_are(tmp_path):
    keys = [*range(2000), *(f"user {i}" for i in range(2000))]
    first = [Routing(tmp_path / "a", 4).shard(key) for key in keys]
    assert [Routing(tmp_path / "a", 4).shard(key) for key in keys] == first
    other = [Routing(tmp_path / "b", 4).shard(key) for key in keys]
    # Independent and uniform: 1000 on each shard, a quarter where they were; 6 standard deviations.
    assert np.abs(np.bincount(first, minlength=4) - 1000).max() < 6 * np.sqrt(750)
    assert abs(np.sum(np.array(first) == other) - 1000) < 6 * np.sqrt(750)
    with pytest.raises(dpoco.StateError, match="4 shards"):
        Routing(tmp_path / "a", 5)
    (tmp_path / "a" / "shards.json").write_text("{}")
    with pytest.raises(dpoco.StateError, match="corrupt"):
        Routing(tmp_path / "a", 4)
