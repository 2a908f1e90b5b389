"""One process per mutant: a fork with the heavy packages loaded and the library not yet."""

from __future__ import annotations

import enum
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from types import CodeType, ModuleType

from tests.mutation.operators import mutated

__all__ = ["Verdict", "run_mutant"]

_PRELOADED = (
    "pytest", "hypothesis", "numpy", "scipy.special", "scipy.optimize", "scipy.stats", "mpmath",
    "dp_accounting", "dp_accounting.pld", "dp_accounting.rdp",
)  # fmt: skip
_PASSED, _FAILED = 0, 1


class Verdict(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


def run_mutant(module: str, index: int | None, tests: Sequence[str], limit: float) -> Verdict:
    """Run `tests` on a mutant of `module` (None: unchanged) for at most `limit` seconds."""
    for name in _PRELOADED:
        if importlib.util.find_spec(name.split(".")[0]) is not None:
            importlib.import_module(name)
    child = os.fork()
    if child == 0:
        code = _FAILED
        try:
            signal.alarm(int(limit) + 10)  # should this process be ended before its child
            code = _run_tests(module, index, tests)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            passed = os.waitstatus_to_exitcode(status) == _PASSED
            return Verdict.SURVIVED if passed else Verdict.KILLED
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Verdict.TIMEOUT


def _run_tests(module: str, index: int | None, tests: Sequence[str]) -> int:
    import pytest

    os.setsid()
    quiet = os.open(os.devnull, os.O_WRONLY)
    if not os.environ.get("DPOCO_MUTATION_SHOW"):
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
    if index is not None:
        sys.meta_path.insert(0, _Finder(module, index))
    options = ["-x", "-q", "--tb=line", "--hypothesis-seed=0", "-p", "no:cacheprovider"]
    # Hypothesis is loaded before the tests are rewritten; that costs nothing but a warning.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *tests]))


class _Finder(importlib.machinery.PathFinder):
    """Finds one module, with a mutant in it."""

    def __init__(self, module: str, index: int) -> None:
        self._module, self._index = module, index

    def find_spec(  # type: ignore[override]
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the mutated module; None for all others."""
        if name != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(name, spec.origin)
        spec.loader.index = self._index
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the mutated tree, and leaves no byte code behind."""

    index = 0

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the mutant."""
        source = self.get_source(fullname)
        assert source is not None
        return compile(mutated(source, self.index), self.path, "exec", dont_inherit=True)
