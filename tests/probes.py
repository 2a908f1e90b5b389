"""Looks into the core that no user has: digits of variates, laws without noise, engines' states.

`probes` is the extension of tests/cpp/probes.cpp. The build of the package leaves it in its build
directory, by default below `build`; the variable DPOCO_PROBES names it elsewhere. It works on the
objects of the `dpoco._core` that the same compiler built.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dpoco import _core

__all__ = ["probes"]


class _Absent:
    """Skips the test that wants a probe."""

    def __getattr__(self, name: str) -> NoReturn:
        pytest.skip("no build directory has the probes of this core: it was built elsewhere")


def _find() -> Any:
    if "dpoco_probes" in sys.modules:
        return sys.modules["dpoco_probes"]
    name = f"dpoco_probes{sysconfig.get_config_var('EXT_SUFFIX')}"
    built = list((Path(__file__).parents[1] / "build").glob(f"*/{name}"))
    path = os.environ.get("DPOCO_PROBES") or max(built, key=os.path.getmtime, default=None)
    if path is None:
        return _Absent()
    spec = importlib.util.spec_from_file_location("dpoco_probes", path)
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules["dpoco_probes"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    try:
        found.complement(_core.Source(bytes(32), 0))
    except TypeError:  # another compiler's core
        return _Absent()
    return found


probes = _find()
