"""`dpoco explain`: guarantees and ledgers from files, in words and as JSON."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from dpoco.accounting import Budget, sum_release
from dpoco.accounting.explanation import explain, facts
from dpoco.accounting.ledger import Ledger

BUDGET = Budget(1.0, 1e-6)


@pytest.fixture
def guarantee():
    parameters = sum_release.calibrate(3, horizon=64, budget=Budget(0.5, 1e-7), bound=1.0)
    return sum_release.guarantee(parameters, budget=Budget(0.5, 1e-7))


def written(path, text):
    path.write_text(text)
    return path


def test_a_guarantee(invoke, tmp_path, guarantee, answer):
    path = written(tmp_path / "g.json", guarantee.to_json())
    shown = invoke("explain", path, "--people", 10**8).stdout
    about = {
        "File": "g.json", "Generated on": datetime.now(timezone.utc).date().isoformat(),
        "Signed by": "no one: anyone may have written this file",
    }  # fmt: skip
    assert shown == explain(guarantee, people=10**8, about=about) + "\n"
    assert "\nWARNING\n" in shown
    assert "\nWARNING\n" not in invoke("explain", path).stdout
    record = answer("explain", path)
    assert record.pop("schema") == "dpoco.explanation/1"
    assert record == facts(guarantee)


def test_a_ledger(invoke, tmp_path, guarantee, answer):
    ledger = Ledger(BUDGET)
    ledger.charge(guarantee, "running sums")
    path = written(tmp_path / "ledger.json", ledger.to_json())
    first, *rest = invoke("explain", path).stdout.splitlines()
    assert first.startswith("protected: epsilon = ")
    page, charges = explain(ledger.guarantee).splitlines(), ledger.report().splitlines()
    assert rest[0] == "Privacy statement"
    own = page[page.index("What is protected") :] + charges
    assert rest[rest.index("What is protected") :] == own
    record = answer("explain", path)
    assert record.pop("schema") == "dpoco.explanation/1"
    assert record.pop("ledger") == {
        "spent": ledger.spent,
        "currency": "gaussian",
        "adaptive": True,
        "remaining": ledger.remaining.to_dict(),
        "charges": ["running sums"],
    }
    said = {"verdict": "protected", "sentence": first}
    assert record == facts(ledger.guarantee) | said


def test_what_plan_prints_can_be_explained(invoke, tmp_path):
    plan = invoke("plan", "ctrl", "--horizon", 1000, "--dimension", 3, "--json")
    path = written(tmp_path / "plan.json", plan.stdout)
    result = invoke("explain", path)
    assert "What is protected" in result.stdout


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"kind": "dpoco.ledger"}', '{"kind": 3}', "3",
     pytest.param("[" * 100_000, id="deep")],
)  # fmt: skip
def test_bad_files_are_one_line(refused, tmp_path, text):
    assert "Traceback" not in refused("explain", written(tmp_path / "x.json", text))


def test_a_missing_file_is_one_line(tmp_path, refused):
    assert "nowhere.json" in refused("explain", tmp_path / "nowhere.json")
