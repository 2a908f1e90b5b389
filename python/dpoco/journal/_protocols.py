"""The parts of a journal that streams and transactions use, and of a transaction for streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from numpy.typing import ArrayLike

from dpoco._validation import Fields
from dpoco.journal._rows import Rows
from dpoco.learning.families import Arrays, Releases
from dpoco.learning.participation import Person, Persons
from dpoco.learning.tickets import Ticket


class Played(Protocol):
    """Rounds of one call, in a transaction."""

    @property
    def decisions(self) -> Releases:
        """Their releases, once they are committed."""


class Rounds(Protocol):
    """A transaction, as a call of a stream uses it."""

    def process(
        self, stream: Any, *batch: ArrayLike, first_round: int | None = None, person: Persons = None
    ) -> Played:
        """Play rounds."""

    def redeem(self, stream: Any, ticket: Ticket, *record: Any, person: Person = None) -> None:
        """Play the round of a ticket's record."""

    def _issue(self, stream: Any, context: ArrayLike | None) -> tuple[Any, Ticket]:
        """Return a decision and a ticket for it."""

    def _decide(self, stream: Any, context: ArrayLike | None) -> int:
        """Return a bandit's arm for a context."""

    def _observe_reward(
        self, stream: Any, record: Arrays, turn: int | None, person: Persons
    ) -> None:
        """End a bandit's round."""

    def _skip(self, stream: Any, turn: int | None, person: Persons) -> None:
        """End a bandit's round whose reward is lost."""

    def _touch(self, stream: Any) -> None:
        """Store the state of a stream, which may have changed, or is about to."""

    def _end_rounds(self, stream: Any, digests: bytes, releases: Releases, people: bytes) -> None:
        """Enter rounds that were played."""


class Home(Protocol):
    """A journal, as its streams and transactions use it."""

    _rows: Rows
    _siblings: Fields
    _recompute: bool
    _line: object | None
    _owner: int
    _shared: tuple[int, Any] | None

    def transaction(self) -> AbstractContextManager[Rounds]:
        """Return a transaction for rounds of any number of streams."""

    def _part(self) -> AbstractContextManager[Rounds]:
        """Return the transaction of one call, its own or a shared one."""

    def _guard(self, *, committed: bool = False) -> AbstractContextManager[None]:
        """Keep other threads out; `committed`: and refuse within a transaction."""

    def _check_process(self) -> None:
        """Raise `JournalFenced` in a forked child."""

    def _enter(self, line: object | None = None) -> None:
        """Take the lock and begin a transaction of the store."""

    def _leave(self, *, failed: bool) -> None:
        """End the transaction, and give the lock back."""

    def _commit(self) -> None:
        """Make everything written durable."""

    def _fork(self, parent: Any, name: str) -> Any:
        """Return a second continuation of a stream."""

    def _run_pipeline(
        self, stream: Any, batches: Iterable[Arrays], first_round: int | None, together: int
    ) -> Iterator[Releases]:
        """Play micro-batches while earlier ones are being committed."""
