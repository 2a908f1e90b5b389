"""State, order and bad input of the compiled coupled leader."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from dpoco.errors import RoundOrderError, StateError

_spec = importlib.util.spec_from_file_location(
    "ctrl_pairs", Path(__file__).with_name("ctrl_pairs.py")
)
pairs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pairs)
ref, pair, play = pairs.ref, pairs.pair, pairs.play


@pytest.mark.parametrize("kind", ["linear", "logistic", "squared", "quadratic"])
def test_state_of_every_round_goes_on_bit_for_bit(kind):
    changes = {"rounds": 16, "block": 2, "forced_switch": 0.4}
    engine, _, stream = pair(kind, "simplex", **changes)
    states, decisions = [engine.state()], [engine.decision()]
    for t in range(16):
        stream.feed(engine, t)
        states.append(engine.state())
        decisions.append(engine.decision())
    for start in range(17):
        again, _, _ = pair(kind, "simplex", **changes)
        again.restore(states[start])
        for t in range(start, 16):
            np.testing.assert_array_equal(again.decision(), decisions[t])
            assert again.state() == states[t]
            stream.feed(again, t)
        assert again.state() == states[-1]


def test_maximal_state_counts_its_attempts():
    changes = {"rounds": 30, "coupling": "maximal", "forced_switch": 0.0, "noise_scale": 1.0}
    engine, _, stream = pair("logistic", "ball", **changes)
    for t in range(25):
        stream.feed(engine, t)
    assert engine.variates_drawn()[1] > 24  # attempts take uniforms too
    again, _, _ = pair("logistic", "ball", **changes)
    again.restore(engine.state())
    for t in range(25, 30):
        stream.feed(engine, t)
        stream.feed(again, t)
    assert again.state() == engine.state()


def test_impossible_states_are_refused():
    engine, _, stream = pair("logistic", "ball", rounds=12, forced_switch=0.5)
    for t in range(8):
        stream.feed(engine, t)
    good = bytearray(engine.state())
    refused = 0
    for word in range(len(good) // 8):
        for bad in (b"\xff" * 8, (1 << 40).to_bytes(8, "little")):
            broken = bytearray(good)
            broken[8 * word : 8 * word + 8] = bad
            again, _, _ = pair("logistic", "ball", rounds=12, forced_switch=0.5)
            try:
                again.restore(bytes(broken))
            except StateError:
                refused += 1
            else:
                assert np.linalg.norm(again.decision()) <= 1.5 * (1 + 1e-12)
    assert refused > len(good) // 8  # most words; the key and noise-like values may be anything
    behind = bytearray(good)
    behind[-8 * 4 : -8 * 3] = (engine.variates_drawn()[2] - 3).to_bytes(8, "little")
    again, _, _ = pair("logistic", "ball", rounds=12, forced_switch=0.5)
    with pytest.raises(StateError):
        again.restore(bytes(behind))


def test_rounds_must_be_in_order():
    engine, _, stream = pair("logistic", "ball")
    before = engine.state()
    with pytest.raises(RoundOrderError):
        engine.observe(1, stream.rows[0], 0.0)
    with pytest.raises(ValueError, match="takes no"):
        engine.observe_gradient(0, stream.rows[0])
    assert engine.state() == before


def test_records_that_are_not_numbers_count_as_zero():
    spoiled, _, stream = pair("logistic", "ball", forced_switch=0.2)
    mirror = pair("logistic", "ball", forced_switch=0.2)[1]
    for t in range(20):
        if t % 3 == 0:
            spoiled.observe(t, np.array([np.nan, 0.0, np.inf]), float(stream.labels[t]))
            mirror.observe(ref.ZERO)
        else:
            stream.feed(spoiled, t)
            mirror.observe(stream.losses[t])
        np.testing.assert_allclose(spoiled.nonprivate_point(), mirror.point, atol=1e-8)


def test_a_loss_that_raises_ends_the_learner():
    engine, _, stream = pair("custom", "ball", forced_switch=0.2)
    for t in range(3):
        stream.feed(engine, t)
    before = engine.decision()

    def fail(x):
        raise ZeroDivisionError

    with pytest.raises(TypeError):
        engine.observe_custom(3, object())
    np.testing.assert_array_equal(engine.decision(), before)  # nothing had begun
    with pytest.raises(ZeroDivisionError):
        engine.observe_custom(3, ref.Loss(lambda x: 0.0, fail, fail))
    for use in (
        engine.decision,
        lambda: stream.feed(engine, 3),
        lambda: stream.feed(engine, 4),
    ):
        with pytest.raises(StateError, match="failed midway"):
            use()


@pytest.mark.parametrize(
    "changes",
    [
        {"step_size": 0.0},
        {"step_size": math.inf},
        {"noise_scale": 0.0},
        {"noise_scale": math.nan},
        {"barrier_weight": 0.0},
        {"clip_high": -0.1},
        {"coupling": "scheduled"},
        {"coupling": "maximal"},
        {"coupling": "maximal", "forced_switch": 0.0, "block": 2},
        {"coupling": "dartboard"},
        {"block": 0},
    ],
)
def test_settings_that_contradict_each_other(changes):
    with pytest.raises(ValueError, match=r"\w"):
        pair("logistic", "ball", **changes)


def test_without_noise_the_leader_is_followed():
    engine, mirror, stream = pair(
        "logistic", "ball", coupling="scheduled", forced_switch=1.0, noise_scale=0.0
    )
    assert engine.grid == 0.0
    play(engine, mirror, stream)
    assert engine.variates_drawn() == [0] * 6
