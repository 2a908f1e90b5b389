"""Comparators of games with experts: against brute force, by hand, and as learners admit losses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpoco.evaluation import best_expert, best_switching_sequence, interval_regret


def formula_losses():
    t, j = np.arange(30)[:, None], np.arange(4)
    return ((5 * t * t + 3 * j * t + 7 * j) % 13) / 12


def switches_of(sequence):
    return int(np.count_nonzero(np.diff(sequence)))


def brute_force_costs(losses, limit):
    """Least total loss with at most c switches, for c = 0..limit: by trying every sequence."""
    rounds, experts = losses.shape
    costs = np.full(limit + 1, np.inf)
    for sequence in itertools.product(range(experts), repeat=rounds):
        total = losses[np.arange(rounds), sequence].sum()
        used = switches_of(sequence)
        costs[used:] = np.minimum(costs[used:], total)
    return costs


@pytest.mark.parametrize("experts", [1, 2, 3])
@pytest.mark.parametrize("rounds", range(1, 7))
def test_all_costs_are_those_of_every_sequence_tried(experts, rounds):
    generator = np.random.default_rng(10 * experts + rounds)
    # Sixteenths add without rounding, and there are ties.
    tables = [generator.integers(0, 17, (rounds, experts)) / 16.0 for _ in range(4)]
    tables.append(generator.integers(0, 2, (rounds, experts)).astype(float))
    for losses in tables:
        reference = brute_force_costs(losses, rounds + 1)
        for limit in range(rounds + 2):
            best = best_switching_sequence(losses, limit)
            assert np.array_equal(best.costs, reference[: min(limit, rounds - 1) + 1])
            assert best.total_loss == losses[np.arange(rounds), best.decisions].sum()
            assert best.total_loss == best.costs[-1] == reference[limit]
            fewest = int(np.argmax(reference == reference[limit]))
            assert switches_of(best.decisions) == len(best.switches) == fewest


def test_costs_of_a_published_table():
    losses = formula_losses()
    best = best_switching_sequence(losses, 5)
    np.testing.assert_allclose(
        best.costs, [13.5, 37 / 3, 67 / 6, 32 / 3, 10.0, 9.5], rtol=0, atol=1e-12
    )
    assert best.limit == 5
    assert best.total_loss == pytest.approx(losses[np.arange(30), best.decisions].sum())
    assert best_expert(losses).total_loss == pytest.approx(13.5)


def test_the_costs_are_not_convex_in_the_limit():
    best = best_switching_sequence([[1, 3], [1, 0], [1, 2], [0, 0]], 3, loss_range=(0, 3))
    assert best.costs.tolist() == [3, 3, 2, 2]
    assert best.decisions.tolist() == [0, 1, 0, 0]  # two of the three allowed switches


def test_ties_are_broken_the_same_way_always():
    assert best_switching_sequence(np.zeros((5, 3)), 4).decisions.tolist() == [0] * 5
    assert best_expert([[0.5, 0.25, 0.25]]).decision == 1


def test_long_games_agree_with_a_plain_program():
    generator = np.random.default_rng(0)
    rounds, experts, limit = 3000, 7, 40
    losses = generator.integers(0, 1025, (rounds, experts)) / 1024.0
    layers = np.tile(losses[0], (limit + 1, 1))
    for row in losses[1:]:
        switched = np.vstack(
            [np.full(experts, np.inf), np.tile(layers[:-1].min(1), (experts, 1)).T]
        )
        layers = row + np.minimum(layers, switched)
    best = best_switching_sequence(losses, limit)
    assert np.array_equal(best.costs, layers.min(axis=1))
    assert best.total_loss == losses[np.arange(rounds), best.decisions].sum()
    assert len(best.switches) <= limit


def test_sequences_may_switch_in_every_round():
    losses = 1.0 - np.tile(np.eye(2), (300, 1))
    best = best_switching_sequence(losses, 599)
    assert best.total_loss == 0.0
    assert np.array_equal(best.decisions, np.arange(600) % 2)


def brute_force_interval(own, losses, allowance):
    rounds = len(own)
    sums = np.vstack([np.zeros(losses.shape[1]), np.cumsum(own[:, None] - losses, axis=0)])
    powers = 4.0 ** np.arange(0, 12)
    largest = 0.0
    for start, stop in itertools.combinations(range(rounds + 1), 2):
        tangents = 0.5 * allowance * (np.sqrt(powers) + (stop - start) / np.sqrt(powers))
        largest = max(largest, (sums[stop] - sums[start]).max() - tangents.min())
    return largest


def test_interval_regret_of_a_published_game():
    losses = formula_losses()
    own = losses[np.arange(30), np.arange(30) % 4]
    assert interval_regret(own, losses) == pytest.approx(3.0, abs=1e-12)


@pytest.mark.parametrize("allowance", [0.0, 0.05, 0.3, 5.0])
def test_interval_regret_is_that_of_every_interval_tried(allowance):
    generator = np.random.default_rng(1)
    for rounds, experts in [(1, 1), (2, 3), (17, 1), (60, 4)]:
        losses = generator.random((rounds, experts))
        own = generator.random(rounds) * 0.8 + 0.2
        expected = brute_force_interval(own, losses, allowance)
        assert interval_regret(own, losses, allowance=allowance) == pytest.approx(
            expected, abs=1e-12
        )


def test_the_allowance_of_four_rounds_is_exact():
    own, losses = [0, 1, 1, 1, 1, 0, 0, 0], np.zeros((8, 1))
    assert [interval_regret(own, losses, allowance=c) for c in (0.0, 1.0, 10.0)] == [4.0, 2.0, 0.0]


def test_whoever_is_never_worse_has_no_interval_regret():
    losses = np.random.default_rng(2).random((50, 3))
    assert interval_regret(losses.min(axis=1), losses) == 0.0


def test_losses_are_admitted_as_learners_admit_them():
    losses = np.array([[np.nan, 5.0], [9.0, -3.0], [np.inf, 4.0]])
    best = best_switching_sequence(losses, 2, loss_range=(1.0, 4.0))
    # NaN and infinity count as 1, 5 and 9 as 4, -3 as 1.
    assert best.decisions.tolist() == [0, 1, 0]
    assert best.total_loss == 3.0
    assert best.costs.tolist() == [6.0, 6.0, 3.0]
    own = [np.inf, 9.0, 4.0]  # 1, 4, 4
    assert interval_regret(own, losses, loss_range=(1.0, 4.0)) == 3.0
    assert best_expert(losses, loss_range=(1.0, 4.0)).decision == 0


def test_results_cannot_be_changed():
    best = best_switching_sequence(np.zeros((3, 2)), 1)
    for array in (best.decisions, best.costs):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert best.decisions.dtype == np.int64
