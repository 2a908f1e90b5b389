"""The room's examples run as their first lines say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpoco

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_model_selection(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("river")
    try:
        dpoco.datasets.load("shuttle")
    except ImportError:
        pytest.skip("this version of river does not bundle the shuttle stream")
    figure = tmp_path / "figure.png"
    shown = run("local_model_selection.py", "--rounds", "1500", "--repeats", "1", "--output",
                str(figure))  # fmt: skip
    assert figure.stat().st_size > 10_000
    photographs, shuttle, _ = shown.strip().split("\n\n")
    for block in (photographs, shuttle):
        rows = {}
        for line in block.splitlines()[1:]:
            name, excess = line.rsplit(maxsplit=1)
            rows[name.strip()] = float(excess)
        assert len(rows) == 7
        ignored = rows["all reports ignored"]
        # Bayes pays log K at most; privacy costs something, and less than not to learn.
        assert rows["no privacy (Bayes)"] <= 2.1
        assert rows["context public, epsilon = 4"] < 0.1 * ignored
        assert rows["context public, epsilon = 1"] < 0.5 * ignored
        assert rows["context private, epsilon = 4"] > rows["context public, epsilon = 4"]
        assert rows["published algorithm, epsilon = 4"] > 0.5 * ignored


def test_client_and_server():
    lines = run("local_client_server.py", "--users", "400", "--rounds", "20").splitlines()
    device = [line for line in lines if line.startswith("device:")]
    server = [line for line in lines if line.startswith("server:")]
    assert re.search(r"\b\d\d bytes: taken", device[1])  # small
    assert "refused: duplicated" in device[2]
    assert "refused: late" in device[3]
    assert "after a restart" in device[4]
    assert "all 1 reports have been sent" in device[4]
    assert len(device) == 5  # every other report was taken
    assert "399 reports" in server[0]  # one came too late
    weights = [float(w) for w in re.findall(r"\d\.\d+", server[0])]
    assert weights.index(max(weights)) == 3
    assert "[3]" in server[1]
    assert "epsilon=4" in server[2]
