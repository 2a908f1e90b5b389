"""State files of Hedge on noisy sums: exact resume at any round, and nothing else is accepted."""

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
from dpoco.experts import PrefixHedge
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, N = 30, 4
LOSSES = np.random.default_rng(0).random((T, N)) * 1.4 - 0.2
CONFIGURATIONS = [
    {},
    {"sum_method": "tree"},
    {"sum_method": "honaker", "loss_range": (-1.0, 1.0)},
    {"sum_method": "toeplitz", "learning_rate": 0.01},
    {"budget": None},
]


def make(configuration):
    options = {"budget": dpoco.Budget(1.0, 1e-5), **configuration}
    return PrefixHedge(N, horizon=T, source=Source.seeded(1), **options)


def framed(header, payload):
    text = json.dumps(header).encode()
    frame = struct.pack("<8sIIQ", b"dpocost\n", 1, len(text), len(payload)) + text + payload
    return frame + hashlib.sha256(frame).digest()


def saved(index=0, rounds=20):
    learner = make(CONFIGURATIONS[index])
    learner.run(LOSSES[:rounds])
    return _state.unpack(learner._to_bytes())


def refused(data):
    with pytest.raises(dpoco.StateError):
        PrefixHedge._from_bytes(data)


def with_word(payload, at, value):
    words = bytearray(payload)
    struct.pack_into("<d" if isinstance(value, float) else "<Q", words, at % len(words), value)
    return bytes(words)


def test_damaged_files_are_refused():
    data = framed(*saved())
    assert PrefixHedge._from_bytes(data).round == 20
    for length in [*range(0, len(data), 61), len(data) - 1]:
        refused(data[:length])
    for at in np.random.default_rng(1).integers(0, len(data), 200):
        broken = bytearray(data)
        broken[at] ^= 1
        refused(bytes(broken))
    header, payload = saved()
    for body in (payload[:-8], payload + bytes(8), b""):
        refused(framed(header, body))
    for experts in (3, 5, 10**9):
        lie = json.loads(json.dumps(header))
        lie["object"]["arguments"]["experts"] = experts
        refused(framed(lie, payload))
        lie["object"]["parameters"]["experts"] = experts
        refused(framed(lie, payload))


@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
def test_impossible_payloads_are_refused(index):
    header, payload = saved(index)
    assert PrefixHedge._from_bytes(framed(header, payload)).round == 20
    for round_ in (31, 19, 21, 2**63):  # past the horizon, out of step with the sum
        refused(framed(header, with_word(payload, 0, round_)))
    refused(framed(header, with_word(payload, 8, N)))  # the decision
    for value in (float("nan"), float("inf")):
        refused(framed(header, with_word(payload, 32, value)))  # a score
    # Payloads end with the source's positions: words, uniforms, Gaussians, ...
    for kind, positions in ((1, (0, 20, 22)), (2, (0, 1, 10**6))):
        for position in positions:
            if kind == 1 or CONFIGURATIONS[index].get("budget", 0) is not None:
                refused(framed(header, with_word(payload, -48 + 8 * kind, position)))
    header, payload = saved(index, rounds=0)
    refused(framed(header, with_word(payload, 32, 1.0)))  # a score before the first round


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_payloads_never_crash(data):
    header, payload = saved(data.draw(st.integers(0, len(CONFIGURATIONS) - 1)))
    broken = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    try:
        learner = PrefixHedge._from_bytes(framed(header, bytes(broken)))
    except dpoco.StateError:
        return
    learner.run(LOSSES[learner.round :])
