"""Compiled functions of ``scipy.special``, for a tenth of the time that importing it takes.

The functions of the normal law and the Gamma function are compiled into one private module of
SciPy, whose package imports much more. This file loads that module alone if it can be loaded and
gives the right values, and imports ``scipy.special`` otherwise. The functions are the same objects
in both cases, so no value depends on how they were loaded.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["special_functions"]

_PACKAGE = "scipy.special"


@cache
def special_functions() -> Any:
    """Return the module that has `ndtr`, `ndtri`, `log_ndtr`, `erfcx`, `gammaln` and `betaln`."""
    if _PACKAGE not in sys.modules and threading.active_count() == 1:
        found = _load_alone()
        if found is not None:
            return found
    return importlib.import_module(_PACKAGE)


def _load_alone() -> ModuleType | None:
    """Return the compiled module, or None where SciPy is built in another way.

    During the load an empty package replaces its parent, so no other thread may import it then.
    """
    home = importlib.util.find_spec("scipy")
    if home is None or not home.submodule_search_locations:
        return None
    empty = ModuleType(_PACKAGE)
    empty.__path__ = [str(Path(home.submodule_search_locations[0]) / "special")]
    sys.modules[_PACKAGE] = empty
    try:
        found = importlib.import_module(f"{_PACKAGE}._ufuncs")
        normal = found.ndtr(0.0) == 0.5 and found.ndtri(0.5) == 0.0 and found.erfcx(0.0) == 1.0
        known = normal and found.log_ndtr(0.0) < 0.0
        return found if known and found.gammaln(1.0) == 0.0 == found.betaln(1.0, 1.0) else None
    except (ImportError, AttributeError, TypeError):
        return None
    finally:
        del sys.modules[_PACKAGE]
