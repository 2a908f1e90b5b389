"""One commit for the rounds of any number of streams, and a pipeline that plays ahead of it.

Only this module plays engines. Claim: the journal hands out nothing before the commit that makes
it durable has returned. If a commit fails, the journal drops the learner in memory and everything
that was played after that commit.

Proof: ``docs/privacy/journal.md``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpoco._validation import float_array, positive_int
from dpoco.errors import RoundOrderError, StateError
from dpoco.journal._keys import with_people
from dpoco.journal._protocols import Home
from dpoco.journal._releases import (
    CONTEXT,
    DIGEST_BYTES,
    Chunk,
    StateRow,
    decode,
    encode,
    kept_form,
    round_number,
)
from dpoco.journal._stream import Stream
from dpoco.learning.families import Arrays, Parts, Releases
from dpoco.learning.participation import Digests, Person, Persons
from dpoco.learning.tickets import Ticket


@dataclass
class Work:
    """Rounds of one stream in a transaction.

    Attributes
    ----------
    stream : Stream
        Stream of these rounds.
    first : int
        The first new round; earlier ones of the batch were committed before.
    parts : tuple of ndarray
        Records of the new rounds, as the learner sees them; the first axis is the rounds.
    people : bytes
        Digests of the persons, 16 bytes per round, if a participation is enforced.
    """

    stream: Stream
    first: int
    parts: Parts
    people: bytes
    _stored: Releases | None
    _start: bytes | None = None
    _fresh: Releases | None = None
    _committed: bool = field(default=False, repr=False)

    @property
    def learner(self) -> Any:
        """The learner in round `first`; only for callers of `Transaction.put`."""
        return self.stream._learner

    @property
    def rounds(self) -> int:
        """Number of new rounds."""
        return int(self.parts[0].shape[0])

    @property
    def offered(self) -> int:
        """Number of rounds of the whole batch, new or not."""
        return self.rounds + (0 if self._stored is None else int(self._stored.shape[0]))

    @property
    def decisions(self) -> Releases:
        """Releases of all rounds of the batch, (n,) int64 or (n, d) float64, read-only.

        Raises
        ------
        RoundOrderError
            Before the transaction is committed, since nothing leaves a journal before it is
            durable.
        """
        if not self._committed:
            raise RoundOrderError("releases are handed out once their transaction is committed")
        kept = [part for part in (self._stored, self._fresh) if part is not None]
        whole = kept[0] if len(kept) == 1 else np.concatenate(kept)
        whole.flags.writeable = False
        return whole


class Transaction:
    """Rounds that are committed together; made by `Journal.transaction`, used in a ``with``.

    Notes
    -----
    If anything goes wrong before the commit, in this block or in the database, nothing has been
    released. The journal drops learners that have moved, and the next use loads them again.
    A transaction is used once, whether it was committed or failed.
    """

    def __init__(self, journal: Home, line: object | None = None) -> None:
        self._journal = journal
        self._line = line
        self._works: list[Work] = []
        self._chunks: list[Chunk] = []
        self._states: list[StateRow] = []
        self._moved: dict[int, Stream] = {}
        self._open = self._over = False

    def process(
        self,
        stream: Stream,
        *batch: ArrayLike,
        first_round: int | None = None,
        person: Persons = None,
    ) -> Work:
        """Play rounds of one stream; see `Stream.process`.

        Returns
        -------
        Work
            Its `decisions` are available once the transaction is committed.
        """
        work = self.take(stream, *batch, first_round=first_round, person=person)
        if work.rounds:
            self.put(work, stream._family.play(stream._learner, work.parts, work.people))
        return work

    def take(
        self,
        stream: Stream,
        *batch: ArrayLike,
        first_round: int | None = None,
        person: Persons = None,
    ) -> Work:
        """Check a batch and its replayed part, and return the rounds that are to be played.

        For callers that play many learners at once. They play the rounds ``work.parts`` on
        ``work.learner`` and pass the releases to `put` before they call `take` for the same stream
        again.
        """
        self._check_own(stream)
        stream._ready()
        parts = stream._family.parts(stream._learner, batch)
        rounds = int(parts[0].shape[0])
        turn = stream._round
        first = turn if first_round is None else round_number("first_round", first_round)
        if first > turn:
            raise RoundOrderError(
                f"round {first} is offered, the stream is in round {turn}: rounds are missing, or "
                "the journal was restored from an old copy"
            )
        people = stream._learner._digests(person, rounds)
        again = min(rounds, turn - first)
        # An empty batch still returns an array of the right type and width.
        stored = None if rounds else stream._nothing()
        if again:
            # This transaction may repeat its own rounds: these are read from the store.
            self._flush()
            stored = stream._replay(first, tuple(part[:again] for part in parts), people)
        fresh = tuple(part[again:] for part in parts)
        if stream._family.contextual and rounds > again:
            stream._check_pending_context(fresh[0][0])
        # The digest of a bandit's round needs its arm, so its records cannot be compared before
        # the noise is drawn again. The engine's state does not count people.
        recompute = self._journal._recompute and not (stream._family.contextual or people)
        start = stream._learner._engine.state() if recompute and rounds > again else None
        # New rounds begin at the current round, even if the batch begins earlier.
        work = Work(stream, turn, fresh, Digests(people[DIGEST_BYTES * again :]), stored, start)
        self._works.append(work)
        if work.rounds:
            self._touch(stream)  # from here on the engine may have moved
        return work

    def put(self, work: Work, releases: Releases) -> None:
        """Enter the releases of the rounds that `take` returned and that were then played."""
        stream = work.stream
        if releases.shape[0] != work.rounds or stream._learner.round != work.first + work.rounds:
            raise StateError("the rounds handed out are not the rounds played")
        stream._check_pending(releases)
        rows = with_people(stream._family.rows(work.parts, releases), work.people)
        digests = stream._digests.records(work.first, *rows)
        self._end_rounds(stream, digests, releases, work.people, work._start)
        work._fresh = releases

    def redeem(self, stream: Stream, ticket: Ticket, *record: Any, person: Person = None) -> None:
        """Play the round of a ticket's record, if not already played: see `Stream.observe`.

        Without a record, the reward of a bandit's user never came.
        """
        self._check_own(stream)
        book = stream._tickets()
        book.authenticate(ticket)
        learner = stream._learner
        parts = stream._family.arrival(learner, record)
        people = learner._digests(person, None)
        rows = with_people(tuple(part.reshape(1, -1) for part in parts), people)
        if not book.waits(ticket):
            self._flush()
            stream._check_redeemed(ticket, book, rows)
            return
        # Refuse before `_touch`: a group of calls continues without a refused call, but is given
        # up once the call has touched a stream (docs/privacy/journal.md, "Group commit").
        stream._check_no_decision()
        self._touch(stream)
        if record:
            learner.observe(*(part[0] for part in parts), person=people, ticket=ticket)
        else:
            learner.skip(person=people, ticket=ticket)
        if learner.round == stream._round:
            # A forced pull that is not needed ends no round (docs/privacy/delayed_feedback.md). It
            # leaves no digest, so only the book knows the ticket if the record comes again.
            book.dropped.add(ticket.number)
        else:
            contextual = stream._family.contextual
            release = np.array([ticket.decision]) if contextual else decode(stream._pending, 1)
            digest = stream._digests.arrival(ticket.number, rows)
            self._end_rounds(stream, digest, release, people)

    def _issue(self, stream: Stream, context: ArrayLike | None) -> tuple[Any, Ticket]:
        """Return a decision and a ticket, which `stream` hands out after the commit."""
        stream._ready()
        learner = stream._learner
        given: Arrays = ()
        if stream._family.contextual:
            given = (float_array("context", context, (learner.dimension,)),)
        stream._check_no_decision()
        learner._check_room(len(stream._tickets()))
        self._touch(stream)
        issued: tuple[Any, Ticket] = learner.decide(*given, ticket=True)
        # The first ticket adds a condition to the guarantee.
        stream._guarantee = learner.guarantee
        return issued

    def _decide(self, stream: Stream, context: ArrayLike | None) -> int:
        """Return a bandit's arm, which `stream` hands out after the commit."""
        stream._ready()
        row = float_array("context", context, (stream._learner.dimension,))
        stream._check_pending_context(row)
        arm = int(stream._learner.decide(row))
        release = np.array([arm], dtype=np.int64)
        # A repeated request for a decision changes no state, so there is nothing to commit.
        if stream._pending:
            stream._check_pending(release)
        else:
            self._touch(stream)
            digest = stream._digests.context(stream._round, row)
            stream._pending = CONTEXT.pack(stream._digests.number, digest) + encode(release)
        stream._context = row.copy()
        return arm

    def _observe_reward(
        self, stream: Stream, record: Arrays, turn: int | None, person: Persons
    ) -> None:
        """End a bandit's round with its reward, or with context and reward."""
        if len(record) not in (1, 2):
            raise TypeError("expected the reward, or the context and the reward")
        stream._ready()
        learner = stream._learner
        context: Any = stream._context if len(record) == 1 else record[0]
        current = turn is None or turn == stream._round
        if context is None or (len(record) == 1 and not current):
            raise RoundOrderError("a reward needs the context of its round: decide() first")
        # Give every arm this reward: the learner reads only the column of the chosen arm.
        rewards = np.zeros((1, learner.arms))
        rewards[:] = float_array("reward", [record[-1]], (1,))
        people = learner._digests(person, None)
        if not current:
            self.process(stream, [context], rewards, first_round=turn, person=people)
            return
        # Play the round alone, as it was decided: `run` refuses while a decision waits. `take`
        # compares the context with the one of the decision before anything moves.
        work = self.take(stream, [context], rewards, person=people)
        arm = learner.decide(work.parts[0][0])
        learner.observe(float(rewards[0, 0]), person=people)
        self.put(work, np.array([arm], dtype=np.int64))

    def _skip(self, stream: Stream, turn: int | None, person: Persons) -> None:
        """End a bandit's round with an empty record, whose digest is that of NaNs."""
        stream._ready()
        learner = stream._learner
        people = learner._digests(person, None)
        context, reward = np.full((1, learner.dimension), np.nan), np.full((1, 1), np.nan)
        if turn is not None and turn != stream._round:
            # A replay compares the digest of NaNs, whatever the round's arm was.
            rewards = np.repeat(reward, learner.arms, axis=1)
            self.process(stream, context, rewards, first_round=turn, person=people)
            return
        if not stream._pending:
            raise RoundOrderError("no decision waits for its reward")
        self._touch(stream)
        # The context was lost in a crash: any other one will do, since an empty record has none.
        if stream._context is None:
            learner.decide(np.zeros(learner.dimension))
        learner.skip(person=people)
        digest = stream._digests.records(stream._round, *with_people((context, reward), people))
        self._end_rounds(stream, digest, decode(stream._pending[CONTEXT.size :], 1), people)

    def _end_rounds(
        self,
        stream: Stream,
        digests: bytes,
        releases: Releases,
        people: bytes,
        start: bytes | None = None,
    ) -> None:
        """Enter played rounds; `start`: the state from which their releases can be computed."""
        assert len(digests) == DIGEST_BYTES * releases.shape[0]
        kept = kept_form(releases, start)
        key = stream._digests.number
        self._chunks.append(Chunk(stream._row.id, stream._round, key, digests, kept, people))
        stream._advance(releases.shape[0])

    def _touch(self, stream: Stream) -> None:
        """Store the state of a stream, which may have changed, or is about to."""
        self._moved[id(stream)] = stream

    def _check_own(self, stream: Stream) -> None:
        """Raise unless the transaction is open and belongs to the stream's journal."""
        if not self._open:
            raise RoundOrderError("the transaction is over, or has not begun")
        if stream._journal is not self._journal:
            raise ValueError("the stream belongs to another journal")

    def _flush(self) -> None:
        """Write the rounds played so far, so that they can be read again in this transaction."""
        if self._chunks:
            self._journal._rows.add_chunks(self._chunks)
            self._chunks = []

    def __enter__(self) -> Transaction:
        # A second commit would hand out what the first one failed to store, while the same rounds
        # were played again with the same noise.
        if self._open or self._over:
            raise RoundOrderError("a transaction is used once: make another one")
        self._journal._enter(self._line)
        self._open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._open, self._over = False, True
        try:
            try:
                if kind is None:
                    self._seal()
                    self._write()
            except BaseException:
                kind = BaseException
                raise
            finally:
                if kind is not None:
                    # Drop learners before the lock is released: no other thread may find an engine
                    # that is ahead of the store.
                    for stream in self._moved.values():
                        stream._drop()
        finally:
            self._journal._leave(failed=kind is not None)

    def _seal(self) -> None:
        """Fix what `_write` will write: this transaction plays nothing from here on."""
        self._open = False
        if any(work.rounds and work._fresh is None for work in self._works):
            raise StateError("rounds were handed out and not played")
        # A pipeline plays the engines on while it writes these states.
        self._states = [stream._state() for stream in self._moved.values()]

    def _write(self) -> None:
        """Write rounds and states in one commit, and then release the results."""
        self._flush()
        if self._states:
            self._journal._rows.put_states(self._states)
        # Replays and reads write nothing, so they need not wait for the disk.
        if self._journal._rows.changed:
            self._journal._commit()
        for work in self._works:
            work._committed = True

    def _write_apart(self) -> None:
        """Write rounds that were played outside of the store's transaction: see `Pipeline`."""
        self._journal._enter(self._line)
        failed = True
        try:
            self._write()
            failed = False
        finally:
            self._journal._leave(failed=failed)


class Pipeline:
    """A transaction that plays and one that writes at the same time: see `process_many`."""

    def __init__(
        self, stream: Stream, journal: Home, first_round: int | None, together: int
    ) -> None:
        self._stream, self._journal = stream, journal
        self._first = None if first_round is None else round_number("first_round", first_round)
        self._together = positive_int("together", together)
        self._played = Transaction(self._journal, self)
        self._written: Transaction | None = None
        self._result: Future[None] | None = None

    def run(self, batches: Iterable[Arrays]) -> Iterator[Releases]:
        """Yield the releases of each batch once they are committed."""
        journal = self._journal
        pool = ThreadPoolExecutor(1, "dpoco-journal")
        whole = False
        try:
            with journal.transaction():
                self._stream._ready()  # needs the one writer; otherwise nothing is drawn
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
        """Release the journal; `whole`: all played rounds are committed."""
        journal = self._journal
        try:
            if not whole and journal._line is self:
                self._stream._drop()  # it is, or may be, ahead of the committed state
        finally:
            if journal._line is self:
                journal._line = None  # from here on this pipeline begins no write
            mine = os.getpid() == journal._owner  # a forked child has no thread to wait for
            pool.shutdown(wait=mine, cancel_futures=True)

    def _play(self, batch: Arrays) -> None:
        """Play one batch of the pipeline, or look up its rounds if they are over."""
        stream, played = self._stream, self._played
        self._journal._check_process()
        whole: tuple[Any, ...] = batch
        *records, person = whole if stream._learner._limiter is not None else (*whole, None)
        if self._first is not None and self._first < stream._round:
            # The batch has rounds that were over before the pipeline began.
            with Transaction(self._journal, self) as replay:
                work = replay.process(stream, *records, first_round=self._first, person=person)
            played._works.append(work)
        else:
            # The transaction plays outside of the store's transaction, which `_write_apart` begins
            # later.
            played._open = True
            work = played.process(stream, *records, first_round=self._first, person=person)
        if self._first is not None:
            self._first += work.offered

    def _next(self, pool: ThreadPoolExecutor) -> Iterator[Releases]:
        """Wait for the running write, begin to write the played rounds, and yield the releases."""
        if self._result is not None:
            # If that commit failed, its error ends the pipeline here, before it hands out anything
            # later.
            self._result.result()
        over, self._written = self._written, None
        if self._played._works:
            self._written, self._played = self._played, Transaction(self._journal, self)
            # Seal in this thread: the writing thread must not read engines that play on.
            self._written._seal()
            self._result = pool.submit(self._written._write_apart)
        for work in over._works if over is not None else ():
            yield work.decisions
