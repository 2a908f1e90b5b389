"""State files of the batched share: nothing impossible is accepted, and copies share no noise."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpoco
from dpoco import _state
from dpoco.experts import BatchShare

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

_spec = importlib.util.spec_from_file_location(
    "batch_share_reference", Path(__file__).with_name("batch_share_reference.py")
)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

N, T = reference.N, reference.T
CONFIGURATIONS, LOSSES, make = reference.CONFIGURATIONS, reference.LOSSES, reference.make


def framed(header, payload):
    return _state.pack(header, payload)


def with_word(payload, at, value):
    words = bytearray(payload)
    struct.pack_into("<Q" if isinstance(value, int) else "<d", words, at, value)
    return bytes(words)


@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
def test_impossible_states_are_refused(index):
    learner = make(index)
    learner.run(LOSSES[:22])
    header, payload = _state.unpack(learner._to_bytes())
    BatchShare._from_bytes(framed(header, payload))
    size = len(payload)
    weights = size - 8 * N  # the last array
    sums = weights - 8 - 8 * N
    bad = [with_word(payload, weights, v) for v in (-1.0, np.nan, np.inf)]
    bad += [with_word(payload, sums, v) for v in (-1.0, np.nan, 1e3)]
    bad += [with_word(payload, 0, v) for v in (10, 12, 2**40, 42)]  # the round
    bad += [with_word(payload, 8, N)]  # the decision
    bad += [with_word(payload, sums - 8 - 8 * k, 0.123) for k in range(1, 6)]  # settings
    bad += [payload[:-8], payload + bytes(8), b""]
    for body in bad:
        with pytest.raises(dpoco.StateError):
            BatchShare._from_bytes(framed(header, body))
    if learner.parameters.share_rate > 0.0:  # weights that do not sum to 1
        with pytest.raises(dpoco.StateError):
            BatchShare._from_bytes(framed(header, with_word(payload, weights, 0.9)))
    for name, value in [("noise_scale", 7.0), ("batch", 6), ("experts", 10**9), ("horizon", 3)]:
        changed = {**header["object"], "parameters": {**header["object"]["parameters"]}}
        changed["parameters"][name] = value
        with pytest.raises(dpoco.StateError):
            BatchShare._from_bytes(framed({**header, "object": changed}, payload))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_payloads_never_crash(data):
    learner = make(data.draw(st.sampled_from([0, 3, 5, 6, 8])))
    learner.run(LOSSES[:20])
    header, payload = _state.unpack(learner._to_bytes())
    broken = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at] = data.draw(st.integers(0, 255))
    try:
        loaded = BatchShare._from_bytes(framed(header, bytes(broken)))
    except dpoco.StateError:
        return
    loaded.run(LOSSES[loaded.round :])
    assert np.isfinite(loaded.weights).all()
