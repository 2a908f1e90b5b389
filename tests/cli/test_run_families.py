"""`dpoco run` and `dpoco compare` with bandits, batch baselines and the Lipschitz learner."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dpoco.evaluation import FIT_SCHEMA, FitReport, RunReport

FILE = ("--data", "events.csv", "--label", "alarm", "--feature-range", "0,10")
QUICK = ("--repeats", 2, "--seed", 5)
BATCH = ["noisy-sgd", "phased-sgd", "localized-mirror-descent", "noisy-frank-wolfe"]


@pytest.fixture
def classes(tmp_path, monkeypatch):
    """Three classes, told apart by one column."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(8)
    x = generator.uniform(-1.0, 1.0, size=(600, 2))
    y = 1 + np.digitize(x[:, 0], [-0.3, 0.3])
    table = np.column_stack([x, y])
    np.savetxt("visits.csv", table, delimiter=",", header="a,b,choice", comments="")
    return y


def column(name):
    return np.genfromtxt("events.csv", delimiter=",", names=True)[name]


@pytest.mark.parametrize("learner", ["linucb", "high-dimensional-bandit"])
def test_classes_become_arms(table, invoke, tmp_path, learner):
    result = invoke("run", *FILE, *QUICK, "--learner", learner, "--epsilon", 50)
    assert result.exit_code == 0, result.stderr
    report = RunReport.from_dict(json.loads((tmp_path / "results" / "report.json").read_text()))
    text = result.stdout
    for expected in (
        "events.csv: 400 rounds x 4 features, 2 arms", "1 for the arm of the label's class",
        "average reward", "least-squares linear policy", "best single arm",
        "uniformly random arm", "0.5000", "reward per round", "need not be the best linear one",
    ):  # fmt: skip
        assert expected in text, expected
    assert "switches" not in text
    assert f"{1.0 - report.private.average_loss:.4f}" in text
    share = max(column("alarm").mean(), 1.0 - column("alarm").mean())
    assert report.best_constant["average_loss"] == pytest.approx(1.0 - share)
    assert report.guarantee["relation"] == "joint"
    assert (tmp_path / "results" / "report.png").read_bytes().startswith(b"\x89PNG")


def test_the_label_range_names_the_classes(classes, invoke):
    options = ("--data", "visits.csv", "--label", "choice", "--learner", "linucb", "--epsilon", 50)
    result = invoke("run", *options, *QUICK, "--label-range", "1,3", "--no-figure", "--json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["domain"] == {"type": "policies", "arms": 3, "dimension": 3}
    counts = np.bincount(classes)[1:]
    assert record["best_constant"]["decision"] == int(np.argmax(counts))
    assert record["best_constant"]["average_loss"] == pytest.approx(1.0 - counts.max() / 600)
    assert record["summary"]["nonprivate"]["average_losses"]["median"] < 0.3
    assert record["others"][0]["average_loss"] == pytest.approx(2.0 / 3.0)


def test_options_reach_the_bandit_and_a_report_is_a_configuration(table, invoke, tmp_path):
    options = ("--exploration", 0.7, "--feature-bound", 0.9, "--batch", 20, "--sum-method", "tree")
    first = invoke("run", *FILE, *QUICK, "--learner", "linucb", *options, "--no-figure", "--json")
    assert first.exit_code == 0, first.stderr
    record = json.loads(first.stdout)
    expected = {"exploration": 0.7, "context_bound": 0.9, "batch": 20, "sum_method": "tree",
                "reward_bound": 0.5}  # fmt: skip
    assert {name: record["parameters"][name] for name in expected} == expected
    again = invoke("run", "--config", "results/report.json", "--no-figure", "--json")
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["private"] == record["private"]


def test_a_bandit_tells_how_it_goes_and_resumes(table, invoke, tmp_path):
    common = ("run", *FILE, "--learner", "linucb", "--no-figure", "--epsilon", 50)
    told = invoke(*common, *QUICK, "--progress")
    assert [line.split()[0] for line in told.stderr.splitlines()[-3:]] == ["128", "256", "400"]
    kept = ("--checkpoint", "state", "--horizon", 500)
    assert invoke(*common, *kept).exit_code == 0
    assert "already played" in invoke(*common, *kept, "--resume").stderr


@pytest.mark.parametrize("learner", BATCH)
def test_one_fit_beside_the_best_and_zero(table, invoke, tmp_path, learner):
    figure = "--figure" if learner == "phased-sgd" else "--no-figure"
    result = invoke("run", *FILE, *QUICK, "--learner", learner, "--epsilon", 8, figure)
    assert result.exit_code == 0, result.stderr
    report = FitReport.from_dict(json.loads((tmp_path / "results" / "report.json").read_text()))
    for expected in ("one fit to 400 records", "above the best", "predicting zero", "0.6931",
                     "no regret", "Differential privacy"):  # fmt: skip
        assert expected in result.stdout, expected
    best = report.best_fixed["average_loss"]
    assert best <= min(report.private)
    assert report.zero["average_loss"] == pytest.approx(np.log(2.0))
    assert report.settings["command"]["learner"] == learner
    assert (tmp_path / "results" / "report.png").exists() == (figure == "--figure")


def test_a_fit_in_json(table, invoke):
    result = invoke("run", *FILE, *QUICK, "--learner", "phased-sgd", "--no-figure", "--json")
    record = json.loads(result.stdout)
    assert record["schema"] == FIT_SCHEMA
    assert set(record) == {
        "schema", "summary", "stream", "settings", "domain", "loss", "parameters", "guarantee",
        "guarantee_text", "private", "nonprivate", "best_fixed", "zero", "versions", "timing",
    }  # fmt: skip
    assert len(record["private"]) == 2


def test_a_running_quantile(table, invoke):
    options = ("--data", "events.csv", "--label", "load", "--label-range", "0,10")
    common = ("--learner", "lipschitz", "--quantile", 0.9, "--epsilon", 8, "--json", "--no-figure")
    result = invoke("run", *options, *common, *QUICK)
    assert result.exit_code == 0, result.stderr
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


def test_a_file_of_one_column_and_a_point_in_the_plane(table, invoke, tmp_path):
    (tmp_path / "times.csv").write_text("ms\n" + "3\n250\n" * 50)
    common = ("--learner", "lipschitz", "--no-figure", "--epsilon", 20, *QUICK)
    result = invoke(
        "run", "--data", "times.csv", "--label", "ms", "--label-range", "0,200", *common
    )
    assert result.exit_code == 0, result.stderr
    assert "times.csv: 100 rounds, pinball loss of the quantile 0.5" in result.stdout
    plane = ("--data", "events.csv", "--label", "speed,heat", "--label-range", "0,10")
    result = invoke("run", *plane, *common)
    assert result.exit_code == 0, result.stderr
    record = json.loads((tmp_path / "results" / "report.json").read_text())
    np.testing.assert_allclose(record["best_fixed"]["decision"], 5.0, atol=1.0)


def test_the_default_streams(invoke, tmp_path, monkeypatch):
    pytest.importorskip("river")
    monkeypatch.chdir(tmp_path)
    common = ("--repeats", 1, "--seed", 1, "--no-figure", "--json")
    record = json.loads(invoke("run", "--learner", "lipschitz", "--horizon", 200, *common).stdout)
    assert record["stream"]["feature_names"] == ["gallup"]
    result = invoke("run", "--learner", "linucb", "--stream", "phishing", "--epsilon", 4, *common)
    record = json.loads(result.stdout)
    private = record["summary"]["private"]["average_losses"]["median"]
    assert private < 0.6 * record["best_constant"]["average_loss"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learner", "linucb", "--p", "2"], "no --p"),
        (["--learner", "linucb", "--loss", "squared"], "no --loss"),
        (["--learner", "linucb", "--radius", "2"], "no --radius"),
        (["--learner", "linucb", "--noise", "gaussian"], "no --noise"),
        (["--learner", "linucb", "--loss-range", "0,1"], "learners of experts"),
        (["--learner", "linucb", "--quantile", "0.5"], "--quantile is for lipschitz"),
        (["--learner", "high-dimensional-bandit", "--exploration", "1"], "no --exploration"),
        (["--learner", "comw", "--exploration", "1"], "--exploration is for linucb"),
        (["--learner", "linucb", *FILE, "--label-range", "0,1.5"], "whole numbers"),
        (["--learner", "linucb", "--label-range", "0,2"], "--data"),
        (["--learner", "linucb", *FILE[:2], "--label", "heat"], "no label of events.csv"),
        (["--learner", "noisy-sgd", "--checkpoint", "state"], "one fit"),
        (["--learner", "noisy-sgd", "--batch", "2"], "no --batch"),
        (["--learner", "lipschitz", "--features", "a"], "no --features"),
        (["--learner", "lipschitz", *FILE[:4]], "--label-range"),
        (["--learner", "lipschitz", "--stream", "stocks", "--label", "XYZ"], "column"),
        (["--learner", "lipschitz", *FILE[:2], "--label", "z", "--label-range", "0,1"], "'z'"),
        (
            ["--learner", "lipschitz", *FILE[:2], "--label", "speed,heat", "--label-range", "0,9",
             "--quantile", "0.5"],
            "one column",
        ),
        (
            ["--learner", "lipschitz", *FILE[:2], "--label", "a,b,c", "--label-range", "0,1"],
            "no column",
        ),
        (
            ["--learner", "lipschitz", *FILE[:4], "--label-range", "0,1", "--quantile", "1"],
            "between 0 and 1",
        ),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(table, invoke, arguments, message):
    pytest.importorskip("river")
    result = invoke("run", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_comparing_bandits(table, invoke, tmp_path):
    common = ("compare", *FILE, "--epsilons", "20,50", *QUICK)
    both = invoke(*common, "--learners", "linucb,high-dimensional-bandit", "--json")
    assert both.exit_code == 0, both.stderr
    record = json.loads(both.stdout)
    assert record["comparator"]["name"] == "least-squares linear policy"
    assert {row["guarantee"]["relation"] for row in record["rows"] if row["budget"]} == {"joint"}
    for row in record["rows"]:
        for average, regret in zip(row["average_losses"], row["regrets"], strict=True):
            assert regret == pytest.approx(400 * average - record["comparator"]["total_loss"])
    assert (tmp_path / "results" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    text = invoke(*common, "--learners", "linucb", "--no-figure").stdout
    rewards = sorted(1.0 - value for value in record["rows"][0]["average_losses"])
    assert f"{sum(rewards) / 2.0:.4f}  {rewards[0]:.4f}-{rewards[1]:.4f}" in text
    assert "average reward" in text


def test_batch_baselines_have_rows_of_their_own(table, invoke):
    common = ("compare", *FILE, "--epsilons", "4", *QUICK, "--no-figure")
    text = invoke(*common, "--learners", "noisy-ftrl,phased-sgd").stdout
    online, offline = text.split("One fit to all records, offline")
    assert "noisy-ftrl" in online
    assert "phased-sgd" not in online
    assert "phased-sgd" in offline
    assert "noisy-ftrl" not in offline
    alone = invoke(*common, "--learners", "phased-sgd")
    assert "best fixed decision has average loss" in alone.stdout
    refused = invoke(*common, "--learners", "linucb,phased-sgd")
    assert refused.exit_code == 2
    assert "no stream in common" in refused.stderr
    assert "no --loss" in invoke(*common, "--learners", "linucb", "--loss", "huber").stderr
