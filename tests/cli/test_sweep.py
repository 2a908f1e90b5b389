"""`dpoco sweep`: a table, JSON, going on, and bad input."""

from __future__ import annotations

import json

import pytest

import dpoco
from dpoco.scale import BuiltInRun

SMALL = ("--horizon", "100,200", "--dimension", "3", "--epsilon", "1,100", "--seeds", "2")


@pytest.mark.parametrize("learner", BuiltInRun.learners())
def test_every_learner(tmp_path, learner, answer):
    path = tmp_path / "results.jsonl"
    report = answer("sweep", learner, *SMALL, "--output", path)
    assert (report["runs"], report["failed"], len(report["cells"])) == (8, 0, 4)
    assert report["noise"] == "seeded: guarantee void"
    assert len(path.read_text().splitlines()) == 8
    by_epsilon = {1: 0.0, 100: 0.0}
    for cell in report["cells"]:
        assert cell["average_loss"]["min"] <= cell["average_loss"]["median"]
        by_epsilon[cell["epsilon"]] += cell["average_regret"]["median"]
    assert by_epsilon[100] < by_epsilon[1]


def test_a_sweep_goes_on_and_grows(invoke, tmp_path, refused):
    path = tmp_path / "results.jsonl"
    asked = ("sweep", "prefix-hedge", *SMALL, "--output", path)
    first = invoke(*asked)
    assert "the guarantee is void" in first.stdout
    assert "average loss" in first.stdout
    before = path.read_text()
    assert invoke(*asked, "--quiet").stdout == ""
    assert path.read_text() == before
    more = invoke(*asked, "--backend", "threads", "--seeds", "4", "--json")
    assert json.loads(more.stdout)["runs"] == 16
    assert path.read_text().startswith(before)
    assert len(path.read_text().splitlines()) == 16
    assert "another sweep: run changed" in refused(
        "sweep", "tree-frank-wolfe", *SMALL, "--output", path
    )


def test_failed_runs_are_told(tmp_path, invoke):
    path = tmp_path / "results.jsonl"
    asked = ("sweep", "prefix-hedge", "--delta", "0", "--seeds", "2", "--output", path)
    said = invoke(*asked, code=2).stderr
    assert "2 of 2 runs failed, the first with dpoco.errors.CalibrationError" in said
    assert len(dpoco.scale.read_sweep(path).failed) == 2
