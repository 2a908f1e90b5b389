"""The ledger: exact, ahead of the noise, durable, and held by one client at a time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from local_cases import FA, bit_spec, fixed
from tests.probes import probes

import dpoco
from dpoco.local import LocalClient
from dpoco.local import _client as ledger_module
from dpoco.local._client import Ledger, Ledgers

WIDE = {"epsilon_max": 100.0, "max_reports": 1000}


def test_sums_are_exact():
    ledger, total = Ledger(), Fraction(0)
    for epsilon in np.random.default_rng(0).uniform(1e-9, 1.0, 100).tolist():
        ledger.charge(epsilon, **WIDE)
        total += Fraction(epsilon)
    assert ledger.epsilon == total
    assert ledger.reports == 100


@pytest.mark.parametrize(
    "charge",
    [lambda: Ledger().charge, lambda: partial(Ledgers(2).charge, None)],
    ids=["one", "many"],
)
@pytest.mark.parametrize("count", [3, 7, 10, 1000])
def test_equal_shares_use_up_a_budget_exactly(count, charge):
    spend, limits = charge(), {"epsilon_max": 1.0, "max_reports": 10**6}
    for _ in range(count):
        spend(1.0 / count, **limits)
    with pytest.raises(dpoco.BudgetExceeded):
        spend(1e-12, **limits)


def test_refusals_change_nothing(tmp_path):
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.charge(0.5, **WIDE)
    before = path.read_bytes()
    for epsilon, limits in ((100.0, WIDE), (0.1, {**WIDE, "max_reports": 1})):
        with pytest.raises(dpoco.BudgetExceeded):
            ledger.charge(epsilon, **limits)
        assert (ledger.epsilon, ledger.reports) == (Fraction(0.5), 1)
        assert path.read_bytes() == before


def test_it_survives_its_client(tmp_path):
    path = tmp_path / "ledger"
    with LocalClient(fixed(FA), 1.0, 5, ledger=path) as client:
        client.respond(bit_spec(FA, epsilon=0.3), None, 1)
    with pytest.raises(dpoco.StateError, match="closed"):
        client.respond(bit_spec(FA, epsilon=0.3), None, 1)
    client = LocalClient(fixed(FA), 1.0, 5, ledger=path)
    assert (client.spent, client.reports_left) == (0.3, 4)
    with pytest.raises(dpoco.BudgetExceeded):
        client.respond(bit_spec(FA, epsilon=0.8), None, 1)
    client.respond(bit_spec(FA, epsilon=0.7), None, 1)
    del client  # collected: the file is free
    assert LocalClient(fixed(FA), 1.0, 5, ledger=path).remaining == pytest.approx(0.0, abs=1e-15)
    assert path.stat().st_mode & 0o077 == 0


def test_charged_and_on_disk_before_any_noise(tmp_path, monkeypatch):
    """The order of a report: write, sync, draw."""
    events = []
    client = LocalClient(fixed(FA), 1.0, ledger=tmp_path / "ledger")
    sync, own = os.fsync, client._source._own  # which every draw asks for

    def fsync(handle):
        events.append("sync")
        return sync(handle)

    def draw():
        events.append(("draw", json.loads((tmp_path / "ledger").read_bytes().splitlines()[1])))
        return own()

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(client._source, "_own", draw)
    client.respond(bit_spec(FA), None, 1)
    assert events[:-1] == ["sync"] * (len(events) - 1)
    assert len(events) >= 2
    name, record = events[-1]
    assert name == "draw"
    assert record["reports"] == 1
    assert Fraction(*record["epsilon"]) == 1


def test_a_crash_while_drawing_counts(tmp_path):
    path = tmp_path / "ledger"
    code = f"""
import os, numpy as np
from dpoco.local import LocalClient, Hypotheses, RoundSpec, _messages

h = Hypotheses(np.full((3, 4), 0.25))
spec = RoundSpec(1, "bit", 1.0, 3, 4, queries=(_messages.threshold('bisection', 1, 1, 0, 3),))
client = LocalClient(h, 1.0, ledger={str(path)!r})
client._source._own = lambda: os._exit(7)
client.respond(spec, None, 1)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7
    client = LocalClient(fixed(FA), 1.0, ledger=path)
    assert client.spent == 1.0
    with pytest.raises(dpoco.BudgetExceeded):
        client.respond(bit_spec(FA), None, 1)


def test_a_failing_disk_makes_no_report(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    client = LocalClient(fixed(FA), 1.0, max_reports=2, ledger=path)

    def full(target, data):
        raise OSError("no space left")

    monkeypatch.setattr(ledger_module, "write_atomically", full)
    with pytest.raises(OSError, match="no space"):
        client.respond(bit_spec(FA, epsilon=0.6), None, 1)
    assert probes.position(client._source._engine, 0) == 0
    monkeypatch.undo()
    assert client.spent == 0.6  # it may have reached the disk: it counts
    with pytest.raises(dpoco.BudgetExceeded):
        client.respond(bit_spec(FA, epsilon=0.6), None, 1)


def test_damage_is_refused(tmp_path):
    path = tmp_path / "ledger"
    with LocalClient(fixed(FA), 1.0, 3, ledger=path) as client:
        client.respond(bit_spec(FA, epsilon=0.25), None, 1)
    good = path.read_bytes()
    rng = np.random.default_rng(3)
    broken = [good[:n] for n in range(len(good))] + [b"", good + b"\n", good * 2]
    for _ in range(200):
        data = bytearray(good)
        data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
        broken.append(bytes(data))
    for data in broken:
        path.write_bytes(data)
        with pytest.raises(dpoco.StateError, match="ledger"):
            LocalClient(fixed(FA), 1.0, 3, ledger=path)
        assert path.read_bytes() == data  # nothing was repaired
    path.write_bytes(good)
    assert LocalClient(fixed(FA), 1.0, 3, ledger=path).spent == 0.25


def test_a_removed_ledger_is_missed(tmp_path):
    path = tmp_path / "ledger"
    Ledger(path).close()
    path.unlink()
    with pytest.raises(dpoco.StateError, match="missing"):
        Ledger(path)


def test_one_client_at_a_time(tmp_path):
    path = tmp_path / "ledger"
    client = LocalClient(fixed(FA), 1.0, ledger=path)
    with pytest.raises(dpoco.StateError, match="in use"):
        LocalClient(fixed(FA), 1.0, ledger=path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(dpoco.StateError, match="in use"):
        LocalClient(fixed(FA), 1.0, ledger=tmp_path / "link")
    code = f"from dpoco.local._client import Ledger; Ledger({str(path)!r})"
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert run.returncode == 1
    assert "in use by another client" in run.stderr
    client.close()
    LocalClient(fixed(FA), 1.0, ledger=tmp_path / "link").close()
    assert (tmp_path / "link").is_symlink()


def test_many_ledgers_equal_single_ones():
    rng = np.random.default_rng(5)
    many, single = Ledgers(4), [Ledger() for _ in range(4)]
    limits = {"epsilon_max": 3.0, "max_reports": 30}
    for _ in range(300):
        member, epsilon = int(rng.integers(4)), float(rng.uniform(0.0001, 0.3))
        try:
            single[member].charge(epsilon, **limits)
            refused = False
        except dpoco.BudgetExceeded:
            refused = True
        fits = many.affordable(np.array([member]), epsilon, 3.0, 30)[0]
        assert fits != refused
        if refused:
            with pytest.raises(dpoco.BudgetExceeded):
                many.charge(np.array([member]), epsilon, **limits)
        else:
            many.charge(np.array([member]), epsilon, **limits)
        assert many.spent.tolist() == [float(ledger.epsilon) for ledger in single]
    assert many.reports.tolist() == [ledger.reports for ledger in single]


# -- files: a lock that was taken away, older copies, second names, odd contents -----------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


def lock_of(path):
    return path.with_name("ledger.lock")


def charged(path, times):
    ledger = Ledger(path)
    for _ in range(times):
        ledger.charge(0.1, **WIDE)
    return ledger


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_that_was_taken_away_spends_nothing(path, replaced):
    hypotheses, spec = fixed(FA), bit_spec(FA)
    first = LocalClient(hypotheses, 1.0, ledger=path)
    lock_of(path).unlink()
    if replaced:
        second = LocalClient(hypotheses, 1.0, ledger=path)
    before = path.read_bytes()
    with pytest.raises(dpoco.StateError, match="lock was"):
        first.respond(spec, None, 1)
    assert first.spent == 0.0
    assert probes.position(first._source._engine, 0) == 0
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
        ledger.charge(0.1, **WIDE)
    ledger.close()
    again = Ledger(path)
    assert again.reports == 2
    assert again._read_count() == 2


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
        ledger.charge(0.1, **WIDE)
    assert ledger.reports == 1


@pytest.mark.parametrize("text", [b"reports at least 1\n", b"x" * 37, b"\n", b"\0" * 38])
def test_a_damaged_lock_is_refused(path, text):
    charged(path, 1).close()
    lock_of(path).write_bytes(text)
    with pytest.raises(dpoco.StateError, match="corrupt"):
        Ledger(path)


def test_impossible_records_are_refused(path):
    charged(path, 1).close()

    def holds(record, version=b"2"):
        body = b"dpoco ledger " + version + b"\n" + record + b"\n"
        path.write_bytes(body + hashlib.sha256(body).hexdigest().encode() + b"\n")

    rest = b'"protect":"label","simulated":false}'
    for record in (
        b"", b"[]", b"{}", b"null", b"3", b'"text"', b'{"reports": 1', b"[" * 100_000,
        b'{"reports":1e400,"epsilon":[1,2],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":true,"epsilon":[1,2],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":-1,"epsilon":[0,1],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":3,"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":3,"epsilon":[1,-2],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":3,"epsilon":[-1,2],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":3,"epsilon":["1/2"],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":3,"epsilon":[Infinity],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":3,"epsilon":[NaN],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":3,"epsilon":[0.5],"delta":[0],"protect":"label","simulated":false}',
        b'{"reports":3,"epsilon":[1,0],"delta":[0,1],"protect":"label","simulated":false}',
        b'{"reports":3,"epsilon":[1' + b"0" * 2000 + b',1],"delta":[0,1],' + rest,
        b'{"reports":' + b"9" * 4000 + b',"epsilon":[0,1],"delta":[0,1],' + rest,
    ):  # fmt: skip
        holds(record)
        with pytest.raises(dpoco.StateError, match="corrupt"):
            Ledger(path)
    known = b'{"reports":3,"epsilon":[1,2],"delta":[0,1],"protect":%s,"simulated":%s}'
    holds(known % (b'"label"', b"false"))
    ledger = Ledger(path)
    assert (ledger.reports, ledger.epsilon) == (3, Fraction(1, 2))
    ledger.close()
    for protect, simulated in ((b"null", b"false"), (b'"all"', b"false"), (b'"label"', b"0")):
        holds(known % (protect, simulated))
        with pytest.raises(dpoco.StateError, match="corrupt"):
            Ledger(path)
    # Version 1 did not say what reports protect.
    for version, record in ((b"3", known % (b'"label"', b"false")), (b"1", b'{"reports":3}')):
        holds(record, version)
        with pytest.raises(dpoco.StateError, match="version"):
            Ledger(path)


# -- earlier clients with other arguments ----------------------------------------------------------


def test_a_guarantee_is_about_what_earlier_clients_spent(path):
    hypotheses = fixed(FA)
    with LocalClient(hypotheses, 4.0, 9, ledger=path) as client:
        for _ in range(3):
            client.respond(bit_spec(FA, epsilon=1.0), None, 1)
    with LocalClient(hypotheses, 0.5, 2, ledger=path) as client:
        assert client.guarantee.delta_at(3.0) == 0.0 < client.guarantee.delta_at(2.99)
        assert client.guarantee.epsilon == pytest.approx(3.0)
        assert client.guarantee.horizon == 3
        assert client.remaining == 0.0
        with pytest.raises(dpoco.BudgetExceeded):
            client.respond(bit_spec(FA, epsilon=0.1), None, 1)
    with LocalClient(hypotheses, 3.0, 3, ledger=path) as client:
        assert (client.guarantee.epsilon, client.guarantee.horizon) == (3.0, 3)


def test_reports_that_protect_less_stay_in_the_ledger(path):
    hypotheses = fixed(FA)
    with LocalClient(hypotheses, 4.0, 9, ledger=path, protect="label"):
        pass  # without a report, the ledger promises nothing
    both = {"ledger": path, "protect": "label_and_context"}
    with LocalClient(hypotheses, 4.0, 9, **both) as client:
        assert client.guarantee.conditions != LocalClient(hypotheses, 4.0, 9).guarantee.conditions
    with LocalClient(hypotheses, 4.0, 9, ledger=path) as client:
        client.respond(bit_spec(FA, epsilon=1.0), None, 1)
    with pytest.raises(dpoco.StateError, match="protect the label only"):
        LocalClient(hypotheses, 4.0, 9, **both)
    assert LocalClient(hypotheses, 4.0, 9, ledger=path).spent == 1.0


def test_simulated_reports_stay_in_the_ledger(path):
    hypotheses = fixed(FA)
    with LocalClient(hypotheses, 4.0, 9, ledger=path) as client:
        client.respond(bit_spec(FA, epsilon=1.0), None, 1)
    with LocalClient(hypotheses, 4.0, 9, ledger=path, simulation_seed=1) as client:
        client.respond(bit_spec(FA, epsilon=1.0), None, 1)
    with pytest.raises(dpoco.StateError, match="simulated"):
        LocalClient(hypotheses, 4.0, 9, ledger=path)
    with LocalClient(hypotheses, 4.0, 9, ledger=path, simulation_seed=2) as client:
        assert client.spent == 2.0
        assert not client.guarantee.certified
