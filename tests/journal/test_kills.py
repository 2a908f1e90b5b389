"""A service killed by the operating system, at random times, and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from crash_cases import reference

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_killed_at_random_times(tmp_path):
    expected = {(name, turn): release.hex() for (name, turn), release in reference().items()}
    command = [
        sys.executable,
        str(Path(__file__).with_name("service.py")),
        str(tmp_path / "journal.db"),
        "5",
    ]
    rng = np.random.default_rng(2)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as service:
        assert service.stdin
        assert service.stdout
        assert service.stderr
        killed, finished, longest, delivered = 0, 0, 0.05, {}
        for turn in range(30):
            service.stdin.write("go\n")
            service.stdin.flush()
            child = int(service.stderr.readline())
            start = time.monotonic()
            if turn < 29:
                time.sleep(float(rng.uniform(0.0, longest)))
                with contextlib.suppress(ProcessLookupError):  # it was faster
                    os.kill(child, signal.SIGKILL)
            for line in service.stdout:
                first, *rest = line.split()
                if first == "ended":
                    break
                round_, release = rest
                assert expected[first, int(round_)] == release
                delivered[first, int(round_)] = release
            killed += int(rest[0]) == signal.SIGKILL
            finished += int(rest[0]) == 0
            if int(rest[0]) == 0:
                longest = min(0.5, time.monotonic() - start)
            else:
                longest = min(0.5, 1.2 * longest)
        service.stdin.close()
        assert service.wait(60) == 0
    assert delivered == expected
    assert finished >= 1
    assert killed + finished == 30
    assert killed >= 5
