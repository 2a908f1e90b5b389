"""One warm process that has collected the tests; a fork of it for every mutant.

Which places a test reaches is measured once. A mutant then meets only the tests that reach it, the
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
from types import CodeType, FrameType
from typing import Any, Protocol

import pytest

__all__ = ["Lines", "Reach", "Verdict", "Warm", "Watch", "collected", "forked"]

_GRACE = 1.5  # seconds of processor time beyond ten times what a test takes unchanged
_MEMORY = 4 << 30  # bytes of addresses that a mutant may have


class Verdict(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


@dataclass
class Reach:
    """What one test costs, in seconds of processor time, and the (file, place) that it reaches."""

    seconds: float
    places: set[tuple[str, int]]


class Watch(Protocol):
    """What tells the places that are reached between `begin` and `end`."""

    def begin(self) -> None:
        """Begin to listen."""

    def end(self) -> set[tuple[str, int]]:
        """Return what was reached since."""


class Lines:
    """Reached lines of some files."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        self._seen: set[tuple[str, int]] = set()
        self._left: dict[CodeType, set[tuple[str, int]]] = {}  # unseen

    def begin(self) -> None:
        """Begin to listen."""
        self._seen, self._left = set(), {}
        sys.settrace(self._called)

    def end(self) -> set[tuple[str, int]]:
        """Return what was reached since."""
        sys.settrace(None)
        return self._seen

    def _called(self, frame: FrameType, event: str, value: object) -> Any:
        code = frame.f_code
        if code.co_filename not in self._files:
            return None
        if code not in self._left:
            lines = {(code.co_filename, line) for _, _, line in code.co_lines() if line}
            self._left[code] = lines - {(code.co_filename, code.co_firstlineno)}
        return self._reached if self._left[code] else None

    def _reached(self, frame: FrameType, event: str, value: object) -> Any:
        if event == "line":
            line = (frame.f_code.co_filename, frame.f_lineno)
            self._seen.add(line)
            self._left[frame.f_code].discard(line)
        return self._reached


class Warm:
    """The collected tests, and what they reach."""

    def __init__(self, items: list[pytest.Item]) -> None:
        gc.collect()
        gc.freeze()  # forks share what they do not touch
        self.items = items
        self.reach: dict[int, Reach] = {}

    def measure(self, watch: Watch, seconds: float) -> None:
        """Run each test once in a fork; those that fail or take over `seconds` are left out."""
        for test in range(len(self.items)):
            found = forked(lambda test=test: self._watched(test, watch), seconds)
            if isinstance(found, list):
                places = {(str(file), int(place)) for file, place in found[1]}
                self.reach[test] = Reach(float(found[0]), places)

    def judged(self, change: Callable[[], None], tests: Iterable[int]) -> tuple[Verdict, str]:
        """Return what `tests`, cheapest first, say of a change made in a fork, and the killer."""
        ordered = sorted(tests, key=lambda test: self.reach[test].seconds)
        if not ordered:
            return Verdict.SURVIVED, ""
        limit = 10.0 * max(self.reach[test].seconds for test in ordered)

        def run() -> object:
            change()
            for test in ordered:
                _limit_time(10.0 * self.reach[test].seconds + _GRACE)
                if not self._passes(test):
                    return self.items[test].nodeid
            return ""

        killer = forked(run, limit + _GRACE)
        if killer is None:
            return Verdict.TIMEOUT, ""
        return (Verdict.KILLED, str(killer)) if killer else (Verdict.SURVIVED, "")

    def _watched(self, test: int, watch: Watch) -> object:
        watch.begin()
        begun = _spent()
        passed = self._passes(test)
        seconds = _spent() - begun
        places = watch.end()
        return [seconds, sorted(places)] if passed else ""

    def _passes(self, test: int) -> bool:
        failed: list[object] = []

        class Listener:
            @staticmethod
            def pytest_runtest_logreport(report: pytest.TestReport) -> None:
                if report.failed:
                    failed.append(report)

        item = self.items[test]
        manager = item.config.pluginmanager
        manager.register(Listener, "mutation-listener")
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        manager.unregister(Listener)
        return not failed


def forked(run: Callable[[], object], seconds: float) -> object:
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
                signal.alarm(int(100 * seconds) + 600)  # what sleeps takes no processor time
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


def _spent() -> float:
    """Return the processor time of this process and of those that it started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _limit_time(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)


def collected(tests: Sequence[str], slow: bool, use: Callable[[Warm], None]) -> int:
    """Collect `tests` in this process, and call `use` with them; return pytest's exit code.

    Slow ones only if asked for, or if their file is named.
    """

    class Plugin:
        @staticmethod
        def pytest_runtestloop(session: pytest.Session) -> bool:
            if session.testsfailed:
                return False
            named = [item for item in session.items if slow or item.nodeid.split("::")[0] in tests
                     or item.get_closest_marker("slow") is None]  # fmt: skip
            use(Warm(named))
            return True

    options = ["-q", "--hypothesis-seed=0", "-p", "no:cacheprovider"]
    options += ["-p", "no:faulthandler", "--capture=no"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *tests], plugins=[Plugin()]))
