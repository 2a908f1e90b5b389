"""One learner in a journal: what it has released is durable before anybody sees it."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import HorizonExceeded, ReplayMismatch, RoundOrderError, StateError
from dpoco.journal._keys import StreamDigests, with_people
from dpoco.journal._protocols import Home
from dpoco.journal._releases import (
    CONTEXT,
    DIGEST_BYTES,
    Recipe,
    StateRow,
    StreamRow,
    decode,
    encode,
    read_payload,
    restore_learner,
    round_number,
)
from dpoco.learning.families import Arrays, Family, Parts, Releases, learner_family
from dpoco.learning.participation import Digests, Person, Persons
from dpoco.learning.tickets import Ticket, TicketBook

_SEARCHED = 1024  # rounds that a search for a ticket's round reads at once
_WRITTEN = 128  # bytes per round, about, for tables of all people in the long run


class Stream:
    """A learner or mechanism whose releases a journal keeps; see `Journal.open`.

    You cannot get the learner itself: all its releases go through the journal.
    """

    _learner: Any  # None: the next use loads it from the journal
    _round: int
    _pending: bytes  # the current release, if it precedes its record
    _since = -1  # rounds whose people are stored as a whole, in so many bytes
    _size = 0

    def __init__(self, journal: Home, row: StreamRow, learner: Any = None) -> None:
        self._journal, self._row = journal, row
        self._context: Any = None
        self._under_current: StreamDigests | None = None
        self._learner = self._restore() if learner is None else learner
        self._family = learner_family(self._learner)
        self._guarantee: Guarantee = self._learner.guarantee
        if learner is not None:
            self._round = int(learner.round)
            self._pending = _encode_upcoming(self._family, learner)

    # -- rounds -----------------------------------------------------------------------------------

    def decide(self, context: ArrayLike | None = None, *, ticket: bool = False) -> Any:
        """Return this round's decision; the same until the round ends, even after restarts.

        Parameters
        ----------
        context : array_like of shape (d,)
            Only for bandits, which require it.
        ticket : bool, default False
            Return ``(decision, Ticket)``, for feedback that comes later: see `observe`, `skip`,
            `expire`. Each such call issues a ticket, which is durable before it is returned. Any
            number may be outstanding. Each reserves a round of the horizon and takes some 50 bytes
            of every commit of the stream.

        Raises
        ------
        HorizonExceeded
            Past the horizon; outstanding tickets count as rounds.
        ReplayMismatch
            If a bandit's round was begun with another context.
        RoundOrderError
            For a ticket, while a bandit's decision without a ticket waits for its reward.
        TypeError
            For mechanisms, which answer records: see `observe`.
        """
        if self._family.answers or (context is not None and not self._family.contextual):
            raise TypeError("only bandits decide for a context, and mechanisms do not decide")
        if ticket or self._family.contextual:
            with self._journal._part() as transaction:
                return (transaction._issue if ticket else transaction._decide)(self, context)
        # The decision was committed with the state before it. Nothing new is released, so there is
        # no transaction.
        with self._journal._guard(committed=True):
            self._ready()
            if not self._pending:
                raise HorizonExceeded(f"the horizon of {self._learner.horizon} rounds is used up")
            return self._family.present(decode(self._pending, 1)[0])

    def observe(
        self, *record: ArrayLike, round: int | None = None, person: Person = None,
        ticket: Ticket | None = None,
    ) -> Any:  # fmt: skip
        """End a round with its record; for mechanisms, return the answer to it.

        Parameters
        ----------
        *record
            Arguments of the learner's own ``observe``; for a mechanism, those of ``push``,
            ``select`` or ``test``. Bandits: the reward, after `decide`; or context and reward
            together.
        round : int, optional
            The round of this record. If the round is already over, the record is compared with the
            first one, and nothing else happens.
        person : int, str or bytes
            The person behind the record, if the learner enforces a participation. A record beyond
            the limit silently counts as zero. The same record of another person counts as a
            different record.
        ticket : Ticket, optional
            Ticket of the earlier decision that the record belongs to; the record ends the current
            round. Bandits: the reward alone. If the ticket was already redeemed, the record is
            compared with the first one, and nothing else happens.

        Raises
        ------
        ReplayMismatch
            If that round was released for another record, or if the ticket was redeemed with
            another record or has expired.
        RoundOrderError
            If `round` is beyond the current one, if a bandit's reward comes without its context, or
            if a ticket comes while a decision without one waits for its reward.
        StateError
            For a ticket of another stream or learner, a forged one, or one redeemed in a round that
            is no longer kept.
        HorizonExceeded, ValueError, TypeError
            As for the learner's own ``observe``; nothing changes.

        Notes
        -----
        Looking up a redeemed ticket takes time proportional to the rounds since it was redeemed,
        or, if the record differs, since it was issued.
        """
        if self._family.contextual and ticket is None:
            with self._journal._part() as transaction:
                return transaction._observe_reward(self, record, round, person)
        if ticket is not None:
            if round is not None or not record:
                raise TypeError("a ticket needs a record, and no round: it ends the current one")
            with self._journal._part() as transaction:
                transaction.redeem(self, ticket, *record, person=person)
            return None
        who = None if person is None else [person]
        with self._journal._guard():
            # Whether a label may be None depends on the learner, which may have to be loaded.
            self._ready()
            batch = self._family.record(self._learner, record)
        decisions = self.process(*batch, first_round=round, person=who)
        return self._family.present(decisions[0]) if self._family.answers else None

    def skip(
        self, *, round: int | None = None, person: Person = None, ticket: Ticket | None = None
    ) -> None:
        """End a bandit's round whose reward or context is lost, with an empty record.

        The record counts as zero for every arm, and the noise advances as in any other round.

        Parameters
        ----------
        round : int, optional
            The round of the decision; default: the current one. If it is already over, it must have
            been skipped, and nothing else happens.
        person : int, str or bytes
            The round's user, if the learner enforces a participation; the round counts. If the name
            is also lost, pass a name that no person has.
        ticket : Ticket, optional
            Ticket of the earlier decision whose reward never came: see `observe`.

        Raises
        ------
        ReplayMismatch
            If the round or the ticket was given a reward, or the ticket has expired.
        RoundOrderError
            If no decision waits for its reward.
        StateError
            As `observe`.
        TypeError
            For learners that are not bandits: end their rounds with a record of NaNs.
        """
        if not self._family.contextual:
            raise TypeError("only bandits skip: end the round with a record of NaNs")
        with self._journal._part() as transaction:
            if ticket is None:
                transaction._skip(self, round, person)
            elif round is None:
                transaction.redeem(self, ticket, person=person)
            else:
                raise TypeError("a ticket needs no round: it ends the current one")

    def expire(self, ticket: Ticket | int) -> None:
        """Give up a ticket whose feedback will never come, for public reasons. No round is played.

        If a person does not answer, end a round instead, with a record of NaNs or with `skip`.

        Parameters
        ----------
        ticket : Ticket or int
            A ticket of this stream, or the number of a lost ticket: see `outstanding`.

        Raises
        ------
        RoundOrderError
            If the ticket is not outstanding.
        StateError
            For a ticket of another stream or learner, or a forged one.
        """
        with self._journal._part() as transaction:
            book = self._tickets()
            if not isinstance(ticket, int):
                book.authenticate(ticket)
            transaction._touch(self)
            self._learner.expire(ticket)

    def process(
        self, *batch: ArrayLike, first_round: int | None = None, person: Persons = None
    ) -> Releases:
        """Play a micro-batch: commit its releases in one transaction, then return them.

        Parameters
        ----------
        *batch : array_like
            Records of n rounds, as the learner's ``run`` takes them: features and labels, losses,
            contexts and rewards of all arms, or values.
        first_round : int, optional
            The round of the first record; default: the current round. Pass it to be safe against
            repeated batches: records of completed rounds are compared with the first ones, and
            their stored releases are returned.
        person : array_like of int, str or bytes with shape (n,)
            The persons behind the records, if the learner enforces a participation.

        Returns
        -------
        ndarray of int64, shape (n,), or of float64, shape (n, d)
            One release per record, read-only: the decision before it, or the answer to it.

        Raises
        ------
        ReplayMismatch
            If a round was released for another record; no part of the batch is played.
        RoundOrderError
            If `first_round` is beyond the current round (rounds are missing, or the journal was
            restored from an old copy), or if there is no room for more people.
        HorizonExceeded, ValueError, TypeError
            As for the learner's ``run``; nothing changes.
        JournalFenced
            If another writer has taken over; nothing was drawn.
        OSError, StateError
            If the journal cannot be written; nothing was released and nothing is lost.

        Notes
        -----
        One commit, which waits for the disk. It writes 16 bytes per round, the releases (repeated
        ones once), and one state. If a participation is enforced, it also writes a person's digest,
        16 bytes per round, and from time to time the whole table of people: in the long run at most
        some 150 bytes per round.
        """
        with self._journal._part() as transaction:
            work = transaction.process(self, *batch, first_round=first_round, person=person)
        return work.decisions

    def process_many(
        self, batches: Iterable[Arrays], *, first_round: int | None = None, together: int = 32
    ) -> Iterator[Releases]:
        """Play micro-batches while earlier ones are being committed.

        The releases of a batch are yielded once they are durable, in order, as `process` returns
        them. Several batches share a commit. While the method waits for the disk, it plays the next
        batches.

        Parameters
        ----------
        batches : iterable of tuples
            Arguments of `process` for one batch after the other; if the learner enforces a
            participation, with the records' persons at the end. The method reads up to ``2
            together`` batches beyond the releases yielded so far, so the iterable must not wait for
            them.
        first_round : int, optional
            First round of the first batch, as for `process`; the others follow.
        together : int, default 32
            Number of batches per commit. Keyword-only, like `first_round`.

        Yields
        ------
        ndarray
            Releases of one batch.

        Raises
        ------
        RoundOrderError
            For all other requests for the journal's releases while it runs: it owns the journal
            until its end, or until `close`.
        Exception
            As for `process`, and whatever `batches` raises. Batches whose releases were not yielded
            may or may not be committed: send them again, with their `first_round`.

        Notes
        -----
        A writer that was fenced off notices this at the next commit. Rounds that it played since
        then are discarded; their decisions were not returned.
        """
        return self._journal._run_pipeline(self, batches, first_round, together)

    def release(self, round: int) -> Any:
        """Return the stored release of a round; for the current round, if it is already decided.

        Raises
        ------
        StateError
            If it has been forgotten, was released before the journal knew the learner, or is not
            stored but computed again on replay (`Journal`'s ``releases="recompute"``).
        RoundOrderError
            If that round has not released anything yet.
        """
        turn = round_number("round", round)
        with self._journal._guard(committed=True):
            self._ready()
            if turn == self._round and self._pending and not self._family.contextual:
                return self._family.present(decode(self._pending, 1)[0])
            return self._family.present(self._read_releases(turn, turn + 1)[0])

    def releases(self, start: int, stop: int) -> Releases:
        """Return the stored releases of the rounds start, ..., stop - 1, as `process` does.

        Raises
        ------
        StateError
            If some have been forgotten, or are not stored: see `release`.
        RoundOrderError
            If some of these rounds are not over yet.
        """
        first = round_number("start", start)
        last = round_number("stop", stop)
        if last < first:
            raise ValueError("stop must not be below start")
        with self._journal._guard(committed=True):
            self._ready()
            return self._read_releases(first, last)

    def fork(self, name: str) -> Stream:
        """Return a second continuation of this stream, with its own noise from here on.

        Both have the same past and may see different data. A second charge of the guarantee
        accounts for the releases of both: see ``docs/privacy/journal.md``.

        Parameters
        ----------
        name : str
            Name of the new stream, not used by any stream.

        Raises
        ------
        BudgetExceeded
            If the ledger does not pay for it; nothing changes.
        StateError
            If the journal has no ledger, since a fork costs as much as the learner itself.
        TypeError
            For learners without a proof for two continuations.
        ValueError
            If the name is taken.
        """
        fork: Stream = self._journal._fork(self, name)
        return fork

    # -- facts ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self._row.name

    @property
    def round(self) -> int:
        """Number of completed rounds; durable, except within a transaction or pipeline."""
        with self._journal._guard():
            self._ready()
            return self._round

    @property
    def outstanding(self) -> tuple[int, ...]:
        """Numbers of the tickets that wait for feedback, in the order in which they were issued.

        A crash may leave a ticket that no caller received: `expire` takes its number.
        """
        with self._journal._guard(committed=True):
            self._ready()
            return () if self._family.answers else tuple(self._learner.outstanding)

    @property
    def kept_from(self) -> int:
        """First round whose release is still kept: see `Journal.forget`."""
        return self._row.kept_from

    @property
    def horizon(self) -> int:
        """Number of rounds that the guarantee covers."""
        with self._journal._guard():
            self._ready()
            return int(self._learner.horizon)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything this stream releases."""
        return self._guarantee

    def unload(self) -> None:
        """Free the learner's memory; the next use loads it from the journal."""
        with self._journal._guard(committed=True):
            self._drop()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream cannot be copied or pickled: copies would share its learner")

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}: {self._guarantee!r}>"

    # -- for the journal and its transactions, under their lock -----------------------------------

    @property
    def _digests(self) -> StreamDigests:
        """The digests of records to come."""
        return self._digests_under(self._journal._rows.current)

    def _digests_under(self, number: int) -> StreamDigests:
        """Return the digests under a key, of which the current one's are kept."""
        # Keep them, so that their three keys are not derived in every call.
        known = self._under_current
        if known is None or known.number != number:
            known = StreamDigests(self._journal._rows.key(number), number, self._row.uid)
            if number == self._journal._rows.current:
                self._under_current = known
        return known

    def _ready(self) -> None:
        """Load the learner if it is not in memory."""
        if self._learner is None:
            self._learner = self._restore()

    def _restore(self) -> Any:
        """Return the learner of the stored state, checked against its committed decision."""
        row = self._journal._rows.state(self._row.id)
        since, people = self._journal._rows.people(self._row.id)
        learner = restore_learner(self._row.header, row.payload, people, self._journal._siblings)
        if learner._limiter is not None:
            self._remember(since, people)
            self._count(learner._limiter, row.round)
        if learner.round != row.round:
            raise StateError("the journal is corrupt: a state of another round")
        family = learner_family(learner)
        # A bandit's decision needs its context, which is not stored: `_decide` compares it when
        # the context comes.
        if not family.contextual and _encode_upcoming(family, learner) != row.pending:
            raise StateError(
                "the state does not give the decision that was committed with it: was the journal "
                "written by another version of the library?"
            )
        self._round, self._pending, self._context = row.round, row.pending, None
        return learner

    def _drop(self) -> None:
        """Drop the learner, which may be ahead of the store: the next use loads it."""
        self._learner = None
        self._context = None

    def _state(self) -> StateRow:
        """Return the learner's current state to store, and from time to time all its people."""
        learner, people = self._learner, b""
        # The table of all people is long. It is stored again only after a number of rounds in
        # proportion to its length, so that all these tables together cost `_WRITTEN` bytes per
        # round.
        rounds = self._round - self._since
        if learner._limiter is not None and _WRITTEN * rounds > self._size:
            people = learner._participants()
            self._remember(self._round, people)
        return StateRow(self._row.id, self._round, read_payload(learner), self._pending, people)

    def _remember(self, since: int, people: bytes) -> None:
        """Note that the people of the rounds before `since` are stored in a table."""
        # Before the first person comes, the kind of names is unknown; the first round fixes it.
        # Size 0 makes the next commit store the table again.
        self._since, self._size = since, len(people) if since else 0

    def _count(self, limiter: Any, stop: int) -> None:
        """Count the people who came after the stored table, as they were counted then."""
        at = self._since
        while at < stop:
            for chunk in self._journal._rows.chunks(self._row.id, at, min(at + _SEARCHED, stop)):
                # The first chunk may begin before `at`: its earlier rounds are in the stored table.
                limiter.admit(at, chunk.people[DIGEST_BYTES * (at - chunk.first) :])
                at = chunk.stop

    def _advance(self, rounds: int) -> None:
        """Count completed rounds, and read the next decision, which is stored with them."""
        self._pending = _encode_upcoming(self._family, self._learner)
        self._context = None
        self._round += rounds

    def _check_pending(self, releases: Releases) -> None:
        """Raise unless the first release equals the one that was committed beforehand."""
        if not self._pending:
            return
        known = self._pending[CONTEXT.size :] if self._family.contextual else self._pending
        if encode(releases[:1]) != known:
            raise StateError("the learner does not repeat the decision that is committed")

    def _check_pending_context(self, context: NDArray[np.float64]) -> None:
        """Raise `ReplayMismatch` if a bandit's round was begun with another context."""
        if not self._pending:
            return
        # The key may have been rotated since the round began.
        key, known = CONTEXT.unpack_from(self._pending)
        digest = self._digests_under(key).context(self._round, np.ascontiguousarray(context))
        if not hmac.compare_digest(digest, known):
            raise ReplayMismatch(
                f"round {self._round} was begun with another context: a round has one user"
            )

    def _check_no_decision(self) -> None:
        """Raise `RoundOrderError` while a bandit's decision without a ticket waits."""
        if self._family.contextual and self._pending:
            raise RoundOrderError("a decision waits for its reward: observe() or skip() first")

    def _tickets(self) -> TicketBook:
        """Return the learner's book; an empty one if it has issued no ticket."""
        if self._family.answers:
            raise TypeError("mechanisms make no decisions, so they have no tickets")
        self._ready()
        book: TicketBook | None = self._learner._book
        return TicketBook() if book is None else book

    def _check_redeemed(self, ticket: Ticket, book: TicketBook, rows: Parts) -> None:
        """Raise unless this record redeemed the ticket, or no record did."""
        # A dropped record ended no round, so there is no digest to compare with.
        if ticket.number in book.dropped:
            return
        # A ticket is never redeemed in a round before the one in which it was issued.
        start, stop = max(ticket.round, self._row.kept_from), self._round
        while stop > start:  # backwards: most repeated records came a moment ago
            first = max(start, stop - _SEARCHED)
            for chunk in self._journal._rows.chunks(self._row.id, first, stop):
                # A match between digests of different records is as unlikely as a collision.
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
        """Raise unless the releases of these rounds exist and are kept."""
        if start < self._row.kept_from and start < stop:
            raise StateError(f"rounds before {self._row.kept_from} are not kept in the journal")
        if stop > self._round:
            raise RoundOrderError(f"the stream is in round {self._round}")

    def _read_releases(self, start: int, stop: int) -> Releases:
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
            pieces.append(decode(chunk.releases, chunk.count)[part])
        return _join(pieces) if pieces else self._nothing()

    def _replay(self, first: int, parts: Parts, people: bytes) -> Releases:
        """Return the releases of completed rounds, if these are their records and people."""
        last = first + int(parts[0].shape[0])
        self._check_kept(first, last)
        pieces = []
        for chunk in self._journal._rows.chunks(self._row.id, first, last):
            start, stop = max(first, chunk.first), min(last, chunk.stop)
            records = tuple(part[start - first : stop - first] for part in parts)
            recipe = Recipe.of(chunk.releases)
            within = slice(start - chunk.first, stop - chunk.first)
            stored = None if recipe is not None else decode(chunk.releases, chunk.count)[within]
            who = people[DIGEST_BYTES * (start - first) : DIGEST_BYTES * (stop - first)]
            rows = with_people(self._family.rows(records, stored), who)
            digests = self._digests_under(chunk.key).records(start, *rows)
            at = within.start * DIGEST_BYTES
            _compare(start, digests, chunk.digests[at : at + len(digests)])
            if recipe is not None:  # only now: other records must never meet this noise
                # The stored state precedes the chunk; to reach a later round, the records in
                # between would be needed.
                if start != chunk.first:
                    raise StateError(
                        f"these releases are not stored: they are computed again from round "
                        f"{chunk.first} on, so replay them from there"
                    )
                stored = self._computed_again(recipe, start, records)
            pieces.append(stored)
        return _join(pieces)

    def _computed_again(self, recipe: Recipe, first: int, records: Parts) -> Releases:
        """Play rounds again from the state before them: same noise, so the same releases."""
        learner = restore_learner(self._row.header, recipe.start, b"", self._journal._siblings)
        if learner.round != first:
            raise StateError("the journal is corrupt: a state of another round")
        releases = self._family.play(learner, records, Digests())
        if not np.array_equal(Recipe.compute_sums(releases), recipe.sums[: releases.shape[0]]):
            raise StateError(
                "the records do not give the releases that they gave: was the journal written by "
                "another version of the library?"
            )
        return releases

    def _nothing(self) -> Releases:
        """Return the releases of no rounds."""
        if self._pending and not self._family.contextual:
            return decode(self._pending, 1)[:0]
        return np.empty((0,), dtype=np.int64)


def _encode_upcoming(family: Family, learner: Any) -> bytes:
    """Return the release of the current round if it precedes the round's record, else b""."""
    upcoming = family.upcoming(learner)
    return b"" if upcoming is None else encode(upcoming)


def _join(pieces: list[Any]) -> Releases:
    """Return releases of neighbouring rounds as one read-only array."""
    whole: Releases = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    whole.flags.writeable = False
    return whole


def _compare(first: int, digests: bytes, stored: bytes) -> None:
    """Raise `ReplayMismatch` for the first round whose digests differ."""
    if digests == stored:
        return
    ours, theirs = (np.frombuffer(each, f"V{DIGEST_BYTES}") for each in (digests, stored))
    place = first + int(np.argmax(ours != theirs))
    raise ReplayMismatch(f"round {place} came with another record than the one it was released for")
