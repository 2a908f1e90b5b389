"""State files of the high-dimensional bandit: exact resume at any round, nothing else accepted."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpoco
from dpoco import _state
from dpoco.accounting import high_dimensional_bandit as accountant
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import Box, LpBall
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, K, D = 30, 3, 2
RNG = np.random.default_rng(0)
X, R = RNG.uniform(-1.1, 1.1, size=(T, D)), RNG.normal(size=(T, K)) * 0.8
CONFIGURATIONS = [
    {"arm_learner": "polyhedral", "batch": 3, "forced_rounds": 4, "gap": 0.2},
    {"arm_learner": "tree", "forced_rounds": 3},
    {"arm_learner": "tree", "sum_method": "honaker", "batch": 2, "forced_rounds": 0, "gap": 0.1},
    {"arm_learner": "polyhedral", "selector": "laplace", "forced_rounds": 12},
    {"budget": None, "link": "logistic", "forced_rounds": 2},
    {"arm_learner": "polyhedral", "forced_rounds": "paper", "budget": dpoco.Budget(2.0, 1e-5)},
    {"arm_learner": "polyhedral", "forced_rounds": 5, "batch": 20},  # all the clock can count
]


def make(configuration):
    options = {"budget": dpoco.Budget(1.0, 1e-5), **configuration}
    return HighDimensionalBandit(K, LpBall(D, 1.0), horizon=T, source=Source.seeded(1), **options)


def framed(header, payload):
    text = json.dumps(header).encode()
    frame = struct.pack("<8sIIQ", b"dpocost\n", 1, len(text), len(payload)) + text + payload
    return frame + hashlib.sha256(frame).digest()


def saved(index=0, rounds=21):
    learner = make(CONFIGURATIONS[index])
    learner.run(X[:rounds], R[:rounds])
    return _state.unpack(learner._to_bytes())


def refused(data):
    with pytest.raises(dpoco.StateError):
        HighDimensionalBandit._from_bytes(data)


def with_word(payload, at, value):
    words = bytearray(payload)
    struct.pack_into("<d" if isinstance(value, float) else "<Q", words, at % len(words), value)
    return bytes(words)


def test_damaged_files_are_refused():
    data = framed(*saved())
    assert HighDimensionalBandit._from_bytes(data).round == 21
    for length in [*range(0, len(data), 61), len(data) - 1]:
        refused(data[:length])
    for at in np.random.default_rng(1).integers(0, len(data), 200):
        broken = bytearray(data)
        broken[at] ^= 1
        refused(bytes(broken))
    header, payload = saved()
    for body in (payload[:-8], payload + bytes(8), b""):
        refused(framed(header, body))
    for value in (2, 4, 2**11, 2**30, -1):
        lie = json.loads(json.dumps(header))
        lie["object"]["arguments"]["arms"] = value
        refused(framed(lie, payload))
        lie["object"]["parameters"]["arms"] = value
        refused(framed(lie, payload))
    lie = json.loads(json.dumps(header))
    lie["object"]["arguments"]["domain"]["dimension"] = 2**30
    refused(framed(lie, payload))


def streams(payload):
    """Where the arms' generators have their stream numbers: three like pieces, after a key."""
    words = np.frombuffer(payload, dtype="<u8")
    # Round, violations, length and entries of the frozen estimates, then K pieces.
    piece = (len(words) - 3 - K * D) // K
    pieces = words[3 + K * D :].reshape(K, piece)
    (at,) = np.flatnonzero((pieces == np.arange(K)[:, None]).all(axis=0))
    return [8 * (3 + K * D + i * piece + int(at)) for i in range(K)], 8 * piece


@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
def test_impossible_payloads_are_refused(index):
    header, payload = saved(index)
    assert HighDimensionalBandit._from_bytes(framed(header, payload)).round == 21
    for round_ in (31, 2**63, 12, 28):  # past the horizon, out of step with the clocks
        refused(framed(header, with_word(payload, 0, round_)))
    frozen = 24
    for value in (float("nan"), float("inf"), 1.5):  # not in the domain, or not known yet
        refused(framed(header, with_word(payload, frozen, value)))
    places, piece = streams(payload)
    for i in range(K):
        for other in range(K):
            if other != i:  # two arms with one generator
                refused(framed(header, with_word(payload, places[i], other)))
    # The arms' learners exchanged: each with a clock that fits, but another's noise.
    start = 8 * (3 + K * D)
    swapped = payload[:start] + payload[start + piece : start + 2 * piece]
    swapped += payload[start : start + piece] + payload[start + 2 * piece :]
    refused(framed(header, swapped))
    header, payload = saved(index, rounds=0)
    refused(framed(header, with_word(payload, frozen, 0.25)))  # estimates before the first round


def test_estimates_just_frozen_are_the_current_ones():
    header, payload = saved(0, rounds=12)
    assert HighDimensionalBandit._from_bytes(framed(header, payload)).round == 12
    refused(framed(header, with_word(payload, 24, 0.01)))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_payloads_never_crash(data):
    header, payload = saved(data.draw(st.integers(0, len(CONFIGURATIONS) - 1)))
    broken = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    try:
        learner = HighDimensionalBandit._from_bytes(framed(header, bytes(broken)))
    except dpoco.StateError:
        return
    learner.run(X[learner.round :], R[learner.round :])


@pytest.mark.parametrize("dimension", [3, 2000])  # bounds are a list, or encoded
def test_a_box_is_not_built_for_arms_the_file_does_not_hold(dimension, monkeypatch):
    box = Box([-1.0] * dimension, [1.0] * dimension)
    learner = HighDimensionalBandit(2, box, horizon=50, budget=dpoco.Budget(1.0, 1e-5),
                                    forced_rounds=0, batch=2)  # fmt: skip
    header, payload = _state.unpack(learner._to_bytes())
    assert HighDimensionalBandit._header_dimension(header["object"]) == 2 * dimension
    assert HighDimensionalBandit._from_bytes(framed(header, payload)).arms == 2
    many = 4 * len(payload) // (8 * dimension)
    parameters = accountant.calibrate(many, box, horizon=50, budget=dpoco.Budget(1.0, 1e-5),
                                      forced_rounds=0, batch=2)  # fmt: skip
    header["object"]["arguments"]["arms"] = many
    header["object"]["parameters"] = parameters.to_dict()
    # Nothing of the size the header claims may be built before the file is found to be short.
    monkeypatch.setattr(HighDimensionalBandit, "_set_up", None)
    with pytest.raises(dpoco.StateError, match="differ in size"):
        HighDimensionalBandit._from_bytes(framed(header, payload))
