"""Shared parts of all online learners: how they are built, the order of calls, and long runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._files import check_writable
from dpoco._validation import FloatArray, positive_int
from dpoco.errors import HorizonExceeded, RoundOrderError, StateError
from dpoco.learning.calibrated import Certified
from dpoco.learning.choice import Candidate
from dpoco.learning.participation import Digests, Limiter, Participation, Persons
from dpoco.learning.state import is_own
from dpoco.learning.tickets import Delayed

Progress = Callable[[int, int], None]
# Which records a participation admits; None: all of them.
Passed = NDArray[np.bool_] | None
Admit = Callable[[], Passed]
Self = TypeVar("Self", bound="OnlineLearner")

# Limits of a compiled call: short enough that Ctrl-C works at once, long enough that the cost of
# the call is negligible.
_CHUNK_ENTRIES = 2**18
_CHUNK_ROUNDS = 8192
# A run with at most this number of entries is one call; Ctrl-C waits until it ends.
BRIEF = 4096
_NOBODY = Digests()


def _admit_all() -> None:
    """Admit all records of some rounds, because no participation is enforced."""


def _admit_part(limiter: Limiter, turn: int, digests: bytes, beyond: NDArray[np.bool_]) -> Passed:
    """Return which records from round `turn` on are admitted, and mark the others as `beyond`."""
    passed = limiter.admit(turn, digests)
    np.logical_not(passed, out=beyond)
    # None saves a copy of the records.
    return None if passed.all() else passed


def empty_rows(rows: FloatArray, passed: NDArray[np.bool_]) -> FloatArray:
    """Return a copy of the records; refused ones are NaN, which counts as zero."""
    # The copy protects the array, which may be the caller's.
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
        """Store how violations and people are treated, and whether calls may skip Python."""
        self._raises = self._arguments["on_violation"] == "raise"
        self._limiter = self._make_limiter(claim)
        # A derived class outside the library may override the Python methods.
        if is_own(type(self)) and not self._raises and self._limiter is None:
            self._direct = self._plain_parts()

    @classmethod
    def _candidates(cls, problem: Any) -> Iterator[Candidate]:
        """Yield this learner, with options, if `choose` may take it for the problem."""
        yield from ()

    def _plain_parts(self) -> int:
        """Return how many arguments of `observe` the engine takes without conversion."""
        return 0

    def _make_limiter(self, claim: _core.Claim) -> Limiter | None:
        """Return the limiter of the declared participation; None if it is not enforced."""
        participation: Participation | None = self._arguments.get("participation")
        if participation is None or not participation.enforced:
            return None
        # Only this learner has this claim, so that nobody can match people by the digests of two
        # learners.
        secret = claim["key"] + int(claim["stream"]).to_bytes(32, "little")
        return Limiter(participation, self._horizon, secret)

    # Calls with plain arguments go directly to the engine (cpp/bindings/live.cpp); all others run
    # this method.
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
        """Return whether this person's record is admitted; if not, play an empty one.

        The answer is as secret as the record, so callers draw the same noise in both cases. Call it
        only when no other check can refuse the record, because the record counts from then on.
        """
        # The usual case needs no digest.
        if self._limiter is None and person is None:
            return True
        digests = self._digests(person, None)
        return self._limiter is None or bool(self._limiter.admit(turn, digests)[0])

    def _digests(self, persons: Persons, rounds: int | None) -> Digests:
        """Return digests of the people of a run; raise if they are missing, or given for no use."""
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
        """Play a long run in parts: `play` plays the rounds of a slice.

        Between parts it handles signals, progress and checkpoints. An interrupt there leaves a
        consistent learner, and `round` is the number of rounds played. The second argument of
        `play` returns which records are admitted. `play` calls it when no check can refuse the
        records any more, because they count from then on.

        Parameters
        ----------
        rounds : int
            Number of rounds T.
        row_entries : int
            Entries of a record; long records make parts short.
        persons, progress, checkpoint, checkpoint_every
            As in the learner's ``run``.
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
            # Checked before any round, whose results would be lost otherwise.
            check_writable(checkpoint)
        size = max(1, min(_CHUNK_ROUNDS, _CHUNK_ENTRIES // max(1, row_entries)))
        beyond = np.zeros(rounds, dtype=bool)
        with self._alone():
            # Checked under the lock, when no other thread can play rounds.
            self._check_rounds(rounds)
            digests, first = self._digests(persons, rounds), self.round
            start = saved = 0
            if checkpoint is not None and rounds == 0:
                # The caller expects the file even after a run of no rounds.
                self.save(checkpoint)
            while start < rounds:
                stop = min(rounds, start + size)
                if checkpoint is not None:
                    # A part ends where the next checkpoint is due.
                    stop = min(stop, saved + every)
                part = slice(start, stop)
                if self._limiter is None:
                    play(part, _admit_all)
                else:
                    # Each person has 16 bytes.
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
        """Return the limiter's state, followed by its length."""
        if self._limiter is None:
            return b""
        people = self._limiter.state()
        # The length comes last, because the engine's state in front of it does not state its end.
        return people + len(people).to_bytes(8, "little")

    def _go_on(self, payload: bytes) -> None:
        """Continue engine and people from the bytes of `_payload`; `StateError` for others."""
        if self._limiter is not None:
            end = len(payload) - 8
            start = end - int.from_bytes(payload[max(end, 0) :], "little")
            if start < 0:
                raise StateError("state is corrupt: its people are missing")
            self._limiter.restore(payload[start:end])
            payload = payload[:start]
        super()._go_on(payload)

    def _sibling(self: Self, claim: _core.Claim) -> Self:
        """Return an unstarted learner with the same plan and new counters of people."""
        sibling = super()._sibling(claim)
        # The prototype's counters belong to the people of the prototype.
        sibling._limiter = sibling._make_limiter(claim)
        return sibling

    def __repr__(self) -> str:
        # The text has parameters and the guarantee, which do not depend on data.
        arguments = ", ".join(
            f"{name}={value!r}"
            for name, value in self._arguments.items()
            if name != "source" and (value is not None or name in ("horizon", "budget"))
        )
        return f"{type(self).__name__}({arguments})\n  {self.guarantee!r}"
