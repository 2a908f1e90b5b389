"""The lower bound holds every locally private learner, and nobody who sees the labels."""

from __future__ import annotations

import numpy as np
import pytest
from distributions import (
    dirichlet_class,
    draw_labels,
    hadamard_class,
    misspecified,
    near_duplicates,
    softmax_class,
)

from dpoco.environments import simulate_local
from dpoco.evaluation import kl_divergence
from dpoco.local import DistributionLearner, Hypotheses
from dpoco.random import Source

LEARNERS = {
    "posterior": {},
    "bisection": {"channel": "bit"},
    "hadamard": {"channel": "bit", "query": "hadamard", "learning_rate": 1.0},
    "response": {"channel": "subset", "subset_size": 1, "learning_rate": 1.0},
    "hedge": {"learner": "hedge"},
}


def risks(made, epsilon, rounds, build):
    """KL-risks over all members as truth."""
    found = []
    for truth, row in enumerate(made.matrix):
        server = DistributionLearner(
            Hypotheses(made.matrix), epsilon=epsilon, horizon=rounds, public_seed=0, **build
        )
        labels = draw_labels(row, rounds, seed=0)
        trace = simulate_local(server, labels, truth=truth, source=Source.seeded(0))
        found.append(trace.kl_risk)
    return np.array(found)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(("epsilon", "rounds"), [(1.0, 5000), (0.3, 5000)])
def test_learners_respect_the_bound(name, epsilon, rounds):
    made = hadamard_class(7, rounds, epsilon)
    found = risks(made, epsilon, rounds, LEARNERS[name])
    assert found.mean() >= made.risk_lower_bound()


def test_who_sees_the_labels_does_not():
    rounds = 5000
    made = hadamard_class(7, rounds, 0.3)
    found = []
    for truth in range(14):
        labels = draw_labels(made.matrix[truth], rounds, seed=truth)
        with np.errstate(divide="ignore"):
            logs = np.cumsum(np.log(made.matrix[:, labels].T), axis=0)
        logs = np.vstack([np.zeros(14), logs[:-1]])
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        found.append(kl_divergence(made.matrix[truth], weights @ made.matrix).sum())
    assert np.mean(found) < 0.5 * made.risk_lower_bound()


@pytest.mark.parametrize("variant", ["corrected", "printed"])
def test_a_learner_with_too_large_an_epsilon_is_caught(variant):
    made = hadamard_class(7, 20_000, 0.3, variant)
    assert made.risk_lower_bound() > 0
    honest = risks(made, 0.3, 20_000, LEARNERS["response"]).mean()
    cheating = risks(made, 12.0, 20_000, LEARNERS["response"]).mean()
    assert cheating < made.risk_lower_bound() <= honest


def test_all_worlds_can_be_learnt():
    rounds = 4000
    for matrix in (
        dirichlet_class(8, 50, concentration=0.1, seed=3),
        near_duplicates(8, 16, seed=3),
        softmax_class(8, 6, seed=3),
    ):
        contexts = None
        law = matrix[2] if matrix.ndim == 2 else matrix[:, 2]
        if matrix.ndim == 3:
            contexts = np.random.default_rng(0).integers(0, len(matrix), size=rounds)
        labels = draw_labels(law, rounds, contexts, seed=1)
        server = DistributionLearner(Hypotheses(matrix), epsilon=4.0, horizon=rounds, public_seed=1)
        trace = simulate_local(server, labels, contexts, truth=2, source=Source.seeded(1))
        uniform = matrix.mean(axis=-2)
        ignored = kl_divergence(law, uniform)
        ignored = ignored * rounds if contexts is None else ignored[contexts].sum()
        assert trace.kl_risk < (0.5 if matrix.ndim == 2 and ignored < 100 else 0.1) * ignored + 2.0


def test_a_wrong_class_costs_little():
    # K = 8, M = 16, T = 5000, epsilon = 1: the mean excess over the best hypothesis.
    rounds, excess, best = 5000, [], []
    for run in range(100):
        matrix = dirichlet_class(8, 16, seed=run)
        truth = misspecified(matrix[0], seed=1000 + run)
        floor = kl_divergence(truth, matrix).min() * rounds
        labels = draw_labels(truth, rounds, seed=run)
        server = DistributionLearner(
            Hypotheses(matrix), epsilon=1.0, horizon=rounds, public_seed=run
        )
        trace = simulate_local(server, labels, truth=truth, source=Source.seeded(run))
        excess.append(trace.kl_risk - floor)
        best.append(floor)
    assert np.mean(excess) < 0.3 * np.mean(best)
    assert np.mean(best) > 50  # there is something to pay for
