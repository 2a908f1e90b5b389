"""One writer: others are refused before they draw, and journals an older copy are noticed."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import signal
import sqlite3
import threading

import numpy as np
import pytest
from tests.journal.journal_cases import FIRST as CASE
from tests.journal.journal_cases import ROUNDS, expected, opened, played

import dpoco


def files(path):
    return [p for p in path.iterdir() if p.name.startswith("journal.db")]


def test_the_last_to_open_is_the_writer(tmp_path):
    first = opened(tmp_path, ledger=dpoco.accounting.ledger.Ledger(dpoco.Budget(2.0, 1e-6)))
    old = first.open("a", lambda: CASE.make(1))
    played(old, 0, 3)
    ticket, record = old.decide(ticket=True)[1], [array[3] for array in CASE.batch]
    second = opened(tmp_path)
    drawn = old._learner._engine.variates_drawn()
    for attempt in (
        lambda: played(old, 3, 5),
        lambda: played(old, 0, 2),
        lambda: old.decide(ticket=True),
        lambda: old.observe(*record, ticket=ticket),
        lambda: old.expire(ticket),
        lambda: first.open("b", lambda: CASE.make(2)),
        lambda: old.fork("b"),
        lambda: first.forget("a", 1),
        lambda: first.rotate_key(),
    ):
        with pytest.raises(dpoco.JournalFenced, match="another writer"):
            attempt()
    assert old._learner is None or old._learner._engine.variates_drawn() == drawn
    second.rotate_key()  # seals the ledger anew, too
    second.open("a").expire(ticket)
    np.testing.assert_array_equal(played(second.open("a")), expected())
    for attempt in (lambda: old.round, old.decide, lambda: first.ledger, lambda: old.release(1)):
        old.unload()
        with pytest.raises(dpoco.JournalFenced, match="another writer"):  # and not "corrupt"
            attempt()
    with opened(tmp_path) as third:
        with pytest.raises(dpoco.JournalFenced):
            played(second.open("a"))
        np.testing.assert_array_equal(played(third.open("a")), expected())
    first.close()
    second.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_another_process(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        played(stream, 0, 3)
        child = os.fork()
        if child == 0:
            results = []
            for attempt in (
                lambda: played(stream, 3, 5),
                stream.decide,
                lambda: stream.decide(ticket=True),
                lambda: stream.expire(0),
                lambda: journal.open("b", lambda: CASE.make(2)),
                journal.streams,
            ):
                try:
                    attempt()
                    results.append(False)
                except dpoco.JournalFenced:
                    results.append(True)
            journal.close()
            os._exit(0 if all(results) else 1)
        assert os.waitpid(child, 0)[1] == 0
        np.testing.assert_array_equal(played(stream), expected())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_closes_while_a_thread_of_the_parent_writes(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        inside, over = threading.Event(), threading.Event()

        def write():
            with journal.transaction() as together:
                together.process(stream, *CASE.part(0, 3))
                inside.set()
                over.wait(60)

        thread = threading.Thread(target=write)
        thread.start()
        assert inside.wait(60)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # kills a child that waits for the lock
            journal.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        over.set()
        thread.join()
        np.testing.assert_array_equal(played(stream), expected())


def test_a_journal_restored_from_an_old_copy(tmp_path):
    with opened(tmp_path) as journal:
        played(journal.open("a", lambda: CASE.make(1)), 0, 3)
    backup = (tmp_path / "journal.db").read_bytes()
    with opened(tmp_path) as journal:
        played(journal.open("a"), 3, 6)
    for name in ("journal.db-wal", "journal.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "journal.db").write_bytes(backup)
    with pytest.raises(dpoco.StateError, match="older than its mark"):
        opened(tmp_path)
    # Without its mark nobody can tell; but callers that know their round can.
    with opened(tmp_path, mark=False) as journal:
        stream = journal.open("a")
        with pytest.raises(dpoco.RoundOrderError, match="restored"):
            played(stream, 6, 7)
        # The same records give the same releases, bit for bit.
        np.testing.assert_array_equal(played(stream), expected())


def test_marks_of_another_journal_or_damaged(tmp_path):
    with opened(tmp_path):
        pass
    for path in files(tmp_path):
        if not path.name.endswith((".mark", ".key")):
            path.unlink()
    with pytest.raises(dpoco.StateError, match="another journal"):
        opened(tmp_path)
    mark = tmp_path / "journal.db.mark"
    mark.write_bytes(mark.read_bytes()[:-3] + b"x\n")
    with pytest.raises(dpoco.StateError, match="mark is corrupt"):
        opened(tmp_path)
    mark.unlink()
    with opened(tmp_path, mark=tmp_path / "elsewhere"):
        assert (tmp_path / "elsewhere").exists()


def test_two_copies_that_share_a_mark(tmp_path):
    """Both would draw the same noise for other data: the first is refused, before it draws."""
    mark, homes = tmp_path / "mark", [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        home.mkdir()
    with opened(homes[0], mark=mark) as first:
        stream = first.open("a", lambda: CASE.make(1))
        played(stream, 0, 3)
        for name in ("journal.db", "journal.db-wal", "journal.db.key"):
            shutil.copy(homes[0] / name, homes[1] / name)
        with opened(homes[1], mark=mark) as second:
            with pytest.raises(dpoco.JournalFenced, match="copy of this journal"):
                played(stream, 3, 4)
            other = second.open("a")
            np.testing.assert_array_equal(played(other, 0, 5), expected()[:5])
            assert stream.round == 3
    # A transaction that was open meanwhile does not set the mark back.
    first = opened(homes[1], mark=mark)
    stream = first.open("a")
    with first.transaction() as transaction:
        for name in ("journal.db", "journal.db-wal"):
            (homes[0] / name).unlink(missing_ok=True)
        with sqlite3.connect(homes[1] / "journal.db") as live:
            live.execute("VACUUM INTO ?", (str(homes[0] / "journal.db"),))
        (homes[0] / "journal.db").chmod(0o600)
        second = opened(homes[0], mark=mark)
        transaction.process(stream, *CASE.part(5, 6), first_round=5)
    with pytest.raises(dpoco.JournalFenced, match="copy of this journal"):
        played(stream, 6, 7)
    played(second.open("a"), 5, 7)
    first.close()
    second.close()


def test_a_file_replaced_or_removed_while_it_is_open(tmp_path):
    journal = opened(tmp_path)
    stream = journal.open("a", lambda: CASE.make(1))
    played(stream, 0, 3)
    shutil.copy(tmp_path / "journal.db", tmp_path / "copy")
    os.replace(tmp_path / "copy", tmp_path / "journal.db")
    with pytest.raises(dpoco.JournalFenced, match="replaced"):
        played(stream, 3, 4)
    (tmp_path / "journal.db").unlink()
    with pytest.raises(dpoco.JournalFenced, match="removed"):
        played(stream, 3, 4)
    journal._store.close()


@pytest.mark.skipif(os.name != "posix", reason="needs hard links")
def test_two_names_of_one_file(tmp_path):
    with opened(tmp_path):
        pass
    os.link(tmp_path / "journal.db", tmp_path / "other.db")
    with pytest.raises(dpoco.StateError, match="two names"):
        opened(tmp_path)


def test_a_journal_set_back_while_it_is_open(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        connection = journal._store._connection
        select = "SELECT seal, body FROM sealed WHERE kind = 0"
        before = connection.execute(select).fetchone()
        played(stream, 0, 3)
        connection.execute("UPDATE sealed SET seal = ?, body = ? WHERE kind = 0", before)
        with pytest.raises(dpoco.StateError, match="an older copy"):
            played(stream, 3, 4)
        connection.execute("UPDATE sealed SET body = x'00' WHERE kind = 0")
        with pytest.raises(dpoco.StateError, match="head is not as it was written"):
            played(stream, 3, 4)
        connection.execute("DELETE FROM sealed WHERE kind = 0")
        with pytest.raises(dpoco.StateError, match="another journal"):
            played(stream, 3, 4)


def test_closed_journals(tmp_path):
    journal = opened(tmp_path)
    stream = journal.open("a", lambda: CASE.make(1))
    journal.close()
    journal.close()
    for attempt in (stream.decide, lambda: played(stream), journal.streams, lambda: stream.round):
        with pytest.raises(dpoco.StateError, match="closed"):
            attempt()


def test_journals_are_not_copied(tmp_path):
    with opened(tmp_path) as journal:
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                attempt(journal)


def test_threads_take_turns(tmp_path):
    names = [f"s{i}" for i in range(4)]
    with opened(tmp_path) as journal:
        for name in names:
            journal.open(name, lambda: CASE.make(1))
        errors = []

        def work(name):
            try:
                for start in range(0, ROUNDS, 4):
                    part = played(journal.open(name), start, start + 4)
                    np.testing.assert_array_equal(part, expected()[start : start + 4])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert all(journal.open(name).round == ROUNDS for name in names)


def test_transactions_do_not_nest(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        with journal.transaction() as outer:
            with pytest.raises(dpoco.RoundOrderError, match="open in this thread"):
                played(stream)
            with pytest.raises(dpoco.RoundOrderError, match="open"):
                journal.close()
            work = outer.process(stream, *CASE.batch)
        np.testing.assert_array_equal(work.decisions, expected())
