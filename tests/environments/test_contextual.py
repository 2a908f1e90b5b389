"""Contextual worlds: what they promise about contexts, rewards and order of calls."""

from __future__ import annotations

import numpy as np
import pytest
from tests.worlds import LogisticWorld

import dpoco
from dpoco.bandits import LinUCB
from dpoco.environments import LinearWorld, play_bandit
from dpoco.random import Source


@pytest.mark.parametrize("norm", [2.0, np.inf])
@pytest.mark.parametrize("sparsity", [None, 2])
def test_bounds_hold_and_are_used(norm, sparsity):
    world = LinearWorld(
        4, 6, 3000, norm=norm, context_bound=0.5, parameter_bound=3.0, sparsity=sparsity,
        reward_noise=0.2, seed=1,
    )  # fmt: skip
    sizes = np.linalg.norm(world.contexts, ord=norm, axis=1)
    assert np.all(sizes <= 0.5)
    assert sizes.max() > 0.499
    dual = np.linalg.norm(world.coefficients, ord=2.0 if norm == 2.0 else 1.0, axis=1)
    assert dual == pytest.approx(np.full(4, 3.0))
    assert np.all(np.count_nonzero(world.coefficients, axis=1) == (sparsity or 6))
    assert world.means == pytest.approx(world.contexts @ world.coefficients.T)
    assert np.abs(world.rewards).max() <= world.reward_bound
    deviation = world.rewards - world.means
    assert np.abs(deviation).max() <= 0.2 + 1e-12
    # 12000 independent uniforms, standard deviation 0.115.
    assert abs(deviation.mean()) < 6 * 0.1155 / np.sqrt(12_000)
    assert np.abs(world.contexts.mean(axis=0)).max() < 6 * 0.5 / np.sqrt(3000)


def test_logistic_rewards():
    world = LogisticWorld(2, 3, 20_000, parameter_bound=4.0, seed=2)
    assert set(np.unique(world.rewards)) == {0.0, 1.0}
    margins = world.contexts @ world.coefficients.T
    assert world.means == pytest.approx(1.0 / (1.0 + np.exp(-margins)))
    assert abs((world.rewards - world.means).mean()) < 6 * 0.5 / np.sqrt(40_000)
    for side in (margins > 1.0, margins < -1.0):
        assert abs((world.rewards - world.means)[side].mean()) < 6 * 0.5 / np.sqrt(side.sum())
    assert world.reward_bound == 1.0


def test_a_seed_is_a_world():
    one, same, other = (LinearWorld(2, 3, 50, seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.rewards, same.rewards)
    assert not np.array_equal(one.rewards, other.rewards)
    unseeded = [LinearWorld(2, 3, 50).contexts for _ in range(2)]
    assert not np.array_equal(*unseeded)
    with pytest.raises(ValueError, match="read-only"):
        one.rewards[0, 0] = 1.0


def test_order_of_calls():
    world = LinearWorld(2, 3, 2, seed=1)
    for bad in (2, -1):
        with pytest.raises(ValueError, match="action"):
            world.reward(bad)
    for bad in (0.5, True, None):
        with pytest.raises(TypeError):
            world.reward(bad)
    assert np.array_equal(world.context(), world.contexts[0])
    assert world.round == 0
    assert world.reward(1) == world.rewards[0, 1]
    assert world.reward(np.int64(0)) == world.rewards[1, 0]
    for use in (world.context, lambda: world.reward(0)):
        with pytest.raises(dpoco.HorizonExceeded):
            use()
    world.reset()
    assert world.round == 0
    for bad in ({"norm": 1.0}, {"sparsity": 4}, {"seed": -1}, {"reward_noise": -0.1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            LinearWorld(2, 3, 4, **bad)
    with pytest.raises(TypeError):
        LinearWorld(2, 3, 4, seed=1.5)


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_playing_is_running():
    world = LinearWorld(3, 4, 60, seed=3)

    def make():
        return LinUCB(
            3,
            4,
            horizon=60,
            budget=dpoco.Budget(1.0, 1e-5),
            batch=1,
            source=Source.seeded(1),
            context_bound=1.0,
            reward_bound=1.0,
        )

    learner = make()
    first = play_bandit(learner, world, rounds=20)
    second = play_bandit(learner, world)
    run = make().run(world.contexts, world.rewards)
    assert np.array_equal(np.concatenate([first.actions, second.actions]), run.actions)
    assert second.first_round == 20
    assert second.pseudo_regret(world.means[20:]).shape == (40,)
    with pytest.raises(ValueError, match="rounds must be left in the world"):
        play_bandit(make(), world)
    world.reset()
    with pytest.raises(ValueError, match="differ in arms"):
        play_bandit(
            LinUCB(2, 4, horizon=60, budget=None, context_bound=1.0, reward_bound=1.0), world
        )
    with pytest.raises(ValueError, match="differ in dimension"):
        play_bandit(
            LinUCB(3, 5, horizon=60, budget=None, context_bound=1.0, reward_bound=1.0), world
        )
