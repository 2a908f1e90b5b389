"""Keyed digests: of the rounds' records, and of the rows of the journal.

Claim: under a secret key, two different records of one round have the same digest with probability
at most 2^-128 for each attempt (as BLAKE2b is a pseudorandom function), digests reveal nothing
about records, and neither a row of another place or journal nor a damaged one is taken for this
one.

Every use has a key of its own, derived from the journal's key, the identity of the stream or
journal, and the use; the round or the row's place is a part of what is digested. Source: RFC 7693.
Proof: ``docs/privacy/journal.md``.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
from numpy.typing import NDArray

from dpoco import _core

__all__ = ["DIGEST_BYTES", "RowSeals", "StreamDigests"]

DIGEST_BYTES = 16
_LONG = 16384
_PLACE = struct.Struct("<QQQQQ")


def _derived(key: bytes, uid: bytes, use: bytes) -> bytes:
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
        self._records = _derived(key, uid, b"records")
        self._contexts = _derived(key, uid, b"contexts")
        self._arrivals = _derived(key, uid, b"arrivals")

    def records(self, first: int, *rows: NDArray[np.float64]) -> bytes:
        """Return 16 bytes for each row of one (n, w), or of two such side by side.

        They are the records of the rounds first, first + 1, ....
        """
        return _core.keyed_digests(self._records, first, *rows)

    def arrival(self, ticket: int, rows: tuple[NDArray[np.float64], ...]) -> bytes:
        """Return the digest of the record, (1, w) or two such, that a ticket is redeemed with."""
        return _core.keyed_digests(self._arrivals, ticket, *rows)

    def context(self, turn: int, context: NDArray[np.float64]) -> bytes:
        """Return the digest of a context alone, shape (d,)."""
        return _core.keyed_digests(self._contexts, turn, context[None, :])


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
        self._strips = _derived(key, uid, b"strips")
        self._rows = hashlib.blake2b(key=_derived(key, uid, b"rows"), digest_size=DIGEST_BYTES)

    def seal(self, kind: int, owner: int, number: int, key: int, body: bytes) -> bytes:
        """Return the seal of a row's place, number of key and body."""
        hasher = self._rows.copy()
        hasher.update(_PLACE.pack(kind, owner, number, key, len(body)))
        if len(body) >= _LONG:
            # Strips side by side, which is several times as fast as one after another.
            whole = len(body) // 256 * 256
            strips = np.frombuffer(body, dtype=np.float64, count=whole // 8).reshape(-1, 32)
            hasher.update(_core.keyed_digests(self._strips, 0, strips))
            body = body[whole:]
        hasher.update(body)
        return hasher.digest()
