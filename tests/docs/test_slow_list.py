"""The list of slow tests names tests that exist, and says why the slowest are slow."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import slow_tests  # noqa: E402


def test_every_line_is_a_test_with_its_reason():
    rows = slow_tests.read_list(slow_tests.SLOW.read_text())
    assert list(rows) == sorted(rows)
    for test, (seconds, reason) in rows.items():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), test
        assert seconds <= slow_tests.OWES or len(reason.split()) > 2, test


def test_the_list_is_renewed_from_measurements(tmp_path):
    test = "tests/docs/test_slow_list.py::test_"
    old = f"{test}a 3.0 draws a law\n{test}b 9.0 gone\n{test}c 1.5 not measured\n"
    for name, lines in {
        "one": f"2.50 {test}a[x]\n0.10 {test}a[y]\n0.10 {test}b\n0.09 {test}d[0]\n",
        "two": f"4.00 {test}a[x]\n0.60 {test}e\n"
        + "".join(f"0.2 {test}f[{n}]\n0.008 {test}g[{n}]\n" for n in range(60)),
    }.items():
        (tmp_path / name).write_text(lines)
    found = slow_tests.read_timings([tmp_path / "one", tmp_path / "two"])
    assert slow_tests.renew(old, found) == (
        f"{test}a 2.5 draws a law\n{test}c 1.5 not measured\n{test}e 0.6\n{test}f 0.2\n"
    )
