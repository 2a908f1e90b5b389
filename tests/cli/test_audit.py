"""`dpoco audit`: names, reports, figures and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dpoco.audit import audit_learner, standard_names

TRIALS = ("--trials", 300)


def test_the_list(invoke):
    result = invoke("audit", "--list")
    assert result.stdout.split() == list(standard_names())


def test_a_report(invoke):
    result = invoke("audit", "noisy-max", *TRIALS, "--seed", 5)
    assert result.stdout == f"{audit_learner('noisy-max', trials=300, seed=5)}\n"


def test_a_refuted_claim_is_exit_code_one(invoke, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "audit.png"
    asked = ("audit", "BatchShare", "--calibration", "paper", *TRIALS, "--json")
    result = invoke(*asked, "--figure", path, code=1)
    assert result.stderr == ""
    record = json.loads(result.stdout)
    assert record["violated"]
    assert record["claim"]["published"]
    assert record["settings"]["calibration"] == "paper"
    assert path.stat().st_size > 10_000


def test_no_power_is_an_exit_code_of_its_own(invoke, monkeypatch):
    from dpoco import audit

    case = audit.standard_case("continual-sum")
    stream = case.stream.copy()
    stream[0] *= 0.999
    near = replace(case, neighbour=stream, replacements=((0, stream[0]),))
    report = audit.audit_learner(near, trials=300)
    assert report.outcome == "no power"
    monkeypatch.setattr("dpoco.audit.audit_learner", lambda *_, **__: report)
    result = invoke("audit", "continual-sum", code=3)
    result = invoke("audit", "continual-sum", "--json", code=3)
    assert json.loads(result.stdout)["outcome"] == "no power"


def test_a_learner_whose_replay_saw_nothing_says_so(invoke):
    result = invoke("audit", "comw", *TRIALS, "--json")
    record = json.loads(result.stdout)
    assert record["attacks"][0]["verdict"] == "not applicable"
    assert record["detectable_epsilon"] > record["claim"]["epsilon"]
    assert "without power: replay" in record["verdict"]
    assert record["exercises"]["not_exercised"] == []


def test_a_figure_that_cannot_be_written_is_found_out_before_the_runs(
    invoke, tmp_path, monkeypatch
):
    pytest.importorskip("matplotlib")

    def never(*_, **__):
        raise AssertionError("the runs have begun")

    monkeypatch.setattr("dpoco.audit.audit_learner", never)
    taken = tmp_path / "taken.png"
    taken.mkdir()
    result = invoke(
        "audit", "BatchShare", "--calibration", "paper", *TRIALS, "--figure", taken, code=2
    )
    assert result.stdout == ""
    assert "--figure cannot be written" in result.stderr
    monkeypatch.undo()
    free = tmp_path / "free.png"
    result = invoke("audit", "noisy-max", "--trials", 10, "--figure", free, code=2)
    assert not free.exists()  # nothing is left behind


def test_options_reach_the_case(invoke):
    result = invoke(
        "audit", "noisy-max", *TRIALS, "--epsilon", 2, "--horizon", 1, "--dimension", 3, "--json"
    )
    record = json.loads(result.stdout)
    assert record["settings"] == {
        "epsilon": 2.0, "delta": 0.0, "horizon": 1, "dimension": 3, "calibration": "tight",
    }  # fmt: skip
    assert record["claim"]["epsilon"] == pytest.approx(2.0)


def test_all_rounds_of_a_person_are_attacked(invoke, refused):
    often = ("--rounds-per-person", 3, "--separation", 2)
    record = json.loads(invoke("audit", "epoch-selector", *TRIALS, *often, "--json").stdout)
    assert record["claim"]["guarantee"]["person"] == [3, 2]
    assert record["attacks"][1]["epsilon"] > 0.95
    assert record["settings"] == {
        "epsilon": 1.0, "delta": 0.0, "horizon": 10, "dimension": 10, "calibration": "tight",
        "rounds_per_person": 3, "separation": 2,
    }  # fmt: skip
    assert "takes no participation" in refused("audit", "noisy-max", *often)
    assert "needs --rounds-per-person" in refused("audit", "noisy-ftrl", "--separation", 2)


def test_one_run_states_its_power_first_and_is_refused_without(invoke):
    asked = ("--one-run", "--epsilon", 4, "--horizon", 1000, "--dimension", 300)
    played = invoke("audit", "continual-sum", *asked, "--canaries", 900).stdout.splitlines()
    assert played[0].startswith("Before the run: a learner with 0.5 of the noise it claims")
    assert played[1] == "One-run audit: no violation found"
    refused = invoke("audit", "linucb", "--one-run", code=3)
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: an audit without power")
    for options in (
        ("--canaries", 3),
        ("--one-run", "--trials", 3),
        ("--one-run", "--canaries", 0),
    ):
        invoke("audit", "noisy-ftrl", *options, code=2)
    for name in ("noisy-max", "sufficient-statistics"):
        invoke("audit", name, "--one-run", "--canaries", 1, code=2)
