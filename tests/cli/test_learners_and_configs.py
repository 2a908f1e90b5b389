"""`dpoco run` with every learner, configurations, and the commands compare and datasets."""

from __future__ import annotations

import contextlib
import json

import pytest

from dpoco.evaluation import RunReport

FILE = ("events.csv", "--label", "alarm", "--range", "0:10")
QUICK = ("--set", "repeats=2", "--set", "seed=5", "--set", "figure=false")


@pytest.mark.parametrize("learner", ["polyhedral-frank-wolfe", "noisy-ftrl", "ctrl", "comw"])
def test_other_learners_of_records(table, tmp_path, learner, answer):
    report = RunReport.from_dict(answer("run", *FILE, *QUICK, "--learner", learner, "--epsilon", 8))
    assert report.settings["command"]["learner"] == learner
    assert report.rounds == 400
    assert report.guarantee["epsilon"] <= 8.0
    assert report.best_fixed["average_loss"] < report.nonprivate.average_loss


def test_lines_of_progress_change_no_bit(table, invoke, report_of):
    common = ("run", *FILE, *QUICK, "--learner", "noisy-ftrl")
    plain, told = (
        invoke(*common, "--out", "a"),
        invoke(*common, "--out", "b", "--set", "progress=true"),
    )
    assert plain.stderr == ""
    lines = [line.split() for line in told.stderr.splitlines()]
    heading = " ".join(told.stderr.splitlines()[0].split())
    assert heading == "round average loss since last regret switches"
    assert [line[0] for line in lines[1:]] == ["1", "2", "4", "8", "16", "32", "64", "128", "256",
                                               "400"]  # fmt: skip
    a, b = (report_of(name) for name in "ab")
    assert a.pop("timing") != b.pop("timing")
    assert a == b
    assert float(lines[-1][1]) == pytest.approx(a["private"]["average_losses"][0], abs=1e-4)
    assert int(lines[-1][4].replace(",", "")) == a["private"]["switches"][0]


def test_any_option_of_the_constructor_reaches_the_learner(table, tmp_path, answer):
    given = ("--set", "step-size=0.25", "--set", "numerics=lattice", "--set", "batch=3")
    report = RunReport.from_dict(answer("run", *FILE, *QUICK, "--learner", "noisy-ftrl", *given))
    assert report.settings["command"]["option"] == {
        "step_size": "0.25",
        "numerics": "lattice",
        "batch": "3",
    }
    plan = report.parameters
    assert plan["tuning"]["step_size"] == 0.25
    assert plan["mechanism"]["grid"] > 0.0  # a lattice
    assert plan["mechanism"]["batch"] == 3
    # Without its usual step.
    given = ("--loss", "squared", "--range", "alarm=0:1", "--set", "statistics=quadratic")
    report = RunReport.from_dict(answer("run", *FILE, *QUICK, "--learner", "noisy-ftrl", *given))
    assert report.parameters["tuning"]["step_size"] is None


def test_a_file_on_the_command_line_wins_over_that_of_a_configuration(table, invoke, report_of):
    (table.parent / "next.csv").write_text(table.read_text())
    ranges = [word for name in ("speed", "heat", "load") for word in ("--range", f"{name}=0:10")]
    invoke("run", "events.csv", "--label", "alarm", *ranges, *QUICK)
    invoke("run", "--config", "results/report.json", "next.csv", "--range", "heat=0:20", *QUICK)
    told = report_of()["settings"]["command"]
    assert (told["data"], told["range"][-1]) == ("next.csv", "heat=0:20")
    assert report_of()["stream"]["ranges"]["heat"] == [0.0, 20.0]


def test_a_configuration_in_toml(table, tmp_path, answer):
    (tmp_path / "run.toml").write_text(
        'data = "events.csv"\nlabel = "alarm"\nrange = ["0:10"]\nlearner = "noisy-ftrl"\n'
        "epsilon = 2.5\nrepeats = 2\nseed = 5\nfigure = false\n"
    )
    record = answer("run", "--config", "run.toml", "--set", "figure=false")
    assert record["settings"]["epsilon"] == 2.5
    assert record["settings"]["command"]["range"] == ["0:10"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"epsilonn": 1}', "did you mean 'epsilon'"),
        ("a.json", "[1]", "settings as NAME = VALUE"),
        ("a.json", "{", "not a JSON file"),
        pytest.param("a.json", '{"epsilon": ' + "[" * 100_000, "not a JSON file", id="deep"),
        ("a.json", '{"epsilon": {"x": 1}}', "not a table"),
        ("a.yaml", "", ".toml or .json"),
        ("b.json", None, "no such file"),
    ],
)
def test_bad_configurations(tmp_path, monkeypatch, name, text, message, refused):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    assert message in refused("run", "--config", name)


def test_compare_is_at_equal_privacy_and_rows_stand_alone(table, invoke, tmp_path):
    common = ("compare", *FILE, "--epsilons 2,8 --set repeats=2 --set seed=1", "--json")
    record = json.loads(invoke(*common, "--learners", "noisy-ftrl,comw").stdout)
    assert record["schema"] == "dpoco.comparison/1"
    assert (tmp_path / "results" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    cells = [(r["learner"], r["budget"] and r["budget"]["epsilon"]) for r in record["rows"]]
    assert cells == [
        (learner, epsilon) for epsilon in (2.0, 8.0, None) for learner in ("noisy-ftrl", "comw")
    ]
    for row in record["rows"][:4]:
        assert row["guarantee"]["epsilon"] <= row["budget"]["epsilon"] * (1 + 1e-9)
        assert row["guarantee"]["delta"] <= row["budget"]["delta"]
        assert row["guarantee"]["change"] == "replace"
        assert row["regrets"][0] == pytest.approx(
            400 * (row["average_losses"][0] - record["comparator"]["average_loss"])
        )
    alone = json.loads(invoke(*common, "--learners", "comw", "--set", "figure=false").stdout)
    assert alone["rows"][0] == record["rows"][1]
    text = invoke(*common[:-1], "--learners", "comw", "--set", "figure=false").stdout
    assert f"{alone['rows'][0]['average_loss']:.4f}" in text


def test_datasets_are_what_loaders_return(invoke, answer):
    pytest.importorskip("river")
    from dpoco import datasets

    for facts in answer("datasets")["datasets"]:
        if not facts["installed"]:
            continue
        if facts["kind"] == "records":
            stream = datasets.load(facts["name"])
            shape, source = stream.features.shape, stream.source
            assert source.startswith(facts["source"])
            assert (facts["licence"] or "") in stream.licence
        else:
            shape = datasets.load_losses(facts["name"])[0].shape
        assert shape == (facts["rounds"], facts["columns"])
        assert facts["bytes"] > 1000
    shown = invoke("datasets", "phishing").stdout
    assert "constant" in shown
    assert "UCI Machine Learning Repository" in shown


def test_completion_completes(monkeypatch, capfd):
    from dpoco.cli import main

    monkeypatch.setenv("_DPOCO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "dpoco com")
    monkeypatch.setenv("COMP_CWORD", "1")
    with contextlib.suppress(SystemExit):
        main([])
    assert "compare" in capfd.readouterr().out
