"""Private LinUCB: order of calls, input, copies, threads, interruption, traces."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.bandits import LinUCB
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-5)
T, K, D = 30, 3, 4
RNG = np.random.default_rng(0)
X, R = RNG.normal(size=(T, D)) * 0.6, RNG.normal(size=(T, K)) * 0.8
CONFIGURATIONS = [
    {},
    {"sum_method": "tree", "batch": 1},
    {"sum_method": "honaker", "batch": 4, "exploration": 0.1},
    {"sum_method": "toeplitz", "relation": "zero_out"},
    {"budget": None},
]


def make(configuration=None, *, arms=K, dimension=D, horizon=T, seed=1, **options):
    options = {"budget": BUDGET, **(configuration or {}), **options}
    return LinUCB(arms, dimension, horizon=horizon, source=Source.seeded(seed), **options)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_run_equals_the_loop(configuration):
    trace = make(configuration).run(X, R)
    learner = make(configuration)
    for t in range(T):
        advice = learner.recommend(X[t : t + 1])
        arm = learner.decide(X[t])
        assert arm == learner.decide(X[t].tolist()) == trace.actions[t] == advice[0]
        assert type(arm) is int
        assert trace.rewards[t] == np.clip(R[t, arm], -1.0, 1.0)
        assert learner.round == t
        learner.observe(R[t, arm])
    outside = np.sum(np.linalg.norm(X, axis=1) > 1.0) + np.sum(
        np.abs(R[np.arange(T), trace.actions]) > 1.0
    )
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


def test_violations_are_clipped_or_refused():
    rows = np.array([[3.0, 4.0, 0.0, 0.0], [1e300, 0, 0, 0], [np.nan, 0, 0, 0], [0.1, 0, 0, 0]])
    table = np.array([[5.0] * K, [-1e300] * K, [0.5] * K, [np.inf] * K])
    tame_rows = np.array([[0.6, 0.8, 0, 0], [1.0, 0, 0, 0], [0.0] * D, [0.1, 0, 0, 0]])
    tame_table = np.array([[1.0] * K, [-1.0] * K, [0.5] * K, [np.nan] * K])
    wild, tame = make(batch=1), make(batch=1)
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


@pytest.mark.parametrize(("arms", "dimension", "horizon"), [(1, 1, 1), (1, 3, 9), (4, 1, 2)])
def test_small_worlds(arms, dimension, horizon):
    learner = make(arms=arms, dimension=dimension, horizon=horizon)
    trace = learner.run(np.full((horizon, dimension), 0.5), np.ones((horizon, arms)))
    assert np.all((trace.actions >= 0) & (trace.actions < arms))
    assert learner.round == horizon
    assert learner.coefficients.shape == (arms, dimension)
    if horizon == 1:
        assert learner.guarantee.epsilon == 0.0
        assert not learner.coefficients.any()


def test_what_is_published_cannot_be_written_and_says_nothing_of_noise_keys():
    learner = make()
    learner.run(X[:20], R[:20])
    with pytest.raises(ValueError, match="read-only"):
        learner.coefficients[0, 0] = 1.0
    text = repr(learner)
    assert text.startswith("LinUCB(arms=3, dimension=4, horizon=30")
    assert "replace one user's record, seen by others" in text
    assert learner.arms == K
    assert learner.dimension == D
    assert learner.get_params()["dimension"] == D


def test_the_trace_compares():
    trace = make(budget=None).run(X, R)
    read = np.clip(R, -1.0, 1.0)
    own = read[np.arange(T), trace.actions]
    assert trace.rewards == pytest.approx(own)
    assert trace.average_reward == pytest.approx(own.mean())
    best = int(np.argmax(read.sum(axis=0)))
    assert trace.best_arm == best
    assert trace.regret() == pytest.approx(np.cumsum(read[:, best] - own))
    assert trace.regret(1)[-1] == pytest.approx(read[:, 1].sum() - own.sum())
    assert trace.regret(trace.actions) == pytest.approx(np.zeros(T))
    linear = trace.best_linear
    fit = np.linalg.lstsq(X, read, rcond=None)[0]
    assert np.array_equal(linear, np.argmax(X @ fit, axis=1))
    assert trace.regret("linear") == pytest.approx(trace.regret(linear))
    assert trace.pseudo_regret(R)[-1] == pytest.approx(
        np.sum(R.max(axis=1) - R[np.arange(T), trace.actions])
    )
    assert len(trace) == trace.rounds == T
    assert "not private" in repr(trace)
    frame = trace.to_frame()
    assert list(frame["action"]) == list(trace.actions)
    for bad in (K, -1, np.full(T, K), np.zeros(T - 1, dtype=int)):
        with pytest.raises(ValueError, match="actions must"):
            trace.regret(bad)
    with pytest.raises(TypeError):
        trace.regret(0.5)
    with pytest.raises(ValueError, match="comparator"):
        trace.regret("best")
