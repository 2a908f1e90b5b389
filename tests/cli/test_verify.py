"""`dpoco verify`: what follows, what was edited, and what is something else."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import dpoco
from dpoco.accounting.ledger import Ledger

BUDGET = dpoco.Budget(1.0, 1e-5)
SECRET = bytes(range(100, 132))


def fit():
    return dpoco.frank_wolfe.SufficientStatistics(
        dpoco.domains.LpBall(2), dpoco.losses.SquaredLoss(1.0, 1.0), records=100, budget=BUDGET
    )


def learner():
    return dpoco.experts.PrefixHedge(3, horizon=100, budget=BUDGET)


@pytest.fixture
def files(tmp_path):
    """One file of each kind."""
    guarantee = fit().guarantee
    (tmp_path / "guarantee.json").write_text(guarantee.to_json())
    record = {"schema": "dpoco.plan/1", "guarantee": guarantee.to_dict()}
    (tmp_path / "plan.json").write_text(json.dumps(record))
    both = [guarantee.to_dict(), learner().guarantee.to_dict()]
    (tmp_path / "list.json").write_text(json.dumps(both))
    ledger = Ledger(dpoco.Budget(3.0, 1e-4))
    ledger.charge(learner().guarantee, "prices")
    (tmp_path / "ledger.json").write_text(ledger.to_json())
    started = learner()
    started.run(np.ones((5, 3)))
    started.save(tmp_path / "learner.dpoco")
    with dpoco.journal.Journal(tmp_path / "releases.db", ledger=Ledger(BUDGET)) as journal:
        journal.open("prices", learner).process(np.ones((5, 3)), first_round=0)
    return tmp_path


def test_every_kind_of_file_is_verified(invoke, files, answer):
    paths = sorted(path for path in files.iterdir() if path.suffix in (".json", ".dpoco", ".db"))
    assert len(paths) == 6
    result = invoke("verify", *paths)
    assert result.stdout.count(": verified (epsilon ") == 6
    rows = answer("verify", *paths)["files"]
    assert [len(row["statements"]) for row in rows] == [1, 1, 1, 2, 1, 2]
    assert answer("journal", "verify", files / "releases.db")["files"] == rows[-1:]


def test_a_journal_goes_on_while_it_is_verified(invoke, files):
    with dpoco.journal.Journal(files / "releases.db") as journal:
        invoke("verify", files / "releases.db")
        assert journal.open("prices").process(np.ones((5, 3)), first_round=5).shape[0] == 5


@pytest.mark.parametrize(
    ("name", "factor"),
    [("epsilon", 0.999), ("delta", 0.99), ("truncation_mass", 0.99), ("scale", 1.01),
     ("scale", 0.99)],
)  # fmt: skip
def test_edited_numbers_are_refuted(invoke, tmp_path, name, factor):
    record = fit().guarantee.to_dict()
    edited = record if name in record else record["description"]
    edited[name] = type(edited[name])(edited[name] * factor)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(record))
    assert "refuted" in invoke("verify", path, code=1).stdout


def test_damaged_files_are_refuted(invoke, files):
    state = files / "learner.dpoco"
    data = bytearray(state.read_bytes())
    data[-40] ^= 1
    state.write_bytes(data)
    invoke("verify", state, code=1)
    with closing(sqlite3.connect(files / "releases.db")) as database, database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        database.execute(f"DELETE FROM {tables[0][0]}")
    invoke("verify", files / "releases.db", code=1)
    invoke("verify", files / "releases.db", files / "plan.json", code=1)


def test_what_lacks_its_key_is_not_refuted(invoke, files, monkeypatch):
    learner().save(files / "secret", key=dpoco.EncryptionKey(SECRET))
    invoke("verify", files / "secret", code=2)
    monkeypatch.setenv("DPOCO_KEY", SECRET[::-1].hex())
    for name in ("secret", "learner.dpoco", "releases.db"):  # another key, and none
        assert ": unreadable: " in invoke("verify", files / name, code=2).stdout
    monkeypatch.setenv("DPOCO_KEY", SECRET.hex())
    invoke("verify", files / "secret", files / "plan.json")
    monkeypatch.delenv("DPOCO_KEY")
    key = files / "releases.db.key"
    key.chmod(0o644)
    said = invoke("verify", files / "releases.db", code=2).stdout
    assert "unreadable: others than its owner" in said
    assert said.endswith(f"chmod 600 {key}\n")  # not the copy's, which is gone
    key.unlink()
    assert "key file missing" in invoke("verify", files / "releases.db", code=2).stdout


def test_a_point_with_nothing_beside_it_is_not_verified(invoke, tmp_path):
    stated = learner().guarantee.to_dict()
    del stated["description"]
    for name in ("mu", "rho", "noise_multiplier", "column_norm"):
        stated[name] = None
    path = tmp_path / "point.json"
    path.write_text(json.dumps({**stated, "epsilon": 0.001, "truncation_mass": 0.0}))
    assert "not covered: only epsilon and delta" in invoke("verify", path, code=1).stdout


def test_other_files_are_none_of_these(invoke, tmp_path, files):
    (tmp_path / "notes.txt").write_text("epsilon = 1")
    (tmp_path / "other.json").write_text("{}")
    with closing(sqlite3.connect(tmp_path / "other.db")) as database, database:
        database.execute("CREATE TABLE t (x)")
    for name in ("notes.txt", "other.json", "other.db", "missing.json"):
        result = invoke("verify", tmp_path / name, code=2)
        assert "nothing to verify" in result.stdout
    invoke("verify", files / "plan.json", tmp_path / "notes.txt", code=2)


def test_the_independent_checker_proves_what_is_in_every_kind_of_file(invoke, files, answer):
    (files / "list.json").write_text(json.dumps([learner().guarantee.to_dict()] * 2))
    open_learner = dpoco.experts.PrefixHedge(3, horizon=100, budget=None)
    (files / "open.json").write_text(open_learner.guarantee.to_json())
    names = ("list.json", "ledger.json", "learner.dpoco", "releases.db", "open.json")
    paths = [files / name for name in names]
    rows = json.loads(invoke("verify", "--independent", *paths, "--json", code=6).stdout)["files"]
    summed = "the sum of charges, by dpoco"
    statements = [[each.rpartition("1e-05, ")[2] for each in row["statements"]] for row in rows]
    assert statements[0] == statements[3][:2] == ["proved"] * 2
    assert statements[1][0] == statements[2][0] == "proved"
    assert statements[1][1].endswith(summed)
    assert statements[3][2:] == [summed]
    assert statements[4] == ["no privacy"]
    for name in ("plan.json", "guarantee.json"):
        assert "proved" in invoke("verify", "--independent", files / name).stdout


@pytest.mark.parametrize(
    ("edits", "code", "said"),
    [
        ({"epsilon": 0.99}, 1, "refuted: not proved: delta"),
        ({"mu": 0.1}, 1, "refuted: not proved: mu says more than what is described"),
        ({"view": "server"}, 1, "not covered: the view 'server'"),
        ({"description": None}, 1, "not covered: there is no description"),
        ({"version": 3}, 2, "nothing to verify: a certificate of version 3; 2 is read"),
        ({"delta": "small"}, 2, "nothing to verify: delta cannot be 'small'"),
    ],
)
def test_the_independent_checker_refuses_in_a_sentence(invoke, tmp_path, edits, code, said):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps({**learner().guarantee.to_dict(), **edits}))
    output = invoke("verify", "--independent", path, code=code).stdout
    assert said in output
    assert output.count("\n") == 1
    path.write_text(path.read_text()[:-9])
    assert ": nothing to verify: " in invoke("verify", "--independent", path, code=2).stdout


def test_a_charge_without_a_certificate_is_not_covered(invoke, tmp_path):
    import dp_accounting

    ledger = Ledger(dpoco.Budget(3.0, 1e-4))
    ledger.charge(dp_accounting.GaussianDpEvent(4.0), "a report", relation="replace")
    path = tmp_path / "ledger.json"
    path.write_text(ledger.to_json())
    output = invoke("verify", "--independent", path, code=1).stdout
    assert "not covered: a charge without a certificate: a report" in output


def test_the_independent_checker_is_the_file_of_the_repository_and_needs_flint(
    invoke, files, monkeypatch
):
    monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.delitem(sys.modules, "dpoco._independent", raising=False)
    result = invoke("verify", "--independent", files / "guarantee.json", code=2)
    assert 'python-flint: pip install "dpoco[verify]"' in result.output
    monkeypatch.undo()
    checker = importlib.import_module("dpoco._independent")
    source = Path(__file__).parents[2] / "check" / "check.py"
    assert Path(checker.__file__).read_bytes() == source.read_bytes()
