"""Packing and BurnAfterPlay: the bound's numbers, who breaks it, and who loses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from bench.worlds import Packing
from tests.worlds import BurnAfterPlay

from dpoco.environments import play
from dpoco.evaluation import best_switching_sequence


@pytest.mark.parametrize(
    ("experts", "phases", "epsilon", "shown", "bound"),
    [(64, 1, 1.0, 2, 1.769), (4096, 4, 0.5, 6, 23.53), (1000, 1, 0.25, 13, 12.66)],
)
def test_the_bound_of_published_cases(experts, phases, epsilon, shown, bound):
    world = Packing(experts, epsilon=epsilon, phases=phases, seed=0)
    assert world.shown == shown
    assert world.horizon == world.largest_regret == phases * shown
    assert world.regret_lower_bound(epsilon) == pytest.approx(bound, abs=0.005)


def test_the_bound_is_the_best_over_shorter_phases_and_falls_with_the_budget():
    world = Packing(1000, epsilon=0.25, seed=0)
    bounds = [world.regret_lower_bound(epsilon) for epsilon in np.linspace(0.01, 8.0, 100)]
    assert all(a >= b >= 0.0 for a, b in itertools.pairwise(bounds))
    assert world.regret_lower_bound(2.0) == max(
        k * (1.0 - math.exp(2.0 * k) / 1000) for k in range(1, 4)
    )
    assert world.regret_lower_bound(8.0) == 0.0
    assert world.regret_lower_bound(1e99) == 0.0
    # With delta: probability that may escape the guarantee, k of it compounded.
    assert world.regret_lower_bound(0.25, 1e-3) == pytest.approx(
        max(
            k * (1 - math.exp(0.25 * k) / 1000 - 1e-3 * sum(math.exp(0.25 * i) for i in range(k)))
            for k in range(1, 14)
        )
    )
    assert world.regret_lower_bound(0.25, 0.99) < world.regret_lower_bound(0.25, 1e-3)


def test_each_phase_hides_one_expert_of_its_group():
    world = Packing(4100, 40, epsilon=0.5, phases=4, seed=3)
    matrix, best = world.matrix(), world.comparator()
    for phase in range(4):
        rows = matrix[10 * phase : 10 * (phase + 1)]
        (good,) = np.flatnonzero(rows[0] == 0.0)
        assert 1025 * phase <= good < 1025 * (phase + 1)
        assert np.array_equal(rows[:6], np.tile(rows[0], (6, 1)))
        assert not rows[6:].any()
        assert (best[10 * phase : 10 * (phase + 1)] == good).all()


def mean_regret(make_player, world, runs):
    totals = []
    for run in range(runs):
        world.reset(run)
        totals.append(play(make_player(run), world).losses.sum())
    return float(np.mean(totals)), float(np.std(totals) / math.sqrt(runs))


def test_a_private_player_respects_the_bound_and_a_leader_breaks_it(players):
    world = Packing(1000, epsilon=0.25, seed=0)
    bound = world.regret_lower_bound(0.25)
    regret, _ = mean_regret(lambda seed: players.FollowTheLeader(1000), world, 50)
    assert regret <= 1.0  # after one round it knows
    # One draw from weights exp(-rate * loss): replacing a round moves every loss by at most 1, so
    # 13 draws are 26 rate-private.
    regret, error = mean_regret(
        lambda seed: players.ExponentialWeights(1000, 0.25 / 26, seed), world, 200
    )
    assert regret + 4 * error >= bound
    assert regret <= world.largest_regret


def test_burnt_experts_lose_for_the_rest_of_the_phase():
    world = BurnAfterPlay(80, 40, switches=1, seed=1)
    assert world.phase_length == 20
    for t in range(40):
        row = world.losses()
        burnt = list(range(t % 20))
        assert (row[burnt] == 1.0).all()
        if t % 20 == 0:
            assert 0.3 < row.mean() < 0.7
        world.observe(t % 20)


def test_biases_are_a_quarter_or_three_quarters():
    world = BurnAfterPlay(4000, 400, seed=5)
    total = np.zeros(4000)
    for _ in range(400):
        total += world.losses()
        world.observe(0)
    rates = total[1:] / 400
    # Seven standard deviations of 3999 means of 400 coins, and five of a mean of 3999 fair ones.
    low = rates < 0.5
    assert np.abs(rates[low] - 0.25).max() < 7 * math.sqrt(0.1875 / 400)
    assert np.abs(rates[~low] - 0.75).max() < 7 * math.sqrt(0.1875 / 400)
    assert low.mean() == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(3999))


def test_exponential_weights_do_well_and_blind_play_does_not(players):
    regrets = {}
    for name, player in {
        "weights": players.ExponentialWeights(4000, math.sqrt(8 * math.log(4000) / 1000), 0),
        "blind": players.Uniform(4000, 0),
    }.items():
        world = BurnAfterPlay(4000, 1000, seed=7)
        trace = play(player, world)
        regrets[name] = trace.regret(world.comparator())[-1]
        rows = np.stack([trace.comparator_losses(j) for j in range(0, 4000, 500)])
        assert rows.shape == (8, 1000)
    assert regrets["weights"] < 100
    assert regrets["blind"] > 200


def test_the_comparator_is_the_best_of_each_phase_in_hindsight():
    world = BurnAfterPlay(100, 50, switches=1, seed=2)
    assert world.comparator().shape == (0,)
    rows = []
    for t in range(50):
        rows.append(world.losses().copy())
        world.observe(t)
        assert world.comparator().shape == (t + 1,)
    matrix = np.array(rows)
    halves = [matrix[:25].sum(axis=0).argmin(), matrix[25:].sum(axis=0).argmin()]
    assert world.comparator().tolist() == [halves[0]] * 25 + [halves[1]] * 25
    best = best_switching_sequence(matrix, 1)
    assert best.total_loss <= matrix[np.arange(50), world.comparator()].sum()
