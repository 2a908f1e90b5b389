"""Where a journal keeps its rows: the interface that a database must offer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from dpoco.journal._records import Chunk, Head, StateRow, StreamRow

__all__ = ["Store"]


@runtime_checkable
class Store(Protocol):
    """Rows behind transactions that are durable, and exclude each other, from `begin` on.

    A store must keep these promises, on which the proof in ``docs/privacy/journal.md`` rests:

    * between `begin` and `commit` or `rollback` no other connection writes or begins;
    * what was written before `commit` returned survives crashes and power cuts, all of it;
    * what was written without a `commit` that returned is there wholly or not at all.

    Reads outside of a transaction see the last commit. Methods are called by one thread at a time.
    """

    @property
    def path(self) -> Path | None:
        """File of the store, beside which the key and the mark are kept; None if it is none."""

    def check(self) -> None:
        """Raise `JournalFenced` or `StateError` unless this still is the store that was opened."""

    def begin(self) -> None:
        """Begin a transaction that excludes other writers, or raise `StateError`."""

    def commit(self) -> None:
        """Make durable what was written since `begin`."""

    def rollback(self) -> None:
        """Forget what was written since `begin`; nothing if there was no `begin`."""

    def head(self) -> Head | None:
        """Return the row of the journal itself; None if there is none yet."""

    def put_head(self, head: Head) -> None:
        """Write or replace it."""

    def value(self, name: str) -> str | None:
        """Return the text stored under a name."""

    def put_value(self, name: str, text: str) -> None:
        """Write or replace it."""

    def keys(self) -> dict[int, bytes]:
        """Return the fingerprints of the keys by number; the largest number is the current key."""

    def add_key(self, number: int, fingerprint: bytes) -> None:
        """Add a key."""

    def drop_key(self, number: int) -> None:
        """Remove a key."""

    def keys_in_use(self) -> set[int]:
        """Return the numbers of keys of stored states and releases."""

    def names(self) -> list[str]:
        """Return the names of all streams, in the order of their opening."""

    def stream(self, name: str) -> StreamRow | None:
        """Return the stream of that name."""

    def add_stream(self, row: StreamRow) -> int:
        """Add a stream (whatever its `id`) and return its number."""

    def put_kept_from(self, stream: int, kept_from: int) -> None:
        """Replace the first round kept of a stream."""

    def state(self, stream: int) -> StateRow | None:
        """Return the state of a stream."""

    def put_states(self, rows: Iterable[StateRow]) -> None:
        """Write or replace states."""

    def chunks(self, stream: int, start: int, stop: int) -> list[Chunk]:
        """Return the chunks that hold any of the rounds start, ..., stop - 1, in order."""

    def add_chunks(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks; a second one with the same first round must fail."""

    def drop_chunks(self, stream: int, start: int, stop: int) -> None:
        """Remove the chunks whose first round is one of start, ..., stop - 1."""

    def close(self) -> None:
        """Let go of the database."""
