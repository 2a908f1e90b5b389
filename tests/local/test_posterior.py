"""The posterior: published weights, exact risks by enumeration, and the theorems behind it."""

from __future__ import annotations

import math

import local_cases as cases
import numpy as np
import pytest
from local_cases import FA, FC, report

from dpoco import _core
from dpoco.local import DistributionLearner, Hypotheses, LocalHypothesisSelector


def test_weights_and_prediction_after_five_bits_and_a_subset():
    common = {"learning_rate": 0.75, "public_seed": 31, "mixing": 0.02}
    learner = DistributionLearner(Hypotheses(FC), epsilon=1.5, channel="bit", **common)
    for bit in (1, 0, 1, 1, 0):
        spec = learner.round_spec()
        learner.update(spec, report(spec, bit))
    weights = [0.208750330528507, 0.177364709760474, 0.412644446570345, 0.201240513140674]
    np.testing.assert_allclose(learner.weights, weights, rtol=0, atol=1e-12)
    probabilities = [
        0.113703916252733, 0.300486137349011, 0.110628125417466,
        0.109090229999832, 0.273209529073015, 0.092882061907943,
    ]  # fmt: skip
    np.testing.assert_allclose(learner.predict().all(), probabilities, rtol=0, atol=1e-12)

    # One report of another privacy goes on from there: likelihoods are all that is kept.
    other = DistributionLearner(
        Hypotheses(FC), epsilon=0.9, channel="subset", subset_size=2, **common
    )
    other._rule.restore(learner._rule.state())
    spec = other.round_spec()
    other.update(spec, report(spec, 0, 3))
    weights = [0.247778141815699, 0.182042198513909, 0.349975417809225, 0.220204241861167]
    np.testing.assert_allclose(other.weights, weights, rtol=0, atol=1e-12)


def expected_risk(matrix, truth, rounds, **build):
    total = 0.0
    for chance, learner, _ in cases.histories({"mixing": 0.1, **build}, matrix, truth, rounds):
        total += chance * cases.kl(matrix[truth], learner.predict().all())
    return total


BITS = {"channel": "bit"}
EXACT = [
    (FA, 0, 10, {"epsilon": 1.0, "public_seed": 2024, "learning_rate": 0.75, **BITS},
     1.0024487971672311),
    (FC, 2, 10, {"epsilon": 2.0, "public_seed": 5, "learning_rate": 0.5, **BITS},
     3.423099164536747),
    (FC, 2, 10, {"epsilon": 2.0, "public_seed": 5, "learning_rate": 1.0, **BITS},
     2.7837962683159896),
    (FA, 1, 6, {"epsilon": 1.0, "channel": "subset", "subset_size": 1}, 0.6201525478606505),
    (FC, 0, 4, {"epsilon": 0.5, "channel": "subset", "subset_size": 2}, 0.8549220851861818),
]  # fmt: skip


@pytest.mark.parametrize(("matrix", "truth", "rounds", "build", "expected"), EXACT)
def test_exact_expected_risk(matrix, truth, rounds, build, expected):
    assert expected_risk(matrix, truth, rounds, **build) == pytest.approx(expected, abs=1e-10)


def hellinger_sum(matrix, truth, rounds, **build):
    """Sum over rounds of E sum_j w_j (1 - BC(g_truth, g_j))."""
    total = 0.0
    for chance, learner, spec in cases.histories(build, matrix, truth, rounds):
        roots = np.sqrt(cases.message_laws(spec, matrix))
        total += chance * float(learner.weights @ (1.0 - roots @ roots[truth]))
    return total


def divergence_sum(matrix, truth, rounds, **build):
    """Sum over rounds of E KL(g_truth, mixture of the g_j)."""
    total = 0.0
    for chance, learner, spec in cases.histories(build, matrix, truth, rounds):
        laws = cases.message_laws(spec, matrix)
        total += chance * cases.kl(laws[truth], learner.weights @ laws)
    return total


@pytest.mark.parametrize(
    "build",
    [
        {"channel": "bit", "public_seed": 1},
        {"channel": "bit", "interactive": True, "public_seed": 2},
        {"channel": "bit", "query": "loss", "public_seed": 3, "mixing": 0.05},
        {"channel": "bit", "query": "hadamard", "public_seed": 3},
        {"channel": "bit", "query": "scheffe", "bits": 2, "public_seed": 4},
        {"channel": "subset"},
        {"channel": "auto", "interactive": True, "public_seed": 5},
    ],
    ids=["bisection", "adaptive", "loss", "hadamard", "two bits", "subset", "auto"],
)
@pytest.mark.parametrize("truth", [0, 2])
def test_theorems_on_messages(build, truth):
    rounds = 6 if build["channel"] == "bit" and build.get("bits", 1) == 1 else 4
    common = {"epsilon": 4.0, **build}
    half = hellinger_sum(FC, truth, rounds, learning_rate=0.5, **common)
    assert 0.0 < half <= math.log(4)
    bayes = divergence_sum(FC, truth, rounds, learning_rate=1.0, **common)
    assert 0.0 < bayes <= math.log(4)


def test_theorem_is_not_idle():
    # Weights that never move break it in the long run: the bound has something to say.
    total = 0.0
    learner = DistributionLearner(Hypotheses(FC), epsilon=4.0, channel="bit", public_seed=1)
    for _ in range(40):
        spec = learner.round_spec()
        roots = np.sqrt(cases.message_laws(spec, FC))
        total += float(np.full(4, 0.25) @ (1.0 - roots @ roots[2]))
    assert total > math.log(4)


def test_information_is_the_affinity_of_whole_transcripts():
    selector = LocalHypothesisSelector(FC, epsilon=1.0, channel="subset", subset_size=2)
    spec = selector.round_spec(1)
    selector.update([report(spec, 0, 1), report(spec, 2, 5)])
    roots = np.sqrt(cases.message_laws(spec, FC))
    np.testing.assert_allclose(
        selector.information(), -2 * np.log(np.minimum(roots @ roots.T, 1.0)), atol=1e-12
    )


def test_information_of_many_subsets_is_a_lower_bound():
    rng = np.random.default_rng(3)
    matrix = rng.dirichlet(np.ones(8), size=3)
    learner = LocalHypothesisSelector(matrix, epsilon=1.0, channel="subset", subset_size=4)
    spec = learner.round_spec(1)
    roots = np.sqrt(cases.message_laws(spec, matrix))
    exact = -np.log(np.minimum(roots @ roots.T, 1.0))
    from dpoco.local import _posterior as _affinity

    learner.update(report(spec, 0, 1, 2, 3))
    np.testing.assert_allclose(learner.information(), exact, atol=1e-12)
    gain = learner._rule._gain(spec)
    bound = _affinity.gap_information(_affinity.subset_gap(matrix, 1, 0.0))
    assert np.abs(bound).max() < 1e-12
    listed, _affinity._LARGEST_LISTED_LAW = _affinity._LARGEST_LISTED_LAW, 10
    try:
        bound = _affinity.gap_information(_affinity.subset_gap(matrix, 4, gain))
    finally:
        _affinity._LARGEST_LISTED_LAW = listed
    off = ~np.eye(3, dtype=bool)
    assert (bound[off] <= exact[off]).all()
    assert (bound[off] > 0.0).all()


def test_one_report_moves_log_odds_by_at_most_epsilon():
    for epsilon in (0.3, 2.0):
        for values in ((0,), (1,)):
            learner = DistributionLearner(Hypotheses(np.eye(4)), epsilon=epsilon, channel="bit")
            spec = learner.round_spec()
            learner.update(spec, report(spec, *values))
            logs = np.log(learner._rule._engine.weights(1.0))
            assert np.ptp(logs) == pytest.approx(epsilon, rel=1e-9)


def test_many_reports_at_once_are_the_same_bits():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(200, 1))
    build = {"epsilon": 1.0, "channel": "bit", "public_seed": 4}
    single, many = (DistributionLearner(Hypotheses(FC), **build) for _ in range(2))
    spec = single.round_spec()
    for row in rows:
        single.update(spec, report(spec, *row))
    many.update(many.round_spec(), [report(spec, *row) for row in rows])
    np.testing.assert_array_equal(single.weights, many.weights)
    # In another order only rounding differs.
    other = DistributionLearner(Hypotheses(FC), **build)
    other.update(other.round_spec(), [report(spec, *row) for row in rows[::-1]])
    np.testing.assert_allclose(other.weights, many.weights, rtol=1e-12)


def test_means_outside_their_range_are_clamped():
    engine = _core.LocalPosterior(4, 1.0)
    engine.add_bits(np.array([[5.0, -1e308, np.nan, 0.5]]), 0.5, np.array([[1]]))
    chances = np.array([1.5, 0.5, 1.0, 1.25]) / 4.25
    np.testing.assert_allclose(engine.weights(1.0), chances, rtol=1e-15)
    for values in ([[2]], [[-1]]):
        with pytest.raises(ValueError, match="bit"):
            engine.add_bits(np.zeros((1, 4)), 0.5, np.array(values))
    for values in ([[6, 0]], [[0, -1]]):
        with pytest.raises(ValueError, match="out of range"):
            engine.add_subsets(FC, 1.0, np.array(values))
    np.testing.assert_allclose(engine.weights(1.0), chances, rtol=1e-15)
