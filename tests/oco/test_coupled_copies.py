"""Copies, threads, forks and interruption of the coupled learners."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import dpoco
from dpoco.random import Source

T = 24
SAVED = [
    "weights density_ratio ball linear",
    "weights density_ratio box linear",
    "weights dartboard box logistic",
    "weights dartboard simplex squared",
    "weights anchored ball huber",
    "weights anchored simplex linear",
    "weights scheduled l3 quadratic",
    "leader density_ratio ball linear",
    "leader density_ratio box logistic",
    "leader density_ratio l3 squared",
    "leader density_ratio simplex quadratic",
    "leader scheduled ball huber",
]
LAZY = ["weights maximal ball linear", "leader maximal ball logistic", "leader maximal box linear"]
FAST = ["weights scheduled ball linear", "leader density_ratio ball linear"]
CUSTOM = ["weights dartboard ball custom", "leader density_ratio ball custom"]


@pytest.mark.parametrize("name", SAVED[::3] + CUSTOM)
def test_clones_are_fresh_and_started_learners_are_not_copied(coupled, name):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    fresh = copy.deepcopy(learner)
    first = stream.play(learner, 0, 5)
    for twin in (learner.clone(), fresh):
        assert twin.round == 0
        assert twin.get_params() == learner.get_params()
        assert not np.array_equal(stream.play(twin, 0, 5), first)
    for attempt in (copy.copy, copy.deepcopy):
        with pytest.raises(dpoco.StateError, match="clone"):
            attempt(learner)


@pytest.mark.parametrize("name", SAVED[::3])
def test_pickles_of_started_learners_wait_to_be_resumed(coupled, name):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    stream.play(learner, 0, 5)
    thawed = pickle.loads(pickle.dumps(learner))
    for use in (thawed.decide, lambda: stream.play(thawed, 5, T), lambda: thawed.last_decision):
        with pytest.raises(dpoco.StateError, match="resume"):
            use()
    with pytest.raises(dpoco.StateError, match="resume"):
        thawed.save("nowhere")
    thawed.resume()
    assert np.array_equal(stream.play(thawed, 5, T), stream.play(learner, 5, T))


@pytest.mark.parametrize("name", FAST)
def test_unstarted_pickles_get_noise_of_their_own(coupled, name):
    stream = coupled.stream(name, T)
    frozen = pickle.dumps(coupled.make(name, source=Source()))
    a, b = pickle.loads(frozen), pickle.loads(frozen)
    assert not np.array_equal(stream.play(a, 0, T), stream.play(b, 0, T))
    seeded = pickle.loads(pickle.dumps(coupled.make(name)))
    assert np.array_equal(stream.play(seeded, 0, T), stream.play(coupled.make(name), 0, T))


@pytest.mark.parametrize("name", FAST)
def test_get_params_are_the_arguments_as_given(coupled, name):
    kind, _, domain, loss = coupled.parse(name)
    source, p = Source.seeded(0), coupled.parameters(name)
    learner = kind(domain, loss, horizon=T, budget=None, parameters=p, source=source)
    params = learner.get_params()
    assert params["domain"] is domain
    assert params["source"] is source
    assert params["parameters"] is p
    assert params["coupling"] == "auto"
    assert params["block"] is None
    assert kind(**params).parameters == p


# -- threads, forks, interruption ------------------------------------------------------------------


def _long(coupled, name, horizon, **changes):
    X = np.tile(np.random.default_rng(2).normal(size=(1000, 3)), (horizon // 1000, 1))
    return coupled.make(name, horizon=horizon, max_switches=horizon // 4, **changes), X


@pytest.mark.parametrize("name", FAST)
def test_two_threads_never_interleave(coupled, name):
    rounds = 60_000
    learner, X = _long(coupled, name, 2 * rounds)
    outcomes, barrier = [], threading.Barrier(2)

    def play():
        barrier.wait()
        try:
            learner._engine.run(
                X[:rounds], None, np.empty(rounds), None, np.empty(rounds, np.uint8)
            )
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
    assert learner.round == played * rounds  # whole runs only


@pytest.mark.parametrize("name", ["weights dartboard ball linear", "leader scheduled box logistic"])
def test_threads_observing_one_decision_end_one_round(coupled, name):
    learner, stream = coupled.make(name, horizon=800), coupled.stream(name, 1)
    refused = []

    def feed():
        for _ in range(200):
            learner.decide()
            try:
                stream.observe(learner, 0)
            except dpoco.RoundOrderError:
                refused.append(1)

    threads = [threading.Thread(target=feed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.round == 800 - len(refused)


@pytest.mark.parametrize(
    "name", ["weights anchored ball huber", "leader density_ratio box logistic"]
)
def test_independent_learners_run_in_parallel_threads(coupled, name):
    stream = coupled.stream(name, 60)
    want = stream.play(coupled.make(name, horizon=60, max_switches=12), 0, 60)
    results = []

    def play():
        results.append(stream.play(coupled.make(name, horizon=60, max_switches=12), 0, 60))

    threads = [threading.Thread(target=play) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert all(np.array_equal(each, want) for each in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    "name", ["weights dartboard ball linear", "leader density_ratio box logistic"]
)
def test_a_forked_child_refuses_until_resumed(coupled, name, tmp_path):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    stream.play(learner, 0, 3)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        answers = []
        for use in (
            lambda: stream.play(learner, 3, 4),
            lambda: (learner.decide(), stream.observe(learner, 3)),
            lambda: learner.save(tmp_path / "child"),
        ):
            try:
                use()
                answers.append("went on")
            except dpoco.StateError:
                answers.append("refused")
        learner.resume()
        stream.play(learner, 3, T)
        answers.append(learner.last_decision.tobytes().hex())
        os.write(write, " ".join(answers).replace("went on", "went").encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        *answers, final = pipe.read().split(" ")
    os.waitpid(pid, 0)
    assert answers == ["refused"] * 3
    stream.play(learner, 3, T)
    assert final == learner.last_decision.tobytes().hex()


@pytest.mark.parametrize("name", FAST)
def test_interrupt_between_rounds_leaves_a_consistent_learner(coupled, name):
    rounds = 60_000
    (learner, X), (twin, _) = (_long(coupled, name, rounds) for _ in range(2))
    sent = []

    def send(done, total):
        if done > 20_000 and not sent:
            sent.append(done)
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does

    with pytest.raises(KeyboardInterrupt):
        learner.run(X, record_decisions=False, progress=send)
    done = learner.round
    assert sent[0] <= done < sent[0] + 20_000  # answered at once
    twin.run(X[:done], record_decisions=False)
    assert np.array_equal(learner.decide(), twin.decide())
    assert learner._engine.state() == twin._engine.state()
    learner.run(X[done:], record_decisions=False)
    assert learner.round == rounds


@pytest.mark.parametrize("name", [*FAST, "weights scheduled ball quadratic"])
@pytest.mark.parametrize("breaker", [KeyboardInterrupt, ValueError])
def test_progress_is_reported_and_may_stop_the_run(coupled, name, breaker):
    rounds = 40_000 if name.endswith("linear") else 9_000
    stream = coupled.stream(name, rounds)
    whole, learner = (coupled.make(name, horizon=rounds, block=500) for _ in range(2))
    seen = []
    whole.run(*stream.data, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (rounds, rounds)
    assert len(seen) >= 2
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})

    def stop(done, total):
        raise breaker

    with pytest.raises(breaker):
        learner.run(*stream.data, progress=stop)
    done = learner.round
    assert done == seen[0][0]
    learner.decide()
    stream.observe(learner, done)
    stream.play(learner, done + 1, rounds)
    assert np.array_equal(learner.last_decision, whole.last_decision)


@pytest.mark.parametrize("name", FAST)
def test_an_unwritable_checkpoint_is_found_before_the_first_round(coupled, name, tmp_path):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    for path in (tmp_path / "missing" / "state", tmp_path):
        with pytest.raises(OSError, match="cannot write"):
            learner.run(*stream.data, checkpoint=path)
    assert learner.round == 0
    learner.run(*stream.data, checkpoint=tmp_path / "state", checkpoint_every=7)
    assert dpoco.load(tmp_path / "state")._engine.state() == learner._engine.state()
