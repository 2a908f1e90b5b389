"""One learner in a journal: what it has released is durable before anybody sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import float_array
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import HorizonExceeded, RoundOrderError
from dpoco.journal._kept import KeptLearner
from dpoco.journal._pipeline import pipelined
from dpoco.journal._releases import CONTEXT, decoded, encoded
from dpoco.journal._transaction import round_number

__all__ = ["Stream"]


class Stream(KeptLearner):
    """A learner or mechanism whose releases are kept in a journal; see `Journal.open`.

    The learner itself is not handed out: all that it releases goes through the journal.
    """

    # -- rounds -----------------------------------------------------------------------------------

    def decide(self, context: Any = None, *, ticket: bool = False) -> Any:
        """Return this round's decision; the same one until its round is over, and after restarts.

        Parameters
        ----------
        context : array_like of shape (d,)
            For bandits, and only for them.
        ticket : bool, default False
            Streams have no tickets: True raises `TypeError`.

        Raises
        ------
        HorizonExceeded
            Past the horizon.
        ReplayMismatch
            If a bandit's round was begun with another context.
        TypeError
            For mechanisms: they answer records, see `observe`. For tickets.
        """
        if ticket:
            raise TypeError(
                "a journal's streams have no tickets: a round ends with its record before the next"
            )
        if self._family.contextual:
            return self._decide_for(context)
        if context is not None or self._family.answers:
            raise TypeError("only bandits decide for a context, and mechanisms do not decide")
        with self._journal._guard(committed=True):
            self._ready()
            if not self._pending:
                raise HorizonExceeded(f"the horizon of {self._learner.horizon} rounds is used up")
            return self._present(decoded(self._pending)[0])

    def observe(self, *record: Any, round: int | None = None) -> Any:
        """End a round with its record; for mechanisms, return the answer to it.

        Parameters
        ----------
        *record
            What the learner's own ``observe`` takes; of a mechanism, what ``push``, ``select`` or
            ``test`` takes. Bandits: the reward, after `decide`; or context and reward together.
        round : int, optional
            The round that this record is for. One that is over already is compared with the record
            it was released for, and nothing else happens.

        Raises
        ------
        ReplayMismatch
            If that round was released for another record.
        RoundOrderError
            If `round` is beyond the current one, or a bandit's reward comes without its context.
        HorizonExceeded, ValueError, TypeError
            As the learner's own ``observe``; nothing changed.
        """
        if self._family.contextual:
            return self._observe_reward(record, round)
        while record and record[-1] is None:
            record = record[:-1]
        decisions = self.process(*self._family.record(record), first_round=round)
        return self._present(decisions[0]) if self._family.answers else None

    def process(self, *batch: Any, first_round: int | None = None) -> NDArray[Any]:
        """Play a micro-batch: its releases are committed in one transaction, then returned.

        Parameters
        ----------
        *batch : array_like
            Records of n rounds, as the learner's ``run`` takes them: features and labels, losses,
            contexts and rewards of all arms, values.
        first_round : int, optional
            The round of the first record; default: the current round. Name it to be safe against
            doubled batches: rounds that are over are compared with the records they were released
            for, and their stored releases are returned.

        Returns
        -------
        ndarray of int64, shape (n,), or of float64, shape (n, d)
            One release a record, read-only: the decision made before it, or the answer to it.

        Raises
        ------
        ReplayMismatch
            If a round was released for another record; nothing of the batch is played.
        RoundOrderError
            If `first_round` is beyond the current round: rounds are missing, or the journal was
            restored from an old copy.
        HorizonExceeded, ValueError, TypeError
            As the learner's ``run``; nothing changed.
        JournalFenced
            If another writer has taken over; nothing was drawn.
        OSError, StateError
            If the journal cannot be written; nothing was released, nothing is lost.

        Notes
        -----
        One commit, which waits for the disk; 16 bytes a round, the releases (repeated ones once),
        and one state.
        """
        with self._journal.transaction() as transaction:
            work = transaction.process(self, *batch, first_round=first_round)
        return work.decisions

    def process_many(
        self,
        batches: Iterable[tuple[Any, ...]],
        *,
        first_round: int | None = None,
        together: int = 32,
    ) -> Iterator[NDArray[Any]]:
        """Play micro-batches while those before them are being committed.

        Releases of a batch are yielded once they are durable, in order, as `process` returns them.
        Some batches share a commit; while the disk is waited for, the following ones are played.

        Parameters
        ----------
        batches : iterable of tuples
            What `process` would be called with, one after the other. It is read up to
            ``2 together`` batches beyond the releases yielded so far: it must not wait for them.
        first_round : int, optional
            Of the first batch, as for `process`; the others follow.
        together : int, default 32
            Number of batches in a commit. Keyword-only, as `first_round`.

        Yields
        ------
        ndarray
            Releases of one batch.

        Raises
        ------
        RoundOrderError
            While it runs, for everything else that is asked of the journal's releases: it has the
            journal for itself until its end, or `close`.
        Exception
            As `process`, and whatever `batches` raises. Batches whose releases were not yielded may
            or may not be committed: send them again, with their `first_round`.

        Notes
        -----
        A writer that was fenced off in the meantime notices at the next commit: what it played
        since is discarded, and was seen by nobody.
        """
        return pipelined(self, batches, first_round, together)

    def release(self, round: int) -> Any:
        """Return the stored release of a round; of the current one, if it is decided already.

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
                return self._present(decoded(self._pending)[0])
            return self._present(self._stored(turn, turn + 1)[0])

    def releases(self, start: int, stop: int) -> NDArray[Any]:
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
            return self._stored(first, last)

    def fork(self, name: str) -> Stream:
        """Return a second continuation of this stream, with noise of its own from here on.

        Both have the same past and may see different data. What is released by all of them is
        accounted for by a second charge of the guarantee: see ``docs/privacy/journal.md``.

        Parameters
        ----------
        name : str
            Of the new stream; no stream may have it.

        Raises
        ------
        BudgetExceeded
            If the ledger does not pay for it; nothing changed.
        StateError
            If the journal has no ledger: a fork costs as much as the learner itself.
        TypeError
            For kinds of learners for which no proof covers two continuations.
        ValueError
            If the name is taken.
        """
        return self._journal._fork(self, name)

    # -- facts ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self._row.name

    @property
    def round(self) -> int:
        """Rounds that are over; durable, except within a transaction or pipeline."""
        with self._journal._guard():
            self._ready()
            return self._round

    @property
    def kept_from(self) -> int:
        """First round whose release is kept: see `Journal.forget`."""
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
        """Give the learner's memory back; it is loaded from the journal on next use."""
        with self._journal._guard(committed=True):
            self._drop()

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}: {self._guarantee!r}>"

    # -- bandits ----------------------------------------------------------------------------------

    def _decide_for(self, context: Any) -> int:
        with self._journal.transaction() as transaction:
            self._ready()
            row = float_array("context", context, (self._learner.dimension,))
            self._check_pending_context(row)
            arm = int(self._learner.decide(row))
            release = np.array([arm], dtype=np.int64)
            if self._pending:
                self._check_pending(release)
            else:
                transaction._touch(self)
                digest = self._digests.context(self._round, row)
                self._pending = CONTEXT.pack(self._digests.number, digest) + encoded(release)
            self._context = row.copy()
        return arm

    def _observe_reward(self, record: tuple[Any, ...], turn: int | None) -> None:
        if len(record) not in (1, 2):
            raise TypeError("expected the reward, or the context and the reward")
        with self._journal.transaction() as transaction:
            self._ready()
            context = self._context if len(record) == 1 else record[0]
            current = turn is None or turn == self._round
            if context is None or (len(record) == 1 and not current):
                raise RoundOrderError("a reward needs the context of its round: decide() first")
            rewards = np.zeros((1, self._learner.arms))
            rewards[:] = float_array("reward", [record[-1]], (1,))
            if not current:
                transaction.process(self, [context], rewards, first_round=turn)
                return
            # One by one, as it was decided: `run` refuses while a decision waits.
            work = transaction.take(self, [context], rewards)
            arm = self._learner.decide(work.parts[0][0])
            self._learner.observe(float(rewards[0, 0]))
            transaction.put(work, np.array([arm], dtype=np.int64))
