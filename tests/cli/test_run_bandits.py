"""`dpoco run` and `dpoco compare` with bandits."""

from __future__ import annotations

import numpy as np
import pytest

from dpoco.evaluation import RunReport

FILE = ("events.csv", "--label", "alarm", "--range", "0:10")
QUICK = ("--set", "repeats=2", "--set", "seed=5")


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


@pytest.mark.parametrize("learner", ["linucb", "high-dimensional-bandit"])
def test_classes_become_arms(table, invoke, tmp_path, learner, report_of):
    result = invoke("run", *FILE, *QUICK, "--learner", learner, "--epsilon", 50, "--full")
    report = RunReport.from_dict(report_of())
    text = result.stdout
    for expected in (
        "events.csv: 400 rounds x 4 features, 2 arms", "1 for the arm of the label's class",
        "average reward", "least-squares linear policy", "best single arm",
        "uniformly random arm", "0.5000", "reward a round", "need not be the best linear one",
    ):  # fmt: skip
        assert expected in text, expected
    assert "switches" not in text
    assert f"{1.0 - report.private.average_loss:.4f}" in text
    labels = np.loadtxt("events.csv", delimiter=",", skiprows=1, usecols=3)
    share = max(labels.mean(), 1.0 - labels.mean())
    assert report.best_constant["average_loss"] == pytest.approx(1.0 - share)
    assert (report.guarantee["change"], report.guarantee["view"]) == ("replace", "others")
    assert (tmp_path / "results" / "report.png").read_bytes().startswith(b"\x89PNG")


def test_the_label_range_names_the_classes(classes, answer):
    options = ("visits.csv", "--label", "choice", "--learner", "linucb", "--epsilon", 50)
    options += ("--range", "-1:1")
    record = answer("run", *options, *QUICK, "--range", "choice=1:3", "--set", "figure=false")
    assert record["domain"] == {"type": "policies", "arms": 3, "dimension": 3}
    counts = np.bincount(classes)[1:]
    assert record["best_constant"]["decision"] == int(np.argmax(counts))
    assert record["best_constant"]["average_loss"] == pytest.approx(1.0 - counts.max() / 600)
    assert record["summary"]["nonprivate"]["average_losses"]["median"] < 0.3
    assert record["others"][0]["average_loss"] == pytest.approx(2.0 / 3.0)


def test_options_reach_the_bandit(table, answer):
    options = (
        "--set exploration=0.7 --set feature-bound=0.9 --set batch=20 --set sum-method=tree",
    )
    record = answer("run", *FILE, *QUICK, "--learner", "linucb", *options, "--set", "figure=false")
    mechanism, tuning = (record["parameters"][part] for part in ("mechanism", "tuning"))
    summand = mechanism["summand"]
    assert (summand["features"], summand["label"]) == (0.9, 0.5)
    assert (mechanism["batch"], mechanism["factorisation"]) == (20, {"kind": "tree"})
    assert tuning["exploration"] == 0.7


def test_comparing_bandits(table, invoke, tmp_path, refused, answer):
    common = ("compare", *FILE, "--epsilons", "20,50", *QUICK)
    record = answer(*common, "--learners", "linucb,high-dimensional-bandit")
    assert record["comparator"]["name"] == "least-squares linear policy"
    assert {row["guarantee"]["view"] for row in record["rows"] if row["budget"]} == {"others"}
    for row in record["rows"]:
        for average, regret in zip(row["average_losses"], row["regrets"], strict=True):
            assert regret == pytest.approx(400 * average - record["comparator"]["total_loss"])
    assert (tmp_path / "results" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    text = invoke(*common, "--learners", "linucb", "--set", "figure=false").stdout
    rewards = sorted(1.0 - value for value in record["rows"][0]["average_losses"])
    assert f"{sum(rewards) / 2.0:.4f}  {rewards[0]:.4f}-{rewards[1]:.4f}" in text
    assert "average reward" in text
    assert "no radius" in refused(*common, "--learners", "linucb", "--set", "radius=2")
