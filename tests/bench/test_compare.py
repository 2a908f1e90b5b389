"""The comparison runs, checks its competitors and writes its report; no figure is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_quick_run(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, str(ROOT / "bench" / "compare.py"), "--quick", "--json", str(report)]
    # To compile the competitors takes longer than all the rest: as Python they do the same.
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert "TreeFrankWolfe" in result.stdout
    rows = json.loads(report.read_text())["rows"]
    assert len(rows) > 15
    assert str(ROOT) not in report.read_text()
