"""Ctrl-C as in a terminal, which tests are slow, and a measure of work for any machine."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import dpoco

# A runner in the background may have Ctrl-C ignored, which is inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW = Path(__file__).with_name("slow.txt")


def pytest_addoption(parser):
    parser.addoption("--timings", help="write the processor time of every test to this file")


def pytest_configure(config):
    path = config.getoption("--timings")
    if path is not None:
        config.pluginmanager.register(Timings(Path(path).absolute()))


def pytest_collection_modifyitems(items):
    """Mark the tests that slow.txt names."""
    names = {line.split()[0] for line in SLOW.read_text().splitlines()}
    for item in items:
        if item.nodeid.partition("[")[0] in names:
            item.add_marker("slow")


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
