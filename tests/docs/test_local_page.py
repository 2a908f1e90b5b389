"""The page of the local learners says what its commands print."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "local.md").read_text()


def test_the_first_row_of_the_measured_risks():
    row = runpy.run_path(str(ROOT / "bench" / "local_risks.py"))["row"]
    assert "python bench/local_risks.py --classes 16" in PAGE
    assert row(2, 4, 1, 16, 10_000) in PAGE


def test_the_scope_is_said_first():
    first = " ".join(PAGE.split("\n\n")[1].split())
    assert "**the server learns the context of every round: only the label is protected.**" in first


def test_all_names_of_the_room_resolve_and_load_no_heavy_package():
    program = (
        "import sys, dpoco.local as room\n"
        "from dpoco.local import *\n"
        "assert all(name in globals() for name in room.__all__)\n"
        "assert 'scipy' not in sys.modules and 'dp_accounting' not in sys.modules\n"
        "assert {'median_select', 'required_users'} <= set(room.__all__)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
