"""Entropy by name, Ctrl-C as in a terminal, slow tests, and a measure of work for any machine."""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
import secrets
import signal
import sys
from collections import defaultdict
from pathlib import Path

# Before NumPy is imported. Every worker keeps a core busy; threads of linear algebra that wait for
# each other on busy cores take many times as long as one does alone.
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402

import dpoco  # noqa: E402

# A runner in the background may have Ctrl-C ignored, which is inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW = Path(__file__).with_name("slow.txt")


def pytest_addoption(parser):
    parser.addoption("--timings", help="write the processor time of every test to this file")


class Entropy:
    """What tests get for the system's entropy: bytes that depend on a seed and the test's name.

    A test that passes does so again, and one that fails by bad luck does so for whoever looks into
    it. Processes that a test starts afresh have real entropy.
    """

    def __init__(self, seed):
        self.seed = seed
        self.restart("collection")
        os.urandom = self.token_bytes
        secrets.token_bytes = self.token_bytes
        secrets.randbits = self.randbits

    def restart(self, name):
        self.name, self.process, self.calls = name, os.getpid(), itertools.count()

    def token_bytes(self, nbytes=None):
        process = os.getpid()
        fork = 0 if process == self.process else process  # a forked child differs from its parent
        words = f"{self.seed} {self.name} {fork} {next(self.calls)}"
        return hashlib.shake_256(words.encode()).digest(32 if nbytes is None else nbytes)

    def randbits(self, k):
        return int.from_bytes(self.token_bytes((k + 7) // 8), "big") >> (-k % 8)


ENTROPY = Entropy(os.environ.get("DPOCO_TEST_SEED", "0"))


def pytest_report_header():
    return f"entropy: DPOCO_TEST_SEED={ENTROPY.seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    ENTROPY.restart(item.nodeid)


def pytest_configure(config):
    path = config.getoption("--timings")
    if path is not None:
        config.pluginmanager.register(Timings(Path(path).absolute()))
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # xdist would send those with most tests first
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker(config.workerinput))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Refuse learners while tests are collected: calibrating them takes longer than all the rest.

    A module that needs one builds it in a fixture or in a cached function. The thousands of tests
    stay until the end, so the garbage collector need not look at them again and again.
    """
    gc.disable()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpoco.random.Source, "_claim", _refuse)
        result = yield
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000)  # the usual 700 looks through a test's objects thousands of times
    return result


def _refuse(source):
    raise AssertionError("a learner is built while tests are collected: move it into a fixture")


def pytest_collection_modifyitems(items):
    """Mark the tests that slow.txt names."""
    names = read_slow()
    for item in items:
        if item.nodeid.partition("[")[0] in names:
            item.add_marker("slow")


def read_slow():
    """Return the seconds of each slow test."""
    rows = (line.split() for line in SLOW.read_text().splitlines())
    return {row[0]: float(row[1]) for row in rows}


class Rooms(pytest.Dir):
    """The folder of all tests, collected from the middle on by some workers."""

    share = 0.0

    def collect(self):
        rooms = list(super().collect())
        first = int(self.share * len(rooms))
        return rooms[first:] + rooms[:first]


class Worker:
    """Orders of files for workers.

    Each begins to collect elsewhere, and compiles what the others then read: to rewrite the
    assertions of all files takes as long as to collect them. All run the longest files first,
    since a long one that comes last would leave other cores idle.
    """

    def __init__(self, given):
        self.share = int(given["workerid"].removeprefix("gw")) / given["workercount"] % 1.0

    @pytest.hookimpl
    def pytest_collect_directory(self, path, parent):
        if path != SLOW.parent:
            return None
        rooms = Rooms.from_parent(parent, path=path)
        rooms.share = self.share
        return rooms

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        slow, files = read_slow(), defaultdict(float)
        for item in items:
            files[item.path] += slow.get(item.nodeid.partition("[")[0], 0.01)
        items.sort(key=lambda item: (-files[item.path], item.path))


class Timings:
    """Seconds of processor time, children's included, one test a line."""

    def __init__(self, path):
        self.path = path

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = sum(os.times()[:4])
        result = yield
        with self.path.open("a") as file:
            file.write(f"{sum(os.times()[:4]) - before:.2f} {item.nodeid}\n")
        return result


@pytest.fixture
def work():
    """Return a function that calls its argument and returns (result, work).

    Work is the number of calls to the library's Python functions plus the entries of the arrays
    they return: the same on every machine.
    """
    library = str(Path(dpoco.__file__).parent)

    def measure(call):
        done = 0

        def count(frame, event, value):
            nonlocal done
            if not frame.f_code.co_filename.startswith(library):
                return
            if event == "call":
                done += 1
            elif event == "return" and isinstance(value, np.ndarray):
                done += value.size

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            result = call()
        finally:
            sys.setprofile(before)
        return result, done

    return measure
