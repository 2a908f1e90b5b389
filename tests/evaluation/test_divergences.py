"""KL divergence and total variation: one place, measured against the simulation's trace."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpoco._divergences import total_variations
from dpoco.environments import simulate_local
from dpoco.evaluation import kl_divergence, total_variation
from dpoco.local import DistributionLearner, Hypotheses
from dpoco.random import Source

FC = np.array([
    [0.30, 0.25, 0.20, 0.15, 0.07, 0.03],
    [0.05, 0.10, 0.15, 0.20, 0.25, 0.25],
    [0.02, 0.48, 0.02, 0.02, 0.44, 0.02],
    [1 / 6] * 6,
])  # fmt: skip


def test_small_cases():
    p, q = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]
    assert kl_divergence(p, q) == pytest.approx(math.log(2))
    assert kl_divergence(q, p) == math.inf
    assert kl_divergence(p, p) == 0.0
    assert total_variation(p, q) == 0.5
    both = kl_divergence(p, [p, q])
    assert both.shape == (2,)
    assert both == pytest.approx([0.0, math.log(2)])
    pairs = total_variations(FC)
    np.testing.assert_array_equal(np.diagonal(pairs), 0.0)
    np.testing.assert_allclose(pairs, total_variation(FC[:, None], FC[None]), atol=1e-15)


@pytest.mark.parametrize("bad", [([0.5, 0.5], [1.0]), (0.5, 0.5), ([-0.1, 1.1], [0.5, 0.5]),
                                 ([math.nan, 1.0], [0.5, 0.5])])  # fmt: skip
def test_what_is_no_distribution_is_refused(bad):
    for distance in (kl_divergence, total_variation):
        with pytest.raises(ValueError, match="distributions"):
            distance(*bad)


def test_published_predictions_have_the_risk_of_the_trace():
    rounds, truth = 60, 2
    labels = np.random.default_rng(0).choice(6, p=FC[truth], size=rounds)
    server = DistributionLearner(Hypotheses(FC), epsilon=2.0, horizon=rounds, public_seed=3)
    trace = simulate_local(server, labels, truth=truth, source=Source.seeded(1),
                     checkpoints=range(1, rounds + 1))  # fmt: skip
    weights = np.vstack([np.full(4, 0.25), trace.weights[:-1]])
    lam = 1 / rounds
    published = (1 - lam) * weights @ FC + lam * FC.mean(axis=0)
    np.testing.assert_allclose(kl_divergence(FC[truth], published), trace.kl, atol=1e-12)
    np.testing.assert_allclose(total_variation(FC[truth], published), trace.tv, atol=1e-12)
    first = float(np.sum(FC[truth] * np.log(FC[truth] / published[0])))
    assert trace.kl[0] == pytest.approx(first)
