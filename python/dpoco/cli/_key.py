"""The key of encrypted states and journals, from the command line or the environment."""

from __future__ import annotations

import os
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpoco import EncryptionKey

KEY_FILE: ContextVar[Path | None] = ContextVar("KEY_FILE", default=None)


def state_key() -> EncryptionKey | None:
    """Return the key of ``--key-file``, or else of the environment, if there is one."""
    from dpoco import EncryptionKey  # imported here, so that commands without a key start faster

    file = KEY_FILE.get()
    if file is not None:
        return EncryptionKey.from_file(file)
    return EncryptionKey.from_environment() if "DPOCO_KEY" in os.environ else None
