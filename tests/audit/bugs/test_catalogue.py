"""Planted bugs: the catalogue is right about who notices them, complete, and as in its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.audit.bugs import catalogue, kit

from dpoco.audit import __all__ as audits

HERE = Path(__file__).parent
PAGE = (HERE / "README.md").read_text()


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("bug", catalogue.BUGS, ids=lambda bug: bug.name)
def test_its_checks_notice_it_and_nothing_else(bug):
    assert bug.checks
    assert kit.silent(bug) == {check.__name__: True for check in bug.checks}
    assert kit.noticed(bug) == {check.__name__: True for check in bug.checks}


def test_the_page_tells_of_every_bug_in_order():
    rows = re.findall(r"^\| ([^|]+) \| .+\. \| .+ \| ([\w, ]+) \|$", PAGE, re.MULTILINE)
    checks = [", ".join(check.__name__ for check in bug.checks) for bug in catalogue.BUGS]
    assert rows == [(bug.name, own) for bug, own in zip(catalogue.BUGS, checks, strict=True)]
    families = re.findall(r"^\| \*\*(.+)\*\* \|", PAGE, re.MULTILINE)
    assert families == list(catalogue.FAMILIES)


def test_every_bug_is_told_apart():
    names = [bug.name for bug in catalogue.BUGS]
    assert len(set(names)) == len(names) >= 45
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name) for name in names)
    assert all(callable(bug.correct) and callable(bug.plant) for bug in catalogue.BUGS)


def test_every_check_is_explained():
    used = {check.__name__ for bug in catalogue.BUGS for check in bug.checks}
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert used == told
    assert {"replay_audit", "likelihood_audit", "black_box_audit"} <= set(audits)
    assert {"replay", "likelihood", "black_box"} <= used


def test_everything_printed_that_breaks_privacy_is_planted():
    errata = (HERE.parents[2] / "docs" / "errata.md").read_text()
    broken = re.findall(r"^\| \*\*breaks\*\* \| (?!the printed mechanism)", errata, re.MULTILINE)
    printed = [bug for bug in catalogue.BUGS if bug.name.startswith("printed-")]
    private = [bug for bug in printed if [c.__name__ for c in bug.checks] != ["utility"]]
    assert len(private) == len(broken)
