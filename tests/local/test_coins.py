"""Public coins: vectors that every language must meet, exact uniformity, and no way to be noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from local_cases import ReferenceCoins, mix

import dpoco
from dpoco import _core
from dpoco.local import DistributionLearner, Hypotheses, PublicCoins
from dpoco.local import _messages as families
from dpoco.local._bounds import loss_ranges


def test_vectors():
    assert mix(1) == 0x5692161D100B05E5
    coins = PublicCoins(2024, 1, 0)
    words = [coins.word() for _ in range(3)]
    assert words == [0x07FD1ED401632A90, 0x34AF7B4129858AF0, 0xA1947039735C4BAD]


def test_bisection_vectors():
    halves = [
        tuple(
            np.flatnonzero(families.threshold("bisection", 2024, t, 0, 8).coefficients > 0).tolist()
        )
        for t in range(1, 5)
    ]
    assert halves == [(0, 2, 5, 7), (1, 2, 4, 5), (0, 1, 4, 7), (1, 5, 6, 7)]


def test_scheffe_vectors():
    pairs = []
    for t in range(1, 6):
        c = families.threshold("scheffe", 99, t, 0, 6).coefficients
        pairs.append((int(np.argmax(c)), int(np.argmin(c))))
        assert np.count_nonzero(c) == 2
    assert pairs == [(1, 4), (3, 2), (1, 0), (4, 5), (3, 0)]


@pytest.mark.parametrize("seed", [0, 1, 2024, 2**64 - 1])
@pytest.mark.parametrize(("round", "slot"), [(1, 0), (7, 3), (2**63 - 1, 2**32 - 1)])
def test_equal_to_the_definition(seed, round, slot):
    ours, theirs = PublicCoins(seed, round, slot), ReferenceCoins(seed, round, slot)
    assert [ours.word() for _ in range(20)] == [theirs.word() for _ in range(20)]
    # Half of all words are rejected for the last bounds but one.
    for n in (1, 2, 3, 10, 1000, 2**32 + 1, 2**63 + 1, 3 * 2**62, 2**64 - 1):
        assert [ours.below(n) for _ in range(10)] == [theirs.below(n) for _ in range(10)]


def half(seed, round, count):
    """The hypotheses that a bisection sets against the others."""
    return np.flatnonzero(families.threshold("bisection", seed, round, 0, count).coefficients > 0)


def test_halves_are_the_shuffle_as_written():
    for round in range(1, 30):
        coins, index = ReferenceCoins(3, round), list(range(11))
        for i in range(5):
            j = i + coins.below(11 - i)
            index[i], index[j] = index[j], index[i]
        assert half(3, round, 11).tolist() == sorted(index[:5])


def test_halves_are_uniform():
    counts = dict.fromkeys(itertools.combinations(range(6), 3), 0)
    rounds = 20_000
    for round in range(1, rounds + 1):
        counts[tuple(half(11, round, 6).tolist())] += 1
    expected = rounds / len(counts)
    chi = sum((n - expected) ** 2 / expected for n in counts.values())
    assert chi < 62.0  # chi-square with 19 degrees of freedom: beyond with probability 1e-6


def test_streams_of_slots_and_rounds_differ():
    words = {PublicCoins(s, t, b).word() for s in range(5) for t in range(1, 30) for b in range(5)}
    assert len(words) == 5 * 29 * 5


def test_families():
    c = families.threshold("bisection", 1, 1, 0, 5).coefficients
    assert sorted(np.unique(c).tolist()) == [-1 / 3, 1 / 2]
    c = families.threshold("bisection", 1, 1, 0, 3).coefficients
    assert np.count_nonzero(c > 0) == 1
    c = families.threshold("mean_test", 8, 2, 0, 6).coefficients
    assert int(np.argmax(c)) == ReferenceCoins(8, 2).below(6)
    assert math.isclose(c.sum(), 0.0, abs_tol=1e-15)
    assert families.hadamard(8, 2, 0, 100).row == 1 + ReferenceCoins(8, 2).below(127)
    query = families.loss(8, 2, 0, 0.1, loss_ranges(6, 0.1))
    assert query.index == ReferenceCoins(8, 2).below(6)
    for family in families.COIN_FAMILIES:
        assert families.threshold(family, 1, 1, 0, 1).coefficients.tolist() == [0.0]


def test_adaptive_coins_replace_one_query_in_ten():
    settings = DistributionLearner(
        Hypotheses(np.full((7, 4), 0.25)),
        epsilon=1.0,
        channel="bit",
        interactive=True,
        public_seed=5,
    ).settings
    seen = 0
    for round in range(1, 4001):
        coins = ReferenceCoins(5, round, 1000)
        expected = None
        if coins.below(10) == 0:
            a, b = coins.below(7), coins.below(6)
            expected = (a, b + (b >= a))
            seen += 1
        matrix, weights = np.random.default_rng(round).dirichlet(np.ones(4), 7), np.eye(7)[3]
        (query,) = settings.questions(round, matrix, weights, 1.0)
        if expected is not None:
            assert query == families.pair_query(7, *expected)
        else:
            own = _core.local_adaptive_query(weights, matrix)[0]
            np.testing.assert_array_equal(query.coefficients, own)
    assert 300 < seen < 500


def test_coins_are_no_source_of_noise():
    from dpoco.local import BitRandomizer

    coins = PublicCoins(1, 1)
    assert not isinstance(coins, dpoco.random.Source)
    with pytest.raises(AttributeError):
        BitRandomizer(1.0).respond(0.3, coins)
