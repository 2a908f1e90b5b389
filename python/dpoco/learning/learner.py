"""Shared parts of all online learners: how they are built, the order of calls, and long runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray, positive_int
from dpoco.errors import HorizonExceeded, RoundOrderError, StateError
from dpoco.learning.calibrated import Certified
from dpoco.learning.choice import Candidate
from dpoco.learning.participation import Digests, Limiter, Participation, Persons
from dpoco.learning.state import check_writable, is_own
from dpoco.learning.tickets import Delayed

Progress = Callable[[int, int], None]
Passed = NDArray[np.bool_] | None  # which records a participation lets enter; None: all
Admit = Callable[[], Passed]
Self = TypeVar("Self", bound="OnlineLearner")

# Rounds per compiled call: short enough that Ctrl-C is answered at once, long enough that the
# call itself costs nothing.
_CHUNK_ENTRIES = 2**18
_CHUNK_ROUNDS = 8192
BRIEF = 4096  # entries of records: a run of no more is one call, which Ctrl-C waits for
_NOBODY = Digests()


def _admit_all() -> None:
    """Let all records of some rounds enter, as no participation is enforced."""


def _admit_part(limiter: Limiter, turn: int, digests: bytes, beyond: NDArray[np.bool_]) -> Passed:
    """Return which records of the rounds from `turn` on enter, and mark the others."""
    passed = limiter.admit(turn, digests)
    np.logical_not(passed, out=beyond)
    # None spares a copy of the records.
    return None if passed.all() else passed


def empty_rows(rows: FloatArray, passed: NDArray[np.bool_]) -> FloatArray:
    """Return records with those that did not pass replaced by ones that count as zero."""
    # The array may be the caller's. A record of NaNs counts as zero.
    entering = rows.copy()
    entering[~passed] = np.nan
    return entering


class OnlineLearner(Certified, Delayed):
    """Base of the learners: `decide` and `observe` alternate, up to a horizon.

    One learner belongs to one thread at a time. If feedback is late, use tickets:
    ``decide(ticket=True)``.
    """

    _raises: bool  # on_violation="raise"

    def _declare(self, claim: _core.Claim) -> None:
        """Take how violations and people are treated, and whether calls may go past Python."""
        self._raises = self._arguments["on_violation"] == "raise"
        self._limiter = self._make_limiter(claim)
        # A class that others derived may have other methods in between.
        if is_own(type(self)) and not self._raises and self._limiter is None:
            self._direct = self._plain_parts()

    @classmethod
    def _candidates(cls, problem: Any) -> Iterator[Candidate]:
        """Yield this learner, with options, if `choose` may take it for the problem."""
        yield from ()

    def _plain_parts(self) -> int:
        """Return how many arguments of `observe` the engine takes as they come; 0: none."""
        return 0

    def _make_limiter(self, claim: _core.Claim) -> Limiter | None:
        """Return what keeps people to the participation that was declared, if it is to."""
        participation: Participation | None = self._arguments.get("participation")
        if participation is None or not participation.enforced:
            return None
        # The claim belongs to this learner alone: no one can match people by the digests of two
        # learners.
        secret = claim["key"] + int(claim["stream"]).to_bytes(32, "little")
        return Limiter(participation, self._horizon, secret)

    # Calls with plain arguments go straight to the engine (cpp/bindings/live.cpp); others come
    # here.
    @_core.direct_record_decide
    def decide(self, *, ticket: bool = False) -> Any:
        """Return this round's decision, shape (d,), read-only; it stays the same until `observe`.

        Parameters
        ----------
        ticket : bool, default False
            Return ``(decision, Ticket)``. The feedback may come later, out of order or never, with
            ``observe(..., ticket=ticket)`` or `expire`. The decision stays the same until some
            feedback arrives. A ticket reserves a round of the horizon.

        Raises
        ------
        HorizonExceeded
            After `horizon` rounds, played or reserved by tickets; see `last_decision`.
        StateError
            If the learner is a suspended copy.
        """
        if ticket:
            return self._issue()
        turn = self._engine.round
        asked, decision = self._asked
        if turn != asked:
            self._check_active()
            if turn >= self._horizon:
                raise HorizonExceeded(f"the horizon of {self._horizon} rounds is used up")
            decision = self._decision()
            self._asked = (turn, decision)
        return decision

    def _check_turn(self) -> tuple[int, Any]:
        """Return the current round and its decision, or raise if it was not asked for."""
        self._check_alone()
        turn = self._engine.round
        asked = self._asked
        if turn != asked[0]:
            self._check_active()
            if turn >= self._horizon:
                raise HorizonExceeded(f"the horizon of {self._horizon} rounds is used up")
            raise RoundOrderError("observe() without decide(): call the two in turn")
        return asked

    def _admits(self, turn: int, person: Persons) -> bool:
        """Return whether this person's record enters the round; else an empty one is to be played.

        Whether it enters is as secret as the record: callers draw as much noise either way.
        Asked when nothing else can be refused any more: the record counts.
        """
        # The usual case, without a digest.
        if self._limiter is None and person is None:
            return True
        digests = self._digests(person, None)
        return self._limiter is None or bool(self._limiter.admit(turn, digests)[0])

    def _digests(self, persons: Persons, rounds: int | None) -> Digests:
        """Return who the people of a run are, or raise if they are needed or not looked at."""
        if isinstance(persons, Digests):
            return persons
        if self._limiter is None:
            return _NOBODY if persons is None else Digests(super()._digests(persons, rounds))
        if persons is None:
            named = "person" if rounds is None else "persons"
            raise TypeError(f"{named} must be given, because the learner enforces a participation")
        return self._limiter.digests(persons, rounds)

    def _run_parts(
        self,
        rounds: int,
        row_entries: int,
        persons: Persons,
        progress: Progress | None,
        checkpoint: str | os.PathLike[str] | None,
        checkpoint_every: int,
        play: Callable[[slice, Admit], None],
    ) -> tuple[int, NDArray[np.bool_]]:
        """Play a long run part by part: `play` plays the rounds of a slice.

        Between parts signals, progress and checkpoints are served. An interrupt there leaves a
        consistent learner: `round` tells how far it came. The second argument of `play` says which
        records enter. It is called when nothing can be refused any more: the records count.

        Parameters
        ----------
        rounds : int
            Number of rounds T.
        row_entries : int
            Entries of a record: long ones make parts short.
        persons, progress, checkpoint, checkpoint_every
            As of the learner's ``run``.
        play : callable
            Called as ``play(part, admit)``, in the order of the parts.

        Returns
        -------
        first : int
            The run's first round.
        beyond : ndarray of bool, shape (T,)
            Records that did not enter because their persons came too often; not private.
        """
        every = positive_int("checkpoint_every", checkpoint_every)
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable; got {type(progress).__name__}")
        if checkpoint is not None:
            check_writable(checkpoint)  # not after rounds that would be lost
        size = max(1, min(_CHUNK_ROUNDS, _CHUNK_ENTRIES // max(1, row_entries)))
        beyond = np.zeros(rounds, dtype=bool)
        with self._alone():
            self._check_rounds(rounds)  # now that no one else can play
            digests, first = self._digests(persons, rounds), self.round
            start = saved = 0
            if checkpoint is not None and rounds == 0:
                self.save(checkpoint)  # who asks for a checkpoint reads it afterwards
            while start < rounds:
                stop = min(rounds, start + size)
                if checkpoint is not None:
                    # Checkpoints keep to their distance, whatever the size of a part.
                    stop = min(stop, saved + every)
                part = slice(start, stop)
                if self._limiter is None:
                    play(part, _admit_all)
                else:
                    # 16 bytes a person.
                    own = digests[16 * start : 16 * stop]
                    turn, marks = first + start, beyond[part]
                    play(part, partial(_admit_part, self._limiter, turn, own, marks))
                start = stop
                if checkpoint is not None and (start - saved == every or start == rounds):
                    self.save(checkpoint)
                    saved = start
                if progress is not None:
                    progress(start, rounds)
        return first, beyond

    def _check_rounds(self, rounds: int) -> None:
        """Raise `HorizonExceeded` before any of so many rounds is played, if some do not fit."""
        self._check_active()
        left = self._horizon - self.round
        if rounds > left:
            raise HorizonExceeded(
                f"rounds asked for: {rounds}, left: {left} of a horizon of {self._horizon}"
            )

    # -- state ------------------------------------------------------------------------------------

    def _participants(self) -> bytes:
        """Return the limiter's state, and how long that is."""
        if self._limiter is None:
            return b""
        people = self._limiter.state()
        # The length comes last: the engine's state, which precedes, does not say where it ends.
        return people + len(people).to_bytes(8, "little")

    def _go_on(self, payload: bytes) -> None:
        """Continue engine and people from what `_payload` returned; `StateError` if it is none."""
        if self._limiter is not None:
            end = len(payload) - 8
            start = end - int.from_bytes(payload[max(end, 0) :], "little")
            if start < 0:
                raise StateError("state is corrupt: its people are missing")
            self._limiter.restore(payload[start:end])
            payload = payload[:start]
        super()._go_on(payload)

    def _sibling(self: Self, claim: _core.Claim) -> Self:
        """Return an unstarted learner with the same plan, and other people to count."""
        sibling = super()._sibling(claim)
        # The prototype's counters are those of its people.
        sibling._limiter = sibling._make_limiter(claim)
        return sibling

    def __repr__(self) -> str:
        # Parameters and guarantee only: nothing that depends on data.
        arguments = ", ".join(
            f"{name}={value!r}"
            for name, value in self._arguments.items()
            if name != "source" and (value is not None or name in ("horizon", "budget"))
        )
        return f"{type(self).__name__}({arguments})\n  {self.guarantee!r}"
