"""``python -m bench.reproduce``: what it prints, writes and refuses."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")

from bench import reproduce
from bench.reproduce.__main__ import main

TABLE = ("table-5.1", "--horizon", "1000", "--dimension", "5", "--seeds", "2")


def test_table_as_text_with_a_figure(capfd, tmp_path):
    pytest.importorskip("matplotlib")
    image = tmp_path / "table.png"
    assert main([*TABLE, "--learning-runs", "0", "--p", "inf", "--figure", str(image)]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert "| inf | 5 | 1000 |" in out
    assert "not private" not in out.splitlines()[0]
    assert out.rstrip().splitlines()[-1].startswith("Cells in which tight with the paper's tree")
    assert image.stat().st_size > 10_000


def test_table_as_json(capfd):
    assert main([*TABLE, "--quick", "--json", "--target", "gaussian"]) == 0
    result = reproduce.Table51.from_dict(json.loads(capfd.readouterr().out))
    assert result.settings["target"] == "gaussian"
    assert len(result.rows) == 2
    assert result.learning == ()


def test_figure_quick(capfd, tmp_path):
    pytest.importorskip("matplotlib")
    image = tmp_path / "figure.svg"
    arguments = ["figure-5.1", "--quick", "--arms", "2", "--dimension", "10"]
    assert main([*arguments, "--horizon", "1000", "--figure", str(image)]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert "| 2 | HDB | yes |" in out
    assert image.read_text(encoding="utf-8").startswith("<?xml")
    assert main([*arguments, "--horizon", "1000", "--json"]) == 0
    assert reproduce.Figure51.from_dict(json.loads(capfd.readouterr().out)).settings["runs"] == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("table-5.1 --horizon 1500", "horizon must be among"),
        ("table-5.1 --horizon ten", "--horizon must be whole numbers"),
        ("table-5.1 --horizon 1000.5", "--horizon must be whole numbers"),
        ("table-5.1 --p 2", "p must be among"),
        ("table-5.1 --seeds 1", "seeds must be in"),
        ("table-5.1 --target x", "target must be one of"),
        ("table-5.1 --dimension 7", "dimension must be among"),
        ("table-5.1 --seed -1", "first_seed must be in"),
        ("table-5.1 --learning-runs 1", "learning_runs"),
        ("table-5.1 --baseline-seconds 0", "baseline_seconds"),
        ("table-5.1 --figure no/such/dir.png", "no such directory"),
        ("table-5.1 --figure table.txt", ".png, .svg or .pdf"),
        ("figure-5.1 --arms 1", "arms must be in"),
        ("figure-5.1 --arms x", "--arms must be whole numbers"),
        ("figure-5.1 --epsilon 0", "epsilon"),
        ("figure-5.1 --horizon 50", "horizon must be in"),
        ("figure-5.1 --dimension 4", "dimension must be in"),
        ("figure-5.1 --runs 1", "runs must be in"),
        ("figure-5.1 --seed -1", "first_seed must be in"),
    ],
)
def test_bad_input_ends_in_one_line(command, message, capfd):
    assert main(command.split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_json_names_its_schema(capfd):
    small = ("--quick", "--seeds", "2", "--dimension", "5", "--p", "1.5", "--json")
    assert main(["table-5.1", *small]) == 0
    assert json.loads(capfd.readouterr().out)["schema"] == "dpoco.table-5.1/1"
    assert main(["figure-5.1", "--quick", "--horizon", "300", "--arms", "2", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["schema"] == "dpoco.figure-5.1/1"
