"""How many reports it takes: published numbers, enumeration, and the error that is really made."""

from __future__ import annotations

import math

import numpy as np
import pytest
from distributions import dirichlet_class
from local_cases import FA, FC

from dpoco.environments import simulate_local
from dpoco.evaluation import total_variation
from dpoco.local import (
    BitRandomizer,
    DistributionLearner,
    Hypotheses,
    LocalHypothesisSelector,
    median_select,
    required_users,
)
from dpoco.local import _messages as families
from dpoco.local._learner import mean_affinity_gap
from dpoco.random import Source

BITS = {"channel": "bit"}
RESPONSE = {"channel": "subset", "subset_size": 1}
SUBSETS = {"channel": "subset", "subset_size": 2}


def affinity(matrix, seed=0, **more):
    given = {"epsilon": 1.0, "public_seed": seed, **more}
    return 1.0 - mean_affinity_gap(LocalHypothesisSelector(matrix, **given))


def test_published_coefficients():
    found = affinity(FC, **BITS)
    assert found[0, 1] == pytest.approx(0.996006735993508, abs=1e-14)
    assert found[0, 2] == pytest.approx(0.969929944523812, abs=1e-14)
    assert found[1, 3] == pytest.approx(0.999276147153725, abs=1e-14)
    np.testing.assert_array_equal(np.diagonal(found), 1.0)


@pytest.mark.parametrize(
    ("channel", "alpha", "users"),
    [(BITS, 0.05, 4241), (BITS, 0.3, 749), (RESPONSE, 0.05, 2478), (RESPONSE, 0.3, 491),
     (SUBSETS, 0.05, 2325), (SUBSETS, 0.3, 452)],
)  # fmt: skip
def test_published_numbers_of_users(channel, alpha, users):
    assert required_users(FC, epsilon=1.0, alpha=alpha, beta=0.05, **channel) == users
    assert required_users(Hypotheses(FC), epsilon=1.0, alpha=alpha, **channel) == users


def test_hypotheses_that_are_nearly_equal_take_more_users_than_any_sequence_has():
    """The number grows like the inverse square of the distance, beyond 2^63 as well."""
    found = []
    for apart in (1e-6, 1e-9, 1e-12):
        rows = np.array([[0.5, 0.5], [0.5 + apart, 0.5 - apart]])
        found.append(required_users(rows, epsilon=0.01, **BITS))
    assert found[-1] > 2**63
    assert found[1] / found[0] == pytest.approx(1e6, rel=1e-3)
    assert found[2] / found[1] == pytest.approx(1e6, rel=1e-2)


@pytest.mark.parametrize(
    ("channel", "truth"),
    [(BITS, 0), (BITS, 2), (RESPONSE, 1), (RESPONSE, 3), (SUBSETS, 0), (SUBSETS, 3)],
)
def test_the_error_at_that_number_is_at_most_beta(channel, truth):
    alpha, beta, runs = 0.3, 0.05, 300
    users = required_users(FC, epsilon=1.0, alpha=alpha, beta=beta, **channel)
    rng = np.random.default_rng(truth)
    apart = 0.5 * np.abs(FC - FC[truth]).sum(axis=1) > alpha

    def errors(count):
        wrong = 0
        for run in range(runs):
            server = DistributionLearner(
                Hypotheses(FC), epsilon=1.0, learning_rate=1.0, public_seed=run, **channel
            )
            labels = rng.choice(6, p=FC[truth], size=count)
            simulate_local(server, labels, source=Source.seeded(run))
            wrong += bool(apart[np.argmax(server.weights)])
        return wrong / runs

    # Hoeffding: a false alarm has probability below 1e-6.
    assert errors(users) <= beta + math.sqrt(math.log(1e6) / (2 * runs))
    assert errors(max(users // 50, 1)) > beta  # so the test can fail


@pytest.mark.parametrize("family", [*families.COIN_FAMILIES, "hadamard"])
def test_enumeration_is_the_mean_over_public_draws(family):
    contrast = BitRandomizer(1.0).contrast
    total = np.zeros((4, 4))
    for t in range(1, 4001):
        coined = family in families.COIN_FAMILIES
        asked = families.threshold(family, 5, t, 0, 4) if coined else families.hadamard(5, t, 0, 6)
        means = asked.means(FC)
        laws = 0.5 * (1 + contrast * np.stack([means, -means], axis=1))
        total += np.sqrt(laws) @ np.sqrt(laws).T
    np.testing.assert_allclose(total / 4000, affinity(FC, query=family, **BITS), atol=2e-3)


def test_large_classes_use_public_draws():
    matrix = dirichlet_class(16, 5, seed=1)  # 12870 bisections
    first, again = (required_users(matrix, epsilon=2.0, seed=4, **BITS) for _ in range(2))
    other = required_users(matrix, epsilon=2.0, seed=5, **BITS)
    assert first == again
    assert first != other
    assert abs(first - other) < 0.5 * first


def test_automatic_choice_is_one_of_the_channels():
    for epsilon, channel in ((1.0, BITS), (4.0, RESPONSE)):
        auto = required_users(FC, epsilon=epsilon, alpha=0.05)
        assert auto <= required_users(FC, epsilon=epsilon, alpha=0.05, **BITS)
        if channel is BITS:
            assert auto == required_users(FC, epsilon=epsilon, alpha=0.05, **BITS)


def test_more_bits_and_more_epsilon():
    few = required_users(FC, epsilon=6.0, **BITS)
    assert required_users(FC, epsilon=6.0, bits=2, **BITS) < few
    assert required_users(FC, epsilon=3.0, **BITS) > few


def test_extremes():
    assert required_users(FC, epsilon=1.0, alpha=0.9) == 0
    assert required_users([[1.0]], epsilon=1.0) == 0
    assert required_users(np.vstack([FA, FA]), epsilon=1.0) > 0
    # Tiny gaps keep their digits: an eps of 1e-6 needs 1e12 times as many as one of 1.
    tiny = required_users(FC, epsilon=1e-6, alpha=0.3, **BITS)
    assert tiny == pytest.approx(749 * math.tanh(0.5) ** 2 / 0.25e-12, rel=0.02)
    assert required_users(FC, epsilon=1e-16, **BITS) == math.inf  # the bits say nothing


def test_questions_that_never_separate_a_pair():
    # All three bisections ask whether the label is the first, of equal probability under two rows.
    twins = [[0.5, 0.25, 0.25], [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]
    assert required_users(twins, epsilon=1.0, **BITS) == math.inf
    assert required_users(twins, epsilon=1.0, alpha=0.05, **BITS) < 1000  # they are that close
    for other in ({"query": "scheffe", **BITS}, {"query": "hadamard", **BITS}, RESPONSE):
        assert required_users(twins, epsilon=1.0, **other) < math.inf
    # A row and its complement: one question of the Hadamard matrix is enough.
    mirrored = [[0.4, 0.1, 0.1, 0.4], [0.1, 0.4, 0.4, 0.1]]
    assert required_users(mirrored, epsilon=1.0, query="hadamard", **BITS) < math.inf


def test_contexts_are_refused():
    with pytest.raises(ValueError, match="no contexts"):
        required_users(Hypotheses(np.stack([FA, FA])), epsilon=1.0)


# -- the median of several groups' answers, with bad groups that conspire -------------------------


def test_the_middle_of_three():
    rows = np.array([[0.5, 0.5], [0.6, 0.4], [0.0, 1.0]])
    found = median_select(rows)
    assert found.index == 0  # the first of two at the same median
    assert found.radius == pytest.approx(0.1)
    assert found.failure == pytest.approx(math.exp(-3 / 18))
    np.testing.assert_array_equal(found.distribution, rows[0])


def test_the_lower_median_counts_the_row_itself():
    rows = np.array([[0.0, 1.0], [0.1, 0.9], [0.5, 0.5], [1.0, 0.0]])
    # The second smallest of four distances, the own 0 among them.
    assert median_select(rows).radius == pytest.approx(0.1)
    assert median_select(rows[:1]).radius == 0.0
    assert median_select(rows[:2]).radius == 0.0


@pytest.mark.parametrize("groups", [1, 2, 5, 8, 31])
def test_a_majority_of_good_rows_decides(groups):
    rng = np.random.default_rng(groups)
    alpha, truth = 0.05, FC[0]
    good = groups // 2 + 1
    for _ in range(50):
        rows = np.tile(FC[1], (groups, 1))  # the bad ones agree with each other
        for i in range(good):
            other = rng.dirichlet(np.ones(6))
            reach = alpha / max(total_variation(truth, other), alpha)
            rows[i] = (1 - reach) * truth + reach * other
        order = rng.permutation(groups)
        found = median_select(rows[order])
        assert total_variation(found.distribution, truth) <= 3 * alpha + 1e-12
        if good < groups:
            # Were the worst median taken for the best, the guarantee would fail.
            medians = [np.sort(total_variation(row, rows))[(groups + 1) // 2 - 1] for row in rows]
            worst = rows[int(np.argmax(medians))]
            assert total_variation(worst, truth) > 3 * alpha


def test_failures_become_rare():
    # Groups are good with probability 2/3; alone a third of them fail.
    rng = np.random.default_rng(3)
    groups, runs, failed = 72, 300, 0
    for _ in range(runs):
        bad = rng.random(groups) < 1 / 3
        rows = np.where(bad[:, None], FC[1], FC[0])
        failed += total_variation(median_select(rows).distribution, FC[0]) > 0
    assert failed / runs <= math.exp(-groups / 18) + math.sqrt(math.log(1e6) / (2 * runs))
