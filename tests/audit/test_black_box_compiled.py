"""Compiled runs: those that Python plays, and how often restored engines are compared with new."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tests.audit.replay_cases import CASES, case

import dpoco
from dpoco import _core
from dpoco.audit import learner_runs
from dpoco.audit.black_box import compiled_kind, play_learner
from dpoco.mechanisms import AboveThreshold, ContinualSum
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("Monitor")])
def test_compiled_runs_are_those_of_the_learner_itself(name):
    make, stream, _ = case(name)
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
        found = np.array(play_learner(learner, short)).reshape(-1)
        np.testing.assert_array_equal(found, outcomes[run, : len(found)])
        marks = outcomes[run, len(found) :]
        if marks.size:
            rows = found.reshape(9, -1)
            moved = np.any(rows[1:] != rows[:-1], axis=1)
            assert np.all(marks[:-1] >= moved)  # a fresh draw may hit the same vertex


def test_answers_after_the_last_alarm_are_marked_in_python_as_well():
    class Mine(AboveThreshold):
        def test(self, excess):
            return super().test(excess)

    options = {"horizon": 4, "budget": dpoco.Budget(100.0, 0.0), "sensitivity": 1.0, "alarms": 1}
    queries = np.array([-1e4, 1e4, 1e4, 1e4])
    for kind in (AboveThreshold, Mine):
        run = learner_runs(lambda source, kind=kind: kind(source=source, **options))
        assert run(queries, 2, Source.seeded(1)).tolist() == [[0, 1, -1, -1]] * 2


# ---- engines that are restored again and again ---------------------------------------------------

T, COUNT = 3, 5000
ROWS = np.ones((T, 1))
KEYS = Source.seeded(3).words(4 * COUNT)
OPTIONS = {"horizon": T, "budget": dpoco.Budget(1.0, 1e-3), "numerics": "float"}


@cache
def total(epsilon):
    options = {"bound": 1.0, **OPTIONS, "budget": dpoco.Budget(epsilon, 1e-3)}
    return ContinualSum(1, **options, source=Source.seeded(0))


def repeated(build):
    out = np.empty((COUNT, T))
    built = _core.repeat_vectors("ContinualSum", build, KEYS, ROWS, None, T, False, out)
    return built, out


def honest(key):
    return total(1.0)._build_engine({"key": key, "stream": 1})


def test_runs_all_over_the_count_are_compared():
    asked = []

    def build(key):
        asked.append(int(np.flatnonzero(KEYS[::4] == np.frombuffer(key, dtype="<u8")[0])[0]))
        return honest(key)

    built, _ = repeated(build)
    runs = sorted(set(asked))
    assert built < 40 < COUNT
    assert set(range(8)) | {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096} <= set(runs)
    others = [run for run in runs if run & (run - 1) and run > 8]
    assert others == [int(run) for run in np.flatnonzero(KEYS[::4] % 1024 == 0) if run > 8]
    assert others


@pytest.mark.parametrize("odd", [16, 4096, "picked"])
def test_one_engine_that_is_built_otherwise_is_noticed(odd):
    """And all runs are those of engines built for them."""
    if odd == "picked":
        odd = int(np.flatnonzero(KEYS[::4] % 1024 == 0)[-1])
    strange = KEYS[4 * odd : 4 * odd + 4].tobytes()

    def build(key):
        return total(0.1 if key == strange else 1.0)._build_engine({"key": key, "stream": 1})

    built, out = repeated(build)
    assert built > COUNT
    _, right = repeated(honest)
    differ = np.flatnonzero(np.any(out != right, axis=1))
    assert differ.tolist() == [odd]
