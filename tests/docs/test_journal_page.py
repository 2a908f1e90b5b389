"""The pages of the journal name what exists, and leave files to their owner."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import dpoco

PAGES = Path(__file__).parents[2] / "docs"


def test_what_the_pages_name_exists():
    text = (PAGES / "journal.md").read_text() + (PAGES / "operations.md").read_text()
    for name in re.findall(r"`journal\.([a-z_]+)", text):
        assert hasattr(dpoco.journal.Journal, name), name
    for name in re.findall(r"`stream\.([a-z_]+)", text):
        assert hasattr(dpoco.journal.Stream, name), name
    for name in re.findall(r"`(\w+(?:Error|Exceeded|Mismatch|Fenced))`", text):
        assert hasattr(dpoco, name) or name == "OSError", name


def test_the_programs_of_operations_leave_files_to_their_owner(tmp_path, monkeypatch, capsys):
    programs = re.findall(r"```python\n(.*?)```", (PAGES / "operations.md").read_text(), re.DOTALL)
    assert len(programs) == 2
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    try:
        names: dict[str, object] = {}
        for program in programs:
            exec(compile(program, "docs/operations.md", "exec"), names)
    finally:
        os.umask(before)
    assert capsys.readouterr().out == "[]\n2 rounds released\n"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {
        "releases.db",
        "releases.db.key",
        "releases.mark",
        "backup.db",
    }
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    with pytest.raises(dpoco.StateError, match="older than its mark"):
        dpoco.journal.Journal(
            "backup.db",
            key=dpoco.journal.KeyFile("releases.db.key"),
            mark="other disk/releases.mark",
        )
