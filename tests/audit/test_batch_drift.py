"""Sums of long batches: rounding must not carry two neighbouring streams apart.

Equal losses round to one unit in the last place below a power of two and to another above it. Two
sums that stand on either side drift apart with every record they share, unless what rounding loses
is kept. Half a batch of 2^h ones puts them there; 2^h records of 0.6 units drive them apart by
2^(2 h - 53).
"""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.bandits import LinUCB
from dpoco.domains import LpBall
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import LinearLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

H = 16  # the excess is 2^-21 of a loss: small, but it doubles twice with every doubling of a batch


def gap(cls):
    """How far one replaced gradient of a batch moves its sum, and how far it may."""
    half, sums = 2**H, []
    rows = np.ones((2 * half, 1))
    rows[half + 1 :] = 0.6 * 2.0 ** (H - 52)
    for first in (1.0, -1.0):
        rows[0] = first
        learner = cls(
            LpBall(1, 1.0), LinearLoss(1.0), horizon=4 * half, batch=2 * half,
            budget=dpoco.Budget(1.0, 1e-6), source=Source.seeded(0),
        )  # fmt: skip
        learner.run(rows)
        sums.append(np.array(learner._engine.nonprivate_sum())[0])
    return sums[0] - sums[1], learner.guarantee.sensitivity


@pytest.mark.parametrize("cls", [TreeFrankWolfe, PolyhedralFrankWolfe, NoisyFTRL])
def test_sums_of_batches_do_not_drift_apart(cls):
    moved, declared = gap(cls)
    assert moved <= declared * (1.0 + 1e-12)


def test_sums_of_the_bandit_do_not_drift_apart():
    half, sums = 2**H, []
    contexts = np.ones((2 * half, 1))
    contexts[half + 1 :] = np.sqrt(0.6 * 2.0 ** (H - 52))
    for first in (1.0, 0.0):
        contexts[0] = first
        learner = LinUCB(
            1, 1, horizon=2 * half + 1, batch=2 * half, budget=dpoco.Budget(1.0, 1e-6),
            source=Source.seeded(0),
        )  # fmt: skip
        learner.run(contexts, np.zeros((2 * half, 1)))
        sums.append(np.array(learner._engine.nonprivate_sum()))
    moved = sums[0] - sums[1]
    assert moved[0] == pytest.approx(1.0, abs=1e-10)
