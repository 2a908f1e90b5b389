"""The cases of C++ tests on a mutant: the tool links programs with all mutants and names them."""

from __future__ import annotations

import os
import re
import resource
import subprocess

import pytest

PROGRAMS = os.environ.get("DPOCO_MUTATION_PROGRAMS", "").split(os.pathsep)
_SECONDS = 3  # of processor time, and a case takes less than a fifth of one


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))


def ran(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *options], text=True, capture_output=True, check=True,
                          preexec_fn=limited, timeout=60)  # fmt: skip


CASES = [
    (program, re.sub(r"[,*\\]", "?", name))
    for program in filter(None, PROGRAMS)
    for name in ran(program, "--list-test-cases", "--no-version").stdout.splitlines()[1:]
    if not name.startswith(("=", "["))
]


@pytest.mark.parametrize(("program", "case"), CASES)
def test_case(program, case):
    told = ran(program, f"--test-case={case}", "--no-version", "--no-colors").stdout
    assert re.search(r"test cases: +1 \| +1 passed", told), told
