"""What waits for the disk: every commit, or, if only the process matters, what must not be lost."""

from __future__ import annotations

import pytest
from tests.journal.journal_cases import KEY

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import Journal, SqliteStore, _store


def make():
    return dpoco.experts.PrefixHedge(3, horizon=90, budget=dpoco.Budget(9.0, 1e-6))


@pytest.fixture
def synced(monkeypatch):
    """Names of what was asked to be on disk."""
    found = []
    own = _store.synchronise

    def synchronise(path):
        own(path)
        found.append(path.name)

    monkeypatch.setattr(_store, "synchronise", synchronise)
    return found


def test_new_streams_and_their_charges_wait_for_the_disk(tmp_path, synced):
    store, log = SqliteStore(tmp_path / "a.db", durability="process"), "a.db-wal"
    with Journal(store, key=KEY, ledger=Ledger(dpoco.Budget(40.0, 1e-4))) as journal:
        assert log in synced  # the journal itself
        synced.clear()
        stream = journal.open("s", make)
        assert synced == [log, tmp_path.name]
        synced.clear()
        stream.process([[0.1, 0.2, 0.3]] * 4)
        journal.open("s", make)
        assert not synced
        stream.fork("t")
        assert synced == [log, tmp_path.name]
        synced.clear()
        journal.adopt("u", make())
        assert synced == [log, tmp_path.name]


def test_what_waits_for_every_commit_waits_for_nothing_more(tmp_path, synced):
    with Journal(SqliteStore(tmp_path / "a.db"), key=KEY) as journal:
        journal.open("s", make).process([[0.1, 0.2, 0.3]])
    assert not synced
