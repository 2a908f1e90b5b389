"""The room's examples run as their first lines say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


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
