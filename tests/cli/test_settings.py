"""`dpoco init`, files of settings, and the short help and report of commands."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dpoco
from dpoco.cli import main
from dpoco.cli._app import app, load_command
from dpoco.cli._init import complete, describe_columns, to_toml
from dpoco.cli._plan import _PLANNED, make_command
from dpoco.cli._render import _cost, _decimal
from dpoco.cli._settings import OPTIONS, SHOWN, Asked, Settings, own_options, read_file
from dpoco.cli._tables import open_table
from dpoco.evaluation import RunReport
from dpoco.evaluation.playing import measure_classes, measure_run
from dpoco.learners import LEARNERS

LEAVES = ("init", "run", "compare", "publish", "predict", "datasets", "explain", "verify", "sign",
          "audit", "serve")  # fmt: skip


def options(command):
    return [each for each in command.params if each.param_type_name == "option"]


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_has_at_most_twenty_options(name):
    assert len(options(load_command(name))) <= 20


def test_a_plan_has_at_most_twenty_options():
    for entry in LEARNERS:
        if entry.plays in _PLANNED:
            found = options(make_command(entry))
            assert len(found) <= 20, entry.name
            assert {*own_options(entry)} <= {each.name for each in found}


@pytest.mark.parametrize("words", [(), *((name,) for name in LEAVES), ("plan", "linucb")])
def test_help_fits_eighty_columns_and_nothing_is_cut(words, monkeypatch):
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(app, [*words, "--help"]).output
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for each in re.findall(r"\S*\.\.\.\S*", text):  # of metavars and examples
        assert re.search(r"COMMAND|ARGS|FILE|A,B|E,E|NAME,NAME|ed25519|ARGUMENT|1, 2, 4", each), (
            each
        )


def test_the_help_of_all_commands_imports_no_learner_and_no_numpy():
    program = (
        "import sys\nfrom dpoco.cli import main\nmain(['--help'])\n"
        "print('numpy' in sys.modules)\n"
        "print(sorted(n for n in sys.modules if n.startswith('dpoco.') and n.count('.') == 1))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-2] == "False"
    assert found.stdout.splitlines()[-1] == "['dpoco.cli', 'dpoco.errors']"


def test_settings_come_from_a_file_then_from_set_then_from_flags(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({
        "epsilon": 2, "repeats": 3, "seed": 1, "range": {"heat": [0, 90], "door open": "0:1"},
        "missing": {"heat": "middle"}, "privacy": {"delta": 1e-7}, "option": {"batch": 4},
    }))  # fmt: skip
    asked = Asked.of(
        read_file(path), ["seed=2", "batch=5", "range=heat=0:50", "skip-lines=1"], {"epsilon": "4"}
    )
    settings = asked.settings
    assert (settings.epsilon, settings.repeats, settings.seed) == (4.0, 3, 2)
    assert settings.range == ("heat=0:90", "door open=0:1", "heat=0:50")
    assert settings.missing == ("heat=middle",)
    assert (settings.delta, settings.skip_lines) == (1e-7, 1)
    assert settings.option == {"batch": "5"}
    assert Asked.of({}, [], {"horizon": "unknown"}).settings.horizon == 10**12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilonn=1", None),  # an option of the learner, as far as one knows here
        ("epsilon", "NAME=VALUE"),
        ("epsilon=much", "epsilon must be a number; got 'much'"),
        ("figure=maybe", "figure must be true or false; got 'maybe'"),
        ("repeats=1.5", "repeats must be a whole number"),
    ],
)
def test_values_have_the_types_of_their_settings(text, message):
    if message is None:
        assert Asked.of({}, [text], {}).settings.option == {"epsilonn": "1"}
        return
    with pytest.raises(ValueError, match=re.escape(message)):
        Asked.of({}, [text], {})


def test_a_comparison_is_a_configuration(table, invoke):
    common = ("--set", "figure=false", "--json")
    given = (
        "events.csv --label alarm --range 0:10 --learners noisy-ftrl",
        "--epsilons 2 --set repeats=1 --set seed=1",
    )
    first = json.loads(invoke("compare", *given, *common).stdout)
    (table.parent / "first.json").write_text(json.dumps(first))
    again = invoke("compare", "--config", "first.json", *common).stdout
    assert json.loads(again)["rows"][0]["regrets"] == first["rows"][0]["regrets"]
    other = invoke("compare", "--config", "first.json", "--epsilons", "4", *common).stdout
    assert json.loads(other)["rows"][0]["budget"]["epsilon"] == 4.0


def test_no_heading_of_a_file_is_the_name_of_a_setting():
    assert {each.rich_help_panel.lower() for each in SHOWN.values()} & {*OPTIONS} == set()


def test_init_writes_all_settings_and_a_run_reads_them(table, invoke, report_of, refused):
    given = ("events.csv", "--label", "alarm", "--range", "0:10", "--range", "heat=0:20")
    result = invoke("init", *given, "--checkpoint state --learner noisy-ftrl --horizon 800")
    assert result.stdout == "Written: dpoco.toml. Next: dpoco run dpoco.toml\n"
    text = (table.parent / "dpoco.toml").read_text()
    for name in OPTIONS:
        assert re.search(rf"^(# )?({name} =|\[\w+\.{name}\])", text, re.MULTILINE), name
    found = read_file(table.parent / "dpoco.toml")
    assert found == {
        "data": "events.csv", "label": "alarm", "features": "speed,heat,load",
        "range": ("heat=0.0:20.0", "speed=0.0:10.0", "load=0.0:10.0"), "horizon": 800,
        "checkpoint": "state", "learner": "noisy-ftrl",
    }  # fmt: skip
    assert "dpoco.toml exists" in refused("init", *given)
    invoke("run", "dpoco.toml", "--set", "figure=false")
    assert dpoco.load(table.parent / "state").round == 400
    # The next hour, with the same file.
    (table.parent / "next.csv").write_text(table.read_text())
    hourly = ("run", "next.csv", "--config", "dpoco.toml", "--resume", "--set", "figure=false")
    invoke(*hourly)
    assert dpoco.load(table.parent / "state").round == 800
    assert report_of()["settings"]["command"]["data"] == "next.csv"
    assert "both files of settings" in refused("run", "dpoco.toml", "--config", "dpoco.toml")


def test_what_init_writes_is_what_it_was_given(tmp_path):
    given = {
        "data": 'a "b"\\c.csv', "label": "ü", "epsilon": 0.5, "range": {"x y": (0.0, 1.5)},
        "categories": ("fan=low,high",), "option": {"batch": 3}, "resume": True, "seed": 7,
        "horizon": 10**12,
    }  # fmt: skip
    (tmp_path / "a.toml").write_text(to_toml(given, "a.toml"), encoding="utf-8")
    assert 'horizon = "unknown"' in (tmp_path / "a.toml").read_text(encoding="utf-8")
    found = read_file(tmp_path / "a.toml")
    assert found.pop("range") == ("x y=0.0:1.5",)
    assert found == {name: value for name, value in given.items() if name != "range"}


def test_init_asks_on_a_terminal(tmp_path):
    rows = ["heat,fan,who,note,ms"] + ["1.5,low,a,x,9", "2.5,high,b,y,11"] * 3
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    answers = iter(["ms", "0:100", "who", "20", "nonsense", "0:90", "low,high", "-"])
    asked_for = []

    def prompt(text):
        asked_for.append(text)
        return next(answers)

    asked = Asked({"data": str(tmp_path / "t.csv")})
    found = complete(asked, open_table(asked.settings), prompt).settings
    assert (found.label, found.person, found.rounds_per_person) == ("ms", "who", 20)
    assert found.range == ("ms=0:100", "heat=0:90")
    assert found.categories == ("fan=low,high",)
    assert (found.features, found.loss) == ("heat,fan", "squared")
    assert sum("heat" in text for text in asked_for) == 2  # the first answer was no range
    columns = describe_columns(found, open_table(found))
    assert columns["range"] == {"heat": (0.0, 90.0), "ms": (0.0, 100.0)}


def test_a_bundled_stream_that_is_not_there_is_probably_another(refused):
    assert "did you mean 'phishing'?" in refused("run", "phising")


# ---- reports -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--loss", "squared", "--range", "alarm=0:1"),
        ("--learner", "sufficient-statistics", "--loss", "squared", "--range", "alarm=0:1"),
    ],
)
def test_a_report_has_twenty_lines_and_says_what_users_ask(table, invoke, more):
    common = ("run events.csv --label alarm --range 0:10", "--set repeats=2 --set figure=false")
    text = invoke(*common, *more).stdout
    lines = text.splitlines()
    assert len(lines) <= 20
    assert "-0.0000" not in text
    assert sum(line.startswith("Protected: epsilon = 1, delta = ") for line in lines) == 1
    assert any(line.startswith(("Privacy costs", "The private learner is ahead")) for line in lines)
    assert any(line.startswith("Written: results/report.json") for line in lines)
    measures = {0: ("error rate", "AUC"), 4: ("R^2",)}.get(len(more), ())
    assert all(measure in text for measure in measures)
    full = invoke(*common, *more, "--full").stdout
    assert len(full.splitlines()) > 25
    assert "Differential privacy: epsilon = 1" in full


def test_a_report_says_what_was_left_out_and_why(table, invoke):
    lines = table.read_text().splitlines()
    lines[1:41] = [re.sub(r"^[^,]*", "NA", line) for line in lines[1:41]]
    table.write_text("\n".join(lines) + "\n")
    text = invoke(
        "run events.csv --label alarm --range 0:10",
        "--horizon 300 --set repeats=1 --set figure=false",
    ).stdout
    assert "Rows left out: 100 are beyond the horizon." in text
    assert "Records that taught nothing: 40 of 300 (13.3 % missing)." in text


def test_a_negative_price_is_explained(table, answer):
    record = answer(
        "run events.csv --label alarm --range 0:10", "--set repeats=1 --set figure=false"
    )
    for price, words in ((0.1, "costs 0.1000"), (0.0, "less than 0.0001"), (-0.2, "ahead of")):
        own = record["nonprivate"]["average_losses"][0] + price
        record["private"]["average_losses"] = [own]
        text = _cost(RunReport.from_dict(record))
        assert words in text
        assert "-" not in text
    assert _decimal(-1e-9) == "0.0000"


def test_error_rate_and_auc_are_those_of_the_predictions():
    generator = np.random.default_rng(5)
    labels = (generator.uniform(size=200) < 0.4).astype(float)
    score = np.round(generator.normal(labels, 1.0), 1)  # with ties
    losses = np.log1p(np.exp(score)) - labels * score
    found = measure_classes(losses, labels)
    wrong = np.where(score == 0.0, 0.5, (score > 0.0) != (labels == 1.0))
    assert found["error_rate"] == pytest.approx(float(wrong.mean()))
    ones, others = score[labels == 1.0][:, None], score[labels == 0.0]
    pairs = (ones > others) + 0.5 * (ones == others)
    assert found["auc"] == pytest.approx(float(pairs.mean()))
    assert measure_classes(np.full(3, math.log(2.0)), np.ones(3)) == {"error_rate": 0.5}


def test_measures_are_of_known_labels_alone():
    known = np.array([True, True, False])
    losses, constant = np.array([0.1, 0.2, 9.0]), np.array([0.4, 0.6, 9.0])
    found = measure_run("SquaredLoss", losses, constant, np.zeros(3), known)
    assert found == {"r2": pytest.approx(0.7)}
    assert measure_run("HuberLoss", losses, constant, np.zeros(3), known) == {}
    assert measure_run("LogisticLoss", losses, constant, np.array([0.5, 0.0, 1.0]), known) == {}
    assert "error_rate" in measure_run(
        "LogisticLoss", losses, constant, np.array([1.0, 0.0, np.nan]), known
    )


def test_settings_are_told_but_not_where_the_report_goes():
    told = Settings(out="x", range=("a=0:1",), p=math.inf).to_report()
    assert "out" not in told
    assert (told["range"], told["p"]) == (["a=0:1"], "inf")


def test_a_run_where_the_truth_moves_takes_a_learner_that_forgets(tmp_path, invoke):
    world = dpoco.environments.DriftingRegression("turning", 3000, 3, seed=1)
    table = tmp_path / "turning.csv"
    rows = np.column_stack([world.features, world.labels])
    np.savetxt(table, rows, delimiter=",", header="a,b,c,y", comments="")
    asked = ["run", str(table), "--label", "y", "--range", "-1:1", "--range", "y=-1:1", "--loss",
             "squared", "--out", str(tmp_path / "out"), "--set", "repeats=1", "--set",
             "figure=false"]  # fmt: skip
    assert "half_life='auto'" in invoke(*asked, "--set", "drift=true").output
    assert "half_life" not in invoke(*asked, "--force").output


def test_names_with_commas_are_those_of_the_table(tmp_path, monkeypatch, invoke, report_of):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7}.0,{i % 5}.0,{'low, cold' if i % 3 else 'high'},{i % 2}" for i in range(60)]
    Path("t.csv").write_text('a,"height, cm",fan,y\n' + "\n".join(rows).replace(
        "low, cold", '"low, cold"') + "\n")  # fmt: skip
    more = ("--range", "0:7", "--set", "figure=false", "--set", "repeats=1")
    lists = ("--set", 'categories=fan="low, cold",high')
    invoke("init", "t.csv", "--label", "y", "--range", "0:7", *lists)
    names = ["a", "height, cm", "fan=low, cold", "fan=high", "constant"]
    invoke("run", "dpoco.toml", "--set", "figure=false", "--set", "repeats=1")
    assert report_of()["stream"]["feature_names"] == names
    invoke("run", "t.csv", "--label", "y", "--features", '"height, cm",a', *more)
    assert report_of()["stream"]["feature_names"] == ["height, cm", "a", "constant"]
    # A list of a TOML file, whose texts may hold commas as well.
    text = 'label = "y"\n[categories]\nfan = ["low, cold", "high"]\n'
    Path("own.toml").write_text(text)
    invoke("run", "t.csv", "--config", "own.toml", *more)
    assert report_of()["stream"]["feature_names"] == names


def test_files_of_settings_of_other_systems(table, invoke, report_of):
    text = 'data = "events.csv"\nlabel = "alarm"\nrange = ["0:10"]\nrepeats = 1\nfigure = false\n'
    table.with_name("own.toml").write_bytes(b"\xef\xbb\xbf" + text.encode())  # an editor's mark
    invoke("run", "own.toml")
    report = table.with_name("results") / "report.json"
    table.with_name("old.json").write_text(report.read_text(), encoding="utf-16")  # a shell's
    invoke("run", "--config", "old.json", "--set", "figure=false")
    assert report_of()["stream"]["feature_names"] == ["speed", "heat", "load", "constant"]


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [("utf-8-sig", "utf-8"), ("utf-16", "utf-8"), ("latin-1", "latin-1")],
)
def test_a_pipe_is_read_in_the_encoding_of_the_table(table, monkeypatch, report_of, encoding,
                                                     declared):  # fmt: skip
    data = table.read_text().replace("speed", "größe").encode(encoding)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "ascii"))
    words = ["run", "-", "--label", "alarm", "--range", "0:10", "--set", f"encoding={declared}",
             "--set", "repeats=1", "--set", "figure=false"]  # fmt: skip
    assert main(words) == 0
    assert report_of()["stream"]["feature_names"][0] == "größe"
