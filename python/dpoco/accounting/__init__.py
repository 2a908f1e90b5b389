"""Privacy accounting: parameters to guarantee, and budget to parameters.

These functions use public quantities only and draw no random numbers. There is one module per
proof; its docstring states the claim and where it is proved. Modules are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee

__all__ = ["Budget", "Guarantee", "Ledger", "explain"]

_HOMES = {"Ledger": "ledger", "explain": "explanation"}


def __getattr__(name: str) -> Any:
    home = f"{__name__}.{_HOMES.get(name, name)}"
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError as error:
        if error.name != home:
            raise
        raise AttributeError(f"module 'dpoco.accounting' has no attribute {name!r}") from None
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    import pkgutil

    return sorted({*__all__, *(each.name for each in pkgutil.iter_modules(__path__))})
