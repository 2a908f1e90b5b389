"""What becomes of learners that a journal takes: one continuation, here, of what they were."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from tests.journal.journal_cases import ROUNDS, cases, opened

import dpoco

CASES = cases()
IDS = [case.name for case in CASES]


def started(case):
    learner = case.make(1)
    part = case.part(0, 5)
    if case.name == "NoisyMax":
        for row in part[0]:
            learner.select(row)
    elif case.name == "AboveThreshold":
        for row in zip(*part, strict=True):
            learner.test(*row)
    else:
        learner.run(*part)
    return learner


def use(case, learner):
    record = [array[5] for array in case.batch]
    if case.name == "NoisyMax":
        return learner.select(*record)
    if case.name == "AboveThreshold":
        return learner.test(*record)
    if case.name == "ContinualSum":
        return learner.push(*record)
    if case.name == "LinUCB":
        return learner.decide(record[0])
    return learner.decide()


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_unpickled_learners_are_bound_to_a_journal(case, tmp_path):
    expected, learner = case.reference(), started(case)
    waiting = pickle.loads(pickle.dumps(learner))
    with opened(tmp_path) as journal:
        with pytest.raises(dpoco.StateError, match="adopt"):
            journal.open("a", lambda: waiting)
        stream = journal.adopt("a", waiting)
        assert (stream.round, stream.kept_from) == (5, 5)
        with pytest.raises(dpoco.StateError, match="suspended"):
            use(case, waiting)
        with pytest.raises(ValueError, match="already"):
            journal.adopt("a", learner)
        np.testing.assert_array_equal(stream.process(*case.part(5, ROUNDS)), expected[5:])
        with pytest.raises(dpoco.StateError, match="not kept"):
            stream.process(*case.part(0, 2), first_round=0)
    with opened(tmp_path) as journal:
        again = journal.open("a").process(*case.part(5, ROUNDS), first_round=5)
        np.testing.assert_array_equal(again, expected[5:])


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_a_journal_takes_is_taken(case, tmp_path):
    """An active learner with a decision that waits: it goes on in the journal only."""
    learner, expected = started(case), case.reference()
    use_before = None if case.name in ("NoisyMax", "AboveThreshold", "ContinualSum") else 1
    record = [array[5] for array in case.batch]
    if case.name == "LinUCB":
        record = [0.5]
    if use_before:
        use(case, learner)
    with opened(tmp_path) as journal:
        stream = journal.adopt("a", learner)
        with pytest.raises(dpoco.StateError, match="suspended"):
            use(case, learner)
        if use_before:
            with pytest.raises(dpoco.StateError, match="suspended"):
                learner.observe(*record)
        np.testing.assert_array_equal(stream.process(*case.part(5, ROUNDS)), expected[5:])


@pytest.mark.parametrize("way", ["open", "adopt"])
def test_a_learner_is_taken_once(way, tmp_path):
    """Two streams of one learner would release two sets of data under one noise."""
    learner = CASES[0].make(1)
    with opened(tmp_path) as journal:
        getattr(journal, way)("a", learner)
        with pytest.raises(dpoco.StateError, match="already holds this learner"):
            journal.adopt("b", learner)
        (tmp_path / "other").mkdir()
        with opened(tmp_path / "other") as other:
            with pytest.raises(dpoco.StateError, match="already holds this learner"):
                other.adopt("a", learner)
            assert other.streams() == []
        assert journal.streams() == ["a"]


def test_what_a_make_returns_is_taken_once(tmp_path):
    learner = CASES[0].make(1)
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: learner)
        # Its rounds would be played twice, with the same noise: here, and after a restart.
        with pytest.raises(dpoco.StateError, match="suspended"):
            learner.decide()
        with pytest.raises(dpoco.StateError, match="suspended"):
            journal.open("b", lambda: learner)
        assert journal.open("a", lambda: learner) is stream
        np.testing.assert_array_equal(stream.process(*CASES[0].batch), CASES[0].reference())


def test_a_learner_whose_adoption_failed_is_adopted_again(tmp_path, monkeypatch):
    learner = started(CASES[0])
    with opened(tmp_path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(journal._store, "commit", lambda: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                journal.adopt("a", learner)
        with pytest.raises(dpoco.StateError, match="already holds this learner"):
            journal.adopt("b", learner)  # the commit may have been durable
        stream = journal.adopt("a", learner)
        np.testing.assert_array_equal(
            stream.process(*CASES[0].part(5, ROUNDS)), CASES[0].reference()[5:]
        )


def test_a_learner_in_a_run_is_not_adopted(tmp_path):
    """The run would go past the state that is stored, under the same noise."""
    learner, refused = CASES[0].make(1), []
    with opened(tmp_path) as journal:

        def adopt(*_):
            with pytest.raises(dpoco.RoundOrderError) as caught:
                journal.adopt("a", learner)
            refused.append(caught)

        learner.run(*CASES[0].batch, progress=adopt)
        assert refused
        assert journal.streams() == []


def test_an_unstarted_learner_given_is_taken(tmp_path):
    case = CASES[0]
    learner = case.make(1)
    with opened(tmp_path) as journal:
        stream = journal.open("a", learner)
        with pytest.raises(dpoco.StateError, match="suspended"):
            learner.decide()
        np.testing.assert_array_equal(stream.process(*case.batch), case.reference())
        with pytest.raises(dpoco.StateError, match="suspended"):
            journal.open("b", learner)


def test_a_stream_is_not_copied(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", CASES[0].make(1))
        for each in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                each(stream)
