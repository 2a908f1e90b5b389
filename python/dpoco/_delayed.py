"""Learners whose feedback may arrive late, out of order, or never.

The compiled learner plays its rounds in the order of arrival; a ticket's decision is its decision
of the moment, which is released once and shown any number of times. See
``docs/privacy/delayed_feedback.md``.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar, TypeVar, cast

from dpoco._state import Stateful
from dpoco._tickets import Ticket, TicketBook
from dpoco.accounting import Guarantee
from dpoco.accounting.statement import delayed
from dpoco.errors import HorizonExceeded, RoundOrderError

__all__ = ["Delayed"]

Self = TypeVar("Self", bound="Delayed")

_OPENING = threading.Lock()  # of books: a moment


class Delayed(Stateful):
    """What `OnlineLearner` has for tickets; a learner without any pays nothing for it."""

    _book: TicketBook | None = None
    _seen: ClassVar[str] = "released decisions"  # what arrivals may depend on
    _asked: tuple[int, Any]
    _horizon: int
    _guarantee: Guarantee

    def _decision(self) -> Any:
        raise NotImplementedError

    @property
    def outstanding(self) -> tuple[int, ...]:
        """Numbers of the tickets that wait for feedback, in the order of issue."""
        return () if self._book is None else self._book.numbers

    def expire(self, ticket: Ticket | int) -> None:
        """Give up a ticket whose feedback will never come: nothing is learned from it.

        Parameters
        ----------
        ticket : Ticket or int
            A ticket of this learner, or the number of one that was lost.

        Raises
        ------
        RoundOrderError
            If it is not outstanding.
        StateError
            For a ticket of another learner, or a forged one.

        Notes
        -----
        No round is played: that a ticket expires is public, so whether it does must not depend on
        the protected record. Where it does - users who do not answer - end its round instead, with
        a record of NaNs, or `skip` of a bandit: such a round looks like any other.
        """
        self._enter_process()
        book = self._book_of(ticket)
        with book.lock:
            if not isinstance(ticket, int):
                book.check(ticket)
                ticket = ticket.number
            book.remove(ticket)

    # -- issue and arrival ------------------------------------------------------------------------

    def _enter_process(self) -> None:
        """Refuse suspended copies, forked children (whose lock may be held) and long runs."""
        self._check_active()
        self._check_alone()
        self._engine.check_process()

    def _book_of(self, ticket: Ticket | int) -> TicketBook:
        if isinstance(ticket, bool) or not isinstance(ticket, (Ticket, int)):
            raise TypeError(f"ticket must be a dpoco.Ticket; got {type(ticket).__name__}")
        if self._book is None:
            raise RoundOrderError("the learner has issued no ticket")
        return self._book

    def _open_book(self) -> TicketBook:
        """Return the book; the first ticket makes it, and changes the guarantee's conditions."""
        if self._book is not None:
            return self._book
        with _OPENING:
            if self._book is None:
                self._check_room(0)
                self._guarantee = delayed(self._guarantee, self._seen)
                self._book = TicketBook()
            return self._book

    def _check_room(self, outstanding: int) -> int:
        """Return the round, if one is left for another ticket."""
        turn: int = self._engine.round
        if turn + outstanding >= self._horizon:
            raise HorizonExceeded(
                f"the horizon of {self._horizon} rounds is used up: {turn} played, {outstanding} "
                "promised to tickets"
            )
        return turn

    def _issue(self) -> tuple[Any, Ticket]:
        """Return the engine's decision and a ticket for it."""
        self._enter_process()
        book = self._open_book()
        with book.lock:
            turn = self._check_room(len(book))
            decision = self._decision()
            return decision, book.issue(turn, decision)

    def _arrive(self, ticket: Ticket, *record: Any, person: Any = None) -> None:
        """Play a round with the record of a ticket, which is struck if that was done."""
        self._enter_process()
        book = self._book_of(ticket)
        with book.lock:
            book.check(ticket)
            turn: int = self._engine.round
            if turn >= self._horizon:
                raise HorizonExceeded(f"the horizon of {self._horizon} rounds is used up")
            over = False
            try:
                self._play_arrival(turn, ticket, record, person)
                over = True
            finally:  # an interrupt may come behind the round
                if over or self._engine.round != turn:
                    book.remove(ticket.number)

    def _play_arrival(
        self, turn: int, ticket: Ticket, record: tuple[Any, ...], person: Any
    ) -> None:
        """Play round `turn`: the record enters as if it had come at once."""
        before = self._asked
        if before[0] != turn:
            self._asked = (turn, self._decision())
        try:
            cast(Any, self).observe(*record, person=person)
        except BaseException:
            self._asked = before
            raise

    # -- state ------------------------------------------------------------------------------------

    def _is_started(self) -> bool:
        return self._book is not None or super()._is_started()

    def _header(self) -> dict[str, Any]:
        header = super()._header()
        if self._book is not None:
            header["tickets"] = self._book.to_record()
        return header

    def _to_bytes(self) -> bytes:
        if self._book is None:
            return super()._to_bytes()
        with self._book.lock:  # tickets and rounds of one moment
            return super()._to_bytes()

    @classmethod
    def _assemble(cls: type[Self], header: dict[str, Any]) -> Self:
        self = super()._assemble(header)
        if "tickets" in header:
            self._book = TicketBook.from_record(header["tickets"], getattr(self, "_arms", 0))
            self._guarantee = delayed(self._guarantee, self._seen)
        return self

    def resume(self) -> None:
        """Activate an unpickled copy, or a learner inherited through fork, in this process.

        Only one copy may ever go on: two that continue on different data publish two streams
        under one noise, which reveals their difference. Tickets outstanding come along.
        """
        if self._book is not None:
            self._book.lock = threading.RLock()  # a thread of the parent may have held the old one
        super().resume()
