"""The high-dimensional bandit: order of calls, input, copies, threads, interruption."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import LpBall
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-5)
T, K, D = 30, 3, 4
RNG = np.random.default_rng(0)
X, R = RNG.uniform(-1.2, 1.2, size=(T, D)), RNG.normal(size=(T, K)) * 0.8
CONFIGURATIONS = [
    {},
    {"arm_learner": "polyhedral", "batch": 4, "forced_rounds": 3, "gap": 0.3},
    {"arm_learner": "tree", "sum_method": "honaker", "batch": 2, "forced_rounds": 5},
    {"link": "logistic", "relation": "zero_out", "forced_rounds": 0},
    {"budget": None, "forced_rounds": 4},
]


def make(configuration=None, *, arms=K, dimension=D, horizon=T, seed=1, **options):
    options = {"budget": BUDGET, **(configuration or {}), **options}
    return HighDimensionalBandit(
        arms, LpBall(dimension, 1.0), horizon=horizon, source=Source.seeded(seed), **options
    )


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_run_equals_the_loop(configuration):
    trace = make(configuration).run(X, R)
    learner = make(configuration)
    p = learner.parameters
    low = 0.0 if p.link == "logistic" else -1.0
    for t in range(T):
        advice = learner.recommend(X[t : t + 1])
        arm = learner.decide(X[t])
        assert arm == learner.decide(X[t].tolist()) == trace.actions[t]
        if t < K * p.forced_rounds:
            assert arm == t // p.forced_rounds
        else:
            assert arm == advice[0]
        assert type(arm) is int
        assert trace.rewards[t] == np.clip(R[t, arm], low, 1.0)
        assert learner.round == t
        learner.observe(R[t, arm])
    own = R[np.arange(T), trace.actions]
    outside = np.sum(np.abs(X).max(axis=1) > 1.0) + np.sum((own < low) | (own > 1.0))
    assert learner.nonprivate_violations == outside > 0
    before = learner._engine.state()
    for use in (
        lambda: learner.decide(X[0]),
        lambda: learner.observe(0.5),
        lambda: learner.skip(),
        lambda: learner.run(X[:1], R[:1]),
    ):
        with pytest.raises(dpoco.HorizonExceeded):
            use()
    assert learner._engine.state() == before
    assert len(learner.recommend(X)) == T  # the last estimates stay of use


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_skipped_round_is_one_whose_record_is_not_finite(configuration):
    one, other, third = (make(configuration) for _ in range(3))
    for t in range(T):
        broken = t % 3 == 1
        for learner in (one, other, third):
            bad = broken and learner is third
            arm = learner.decide(np.full(D, np.inf) if bad else X[t])
            if broken and learner is one:
                learner.skip()
            else:
                learner.observe(np.nan if broken and learner is other else R[t, arm])
        assert one._engine.state()[16:] == other._engine.state()[16:]
        assert one._engine.clocks() == third._engine.clocks()
        assert one._engine.variates_drawn() == third._engine.variates_drawn()
        if t == 1:
            assert np.array_equal(one.coefficients, third.coefficients)


TREE = {"arm_learner": "tree", "forced_rounds": 1}


def test_violations_are_clipped_or_refused():
    rows = np.array([[3.0, 4.0, 0.0, 0.0], [1e90, 0, 0, 0], [np.nan, 0, 0, 0], [0.1, 0, 0, 0]])
    table = np.array([[5.0] * K, [-1e300] * K, [0.5] * K, [np.inf] * K])
    tame_rows = np.array([[0.75, 1.0, 0, 0], [1.0, 0, 0, 0], [0.0] * D, [0.1, 0, 0, 0]])
    tame_table = np.array([[1.0] * K, [-1.0] * K, [0.5] * K, [np.nan] * K])
    wild, tame = make(TREE), make(TREE)
    wild.run(rows, table)
    tame.run(tame_rows, tame_table)
    assert wild.coefficients == pytest.approx(tame.coefficients, rel=1e-9, abs=1e-12)
    assert wild.nonprivate_violations == 6
    strict = make(on_violation="raise")
    before = strict._engine.state()
    for row in (rows[0], rows[2]):
        with pytest.raises(ValueError, match="context of round 0"):
            strict.decide(row)
    strict.decide(rows[3])
    for bad in (5.0, np.nan):
        with pytest.raises(ValueError, match="rewards of round 0") as error:
            strict.observe(bad)
        assert "5.0" not in str(error.value)
    assert strict._engine.state() == before
    strict.skip()
    with pytest.raises(ValueError, match="context of round 1"):
        strict.decide(rows[0])
    with pytest.raises(ValueError, match="context of round 1"):
        strict.run(rows, table)
    with pytest.raises(ValueError, match="rewards of round 2"):
        strict.run(tame_rows[:2], np.array([[0.5] * K, [1.5] * K]))


def test_what_is_published_cannot_be_written_and_says_nothing_of_noise_keys():
    learner = make()
    learner.run(X[:20], R[:20])
    with pytest.raises(ValueError, match="read-only"):
        learner.coefficients[0, 0] = 1.0
    text = repr(learner)
    assert text.startswith("HighDimensionalBandit(arms=3, domain=LpBall(")
    assert "replace one user's record, seen by others" in text
    assert learner.arms == K
    assert learner.dimension == D
    assert learner.get_params()["domain"] is learner.domain


def test_worlds_and_logs_take_the_learner():
    world = dpoco.environments.LinearWorld(3, 4, 200, norm=np.inf, seed=1)
    options = {"horizon": 200, "reward_bound": world.reward_bound, "forced_rounds": 5}
    played = dpoco.environments.play_bandit(make(**options), world)
    run = make(**options).run(world.contexts, world.rewards)
    assert np.array_equal(played.actions, run.actions)
    assert np.array_equal(played.rewards, run.rewards)
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=200)
    log = dpoco.evaluation.LoggedBandit(
        world.contexts, actions, world.rewards[np.arange(200), actions], np.full(200, 1 / 3), 3
    )
    learner = make(**options)
    result = dpoco.evaluation.replay_log(learner, log)
    assert 0 < learner.round < 200
    assert result is not None
    value = dpoco.evaluation.off_policy_value(log, learner)
    want = dpoco.evaluation.off_policy_value(log, learner.recommend(world.contexts))
    assert value == want
