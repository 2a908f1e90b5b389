"""The batch baselines learn: fixed seeds, bands far from chance.

The setting is that of Han et al., section 5, at an exact (1, 1/n) guarantee.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.samples import mean_suboptimality as mean

import dpoco
from dpoco.domains import LpBall
from dpoco.frank_wolfe import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    SufficientStatistics,
)
from dpoco.losses import LogisticLoss
from dpoco.random import Source


@pytest.mark.parametrize(
    ("cls", "n", "d", "p", "low", "high"),
    [
        # Measured by others with the same method: 0.64, 0.20, 0.12; 0.16, 0.54.
        (NoisyFrankWolfe, 1000, 5, 1.5, 0.4, 0.9),
        (NoisyFrankWolfe, 5000, 5, 1.5, 0.13, 0.3),
        (NoisyFrankWolfe, 10_000, 5, 1.5, 0.08, 0.18),
        (PhasedSGD, 10_000, 5, np.inf, 0.05, 0.2),
        (PhasedSGD, 10_000, 10, np.inf, 0.25, 0.7),
        (LocalizedMirrorDescent, 10_000, 5, 1.5, 0.0, 0.03),
        (SufficientStatistics, 10_000, 5, 1.5, 0.0, 0.0015),
        (SufficientStatistics, 10_000, 10, np.inf, 0.0, 0.05),
    ],
)
def test_bands(cls, n, d, p, low, high):
    assert low < mean(cls, n, d, p) < high


def test_noisy_sgd_learns_from_few_records():
    assert mean(NoisySGD, 1000, 5, np.inf, seeds=3) < 0.25
    assert mean(NoisySGD, 2000, 5, np.inf, seeds=2) < 0.15


@pytest.mark.parametrize(
    "cls", [NoisyFrankWolfe, NoisySGD, PhasedSGD, LocalizedMirrorDescent, SufficientStatistics]
)
def test_without_noise_the_optimum_is_near(cls):
    assert mean(cls, 1500, 5, 1.5, seeds=3, budget=None) < 0.35


def test_published_constants_are_worse():
    assert mean(PhasedSGD, 5000, 5, 2.0, calibration="paper") > 1.3 * mean(PhasedSGD, 5000, 5, 2.0)
    published = mean(NoisyFrankWolfe, 5000, 5, 1.5, step_scale=1.0)
    assert published > 5 * mean(NoisyFrankWolfe, 5000, 5, 1.5)


def test_classification():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X @ [1.0, -1.0, 0.5] > 0).astype(float)
    for cls in (NoisyFrankWolfe, PhasedSGD, LocalizedMirrorDescent):
        model = cls(LpBall(3, 2.0, 5.0), LogisticLoss(1.0), budget=dpoco.Budget(2.0, 1e-5),
                    source=Source.seeded(1)).fit(X[:5000], y[:5000])  # fmt: skip
        assert np.mean((model.predict(X[5000:]) > 0) == y[5000:]) > 0.85
