"""Compiled runs of every learner: the same as those that Python plays, round by round."""

from __future__ import annotations

import numpy as np
import pytest

from dpoco.audit import learner_runs
from dpoco.audit.black_box import compiled_kind, played
from dpoco.random import Source

replay_cases = pytest.importorskip("audit_replay_cases")
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("name", replay_cases.CASES)
def test_compiled_runs_are_those_of_the_learner_itself(name):
    make, stream, _ = replay_cases.CASES[name]
    count = 40
    short = tuple(part[:9] for part in stream) if isinstance(stream, tuple) else stream[:9]
    if compiled_kind(make(Source())) is None:
        assert hasattr(make(Source()), "fit")
        return
    outcomes = learner_runs(make)(short, count, Source.seeded(5))
    source = Source.seeded(5)
    learner = make(source)
    keys = source.words(4 * count).reshape(count, 4)
    assert len(np.unique(outcomes, axis=0)) > 1 or "AboveThreshold" in name  # sure answers
    # Beyond the first few, engines may be restored instead of built.
    for run in (0, 1, 9, count - 1):
        learner._engine = learner._build_engine({"key": keys[run].tobytes(), "stream": 1})
        learner._asked = (-1, None)
        found = np.array(played(learner, short, False)).reshape(-1)
        np.testing.assert_array_equal(found, outcomes[run, : len(found)])
        marks = outcomes[run, len(found) :]
        if marks.size:
            rows = found.reshape(9, -1)
            moved = np.any(rows[1:] != rows[:-1], axis=1)
            assert np.all(marks[:-1] >= moved)  # a fresh draw may hit the same vertex
