"""Every command's ``--json`` is one JSON object that names its schema, as the page lists it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dpoco.accounting import Budget, sum_release
from dpoco.journal import Journal

PAGE = Path(__file__).parents[2] / "docs" / "cli_reference.md"
PLAYED = ("--learners noisy-ftrl --epsilons 1 --set repeats=1 --set figure=false",)

TABLE = ("events.csv", "--label", "alarm", "--range", "0:10", "--horizon", 200)
# Command line: its schema.
PRINTED = {
    ("run", *TABLE, "--set", "figure=false", "--json"): "dpoco.run-report/1",
    ("run", *TABLE, "--learner", "sufficient-statistics", "--loss", "squared", "--range",
     "alarm=0:1", "--set", "figure=false",
     "--json"): "dpoco.run-report/1",
    ("compare", *TABLE, *PLAYED, "--json"): "dpoco.comparison/1",
    ("plan", "noisy-ftrl", "--horizon", 1000, "--dimension", 3, "--json"): "dpoco.plan/1",
    ("plan", "experts", "--horizon", 1000, "--experts", 3, "--json"): "dpoco.plan-auto/1",
    ("datasets", "--json"): "dpoco.datasets/1",
    ("datasets", "shuttle", "--json"): "dpoco.datasets/1",
    ("explain", "guarantee.json", "--json"): "dpoco.explanation/1",
    ("verify", "guarantee.json", "--json"): "dpoco.verification/1",
    ("publish", "state", "--like", "model.json", "--to", "new.json", "--json"): "dpoco.model/1",
    ("predict", "model.json", "events.csv", "--json"): "dpoco.predictions/1",
    ("journal", "status", "a.journal", "--json"): "dpoco.journal/1",
    ("audit", "noisy-max", "--trials", 300, "--json"): "dpoco.audit/2",
    ("audit", "continual-sum", "--one-run", "--epsilon", 4, "--horizon", 1000, "--dimension", 300,
     "--canaries", 900, "--json"): "dpoco.one-run-audit/1",
    ("audit", "--list", "--json"): "dpoco.audit-names/1",
    ("sign", "--new-key", "signer.key", "--json"): "dpoco.signature/1",
    ("table", "noise", "--horizons", 1000, "--epsilons", 1, "--json"): "dpoco.table/1",
}  # fmt: skip


def pages_schemas() -> dict[str, str]:
    """Return the commands of the page's list, by schema."""
    rows = re.findall(
        r"^\| `(dpoco\.[a-z0-9.-]+/\d+)` \| `([^`]*)`", PAGE.read_text(), re.MULTILINE
    )
    return dict(rows)


@pytest.mark.parametrize(("command", "schema"), PRINTED.items(), ids=lambda value: str(value)[:40])
def test_json_names_its_schema(invoke, table, command, schema):
    if command[0] == "datasets":
        pytest.importorskip("river")
    parameters = sum_release.calibrate(3, horizon=64, budget=Budget(0.5, 1e-7), bound=1.0)
    stated = sum_release.guarantee(parameters, budget=Budget(0.5, 1e-7))
    (table.parent / "guarantee.json").write_text(stated.to_json())
    if command[0] in ("publish", "predict"):
        kept = ("--checkpoint state --decision model.json --set figure=false --set quiet=true",)
        invoke("run", *TABLE, *kept, code=4)  # of 400 rows, 200
    with Journal("a.journal"):
        pass
    result = invoke(*command)
    record = json.loads(result.stdout)
    assert record["schema"] == schema
    assert next(iter(record)) == "schema"
    shown = pages_schemas()[schema].split()
    assert shown[0] == command[0]
    assert shown[1:] in ([], ["LEARNER"], list(command[1:2]))


def test_the_page_lists_what_is_printed():
    assert set(PRINTED.values()) <= set(pages_schemas())


def test_no_command_is_left_out():
    import typer

    from dpoco.cli._app import app

    names = set(typer.main.get_command(app).list_commands(None))
    # Those print nothing; `monitor` writes lines of JSON to its output.
    assert names - {"init", "serve", "monitor"} == {command[0] for command in PRINTED}
