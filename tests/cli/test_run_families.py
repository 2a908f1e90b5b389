"""`dpoco run` and `dpoco compare` with one-time fits and the Lipschitz learner."""

from __future__ import annotations

import json
import re
from dataclasses import replace

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


def test_a_running_quantile(table, invoke):
    options = ("events.csv", "--label", "load", "--range", "load=0:10")
    common = ("--learner lipschitz --set quantile=0.9 --epsilon 8 --json --set figure=false",)
    result = invoke("run", *options, *common, *QUICK)
    record = json.loads(result.stdout)
    assert record["domain"]["upper"] == [10.0]
    assert record["loss"]["lipschitz"] == 0.9
    values = column("load")
    assert record["best_fixed"]["decision"][0] == pytest.approx(np.quantile(values, 0.9), abs=0.4)
    short = 5.0 - values
    middle = np.maximum(-0.9 * short, 0.1 * short).mean()
    assert record["best_constant"]["average_loss"] == pytest.approx(middle)
    private = record["summary"]["private"]["average_losses"]["median"]
    assert private < record["best_constant"]["average_loss"]


def test_a_file_of_one_column_and_a_point_in_the_plane(table, invoke, tmp_path, report_of):
    (tmp_path / "times.csv").write_text("ms\n" + "3\n250\n" * 50)
    common = ("--learner", "lipschitz", "--set", "figure=false", "--epsilon", 20, *QUICK)
    result = invoke("run", "times.csv", "--label", "ms", "--range", "ms=0:200", *common)
    assert "times.csv: 100 rounds, pinball loss of the quantile 0.5" in result.stdout
    plane = ("events.csv", "--label", "speed,heat", "--range", "speed,heat=0:10")
    result = invoke("run", *plane, *common)
    record = report_of()
    np.testing.assert_allclose(record["best_fixed"]["decision"], 5.0, atol=1.0)


def test_regret_is_against_the_net_and_nothing_is_less_than_nothing(
    invoke, refused, tmp_path, monkeypatch, report_of
):
    # No net point is the middle, which is what every value is.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "still.csv").write_text("ms\n" + "5\n" * 40)
    options = ("still.csv", "--label", "ms", "--range", "ms=0:10", "--set", "figure=false")
    result = invoke("run", *options, *QUICK, "--learner lipschitz --set quantile=0.3 --full")
    assert "best net point" in result.stdout
    assert "best fixed decision" not in result.stdout
    record = report_of()
    best = record["best_fixed"]
    assert f"no decision is better by more than {best['gap']:.4g} a round" in result.stdout
    assert 0.0 <= best["average_loss"] <= best["gap"]
    assert "-0.0000" not in result.stdout
    (tmp_path / "twice.csv").write_text("ms,ms\n1,2\n3,4\n")
    twice = refused("run", "twice.csv", *options[1:], "--learner", "lipschitz")
    assert "several columns of the same name" in twice


def test_a_regret_of_less_than_a_half_is_no_minus_nothing(table, invoke, capsys):
    from dpoco.cli._render import print_report

    options = ("--learner", "lipschitz", "--label", "load", "--range", "load=0:10", "--json")
    record = json.loads(invoke("run", *FILE[:1], *options, *QUICK, "--set", "figure=false").stdout)
    report = RunReport.from_dict(record)
    near = {**report.best_constant, "total_loss": report.best_fixed["total_loss"] - 0.3}
    print_report(replace(report, best_constant=near), [], full=True)
    (line,) = (row for row in capsys.readouterr().out.splitlines() if "middle of" in row)
    assert line.split()[-2:] == ["0", "0"]


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_a_loss_of_nothing_has_no_sign(value):
    from dpoco.cli._problem import _pinball

    lost = _pinball(0.5, value, np.array([[0.0], [-0.0], [np.nan]]))
    assert not np.signbit(lost[:2]).any()
    assert np.isnan(_pinball(0.5, np.nan, np.array([[0.0]]))).all()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--learner lipschitz --label load --range load=0:10 --set quantile=0.8",),
        *(("--learner", name, *FILE[1:], "--epsilon", 3) for name in ("comw", "linucb")),
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


@pytest.mark.parametrize(
    "arguments",
    [
        ("--learner", "linucb", "--label", "alarm", "--range", "0:10"),
        ("--learner", "high-dimensional-bandit", "--label", "alarm", "--range", "0:10"),
        ("--learner", "lipschitz", "--label", "load", "--range", "load=0:10"),
    ],
)
def test_a_resumed_run_is_the_rest_of_the_whole(table, invoke, arguments):
    lines = table.read_text().splitlines(keepends=True)
    table.with_name("start.csv").write_text("".join(lines[:251]))
    common = (*arguments, "--horizon 400 --set seed=4 --epsilon 20 --set figure=false --json")

    def played(name, *more):
        result = invoke("run", name, *common, *more)
        return json.loads(result.stdout)

    whole = played("events.csv", "--set", "repeats=1")
    start = played("start.csv", "--checkpoint", "state")
    rest = played("events.csv", "--checkpoint", "state", "--resume", "--set", "skip-played=true")
    assert (start["first_round"], rest["first_round"]) == (0, 250)
    for player in ("private", "nonprivate"):
        own = [report[player]["average_losses"][0] for report in (start, rest, whole)]
        assert (250 * own[0] + 150 * own[1]) == pytest.approx(400 * own[2])


def test_the_default_streams(invoke, tmp_path, monkeypatch):
    pytest.importorskip("river")
    monkeypatch.chdir(tmp_path)
    common = ("--set", "repeats=1", "--set", "seed=1", "--set", "figure=false", "--json")
    record = json.loads(invoke("run", "--learner", "lipschitz", "--horizon", 200, *common).stdout)
    assert record["stream"]["feature_names"] == ["gallup"]
    result = invoke("run", "--learner", "linucb", "phishing", "--epsilon", 4, *common)
    record = json.loads(result.stdout)
    assert record["stream"]["name"] == "phishing"
    private = record["summary"]["private"]["average_losses"]["median"]
    assert private < 0.6 * record["best_constant"]["average_loss"]


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
    assert "no stream in common" in refused(*common, "--learners", "linucb,sufficient-statistics")
    assert "no loss" in refused(*common, "--learners", "linucb", "--loss", "huber")


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
    "linucb": {"missing": 0.25, "empty": 0.25, "clipped": 0.0, "reward_missing": 0.25,
               "reward_out_of_range": 0.0, "out_of_range": 0.25, "unknown_label": 0.25},
    "prefix-hedge": {"missing": 0.25, "out_of_range": 0.25},
    "lipschitz": {"clipped": 0.25, "missing": 0.25, "out_of_range": 0.25},
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
        "prefix-hedge": ("--features", "speed,heat", "--set", "loss-range=0,10"),
        "lipschitz": ("--label", "speed,heat", "--range", "speed,heat=0:10"),
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
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *rows * 9]) + "\n")
    result = invoke(
        "run wide.csv --learner prefix-hedge --set repeats=1",
        "--epsilon 50 --set figure=false --full",
    )
    shown = [line.strip() for line in result.stdout.splitlines() if "out of range" in line]
    assert [line.split(":")[0] for line in shown[1:]] == [f"x{j}" for j in range(12, 2, -1)]
    assert "and 3 more columns: see report.json" in result.stdout
