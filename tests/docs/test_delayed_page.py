"""The guide to delayed feedback: its programs run, in order, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dpoco

PAGE = (Path(__file__).parents[2] / "docs" / "delayed.md").read_text()


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_the_programs_of_the_guide_run(capsys):
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 4
    names: dict[str, object] = {}
    for number, program in enumerate(programs):
        exec(compile(program, f"docs/delayed.md, program {number}", "exec"), names)
    first, second, *rows = capsys.readouterr().out.splitlines()
    assert first == "1 () Ticket(number=1, round=0)"
    assert second == "18 3"  # 17 of the queue and the one before it; the rest waits
    soon, late = ([int(word) for word in row.split()] for row in rows)
    assert soon[:2] == [0, 1]
    assert late[:2] == [100, 101]
    assert soon[2] < late[2]


def test_what_the_page_names_exists():
    for name in re.findall(r"`(\w+(?:Error|Exceeded))`", PAGE):
        assert hasattr(dpoco, name), name
    for name in ("decide", "observe", "expire", "outstanding", "guarantee"):
        assert f"{name}" in PAGE
        assert hasattr(dpoco.bandits.LinUCB, name)
