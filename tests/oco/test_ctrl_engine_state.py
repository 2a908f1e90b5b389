"""State, order and bad input of the compiled coupled leader."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oco.ctrl_pairs import pair, play

from dpoco.errors import StateError


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


@pytest.mark.parametrize(
    "changes",
    [
        {"step_size": 0.0},
        {"noise_scale": 0.0},
        {"noise_scale": math.nan},
        {"barrier_weight": 0.0},
        {"clip_high": -0.1},
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
