"""Copies and state files of the oblivious tracker."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpoco
from dpoco import _state
from dpoco.experts import ObliviousTracker

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

_spec = importlib.util.spec_from_file_location(
    "tracker_cases", Path(__file__).with_name("tracker_cases.py")
)
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
T, N, LOSSES, CONFIGURATIONS = cases.T, cases.N, cases.LOSSES, cases.CONFIGURATIONS
make = cases.make


def configured(test):
    return pytest.mark.parametrize("name", CONFIGURATIONS)(test)


@configured
def test_resume_is_exact_at_every_round(name, tmp_path):
    whole = make(name)
    want = whole.run(LOSSES).decisions
    learner = make(name)
    path = tmp_path / "state.dpoco"
    for t in range(T):
        learner.save(path)
        loaded = dpoco.load(path)
        assert loaded.round == t
        assert loaded.parameters == learner.parameters
        assert loaded.guarantee == learner.guarantee
        assert loaded.resamples == learner.resamples
        assert repr(loaded) == repr(learner)
        assert loaded.run(LOSSES[t : t + 1]).decisions[0] == want[t]
        learner = loaded
    assert learner._engine.state() == whole._engine.state()


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(CONFIGURATIONS)),
    cuts=st.lists(st.integers(0, T), max_size=5),
    seed=st.integers(0, 2**256 - 1),
)
def test_random_interruptions_change_nothing(name, cuts, seed):
    want = make(name, seed=seed).run(LOSSES).decisions
    learner, at, got = make(name, seed=seed), 0, []
    for cut in [*sorted(cuts), T]:
        got.append(learner.run(LOSSES[at:cut]).decisions)
        learner = ObliviousTracker._from_bytes(learner._to_bytes())
        at = cut
    assert np.array_equal(np.concatenate(got), want)


def test_copies_do_not_share_randomness():
    learner = ObliviousTracker(N, horizon=T, budget=dpoco.Budget(1.0, 1e-4), switches=2)
    assert learner.guarantee.certified
    fresh = pickle.loads(pickle.dumps(learner))
    assert fresh._engine.state() != learner._engine.state()  # a key of its own
    learner.run(LOSSES[:5])
    with pytest.raises(dpoco.StateError):
        copy.deepcopy(learner)
    suspended = pickle.loads(pickle.dumps(learner))
    with pytest.raises(dpoco.StateError):
        suspended.decide()
    suspended.resume()
    assert np.array_equal(suspended.run(LOSSES[5:]).decisions, learner.run(LOSSES[5:]).decisions)
    clone = learner.clone()
    assert clone.round == 0
    assert clone.parameters == learner.parameters
    assert not make().guarantee.certified


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


def test_the_report_shows_nothing_that_depends_on_data():
    learner = make("share")
    before = repr(learner)
    learner.run(LOSSES)
    assert repr(learner) == before
    assert not any("weight" in name or "law" in name for name in dir(learner))
