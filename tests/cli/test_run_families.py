"""`dpoco run` and `dpoco compare` with one-time fits."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from dpoco.evaluation import RunReport

FILE = ("events.csv", "--label", "alarm", "--range", "0:10")
QUICK = ("--set", "repeats=2", "--set", "seed=5")
SQUARED = ("--loss", "squared", "--range", "alarm=0:1")


def column(name):
    return np.genfromtxt("events.csv", delimiter=",", names=True)[name]


def test_one_fit_beside_the_best(table, invoke, tmp_path, report_of):
    options = ("--learner", "sufficient-statistics", *SQUARED, "--epsilon", 8)
    result = invoke("run", *FILE, *QUICK, *options, "--set", "figure=true", "--full")
    report = RunReport.from_dict(report_of())
    for expected in ("one fit to 400 records", "best constant prediction", "loss a record",
                     "which saw all of them", "Differential privacy"):  # fmt: skip
        assert expected in result.stdout, expected
    assert len(report.private.average_losses) == 2
    private = min(report.private.average_losses)
    assert report.best_fixed["average_loss"] <= private < report.best_constant["average_loss"]
    assert report.settings["command"]["learner"] == "sufficient-statistics"
    assert report.settings["records"] == 400
    assert (tmp_path / "results" / "report.png").exists()


def test_second_moments_are_for_squared_losses(table, invoke):
    common = ("run", *FILE, *QUICK, "--learner", "sufficient-statistics", "--set", "figure=false")
    refused = invoke(*common, code=2)
    assert "second moments are for a SquaredLoss" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--learner", "comw", *FILE[1:], "--epsilon", 3),
        ("--learner", "sufficient-statistics", *FILE[1:], *SQUARED, "--epsilon", 3),
    ],
)
def test_a_report_is_a_configuration(table, invoke, arguments):
    common = ("--set", "figure=false", "--json", "--set", "output=results.json")
    first = json.loads(invoke("run", *FILE[:1], *arguments, *QUICK, *common).stdout)
    again = json.loads(invoke("run", "--config", "results.json", *common).stdout)
    first.pop("timing"), again.pop("timing")
    assert again == first
    other = invoke("run", "--config", "results.json", "--epsilon", 5, *common)
    assert json.loads(other.stdout)["settings"]["epsilon"] == 5.0


def test_fits_have_rows_of_their_own(table, invoke, refused):
    common = (
        "compare",
        *FILE,
        "--epsilons 4 --loss squared --range alarm=0:1",
        *QUICK,
        "--set figure=false",
    )
    text = invoke(*common, "--learners", "noisy-ftrl,sufficient-statistics").stdout
    online, offline = text.split("One fit to all records, offline")
    assert "noisy-ftrl" in online
    assert "sufficient-statistics" not in online
    assert "sufficient-statistics" in offline
    assert "noisy-ftrl" not in offline
    alone = invoke(*common, "--learners", "sufficient-statistics")
    assert "best fixed decision has average loss" in alone.stdout
    refusal = refused(*common, "--learners", "linucb,sufficient-statistics")
    assert "linucb does not learn from labelled records: in Python, use learner.run(" in refusal


def test_a_refused_baseline_is_offline_too(table, invoke, answer):
    common = (
        "compare",
        *FILE,
        "--epsilons 1 --delta 0 --loss squared --range alarm=0:1",
        *QUICK,
        "--set figure=false",
    )
    both = invoke(*common, "--learners", "noisy-ftrl,sufficient-statistics")
    online, offline = both.stdout.split("One fit to all records, offline")
    assert "sufficient-statistics" not in online
    assert "refused" in offline
    assert "Same budget" not in both.stdout
    record = answer(*common, "--learners", "noisy-ftrl,sufficient-statistics")
    access = [(row["learner"], row["access"]) for row in record["rows"] if row["refused"]]
    assert access == [("noisy-ftrl", "online"), ("sufficient-statistics", "offline")]


SHARES = {  # how the rows of the file below are read, by learner
    "tree-frank-wolfe": {"empty": 0.5, "clipped": 0.0, "label_missing": 0.25,
                         "label_out_of_range": 0.25, "missing": 0.25, "out_of_range": 0.25},
    "sufficient-statistics": {"empty": 0.5, "clipped": 0.0, "label_missing": 0.25,
                   "label_out_of_range": 0.25, "missing": 0.25, "out_of_range": 0.25},
}  # fmt: skip


@pytest.mark.parametrize(("learner", "shares"), SHARES.items(), ids=SHARES)
def test_a_report_says_how_rows_were_read(
    tmp_path, monkeypatch, invoke, learner, shares, report_of
):
    monkeypatch.chdir(tmp_path)
    lines = ["speed,heat,alarm"] + ["5,5,1", "5,99,0", ",5,-1", "5,5,"] * 100 + ["-9,-9,7"] * 50
    (tmp_path / "odd.csv").write_text("\n".join(lines) + "\n")
    described = {
        "sufficient-statistics": (
            *SQUARED,
            "--label alarm --range 0:10 --set feature-bound=3",
        ),
    }.get(learner, ("--label", "alarm", "--range", "0:10", "--range", "alarm=0:1",
                       "--set", "feature-bound=3"))  # fmt: skip
    common = ("run", "odd.csv", "--learner", learner, *described, "--set", "figure=false")
    result = invoke(*common, "--horizon", 400, "--set", "repeats=1", "--set", "seed=1", "--full")
    read = report_of()["nonprivate_records"]
    assert (read["records"], read["shares"]) == (400, shares)
    assert read["columns"]["speed"] == {"missing": 0.25, "out_of_range": 0.0}
    assert read["columns"]["heat"] == {"missing": 0.0, "out_of_range": 0.25}
    for told in ("speed.*: 25 % missing", "heat.*: 25 % out of range"):
        assert re.search(told, result.stdout)
    said = " ".join(row for row in result.stdout.splitlines() if row.startswith("Records that"))
    for what, share in shares.items():
        told = f"{100 * share:g} % {what.replace('_', ' ')}"
        assert (told in said) == (share > 0.0 and what != "empty"), what


def test_many_odd_columns_are_cut_off(tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    names = [f"x{j}" for j in range(13)]
    rows = [",".join(["1"] * 13)] + [",".join(["1"] * j + ["9"] * (13 - j)) for j in range(13)]
    lines = [f"{','.join(names)},y", *(f"{row},{k % 2}" for k, row in enumerate(rows * 9))]
    (tmp_path / "wide.csv").write_text("\n".join(lines) + "\n")
    result = invoke(
        "run wide.csv --label y --range 0:1 --set repeats=1",
        "--epsilon 50 --set figure=false --full",
    )
    shown = [line.strip() for line in result.stdout.splitlines() if "out of range" in line]
    assert [line.split(" in ")[0] for line in shown[1:]] == [f"x{j}" for j in range(12, 2, -1)]
    assert "and 3 more columns: see report.json" in result.stdout
