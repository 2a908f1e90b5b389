"""The page of audits: its figure, its commands and its names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpoco.audit import standard_names

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "audit.md").read_text()


def test_commands_are_spelled_as_they_are():
    pytest.importorskip("typer")
    from dpoco.cli._app import load_command

    options = {text for parameter in load_command("audit").params for text in parameter.opts}
    lines = re.findall(r"^dpoco audit (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        for word in line.split():
            if word.startswith("--"):
                assert word in options
            elif not ("." in word or word.isdigit() or word in ("printed", "corrected")):
                assert word in standard_names()


def test_the_figure_exists_and_is_small():
    (name,) = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE)
    assert (ROOT / "docs" / name).stat().st_size < 200_000


def test_what_the_page_says_first_is_what_a_report_can_say():
    from dpoco.audit import AuditReport

    assert "passed" not in PAGE
    assert not hasattr(AuditReport, "passed")
