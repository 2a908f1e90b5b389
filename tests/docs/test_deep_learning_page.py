"""The guide to deep learning: its programs run, in order, and print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "deep_learning.md").read_text()


def test_the_programs_of_the_guide_print_what_it_shows():
    """It trains a network for 300 steps and searches for its noise: some seconds."""
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("sklearn")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    programs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 4
    names: dict[str, object] = {}
    for number, (program, shown) in enumerate(programs):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, f"docs/deep_learning.md, program {number}", "exec"), names)
        assert printed.getvalue() == shown
    torch.set_num_threads(threads)
