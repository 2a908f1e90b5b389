"""Other stores than SQLite: the same journal on dictionaries, and on PostgreSQL's statements.

The statements for PostgreSQL run on a stand-in for its driver; with ``DPOCO_TEST_POSTGRES`` set to
a connection string also on a server.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import sys

import numpy as np
import pytest
from tests.journal.journal_cases import KEY, ROUNDS, QuickStore, cases
from tests.journal.memory_store import MemoryStore, fake_psycopg

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import Journal, KeyFile, PostgresStore, SqliteStore, Store

CASES = [case for case in cases() if case.name in ("TreeFrankWolfe", "PrefixHedge", "NoisyMax")]
SERVER = os.environ.get("DPOCO_TEST_POSTGRES")


@pytest.fixture(params=["memory", "sqlite", "statements", "server"])
def connect(request, tmp_path, monkeypatch):
    """Return a function that opens the same store again and again."""
    if request.param == "memory":
        disk = {}
        return lambda: MemoryStore(disk)
    if request.param == "sqlite":
        return lambda: QuickStore(tmp_path / "journal.db", timeout=0.05)
    if request.param == "statements":
        monkeypatch.setitem(sys.modules, "psycopg", fake_psycopg(tmp_path / "server.db"))
        return lambda: PostgresStore("postgresql://somewhere", timeout=0.05)
    if SERVER is None:
        pytest.skip("DPOCO_TEST_POSTGRES names no server")
    prefix = f"t{secrets.token_hex(4)}_"
    return lambda: PostgresStore(SERVER, prefix=prefix, timeout=0.2)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_life_of_a_journal(connect, tmp_path, encrypted):
    mark = tmp_path / "mark"
    old, new = (hashlib.sha256(name).digest() for name in (b"old", b"new"))
    cipher = dpoco.EncryptionKey(old, new) if encrypted else None
    budget = dpoco.Budget(100.0, 1e-4)
    terms = {"currency": "basic"}
    expected = {case.name: case.reference() for case in CASES}
    options = {"mark": mark, "encryption": cipher}
    with Journal(connect(), key=KEY, ledger=Ledger(budget, **terms), **options) as journal:
        assert isinstance(journal._store, Store)
        for case in CASES:
            if case.name == "NoisyMax":  # of records, not of rounds
                with pytest.raises(ValueError, match="same_unit"):
                    journal.open(case.name, lambda case=case: case.make(1))
            stream = journal.open(case.name, lambda case=case: case.make(1), same_unit=True)
            for start in (0, 3, 6):
                stream.process(*case.part(start, start + 3), first_round=start)
    with Journal(connect(), key=KEY, **options) as journal:
        spent = journal.spent
        assert journal.streams() == [case.name for case in CASES]
        with journal.transaction() as together:
            works = [
                together.process(journal.open(case.name), *case.batch, first_round=0)
                for case in CASES
            ]
        for case, work in zip(CASES, works, strict=True):
            np.testing.assert_array_equal(work.decisions, expected[case.name])
        with pytest.raises(dpoco.ReplayMismatch):
            journal.open("PrefixHedge").process(*CASES[1].changed(7), first_round=0)
        journal.rotate_key(KEY[::-1])
        assert journal.compact("NoisyMax") == 4
        assert journal.forget("TreeFrankWolfe", 5) == 3
        np.testing.assert_array_equal(
            journal.open("TreeFrankWolfe").releases(3, ROUNDS), expected["TreeFrankWolfe"][3:]
        )
        journal.open("NoisyMax").fork("other")
        assert journal.spent > spent
        if encrypted:
            options["encryption"] = dpoco.EncryptionKey(new)
            journal.encrypt(options["encryption"])
    with Journal(connect(), key=[KEY, KEY[::-1]], **options) as journal:
        assert journal.open("other").round == ROUNDS
        case = CASES[2]
        again = journal.open("NoisyMax").process(*case.batch, first_round=0)
        np.testing.assert_array_equal(again, expected["NoisyMax"])
        assert journal.open("TreeFrankWolfe").kept_from == 3


def test_writers_and_locks(connect):
    case = CASES[0]
    first = Journal(connect(), key=KEY)
    stream = first.open("a", lambda: case.make(1))
    stream.process(*case.part(0, 3))
    with Journal(connect(), key=KEY) as second:
        with pytest.raises(dpoco.JournalFenced):
            stream.process(*case.part(3, 4))
        with second.transaction(), pytest.raises(dpoco.StateError, match="locked"):
            stream.process(*case.part(3, 4))
        np.testing.assert_array_equal(
            second.open("a").process(*case.batch, first_round=0), case.reference()
        )
    first.close()
    with pytest.raises(dpoco.StateError, match="closed"):
        stream.process(*case.part(3, 4))


def test_a_failed_transaction(connect, monkeypatch):
    case = CASES[0]
    with Journal(connect(), key=KEY) as journal:
        stream = journal.open("a", lambda: case.make(1))
        stream.process(*case.part(0, 3))
        with monkeypatch.context() as patch:
            patch.setattr(journal._store, "put", lambda rows: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                stream.process(*case.part(3, 6))
        assert stream.round == 3
        np.testing.assert_array_equal(stream.process(*case.batch, first_round=0), case.reference())


def test_keys_outlive_what_a_power_cut_may_bring_back(tmp_path):
    """A reader of an older state keeps the last commits from the disk: no key is deleted yet."""
    case, path = CASES[0], tmp_path / "journal.db"
    file = KeyFile(tmp_path / "journal.db.key")
    with Journal(SqliteStore(path, durability="process")) as journal:
        stream = journal.open("a", lambda: case.make(1))
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sealed").fetchall()
        stream.process(*case.part(0, 3))
        journal.forget("a", 3)
        with pytest.raises(dpoco.StateError, match="locked"):
            journal.rotate_key()
        assert len(file.read()) == 2
        reader.close()
        journal.rotate_key()
        assert len(file.read()) == 1


def test_a_server_that_goes_away_and_comes_back(tmp_path, monkeypatch):
    """An error while it is away, which says that nothing was released; then it goes on."""
    module = fake_psycopg(tmp_path / "server.db")
    monkeypatch.setitem(sys.modules, "psycopg", module)
    case = CASES[0]
    with Journal(PostgresStore("postgresql://somewhere"), key=KEY) as journal:
        stream = journal.open("a", lambda: case.make(1))
        for start in range(0, 9, 3):
            module.die_at((1, 4, 6)[start // 3])  # at the lock, at the releases, at the commit
            with pytest.raises(OSError, match="OperationalError"):
                stream.process(*case.part(start, start + 3), first_round=start)
            for attempt in (lambda: stream.process(*case.part(0, 9)), lambda: stream.round):
                with pytest.raises(OSError, match="OperationalError"):
                    attempt()
            module.come_back()
            assert stream.round == start
            stream.process(*case.part(start, start + 3), first_round=start)
        np.testing.assert_array_equal(stream.process(*case.batch, first_round=0), case.reference())
    with pytest.raises(dpoco.StateError, match="closed"):
        stream.decide()


def test_a_transaction_ends_with_its_connection(tmp_path, monkeypatch):
    """On a new connection its rows would be written one by one, next to another writer."""
    module = fake_psycopg(tmp_path / "server.db")
    monkeypatch.setitem(sys.modules, "psycopg", module)
    case = CASES[0]
    with Journal(PostgresStore("postgresql://somewhere"), key=KEY) as journal:
        stream = journal.open("a", lambda: case.make(1))
        stream.process(*case.part(0, 3))

        def lose_connection():
            with journal.transaction() as whole:
                whole.process(stream, *case.part(3, 6))
                module.die_at(1)
                with pytest.raises(OSError, match="OperationalError"):
                    whole.process(stream, *case.part(0, 3), first_round=0)  # reads, and is caught
                module.come_back()
                assert stream.round == 6

        with pytest.raises(OSError, match="connection was lost"):
            lose_connection()
        assert stream.round == 3
        np.testing.assert_array_equal(stream.process(*case.batch, first_round=0), case.reference())


@pytest.mark.skipif(SERVER is None, reason="DPOCO_TEST_POSTGRES names no server")
def test_a_session_that_is_terminated(monkeypatch):
    import psycopg

    case, prefix = CASES[0], f"t{secrets.token_hex(4)}_"
    with Journal(PostgresStore(SERVER, prefix=prefix), key=KEY) as journal:
        stream = journal.open("a", lambda: case.make(1))
        for start in (0, 3, 6):
            session = journal._store._connection.info.backend_pid
            with psycopg.connect(SERVER, autocommit=True) as other, monkeypatch.context() as patch:
                method = ("begin", "put", "commit")[start // 3]
                own = getattr(PostgresStore, method)

                def ended(store, *rows, own=own, other=other, session=session):
                    other.execute("SELECT pg_terminate_backend(%s)", (session,))
                    return own(store, *rows)

                patch.setattr(PostgresStore, method, ended)
                with pytest.raises(OSError, match="cannot be written"):
                    stream.process(*case.part(start, start + 3), first_round=start)
            assert stream.round == start
            stream.process(*case.part(start, start + 3), first_round=start)
        np.testing.assert_array_equal(stream.process(*case.batch, first_round=0), case.reference())


def test_a_journal_of_the_format_before(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", fake_psycopg(tmp_path / "server.db"))
    with sqlite3.connect(tmp_path / "server.db") as server:
        server.execute("CREATE TABLE dpoco_texts (name TEXT PRIMARY KEY, text TEXT NOT NULL)")
    server.close()
    with pytest.raises(dpoco.StateError, match="format 1"):
        Journal(PostgresStore("postgresql://somewhere"), key=KEY)


def test_stores_that_are_no_files_need_keys_and_marks(tmp_path):
    with pytest.raises(ValueError, match="key"):
        Journal(MemoryStore({}))
    with pytest.raises(ValueError, match="mark"):
        Journal(MemoryStore({}), key=KEY, mark=True)
    disk = {}
    with Journal(MemoryStore(disk), key=KeyFile(tmp_path / "key")) as journal:
        journal.rotate_key()
    with Journal(MemoryStore(disk), key=KeyFile(tmp_path / "key")):
        pass


def test_without_the_driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"dpoco\[postgres\]"):
        PostgresStore("postgresql://somewhere")


def test_prefixes_are_names(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "psycopg", fake_psycopg(tmp_path / "server.db"))
    for prefix in ("a b", "x; DROP", "", "A", "1"):
        with pytest.raises(ValueError, match="prefix"):
            PostgresStore("postgresql://somewhere", prefix=prefix)


def test_sqlite_waits_for_the_disk(tmp_path):
    store = SqliteStore(tmp_path / "journal.db")
    with Journal(store):
        connection = store._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == (b"wal",)
        assert connection.execute("PRAGMA application_id").fetchone() == (0x64706F6A,)
    assert (tmp_path / "journal.db").stat().st_mode & 0o777 == 0o600
