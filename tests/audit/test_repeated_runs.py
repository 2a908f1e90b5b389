"""Runs that restore one engine again and again: how often they are compared with new ones."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.mechanisms import ContinualSum
from dpoco.random import Source

T, COUNT = 3, 5000
ROWS = np.ones((T, 1))
KEYS = Source.seeded(3).words(4 * COUNT)
OPTIONS = {"horizon": T, "budget": dpoco.Budget(1.0, 1e-3), "numerics": "float"}
SUM = ContinualSum(1, **OPTIONS, source=Source.seeded(0))
LOUD = ContinualSum(1, **{**OPTIONS, "budget": dpoco.Budget(0.1, 1e-3)}, source=Source.seeded(0))


def played(build):
    out = np.empty((COUNT, T))
    built = _core.repeat_vectors(
        "ContinualSum", build, KEYS, ROWS, None, T, None, False, False, out
    )
    return built, out


def honest(key):
    return SUM._build_engine({"key": key, "stream": 1})


def test_runs_all_over_the_count_are_compared():
    asked = []

    def build(key):
        asked.append(int(np.flatnonzero(KEYS[::4] == np.frombuffer(key, dtype="<u8")[0])[0]))
        return honest(key)

    built, _ = played(build)
    runs = sorted(set(asked))
    assert built < 40 < COUNT
    assert set(range(8)) | {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096} <= set(runs)
    others = [run for run in runs if run & (run - 1) and run > 8]
    assert others == [int(run) for run in np.flatnonzero(KEYS[::4] % 1024 == 0) if run > 8]
    assert others


@pytest.mark.parametrize("odd", [16, 4096, "picked"])
def test_one_engine_that_is_built_otherwise_is_noticed(odd):
    """And all runs are those of engines built for them."""
    if odd == "picked":
        odd = int(np.flatnonzero(KEYS[::4] % 1024 == 0)[-1])
    strange = KEYS[4 * odd : 4 * odd + 4].tobytes()

    def build(key):
        return (LOUD if key == strange else SUM)._build_engine({"key": key, "stream": 1})

    built, out = played(build)
    assert built > COUNT
    _, right = played(honest)
    differ = np.flatnonzero(np.any(out != right, axis=1))
    assert differ.tolist() == [odd]
