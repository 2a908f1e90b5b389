from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("typer")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A small CSV in the working directory, which is the test's own."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(6)
    features = generator.uniform(0.0, 10.0, size=(400, 3))
    labels = (features[:, 0] > features[:, 1]).astype(int)
    path = tmp_path / "events.csv"
    lines = ["speed,heat,load,alarm"] + [
        ",".join(f"{v:.6f}" for v in row) + f",{y}" for row, y in zip(features, labels, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def invoke():
    """Run the app in this process: result with stdout, stderr and the exit code asked for.

    A text of several options is split into its words.
    """
    from dpoco.cli._app import app

    def run(*arguments, code=0):
        # The runs of a test may replace each other's reports.
        words = arguments[0].split(" ")
        for each in map(str, arguments[1:]):
            words += each.split(" ") if each.startswith("--") or " --" in each else [each]
        more = ["--force"] if words[0] in ("run", "compare") and code != 2 else []
        result = CliRunner().invoke(app, [*words, *more])
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def answer(invoke):
    """Run the app with ``--json``: the record that it prints."""
    return lambda *arguments: json.loads(invoke(*arguments, "--json").stdout)


@pytest.fixture
def refused(invoke):
    """Run the app on bad input: the one line that says what is wrong."""

    def run(*arguments):
        result = invoke(*arguments, code=2)
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    return run


@pytest.fixture
def report_of(tmp_path):
    """Read the report in a directory, by default where it goes."""
    return lambda name="results": json.loads((tmp_path / name / "report.json").read_text())
