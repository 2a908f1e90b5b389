"""The simulated noise is the printed one, and nothing can learn with it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scipy
from bench import reproduce
from bench.reproduce import figure as _figure
from bench.reproduce import verdict as law

import dpoco
from dpoco.accounting.claims import published_sigma
from dpoco.datasets import linear_regression_stream

RUNS, ROUNDS, D = 2, 60, 4


def data(p):
    streams = [linear_regression_stream(ROUNDS, D, p, seed) for seed in range(RUNS)]
    return np.stack([s.features for s in streams]), np.stack([s.labels for s in streams])


@pytest.mark.parametrize("p", [1.5, 2.0, 4.0, np.inf])
@pytest.mark.parametrize("step_scale", [0.3, 1.0])
def test_without_noise_it_is_the_published_algorithm(monkeypatch, p, step_scale):
    monkeypatch.setattr(law, "draw_unit_noise", lambda g, shape, q, d: np.zeros((*shape, d)))
    features, labels = data(p)
    ours = law.not_private_decisions(
        features, labels, p, radius=2.0, step_scale=step_scale, generator=np.random.default_rng(0)
    )
    for run in range(RUNS):
        learner = dpoco.frank_wolfe.TreeFrankWolfe(
            dpoco.domains.LpBall(D, p, 2.0), dpoco.losses.SquaredLoss(1.0, 2.0), horizon=ROUNDS,
            budget=None, weights="paper", step_scale=step_scale,
        )  # fmt: skip
        learner.run(features[run], labels[run])
        np.testing.assert_allclose(ours[run], learner.last_decision, rtol=1e-6)


@pytest.mark.parametrize("dimension", [5, 10, 20])
def test_the_radius_is_the_printed_one(dimension):
    """False alarms: 1e-6 each. The radius that privacy needs fails by far."""
    rng = np.random.default_rng(dimension)
    sigma = law.printed_scale(1000, 3.0, dimension)
    noise = np.sqrt(sigma) * law.draw_unit_noise(rng, (20_000,), 3.0, dimension)
    order = law.printed_order(3.0, dimension)
    squares = np.sum(np.abs(noise) ** order, axis=1) ** (2.0 / order)
    printed = scipy.stats.gamma(0.5 * dimension, scale=2.0 * sigma)
    needed = scipy.stats.gamma(0.5 * dimension, scale=2.0 * sigma**2)
    assert scipy.stats.kstest(squares, printed.cdf).pvalue > 1e-6
    assert scipy.stats.kstest(squares, needed.cdf).pvalue < 1e-100
    assert scipy.stats.binomtest(int((noise[:, 0] > 0).sum()), 20_000).pvalue > 1e-6


def test_above_two_the_noise_is_gaussian_of_variance_sigma():
    drawn = law.draw_unit_noise(np.random.default_rng(0), (20_000,), 1.0, 3)
    assert scipy.stats.kstest(drawn.ravel(), "norm").pvalue > 1e-6


def test_the_printed_scale():
    budget = dpoco.Budget(1.0, 1e-3)
    plain = published_sigma(budget, pushes=1000, kappa=1.0, leaf_bound=8.0)
    assert law.printed_scale(1000, 1.0, 7) == plain
    assert law.printed_scale(1000, 3.0, 20) == pytest.approx(np.sqrt(2.0) * plain)


@pytest.mark.parametrize("rounds", [1, 2, 3, 8, 13, 16])
def test_prefixes_are_sums_over_dyadic_nodes(rounds):
    draws = np.random.default_rng(1).normal(size=(rounds, 2))
    sums = law._tree_sums(draws)
    for t in range(1, rounds + 1):
        rest, total = t, np.zeros(2)
        while rest:  # a node's only draw is that of its last round
            total += draws[rest - 1]
            rest &= rest - 1
        np.testing.assert_allclose(sums[t - 1], total, atol=1e-12)


def test_no_learner_can_reach_it():
    package = Path(dpoco.__file__).parent
    for path in package.rglob("*.py"):
        assert not re.search("not_private_|draw_unit_noise", path.read_text()), path
    assert "NOT PRIVATE" in law.__doc__
    assert "NOT PRIVATE" in _figure.__doc__
    assert not any(re.search("not_private|noise$", name) for name in reproduce.__all__)
