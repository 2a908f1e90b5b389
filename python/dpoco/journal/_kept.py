"""A learner that is kept in a journal: how its state and its releases come and go."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpoco._tickets import Ticket, TicketBook
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import ReplayMismatch, RoundOrderError, StateError
from dpoco.journal._digests import DIGEST_BYTES, StreamDigests
from dpoco.journal._entry import learner_of, payload_of
from dpoco.journal._families import Parts, family_of
from dpoco.journal._records import StateRow, StreamRow
from dpoco.journal._releases import CONTEXT, Recipe, decoded, encoded
from dpoco.journal._transaction import mismatch

if TYPE_CHECKING:
    from dpoco.journal._journal import Journal

__all__ = ["KeptLearner"]

_SEARCHED = 1024  # rounds that are searched at once for that of a ticket


class KeptLearner:
    """What a stream is for its journal and its transactions; all methods run under their lock."""

    _learner: Any  # None: to be loaded from the journal

    def __init__(self, journal: Journal, row: StreamRow, learner: Any = None) -> None:
        self._journal = journal
        self._row = row
        self._learner = learner
        self._round = 0
        self._pending = b""
        self._context: Any = None
        self._under_current: StreamDigests | None = None
        if learner is None:
            self._learner = self._restored()
        self._family = family_of(self._learner)
        self._guarantee: Guarantee = self._learner.guarantee

    @property
    def _digests(self) -> StreamDigests:
        """The digests of records to come."""
        number = self._journal._rows.current
        if self._under_current is None or self._under_current.number != number:
            self._under_current = self._digests_under(number)
        return self._under_current

    def _digests_under(self, number: int) -> StreamDigests:
        known = self._under_current
        if known is not None and known.number == number:
            return known
        return StreamDigests(self._journal._rows.key(number), number, self._row.uid)

    def _ready(self) -> None:
        """Load the learner if it is not in memory."""
        if self._learner is None:
            self._learner = self._restored()

    def _restored(self) -> Any:
        """Return the learner of the stored state, checked against what was committed with it."""
        row = self._journal._rows.state(self._row.id)
        learner = learner_of(self._row.header, row.payload, self._journal._siblings)
        if learner.round != row.round:
            raise StateError("the journal is corrupt: a state of another round")
        family = family_of(learner)
        upcoming = family.upcoming(learner)
        again = b"" if upcoming is None else encoded(upcoming)
        if not family.contextual and again != row.pending:
            raise StateError(
                "the state does not give the decision that was committed with it: was the journal "
                "written by another version of the library?"
            )
        self._round, self._pending, self._context = row.round, row.pending, None
        return learner

    def _drop(self) -> None:
        self._learner = None
        self._context = None

    def _state(self) -> StateRow:
        return StateRow(self._row.id, self._round, payload_of(self._learner), self._pending)

    def _state_for_recipes(self) -> bytes | None:
        """Return the state from which the next rounds can be played again, if that is wanted."""
        if not self._journal._recompute or self._family.contextual:
            return None
        state: bytes = self._learner._engine.state()
        return state

    def _advance(self, rounds: int) -> None:
        upcoming = self._family.upcoming(self._learner)
        self._pending = b"" if upcoming is None else encoded(upcoming)
        self._context = None
        self._round += rounds

    def _check_pending(self, releases: NDArray[Any]) -> None:
        """Raise unless the first release is the one that was committed beforehand."""
        if not self._pending:
            return
        known = self._pending[CONTEXT.size :] if self._family.contextual else self._pending
        if encoded(releases[:1]) != known:
            raise StateError("the learner does not repeat the decision that is committed")

    def _check_pending_context(self, context: NDArray[np.float64]) -> None:
        if not self._pending:
            return
        key, known = CONTEXT.unpack_from(self._pending)
        digest = self._digests_under(key).context(self._round, np.ascontiguousarray(context))
        if not hmac.compare_digest(digest, known):
            raise ReplayMismatch(
                f"round {self._round} was begun with another context: a round has one user"
            )

    def _check_no_decision(self) -> None:
        if self._family.contextual and self._pending:
            raise RoundOrderError("a decision waits for its reward: observe() or skip() first")

    def _tickets(self) -> TicketBook:
        """Return the learner's book; an empty one if it has issued no ticket."""
        if self._family.answers:
            raise TypeError("mechanisms do not decide, so that they have no tickets")
        self._ready()
        book: TicketBook | None = self._learner._book
        return TicketBook() if book is None else book

    def _check_redeemed(self, ticket: Ticket, book: TicketBook, rows: Parts) -> None:
        """Raise unless a round was played for this record of a ticket, or none for any."""
        if ticket.number in book.dropped:
            return
        start, stop = max(ticket.round, self._row.kept_from), self._round
        while stop > start:  # backwards: what comes again mostly came a moment ago
            first = max(start, stop - _SEARCHED)
            for chunk in self._journal._rows.chunks(self._row.id, first, stop):
                if self._digests_under(chunk.key).arrival(ticket.number, rows) in chunk.digests:
                    return
            stop = first
        if ticket.round < start:
            raise StateError(f"rounds before {start} are not kept in the journal")
        raise ReplayMismatch(
            "the ticket is not outstanding, and no round was played for it with this record: it "
            "was redeemed with another one, or expired"
        )

    def _check_kept(self, start: int, stop: int) -> None:
        if start < self._row.kept_from and start < stop:
            raise StateError(f"rounds before {self._row.kept_from} are not kept in the journal")
        if stop > self._round:
            raise RoundOrderError(f"the stream is in round {self._round}")

    def _stored(self, start: int, stop: int) -> NDArray[Any]:
        """Return the stored releases of rounds, or raise if some are not there."""
        self._check_kept(start, stop)
        pieces = []
        for chunk in self._journal._rows.chunks(self._row.id, start, stop):
            if Recipe.of(chunk.releases) is not None:
                raise StateError(
                    f"the releases of rounds {chunk.first} to {chunk.stop - 1} are not stored: "
                    "they are computed again from their records, which process() has to be given"
                )
            part = slice(max(start, chunk.first) - chunk.first, min(stop, chunk.stop) - chunk.first)
            pieces.append(decoded(chunk.releases, chunk.count)[part])
        return _joined(pieces) if pieces else self._nothing()

    def _replayed(self, first: int, parts: Parts) -> NDArray[Any]:
        """Return the releases of rounds that are over, if these are their records."""
        last = first + int(parts[0].shape[0])
        self._check_kept(first, last)
        pieces = []
        for chunk in self._journal._rows.chunks(self._row.id, first, last):
            start, stop = max(first, chunk.first), min(last, chunk.stop)
            records = tuple(part[start - first : stop - first] for part in parts)
            recipe = Recipe.of(chunk.releases)
            within = slice(start - chunk.first, stop - chunk.first)
            stored = None if recipe is not None else decoded(chunk.releases, chunk.count)[within]
            rows = self._family.rows(records, stored)
            digests = self._digests_under(chunk.key).records(start, *rows)
            at = within.start * DIGEST_BYTES
            error = mismatch(start, digests, chunk.digests[at : at + len(digests)])
            if error is not None:
                raise error
            if recipe is not None:  # only now: other records must never meet this noise
                if start != chunk.first:
                    raise StateError(
                        f"these releases are not stored: they are computed again from round "
                        f"{chunk.first} on, so replay them from there"
                    )
                stored = self._computed_again(recipe, start, records)
            pieces.append(stored)
        return _joined(pieces)

    def _computed_again(self, recipe: Recipe, first: int, records: Parts) -> NDArray[Any]:
        learner = learner_of(self._row.header, recipe.start, self._journal._siblings)
        if learner.round != first:
            raise StateError("the journal is corrupt: a state of another round")
        releases = self._family.play(learner, records)
        if not np.array_equal(Recipe.sums_of(releases), recipe.sums[: releases.shape[0]]):
            raise StateError(
                "the records do not give the releases that they gave: was the journal written by "
                "another version of the library?"
            )
        return releases

    def _nothing(self) -> NDArray[Any]:
        """Return the releases of no rounds."""
        if self._pending and not self._family.contextual:
            return decoded(self._pending, 1)[:0]
        return np.empty((0,), dtype=np.int64)


def _joined(pieces: list[Any]) -> NDArray[Any]:
    whole: NDArray[Any] = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    whole.flags.writeable = False
    return whole
