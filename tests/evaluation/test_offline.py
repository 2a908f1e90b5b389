"""Bandits on logged data: files, replay by rejection, values from propensities."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpoco
from dpoco.bandits import LinUCB
from dpoco.environments import LinearWorld
from dpoco.evaluation import LoggedBandit, load_logged_bandit, off_policy_value, replay_log
from dpoco.random import Source

K, D, N = 3, 4, 12_000
WORLD = LinearWorld(K, D, N, seed=4)


def logged(seed=0, uniform=True, rows=N):
    rng = np.random.default_rng(seed)
    logits = np.zeros((N, K)) if uniform else 2.0 * rng.normal(size=K) + WORLD.contexts[:, :K]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    actions = (rng.random((N, 1)) > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)[:rows]
    index = np.arange(rows)
    return LoggedBandit(
        WORLD.contexts[:rows], actions, WORLD.rewards[index, actions], shares[index, actions], K
    )


def table():
    log = logged(uniform=False, rows=50)
    return log, {
        **{f"x{j}": log.contexts[:, j] for j in range(D)},
        "arm": log.actions,
        "click": log.rewards,
        "p": log.propensities,
    }


def test_files(tmp_path):
    log, columns = table()
    path = tmp_path / "log.npz"
    np.savez(path, **columns)
    read = load_logged_bandit(path, action="arm", reward="click", propensity="p")
    for name in ("contexts", "actions", "rewards", "propensities"):
        assert np.array_equal(getattr(read, name), getattr(log, name))
    assert read.arms == K
    assert read.context_names == ("x0", "x1", "x2", "x3")
    assert len(read) == 50
    some = load_logged_bandit(path, action="arm", reward="click", context=["x2", "x0"], arms=7)
    assert np.array_equal(some.contexts, log.contexts[:, [2, 0]])
    assert some.propensities is None
    assert some.arms == 7
    assert "raw data" in repr(some)


def test_bad_files_and_logs(tmp_path):
    _, columns = table()

    def load(changes=None, **options):
        path = tmp_path / "log.npz"
        np.savez(path, **{**columns, **(changes or {})})
        return load_logged_bandit(
            path, **{"action": "arm", "reward": "click", "propensity": "p", **options}
        )

    for changes, options, match in (
        ({}, {"action": "shop"}, "shop"),
        ({}, {"reward": "shop"}, "shop"),
        ({}, {"propensity": "shop"}, "shop"),
        ({}, {"context": ["x0", "shop"]}, "shop"),
        ({}, {"context": ["x0", "x0"]}, "twice|same"),
        ({}, {"context": []}, "context"),
        ({}, {"propensity": "arm"}, "different columns"),
        ({"arm": np.full(50, 0.5)}, {}, "integers from 0"),
        ({"arm": np.full(50, np.nan)}, {}, "integers from 0"),
        ({"arm": np.full(50, -1)}, {}, "integers from 0"),
        ({"p": np.zeros(50)}, {}, r"\[1e-100, 1]"),
        ({"p": np.full(50, 1.5)}, {}, r"\[1e-100, 1]"),
        ({}, {"arms": 1}, "actions must be in"),
    ):
        with pytest.raises(ValueError, match=match):
            load(changes, **options)
    with pytest.raises(FileNotFoundError):
        load_logged_bandit(tmp_path / "none.csv", action="a", reward="b")
    with pytest.raises(ValueError, match="integers of shape"):
        LoggedBandit(np.zeros((3, 2)), np.zeros(3), np.zeros(3), None, 2)
    with pytest.raises(ValueError, match="shape"):
        LoggedBandit(np.zeros((3, 2)), np.zeros(3, dtype=int), np.zeros(2), None, 2)


def live_mean(policy):
    return WORLD.means[np.arange(N), policy].mean()


@pytest.mark.parametrize("uniform", [True, False])
def test_values_are_those_of_live_play(uniform):
    log = logged(uniform=uniform)
    good = np.argmax(WORLD.means, axis=1)
    for policy in (good, np.zeros(N, dtype=int), np.argmin(WORLD.means, axis=1)):
        found = off_policy_value(log, policy)
        truth = live_mean(policy)
        assert abs(found.ips - truth) < 6.0 * found.ips_error
        assert abs(found.snips - truth) < 6.0 * found.snips_error
        assert 0 < found.effective_events < N
        assert found.clipped == 0
    # Another policy's value is far outside; so is the log's own mean.
    found = off_policy_value(log, good)
    assert abs(found.snips - live_mean(np.argmin(WORLD.means, axis=1))) > 6.0 * found.snips_error
    assert abs(found.snips - log.rewards.mean()) > 6.0 * found.snips_error
    mixed = np.full((N, K), 1.0 / K)
    found = off_policy_value(log, mixed)
    assert abs(found.ips - WORLD.means.mean()) < 6.0 * found.ips_error
    if uniform:
        assert found.ips == pytest.approx(log.rewards.mean())
        assert found.effective_events == pytest.approx(N)
    else:
        assert off_policy_value(log, mixed, largest_weight=1.0).clipped > 0


def test_closed_form_of_the_estimates():
    log = LoggedBandit(
        np.zeros((4, 1)), np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 3.0, 4.0]),
        np.array([0.5, 0.25, 0.5, 1.0]), 2,
    )  # fmt: skip
    found = off_policy_value(log, np.array([0, 1, 0, 0]))
    weights = np.array([2.0, 4.0, 0.0, 1.0])
    assert found.ips == pytest.approx((2.0 + 8.0 + 4.0) / 4.0)
    assert found.snips == pytest.approx(14.0 / 7.0)
    assert found.effective_events == pytest.approx(49.0 / 21.0)
    assert found.ips_error == pytest.approx(np.std([2.0, 8.0, 0.0, 4.0], ddof=1) / 2.0)
    assert found.snips_error == pytest.approx(
        math.sqrt(np.sum((weights * (log.rewards - 2.0)) ** 2)) / 7.0
    )
    nothing = off_policy_value(log, np.array([1, 0, 0, 1]))
    assert nothing.ips == 0.0
    assert math.isnan(nothing.snips)


def test_policies_that_are_none():
    log = logged(rows=50)
    for bad in (np.zeros(49, dtype=int), np.full(50, K), np.zeros((50, K)), -np.ones((50, K))):
        with pytest.raises(ValueError, match="policy"):
            off_policy_value(log, bad)
    with pytest.raises(ValueError, match="no propensities"):
        off_policy_value(LoggedBandit(log.contexts, log.actions, log.rewards, None, K), log.actions)
    missing = np.where(np.arange(50) == 3, np.nan, log.rewards)
    with pytest.raises(ValueError, match="missing rewards"):
        off_policy_value(
            LoggedBandit(log.contexts, log.actions, missing, log.propensities, K), log.actions
        )


def learner(horizon=N, **options):
    options = {"budget": None, "reward_bound": WORLD.reward_bound, "reward_noise": 0.1, **options}
    return LinUCB(
        K,
        D,
        horizon=horizon,
        source=Source.seeded(1),
        **{"context_bound": 1.0, "reward_bound": 1.0, **options},
    )


def test_a_replayed_learner_earns_what_a_live_one_does():
    log = logged()
    replayed = learner()
    found = replay_log(replayed, log)
    assert found.events == N
    assert found.rounds == replayed.round
    assert abs(found.rounds - N / K) < 6.0 * math.sqrt(N * 2.0 / 9.0)
    live = learner().run(WORLD.contexts[: found.rounds], WORLD.rewards[: found.rounds])
    assert abs(found.value - live.average_reward) < 8.0 * found.standard_error
    assert found.value > WORLD.means.mean() + 8.0 * found.standard_error
    # And its estimates are a policy that propensities value alike.
    frozen = off_policy_value(log, replayed)
    best = live_mean(np.argmax(WORLD.means, axis=1))
    assert abs(frozen.snips - best) < 6.0 * frozen.snips_error


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_replay_is_rejection_event_by_event():
    log = logged(seed=3, rows=400)
    rewards = log.rewards.copy()
    rewards[::5] = np.nan
    log = LoggedBandit(log.contexts, log.actions, rewards, None, K)
    budget = dpoco.Budget(4.0, 1e-4)
    ours, single = (learner(60, budget=budget, batch=2) for _ in range(2))
    found = replay_log(ours, log)
    earned, events, rounds = [], 0, 0
    for x, action, reward in zip(log.contexts, log.actions, rewards, strict=True):
        if single.round == 60:
            break
        events += 1
        if single.recommend(x[None, :])[0] != action:
            continue
        rounds += 1
        single.decide(x)
        single.observe(reward)
        earned += [reward] if np.isfinite(reward) else []
    assert (found.events, found.rounds) == (events, rounds)
    assert found.value == pytest.approx(np.mean(earned))
    assert ours._engine.state() == single._engine.state()
    nothing = replay_log(ours, log)  # the horizon is used up
    assert (nothing.events, nothing.rounds) == (0, 0)
    assert math.isnan(nothing.value)
    with pytest.raises(ValueError, match="the log"):
        replay_log(
            LinUCB(K + 1, D, horizon=9, budget=None, context_bound=1.0, reward_bound=1.0), log
        )
