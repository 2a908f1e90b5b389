"""What the rows of a journal hold."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from dpoco.errors import StateError
from dpoco.journal._digests import DIGEST_BYTES

__all__ = ["Chunk", "Head", "StateRow", "StreamRow"]

_FORMAT = 2
_HEAD = struct.Struct("<I16sQ16sQ16s")
_KEY = struct.Struct("<I16s")
_STATE = struct.Struct("<QI")
_COUNT = struct.Struct("<I")


@dataclass(frozen=True)
class Head:
    """The journal itself.

    Attributes
    ----------
    uid : bytes
        Identity, 16 random bytes.
    epoch : int
        How often it was opened for writing.
    writer : bytes
        The token of the last one to do so.
    sequence : int
        Transactions committed so far.
    total : bytes
        Sum over all listed rows of a digest of place and seal, modulo 2^128: none is missing,
        stale, elsewhere or too much.
    keys : mapping of int to bytes
        Fingerprints of the keys by number; the largest number is the current key.
    """

    uid: bytes
    epoch: int
    writer: bytes
    sequence: int
    total: bytes
    keys: Mapping[int, bytes]

    @property
    def key(self) -> int:
        """Number of the current key."""
        return max(self.keys)

    def to_bytes(self) -> bytes:
        """Return the row's body."""
        fixed = (_FORMAT, self.uid, self.epoch, self.writer, self.sequence, self.total)
        return _HEAD.pack(*fixed) + b"".join(_KEY.pack(*item) for item in self.keys.items())

    @classmethod
    def from_bytes(cls, body: bytes) -> Head:
        """Return what `to_bytes` was called on; `StateError` if it is not that."""
        try:
            version, uid, epoch, writer, sequence, total = _HEAD.unpack_from(body)
            keys = dict(_KEY.iter_unpack(body[_HEAD.size :]))
        except (struct.error, TypeError):
            keys = {}
        if not keys:
            raise StateError("the journal is corrupt: its head is not as it was written")
        if version != _FORMAT:
            raise StateError(f"the journal has format {version}, this library reads {_FORMAT}")
        return cls(uid, epoch, writer, sequence, total, keys)


@dataclass(frozen=True)
class StreamRow:
    """A stream: what is fixed when it is opened.

    Attributes
    ----------
    id : int
        Number of the stream, from its name.
    name : str
        Name it was opened under.
    uid : bytes
        Identity, 16 random bytes: digests of different streams have different keys.
    header : str
        What the learner is made of, JSON; the state's payload is kept apart.
    origin : str
        "" for a stream that was opened, else from where it was adopted or forked.
    kept_from : int
        First round whose release is kept.
    place : int
        How many streams were opened before.
    """

    id: int
    name: str
    uid: bytes
    header: str
    origin: str
    kept_from: int
    place: int

    def to_bytes(self, digest: bytes) -> bytes:
        """Return the row's body, which has the digest of the header in its place."""
        fields = {**vars(self), "uid": self.uid.hex(), "header": digest.hex()}
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> tuple[StreamRow, bytes]:
        """Return a row without its header, and the digest of that."""
        fields = json.loads(body)
        digest = bytes.fromhex(fields["header"])
        return cls(**{**fields, "uid": bytes.fromhex(fields["uid"]), "header": ""}), digest


@dataclass(frozen=True)
class StateRow:
    """What a stream continues from: one row, replaced in every transaction.

    Attributes
    ----------
    stream : int
        Number of the stream.
    round : int
        Rounds that are over.
    payload : bytes
        State of the compiled engine after them: secret.
    pending : bytes
        The release of the current round, if it precedes the round's record: already decided.
    """

    stream: int
    round: int
    payload: bytes
    pending: bytes

    def to_bytes(self) -> bytes:
        """Return the row's body."""
        return b"".join((_STATE.pack(self.round, len(self.pending)), self.pending, self.payload))

    @classmethod
    def from_bytes(cls, stream: int, body: bytes) -> StateRow:
        """Return the row of a body."""
        turn, length = _STATE.unpack_from(body)
        middle = _STATE.size + length
        return cls(stream, turn, body[middle:], body[_STATE.size : middle])


@dataclass(frozen=True)
class Chunk:
    """The releases of consecutive rounds that were committed together.

    Attributes
    ----------
    stream : int
        Number of the stream.
    first : int
        The first of the rounds.
    key : int
        Number of the key of `digests`.
    digests : bytes
        16 bytes a round: keyed digest of its record.
    releases : bytes
        The releases, see ``_releases``.
    """

    stream: int
    first: int
    key: int
    digests: bytes
    releases: bytes

    @property
    def count(self) -> int:
        """Number of rounds."""
        return len(self.digests) // DIGEST_BYTES

    @property
    def stop(self) -> int:
        """The first round after these."""
        return self.first + self.count

    def to_bytes(self) -> bytes:
        """Return the row's body."""
        return b"".join((_COUNT.pack(self.count), self.digests, self.releases))

    @classmethod
    def from_bytes(cls, stream: int, first: int, key: int, body: bytes) -> Chunk:
        """Return the chunk of a body."""
        middle = _COUNT.size + DIGEST_BYTES * _COUNT.unpack_from(body)[0]
        return cls(stream, first, key, body[_COUNT.size : middle], body[middle:])
