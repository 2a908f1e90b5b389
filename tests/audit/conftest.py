"""Cases shared by the audits' tests."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

for _name in ("replay_cases", "likelihood_cases"):
    _spec = importlib.util.spec_from_file_location(
        f"audit_{_name}", Path(__file__).with_name(f"{_name}.py")
    )
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[f"audit_{_name}"] = _module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # large deltas show in few runs
        _spec.loader.exec_module(_module)
