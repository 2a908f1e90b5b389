"""The script that plays new users: what it counts, and two of its walks."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

import dpoco

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import walks  # noqa: E402


def test_minutes_are_words_characters_copies_and_commands():
    report = walks.Report("a user", 5.0)
    report.read("one two\n$ dpoco run\n")
    report.type("dpoco run\n    12345678\n")
    assert (report.words, report.characters, report.copies) == (5, 9, 1)
    report.type("dpoco run")
    report.type("1234567")
    assert (report.characters, report.copies) == (17, 2)
    report.commands, report.processor_seconds = 3, 20.0
    assert report.minutes == pytest.approx(5 / 200 + 17 / 200 + (2 * 5 + 3 * 10 + 20) / 60)


def test_every_walk_reads_pages_that_are_there_and_fits_its_target():
    """The minutes without the machine's: a page that grows past its reader's patience fails."""
    assert [walk.target for walk in walks.WALKS] == [5, 15, 10, 10, 1, 5, 15]
    for walk in walks.WALKS:
        report = walks.Report(walk.name, walk.target)
        for step in walk.steps:
            if isinstance(step, walks.Read):
                report.read(step.text())
            elif isinstance(step, walks.Type):
                report.commands += 1
                report.type(f"{step.command}\n{step.program}")
                if step.useful:
                    break
        else:
            pytest.fail(f"{walk.name} has no useful result")
        assert report.minutes < walk.target, walk.name


@pytest.mark.parametrize("walk", [walks.LAWYER, walks.DASHBOARD], ids=lambda walk: walk.name)
def test_walks_reach_their_results(walk, tmp_path, monkeypatch):
    """Over a second: starts the command several times."""
    for need in ("pandas", "cryptography", "typer"):
        pytest.importorskip(need)
    monkeypatch.setenv("PYTHONPATH", str(Path(dpoco.__file__).parents[1]))
    report = walks.Player(walk, tmp_path, sys.executable).play()
    assert report.failure == ""
    assert report.result


def test_a_walk_that_fails_says_what_came(tmp_path):
    planted = walks.Type("python no.py", program="print(6 * 7)", shows="43", useful=True)
    walk = dataclasses.replace(walks.LAWYER, steps=(planted,))
    report = walks.Player(walk, tmp_path, sys.executable).play()
    assert report.failure == "python no.py: exit code 0\n42\n"
