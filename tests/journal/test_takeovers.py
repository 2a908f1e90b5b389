"""Keys are rotated by writers that are overtaken or killed at any step: nothing is ever lost.

Every case forks a process, or waits for a thread: some seconds altogether.
"""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest
from tests.journal import takeovers
from tests.journal.journal_cases import KEY, QuickStore
from tests.journal.memory_store import MemoryStore

import dpoco
from dpoco.journal import Journal, KeyFile
from dpoco.journal._keys import key_fingerprint

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_overtaken_and_killed_at_any_step(tmp_path):
    ends = takeovers.run(tmp_path, 30, seed=1)
    assert ends["overtaken"] == 30
    assert ends["killed"] >= 5


class Session(MemoryStore):
    """A connection to a server that may end it, whatever its client is about to do."""

    def _check_session(self):
        if self._work is not None and self._disk["busy"] is not self:
            self._work = None
            raise OSError("the server has ended the session")

    def put(self, rows):
        self._check_session()
        super().put(rows)

    def commit(self):
        self._check_session()
        super().commit()

    def rollback(self):
        if self._disk is not None and self._disk["busy"] is self:
            super().rollback()
        self._work = None


def life(journal):
    stream = journal.open("a", lambda: takeovers.CASE.make(1))
    for stop in (4, 8, 12):
        if stop > stream.round:
            takeovers.played(stream, stop)
            journal.forget("a", stop - 2)
            journal.rotate_key()


def test_sessions_that_the_server_has_ended(tmp_path, monkeypatch):
    """The old writer goes on inside of its transaction, which is none any more."""

    def opened(disk, place):
        return Journal(Session(disk), key=KeyFile(place / "keys"))

    def takes_over(journal):
        stream = journal.open("a", lambda: takeovers.CASE.make(1))
        takeovers.played(stream, max(stream.round, 6))
        journal.rotate_key()

    def profiled(step):
        def profile(frame, event, function):
            if event in ("c_call", "c_return") and function.__module__ in ("posix", "fcntl", "_io"):
                step()

        return profile

    (tmp_path / "whole").mkdir()
    steps = []
    sys.setprofile(profiled(lambda: steps.append(0)))
    try:
        life(opened({}, tmp_path / "whole"))
    finally:
        sys.setprofile(None)
    assert len(steps) > 100
    rng, refused = np.random.default_rng(3), 0
    monkeypatch.setattr("dpoco.journal._keys._ATTEMPTS", 3)
    for number in rng.integers(20, len(steps), 120).tolist():
        place = tmp_path / f"{number} {rng.integers(2**62)}"
        place.mkdir()
        disk, waits, goes, errors = {}, threading.Event(), threading.Event(), []

        def old(number=number, disk=disk, place=place, waits=waits, goes=goes, errors=errors):
            at = [0]

            def step():
                at[0] += 1
                if at[0] == number:
                    waits.set()
                    goes.wait(60)

            sys.setprofile(profiled(step))
            try:
                life(opened(disk, place))
            except (OSError, dpoco.StateError, dpoco.JournalFenced):
                pass
            except BaseException as error:
                errors.append(error)
            finally:
                sys.setprofile(None)
                waits.set()

        thread = threading.Thread(target=old)
        thread.start()
        assert waits.wait(60)
        disk["busy"] = None  # the server ends the session
        try:
            takes_over(opened(disk, place))
        except dpoco.StateError as error:  # the old one has the key file: not for long
            if "key file is locked" not in str(error):
                raise
            refused += 1
            disk["busy"] = None
        goes.set()
        thread.join()
        assert not errors
        takes_over(opened(disk, place))
        with opened(disk, place) as journal:
            takeovers.played(journal.open("a"), takeovers.ROUNDS)
    assert 10 <= refused <= 100


def test_a_key_file_of_two_journals(tmp_path):
    """Each has keys of its own in it, and drops no others."""
    file = KeyFile(tmp_path / "keys")
    file.change(add=[KEY])
    for turn in range(2):
        for name in ("one", "two"):
            with Journal(QuickStore(tmp_path / name), key=file) as journal:
                stream = journal.open("a", lambda: takeovers.CASE.make(1))
                takeovers.played(stream, 4 + 4 * turn)
                journal.forget("a", 4 + 4 * turn)
                journal.rotate_key()
                assert journal._rows.current == 2 + turn
    assert len(file.read()) == 3  # the stranger's, and the current one of each
    assert KEY in file.read()
    for name in ("one", "two"):
        with Journal(QuickStore(tmp_path / name), key=file) as journal:
            takeovers.played(journal.open("a"), takeovers.ROUNDS)


def test_deleted_keys_stay_deleted(tmp_path):
    """Another journal that was open in the meantime does not write them again."""
    file = KeyFile(tmp_path / "keys")
    with Journal(QuickStore(tmp_path / "one"), key=file) as one:
        (deleted,) = file.read()
        with Journal(QuickStore(tmp_path / "two"), key=file) as two:
            one.rotate_key()
            two.rotate_key()
            assert deleted not in file.read()
            assert len(file.read()) == 2
            with pytest.raises(ValueError, match="another journal"):
                two.rotate_key(file.read()[0])  # the first could delete it
            chosen = bytes(range(32))
            two.rotate_key(chosen)
            assert chosen in file.read()


def test_rotations_of_two_threads(tmp_path, monkeypatch):
    """One runs between the two transactions of the other."""
    with takeovers.opened(tmp_path) as journal:
        takeovers.played(journal.open("a", lambda: takeovers.CASE.make(1)), 4)
        journal.forget("a", 4)

        def meanwhile():
            monkeypatch.undo()
            thread = threading.Thread(target=journal.rotate_key)
            thread.start()
            thread.join()

        monkeypatch.setattr(journal._store, "settle", meanwhile)
        journal.rotate_key()
        assert list(journal._rows.head.keys) == [3]
        assert len(KeyFile(tmp_path / "journal.db.key").read()) == 1
    takeovers.check(tmp_path)


def test_a_key_file_behind_a_link(tmp_path):
    """The keys stay on the disk that the link leads to."""
    (tmp_path / "vault").mkdir()
    link, file = tmp_path / "journal.db.key", KeyFile(tmp_path / "vault" / "keys")
    link.symlink_to(file.path)
    with takeovers.opened(tmp_path) as journal:
        journal.rotate_key()
    assert link.is_symlink()
    assert len(file.read()) == 1
    takeovers.opened(tmp_path).close()


def test_a_rotation_that_is_cut_off_before_keys_are_deleted(tmp_path, monkeypatch):
    """What the next one finds unneeded goes then."""
    file = KeyFile(tmp_path / "journal.db.key")
    with takeovers.opened(tmp_path) as journal:
        takeovers.played(journal.open("a", lambda: takeovers.CASE.make(1)), 4)
        journal.forget("a", 4)
        (first,) = file.read()
        with monkeypatch.context() as patch:
            patch.setattr(journal._rows, "retire", lambda numbers: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                journal.rotate_key()
        assert len(file.read()) == 2
    with takeovers.opened(tmp_path) as journal:
        assert key_fingerprint(first) in journal._rows.head.keys.values()
        journal.rotate_key()
        assert len(file.read()) == 1
        assert list(journal._rows.head.keys) == [3]
        takeovers.played(journal.open("a"), takeovers.ROUNDS)


def test_keys_that_vanish_from_the_file_while_the_journal_is_open(tmp_path):
    file = KeyFile(tmp_path / "journal.db.key")
    with takeovers.opened(tmp_path) as journal:
        takeovers.played(journal.open("a", lambda: takeovers.CASE.make(1)), 4)
        file.path.unlink()
        journal.rotate_key()
    takeovers.check(tmp_path)
