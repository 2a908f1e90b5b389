"""The page of the bandits says what the example measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bandits.md").read_text()


def test_the_first_row_is_what_the_example_prints(tmp_path):
    figure = tmp_path / "regret.png"
    command = [
        sys.executable, str(ROOT / "examples" / "bandit_regret.py"),
        "--rows", "1", "--output", str(figure),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    head, rule, first, promise, *_ = result.stdout.splitlines()
    assert promise.startswith("protected: epsilon = 1, delta = 1e-06 for one user's record")
    assert figure.stat().st_size > 10_000
    assert head in PAGE
    assert rule in PAGE
    assert first in PAGE
    uniform, *own = (float(x) for x in first.split("|")[5:-1])
    hard, easy, free = own[:3]
    assert free < easy < hard < uniform
