"""Tickets: decisions whose feedback comes later, out of order, or never.

The compiled learner plays its rounds in the order of arrival. A ticket carries the learner's
current decision, which is released once and may be shown any number of times. See
``docs/privacy/delayed_feedback.md``.
"""

from __future__ import annotations

import hmac
import os
import struct
import threading
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from dpoco._validation import Fields, FloatArray, Named
from dpoco.accounting import Guarantee
from dpoco.accounting.statement import state_delayed
from dpoco.errors import HorizonExceeded, RoundOrderError, StateError
from dpoco.learning.participation import Persons
from dpoco.learning.state import Stateful

# Little-endian: signature, learner, number, round, kind of decision, due, entries of the decision
# and of the context; then these, and the tag.
_FRAME = struct.Struct("<8s16sQQBBII")
_MAGIC = b"dpocotk1"
_WORD = struct.Struct("<q")
_TAG = 16
_INDEX, _VECTOR = 0, 1

Self = TypeVar("Self", bound="Delayed")

# Held briefly while a book is opened.
_OPENING = threading.Lock()


@dataclass(frozen=True, eq=False, repr=False)
class Ticket:
    """A decision that waits for feedback; from ``decide(ticket=True)``, for ``observe``.

    An immutable value that can be pickled, stored and sent. Only the learner that issued a ticket
    accepts it, and only once. No one can forge a ticket that this learner accepts.

    Attributes
    ----------
    number : int
        Number of tickets that the learner had issued before.
    round : int
        Number of rounds that the learner had consumed, each with feedback that had arrived.
    decision : int or ndarray of shape (d,)
        The decision, read-only.
    context : ndarray of shape (d,) or None
        For bandits: the user's context, which makes a ticket as secret as the record.
    due : bool
        For bandits: whether the schedule, not the estimates, chose the arm.
    learner : bytes
        Identifier of the learner that issued it: 16 random bytes.
    """

    number: int
    round: int
    decision: int | FloatArray
    context: FloatArray | None
    due: bool
    learner: bytes
    _tag: bytes

    def _body(self) -> bytes:
        """Return the ticket's bytes without the tag."""
        if isinstance(self.decision, int):
            kind, size, shown = _INDEX, 1, _WORD.pack(self.decision)
        else:
            kind, size, shown = _VECTOR, self.decision.size, _bytes(self.decision)
        context = b"" if self.context is None else _bytes(self.context)
        place = (self.learner, self.number, self.round)
        width = len(context) // _WORD.size
        return _FRAME.pack(_MAGIC, *place, kind, self.due, size, width) + shown + context

    def to_bytes(self) -> bytes:
        """Return the ticket as 66 bytes, plus 8 for each entry of decision and context."""
        return self._body() + self._tag

    @classmethod
    def from_bytes(cls, data: bytes) -> Ticket:
        """Return the ticket written by `to_bytes`; `StateError` for anything else.

        Only redeeming it checks whether a learner issued it.
        """
        data = bytes(data)
        if len(data) < _FRAME.size + _TAG:
            raise StateError("not a ticket: too short")
        magic, learner, number, turn, kind, due, size, width = _FRAME.unpack_from(data)
        body = _FRAME.size + 8 * (size + width)
        if (
            magic != _MAGIC
            or kind not in (_INDEX, _VECTOR)
            or due not in (0, 1)
            or (kind == _INDEX and size != 1)
            or len(data) != body + _TAG
        ):
            raise StateError("not a ticket, or a corrupt one")
        decision: int | FloatArray
        if kind == _INDEX:
            decision = int(_WORD.unpack_from(data, _FRAME.size)[0])
        else:
            decision = _doubles(data, _FRAME.size, size)
        context = _doubles(data, body - 8 * width, width) if width else None
        return cls(number, turn, decision, context, bool(due), learner, data[body:])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ticket) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((self.learner, self.number))

    def __reduce__(self) -> tuple[object, ...]:
        return Ticket.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"Ticket(number={self.number}, round={self.round})"


def _bytes(values: FloatArray) -> bytes:
    """Return doubles, little-endian."""
    return values.astype("<f8", copy=False).tobytes()


def _doubles(data: bytes, start: int, count: int) -> FloatArray:
    """Return `count` doubles from byte `start` on, read-only."""
    values = np.frombuffer(data, "<f8", count, start).astype(np.float64)
    values.flags.writeable = False
    return values


class ForeignTicket(StateError):  # noqa: N818
    """A ticket that the learner did not issue, or that was changed since."""


class TicketBook:
    """The tickets of one learner: the key that authenticates them, and the outstanding ones.

    `lock` is held while a ticket is issued or redeemed. O(outstanding) memory.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        # These bytes come from the operating system, not from the learner's source, so that tickets
        # use no draw and reveal nothing of the noise's stream (docs/privacy/delayed_feedback.md,
        # "Tickets").
        self._key = os.urandom(32)
        self._learner = os.urandom(16)
        self._next = 0
        # By number: tag, and the arm that was due or -1.
        self._outstanding: dict[int, tuple[bytes, int]] = {}
        # Tickets whose record got no round; only in streams of a journal.
        self.dropped: set[int] = set()
        # By arm: outstanding pulls that were due.
        self._promised: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._outstanding)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the tickets outstanding, in the order of issue."""
        with self.lock:
            return tuple(self._outstanding)

    def count_promised(self, arms: int) -> FloatArray:
        """Return how many tickets outstanding are for pulls of each arm that were due."""
        counts = np.zeros(arms)
        for arm, count in self._promised.items():
            counts[arm] = count
        return counts

    def _enter(self, number: int, tag: bytes, due: int) -> None:
        """Add a ticket to the outstanding ones, and count the pull that it promises."""
        self._outstanding[number] = (tag, due)
        if due >= 0:
            self._promised[due] = self._promised.get(due, 0) + 1

    def _compute_tag(self, body: bytes) -> bytes:
        """Return a ticket's tag: 16 bytes that nobody can guess without the key."""
        return blake2b(body, key=self._key, digest_size=_TAG).digest()

    def issue(
        self,
        turn: int,
        decision: int | FloatArray,
        context: FloatArray | None = None,
        due: int = -1,
    ) -> Ticket:
        """Issue a ticket for a decision of round `turn`; `due` is the arm if the schedule chose it.

        Parameters
        ----------
        turn : int
            Rounds that the learner has consumed.
        decision : int or ndarray of shape (d,)
            The decision shown to the user, read-only.
        context : ndarray of shape (d,), optional
            The user's context, for bandits.
        due : int
            The arm, or -1 if the estimates chose it.

        Returns
        -------
        Ticket
            Outstanding until it is redeemed or expires.
        """
        ticket = Ticket(self._next, turn, decision, context, due >= 0, self._learner, b"")
        ticket = replace(ticket, _tag=self._compute_tag(ticket._body()))
        self._enter(self._next, ticket._tag, due)
        self._next += 1
        return ticket

    def authenticate(self, ticket: Ticket) -> None:
        """Raise unless the ticket was issued from this book and is unchanged.

        Raises
        ------
        ForeignTicket
            For a ticket of another learner, or a forged one.
        TypeError
            For an object that is no ticket.
        """
        if not isinstance(ticket, Ticket):
            raise TypeError(f"ticket must be a dpoco.Ticket; got {type(ticket).__name__}")
        if ticket.learner != self._learner:
            raise ForeignTicket("the ticket is of another learner")
        try:
            # The comparison takes constant time; otherwise its time would tell a forger how much of
            # a tag is right.
            genuine = hmac.compare_digest(self._compute_tag(ticket._body()), ticket._tag)
        except (struct.error, AttributeError, TypeError, ValueError):
            # A ticket made by hand may have fields of any type.
            genuine = False
        if not genuine:
            raise ForeignTicket("the ticket is not as it was issued")

    def waits(self, ticket: Ticket) -> bool:
        """Return whether this very ticket is outstanding."""
        known = self._outstanding.get(ticket.number)
        return known is not None and hmac.compare_digest(known[0], ticket._tag)

    def check(self, ticket: Ticket) -> None:
        """Raise unless the ticket is authentic and outstanding."""
        self.authenticate(ticket)
        if not self.waits(ticket):
            raise RoundOrderError("the ticket is not outstanding: redeemed, expired or forgotten")

    def remove(self, number: int) -> None:
        """Remove a ticket; `RoundOrderError` if it is not outstanding."""
        known = self._outstanding.pop(number, None)
        if known is None:
            raise RoundOrderError("the ticket is not outstanding: redeemed, expired or forgotten")
        # The promised pull has ended, so `due` may promise it to another ticket.
        if known[1] >= 0:
            self._promised[known[1]] -= 1

    def to_record(self) -> Fields:
        """Return the book as a dictionary for JSON; as secret as the learner's state."""
        record = {
            "key": self._key.hex(),
            "learner": self._learner.hex(),
            "next": self._next,
            "outstanding": [[n, tag.hex(), arm] for n, (tag, arm) in self._outstanding.items()],
        }
        return {**record, "dropped": sorted(self.dropped)} if self.dropped else record

    @classmethod
    def from_record(cls, record: Named, arms: int) -> TicketBook:
        """Return the book written by `to_record`; any exception means a corrupt one."""
        book = cls()
        book._key, book._learner = bytes.fromhex(record["key"]), bytes.fromhex(record["learner"])
        book._next = int(record["next"])
        for number, tag, arm in record["outstanding"]:
            book._enter(int(number), bytes.fromhex(tag), int(arm))
        book.dropped.update(map(int, record.get("dropped", ())))
        numbers = list(book._outstanding)
        sizes = {len(tag) for tag, _ in book._outstanding.values()} | {_TAG}
        if (
            (len(book._key), len(book._learner), sizes) != (32, 16, {_TAG})
            or len(numbers) != len(record["outstanding"])
            # Tickets are issued in order of their numbers, and the dictionary keeps this order.
            or numbers != sorted(numbers)
            or not 0 <= book._next < 2**64
            or (numbers and not 0 <= numbers[0] <= numbers[-1] < book._next)
            or not all(-1 <= arm < arms for _, arm in book._outstanding.values())
            or not all(0 <= n < book._next for n in book.dropped)
            # No ticket is both outstanding and dropped.
            or not book.dropped.isdisjoint(numbers)
        ):
            raise StateError("state is corrupt: impossible tickets")
        return book


class Delayed(Stateful):
    """Methods for tickets; a learner that issues none has no cost from them."""

    _book: TicketBook | None = None
    # Public data on which arrival times may depend.
    _seen: ClassVar[str] = "released decisions"
    _horizon: int
    _guarantee: Guarantee

    def _decision(self) -> Any:
        """Return the engine's decision of the current round."""
        raise NotImplementedError

    @property
    def outstanding(self) -> tuple[int, ...]:
        """Numbers of the tickets that wait for feedback, in the order in which they were issued."""
        return () if self._book is None else self._book.numbers

    def expire(self, ticket: Ticket | int) -> None:
        """Give up a ticket whose feedback will never come; the learner learns nothing from it.

        Parameters
        ----------
        ticket : Ticket or int
            A ticket of this learner, or the number of a lost ticket.

        Raises
        ------
        RoundOrderError
            If the ticket is not outstanding.
        StateError
            For a ticket of another learner, or a forged one.

        Notes
        -----
        The learner plays no round. Expiry is public, so it must not depend on the protected record.
        If it does (users who do not answer), end its round instead, with a record of NaNs or with
        `skip` of a bandit: such a round looks like any other.
        """
        self._enter_process()
        book = self._checked_book(ticket)
        with book.lock:
            if not isinstance(ticket, int):
                book.check(ticket)
                ticket = ticket.number
            book.remove(ticket)

    # -- issue and arrival ------------------------------------------------------------------------

    def _enter_process(self) -> None:
        """Raise for suspended copies, forked children (whose lock may be held) and long runs."""
        self._check_active()
        self._check_alone()
        self._engine.check_process()

    def _checked_book(self, ticket: Ticket | int) -> TicketBook:
        """Return the book; raise for an object that is no ticket, or if no ticket was issued."""
        if isinstance(ticket, bool) or not isinstance(ticket, (Ticket, int)):
            raise TypeError(f"ticket must be a dpoco.Ticket; got {type(ticket).__name__}")
        if self._book is None:
            raise RoundOrderError("the learner has issued no ticket")
        return self._book

    def _open_book(self) -> TicketBook:
        """Return the book; the first ticket makes it, and changes the guarantee's conditions."""
        if self._book is not None:
            return self._book
        # Two threads may ask for the first ticket at once. If each made a book, the tickets of one
        # would be lost.
        with _OPENING:
            if self._book is None:
                self._check_room(0)
                # Privacy holds under one more condition; the regret bound is for immediate
                # feedback.
                self._guarantee = state_delayed(self._guarantee, self._seen)
                self._book = TicketBook()
            return self._book

    def _check_room(self, outstanding: int) -> int:
        """Return the round, if one is left for another ticket."""
        turn: int = self._engine.round
        # Every outstanding ticket may come back and then needs a round.
        if turn + outstanding >= self._horizon:
            raise HorizonExceeded(
                f"the horizon of {self._horizon} rounds is used up: {turn} played, {outstanding} "
                "reserved by tickets"
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

    def _arrive(self, ticket: Ticket, *record: Any, person: Persons = None) -> None:
        """Play a round with the record of a ticket, and remove the ticket once it is played."""
        self._enter_process()
        book = self._checked_book(ticket)
        with book.lock:
            book.check(ticket)
            turn: int = self._engine.round
            if turn >= self._horizon:
                raise HorizonExceeded(f"the horizon of {self._horizon} rounds is used up")
            over = False
            try:
                self._play_arrival(turn, ticket, record, person)
                over = True
            # An interrupt may come after the round was played.
            finally:
                if over or self._engine.round != turn:
                    book.remove(ticket.number)

    def _play_arrival(
        self, turn: int, ticket: Ticket, record: tuple[Any, ...], person: Persons
    ) -> None:
        """Play round `turn`: the record enters as if it had come at once."""
        # `observe` requires a call of `decide` in this round. The round is played at the engine's
        # decision, not at the ticket's.
        before = self._asked
        if before[0] != turn:
            self._asked = (turn, self._decision())
        try:
            cast(Any, self).observe(*record, person=person)
        except BaseException:
            # The caller has not called `decide` in this round, so a later `observe` without it
            # stays an error.
            self._asked = before
            raise

    # -- state ------------------------------------------------------------------------------------

    def _is_started(self) -> bool:
        # An issued ticket has shown a decision even before a round, and a copy could redeem it a
        # second time.
        return self._book is not None or super()._is_started()

    def _header(self) -> Fields:
        header = super()._header()
        if self._book is not None:
            header["tickets"] = self._book.to_record()
        return header

    def _to_bytes(self) -> bytes:
        if self._book is None:
            return super()._to_bytes()
        # The lock keeps tickets and rounds consistent.
        with self._book.lock:
            return super()._to_bytes()

    @classmethod
    def _assemble(cls: type[Self], header: Fields) -> Self:
        self = super()._assemble(header)
        if "tickets" in header:
            self._book = TicketBook.from_record(header["tickets"], getattr(self, "_arms", 0))
            self._guarantee = state_delayed(self._guarantee, self._seen)
        return self

    def resume(self) -> None:
        """Activate an unpickled copy, or a learner inherited through fork, in this process.

        Continue only one copy. Two copies that continue on different data publish two streams with
        the same noise, which reveals their difference. The copy keeps the outstanding tickets.
        """
        if self._book is not None:
            # A thread of the parent process may have held the old lock.
            self._book.lock = threading.RLock()
        super().resume()
