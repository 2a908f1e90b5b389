"""The secret keys of a journal's digests: a file beside it, or the caller's bytes.

Digests of inputs that can be guessed reveal them to whoever holds the key. Kept in the database,
the key would be in every copy and backup of it; kept beside, a copy of the database alone tests no
guess.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpoco._state import write_atomically
from dpoco.errors import StateError

__all__ = ["KeyFile", "KeyRing", "fingerprint_of"]

_KIND = "dpoco journal keys"
KEY_BYTES = 32


def fingerprint_of(key: bytes) -> bytes:
    """Return what identifies a key without revealing it, 16 bytes."""
    return hashlib.blake2b(key=key, digest_size=16, person=b"dpoco key name").digest()


def _checked(key: Any) -> bytes:
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(f"a key must be bytes; got {type(key).__name__}")
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key must have {KEY_BYTES} bytes; got {len(key)}")
    return bytes(key)


class KeyFile:
    """Keys in a file of their own, readable by its owner only.

    Parameters
    ----------
    path : path-like
        The file; made with a fresh key by the journal that is first opened with it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> list[bytes]:
        """Return the keys, oldest first; none if there is no file.

        Raises
        ------
        StateError
            If others than the owner may read it, or it is no key file.
        """
        try:
            with open(self.path, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                data = file.read()
        except FileNotFoundError:
            return []
        if os.name == "posix" and mode & 0o077:
            raise StateError("the key file may be read by others than its owner: chmod 600")
        try:
            record = json.loads(data)
            keys = [bytes.fromhex(text) for text in record["keys"]]
            good = record["kind"] == _KIND and all(len(key) == KEY_BYTES for key in keys)
        except Exception:  # whatever odd JSON makes of it; its text must not be quoted
            good = False
        if not good:
            raise StateError("not a key file of a journal")
        return keys

    def write(self, keys: Sequence[bytes]) -> None:
        """Replace the keys, atomically and durably."""
        record = {"kind": _KIND, "keys": [key.hex() for key in keys]}
        write_atomically(self.path, json.dumps(record).encode())

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"


class KeyRing:
    """The keys at hand, found by their fingerprints.

    Parameters
    ----------
    given : bytes, sequence of bytes, or KeyFile
        What the journal was opened with.
    """

    def __init__(self, given: bytes | Sequence[bytes] | KeyFile) -> None:
        self.file = given if isinstance(given, KeyFile) else None
        if isinstance(given, KeyFile):
            keys = given.read()
        elif isinstance(given, (bytes, bytearray)):
            keys = [_checked(given)]
        else:
            keys = [_checked(key) for key in given]
        self._keys = {fingerprint_of(key): key for key in keys}

    def newest(self) -> bytes:
        """Return the last key given; a file without any gets a fresh one first."""
        if not self._keys:
            if self.file is None:
                raise ValueError("no key was given")
            self.add(secrets.token_bytes(KEY_BYTES))
        return list(self._keys.values())[-1]

    def add(self, key: bytes) -> None:
        """Add a key, durably if there is a file."""
        key = _checked(key)
        keys = {**self._keys, fingerprint_of(key): key}
        if self.file is not None:
            self.file.write(list(keys.values()))
        self._keys = keys

    def keep(self, fingerprints: set[bytes]) -> None:
        """Forget all other keys, also in the file."""
        keys = {name: key for name, key in self._keys.items() if name in fingerprints}
        if self.file is not None and keys != self._keys:
            self.file.write(list(keys.values()))
        self._keys = keys

    def find(self, fingerprint: bytes) -> bytes | None:
        """Return the key with this fingerprint; None if it is not at hand."""
        return self._keys.get(fingerprint)
