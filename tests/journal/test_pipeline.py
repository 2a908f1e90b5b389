"""Playing ahead of the disk: nothing is seen before its commit, and a failed one takes the rest."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from tests.journal.crash_cases import image
from tests.journal.journal_cases import ROUNDS, QuickStore, cases, expected, opened

import dpoco
from dpoco.journal import Journal

CASES = cases()
CASE = CASES[0]


def parts(case=CASE, size=5, start=0):
    for first in range(start, ROUNDS, size):
        yield case.part(first, min(first + size, ROUNDS))


@pytest.mark.parametrize("together", [1, 2, 100])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_releases_of_process(case, together, tmp_path):
    expected = case.reference()
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: case.make(1))
        stream.process(*case.part(0, 7))  # the third batch is partly old
        for _ in range(2):  # the second time all are
            many = list(stream.process_many(parts(case), first_round=0, together=together))
            assert [len(batch) for batch in many] == [5, 5, 5, 5, 4]
            np.testing.assert_array_equal(np.concatenate(many), expected)
        assert list(stream.process_many(())) == []
    with opened(tmp_path) as journal:
        np.testing.assert_array_equal(
            journal.open("a").process(*case.batch, first_round=0), expected
        )


class Slow(QuickStore):
    """Commits when told to, and fails if told to; counts the commits that are over."""

    def __init__(self, path):
        self.gate, self.failure, self.commits = threading.Event(), None, 0
        self.gate.set()
        super().__init__(path)

    def commit(self):
        assert self.gate.wait(10)
        moment, error = self.failure or (None, None)
        if moment == "before":
            raise error
        super().commit()
        self.commits += 1
        if moment == "after":
            raise error


def test_batches_are_played_during_a_commit_and_released_after_it(tmp_path, monkeypatch):
    store = Slow(tmp_path / "journal.db")
    with Journal(store) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        run, before, runs = type(stream._learner).run, store.commits, []

        def counted(self, *arguments, **options):
            if not runs:
                store.gate.clear()  # the commit of this batch waits ...
            runs.append(store.commits - before)
            trace = run(self, *arguments, **options)
            if len(runs) == 2:
                store.gate.set()  # ... until the next one has been played
            return trace

        monkeypatch.setattr(type(stream._learner), "run", counted)
        for count, releases in enumerate(stream.process_many(parts(), together=1), 1):
            assert store.commits - before >= count
            np.testing.assert_array_equal(releases, expected()[5 * count - 5 : 5 * count])
        assert runs[:2] == [0, 0]


def test_every_release_was_durable_when_it_was_seen(tmp_path):
    """A kill at the moment of each release: the copy of the files has it."""
    home = tmp_path / "home"
    home.mkdir()
    with opened(home) as journal:
        stream = journal.open("a", lambda: CASE.make(None))
        for count, releases in enumerate(stream.process_many(parts(size=3), together=2)):
            place = tmp_path / str(count)
            image(home, place)
            with opened(place) as copy:
                kept = copy.open("a").releases(3 * count, 3 * count + len(releases))
                np.testing.assert_array_equal(kept, releases)


@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_that_fails(moment, error, tmp_path):
    store = Slow(tmp_path / "journal.db")
    with Journal(store) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        seen = []

        def serve():
            for releases in stream.process_many(parts(), together=1):
                seen.append(releases)
                store.failure = (moment, error)

        with pytest.raises(type(error)):
            serve()
        store.failure = None
        np.testing.assert_array_equal(np.concatenate(seen), expected()[: 5 * len(seen)])
        assert 5 * len(seen) <= stream.round < ROUNDS
        again = list(stream.process_many(parts(), first_round=0))
        np.testing.assert_array_equal(np.concatenate(again), expected())


@pytest.mark.parametrize("error", [ValueError("source"), KeyboardInterrupt()], ids=repr)
def test_batches_that_fail(error, tmp_path):
    def failing():
        yield CASE.part(0, 5)
        yield CASE.part(5, 10)
        raise error

    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        for together in (1, 3):
            with pytest.raises(type(error)):
                list(stream.process_many(failing(), first_round=0, together=together))
        with pytest.raises(dpoco.HorizonExceeded):
            list(stream.process_many([*parts(), CASE.part(0, 1)], first_round=0, together=2))
        with pytest.raises(dpoco.ReplayMismatch):
            list(stream.process_many([CASE.changed(1)], first_round=0))
        with pytest.raises(dpoco.RoundOrderError, match="missing"):
            list(stream.process_many(parts(), first_round=ROUNDS + 1))
        np.testing.assert_array_equal(
            np.concatenate(list(stream.process_many(parts(), first_round=0))), expected()
        )


def test_a_pipeline_has_the_journal_for_itself(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        other = journal.open("b", lambda: CASE.make(2))
        played = stream.process_many(parts(), together=1)
        np.testing.assert_array_equal(next(played), expected()[:5])
        for attempt in (
            stream.decide,
            lambda: stream.release(0),
            lambda: stream.releases(0, 5),
            stream.unload,
            lambda: stream.process(*CASE.part(5, 6)),
            lambda: next(other.process_many(parts())),
            other.decide,
            lambda: journal.forget("a", 1),
        ):
            with pytest.raises(dpoco.RoundOrderError, match="open"):
                attempt()
        assert [journal.streams(), stream.horizon] == [["a", "b"], ROUNDS]
        np.testing.assert_array_equal(next(played), expected()[5:10])
        played.close()
        assert stream.round in (10, 15)  # what was being written when it was closed
        np.testing.assert_array_equal(stream.decide(), expected()[stream.round])
        np.testing.assert_array_equal(stream.process(*CASE.batch, first_round=0), expected())


def test_an_abandoned_or_closed_pipeline(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        for _ in stream.process_many(parts(), together=1):
            break
        gc.collect()
        assert stream.round in (5, 10)
        played = stream.process_many(parts(start=stream.round), together=1)
        first = next(played)
    with pytest.raises((dpoco.StateError, dpoco.RoundOrderError)):
        list(played)
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        np.testing.assert_array_equal(stream.process(*CASE.batch, first_round=0), expected())
        assert any(np.array_equal(first, expected()[at : at + 5]) for at in (5, 10))


def test_a_writer_that_takes_over(tmp_path):
    first = opened(tmp_path)
    stream, seen = first.open("a", lambda: CASE.make(1)), []
    others = []

    def serve():
        for releases in stream.process_many(parts(), together=1):
            seen.append(releases)
            if not others:
                others.append(opened(tmp_path))

    with pytest.raises(dpoco.JournalFenced):
        serve()
    with others[0] as second, first:
        np.testing.assert_array_equal(np.concatenate(seen), expected()[: 5 * len(seen)])
        mine = second.open("a").process(*CASE.batch, first_round=0)
        np.testing.assert_array_equal(mine, expected())


def test_inside_of_a_transaction_nothing_uncommitted_is_seen(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        stream.process(*CASE.part(0, 2))
        with journal.transaction() as together:
            together.process(stream, *CASE.part(2, 4))
            together.process(stream, *CASE.part(3, 4), first_round=3)  # has the store written to
            for attempt in (
                stream.decide,
                lambda: stream.release(3),
                lambda: stream.release(4),
                lambda: stream.releases(0, 4),
                stream.unload,
            ):
                with pytest.raises(dpoco.RoundOrderError, match="not committed"):
                    attempt()
        np.testing.assert_array_equal(stream.releases(0, 4), expected()[:4])


@pytest.mark.parametrize("together", [0, -1, 1.5, True])
def test_bad_sizes(together, tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        with pytest.raises((TypeError, ValueError)):
            stream.process_many((), together=together)
