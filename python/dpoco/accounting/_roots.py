"""Brent's root finder of SciPy, without the optimisers that are imported with it.

The compiled function behind ``scipy.optimize.brentq`` is loaded by itself where that is possible
and finds a root that is known; ``scipy.optimize`` is imported everywhere else. Roots are the same.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

__all__ = ["find_root"]

_RELATIVE = 4.0 * 2.0**-52  # what SciPy allows


def find_root(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    xtol: float,
    rtol: float = _RELATIVE,
    maxiter: int = 100,
) -> float:
    """Return a root of a function that has other signs at both ends.

    Raises
    ------
    RuntimeError
        If it has not been found after so many steps.
    """
    compiled = _compiled_roots()
    if compiled is not None:
        return float(compiled(function, low, high, xtol, rtol, maxiter, (), False, True))
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=xtol, rtol=rtol, maxiter=maxiter))


@cache
def _compiled_roots() -> Callable[..., Any] | None:
    home = importlib.util.find_spec("scipy")
    if home is None or not home.submodule_search_locations:
        return None
    folder = Path(home.submodule_search_locations[0]) / "optimize"
    for file in (folder / f"_zeros{suffix}" for suffix in EXTENSION_SUFFIXES):
        spec = importlib.util.spec_from_file_location("_zeros", file)
        if spec is None or spec.loader is None or not file.exists():
            continue
        try:
            module: Any = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            own: Callable[..., Any] = module._brentq
            known = own(lambda x: x - 1.0, 0.0, 3.0, 1e-12, _RELATIVE, 100, (), False, True)
        except (ImportError, AttributeError, TypeError):
            return None
        return own if abs(known - 1.0) < 1e-9 else None
    return None
