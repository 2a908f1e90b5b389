"""What every online learner shares: the order of calls, long runs, and the rules of copies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._state import Stateful, check_writable
from dpoco._validation import positive_int
from dpoco.accounting import Guarantee
from dpoco.errors import HorizonExceeded, RoundOrderError

__all__ = ["OnlineLearner"]

FloatArray = NDArray[np.float64]
Progress = Callable[[int, int], None]

# Rounds per compiled call: short enough that Ctrl-C is answered at once, long enough that the
# call itself costs nothing.
_CHUNK_ENTRIES = 2**18
_CHUNK_ROUNDS = 8192


class OnlineLearner(Stateful):
    """Base of the learners: `decide` and `observe` in strict alternation, up to a horizon."""

    # The round a decision was asked for in, and that decision: stale once the engine has moved on.
    _asked: tuple[int, Any] = (-1, None)
    _horizon: int

    @property
    def round(self) -> int:
        """Rounds consumed so far (completed `observe` calls)."""
        return int(self._engine.round)

    @property
    def horizon(self) -> int:
        """Number of rounds the guarantee covers."""
        return self._horizon

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of the whole sequence of decisions."""
        raise NotImplementedError

    def _decision(self) -> Any:
        """Return the engine's decision of the current round."""
        raise NotImplementedError

    def decide(self) -> Any:
        """Return this round's decision; the same one until `observe`.

        Raises
        ------
        HorizonExceeded
            After `horizon` rounds; see `last_decision`.
        StateError
            For a suspended copy.
        """
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
            raise RoundOrderError("observe() without decide(): the two alternate")
        return asked

    def _check_rounds(self, rounds: int) -> None:
        self._check_active()
        left = self._horizon - self.round
        if rounds > left:
            raise HorizonExceeded(
                f"{rounds} rounds asked for, {left} left of the horizon of {self._horizon}"
            )

    def _chunks(
        self,
        rounds: int,
        row_entries: int,
        progress: Progress | None,
        checkpoint: str | os.PathLike[str] | None,
        checkpoint_every: int,
    ) -> Iterator[slice]:
        """Yield slices of a long run; between them signals, progress and checkpoints are served.

        An interrupt between slices leaves a consistent learner: `round` tells how far it came.
        """
        every = positive_int("checkpoint_every", checkpoint_every)
        if checkpoint is not None:
            check_writable(checkpoint)  # not after rounds that would be lost
        size = max(1, min(_CHUNK_ROUNDS, _CHUNK_ENTRIES // max(1, row_entries)))
        start = 0
        since_checkpoint = 0
        while start < rounds:
            stop = min(rounds, start + size)
            if checkpoint is not None:
                stop = min(stop, start + every - since_checkpoint)
            yield slice(start, stop)
            since_checkpoint += stop - start
            start = stop
            if checkpoint is not None and (since_checkpoint == every or start == rounds):
                self.save(checkpoint)
                since_checkpoint = 0
            if progress is not None:
                progress(start, rounds)

    def __repr__(self) -> str:
        # Parameters and guarantee only: nothing that depends on data.
        arguments = ", ".join(
            f"{name}={value!r}"
            for name, value in self._arguments.items()
            if name != "source" and (value is not None or name in ("horizon", "budget"))
        )
        return f"{type(self).__name__}({arguments})\n  {self.guarantee!r}"
