"""Private LinUCB earns: far more than uniform play, ever less regret, and for the right reason."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dpoco
from dpoco.accounting import linucb as accountant
from dpoco.bandits import LinUCB
from dpoco.environments import LinearWorld
from dpoco.random import Source

ARMS, D, T = 3, 5, 20_000


def regret(world, rewards=None, budget=None, **options):
    learner = LinUCB(
        world.arms, world.dimension, horizon=world.horizon, budget=budget,
        reward_bound=world.reward_bound, reward_noise=0.1, source=Source.seeded(1),
        **{"context_bound": 1.0, **options},
    )  # fmt: skip
    trace = learner.run(world.contexts, world.rewards if rewards is None else rewards)
    return trace.pseudo_regret(world.means)


def uniform(world):
    return np.cumsum(world.means.max(axis=1) - world.means.mean(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_it_beats_uniform_play_and_slows_down(seed):
    world = LinearWorld(ARMS, D, T, seed=seed)
    for budget, share in ((dpoco.Budget(1.0, 1e-6), 0.15), (dpoco.Budget(8.0, 1e-6), 0.03)):
        own, blind = regret(world, budget=budget), uniform(world)
        assert own[-1] < share * blind[-1]
        quarters = np.diff(own[np.array([0, T // 4, T // 2, 3 * T // 4, T - 1])])
        assert quarters[3] < 0.3 * quarters[0]
        assert own[-1] < LinUCB(
            ARMS, D, horizon=T, budget=budget, reward_bound=1.1, reward_noise=0.1, context_bound=1.0
        ).plan.forecast.regret_bound  # fmt: skip
    assert regret(world)[-1] < 0.01 * uniform(world)[-1]


@pytest.mark.parametrize("seed", range(2))
def test_one_that_forgets_follows_arms_that_turn(seed):
    """The regret falls by two times or more where all arms turn by 90 degrees."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(T, D))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    angles = 0.5 * np.pi * np.arange(T)[:, None] / (T / 2)
    means = np.empty((T, ARMS))
    for arm in range(ARMS):
        first, second = np.linalg.qr(rng.normal(size=(D, 2)))[0].T
        truth = np.cos(angles) * first + np.sin(angles) * second
        means[:, arm] = np.einsum("td,td->t", contexts, truth)
    lost = []
    for half_life in (None, 0.05 * T):
        learner = LinUCB(
            ARMS, D, horizon=T, budget=dpoco.Budget(8.0, 1e-6), context_bound=1.0,
            reward_bound=1.0, reward_noise=0.3, half_life=half_life, source=Source.seeded(seed),
        )  # fmt: skip
        lost.append(learner.run(contexts, means).pseudo_regret(means)[-1])
    assert lost[1] < 0.5 * lost[0]


def test_a_learner_of_the_worst_arm_is_far_worse_than_uniform():
    world = LinearWorld(ARMS, D, T, seed=5)
    wrong = regret(world, rewards=-world.rewards, budget=dpoco.Budget(8.0, 1e-6))
    assert wrong[-1] > 1.5 * uniform(world)[-1]


def test_the_bound_is_not_vacuous_and_holds():
    world = LinearWorld(2, 2, 200_000, seed=2)
    budget = dpoco.Budget(8.0, 1e-6)
    learner = LinUCB(
        2, 2, horizon=200_000, budget=budget, reward_bound=1.1, reward_noise=0.1,
        exploration=1.0, source=Source.seeded(3), context_bound=1.0
    )  # fmt: skip
    bound = learner.plan.forecast.regret_bound
    assert bound < 0.5 * 2.0 * 200_000
    own = learner.run(world.contexts, world.rewards).pseudo_regret(world.means)[-1]
    assert own < bound
    assert learner.guarantee.regret_bound == bound


def test_hopeless_settings_warn():
    with pytest.warns(dpoco.NoiseDominatesWarning):
        LinUCB(
            5, 50, horizon=1000, budget=dpoco.Budget(1.0, 1e-6), context_bound=1.0, reward_bound=1.0
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinUCB(
            2,
            5,
            horizon=100_000,
            budget=dpoco.Budget(1.0, 1e-6),
            context_bound=1.0,
            reward_bound=1.0,
        )
        LinUCB(5, 50, horizon=1000, budget=None, context_bound=1.0, reward_bound=1.0)


# (K, d, T, epsilon, delta, X) and regret over that of uniform play: docs/bandits.md, reproduce.md.
MEASURED = [
    (2, 50, 10_000, 1.0, 1e-6, 50**0.5, 1.0),
    (2, 50, 10_000, 8.0, 1e-6, 50**0.5, 0.86),
    (5, 50, 100_000, 1.0, 1e-6, 50**0.5, 0.73),
    (2, 50, 10_000, 1.0, 1e-4, 50**0.5, 0.96),
    (5, 50, 10_000, 1.0, 1e-4, 50**0.5, 0.99),
    (2, 10, 10_000, 1.0, 1e-6, 1.0, 0.2),
    (5, 10, 10_000, 1.0, 1e-6, 1.0, 0.42),
    (5, 50, 100_000, 1.0, 1e-6, 1.0, 0.52),
]


@pytest.mark.parametrize(("arms", "d", "rounds", "epsilon", "delta", "length", "share"), MEASURED)
def test_the_warning_is_for_what_measured_like_random_play(
    arms, d, rounds, epsilon, delta, length, share
):
    budget = dpoco.Budget(epsilon, delta)
    p = accountant.calibrate(arms, d, horizon=rounds, budget=budget, context_bound=length)
    assert p.forecast.noise_dominates == (share > 0.95)
