"""A short run of the fuzzers with a fixed seed; and that they find what is planted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpoco.learners import LEARNERS

_ROOT = Path(__file__).parents[2]


def fuzz(*arguments):
    command = [sys.executable, "-m", "tests.fuzz", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


def test_a_fixed_seed_finds_nothing():
    done = fuzz("--cases", "2", "--seed", "20")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert int(done.stdout.split()[0]) > 300
    done = fuzz("--cases", "400", "--seed", "20", "--match", "records/R")  # rounds and reports
    assert (done.returncode, int(done.stdout.split()[0])) == (0, 1200), done.stdout[-4000:]


def test_every_saved_class_is_attacked():
    code = (
        "from tests.fuzz.subjects import ONLINE, SERVERS\n"
        "print(*{o.kind.__name__ for o in ONLINE.values()}, *{n.split(',')[0] for n in SERVERS})"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=_ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(done.stdout.split()) == {
        each.class_name for each in LEARNERS if each.plays != "batch"
    }


PLANTED = """
import os, signal, sys
from tests.fuzz import records, __main__ as fuzz
def bad(rng):
    {body}
records.subjects = lambda: {{"bad": bad, "Source": records._source}}
sys.exit(fuzz.main(["--cases", "1", "--match", "records/", "--worker", sys.argv[1]]))
"""


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ("raise KeyError('it misbehaves')", 3, "it misbehaves"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -11, ""),
        ("bytearray(2**33)", 3, "MemoryError"),
    ],
)
def test_the_fuzzer_finds_what_is_planted(body, status, word, tmp_path):
    command = [sys.executable, "-c", PLANTED.format(body=body), str(tmp_path / "position")]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert word in done.stdout
    named = (tmp_path / "position").read_text().strip()
    assert named == ("records/bad/0" if status < 0 else "records/Source/0")


def test_threads():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.threads", "Hedge"],
        cwd=_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
