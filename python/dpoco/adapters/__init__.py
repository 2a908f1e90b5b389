"""Private learners with the interfaces of river and scikit-learn, and private training.

`river` and `sklearn` need the extra ``adapters``, `torch` the extra ``torch``, `gradients` none.
``docs/adapters.md`` says what the guarantee covers here, and what the surrounding library may still
leak.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["gradients", "river", "sklearn", "torch"]


def __getattr__(name: str) -> Any:
    """Import the adapters on first use: most need their own library."""
    if name in __all__:
        return importlib.import_module(f"dpoco.adapters.{name}")
    raise AttributeError(f"module 'dpoco.adapters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
