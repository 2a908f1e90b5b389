"""The rows of a journal, as every store keeps them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Chunk", "Head", "StateRow", "StreamRow"]


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
    """

    uid: bytes
    epoch: int
    writer: bytes
    sequence: int


@dataclass(frozen=True)
class StreamRow:
    """A stream: what is fixed when it is opened.

    Attributes
    ----------
    id : int
        Number of the stream; 0 before the store has given one.
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
    """

    id: int
    name: str
    uid: bytes
    header: str
    origin: str
    kept_from: int


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
    key : int
        Number of the key of `seal`.
    seal : bytes
        Keyed digest of the row.
    """

    stream: int
    round: int
    payload: bytes
    pending: bytes
    key: int
    seal: bytes


@dataclass(frozen=True)
class Chunk:
    """The releases of consecutive rounds that were committed together.

    Attributes
    ----------
    stream : int
        Number of the stream.
    first, count : int
        The rounds first, ..., first + count - 1.
    key : int
        Number of the key of digests and `seal`.
    digests : bytes
        16 bytes a round: keyed digest of its record.
    releases : bytes
        The releases, see ``_releases``.
    seal : bytes
        Keyed digest of the row.
    """

    stream: int
    first: int
    count: int
    key: int
    digests: bytes
    releases: bytes
    seal: bytes

    @property
    def stop(self) -> int:
        """The first round after these."""
        return self.first + self.count
