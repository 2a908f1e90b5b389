"""Attacks on the learner's claim: replay on one random tape, and the exact law of its releases."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.domains import LpBall
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, D = 30, 3
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(T, D)), RNG.normal(size=T)


@pytest.mark.parametrize("weight", [1.0, 1e-8, 1e-15, 3e-17, 1e-90])
def test_tiny_losses_and_huge_features_stay_within_the_sensitivity(weight):
    # Scalar times clipping factor may be subnormal, where rounding is coarse.
    learner = TreeFrankWolfe(
        LpBall(2, 2.0, 1e-9), SquaredLoss(1.0, 1.0, weight=weight), horizon=10,
        budget=dpoco.Budget(1.0, 1e-6), source=Source.seeded(0),
    )  # fmt: skip
    zero = np.zeros(2)
    for size in np.geomspace(1e300, 1.79e308, 3000):
        record = np.array([size, 0.0])
        change = learner._engine.leaf(zero, zero, record, -1.0)
        change = change - learner._engine.leaf(zero, zero, record, 1.0)
        assert np.linalg.norm(change) <= learner.guarantee.sensitivity * (1 + 1e-9)
