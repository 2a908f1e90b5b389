"""Compiled functions of ``scipy.special``, for a tenth of the time that importing it takes.

Normal laws and Gamma functions are compiled into one private module of SciPy, whose package imports
much more. The module is loaded by itself where that is possible and gives the values that it
should; ``scipy.special`` is imported everywhere else. The functions are the same objects, so that
no value depends on the way.
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

    While it is loaded, an empty package replaces its parent: no other thread may import it then.
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
