"""Where the numbers and hashes are that must not move without notice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Mutation testing writes them for its own machine, where more of them are the same to the last bit.
FOLDER = Path(os.environ.get("DPOCO_PINS", HERE))


def read(name: str) -> dict[str, Any]:
    """Return what a file of pins holds: the committed one unless the chosen folder has another."""
    own = FOLDER / f"{name}.json"
    file = own if own.exists() else HERE / own.name
    return json.loads(file.read_text()) if file.exists() else {}


def write(name: str, record: dict[str, Any]) -> None:
    """Write a file of pins."""
    (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=0) + "\n")
