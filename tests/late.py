"""Modules that take long to import: imported when a test first asks for something of them."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import pytest


class Late:
    """Stand for a module, which must be installed: else the tests of the caller's are skipped."""

    def __init__(self, name: str, needs: str | None = None) -> None:
        self._name = name
        package = needs or name.partition(".")[0]
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed", allow_module_level=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # pytest looks for marks of its own
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
