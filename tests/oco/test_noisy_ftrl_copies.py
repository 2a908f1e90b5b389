"""Copies, threads, forks and interruption of the noisy leader; parameters beside arguments."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import dpoco
from dpoco.domains import LpBall
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
X1 = np.array([0.1, 0.2, 0.3])


def make(horizon=20, *, seed=1, loss=None, budget=BUDGET, **options):
    return NoisyFTRL(
        LpBall(3, 2.0, 1.0),
        loss or SquaredLoss(1.0, 1.0),
        horizon=horizon,
        budget=budget,
        source=Source.seeded(seed),
        **options,
    )


def stream(T, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(T, d)), rng.normal(size=T)


def test_clone_and_copies():
    learner = make()
    X, y = stream(20)
    fresh = copy.deepcopy(learner)
    first = learner.run(X[:5], y[:5])
    for twin in (learner.clone(), fresh):
        assert twin.round == 0
        assert not np.array_equal(twin.run(X[:5], y[:5]).decisions, first.decisions)
    for attempt in (copy.copy, copy.deepcopy):
        with pytest.raises(dpoco.StateError, match="clone"):
            attempt(learner)
    thawed = pickle.loads(pickle.dumps(learner))
    for use in (thawed.decide, lambda: thawed.run(X[5:], y[5:]), lambda: thawed.last_decision):
        with pytest.raises(dpoco.StateError, match="resume"):
            use()
    thawed.resume()
    assert np.array_equal(thawed.run(X[5:], y[5:]).decisions, learner.run(X[5:], y[5:]).decisions)


def test_unstarted_pickles_get_noise_of_their_own():
    X, y = stream(20)
    frozen = pickle.dumps(NoisyFTRL(LpBall(3), SquaredLoss(), horizon=20, budget=BUDGET))
    a, b = pickle.loads(frozen), pickle.loads(frozen)
    assert not np.array_equal(a.run(X, y).decisions, b.run(X, y).decisions)
    seeded = pickle.dumps(make())
    want = make().run(X, y).decisions
    assert np.array_equal(pickle.loads(seeded).run(X, y).decisions, want)


def test_get_params_and_repr():
    source, domain, loss = Source.seeded(0), LpBall(3), SquaredLoss()
    learner = NoisyFTRL(domain, loss, horizon=7, budget=BUDGET, batch=2, source=source)
    params = learner.get_params()
    assert params["domain"] is domain
    assert params["source"] is source
    assert params["step_size"] is None
    assert NoisyFTRL(**params).parameters == learner.parameters
    before = repr(learner)
    learner.run(*stream(7))
    assert repr(learner) == before
    assert "epsilon=1" in before


def test_two_threads_never_interleave():
    T = 200_000
    X, _ = stream(T, seed=2)
    learner = make(horizon=2 * T, loss=LinearLoss(1.0))
    outcomes: list[object] = []
    barrier = threading.Barrier(2)

    def play():
        barrier.wait()
        try:
            learner._engine.run(X, None, np.empty(T), None, np.empty(T, np.uint8))
            outcomes.append("played")
        except dpoco.RoundOrderError:
            outcomes.append("refused")

    threads = [threading.Thread(target=play) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    played = outcomes.count("played")
    assert played >= 1
    assert learner.round == played * T
    assert np.all(np.isfinite(learner.last_decision))


def test_two_threads_observing_one_decision_end_one_round():
    learner = make(horizon=2000)
    refused = []

    def feed():
        for _ in range(500):
            learner.decide()
            try:
                learner.observe(X1, 0.5)
            except dpoco.RoundOrderError:
                refused.append(1)

    threads = [threading.Thread(target=feed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.round == 2000 - len(refused)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_refuses_until_resumed():
    learner = make()
    X, y = stream(20)
    learner.run(X[:3], y[:3])
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        answers = []
        for use in (
            lambda: learner.run(X[3:4], y[3:4]),
            lambda: (learner.decide(), learner.observe(X[3], y[3])),
        ):
            try:
                use()
                answers.append("went on")
            except dpoco.StateError:
                answers.append("refused")
        learner.resume()
        learner.run(X[3:], y[3:])
        answers.append(learner.last_decision.tobytes().hex())
        os.write(write, " ".join(answers).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        first, second, final = pipe.read().split(" ")
    os.waitpid(pid, 0)
    assert (first, second) == ("refused", "refused")
    learner.run(X[3:], y[3:])
    assert final == learner.last_decision.tobytes().hex()


def test_interrupt_between_rounds_leaves_a_consistent_learner():
    T = 300_000
    X = np.tile(stream(1000)[0], (T // 1000, 1))
    learner = make(horizon=T, loss=LinearLoss(1.0))
    sent = []

    def send(done, total):
        if done > 100_000 and not sent:
            sent.append(done)
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does

    with pytest.raises(KeyboardInterrupt):
        learner.run(X, record_decisions=False, progress=send)
    done = learner.round
    assert sent[0] <= done < sent[0] + 20_000
    twin = make(horizon=T, loss=LinearLoss(1.0))
    twin.run(X[:done], record_decisions=False)
    assert learner._engine.state() == twin._engine.state()
    learner.run(X[done:], record_decisions=False)
    assert learner.round == T


def test_parameters_may_not_exceed_the_budget_beside_them():
    strict, loose = dpoco.Budget(0.1, 1e-6), dpoco.Budget(5.0, 1e-6)
    generous = make(budget=loose).parameters
    with pytest.raises(dpoco.BudgetExceeded, match="over the budget"):
        make(budget=strict, parameters=generous)
    with pytest.raises(dpoco.BudgetExceeded):
        make(budget=strict, parameters=make(budget=None).parameters)
    kept = make(budget=loose, parameters=make(budget=strict).parameters)
    assert kept.guarantee.epsilon < 1.0
    assert make(budget=None, parameters=generous).guarantee.private


@pytest.mark.parametrize(
    "restated",
    [
        {"horizon": 30},
        {"statistics": "quadratic"},
        {"sum_method": "tree"},
        {"step_size": 2.0},
        {"batch": 7},
        {"relation": "zero_out"},
    ],
)
def test_arguments_beside_parameters_must_agree(restated):
    parameters = make().parameters
    with pytest.raises(ValueError, match="contradicts"):
        make(parameters=parameters, **restated)
    same = {name: getattr(parameters, name) for name in restated}
    assert make(parameters=parameters, **same).parameters == parameters


def test_noise_that_dominates_is_announced():
    with pytest.warns(dpoco.NoiseDominatesWarning, match="predicted error"):
        make(budget=dpoco.Budget(0.01, 1e-9))
