"""A world that answers to decisions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int
from dpoco.environments._base import Environment, world_switches

__all__ = ["BurnAfterPlay"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class BurnAfterPlay(Environment):
    """An expert that is played loses in every later round of the phase.

    There are at most S + 1 phases of L = ceil(T / (S + 1)) rounds (the last may be shorter). At
    the start of a phase every expert gets a hidden bias, 1/4 or 3/4 with equal probability. In a
    round an expert that was played before in this phase loses 1; any other loses 1 with the
    probability of its bias and 0 otherwise, independently. A learner does well only by finding
    ever new experts of low bias, that is by asking L adaptively chosen questions of at most L
    samples.

    It is in the spirit of the lower bound that Asi, Raman and Saha ("Tracking the Best
    Expert Privately") prove for adaptive losses, and not a transcription of it: here **nothing is
    proven**. What to expect: decisions that ignore the losses lose about 1/2 a round, the best
    expert that is never played about 1/4.

    Parameters
    ----------
    experts : int
        Number of experts N >= 4 L, so that the good ones do not run out.
    horizon : int
        Number of rounds T.
    switches : int, default 0
        Number of phases less one, S in [0, T - 1].
    seed : int, optional
        Seed of the world. None takes one from the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    O(N) time and memory a round. Regret is the usual one: a comparator meets the losses that the
    learner's decisions brought about.
    """

    def __init__(
        self, experts: int, horizon: int, *, switches: int = 0, seed: int | None = None
    ) -> None:
        super().__init__(experts, horizon, seed=seed)
        count = positive_int("experts", experts)
        self._switches = world_switches(switches, self.horizon, count)
        self._length = -(-self.horizon // (self._switches + 1))
        if count < 4 * self._length:
            raise ValueError(
                f"experts must be at least 4 times a phase's {self._length} rounds; got {count}"
            )
        self._restart()

    @property
    def switches(self) -> int:
        """Number of phases less one, S."""
        return self._switches

    @property
    def phase_length(self) -> int:
        """Rounds of a phase, L."""
        return self._length

    def _restart(self) -> None:
        self._tape = self._generator()
        self._biases = np.zeros(self.experts)
        self._burnt = np.zeros(self.experts, dtype=np.bool_)
        self._totals = np.zeros(self.experts)
        self._finished: list[IntArray] = []

    def _draw(self) -> FloatArray:
        if self.round % self._length == 0:
            if self.round > 0:
                self._finished.append(self._best_of_phase(self._length))
            self._biases = np.where(self._tape.random(self.experts) < 0.5, 0.25, 0.75)
            self._burnt[:] = False
            self._totals[:] = 0.0
        data = self._tape.random(self.experts) < self._biases
        return (data | self._burnt).astype(np.float64)

    def _answer(self, decision: int, row: FloatArray) -> None:
        self._burnt[decision] = True
        self._totals += row

    def _best_of_phase(self, rounds: int) -> IntArray:
        return np.full(rounds, np.argmin(self._totals), dtype=np.int64)

    def comparator(self) -> IntArray:
        """Return the expert that lost least in each phase, shape (rounds over,).

        In hindsight, and for the rounds that are over.
        """
        done = sum(map(len, self._finished))
        return np.concatenate([*self._finished, self._best_of_phase(self.round - done)])
