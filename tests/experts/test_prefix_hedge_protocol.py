"""Hedge on noisy sums: order of calls, input, copies, threads, interruption."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import dpoco
from dpoco.experts import PrefixHedge
from dpoco.random import Source

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning"),
]

BUDGET = dpoco.Budget(1.0, 1e-5)
T, N = 30, 4
LOSSES = np.random.default_rng(0).random((T, N)) * 1.4 - 0.2
CONFIGURATIONS = [
    {},
    {"sum_method": "tree"},
    {"sum_method": "honaker", "loss_range": (-1.0, 1.0)},
    {"sum_method": "toeplitz", "learning_rate": 0.01},
    {"budget": None},
]


def make(configuration=None, *, experts=N, horizon=T, seed=1, **options):
    options = {"budget": BUDGET, **(configuration or {}), **options}
    return PrefixHedge(experts, horizon=horizon, source=Source.seeded(seed), **options)


# -- protocol -------------------------------------------------------------------------------------


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_run_equals_the_loop(configuration):
    trace = make(configuration).run(LOSSES)
    learner = make(configuration)
    low, high = configuration.get("loss_range", (0.0, 1.0))
    for t in range(T):
        decision = learner.decide()
        assert decision == learner.decide() == trace.decisions[t]
        assert type(decision) is int
        assert trace.losses[t] == pytest.approx(np.clip(LOSSES[t, decision], low, high))
        assert learner.round == t
        learner.observe(LOSSES[t])
    assert learner.nonprivate_violations == np.sum(np.clip(LOSSES, low, high) != LOSSES)
    with pytest.raises(dpoco.HorizonExceeded):
        learner.decide()
    before = learner._engine.state()
    for use in (lambda: learner.observe(LOSSES[0]), lambda: learner.run(LOSSES[:1])):
        with pytest.raises(dpoco.HorizonExceeded):
            use()
    assert learner._engine.state() == before


def test_order_of_rounds_and_shapes():
    learner = make()
    before = learner._engine.state()
    with pytest.raises(dpoco.RoundOrderError):
        learner.observe(LOSSES[0])
    learner.decide()
    for bad in (LOSSES[0, :3], LOSSES, 1.0, np.zeros((N, 1))):
        with pytest.raises(ValueError, match="shape"):
            learner.observe(bad)
    for bad in (["a"] * N, LOSSES[0] + 1j, None):
        with pytest.raises(TypeError):
            learner.observe(bad)
    with pytest.raises(ValueError, match="shape"):
        learner.run(LOSSES[:, :2])
    with pytest.raises(dpoco.HorizonExceeded):
        learner.run(np.zeros((T + 1, N)))
    assert learner._engine.state() == before
    learner.observe([0, 1, 0, 1])
    with pytest.raises(dpoco.RoundOrderError):
        learner.observe(LOSSES[0])
    assert learner.round == 1


def test_violations_are_clipped_or_refused():
    rows = np.array([[np.nan, 0.5, 2.0, -1.0], [np.inf, -np.inf, 0.0, 1.0]])
    clipped = np.array([[0.0, 0.5, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    wild, tame = make(), make()
    wild.run(rows)
    tame.run(clipped)
    assert np.array_equal(wild.weights, tame.weights)
    assert wild.nonprivate_violations == 5
    assert tame.nonprivate_violations == 0
    strict = make(on_violation="raise")
    before = strict._engine.state()
    strict.decide()
    for attempt in (lambda: strict.observe(rows[0]), lambda: strict.run(rows)):
        with pytest.raises(ValueError, match="declared range") as error:
            attempt()
        assert "2.0" not in str(error.value)
    assert strict._engine.state() == before


def test_a_range_is_an_affine_map():
    unit = np.random.default_rng(3).integers(0, 1025, size=(T, N)) / 1024.0
    plain, mapped = make(), make(loss_range=(-2.0, 6.0))
    a, b = plain.run(unit), mapped.run(8.0 * unit - 2.0)
    assert np.array_equal(a.decisions, b.decisions)
    assert np.array_equal(plain.weights, mapped.weights)
    assert b.losses == pytest.approx(8.0 * a.losses - 2.0)
    assert mapped.guarantee.regret_bound == pytest.approx(8.0 * plain.parameters.regret_bound)
    assert mapped.parameters == plain.parameters
    for bad in ((0.0, 0.0), (1.0, 0.0), (0.0, np.inf), 3.0):
        with pytest.raises((ValueError, TypeError)):
            make(loss_range=bad)


def test_one_expert_and_one_round():
    lonely = make(experts=1)
    trace = lonely.run(LOSSES[:, :1])
    assert not trace.decisions.any()
    assert lonely.weights.tolist() == [1.0]
    assert lonely._engine.variates_drawn() == [0] * 6
    assert lonely.guarantee.epsilon == 0.0
    brief = make(horizon=1)
    first = brief.weights
    brief.run(LOSSES[:1])
    assert np.array_equal(first, np.full(N, 0.25))
    assert np.array_equal(brief.weights, first)
    assert brief._engine.variates_drawn()[2] == 0
    assert brief.guarantee.epsilon == 0.0
    for learner in (lonely, brief):
        again = PrefixHedge._from_bytes(learner._to_bytes())
        assert again._engine.state() == learner._engine.state()


def test_arguments():
    with pytest.raises(ValueError, match="horizon"):
        make(horizon=None)
    for bad in (0, -1):
        with pytest.raises(ValueError, match="experts"):
            make(experts=bad)
    for bad in (2.0, True, None):
        with pytest.raises(TypeError):
            make(experts=bad)
    with pytest.raises(dpoco.CalibrationError, match="delta"):
        make(budget=dpoco.Budget(1.0, 0.0))
    with pytest.raises(TypeError, match="Budget"):
        make(budget=1.0)
    with pytest.warns(dpoco.NoiseDominatesWarning, match="regret bound"):
        make(budget=dpoco.Budget(0.01, 1e-9))
    parameters = make(learning_rate=0.5).parameters
    assert make(parameters=parameters).parameters == parameters
    for restated in (
        {"experts": 5}, {"horizon": 31}, {"sum_method": "tree"}, {"learning_rate": 0.1},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="contradicts"):
            make(parameters=parameters, **restated)
    learner = make()
    assert "epsilon=1" in repr(learner)
    assert PrefixHedge(N, **{k: v for k, v in learner.get_params().items() if k != "experts"})


# -- copies, threads, interruption ----------------------------------------------------------------


def test_copies():
    learner = make()
    learner.run(LOSSES[:5])
    clone = learner.clone()
    assert clone.round == 0
    for attempt in (copy.copy, copy.deepcopy):
        with pytest.raises(dpoco.StateError, match="clone"):
            attempt(learner)
    thawed = pickle.loads(pickle.dumps(learner))
    for use in (thawed.decide, lambda: thawed.run(LOSSES[5:]), lambda: thawed.weights):
        with pytest.raises(dpoco.StateError, match="resume"):
            use()
    thawed.resume()
    assert np.array_equal(thawed.run(LOSSES[5:]).decisions, learner.run(LOSSES[5:]).decisions)
    fresh = PrefixHedge(N, horizon=T, budget=BUDGET)
    frozen = pickle.dumps(fresh)
    a, b = (pickle.loads(frozen).run(LOSSES) for _ in range(2))
    assert not np.array_equal(a.decisions, b.decisions)


def test_two_threads_never_interleave():
    rounds = 200_000
    losses = np.zeros((rounds, N))
    learner = make(horizon=2 * rounds)
    outcomes: list[str] = []
    barrier = threading.Barrier(2)

    def play():
        barrier.wait()
        try:
            learner._engine.run(losses, np.empty(rounds), np.empty(rounds, np.int64))
            outcomes.append("played")
        except dpoco.RoundOrderError:
            outcomes.append("refused")

    threads = [threading.Thread(target=play) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 2
    assert learner.round == outcomes.count("played") * rounds > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_refuses():
    learner = make()
    learner.run(LOSSES[:3])
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        try:
            learner.run(LOSSES[3:4])
            os.write(write, b"went on")
        except dpoco.StateError:
            os.write(write, b"refused")
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == "refused"
    os.waitpid(pid, 0)


def test_interrupt_between_rounds_leaves_a_consistent_learner():
    rounds = 200_000
    losses = np.random.default_rng(0).random((rounds, N))
    learner = make(horizon=rounds)
    sent = []

    def send(done, total):
        if done > 50_000 and not sent:
            sent.append(done)
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does

    with pytest.raises(KeyboardInterrupt):
        learner.run(losses, progress=send)
    done = learner.round
    assert sent[0] <= done < sent[0] + 20_000
    twin = make(horizon=rounds)
    twin.run(losses[:done])
    assert learner._engine.state() == twin._engine.state()
    learner.run(losses[done:])
    assert learner.round == rounds
