"""Measured risks: known means, confidence sets at all times, random classes, a wrong truth."""

from __future__ import annotations

import numpy as np
import pytest
from local_cases import FC

from dpoco.environments import simulate_local
from dpoco.local import DistributionLearner, Hypotheses
from dpoco.random import Source

KNOWN = [
    # truth, rounds, epsilon, learner, mean KL-risk, standard deviation
    (0, 2000, 1.0, {"channel": "bit"}, 47.0, 48.0),
    (2, 2000, 1.0, {"channel": "bit"}, 12.3, 12.6),
    (0, 2000, 1.0, {"channel": "subset", "subset_size": 1}, 35.0, 34.0),
    (0, 500, 4.0, {"channel": "subset", "subset_size": 1}, 1.96, 1.9),
    (0, 2000, 0.5, {"channel": "bit"}, 129.0, 97.0),
]


def risks(truth, rounds, epsilon, runs, **build):
    noise = Source.seeded(100 * truth + rounds)
    rng = np.random.default_rng(rounds + truth)
    found = np.empty(runs)
    for run in range(runs):
        learner = DistributionLearner(
            Hypotheses(FC), epsilon=epsilon, horizon=rounds, public_seed=run // 10, **build
        )
        labels = rng.choice(6, p=FC[truth], size=rounds)
        found[run] = simulate_local(learner, labels, truth=truth, source=noise).kl_risk
    return found


@pytest.mark.parametrize(("truth", "rounds", "epsilon", "build", "mean", "deviation"), KNOWN)
def test_known_risks(truth, rounds, epsilon, build, mean, deviation):
    found = risks(truth, rounds, epsilon, 150, **build)
    error = deviation / np.sqrt(found.size)
    assert abs(found.mean() - mean) < 5 * error + 0.05 * mean
    assert 0.5 * deviation < found.std() < 2 * deviation


def test_a_wrong_learner_would_be_seen():
    """The same check, with a temperature that is ignored, fails."""
    truth, rounds, epsilon, build, mean, deviation = KNOWN[0]
    found = risks(truth, rounds, epsilon, 150, learning_rate=0.05, **build)
    assert abs(found.mean() - mean) > 5 * deviation / 12 + 0.05 * mean


@pytest.mark.parametrize("truth", range(4))
def test_confidence_sets_hold_at_all_times(truth):
    runs, missed = 120, 0
    noise = Source.seeded(truth)
    rng = np.random.default_rng(truth)
    for run in range(runs):
        learner = DistributionLearner(Hypotheses(FC), epsilon=1.0, channel="bit", public_seed=run)
        labels = rng.choice(6, p=FC[truth], size=3000)
        missed += simulate_local(learner, labels, truth=truth, source=noise, beta=0.1).misses > 0
    assert missed / runs <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)
    assert missed > 0  # a set that misses never says nothing
    assert truth in learner.confidence_set(1e-6)


def test_measured_risks_of_random_classes():
    """Means over eight classes: the order of the learners, and each within a factor 2.5."""
    rng = np.random.default_rng(8)
    rounds, runs, count, labels = 10_000, 8, 8, 16
    found = np.zeros((runs, 3))
    for run in range(runs):
        matrix = rng.dirichlet(np.ones(labels), size=count)
        truth = int(rng.integers(count))
        stream = rng.choice(labels, p=matrix[truth], size=rounds)
        for place, build in enumerate(({"learner": "hedge"}, {}, {"interactive": True})):
            learner = DistributionLearner(
                Hypotheses(matrix), epsilon=1.0, horizon=rounds, public_seed=run, **build
            )
            trace = simulate_local(learner, stream, truth=truth, source=Source.seeded(run))
            found[run, place] = trace.kl_risk
    means = found.mean(axis=0)
    for mean, expected in zip(means, (375.0, 61.0, 45.0), strict=True):
        assert expected / 2.5 < mean < expected * 2.5
    assert means[0] > means[1:].max()
