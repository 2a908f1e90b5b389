"""A learner whose state is in a journal: its rows, its rounds, and the batches ahead of the disk.

Claim: nothing is handed out before the commit that makes it durable has returned, and a commit that
fails takes the learner in memory, and all that was played after it, with it.

Proof: ``docs/privacy/journal.md``.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpoco._families import Parts, continued, family_of, header_of
from dpoco._state import _REPLACED_CLAIM, FRAME_SIGNATURE, _class_of, pack, unpack
from dpoco._tickets import Ticket, TicketBook
from dpoco._validation import positive_int
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import ReplayMismatch, RoundOrderError, StateError
from dpoco.journal._keys import DIGEST_BYTES, StreamDigests
from dpoco.journal._releases import CONTEXT, Recipe, StateRow, StreamRow, decoded, encoded
from dpoco.journal._transaction import Transaction, mismatch, round_number

if TYPE_CHECKING:
    from dpoco.journal._journal import Journal
    from dpoco.journal._stream import Stream


def payload_of(learner: Any) -> bytes:
    """Return the state of the engine; framed with the tickets, once some were issued."""
    state: bytes = learner._payload()
    book = getattr(learner, "_book", None)
    return state if book is None else pack({"tickets": book.to_record()}, state)


def learner_of(header: str, payload: bytes, siblings: dict[str, Any]) -> Any:
    """Return the learner of a stored header and state.

    What follows from the header, the guarantee above all, is computed for its first learner, of
    which `siblings` keeps one.
    """
    # No state of an engine begins like this: they begin with small numbers.
    framed = payload.startswith(FRAME_SIGNATURE)
    known = None if framed else siblings.get(header)
    if known is not None:
        return continued(known, payload)
    record = json.loads(header)
    if framed:
        front, payload = unpack(payload)
        record["object"]["tickets"] = front["tickets"]
    learner = _class_of(record.get("kind"))._from_bytes(pack(record, payload))
    if "tickets" not in record["object"]:  # those are each learner's own
        siblings[header] = learner._sibling(_REPLACED_CLAIM)
    return learner


def alike(learner: Any, header: str) -> bool:
    """Return whether a learner has the arguments of a stored header.

    What calibration makes of them may differ between versions of the library: the stream keeps its
    own.
    """
    ours, theirs = json.loads(header_of(learner)), json.loads(header)
    if ours["kind"] != theirs["kind"] or ours["object"]["seeded"] != theirs["object"]["seeded"]:
        return False
    return bool(ours["object"]["arguments"] == learner._completed(theirs["object"]["arguments"]))


def pipelined(
    stream: Stream, batches: Iterable[tuple[Any, ...]], first_round: int | None, together: int
) -> Iterator[NDArray[Any]]:
    """Yield the releases of each batch once they are committed; see `Stream.process_many`."""
    together = positive_int("together", together)
    first = None if first_round is None else round_number("first_round", first_round)
    return _Line(stream, first, together).run(batches)


class _Line:
    """A pipeline: one transaction that is being played, and one that is being written."""

    def __init__(self, stream: Stream, first: int | None, together: int) -> None:
        self._stream = stream
        self._journal = stream._journal
        self._first = first
        self._together = together
        self._played = Transaction(self._journal, self)
        self._written: Transaction | None = None
        self._result: Future[None] | None = None

    def run(self, batches: Iterable[tuple[Any, ...]]) -> Iterator[NDArray[Any]]:
        journal = self._journal
        pool = ThreadPoolExecutor(1, "dpoco-journal")
        whole = False
        try:
            with journal.transaction():
                self._stream._ready()  # as the one writer, or nothing is drawn
                journal._line = self
            for batch in batches:
                self._play(batch if isinstance(batch, tuple) else (batch,))
                if len(self._played._works) >= self._together:
                    yield from self._next(pool)
            while self._written is not None or self._played._works:
                yield from self._next(pool)
            whole = True
        finally:
            self._end(pool, whole)

    def _end(self, pool: ThreadPoolExecutor, whole: bool) -> None:
        """Leave the journal to others; `whole`: everything that was played is committed."""
        journal = self._journal
        try:
            if not whole and journal._line is self:
                self._stream._drop()  # it is ahead of what is committed, or may be
        finally:
            if journal._line is self:
                journal._line = None  # from here on nothing of this pipeline begins to be written
            mine = os.getpid() == journal._owner  # a forked child has no thread to wait for
            pool.shutdown(wait=mine, cancel_futures=True)

    def _play(self, batch: tuple[Any, ...]) -> None:
        stream, played = self._stream, self._played
        self._journal._check_process()
        if self._first is not None and self._first < stream._round:
            # Rounds that were over before the pipeline began, in part at least.
            with Transaction(self._journal, self) as replay:
                work = replay.process(stream, *batch, first_round=self._first)
            played._works.append(work)
        else:
            played._open = True
            work = played.process(stream, *batch, first_round=self._first)
        if self._first is not None:
            self._first += work.offered

    def _next(self, pool: ThreadPoolExecutor) -> Iterator[NDArray[Any]]:
        """Wait for what is being written, begin to write what was played, and yield the former."""
        if self._result is not None:
            self._result.result()
        over, self._written = self._written, None
        if self._played._works:
            self._written, self._played = self._played, Transaction(self._journal, self)
            self._written._seal()
            self._result = pool.submit(self._written._write_apart)
        for work in over._works if over is not None else ():
            yield work.decisions


_SEARCHED = 1024  # rounds that are searched at once for that of a ticket


class StoredLearner:
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
