"""Keyed digests: of the rounds' records, and of the rows of the journal.

Claim: under a secret key, two different records of one round have the same digest with probability
at most 2^-128 for each attempt (as BLAKE2b is a pseudorandom function), digests reveal nothing
about records, and neither a row of another stream or round nor a damaged one is taken for this one.

Every use has a key of its own, derived from the journal's key, the identity of the stream and the
use; the round is a part of what is digested. Source: RFC 7693. Proof: ``docs/privacy/journal.md``.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.errors import StateError
from dpoco.journal._records import Chunk, StateRow

__all__ = ["DIGEST_BYTES", "StreamDigests"]

DIGEST_BYTES = 16
_LONG = 16384
_RECORDS, _CONTEXTS, _RELEASES, _ROWS = b"records", b"contexts", b"releases", b"rows"
_ARRIVALS = b"arrivals"


class StreamDigests:
    """The digests of one stream under one key.

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
        self._keys = {
            use: hashlib.blake2b(
                uid + use, key=key, digest_size=32, person=b"dpoco journal 1"
            ).digest()
            for use in (_RECORDS, _CONTEXTS, _ARRIVALS, _RELEASES, _ROWS)
        }

    def records(self, first: int, *rows: NDArray[np.float64]) -> bytes:
        """Return 16 bytes for each row of one (n, w), or of two such side by side.

        They are the records of the rounds first, first + 1, ....
        """
        return _core.keyed_digests(self._keys[_RECORDS], first, *rows)

    def arrival(self, ticket: int, rows: tuple[NDArray[np.float64], ...]) -> bytes:
        """Return the digest of the record, (1, w) or two such, that a ticket is redeemed with."""
        return _core.keyed_digests(self._keys[_ARRIVALS], ticket, *rows)

    def context(self, turn: int, context: NDArray[np.float64]) -> bytes:
        """Return the digest of a context alone, shape (d,)."""
        return _core.keyed_digests(self._keys[_CONTEXTS], turn, context[None, :])

    def _seal(self, *parts: bytes) -> bytes:
        hasher = hashlib.blake2b(key=self._keys[_ROWS], digest_size=DIGEST_BYTES)
        for part in parts:
            hasher.update(struct.pack("<Q", len(part)))
            hasher.update(part)
        return hasher.digest()

    def sealed_state(self, stream: int, turn: int, payload: bytes, pending: bytes) -> StateRow:
        """Return the row of a state."""
        seal = self._seal(b"state", struct.pack("<Q", turn), payload, pending)
        return StateRow(stream, turn, payload, pending, self.number, seal)

    def sealed_chunk(self, stream: int, first: int, digests: bytes, releases: bytes) -> Chunk:
        """Return the row of the releases of consecutive rounds."""
        count = len(digests) // DIGEST_BYTES
        seal = self._chunk_seal(first, digests, releases)
        return Chunk(stream, first, count, self.number, digests, releases, seal)

    def _chunk_seal(self, first: int, digests: bytes, releases: bytes) -> bytes:
        # Long releases in strips side by side, which is several times as fast as one after another.
        whole = len(releases) // 256 * 256 if len(releases) >= _LONG else 0
        strips = np.frombuffer(releases[:whole], dtype=np.float64).reshape(-1, 32)
        strips_digests = _core.keyed_digests(self._keys[_RELEASES], first, strips)
        turn = struct.pack("<Q", first)
        return self._seal(b"releases", turn, digests, strips_digests, releases[whole:])

    def check_state(self, row: StateRow) -> None:
        """Raise `StateError` unless the row is as it was written, for this stream."""
        if self.sealed_state(row.stream, row.round, row.payload, row.pending) != row:
            raise StateError("the journal is corrupt: a state is not as it was written")

    def check_chunk(self, chunk: Chunk) -> None:
        """Raise `StateError` unless the row is as it was written, for this stream."""
        if self.sealed_chunk(chunk.stream, chunk.first, chunk.digests, chunk.releases) != chunk:
            raise StateError("the journal is corrupt: releases are not as they were written")
