"""The files next to a journal: its secret keys, for digests of records and rows, and its mark.

Digests of inputs that can be guessed reveal them to a holder of the key. A key in the database
would be in every copy and backup of it. With the key in another file, no guess can be tested on a
copy of the database alone.

Claim: under a secret key, two different records of one round have the same digest with probability
at most 2^-128 for each attempt (as BLAKE2b is a pseudorandom function), digests reveal nothing
about records, and neither a row of another place or journal nor a damaged one is taken for this
one.

Every use has its own key, derived from the journal's key, the identity of the stream or
journal, and the use; the round or the row's place is a part of what is digested. Source: RFC 7693.
Proof: ``docs/privacy/journal.md``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import struct
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from dpoco import _core
from dpoco._encryption import KEY_BYTES, UnreadableError, checked_key, refuse_readable
from dpoco._files import lock, unlock, write_atomically
from dpoco._validation import FloatArray
from dpoco.errors import StateError
from dpoco.journal._releases import DIGEST_BYTES, Head

# Bytes. The format fixes this value: with another one, the same row would have another seal.
_LONG = 16384
_PLACE = struct.Struct("<QQQQQ")


def _derive(key: bytes, uid: bytes, use: bytes) -> bytes:
    """Return the key of one use: digests of two uses say nothing about each other."""
    return hashlib.blake2b(uid + use, key=key, digest_size=32, person=b"dpoco journal 2").digest()


class StreamDigests:
    """The digests of one stream's records under one key.

    Parameters
    ----------
    key : bytes
        The journal's key, 32 bytes.
    number : int
        Its number in the journal.
    uid : bytes
        Identity of the stream.
    """

    def __init__(self, key: bytes, number: int, uid: bytes) -> None:
        self.number = number
        self._records = _derive(key, uid, b"records")
        self._contexts = _derive(key, uid, b"contexts")
        # With one key for both, the record of ticket 5 and that of round 5 would have the same
        # digest.
        self._arrivals = _derive(key, uid, b"arrivals")

    def records(self, first: int, *rows: FloatArray) -> bytes:
        """Return 16 bytes for the record of each of the rounds first, first + 1, ....

        A record is a row of one array of shape (n, w), or the rows of two such arrays side by
        side.
        """
        return _core.keyed_digests(self._records, first, *rows)

    def arrival(self, ticket: int, rows: tuple[FloatArray, ...]) -> bytes:
        """Return the digest of the record that redeems a ticket: one or two arrays (1, w)."""
        return _core.keyed_digests(self._arrivals, ticket, *rows)

    def context(self, turn: int, context: FloatArray) -> bytes:
        """Return the digest of a context alone, shape (d,)."""
        return _core.keyed_digests(self._contexts, turn, context[None, :])


def with_people(rows: tuple[FloatArray, ...], people: bytes) -> tuple[FloatArray, ...]:
    """Append two doubles to each row of records: the words of its person's digest."""
    if not people:
        return rows
    # These are not numbers: `keyed_digests` reads the words in which doubles are stored.
    words = np.frombuffer(people, dtype=np.float64).reshape(-1, 2)
    return (*rows[:-1], np.hstack((rows[-1], words)))


class RowSeals:
    """The seals of a journal's rows under one key.

    Parameters
    ----------
    key : bytes
        The journal's key, 32 bytes.
    uid : bytes
        Identity of the journal.
    """

    def __init__(self, key: bytes, uid: bytes) -> None:
        self._strips = _derive(key, uid, b"strips")
        self._rows = hashlib.blake2b(key=_derive(key, uid, b"rows"), digest_size=DIGEST_BYTES)

    def seal(self, kind: int, owner: int, number: int, key: int, body: bytes) -> bytes:
        """Return the seal of a row's place, number of key and body."""
        hasher = self._rows.copy()
        hasher.update(_PLACE.pack(kind, owner, number, key, len(body)))
        if len(body) >= _LONG:
            # Digest strips side by side, which is several times as fast as one strip after
            # another.
            whole = len(body) // 256 * 256
            strips = np.frombuffer(body, dtype=np.float64, count=whole // 8).reshape(-1, 32)
            hasher.update(_core.keyed_digests(self._strips, 0, strips))
            body = body[whole:]
        hasher.update(body)
        return hasher.digest()


_KIND = "dpoco journal keys"
_ATTEMPTS, _PAUSE = 500, 0.01  # of another process's change of the file, seconds


def key_fingerprint(key: bytes) -> bytes:
    """Return what identifies a key without revealing it, 16 bytes."""
    return hashlib.blake2b(key=key, digest_size=16, person=b"dpoco key name").digest()


class KeyFile:
    """Keys in a separate file that only its owner can read; several journals may share it.

    Parameters
    ----------
    path : path-like
        The key file; links are followed. A journal that is made with it adds a fresh key of its
        own.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()  # a write would replace a link by a file

    def read(self) -> list[bytes]:
        """Return the keys, oldest first; an empty result if there is no file.

        Raises
        ------
        StateError
            If others than the owner may read or write it, or it is not a key file.
        """
        try:
            with open(self.path, "rb") as file:
                refuse_readable(self.path, os.fstat(file.fileno()))
                data = file.read()
        except FileNotFoundError:
            return []
        try:
            record = json.loads(data)
            keys = [bytes.fromhex(text) for text in record["keys"]]
            good = record["kind"] == _KIND and all(len(key) == KEY_BYTES for key in keys)
        except Exception:  # any error of odd JSON; its text must not be quoted
            good = False
        if not good:
            raise StateError("not a key file of a journal")
        return keys

    def change(self, *, add: Sequence[bytes] = (), drop: Collection[bytes] = ()) -> list[bytes]:
        """Add keys to the file, or drop some, and return all; atomic and durable.

        Parameters
        ----------
        add : sequence of bytes
            Keys of 32 bytes.
        drop : collection of bytes
            Keys to delete. All other keys stay.

        Raises
        ------
        StateError
            As for `read`, or if another process is changing the file for longer than some seconds.
        OSError
            If it cannot be written.
        """
        with self._lock():
            before = self.read()
            fresh = [checked_key(key) for key in add]
            # Start from the file as it is now, under the lock: another journal may have added or
            # dropped keys.
            keys = [key for key in dict.fromkeys((*before, *fresh)) if key not in drop]
            if keys != before:
                record = {"kind": _KIND, "keys": [key.hex() for key in keys]}
                write_atomically(self.path, json.dumps(record).encode())
        return keys

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep other processes from changing the file, by a lock on its folder.

        The file itself is replaced, so a lock on it would not hold.
        """
        if os.name != "posix":
            yield
            return
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            for attempt in range(_ATTEMPTS):
                if lock(folder):
                    break
                if attempt == _ATTEMPTS - 1:
                    raise StateError("the key file is locked by another process")
                time.sleep(_PAUSE)
            try:
                yield
            finally:
                unlock(folder)
        finally:
            os.close(folder)

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"


class KeyRing:
    """The keys of this process, found by their fingerprints.

    Parameters
    ----------
    given : bytes, sequence of bytes, or KeyFile
        The argument with which the journal was opened.
    """

    def __init__(self, given: bytes | Sequence[bytes] | KeyFile) -> None:
        self.file = given if isinstance(given, KeyFile) else None
        self._keys: dict[bytes, bytes] = {}
        if not isinstance(given, KeyFile):
            alone = isinstance(given, (bytes, bytearray))
            self._hold([checked_key(key) for key in ([given] if alone else given)])

    def _hold(self, keys: Sequence[bytes]) -> None:
        """Keep these keys and drop all others."""
        self._keys = {key_fingerprint(key): key for key in keys}

    def read(self) -> None:
        """Read the file again, if there is one."""
        if self.file is not None:
            self._hold(self.file.read())

    def first(self) -> bytes:
        """Return the key of a new journal: the last one given, or a fresh one in the file."""
        if self.file is not None:
            # Add a fresh key, never one from the file: the journal that added that one may delete
            # it.
            return self.add(secrets.token_bytes(KEY_BYTES))
        if not self._keys:
            raise ValueError("no key was given")
        return list(self._keys.values())[-1]

    def add(self, key: bytes, needed: Collection[bytes] = ()) -> bytes:
        """Add a key and return it; durable if there is a file.

        `needed`: fingerprints of keys that go back into the file if the file has lost them.
        Another journal has deleted all other missing keys.
        """
        key = checked_key(key)
        if self.file is None:
            self._hold([*self._keys.values(), key])
            return key
        if key in self.file.read():
            raise ValueError(
                "the key file already has this key, and another journal may delete it: pass another"
            )
        own = [self._keys[name] for name in needed if name in self._keys]
        self._hold(self.file.change(add=[*own, key]))
        return key

    def drop(self, fingerprints: Collection[bytes]) -> None:
        """Delete keys, also from the file."""
        gone = [key for name, key in self._keys.items() if name in fingerprints]
        held = [key for key in self._keys.values() if key not in gone]
        self._hold(held if self.file is None else self.file.change(drop=gone))

    def find(self, fingerprint: bytes) -> bytes:
        """Return the key with this fingerprint, or raise `StateError`."""
        key = self._keys.get(fingerprint)
        if key is None:
            raise UnreadableError(
                "the journal was written under a key that was not given: is its key file missing?"
            )
        return key


# The width is fixed, so each write replaces all of the last one without truncating the file.
_MARK = re.compile(rb"dpoco journal mark 1 ([0-9a-f]{32}) (\d{20}) (\d{20})\n")


def default_key(path: Path | None) -> KeyFile:
    """Return the key file of a store that is a file."""
    if path is None:
        raise ValueError("a store that is not a file needs a key: bytes or a KeyFile")
    return KeyFile(path.with_name(path.name + ".key"))


def mark_path(path: Path | None, mark: str | os.PathLike[str] | bool | None) -> Path | None:
    """Return where the mark is, if there is one; see `Journal`."""
    if mark is False or (mark is None and path is None):
        return None
    if mark is None or mark is True:
        if path is None:
            raise ValueError("a store that is not a file needs the path of its mark")
        return path.with_name(path.name + ".mark")
    return Path(mark)


class Mark:
    """A small file that counts the transactions of a journal, written after each of them.

    It never runs ahead of the journal, so a crash raises no false alarm. It is handed to the
    operating system but not waited for: a power cut may set it back by some seconds, and only
    makes it less watchful.

    Parameters
    ----------
    path : Path
        The file; best on another disk than the journal's backups cover.
    """

    def __init__(self, path: Path) -> None:
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            refuse_readable(path, os.fstat(self._handle))
        except StateError:
            self.close()
            raise

    def is_ahead(self, head: Head) -> bool:
        """Return whether the mark counts later transactions; `StateError` for another journal's."""
        data = os.pread(self._open(), 256, 0)
        if not data:
            return False
        found = _MARK.fullmatch(data)
        if found is None:
            raise StateError("the journal's mark is corrupt")
        uid, epoch, sequence = found[1].decode(), int(found[2]), int(found[3])
        if uid != head.uid.hex():
            raise StateError("the mark belongs to another journal: was this one replaced?")
        return sequence > head.sequence or epoch > head.epoch

    def check(self, head: Head) -> None:
        """Raise `StateError` if the mark is another journal's, or counts later transactions."""
        if self.is_ahead(head):
            raise StateError(
                "the journal is older than its mark: it was restored from an old copy, and rounds "
                "released since would be released again; see docs/operations.md"
            )

    def advance(self, head: Head) -> None:
        """Write how far the journal has come, unless a copy of it has come further."""
        with suppress(StateError):  # damage is overwritten
            if self.is_ahead(head):
                return
        text = f"dpoco journal mark 1 {head.uid.hex()} {head.epoch:020d} {head.sequence:020d}\n"
        os.pwrite(self._open(), text.encode(), 0)

    def _open(self) -> int:
        """Return the descriptor of the file, or raise `StateError` once it is closed."""
        if self._handle is None:
            raise StateError("the journal is closed")
        return self._handle

    def close(self) -> None:
        """Flush and close."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            try:
                # The mark waits for the disk only here; its commits do not.
                os.fsync(handle)
            finally:
                os.close(handle)
