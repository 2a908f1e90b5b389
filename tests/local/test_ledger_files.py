"""The ledger's files: a lock that was taken away, older copies, second names, odd contents."""

from __future__ import annotations

import hashlib
import os
import shutil

import numpy as np
import pytest

import dpoco
from dpoco.local import Hypotheses, LocalClient, RoundSpec, _queries
from dpoco.local._ledger import Ledger

LIMITS = {"epsilon_max": 100.0, "max_reports": 1000}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


def lock_of(path):
    return path.with_name("ledger.lock")


def charged(path, times):
    ledger = Ledger(path)
    for _ in range(times):
        ledger.charge(0.1, **LIMITS)
    return ledger


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_that_was_taken_away_spends_nothing(path, replaced):
    hypotheses = Hypotheses(np.full((3, 4), 0.25))
    spec = RoundSpec(1, "bit", 1.0, 3, 4, queries=(_queries.threshold("bisection", 1, 1, 0, 3),))
    first = LocalClient(hypotheses, 1.0, ledger=path)
    lock_of(path).unlink()
    if replaced:
        second = LocalClient(hypotheses, 1.0, ledger=path)
    before = path.read_bytes()
    with pytest.raises(dpoco.StateError, match="lock was"):
        first.respond(spec, None, 1)
    assert first.spent == 0.0
    assert first._source._engine.position(0) == 0
    assert path.read_bytes() == before
    if replaced:
        second.respond(spec, None, 1)
        second.close()
        assert LocalClient(hypotheses, 1.0, ledger=path).spent == 1.0


def test_an_older_copy_is_refused(path):
    charged(path, 2).close()
    copy = shutil.copy(path, path.with_name("copy"))
    charged(path, 1).close()
    shutil.copy(copy, path)
    with pytest.raises(dpoco.StateError, match="older"):
        Ledger(path)


def test_a_crash_between_ledger_and_lock_is_no_restoration(path, monkeypatch):
    ledger = charged(path, 1)
    monkeypatch.setattr(ledger, "_count", lambda: (_ for _ in ()).throw(OSError("cut")))
    with pytest.raises(OSError, match="cut"):
        ledger.charge(0.1, **LIMITS)
    ledger.close()
    again = Ledger(path)
    assert again.reports == 2
    assert again._counted() == 2


@pytest.mark.skipif(not hasattr(os, "link"), reason="hard links")
def test_second_names_are_refused(path):
    charged(path, 1).close()
    os.link(path, path.with_name("other"))
    for name in ("ledger", "other"):
        with pytest.raises(dpoco.StateError, match="two names"):
            Ledger(path.with_name(name))
    path.with_name("other").unlink()
    path.with_name("other.lock").unlink()
    ledger = Ledger(path)
    os.link(lock_of(path), path.with_name("other.lock"))
    with pytest.raises(dpoco.StateError, match="lock was"):
        ledger.charge(0.1, **LIMITS)
    assert ledger.reports == 1


@pytest.mark.parametrize("text", [b"reports at least 1\n", b"x" * 37, b"\n", b"\0" * 38])
def test_a_damaged_lock_is_refused(path, text):
    charged(path, 1).close()
    lock_of(path).write_bytes(text)
    with pytest.raises(dpoco.StateError, match="corrupt"):
        Ledger(path)


def test_odd_json_is_a_state_error(path):
    charged(path, 1).close()
    for record in (
        b"[]", b"{}", b"null", b"3", b'"text"', b"[" * 100_000,
        b'{"reports":1e400,"epsilon":[1,2],"delta":[0,1]}',
        b'{"reports":true,"epsilon":[1,2],"delta":[0,1]}',
        b'{"reports":3,"epsilon":[1,-2],"delta":[0,1]}',
        b'{"reports":3,"epsilon":["1/2"],"delta":[0,1]}',
        b'{"reports":3,"epsilon":[Infinity],"delta":[0,1]}',
        b'{"reports":3,"epsilon":[NaN],"delta":[0,1]}',
        b'{"reports":3,"epsilon":[0.5],"delta":[0]}',
        b'{"reports":3,"epsilon":[1,0],"delta":[0,1]}',
        b'{"reports":3,"epsilon":[1' + b"0" * 2000 + b',1],"delta":[0,1]}',
        b'{"reports":' + b"9" * 4000 + b',"epsilon":[0,1],"delta":[0,1]}',
    ):  # fmt: skip
        body = b"dpoco ledger 1\n" + record + b"\n"
        path.write_bytes(body + hashlib.sha256(body).hexdigest().encode() + b"\n")
        with pytest.raises(dpoco.StateError, match="corrupt"):
            Ledger(path)
