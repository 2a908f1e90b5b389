"""Channel choice: informations by hand and by enumeration, and what `auto` picks."""

from __future__ import annotations

import math

import local_cases as cases
import numpy as np
import pytest
from local_cases import FA, FC, report

from dpoco import _core
from dpoco.local import DistributionLearner, Hypotheses, ThresholdQuery
from dpoco.local._bounds import six_digits

UNIFORM = np.full(4, 0.25)


bit_information = _core.local_bit_information


def informations(weights, matrix, epsilon, size=2):
    learner = DistributionLearner(Hypotheses(matrix), epsilon=epsilon)
    return learner._rule.informations(matrix, weights, size)


def mutual_information(weights, laws):
    mean = weights @ laws
    return sum(w * cases.kl(law, mean) for w, law in zip(weights, laws, strict=True))


def test_published_informations():
    means = ThresholdQuery(np.array([0.5, 0.5, -0.5, -0.5])).means(FC)
    for epsilon, bit, response in (
        (1.0, 0.0280462267, 0.0099835125),
        (4.0, 0.1331725627, 0.1700098905),
    ):
        contrast = math.tanh(epsilon / 2)
        assert bit_information(UNIFORM, means, contrast) == pytest.approx(bit, abs=1e-10)
        assert informations(UNIFORM, FC, epsilon)[0] == pytest.approx(response, abs=1e-10)
        assert informations(None, FC, epsilon)[0] == informations(UNIFORM, FC, epsilon)[0]
    assert informations(UNIFORM, FC, 1.0, 2)[1] == pytest.approx(0.0111244735, abs=5e-10)


@pytest.mark.parametrize("seed", range(5))
def test_informations_against_enumeration(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(7), size=5)
    weights = rng.dirichlet(np.ones(5))
    learner = DistributionLearner(Hypotheses(matrix), epsilon=1.7, channel="subset", subset_size=1)
    laws = cases.message_laws(learner.round_spec(), matrix)
    found = informations(weights, matrix, 1.7)[0]
    assert found == pytest.approx(mutual_information(weights, laws), rel=1e-9)
    bits = DistributionLearner(Hypotheses(matrix), epsilon=1.7, channel="bit", public_seed=seed)
    spec = bits.round_spec()
    laws = cases.message_laws(spec, matrix)
    means = spec.queries[0].means(matrix)
    found = bit_information(weights, means, math.tanh(0.85))
    assert found == pytest.approx(mutual_information(weights, laws), rel=1e-9)
    # The approximation for subsets becomes exact for small epsilon.
    small = DistributionLearner(Hypotheses(matrix), epsilon=0.01, channel="subset", subset_size=3)
    laws = cases.message_laws(small.round_spec(), matrix)
    found = informations(weights, matrix, 0.01, 3)[1]
    assert found == pytest.approx(mutual_information(weights, laws), rel=0.02)


def test_auto_picks_the_larger_information():
    # Seed 2024 asks {0, 1} against {2, 3} in one of its first rounds.
    halves = None
    for epsilon, expected in ((1.0, "bit"), (4.0, "subset")):
        learner = DistributionLearner(Hypotheses(FC), epsilon=epsilon, public_seed=1)
        bits = DistributionLearner(Hypotheses(FC), epsilon=epsilon, public_seed=1, channel="bit")
        for _ in range(30):
            spec, other = learner.round_spec(), bits.round_spec()
            positive = np.flatnonzero(other.queries[0].coefficients > 0).tolist()
            means = other.queries[0].means(FC)
            contrast = math.tanh(epsilon / 2)
            values = {
                0: bit_information(UNIFORM, means, contrast),
                1: informations(UNIFORM, FC, epsilon)[0],
            }
            size = learner.settings.subset_size
            if size >= 2:
                values[size] = informations(UNIFORM, FC, epsilon, size)[1]
            best = max(values, key=values.get)
            assert (spec.subset_size or 0) == best
            if positive in ([0, 1], [2, 3]):
                halves = (epsilon, spec.channel)
                assert spec.channel == expected
    assert halves is not None


def test_subsets_that_are_too_long_are_not_chosen():
    rng = np.random.default_rng(0)
    many = rng.dirichlet(np.ones(5000), size=3)

    def size(labels, epsilon, **given):
        rows = Hypotheses(np.full((2, labels), 1.0 / labels))
        return DistributionLearner(rows, epsilon=epsilon, **given).settings.subset_size

    assert size(5000, 5.0) is None
    assert size(1, 5.0) is None
    assert size(4096, 5.0) == round(4096 / (math.exp(5) + 1))
    assert size(4096, 0.1) is None  # 1946 labels of 12 bits each
    # A size that is asked for is used, or refused: never dropped.
    assert size(4096, 0.1, subset_size=2) == 2
    assert size(5000, 5.0, subset_size=2, channel="subset") == 2
    for labels, longest in ((5000, 2), (4096, 342)):
        with pytest.raises(ValueError, match="take channel='subset'"):
            size(labels, 5.0, subset_size=longest)
    assert size(4096, 5.0, subset_size=341) == 341  # 4092 bits
    learner = DistributionLearner(Hypotheses(many), epsilon=5.0)
    assert learner.round_spec().channel == "bit"


def test_informations_are_kept_for_a_context():
    rule = DistributionLearner(Hypotheses(FC), epsilon=1.0, subset_size=2)._rule
    rule.choose_subset(FC, None, [np.zeros(4)])
    kept = rule._context
    rule.choose_subset(FC, None, [np.zeros(4)])
    assert rule._context is kept
    rule.choose_subset(FC.copy(), None, [np.zeros(4)])
    assert rule._context is not kept


def variance(weights, matrix, coefficients):
    means = ThresholdQuery(coefficients).means(matrix)
    return float(weights @ (means - weights @ means) ** 2)


@pytest.mark.parametrize("seed", range(20))
def test_adaptive_queries_separate_more_than_the_pair(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(30), size=9)
    weights = rng.dirichlet(np.full(9, 0.3))
    coefficients, means = _core.local_adaptive_query(weights, matrix)
    np.testing.assert_array_equal(means, ThresholdQuery(coefficients).means(matrix))
    first, second = np.argsort(-weights, kind="stable")[:2]
    pair = np.zeros(9)
    pair[first], pair[second] = 1.0, -1.0
    assert variance(weights, matrix, coefficients) >= variance(weights, matrix, pair)


def test_adaptive_queries_of_certain_weights_still_ask():
    weights = np.array([1.0, 0.0, 0.0])
    coefficients, _ = _core.local_adaptive_query(weights, FA)
    np.testing.assert_array_equal(coefficients, [1.0, -1.0, 0.0])
    uniform = np.full(3, 1 / 3)
    assert variance(uniform, FA, _core.local_adaptive_query(uniform, FA)[0]) > 0.0


def test_interactive_rounds_use_the_weights():
    matrix = np.random.default_rng(3).dirichlet(np.ones(30), size=9)
    learner = DistributionLearner(
        Hypotheses(matrix), epsilon=2.0, interactive=True, channel="bit", public_seed=0
    )
    asked = []
    for _ in range(60):
        spec = learner.round_spec()
        weights, coefficients = learner.weights, spec.queries[0].coefficients
        asked.append(coefficients)
        if sorted(coefficients)[1:-1] != [0.0] * 7:  # else a pair, drawn by public coins
            np.testing.assert_array_equal(
                coefficients, _core.local_adaptive_query(weights, matrix)[0]
            )
        phi = spec.queries[0].values(matrix)
        learner.update(spec, report(spec, int(matrix[2] @ phi > 0)))
    pairs = sum(sorted(c)[1:-1] == [0.0] * 7 for c in asked)
    assert 0 < pairs < 30
    assert len({c.tobytes() for c in asked}) > 20


def test_constants_are_rounded_to_six_digits():
    assert six_digits(0.0720209206) == 0.0720209
    assert six_digits(math.nextafter(0.0720209206, 1)) == 0.0720209
