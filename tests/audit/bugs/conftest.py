"""The corpus, importable by its tests as the package ``planted_bugs``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

if "planted_bugs" not in sys.modules:
    _package = ModuleType("planted_bugs")
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules["planted_bugs"] = _package
