"""Ctrl-C as in a terminal, and a measure of work that no busy machine can change."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import dpoco

# A runner in the background may have Ctrl-C ignored, which is inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
