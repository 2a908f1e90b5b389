"""Replay audit of the batched share: what enters its sums, on one random tape.

No statistics are involved: a single violation would prove the claim wrong.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpoco
from dpoco.experts import BatchShare
from dpoco.privacy.mechanisms.batch_release import movement
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def test_centring_is_what_keeps_an_odd_number_of_experts_in_the_ball():
    n = 3
    options = {"horizon": 9, "budget": dpoco.Budget(1.0, 1e-6), "batch": 4, "learning_rate": 0.1}
    inputs = {}
    for noise in ("gaussian", "knorm"):
        for world in (0.0, 1.0):
            learner = BatchShare(
                n, noise=noise, numerics="float", source=Source.seeded(0), **options
            )
            rows = np.full((4, n), 0.5)
            rows[2] = [world, 1 - world, 1 - world]
            learner.run(rows)
            inputs[noise, world] = learner._engine.nonprivate_input()
    moved = {k: np.linalg.norm(inputs[k, 0.0] - inputs[k, 1.0]) for k in ("gaussian", "knorm")}
    declared = movement("gaussian", 3)
    assert 0.999999998 * declared < moved["gaussian"] <= declared
    assert moved["knorm"] == pytest.approx(math.sqrt(3))
    assert inputs["gaussian", 0.0].sum() == pytest.approx(0.0, abs=1e-12)


def test_sums_of_long_batches_do_not_drift_apart():
    # In plain double precision equal losses round to one unit below a power of two and to another
    # above it: neighbours that stand on either side would drift apart, without end.
    half = 2**17
    learners = []
    for first in (0.0, 1.0):
        learner = BatchShare(
            2, horizon=None, budget=dpoco.Budget(1.0, 0.0), batch=2**22, learning_rate=1e-6,
            share_rate=0.1, source=Source.seeded(0),
        )  # fmt: skip
        learner.run(np.array([[first, 0.0]]))
        learner.run(np.ones((half - 1, 2)))
        tiny = 0.6 * 2.0 ** (17 - 53) * 2.0  # 1.2 units below 2^17, 0.6 above
        learner.run(np.full((2**19, 2), tiny))
        learners.append(learner)
    states = [learner._engine.state() for learner in learners]
    sums = [np.frombuffer(state, dtype="<f8")[-5:-3] for state in states]
    assert sums[1][0] - sums[0][0] == 1.0
    assert sums[0][1] == sums[1][1]
