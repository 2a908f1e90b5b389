"""``dpoco reproduce``: what it prints, writes and refuses."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")

from dpoco import reproduce
from dpoco.cli import main

TABLE = ("reproduce", "table-5.1", "--horizon", "1000", "--dimension", "5", "--seeds", "2")


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
    arguments = ["reproduce", "figure-5.1", "--quick", "--arms", "2", "--dimension", "10"]
    assert main([*arguments, "--horizon", "1000", "--figure", str(image)]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert "| 2 | HDB | yes |" in out
    assert image.read_text(encoding="utf-8").startswith("<?xml")
    assert main([*arguments, "--horizon", "1000", "--json"]) == 0
    assert reproduce.Figure51.from_dict(json.loads(capfd.readouterr().out)).settings["runs"] == 2
