"""What is the bandits' own in a round: forced arms, skipped rewards, clipped records, traces."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, K, D = 30, 3, 4
RNG = np.random.default_rng(0)
X, R = RNG.uniform(-1.2, 1.2, size=(T, D)), RNG.normal(size=(T, K)) * 0.8
HIGH_DIMENSIONAL = [
    {},
    {"arm_learner": "polyhedral", "batch": 4, "forced_rounds": 3, "gap": 0.3},
    {"arm_learner": "tree", "sum_method": "tree", "batch": 2, "forced_rounds": 5},
    {"link": "logistic", "relation": "zero_out", "forced_rounds": 0},
    {"budget": None, "forced_rounds": 4},
]

BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}


def make(kind, *, horizon=T, **options):
    problem = (K, D) if kind is LinUCB else (K, LpBall(D, 1.0))
    options = {"budget": dpoco.Budget(1.0, 1e-5), **BOUNDED, **options}
    return kind(*problem, horizon=horizon, source=Source.seeded(1), **options)


CASES = [(LinUCB, {}), *((HighDimensionalBandit, options) for options in HIGH_DIMENSIONAL)]


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_actions_are_forced_first_and_then_those_recommended(kind, options):
    learner = make(kind, **options)
    low = 0.0 if options.get("link") == "logistic" else -1.0
    forced, outside = getattr(learner._mechanism, "forced", 0), 0
    for t in range(T):
        advice = learner.recommend(X[t : t + 1])
        arm = learner.decide(X[t])
        assert arm == (t // forced if t < K * forced else advice[0])
        learner.observe(R[t, arm])
        order = 2.0 if kind is LinUCB else np.inf
        outside += np.linalg.norm(X[t], order) > 1.0
        outside += not low <= R[t, arm] <= 1.0
    assert learner.nonprivate_violations == outside > 0
    assert len(learner.recommend(X)) == T  # the last estimates stay of use


@pytest.mark.parametrize(("kind", "options"), CASES[1:])
def test_a_skipped_round_is_one_whose_record_is_not_finite(kind, options):
    one, other, third = (make(kind, **options) for _ in range(3))
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


@pytest.mark.parametrize(
    ("kind", "options", "tame"),
    [
        (LinUCB, {"batch": 1}, [0.6, 0.8, 0, 0]),
        (HighDimensionalBandit, {"arm_learner": "tree", "forced_rounds": 1}, [0.75, 1.0, 0, 0]),
    ],
)
def test_violations_are_clipped_or_refused(kind, options, tame):
    rows = np.array([[3.0, 4.0, 0.0, 0.0], [1e90, 0, 0, 0], [np.nan, 0, 0, 0], [0.1, 0, 0, 0]])
    table = np.array([[5.0] * K, [-1e300] * K, [0.5] * K, [np.inf] * K])
    tame_rows = np.array([tame, [1.0, 0, 0, 0], [0.0] * D, [0.1, 0, 0, 0]])
    tame_table = np.array([[1.0] * K, [-1.0] * K, [0.5] * K, [np.nan] * K])
    wild, own = make(kind, **options), make(kind, **options)
    wild.run(rows, table)
    own.run(tame_rows, tame_table)
    assert wild.coefficients == pytest.approx(own.coefficients, rel=1e-9, abs=1e-12)
    assert wild.nonprivate_violations == 6
    strict = make(kind, on_violation="raise")
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
        strict.run(rows, table)
    with pytest.raises(ValueError, match="rewards of round 2"):
        strict.run(tame_rows[:2], np.array([[0.5] * K, [1.5] * K]))


def test_worlds_and_logs_take_the_learner():
    world = dpoco.environments.LinearWorld(3, 4, 200, norm=np.inf, seed=1)
    options = {"horizon": 200, "reward_bound": world.reward_bound, "forced_rounds": 5}
    played = dpoco.environments.play_bandit(
        make(HighDimensionalBandit, **{"context_bound": 1.0, "reward_bound": 1.0, **options}), world
    )
    run = make(HighDimensionalBandit, **{"context_bound": 1.0, "reward_bound": 1.0, **options}).run(
        world.contexts, world.rewards
    )
    assert np.array_equal(played.actions, run.actions)
    assert np.array_equal(played.rewards, run.rewards)
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=200)
    log = dpoco.evaluation.LoggedBandit(
        world.contexts, actions, world.rewards[np.arange(200), actions], np.full(200, 1 / 3), 3
    )
    learner = make(HighDimensionalBandit, **{"context_bound": 1.0, "reward_bound": 1.0, **options})
    assert dpoco.evaluation.replay_log(learner, log) is not None
    assert 0 < learner.round < 200
    value = dpoco.evaluation.off_policy_value(log, learner)
    assert value == dpoco.evaluation.off_policy_value(log, learner.recommend(world.contexts))


def test_the_trace_compares():
    trace = make(LinUCB, budget=None, context_bound=1.0, reward_bound=1.0).run(X, R)
    read = np.clip(R, -1.0, 1.0)
    own = read[np.arange(T), trace.actions]
    assert trace.rewards == pytest.approx(own)
    assert trace.average_reward == pytest.approx(own.mean())
    assert trace.losses == pytest.approx(1.0 - own)
    assert trace.decisions is trace.actions
    changed = [t for t in range(T - 1) if trace.actions[t] != trace.actions[t + 1]]
    assert trace.switches.tolist() == changed != []
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


def test_a_refused_round_without_a_reward_earns_nothing():
    rule = dpoco.Participation(1)
    learner = dpoco.bandits.LinUCB(
        2, 1, horizon=4, budget=None, context_bound=1.0, reward_bound=1.0, participation=rule
    )
    rewards = np.array([[0.5, 0.5], [np.nan, np.nan], [9.0, 9.0]])
    trace = learner.run(np.ones((3, 1)), rewards, persons=[1, 1, 1])
    assert trace.rewards.tolist() == [0.5, 0.0, 1.0]
    assert np.isfinite(trace.regret()).all()


@pytest.mark.parametrize("layout", ["strided", "read-only", "broadcast", "list"])
def test_masks_of_any_layout(layout):
    learner = dpoco.bandits.LinUCB(
        3, 2, horizon=9, budget=None, context_bound=1.0, reward_bound=1.0
    )
    mask = np.array([False, True, False, True, True, False])
    given = {"strided": mask[::2], "list": [False, False, True], "read-only": mask[::2].copy(),
             "broadcast": np.broadcast_to(True, (3,))}[layout]  # fmt: skip
    if layout == "read-only":
        given.flags.writeable = False
    arm, _ = learner.decide([0.25, 0.5], ticket=True, allowed=given)
    assert np.asarray(given)[arm]
