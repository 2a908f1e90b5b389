"""Classes with nothing to tell apart, impossible labels, single rounds."""

from __future__ import annotations

import local_cases as cases
import numpy as np
import pytest
from local_cases import FA, FC

from dpoco.environments import simulate_local
from dpoco.local import DistributionLearner, Hypotheses, LocalClient
from dpoco.random import Source

LEARNERS = [
    {"learner": "posterior"},
    {"learner": "posterior", "channel": "bit", "query": "loss"},
    {"learner": "posterior", "channel": "bit", "query": "hadamard"},
    {"learner": "posterior", "channel": "subset"},
    {"learner": "posterior", "interactive": True},
    {"learner": "hedge"},
    {"learner": "hedge", "channel": "subset"},
    {"learner": "hedge", "range": "worst_case"},
]


def rounds_of(matrix, labels, **build):
    learner = DistributionLearner(Hypotheses(matrix), epsilon=2.0, public_seed=3, **build)
    for seed, label in enumerate(labels):
        device = LocalClient(Hypotheses(matrix), 2.0, simulation_seed=seed)
        spec = learner.round_spec()
        learner.update(spec, device.respond(spec, None, label))
    return learner


@pytest.mark.parametrize("build", LEARNERS, ids=str)
@pytest.mark.parametrize("horizon", [None, 50])
def test_one_hypothesis(build, horizon):
    learner = rounds_of(FC[:1], [0, 5, None, 3] * 5, horizon=horizon, **build)
    np.testing.assert_array_equal(learner.weights, [1.0])
    np.testing.assert_allclose(learner.predict().all(), FC[0], atol=1e-15)


@pytest.mark.parametrize("build", LEARNERS, ids=str)
def test_one_label(build):
    learner = rounds_of(np.ones((3, 1)), [0, None, 0, 0], **build)
    np.testing.assert_allclose(learner.weights, np.full(3, 1 / 3), atol=1e-15)
    np.testing.assert_allclose(learner.predict().all(), [1.0], atol=1e-15)


@pytest.mark.parametrize("build", LEARNERS, ids=str)
def test_two_labels(build):
    matrix = np.array([[0.9, 0.1], [0.1, 0.9]])
    learner = rounds_of(matrix, [0] * 60, **build)
    assert learner.weights[0] > 0.7


@pytest.mark.parametrize("build", LEARNERS, ids=str)
def test_duplicate_rows_keep_equal_weights(build):
    matrix = FC[[0, 2, 0, 1, 2]]
    learner = rounds_of(matrix, [1, 4, 4, 1, 0, None] * 5, **build)
    weights = learner.weights
    if build["learner"] == "hedge" and build.get("channel") != "subset":
        return  # one coordinate is asked for at a time: equal in expectation only
    np.testing.assert_allclose(weights[[0, 1]], weights[[2, 4]], rtol=0, atol=1e-15)


@pytest.mark.parametrize("build", LEARNERS, ids=str)
def test_labels_no_hypothesis_allows(build):
    matrix = np.array([[0.5, 0.5, 0.0, 0.0], [0.2, 0.8, 0.0, 0.0], [0.9, 0.1, 0.0, 0.0]])
    learner = rounds_of(matrix, [3, 2, 3, None, 7, -1] * 4, **build)
    assert np.isfinite(learner.weights).all()
    assert learner.predict().prob(3) == 0.0


def test_three_hypotheses_are_split_one_against_two():
    learner = DistributionLearner(Hypotheses(FA), epsilon=1.0, channel="bit", public_seed=0)
    for _ in range(20):
        coefficients = np.sort(learner.round_spec().queries[0].coefficients)
        np.testing.assert_allclose(coefficients, [-0.5, -0.5, 1.0])


@pytest.mark.parametrize("build", LEARNERS, ids=str)
def test_one_round(build):
    learner = rounds_of(FA, [], horizon=1, **build)
    np.testing.assert_allclose(learner.predict().all(), FA.mean(axis=0), atol=1e-15)
    assert learner.mixing == 1.0
    learner = rounds_of(FA, [0], horizon=1, **build)
    assert learner.mixing == 1.0


def test_disjoint_supports():
    learner = rounds_of(cases.FB, [0, 1] * 40)
    assert learner.weights[0] > 0.95


@pytest.mark.parametrize("epsilon", [1e-6, 30.0])
@pytest.mark.parametrize("learner", ["posterior", "hedge"])
def test_extreme_epsilons(epsilon, learner):
    server = DistributionLearner(
        Hypotheses(FC), epsilon=epsilon, learner=learner, public_seed=1, horizon=300
    )
    labels = np.random.default_rng(0).choice(6, p=FC[2], size=300)
    simulate_local(server, labels, source=Source.seeded(0))
    assert np.isfinite(server.weights).all()
    if epsilon == 30.0:
        assert server.weights.argmax() == 2
    elif learner == "posterior":  # hedge follows noise, and mixes it away
        np.testing.assert_allclose(server.weights, 0.25, atol=1e-3)


def test_many_hypotheses_and_labels():
    rng = np.random.default_rng(4)
    matrix = rng.dirichlet(np.full(50, 0.1), size=1000)
    server = DistributionLearner(Hypotheses(matrix), epsilon=4.0, public_seed=1)
    labels = rng.choice(50, p=matrix[17], size=1500)
    simulate_local(server, labels, source=Source.seeded(1))
    assert server.weights[17] > 0.5
