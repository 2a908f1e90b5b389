"""The guide to deep learning: its programs run, in order, and print what the page shows."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "deep_learning.md").read_text()


def test_the_programs_of_the_guide_print_what_it_shows():
    """It trains networks for 300 and 128 steps and searches for their noise: some seconds."""
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("sklearn")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    programs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 6
    without_jax = importlib.util.find_spec("jax") is None
    names: dict[str, object] = {}
    for number, (program, shown) in enumerate(programs):
        if without_jax and "import jax" in program:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, f"docs/deep_learning.md, program {number}", "exec"), names)
        assert printed.getvalue() == shown
    torch.set_num_threads(threads)
    if without_jax:
        pytest.skip("JAX is missing: its program was not run, all others were")
