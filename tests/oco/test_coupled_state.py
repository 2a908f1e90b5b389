"""State files, copies, threads, forks and interruption of the coupled learners."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpoco
from dpoco import _state
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


# -- state files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAVED + LAZY)
def test_resume_is_exact_at_every_round(coupled, name, tmp_path):
    stream, whole, learner = coupled.stream(name, T), coupled.make(name), coupled.make(name)
    want = stream.play(whole, 0, T)
    path = tmp_path / "state.dpoco"
    for t in range(T):
        learner.save(path)
        loaded = dpoco.load(path)
        assert (loaded.round, loaded.switches) == (t, learner.switches)
        assert loaded.parameters == learner.parameters
        assert loaded.guarantee == learner.guarantee
        assert repr(loaded) == repr(learner)
        assert loaded._engine.variates_drawn() == learner._engine.variates_drawn()
        assert np.array_equal(stream.play(loaded, t, t + 1)[0], want[t])
        learner = loaded
    assert whole.switches >= 1
    assert learner._engine.state() == whole._engine.state()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(SAVED),
    cuts=st.lists(st.integers(0, T), max_size=5),
    seed=st.integers(0, 2**256 - 1),
)
def test_random_interruptions_change_nothing(coupled, name, cuts, seed):
    stream = coupled.stream(name, T)
    want = stream.play(coupled.make(name, seed=seed), 0, T)
    learner, at, got = coupled.make(name, seed=seed), 0, []
    for cut in [*sorted(cuts), T]:
        got.append(stream.play(learner, at, cut))
        learner, at = type(learner)._from_bytes(learner._to_bytes()), cut
    assert np.array_equal(np.concatenate(got), want)


@pytest.mark.parametrize("name", FAST)
def test_entropy_learners_resume_exactly_too(coupled, name, tmp_path):
    learner, stream = coupled.make(name, source=Source()), coupled.stream(name, T)
    stream.play(learner, 0, 10)
    learner.save(tmp_path / "s")
    twin = dpoco.load(tmp_path / "s")
    assert twin.guarantee.certified
    assert np.array_equal(stream.play(twin, 10, T), stream.play(learner, 10, T))


@pytest.mark.parametrize("horizon", [1, 20])
@pytest.mark.parametrize(
    "name",
    [
        "weights dartboard box logistic",
        "weights density_ratio ball linear",
        "leader density_ratio ball logistic",
        "leader scheduled simplex squared",
    ],
)
def test_what_calibration_made_of_the_arguments_can_be_saved(coupled, name, horizon, tmp_path):
    """At such a budget nothing beats the constant decision, whichever coupling was asked for."""
    kind, coupling, domain, loss = coupled.parse(name)
    learner = kind(
        domain, loss, horizon=horizon, budget=dpoco.Budget(0.05, 1e-6), coupling=coupling, block=1
    )
    coupled.stream(name, horizon).play(learner, 0, 1)
    learner.save(tmp_path / "state")
    loaded = dpoco.load(tmp_path / "state")
    assert loaded.parameters == learner.parameters
    assert np.array_equal(loaded.last_decision, learner.last_decision)


def _refused(data, path):
    path.write_bytes(data)
    with pytest.raises(dpoco.StateError):
        dpoco.load(path)


def _started(coupled, name, rounds=7):
    learner = coupled.make(name)
    coupled.stream(name, T).play(learner, 0, rounds)
    return learner


def _framed(header, payload):
    text = json.dumps(header).encode()
    frame = struct.pack("<8sIIQ", b"dpocost\n", 1, len(text), len(payload)) + text + payload
    return frame + hashlib.sha256(frame).digest()


@pytest.mark.parametrize("name", SAVED[::4] + SAVED[7:9])
def test_every_truncation_and_every_flipped_byte_is_refused(coupled, name, tmp_path):
    data, path = _started(coupled, name)._to_bytes(), tmp_path / "state"
    path.write_bytes(data)
    assert dpoco.load(path).round == 7
    for length in [*range(0, 200, 17), *range(200, len(data), 97), len(data) - 1]:
        _refused(data[:length], path)
    _refused(data + b"\0", path)
    rng = np.random.default_rng(1)
    for at in [*range(0, 32, 3), *rng.integers(0, len(data), 60)]:
        broken = bytearray(data)
        broken[at] ^= 1 << rng.integers(8)
        _refused(bytes(broken), path)


@pytest.mark.parametrize("name", SAVED)
def test_resealed_states_of_other_learners_are_refused(coupled, name, tmp_path):
    learner, path = _started(coupled, name), tmp_path / "state"
    header, payload = _state.unpack(learner._to_bytes())
    path.write_bytes(_framed(header, payload))
    assert dpoco.load(path).round == 7  # resealing itself is fine

    def changed(key, value):
        new = json.loads(json.dumps(header))
        target = new
        *parts, last = key.split(".")
        for part in parts:
            target = target[part]
        target[last] = value
        return _framed(new, payload)

    for key, value in [
        ("kind", "TreeFrankWolfe"),
        ("kind", None),
        ("object", {}),
        ("object.parameters.horizon", 6),
        ("object.parameters.horizon", -1),
        ("object.parameters.coupling", "sticky"),
        ("object.parameters.block", 5),
        ("object.parameters.forced_switch", 0.0),
        ("object.parameters.lipschitz", 100.0),
        ("object.parameters.dimension", 4),
        ("object.parameters", None),
        ("object.arguments.horizon", 30),
        ("object.arguments.foo", 1),
        ("object.arguments.domain", {"type": "Sphere"}),
        ("object.arguments.domain", {"type": "LpBall", "dimension": 7, "p": 2.0, "radius": 1.0}),
        ("object.arguments.loss", {"type": "Nothing"}),
    ]:
        _refused(changed(key, value), path)
    for body in (payload[:-8], payload + bytes(8), b"", payload[8:]):
        _refused(_framed(header, body), path)
    rounds_at = payload.index(struct.pack("<Q", 7))
    for count in (T + 1, 2**63):
        broken = bytearray(payload)
        struct.pack_into("<Q", broken, rounds_at, count)
        _refused(_framed(header, bytes(broken)), path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), name=st.sampled_from([n for n in SAVED if "simplex" not in n]))
def test_random_payloads_never_crash(coupled, data, name):
    learner = _started(coupled, name)
    header, payload = _state.unpack(learner._to_bytes())
    broken = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    body = bytes(broken[: data.draw(st.integers(0, len(broken)))])
    if data.draw(st.booleans()):
        body = bytes(broken)
    try:
        loaded = type(learner)._from_bytes(_framed(header, body))
    except dpoco.StateError:
        return
    assert loaded.domain.contains(loaded.last_decision)


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_losses_are_not_saved(coupled, name, tmp_path):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    for rounds in (0, 5):
        stream.play(learner, learner.round, rounds)
        with pytest.raises(dpoco.StateError, match="custom losses"):
            learner.save(tmp_path / "state")
        with pytest.raises(dpoco.StateError, match="custom losses"):
            pickle.dumps(learner)
    assert list(tmp_path.iterdir()) == []
    assert stream.play(learner, 5, T).shape == (T - 5, 3)  # and goes on


@pytest.mark.parametrize("name", FAST)
def test_a_killed_process_resumes_to_the_same_releases(coupled, name, tmp_path):
    """SIGKILL in the middle of `run` with checkpoints; the rest is replayed exactly."""
    rounds, every = 2_000_000, 20_000
    checkpoint = tmp_path / "checkpoint.dpoco"
    kind = coupled.parse(name)[0].__name__
    own = coupled.parameters(name, horizon=rounds, max_switches=rounds // 10, block=7).to_dict()
    script = textwrap.dedent(
        f"""
        import numpy as np, dpoco
        kind = dpoco.oco.{kind}
        learner = kind(
            dpoco.domains.LpBall(3, 2.0), dpoco.losses.LinearLoss(1.0), horizon={rounds},
            budget=None, source=dpoco.random.Source.seeded(9),
            parameters=dpoco.oco.{kind}Parameters.from_dict({own!r}))
        X = np.tile(np.random.default_rng(3).normal(size=(1000, 3)), ({rounds} // 1000, 1))
        print("ready", flush=True)
        learner.run(X, record_decisions=False, checkpoint={str(checkpoint)!r},
                    checkpoint_every={every})
        """
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    resumed = dpoco.load(checkpoint)
    done = resumed.round
    assert 0 < done <= rounds
    assert done % every == 0
    X = np.random.default_rng(3).normal(size=(1000, 3))
    whole = coupled.make(name, horizon=rounds, max_switches=rounds // 10, block=7, seed=9)
    whole.run(np.tile(X, (done // 1000, 1)), record_decisions=False)
    assert whole._engine.state() == resumed._engine.state()
    if done < rounds:
        assert np.array_equal(whole.run(X).decisions, resumed.run(X).decisions)


# -- copies ---------------------------------------------------------------------------------------


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
