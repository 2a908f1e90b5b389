"""Files of states: who may read them, and what interrupted saves leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import dpoco
from dpoco import _files, mechanisms
from dpoco._files import read_state, write_atomically
from dpoco.random import Source

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and locks are POSIX")


def total():
    made = mechanisms.ContinualSum(
        2, horizon=40, budget=dpoco.Budget(1.0, 1e-6), bound=1.0, source=Source.seeded(1)
    )
    made.push([0.1, 0.2])
    return made


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o777])
def test_a_plain_state_that_others_may_read_is_refused(tmp_path, mode):
    path = tmp_path / "a state"
    total().save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert dpoco.load(path).round == 1
    path.chmod(mode)
    with pytest.raises(dpoco.StateError, match="others than its owner") as error:
        dpoco.load(path)
    command = str(error.value).rpartition(": ")[2]
    assert dpoco.load(path, readable_by_others=True).round == 1
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)  # as the message says
    assert dpoco.load(path).round == 1


def test_a_pool_that_others_may_read_is_refused(tmp_path):
    pool = dpoco.scale.KeyedPool(
        dpoco.experts.PrefixHedge(3, horizon=40, budget=dpoco.Budget(9.0, 1e-6))
    )
    pool.process(["a"], [[0.5, 0.5, 0.1]])
    pool.save(tmp_path / "pool")
    (tmp_path / "pool").chmod(0o644)
    with pytest.raises(dpoco.StateError, match="chmod 600"):
        dpoco.scale.KeyedPool.load(tmp_path / "pool")
    again = dpoco.scale.KeyedPool.load(tmp_path / "pool", readable_by_others=True)
    assert again.round("a") == 1


def test_an_encrypted_state_may_lie_anywhere(tmp_path):
    pytest.importorskip("cryptography")
    key, path = dpoco.EncryptionKey(bytes(range(224, 256))), tmp_path / "state"
    total().save(path, key=key)
    path.chmod(0o644)
    assert dpoco.load(path, key=key).round == 1
    with pytest.raises(dpoco.StateError, match="encrypted, and no key"):
        dpoco.load(path)


INTERRUPTED = """
import os, sys
from dpoco import _files
os.fsync = lambda handle: os._exit(9)  # a power cut, with the file half written
_files.write_atomically(sys.argv[1], b"half" * 1000)
"""


def test_interrupted_saves_leave_nothing_behind_for_long(tmp_path):
    """Starts processes that die."""
    path = tmp_path / "state"
    write_atomically(path, b"old")
    kept = [tmp_path / name for name in (".state.mine", ".other.x.unfinished", "state.unfinished")]
    for name in kept:
        name.write_bytes(b"not ours")
    for _ in range(3):
        died = subprocess.run([sys.executable, "-c", INTERRUPTED, str(path)], check=False)
        assert died.returncode == 9
        assert read_state(path, None) == b"old"
        (left,) = {*tmp_path.iterdir()} - {path, *kept}  # that of the last one alone
        assert left.stat().st_mode & 0o777 == 0o600
    write_atomically(path, b"new")
    assert {*tmp_path.iterdir()} == {path, *kept}
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_state(path, None) == b"new"


def test_what_another_save_is_writing_stays(tmp_path):
    import fcntl

    path, other = tmp_path / "state", tmp_path / ".state.abc.unfinished"
    with other.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(path, b"new")
        assert other.exists()
    write_atomically(path, b"newer")
    assert [*tmp_path.iterdir()] == [path]


def test_saves_to_one_file_at_a_time_are_each_whole(tmp_path):
    path, texts = tmp_path / "state", [bytes([48 + n]) * 20_000 for n in range(4)]

    def save(text):
        for _ in range(25):
            write_atomically(path, text)

    threads = [threading.Thread(target=save, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            assert read_state(path, None) in texts
    for thread in threads:
        thread.join()
    assert read_state(path, None) in texts
    assert [*tmp_path.iterdir()] == [path]


def test_a_save_that_fails_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "state"

    def full(handle):
        raise OSError("no space")

    monkeypatch.setattr(_files.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert not [*tmp_path.iterdir()]


def test_states_go_on_after_all_that(tmp_path):
    first = total()
    for _ in range(2):
        first.save(tmp_path / "state")
    assert np.array_equal(dpoco.load(tmp_path / "state").push([0.3, 0.1]), first.push([0.3, 0.1]))


def test_what_cannot_be_locked_is_not_removed(tmp_path, monkeypatch):
    """On a file system without locks nothing tells that no other process writes to it."""
    other = tmp_path / ".state.abc.unfinished"
    other.write_bytes(b"half of another save")

    import fcntl

    def refuse(*_):
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    total().save(tmp_path / "state")
    assert other.read_bytes() == b"half of another save"
    assert dpoco.load(tmp_path / "state").round == 1


def test_a_run_of_no_rounds_leaves_a_checkpoint(tmp_path):
    one = dpoco.experts.PrefixHedge(2, horizon=9, budget=None)
    one.run(np.zeros((0, 2)), checkpoint=tmp_path / "state")
    assert dpoco.load(tmp_path / "state").round == 0
