"""Which shard holds a key: fixed when the directory is made, by a keyed hash."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path

from dpoco._state import write_atomically
from dpoco.errors import StateError
from dpoco.scale._keys import Key, key_text

__all__ = ["Routing"]


class Routing:
    """The number of shards and the key of the hash, kept in the directory of the shards.

    The hash has a key so that nobody who chooses keys can choose shards. It is public otherwise.

    Parameters
    ----------
    directory : path-like
        Made if there is none.
    shards : int
        Must be what it was before.
    """

    def __init__(self, directory: str | os.PathLike[str], shards: int) -> None:
        self._directory = Path(directory).absolute()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.shards = shards
        path = self._directory / "shards.json"
        try:
            record = json.loads(path.read_text())
            salt = bytes.fromhex(record["salt"])
            known = record["shards"]
        except FileNotFoundError:
            salt, known = secrets.token_bytes(16), shards
            record = {"kind": "dpoco.shards", "salt": salt.hex(), "shards": shards}
            write_atomically(path, json.dumps(record).encode())
        except (KeyError, TypeError, ValueError):
            raise StateError("shards.json is corrupt") from None
        if known != shards:
            raise StateError(f"the directory holds {known} shards; they cannot become {shards}")
        self._salt = salt
        self._places: dict[Key, int] = {}

    def directory(self, shard: int) -> str:
        """Return the directory of a shard's journal."""
        return str(self._directory / f"shard-{shard:04d}")

    def shard(self, key: Key) -> int:
        """Return the shard of a key, from 0 on."""
        place = self._places.get(key)
        if place is None:
            text = key_text(key).encode()
            digest = hashlib.blake2b(text, key=self._salt, digest_size=8).digest()
            place = self._places[key] = int.from_bytes(digest, "little") % self.shards
        return place
