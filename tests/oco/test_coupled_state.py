"""State files, copies, threads, forks and interruption of the coupled learners."""

from __future__ import annotations

import hashlib
import json
import pickle
import signal
import struct
import subprocess
import sys
import textwrap
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


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
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
