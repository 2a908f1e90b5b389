"""One warm process that has collected the tests; a fork of it for every mutant.

Which lines a test reaches is measured once. A mutant then meets only the tests that reach it, the
cheapest first, until one fails.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

__all__ = ["Reach", "Verdict", "Warm", "collected"]

_GRACE = 10.0  # seconds of processor time beyond ten times what a test takes unchanged
_MEMORY = 8 << 30  # bytes of addresses that a mutant may have


class Verdict(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


@dataclass
class Reach:
    """What one test costs, in seconds of processor time, and the (file, line) that it reaches."""

    seconds: float
    lines: set[tuple[str, int]]


class Warm:
    """The collected tests, and what they reach."""

    def __init__(self, session: pytest.Session) -> None:
        gc.collect()
        gc.freeze()  # forks share what they do not touch
        self.items: list[pytest.Item] = session.items
        self.reach: dict[int, Reach] = {}

    def measure(self, files: set[str], seconds: float) -> None:
        """Run each test once in a fork; those that fail or take over `seconds` are left out."""
        for place in range(len(self.items)):
            found = self._forked(lambda place=place: self._traced(place, files), seconds)
            if isinstance(found, list):
                lines = {(str(file), int(line)) for file, line in found[1]}
                self.reach[place] = Reach(float(found[0]), lines)

    def judged(self, change: Callable[[], None], tests: Iterable[int]) -> tuple[Verdict, str]:
        """Return what `tests`, cheapest first, say of a change made in a fork, and the killer."""
        ordered = sorted(tests, key=lambda place: self.reach[place].seconds)
        if not ordered:
            return Verdict.SURVIVED, ""
        limit = 10.0 * max(self.reach[place].seconds for place in ordered)

        def run() -> object:
            change()
            for place in ordered:
                _limit_time(10.0 * self.reach[place].seconds + _GRACE)
                if not self._passes(place):
                    return self.items[place].nodeid
            return ""

        killer = self._forked(run, limit + _GRACE)
        if killer is None:
            return Verdict.TIMEOUT, ""
        return (Verdict.KILLED, str(killer)) if killer else (Verdict.SURVIVED, "")

    def _traced(self, place: int, files: set[str]) -> object:
        seen: set[tuple[str, int]] = set()

        def local(frame: FrameType, event: str, value: object) -> Any:
            if event == "line":
                seen.add((frame.f_code.co_filename, frame.f_lineno))
            return local

        def each(frame: FrameType, event: str, value: object) -> Any:
            return local if frame.f_code.co_filename in files else None

        if files:
            sys.settrace(each)
        begun = time.process_time()
        passed = self._passes(place)
        seconds = time.process_time() - begun
        sys.settrace(None)
        return [seconds, sorted(seen)] if passed else ""

    def _passes(self, place: int) -> bool:
        failed: list[object] = []

        class Watch:
            @staticmethod
            def pytest_runtest_logreport(report: pytest.TestReport) -> None:
                if report.failed:
                    failed.append(report)

        item = self.items[place]
        manager = item.config.pluginmanager
        manager.register(Watch, "mutation-watch")
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        manager.unregister(Watch)
        return not failed

    def _forked(self, run: Callable[[], object], seconds: float) -> object:
        """Return what `run` returns in a fork, as JSON has it; None if its time was up."""
        with tempfile.NamedTemporaryFile() as answer:
            child = os.fork()
            if child == 0:
                os.setsid()
                gc.disable()
                code = 1
                try:
                    quiet = os.open(os.devnull, os.O_RDWR)
                    for stream in (0, 1, 2):
                        os.dup2(quiet, stream)
                    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
                    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                    _limit_time(seconds)
                    signal.alarm(int(20 * seconds) + 60)  # what sleeps takes no processor time
                    Path(answer.name).write_text(json.dumps(run()))
                    code = 0
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what it started
            ended = os.waitstatus_to_exitcode(status)
            if ended in (-signal.SIGPROF, -signal.SIGALRM):
                return None
            text = Path(answer.name).read_text()
            return json.loads(text) if ended == 0 and text else f"the process ended with {ended}"


def _limit_time(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)


def collected(tests: Sequence[str], use: Callable[[Warm], None]) -> int:
    """Collect `tests` in this process, and call `use` with them; return pytest's exit code."""

    class Plugin:
        @staticmethod
        def pytest_runtestloop(session: pytest.Session) -> bool:
            if session.testsfailed:
                return False
            use(Warm(session))
            return True

    options = ["-q", "--hypothesis-seed=0", "-p", "no:cacheprovider"]
    options += ["--capture=no", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *tests], plugins=[Plugin()]))
