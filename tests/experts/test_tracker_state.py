"""Copies and state files of the oblivious tracker."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco import _state
from dpoco.experts import ObliviousTracker

from . import tracker_cases as cases

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, N, LOSSES, CONFIGURATIONS = cases.T, cases.N, cases.LOSSES, cases.CONFIGURATIONS
make = cases.make


def configured(test):
    return pytest.mark.parametrize("name", CONFIGURATIONS)(test)


@configured
def test_damaged_states_are_refused(name):
    learner = make(name)
    learner.run(LOSSES[:20])
    header, payload = _state.unpack(learner._to_bytes())
    refused = 0
    for bad in (payload[:-8], payload + bytes(8), b""):
        with pytest.raises(dpoco.StateError):
            ObliviousTracker._from_bytes(_state.pack(header, bad))
    nan = np.array([np.nan]).tobytes()
    for place in range(0, len(payload), 8):
        for word in (b"\xff" * 8, nan):
            bad = payload[:place] + word + payload[place + 8 :]
            try:
                twin = ObliviousTracker._from_bytes(_state.pack(header, bad))
            except dpoco.StateError:
                refused += 1
            else:  # a field that may hold anything: positions, key, counts
                assert 0 <= twin.decide() < N
    assert refused > N


def planted(learner, fields):
    """The learner's state with doubles of the payload replaced."""
    header, payload = _state.unpack(learner._to_bytes())
    values = np.frombuffer(payload, dtype="<f8").copy()
    for place, value in fields:
        values[place] = value
    return _state.pack(header, values.tobytes())


def test_costs_that_would_overflow_are_refused():
    """Infinite sums of finite costs left no best expert to be found, and memory beyond was hit."""
    learner = make("at most")
    learner.run(LOSSES[:20])
    switches = 3
    rows = slice(-1 - switches * N, -1)
    first_offset = -1 - switches * N - 1 - switches
    for value in (1.7e308, 1e150):
        level = range(rows.start, rows.start + N)
        both = [*((place, value) for place in level), (first_offset, value)]
        for fields in (both, both[:1], both[-1:], [(first_offset, -value)]):
            with pytest.raises(dpoco.StateError, match="impossible weights"):
                ObliviousTracker._from_bytes(planted(learner, fields))
    with pytest.raises(dpoco.StateError, match="impossible weights"):
        ObliviousTracker._from_bytes(planted(learner, [(first_offset - 1, 1.0)]))
    # What is let in may be wrong, but is played to the end.
    level = range(rows.start, rows.start + N)
    twin = ObliviousTracker._from_bytes(
        planted(learner, [*((place, 1e149) for place in level), (first_offset, 1e149)])
    )
    twin.run(LOSSES[20:-1])
    assert np.isfinite(twin._engine.nonprivate_kernel(LOSSES[-1])[1]).all()


def test_weights_below_what_sharing_leaves_are_refused():
    learner = make("share")
    learner.run(LOSSES[:20])
    weights = range(-1 - N, -1)
    for value in (5e-324, 1e-90, 0.01, 3.0):
        with pytest.raises(dpoco.StateError, match="impossible weights"):
            ObliviousTracker._from_bytes(planted(learner, [(place, value) for place in weights]))
    least = 0.1 / (N - 1)
    twin = ObliviousTracker._from_bytes(planted(learner, [(place, least) for place in weights]))
    twin.run(LOSSES[20:])


def test_a_small_file_cannot_ask_for_much_memory():
    learner = make("", switches=1, prior="at_most", learning_rate=0.5)
    header, payload = _state.unpack(learner._to_bytes())
    for record in (header["object"]["arguments"], header["object"]["parameters"]):
        record.update(switches=2**26, horizon=10**12)
    bad = _state.pack(header, payload)
    with pytest.raises(dpoco.StateError, match="header and payload differ"):
        ObliviousTracker._from_bytes(bad)
    # One expert, more switches than rounds, one without: as large as they are.
    for options in (
        {"experts": 1, "switches": 10**6, "prior": "at_most"},
        {"switches": 10**6, "prior": "at_most"},
        {"switches": 10**6},
    ):
        learner = make("", learning_rate=0.5, **options)
        assert ObliviousTracker._from_bytes(learner._to_bytes()).parameters == learner.parameters
