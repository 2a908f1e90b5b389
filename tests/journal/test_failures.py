"""Disks that are full, journals that are locked or damaged, interrupts: refused, nothing lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.journal.journal_cases import FIRST as CASE
from tests.journal.journal_cases import KEY, ROUNDS, QuickStore, expected, played

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import Journal, KeyFile, SqliteStore
from dpoco.journal._rows import _HEADER as HEADER
from dpoco.journal._rows import _STATE as STATE
from dpoco.journal._rows import _STREAM as STREAM
from dpoco.journal._rows import _TEXT as TEXT
from dpoco.journal._store import RELEASES


def opened(path, **options):
    return Journal(QuickStore(path / "journal.db", timeout=0.1), **options)


def test_a_full_disk(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        played(stream, 0, 3)
        connection = journal._store._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        wide = dpoco.mechanisms.ContinualSum(
            2000, horizon=5, budget=dpoco.Budget(1.0, 1e-6), bound=1.0
        )
        with pytest.raises(OSError, match="full"):
            journal.open("wide", lambda: wide)
        assert journal.streams() == ["a"]
        connection.execute("PRAGMA max_page_count = 1000000")
        np.testing.assert_array_equal(played(stream), expected())
        assert journal.open("wide", lambda: wide.clone()).round == 0


@pytest.mark.skipif(os.name != "posix", reason="needs limits of file sizes")
def test_a_full_disk_in_the_middle_of_a_run(tmp_path):
    """A process that may write no more than a few pages; another goes on without a gap."""
    program = f"""
import resource, signal, sys
import numpy as np
sys.path[:0] = {sys.path!r}
import dpoco
from dpoco.journal import Journal
from tests.journal.journal_cases import QuickStore, cases
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
case = cases()[0]
journal = Journal(QuickStore({str(tmp_path / "journal.db")!r}), mark=False)
stream = journal.open("a", lambda: case.make(1))
stream.process(*case.part(0, 3))
size = __import__("os").path.getsize({str(tmp_path / "journal.db-wal")!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5000, size + 5000))
failed = 0
for turn in range(3, {ROUNDS}):
    try:
        print(turn, stream.process(*case.part(turn, turn + 1))[0].tobytes().hex(), flush=True)
    except OSError:
        failed += 1
        print("round", stream.round, turn, flush=True)
        break
print("failed", failed, flush=True)
__import__("os")._exit(0)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    *lines, (word, count) = [line.split() for line in run.stdout.splitlines()]
    assert (word, count) == ("failed", "1")
    reached = int(lines.pop()[1])
    for turn, release in lines:
        assert expected()[int(turn)].tobytes().hex() == release
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        assert stream.round == reached < ROUNDS
        np.testing.assert_array_equal(played(stream), expected())


class Failing(QuickStore):
    """Fails in one of its methods, before or after it does its work."""

    failure = None

    def _fail(self, method, moment):
        if self.failure is not None and self.failure[:2] == (method, moment):
            error, self.failure = self.failure[2], None
            raise error


def _wrapped(method):
    def call(self, *arguments):
        self._fail(method, "before")
        result = getattr(QuickStore, method)(self, *arguments)
        self._fail(method, "after")
        return result

    return call


METHODS = ("begin", "read", "add", "put", "commit")
for _method in METHODS:
    setattr(Failing, _method, _wrapped(_method))


@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", METHODS)
def test_errors_at_every_step(method, moment, error, tmp_path):
    store = Failing(tmp_path / "journal.db")
    with Journal(store) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        played(stream, 0, 5)
        store.failure = (method, moment, error)
        with pytest.raises(type(error)):
            played(stream, 5, 9)
        # A commit whose answer was lost was durable nevertheless.
        assert stream.round == (9 if (method, moment) == ("commit", "after") else 5)
        np.testing.assert_array_equal(played(stream, 0, 12), expected()[:12])
    with opened(tmp_path) as journal:
        np.testing.assert_array_equal(played(journal.open("a")), expected())


def test_an_interrupt_while_the_learner_plays(tmp_path, monkeypatch):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        played(stream, 0, 5)
        run = type(stream._learner).run

        def interrupted(self, *arguments, **options):
            run(self, *arguments, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(type(stream._learner), "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            played(stream, 5, 9)
        monkeypatch.undo()
        assert stream.round == 5
        np.testing.assert_array_equal(played(stream), expected())


def test_a_locked_journal_draws_nothing(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        drawn = stream._learner._engine.variates_drawn()
        with pytest.raises(dpoco.StateError, match="locked"):
            played(stream, 0, 4)
        assert stream._learner._engine.variates_drawn() == drawn
        other.execute("ROLLBACK")
        other.close()
        np.testing.assert_array_equal(played(stream), expected())
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(dpoco.StateError, match="locked"):
        opened(tmp_path)
    other.close()


def test_files_that_are_no_journal(tmp_path):
    path = tmp_path / "journal.db"
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(dpoco.StateError, match="chmod 600"):
        SqliteStore(path)
    path.chmod(0o600)
    with pytest.raises(dpoco.StateError, match="not a journal"):
        SqliteStore(path)
    path.unlink()
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE journal (one INTEGER)")
    foreign.commit()
    foreign.close()
    path.chmod(0o600)
    with pytest.raises(dpoco.StateError, match="not a dpoco journal"):
        SqliteStore(path)
    path.unlink()
    with opened(tmp_path) as journal:
        journal._store._connection.execute("PRAGMA user_version = 1")
    with pytest.raises(dpoco.StateError, match="format 1, this library reads 2"):
        opened(tmp_path)


def test_other_directories(tmp_path):
    with pytest.raises(OSError):  # noqa: PT011 - the system's own words
        SqliteStore(tmp_path / "none" / "journal.db")


def test_rows_of_another_stream_or_round(tmp_path):
    with opened(tmp_path) as journal:
        for name in "ab":
            played(journal.open(name, lambda: CASE.make(1)), 0, 9)
        b = journal.open("b")._row.id
    connection = sqlite3.connect(tmp_path / "journal.db")
    select = "SELECT owner, number, key, seal, body FROM sealed WHERE kind = ?"
    for kind in (STATE, RELEASES):
        rows = connection.execute(select, (kind,)).fetchall()
        one, two = sorted(rows, key=lambda row: b in (row[0], row[1]))
        update = "UPDATE sealed SET key = ?, seal = ?, body = ? WHERE (owner, number) = (?, ?) "
        update += f"AND kind = {kind}"
        connection.execute(update, (*one[2:], *two[:2]))
        connection.commit()
        with pytest.raises(dpoco.StateError, match="corrupt"), opened(tmp_path) as journal:
            played(journal.open("b"), 0, 9)
        connection.execute(update, (*two[2:], *two[:2]))
        connection.commit()
    with opened(tmp_path) as journal:
        for name in "ab":
            np.testing.assert_array_equal(played(journal.open(name)), expected())
    connection.close()


def test_a_single_row_set_back(tmp_path):
    """Its seal is right: only the head knows that there was a later one."""
    connection = None
    for stop in (5, 9):
        with opened(tmp_path) as journal:
            played(journal.open("a", lambda: CASE.make(1)), 0, stop)
        connection = connection or sqlite3.connect(tmp_path / "journal.db")
        select = f"SELECT seal, body FROM sealed WHERE kind = {STATE}"
        if stop == 5:
            old = connection.execute(select).fetchone()
    connection.execute(f"UPDATE sealed SET seal = ?, body = ? WHERE kind = {STATE}", old)
    connection.commit()
    connection.close()
    with pytest.raises(dpoco.StateError, match="not those that were written"):
        opened(tmp_path)


def test_a_row_that_is_not_found_is_not_absent(tmp_path, monkeypatch):
    """As by a damaged index: a second stream of the name would draw its noise again."""
    with opened(tmp_path, ledger=Ledger(dpoco.Budget(2.0, 1e-6))) as journal:
        played(journal.open("a", lambda: CASE.make(1)), 0, 9)
        spent = journal.spent
    for lost in ([STREAM], [STATE], [TEXT], [HEADER], [TEXT, HEADER, STREAM, STATE]):
        with opened(tmp_path) as journal, monkeypatch.context() as patch:
            read = journal._store.read
            patch.setattr(
                journal._store,
                "read",
                lambda kind, *place, read=read, lost=lost: (
                    None if kind in lost else read(kind, *place)
                ),
            )
            name = "b" if lost == [TEXT] else "a"  # whose charge no empty ledger must take
            with pytest.raises(dpoco.StateError, match="a row is not as it was written"):
                journal.open(name, lambda: CASE.make(1))
    with opened(tmp_path) as journal:
        assert journal.spent == spent
        np.testing.assert_array_equal(played(journal.open("a")), expected())


def test_missing_releases(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        for start in (0, 3, 6):
            played(stream, start, start + 3)
    which = f"FROM sealed WHERE kind = {RELEASES}"
    for first in (0, 3, 6):
        connection = sqlite3.connect(tmp_path / "journal.db")
        connection.execute(f"CREATE TEMP TABLE kept AS SELECT * {which}")
        connection.execute(f"DELETE {which} AND number = ?", (first,))
        connection.commit()
        with opened(tmp_path) as journal, pytest.raises(dpoco.StateError, match="missing"):
            played(journal.open("a"))
        connection.execute(f"DELETE {which}")
        connection.execute("INSERT INTO sealed SELECT * FROM kept")
        connection.commit()
        connection.close()


def test_clocks_do_not_matter(tmp_path, monkeypatch):
    for clock in ("time", "monotonic", "time_ns", "monotonic_ns", "perf_counter"):
        monkeypatch.setattr(time, clock, lambda: -1e9)
    monkeypatch.setattr(time, "gmtime", lambda *_: time.struct_time((1970, 1, 1, 0, 0, 0, 3, 1, 0)))
    with opened(tmp_path) as journal:
        played(journal.open("a", lambda: CASE.make(1)), 0, 9)
    os.utime(tmp_path / "journal.db", (0, 0))
    os.utime(tmp_path / "journal.db.key", (0, 0))
    with opened(tmp_path) as journal:
        np.testing.assert_array_equal(played(journal.open("a")), expected())


def test_keys_that_are_wrong_missing_or_readable(tmp_path):
    with opened(tmp_path) as journal:
        played(journal.open("a", lambda: CASE.make(1)), 0, 9)
    with pytest.raises(dpoco.StateError, match="key"):
        opened(tmp_path, key=KEY)
    for bad, error in ((b"short", ValueError), ("text" * 8, TypeError), ([], ValueError)):
        with pytest.raises(error):
            Journal(tmp_path / "new.db", key=bad)
    path = tmp_path / "journal.db.key"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(dpoco.StateError, match="chmod"):
        opened(tmp_path)
    path.chmod(0o600)
    key, text = KeyFile(path).read()[0], path.read_bytes()
    path.write_bytes(text[:-3])
    with pytest.raises(dpoco.StateError, match="not a key file"):
        opened(tmp_path)
    path.unlink()
    with pytest.raises(dpoco.StateError, match="key"):
        opened(tmp_path)
    with opened(tmp_path, key=key) as journal:
        np.testing.assert_array_equal(played(journal.open("a")), expected())


def test_no_message_holds_data(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        played(stream, 0, 9)
        features, labels = CASE.changed(3)
        with pytest.raises(dpoco.ReplayMismatch) as caught:
            stream.process(features, labels, first_round=0)
        text = str(caught.value)
        assert text == "round 3 came with another record than the one it was released for"


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_files_that_others_may_use_are_refused(tmp_path):
    with opened(tmp_path) as journal:
        played(journal.open("a", lambda: CASE.make(1)), 0, 9)
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == [f"journal.db{end}" for end in ("", "-shm", "-wal", ".key", ".mark")]
        for path in tmp_path.iterdir():
            assert path.stat().st_mode & 0o777 == 0o600
        for mode in (0o640, 0o604, 0o620, 0o666):
            (tmp_path / "journal.db").chmod(mode)
            with pytest.raises(dpoco.StateError, match="chmod 600"):
                played(journal.open("a"))
            (tmp_path / "journal.db").chmod(0o600)
        for name in names:
            path = tmp_path / name
            path.chmod(0o666)
            with pytest.raises(dpoco.StateError) as caught:
                opened(tmp_path)
            command = str(caught.value).partition(": ")[2]
            assert command == f"chmod 600 {path}"
            assert subprocess.run(command.split(), check=False).returncode == 0
        played(journal.open("a"), 0, 9)
    with opened(tmp_path) as journal:
        np.testing.assert_array_equal(played(journal.open("a")), expected())


def test_a_transaction_is_used_once(tmp_path, monkeypatch):
    """Else releases of a commit that failed would be handed out, next to those of other records."""
    case = CASE
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: case.make(1))
        whole = journal.transaction()

        def fail():
            with whole:
                works.append(whole.process(stream, *case.part(0, 3)))

        works = []
        with monkeypatch.context() as patch:
            patch.setattr(journal._store, "commit", lambda: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                fail()
        with pytest.raises(dpoco.RoundOrderError, match="used once"):
            fail()
        with pytest.raises(dpoco.RoundOrderError):
            works[0].decisions  # noqa: B018
        with journal.transaction() as other:
            work = other.process(stream, *case.part(3, 6))
            with pytest.raises(dpoco.RoundOrderError, match="used once"):
                other.__enter__()
        assert len(work.decisions) == 3
