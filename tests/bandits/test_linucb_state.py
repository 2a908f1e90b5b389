"""State files of private LinUCB: exact resume at any round, and nothing else is accepted."""

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
from dpoco.bandits import LinUCB
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, K, D = 30, 3, 2
SIZE = K * D * (D + 3) // 2
RNG = np.random.default_rng(0)
X, R = RNG.normal(size=(T, D)) * 0.6, RNG.normal(size=(T, K)) * 0.8
CONFIGURATIONS = [
    {"batch": 1},
    {"sum_method": "tree", "batch": 4},
    {"sum_method": "honaker", "batch": 3, "exploration": 0.1},
    {"sum_method": "toeplitz"},
    {"budget": None},
]


def make(configuration):
    options = {"budget": dpoco.Budget(1.0, 1e-5), **configuration}
    return LinUCB(K, D, horizon=T, source=Source.seeded(1), **options)


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
        LinUCB._from_bytes(data)


def with_word(payload, at, value):
    words = bytearray(payload)
    struct.pack_into("<d" if isinstance(value, float) else "<Q", words, at % len(words), value)
    return bytes(words)


def test_damaged_files_are_refused():
    data = framed(*saved())
    assert LinUCB._from_bytes(data).round == 21
    for length in [*range(0, len(data), 61), len(data) - 1]:
        refused(data[:length])
    for at in np.random.default_rng(1).integers(0, len(data), 200):
        broken = bytearray(data)
        broken[at] ^= 1
        refused(bytes(broken))
    header, payload = saved()
    for body in (payload[:-8], payload + bytes(8), b""):
        refused(framed(header, body))
    for name, value in (("arms", 2), ("arms", 4), ("arms", 2**20), ("dimension", 3), ("arms", -1)):
        lie = json.loads(json.dumps(header))
        lie["object"]["arguments"][name] = value
        refused(framed(lie, payload))
        lie["object"]["parameters"][name] = value
        refused(framed(lie, payload))


@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
def test_impossible_payloads_are_refused(index):
    header, payload = saved(index)
    assert LinUCB._from_bytes(framed(header, payload)).round == 21
    for round_ in (31, 2**63, 12, 28):  # past the horizon, out of step with the sum
        refused(framed(header, with_word(payload, 0, round_)))
    # Round, violations, then batch, its rounding and releases, each after its length.
    batch, rest, released = 24, 32 + 8 * SIZE, 40 + 16 * SIZE
    for at in (batch, rest, released):
        for value in (float("nan"), float("inf")):
            refused(framed(header, with_word(payload, at, value)))
    refused(framed(header, with_word(payload, rest, 1.0)))
    if CONFIGURATIONS[index].get("budget", 0) is None:  # the factors of all arms come last
        for value in (-1.0, 0.0, float("nan"), float("inf")):
            refused(framed(header, with_word(payload, -8, value)))
    header, payload = saved(index, rounds=0)
    for at in (batch, released):
        refused(framed(header, with_word(payload, at, 1.0)))  # statistics before the first round


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_payloads_never_crash(data):
    header, payload = saved(data.draw(st.integers(0, len(CONFIGURATIONS) - 1)))
    broken = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    try:
        learner = LinUCB._from_bytes(framed(header, bytes(broken)))
    except dpoco.StateError:
        return
    learner.run(X[learner.round :], R[learner.round :])
