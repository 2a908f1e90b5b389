"""A service killed by the operating system, at random times, and started again."""

from __future__ import annotations

import os
import signal

import pytest
from crash_cases import kills, reference

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_killed_at_random_times(tmp_path):
    expected = {(name, turn): release.hex() for (name, turn), release in reference().items()}
    ends, delivered = [], {}
    for status, lines in kills((str(tmp_path / "journal.db"), "5"), turns=30, seed=2):
        ends.append(status)
        for line in lines:
            name, turn, release = line.split()
            assert expected[name, int(turn)] == release
            delivered[name, int(turn)] = release
    assert delivered == expected
    assert ends.count(0) >= 1
    assert ends.count(0) + ends.count(signal.SIGKILL) == 30
    assert ends.count(signal.SIGKILL) >= 5
