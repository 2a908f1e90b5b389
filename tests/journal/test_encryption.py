"""Encrypted journals: nothing readable on disk, nothing moved, and rotations that may be killed."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import sqlite3
import struct

import numpy as np
import pytest
from tests.journal import flips
from tests.journal.crash_cases import FILES, Recorded, image, recorded
from tests.journal.journal_cases import (
    FIRST,
    KEY,
    ROUNDS,
    VALUES,
    QuickStore,
    expected,
    opened,
    played,
    sums,
)

import dpoco
from dpoco import EncryptionKey
from dpoco.journal import Journal, KeyFile, _rows
from dpoco.journal._keys import RowSeals
from dpoco.scale import KeyedPool

OLD, NEW = (EncryptionKey(hashlib.sha256(name).digest()) for name in (b"old", b"new"))
BOTH = EncryptionKey(*(hashlib.sha256(name).digest() for name in (b"old", b"new")))
NAME = "a stream of a name"


def begun(journal, stop=10):
    stream = journal.open(NAME, lambda: FIRST.make(1))
    for start in range(0, stop, 2):
        played(stream, start, start + 2)
    return stream


def readable(place):
    """Return how many of the journal's secrets some file of a directory shows."""
    data = b"".join((place / name).read_bytes() for name in FILES if (place / name).exists())
    learner = FIRST.make(1)
    key = learner._engine.state()[:32]  # of the noise: the same in every state of the stream
    releases = [expected()[turn].tobytes() for turn in range(2, 10)]  # of 0: zeros
    return sum(secret in data for secret in (NAME.encode(), b"Tree", b"arguments", key, *releases))


def test_nothing_readable_reaches_the_disk(tmp_path):
    counts = {}
    for key in (None, OLD):
        home = tmp_path / str(key is None)
        home.mkdir()
        store, images = recorded(home, {})
        with Journal(store, encryption=key) as journal:
            begun(journal).unload()
            journal.forget(NAME, 4)
            journal.compact(NAME)
            journal.rotate_key()
        counts[key] = [readable(place) for place, _ in images]
        assert images.kills > 100
    assert max(counts[None]) >= 10
    assert max(counts[OLD]) == 0
    with opened(tmp_path / "False" / "live", encryption=BOTH) as journal:
        stream = played(journal.open(NAME), 4)
        np.testing.assert_array_equal(stream, expected()[4:])


@pytest.mark.parametrize("before", [None, OLD])
def test_killed_at_any_statement_of_a_rotation(tmp_path, before):
    """The files are copied at every statement, and opened again."""
    live, images = tmp_path / "live", []
    live.mkdir()
    with opened(live, encryption=before) as journal:
        begun(journal)
        journal.forget(NAME, 4)  # and what it held is left in the file

    def step():
        images.append(tmp_path / f"image {len(images)}")
        image(live, images[-1])

    after = NEW if before is OLD else OLD
    with Journal(Recorded(live / "journal.db", step), encryption=before) as journal:
        first = len(images)
        journal.encrypt(after)
        assert readable(live) == 0
        last = len(images)
        played(journal.open(NAME), 10, 12)  # the one that encrypted it goes on
    ends = {before: 0, after: 0}
    for place in images[first:last]:
        for key in (before, after):
            try:
                with opened(place, encryption=key) as journal:
                    ends[key] += 1
                    np.testing.assert_array_equal(played(journal.open(NAME), 4), expected()[4:])
            except dpoco.StateError:
                continue
    assert ends[before] > 10
    assert ends[after] >= 4
    assert sum(ends.values()) == last - first  # each image is under the one or the other
    with opened(tmp_path / "live", encryption=after) as journal:
        np.testing.assert_array_equal(played(journal.open(NAME), 4), expected()[4:])


def test_new_rows_are_under_the_newest_key_and_old_ones_stay_readable(tmp_path):
    with opened(tmp_path, encryption=OLD) as journal:
        begun(journal)
    with opened(tmp_path, encryption=BOTH) as journal:
        played(journal.open(NAME), 10, 12)
    for key, said in ((OLD, "not given"), (None, "is encrypted, and no key was given")):
        with pytest.raises(dpoco.StateError, match=said):
            opened(tmp_path, encryption=key)
    with (
        opened(tmp_path, encryption=NEW) as journal,  # its head is under the new key by now
        pytest.raises(dpoco.StateError, match="not given"),
    ):
        journal.open(NAME)
    with opened(tmp_path, encryption=BOTH) as journal:
        journal.encrypt(NEW)
    with opened(tmp_path, encryption=NEW) as journal:
        np.testing.assert_array_equal(played(journal.open(NAME)), expected())
        with pytest.raises(TypeError, match="must be an EncryptionKey"):
            journal.encrypt(None)
        with pytest.raises(TypeError, match="must be an EncryptionKey; got bytes"):
            journal.encrypt(KEY)
    with pytest.raises(TypeError, match="encryption must be an EncryptionKey"):
        Journal(tmp_path / "other.db", encryption=KEY)
    assert not (tmp_path / "other.db.mark").exists()


def test_a_rotation_that_fails_changes_nothing(tmp_path, monkeypatch):
    with opened(tmp_path, encryption=OLD) as journal:
        begun(journal)
        put, left = journal._store.put, [3]

        def fails(rows):
            left[0] -= 1
            if left[0] < 0:
                raise OSError("the disk is full")
            put(rows)

        with monkeypatch.context() as patch:
            patch.setattr(journal._store, "put", fails)
            with pytest.raises(OSError, match="full"):
                journal.encrypt(NEW)
        np.testing.assert_array_equal(played(journal.open(NAME), 0, 12), expected()[:12])
    with opened(tmp_path, encryption=OLD) as journal:
        np.testing.assert_array_equal(played(journal.open(NAME)), expected())


def test_a_plain_journal_in_its_place_is_refused(tmp_path):
    with opened(tmp_path) as journal:
        begun(journal)
    with pytest.raises(dpoco.StateError, match=r"not encrypted.*Journal\.encrypt"):
        opened(tmp_path, encryption=OLD)
    with opened(tmp_path) as journal:
        assert journal.open(NAME).round == 10


CONNECTIONS = []


@pytest.fixture(autouse=True)
def closed():
    yield
    while CONNECTIONS:
        CONNECTIONS.pop().close()


def rows_of(path):
    connection = sqlite3.connect(path / "journal.db", isolation_level=None)
    CONNECTIONS.append(connection)
    return connection, connection.execute(
        "SELECT * FROM sealed ORDER BY kind, owner, number"
    ).fetchall()


def put(path, place, key, body):
    """Write a body at a place, sealed as somebody with the journal's key and mark seals it."""
    uid = bytes.fromhex((path / "journal.db.mark").read_text().split()[4])
    seal = RowSeals(KeyFile(path / "journal.db.key").read()[0], uid).seal(*place, key, body)
    connection, _ = rows_of(path)
    where = "UPDATE sealed SET seal = ?, body = ? WHERE kind = ? AND owner = ? AND number = ?"
    connection.execute(where, (seal, body, *place))
    connection.close()


@pytest.mark.parametrize("encryption", [None, OLD])
def test_rows_cannot_be_moved_by_somebody_with_the_journals_own_key(tmp_path, encryption):
    """Plain rows can: they are as secret as that key."""
    homes = [tmp_path / name for name in ("one", "two")]
    for home in homes:
        home.mkdir()
        with opened(home, encryption=encryption, key=KeyFile(home / "journal.db.key")) as journal:
            begun(journal)
    connection, rows = rows_of(homes[0])
    connection.close()
    chunks = [row for row in rows if row[0] == 5]
    other = next(row for row in rows_of(homes[1])[1] if row[:3:2] == (5, 4))
    place, key, _, own = chunks[2][:3], *chunks[2][3:]
    moved = [chunks[3][5], other[5], own[:-1], b""]
    if encryption is not None:  # for the right place, of a journal of another identity
        uid = bytes.fromhex((homes[0] / "journal.db.mark").read_text().split()[4])
        bound = struct.pack("<QQQQ", *place, key)
        moved.append(b"".join(OLD.seal(bound, OLD.open(bound + uid, own))))
    for body in (*moved, own):
        put(homes[0], place, key, body)
        with opened(homes[0], encryption=encryption) as journal:
            stream = journal.open(NAME)
            if body is own:
                np.testing.assert_array_equal(stream.releases(0, 10), expected()[:10])
            elif encryption is not None:
                with pytest.raises(dpoco.StateError):
                    stream.releases(4, 6)
            elif body is chunks[3][5]:
                np.testing.assert_array_equal(stream.releases(4, 6), expected()[6:8])


def test_single_rows_cannot_be_taken_out_or_set_back(tmp_path):
    with opened(tmp_path, encryption=OLD) as journal:
        begun(journal, 6)
    connection, before = rows_of(tmp_path)
    connection.close()
    with opened(tmp_path, encryption=OLD) as journal:
        begun(journal)
    connection, now = rows_of(tmp_path)
    old = {row[:3]: row for row in before}
    whole = "INSERT OR REPLACE INTO sealed VALUES (?, ?, ?, ?, ?, ?)"
    for row in now:
        for other in (None, old.get(row[:3])):
            if other == row:
                continue
            connection.execute("DELETE FROM sealed WHERE kind=? AND owner=? AND number=?", row[:3])
            if other is not None:
                connection.execute(whole, other)
            with pytest.raises(dpoco.StateError), opened(tmp_path, encryption=OLD) as journal:
                journal.open(NAME).releases(0, 10)
            connection.execute(whole, row)
            # Whoever opens a journal writes its head: begin again from the same rows.
            for each in now:
                connection.execute(whole, each)
            (tmp_path / "journal.db.mark").unlink()
    connection.close()
    with opened(tmp_path, encryption=OLD) as journal:
        np.testing.assert_array_equal(journal.open(NAME).releases(0, 10), expected()[:10])


@pytest.mark.parametrize("encryption", [None, OLD])
def test_rows_cannot_be_set_back_together_so_that_the_sum_stays(tmp_path, monkeypatch, encryption):
    """With totals of 8 bits such rows are soon found, by whoever knows what the sum is of."""
    monkeypatch.setattr(secrets, "token_bytes", np.random.default_rng(7).bytes)
    monkeypatch.setattr(_rows, "_total", lambda total: (total % 256).to_bytes(16, "little"))
    options, names = {"encryption": encryption, "mark": False}, [str(i) for i in range(12)]
    versions = []
    for turn in range(2):
        with opened(tmp_path, **options) as journal:
            uid = journal._rows.head.uid
            for name in names:
                journal.open(name, lambda: sums(1)).process(VALUES[turn : turn + 1])
        connection, rows = rows_of(tmp_path)
        versions.append([row for row in rows if row[0] == 4])  # the states
    total = [[_rows._sum([(row[:3], row[4])], uid) for row in states] for states in versions]
    change = np.array([(old - new) % 256 for old, new in zip(*total, strict=True)])
    mixed = np.array(list(itertools.product((0, 1), repeat=len(names))))
    found = [row for row in mixed[(mixed @ change) % 256 == 0] if 0 < row.sum() < len(names)]
    ends = []
    for chosen in found[:5]:
        for row in (*rows, *itertools.compress(versions[0], chosen)):
            connection.execute("INSERT OR REPLACE INTO sealed VALUES (?, ?, ?, ?, ?, ?)", row)
        try:
            with opened(tmp_path, **options) as journal:
                ends.append(sum(journal.open(name).round == 1 for name in names) == chosen.sum())
        except dpoco.StateError:
            ends.append("refused")
    connection.close()
    assert ends == [True if encryption is None else "refused"] * 5


def test_damage_is_refused_or_without_effect(tmp_path):
    """Over a second: each damage opens the journal twice, see `flips`."""
    ends = flips.run(tmp_path, 60, seed=6, encryption=OLD)
    assert sum(number for (kind, end), number in ends.items() if end == "refused") >= 20
    for kind in ("value", "another value"):
        assert ends[kind, "exact"] <= 1


def test_a_pool_of_an_encrypted_journal(tmp_path):
    def pool(journal):
        return KeyedPool(lambda: FIRST.make(None), journal=journal)

    batch = (["ann", "bob"] * 3, *FIRST.part(0, 6))
    with Journal(QuickStore(tmp_path / "journal.db"), encryption=OLD) as journal:
        want = pool(journal).process(*batch, batch=0)
    assert b"ann" not in (tmp_path / "journal.db").read_bytes()
    with Journal(QuickStore(tmp_path / "journal.db"), encryption=BOTH) as journal:
        np.testing.assert_array_equal(pool(journal).process(*batch, batch=0), want)
        assert sum(pool(journal).round(key) for key in ("ann", "bob")) == 6 < ROUNDS
