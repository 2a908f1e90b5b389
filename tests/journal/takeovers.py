"""Writers that are overtaken, or killed, at any system call while keys are rotated.

An old writer plays, forgets and rotates; before or after one of its calls of the system or the
database it is stopped (SIGSTOP). A new writer takes over, plays and rotates, and the old one wakes
up. Where the old one holds the database's lock, it is killed instead (SIGKILL), as are others at
random. Then the journal must open, repeat every release that is kept, and go on as if nothing had
happened.

Usage: python tests/journal/takeovers.py [--count N] [--seed N]
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))

from tests.journal.journal_cases import ROUNDS, QuickStore, cases

import dpoco
from dpoco.journal import Journal, SqliteStore

CASE = cases()[-3]  # a running sum: cheap


@cache
def expected():
    """Return the releases of an uninterrupted run."""
    return CASE.reference()


FENCED = (dpoco.JournalFenced, dpoco.StateError, dpoco.RoundOrderError)


def opened(home, timeout=5.0):
    return Journal(QuickStore(home / "journal.db", timeout=timeout))


def played(stream, stop):
    first = stream.kept_from
    if stop == first:
        return
    releases = stream.process(*CASE.part(first, stop), first_round=first)
    np.testing.assert_array_equal(releases, expected()[first:stop])


def template(home):
    """A journal with rounds under three keys, of which the next rotation needs two."""
    home.mkdir()
    with opened(home) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        for stop in (3, 6, 8):
            played(stream, stop)
            if stop < 8:
                journal.rotate_key()
        journal.forget("a", 3)


def old_writer(home):
    with opened(home) as journal:
        stream = journal.open("a")
        played(stream, 10)
        journal.rotate_key()
        played(stream, 12)
        journal.forget("a", 6)
        journal.rotate_key()
        played(stream, 14)


def new_writer(home, rng, timeout):
    journal = opened(home, timeout)
    try:
        stream = journal.open("a")
        for _ in range(rng.integers(1, 3)):
            journal.rotate_key()
            played(stream, min(ROUNDS, stream.round + 2))
            if rng.integers(2):
                journal.forget("a", stream.round - 2)
    except BaseException:
        journal.close()
        raise
    return journal


def check(home):
    with opened(home) as journal:
        stream = journal.open("a")
        played(stream, stream.round)
        played(stream, ROUNDS)
        journal.rotate_key()
    with opened(home) as journal:
        played(journal.open("a"), ROUNDS)


def watched(step):
    """Return a profiler that calls `step` before and after every call of system or database.

    It says whether a transaction is open.
    """
    begin, ends = SqliteStore.begin.__code__, (SqliteStore.commit, SqliteStore.rollback)
    end = {method.__code__ for method in ends}
    inside = False

    def profile(frame, event, function):
        nonlocal inside
        if event in ("c_call", "c_return"):
            owner = type(getattr(function, "__self__", None)).__module__
            if function.__module__ in ("posix", "fcntl") or owner in ("sqlite3", "_io"):
                step(inside)
        elif event == "call" and frame.f_code is begin:
            inside = True
        elif event == "return" and frame.f_code in end:
            inside = False

    return profile


def forked(home, place, sent):
    """Run the old writer in a child that sends itself a signal at its step `place`."""
    child = os.fork()
    if child:
        return child
    code, steps = 1, itertools.count()

    def step(inside):
        if next(steps) == place:
            os.kill(os.getpid(), sent)

    try:
        sys.setprofile(watched(step))
        old_writer(home)
        code = 0
    except FENCED:
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.setprofile(None)
        os._exit(code)


def steps_of_the_old_writer(home):
    """Return for each of its steps whether it is within a transaction."""
    steps = []
    sys.setprofile(watched(steps.append))
    try:
        old_writer(home)
    finally:
        sys.setprofile(None)
    return np.array(steps)


def takeover(home, place, kill, rng):
    """Return what became of the old writer: "overtaken", "killed" or "finished"."""
    child = forked(home, place, signal.SIGKILL if kill else signal.SIGSTOP)
    _, status = os.waitpid(child, os.WUNTRACED)
    stopped, outcome = os.WIFSTOPPED(status), "killed"
    journal = None
    if stopped:
        try:
            journal = new_writer(home, rng, timeout=0.01)
            outcome = "overtaken"
        except dpoco.StateError as error:  # it holds the lock: of the database, or of the keys
            if "locked" not in str(error):
                raise
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            stopped = False
    elif os.WIFEXITED(status):
        assert status == 0
        outcome = "finished"
    if stopped and rng.integers(2):
        journal.close()
    if stopped:
        os.kill(child, signal.SIGCONT)
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status), "the old writer broke"
        assert os.WEXITSTATUS(status) == 0, "the old writer broke"
    if journal is None:
        new_writer(home, rng, timeout=5.0).close()
    else:
        journal.close()
    check(home)
    return outcome


def run(home, count, seed):
    """Overtake `count` writers; return how many met which end, or raise for the first loss."""
    rng = np.random.default_rng(seed)
    template(home / "template")
    shutil.copytree(home / "template", home / "whole")
    steps = steps_of_the_old_writer(home / "whole")
    outside = np.flatnonzero(~steps)
    ends = Counter()
    while ends["overtaken"] < count:
        place = home / "copy"
        shutil.copytree(home / "template", place)
        anywhere = rng.integers(4) == 0
        step = rng.integers(steps.size) if anywhere else rng.choice(outside)
        ends[takeover(place, int(step), bool(rng.integers(8) == 0), rng)] += 1
        shutil.rmtree(place)
    return ends


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(dict(run(Path(folder), options.count, options.seed)))
