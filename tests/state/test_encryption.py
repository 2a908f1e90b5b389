"""Encrypted states: what was written comes back under its key, and nothing else does."""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import dpoco
from dpoco import EncryptionKey
from dpoco.random import Source
from dpoco.scale import KeyedPool

OLD, NEW = (hashlib.sha256(name).digest() for name in (b"old", b"new"))
KEY, NEXT, BOTH = EncryptionKey(OLD), EncryptionKey(NEW), EncryptionKey(OLD, NEW)
LOSSES = np.random.default_rng(3).uniform(size=(40, 3))


def hedge():
    budget = dpoco.Budget(1.0, 1e-6)
    return dpoco.experts.PrefixHedge(3, horizon=100, budget=budget, source=Source.seeded(4))


def played():
    learner = hedge()
    learner.run(LOSSES[:20])
    return learner


def secrets_of(learner):
    """What no encrypted file may hold, a few bytes at a time."""
    state = learner._engine.state()
    return [b"dpocost", b'"kind"', b"PrefixHedge", *(state[i : i + 8] for i in (8, 40, -40))]


def test_a_learner_goes_on_and_stays_encrypted(tmp_path):
    path, learner = tmp_path / "state", played()
    learner.save(path, key=KEY)
    loaded = dpoco.load(path, dpoco.experts.PrefixHedge, key=KEY)
    want = learner.run(LOSSES[20:])
    got = loaded.run(LOSSES[20:], checkpoint=path, checkpoint_every=7)
    np.testing.assert_array_equal(got.losses, want.losses)
    assert dpoco.load(path, key=KEY).round == 40
    loaded.save(path)  # no key, and never plain again
    data = path.read_bytes()
    plain = tmp_path / "plain"
    played().save(plain)
    assert all(secret in plain.read_bytes() for secret in secrets_of(played()))
    assert not any(secret in data for secret in [*secrets_of(loaded), *secrets_of(played())])
    assert path.stat().st_mode & 0o077 == 0
    assert dpoco.load(plain)._key is None  # a learner without a key writes as ever
    assert pickle.loads(pickle.dumps(loaded))._key is None


def test_a_mechanism_and_a_pool_go_on(tmp_path):
    total = dpoco.mechanisms.ContinualSum(2, horizon=9, budget=dpoco.Budget(1.0, 1e-6), bound=1.0)
    total.push([0.1, 0.2])
    total.save(tmp_path / "sum", key=KEY)
    twin = dpoco.load(tmp_path / "sum", key=BOTH)
    np.testing.assert_array_equal(twin.push([0.3, 0.4]), total.push([0.3, 0.4]))
    pool = KeyedPool(hedge())
    pool.process(["ann", "bob", "ann"], LOSSES[:3])
    pool.save(tmp_path / "pool", key=KEY)
    loaded = KeyedPool.load(tmp_path / "pool", key=KEY)
    assert loaded.keys() == ["ann", "bob"]
    loaded.save(tmp_path / "pool")
    assert b"ann" not in (tmp_path / "pool").read_bytes()
    with pytest.raises(dpoco.StateError, match="is encrypted, and no key"):
        KeyedPool.load(tmp_path / "pool")
    with pytest.raises(dpoco.StateError, match="not of a pool"):
        KeyedPool.load(tmp_path / "sum", key=KEY)


def test_every_changed_byte_and_every_length_is_refused(tmp_path, monkeypatch):
    """Each byte of a file is changed, and each shorter file is tried."""
    path = tmp_path / "state"
    played().save(path, key=KEY)
    data = path.read_bytes()
    flips = np.random.default_rng(5).integers(1, 256, len(data)).tolist()
    changed = [data[:i] + bytes([data[i] ^ flip]) + data[i + 1 :] for i, flip in enumerate(flips)]
    shorter = [data[:i] for i in range(len(data))]
    for damaged in (*changed, *shorter, data + b"\0"):
        monkeypatch.setattr(Path, "read_bytes", lambda self, damaged=damaged: damaged)
        with pytest.raises(dpoco.StateError):
            dpoco.load(path, key=KEY)
    monkeypatch.undo()
    assert dpoco.load(path, key=KEY).round == 20


def test_keys_are_told_apart_and_plain_files_refused(tmp_path):
    path, plain = tmp_path / "state", tmp_path / "plain"
    played().save(path, key=KEY)
    played().save(plain)
    with pytest.raises(dpoco.StateError, match="under a key that was not given"):
        dpoco.load(path, key=NEXT)
    with pytest.raises(dpoco.StateError, match="is encrypted, and no key was given"):
        dpoco.load(path)
    with pytest.raises(dpoco.StateError, match=r"not encrypted.*encrypt_file"):
        dpoco.load(plain, key=KEY)
    with pytest.raises(TypeError, match="key must be an EncryptionKey; got bytes"):
        dpoco.load(plain, key=OLD)
    learner = played()
    with pytest.raises(TypeError, match="key must be an EncryptionKey; got str"):
        learner.save(plain, key=OLD.hex())
    assert learner._key is None
    data = bytearray(path.read_bytes())
    data[7] = 2
    path.write_bytes(data)
    with pytest.raises(dpoco.StateError, match="format 2; the library reads 1"):
        dpoco.load(path, key=KEY)


def test_rotation_and_what_was_plain(tmp_path):
    path = tmp_path / "state"
    played().save(path)
    dpoco.encrypt_file(path, KEY)
    with pytest.raises(dpoco.StateError, match="not given"):
        dpoco.encrypt_file(path, NEXT)
    assert dpoco.load(path, key=BOTH).round == 20
    dpoco.encrypt_file(path, BOTH)
    assert dpoco.load(path, key=NEXT).round == 20
    with pytest.raises(dpoco.StateError, match="not given"):
        dpoco.load(path, key=KEY)
    other = tmp_path / "other"
    for damaged in (b"something else", path.read_bytes()[:-1]):
        other.write_bytes(damaged)
        with pytest.raises(dpoco.StateError):
            dpoco.encrypt_file(other, BOTH)
        assert other.read_bytes() == damaged


STEPS = ("tempfile.mkstemp", "os.fsync", "pathlib.Path.replace", "os.close")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_in_a_rotation_leaves_a_file(tmp_path, monkeypatch, step, after):
    path = tmp_path / "state"
    played().save(path, key=KEY)
    child = os.fork()
    if child == 0:
        owner = sys.modules[step.split(".")[0]]
        owner = getattr(owner, "Path", owner)
        name = step.rpartition(".")[2]
        done = getattr(owner, name)

        def killed(*arguments, **options):
            if after:
                done(*arguments, **options)
            os.kill(os.getpid(), 9)

        setattr(owner, name, killed)
        try:
            dpoco.encrypt_file(path, BOTH)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 9
    assert dpoco.load(path, key=BOTH).round == 20


def test_the_layout_is_that_of_the_page():
    """Opened by another implementation of the derivation and of AES-GCM."""
    data, context = os.urandom(3 << 20), b"a place"  # several pieces
    sealed = b"".join(BOTH.seal(context, data))
    assert len(sealed) == len(data) + 72
    extracted = hmac.digest(sealed[8:40], NEW, "sha256")
    first = hmac.digest(extracted, b"dpoco encryption 1\x01", "sha256")
    second = hmac.digest(extracted, first + b"dpoco encryption 1\x02", "sha256")
    assert sealed[40:56] == second[:16]
    assert sealed[:8] == b"dpocoen\x01"
    assert AESGCM(first).decrypt(bytes(12), sealed[56:], sealed[:56] + context) == data
    assert BOTH.open(context, sealed) == data
    with pytest.raises(dpoco.StateError, match="taken from another place"):
        BOTH.open(b"another place", sealed)
    assert b"".join(BOTH.seal(context, data))[8:56] != sealed[8:56]


def test_keys_from_files_and_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "key"
    texts = (OLD.hex(), base64.b64encode(OLD).decode(), f"{NEW.hex()}\n{OLD.hex()}\n")
    sealed = b"".join(KEY.seal(b"", b"secret"))
    for text in texts:
        path.write_text(text)
        path.chmod(0o600)
        monkeypatch.setenv("DPOCO_KEY", text)
        for key in (EncryptionKey.from_file(path), EncryptionKey.from_environment()):
            assert key.open(b"", sealed) == b"secret"
            assert KEY.open(b"", b"".join(key.seal(b"", b"secret"))) == b"secret"  # the last writes
    path.chmod(0o640)
    with pytest.raises(dpoco.StateError, match="chmod 600"):
        EncryptionKey.from_file(path)
    for wrong in (
        "",
        OLD.hex()[:-2],
        OLD.hex()[:-1] + "g",
        "#",
        base64.b64encode(OLD[1:]).decode(),
    ):
        monkeypatch.setenv("OTHER", wrong)
        with pytest.raises(ValueError, match=r"OTHER must hold keys|no key was given") as caught:
            EncryptionKey.from_environment("OTHER")
        assert OLD.hex()[:8] not in str(caught.value)
        assert caught.value.__cause__ is None
    monkeypatch.delenv("OTHER")
    with pytest.raises(ValueError, match="OTHER is not set"):
        EncryptionKey.from_environment("OTHER")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (bytes(32), "must be random"),
        (b"correct horse battery staple, etc", "32 bytes; got 33"),
        (b"Correct-Horse,battery:staple?Etc", "are text"),
        (OLD[:8] * 4, "bytes repeat"),
        (OLD[:31], "32 bytes; got 31"),
        (OLD.hex(), "must be bytes; got str"),
    ],
)
def test_keys_that_are_none(wrong, said):
    with pytest.raises((TypeError, ValueError), match=said):
        EncryptionKey(OLD, wrong)


def test_a_key_shows_itself_nowhere():
    assert repr(BOTH) == "<EncryptionKey, 2 of 32 bytes>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            leak(KEY)
    learner = played()
    learner._key = KEY
    for text in (repr(learner), str(learner.get_params()), str(pickle.dumps(learner))):
        assert OLD.hex() not in text
        assert repr(OLD)[2:-1] not in text


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ImportError, match=r'cryptography: pip install "dpoco\[encryption\]"'):
        EncryptionKey(OLD)


def test_random_keys_are_taken():
    """32 random bytes are refused with probability below 1e-9."""
    for _ in range(1000):
        EncryptionKey(os.urandom(32))
