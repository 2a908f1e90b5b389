"""Where a journal keeps its rows: the interface that a database must offer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

RELEASES = 5  # the last kind: rows that are many, and are not listed


class Row(NamedTuple):
    """One row: its place, which is the primary key, and what is sealed there.

    Attributes
    ----------
    kind : int
        What it holds, 0 to 5.
    owner, number : int
        Which of them, 0 to 2^63 - 1.
    key : int
        Number of the key of `seal`.
    seal : bytes
        Keyed digest of place and body, 16 bytes.
    body : bytes
        For the journal alone to read.
    """

    kind: int
    owner: int
    number: int
    key: int
    seal: bytes
    body: bytes


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

    def begin(self) -> bool:
        """Begin a transaction that excludes other writers, or raise `StateError`.

        True if the store is made in this transaction: only then it may be empty.
        """

    def commit(self) -> None:
        """Make durable what was written since `begin`."""

    def rollback(self) -> None:
        """Forget what was written since `begin`; nothing if there was no `begin`."""

    def settle(self) -> None:
        """Return once no power cut can undo what was committed; outside of transactions."""

    def listed(self) -> list[tuple[int, int, int, bytes]]:
        """Return kind, owner, number and seal of all rows whose kind is below `RELEASES`."""

    def read(self, kind: int, owner: int, number: int) -> Row | None:
        """Return the row of a place."""

    def span(self, kind: int, owner: int, start: int, stop: int) -> list[Row]:
        """Return rows in order: those with start < number < stop, and the last one up to start."""

    def put(self, rows: Iterable[Row]) -> None:
        """Write or replace rows."""

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows; a second one at the same place must fail."""

    def drop(self, kind: int, owner: int, start: int, stop: int) -> None:
        """Remove the rows with start <= number < stop."""

    def keys_in_use(self) -> set[int]:
        """Return the numbers of keys of rows of the kind `RELEASES`."""

    def close(self) -> None:
        """Let go of the database."""
