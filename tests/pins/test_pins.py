"""The command that compares and writes pins knows every file of this folder."""

from __future__ import annotations

import json

import pytest
from tests.pins import __main__ as command
from tests.pins import files


def test_every_file_is_measured_by_one_program():
    assert {file.stem for file in files.HERE.glob("*.json")} == {*command.PINS}


def test_moved_entries_are_named_and_written_on_demand(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "PINS", {"a": lambda: {"x": {"y": 2, "z": 3}, "w": [1]}})
    files.write("a", {"x": {"y": 1, "z": 3}})
    assert command.main(["a"]) == 1
    assert capsys.readouterr().out == "a: x: y: 1 -> 2\na: w: None -> [1]\na: 2 moved\n"
    assert files.read("a") == {"x": {"y": 1, "z": 3}}
    assert command.main(["--write"]) == 0
    assert json.loads((tmp_path / "a.json").read_text()) == command.PINS["a"]()
    assert command.main([]) == 0
    with pytest.raises(SystemExit):
        command.main(["b"])
