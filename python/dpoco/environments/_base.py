"""What every world has: rounds, losses fixed before the decision is seen, a seed of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int
from dpoco.errors import HorizonExceeded

__all__ = ["Environment", "Oblivious", "segment_starts", "within", "world_switches"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LARGEST_WORLD = 2**40


class Environment(ABC):
    """Base of the worlds; subclasses draw the losses of a round and may answer to decisions.

    A round: `losses` are computed, the learner decides, `observe` reveals its decision to the
    world. Losses lie in [0, 1]. The world's random numbers are its own: the i-th one does not
    depend on what the learner does.

    Parameters
    ----------
    experts : int
        Number of experts N >= 1.
    horizon : int
        Number of rounds T >= 1.
    seed : int, optional
        Seed of the world. None takes one from the operating system.
    """

    def __init__(self, experts: int, horizon: int, *, seed: int | None = None) -> None:
        self._experts = positive_int("experts", experts, maximum=LARGEST_WORLD)
        self._horizon = positive_int("horizon", horizon, maximum=LARGEST_WORLD)
        self._set_seed(seed)
        self._round = 0
        self._current: FloatArray | None = None

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
                raise TypeError(f"seed must be an int; got {type(seed).__name__}")
            if seed < 0:
                raise ValueError(f"seed must not be negative; got {seed}")
        self._sequence = np.random.SeedSequence(None if seed is None else int(seed))

    def _generator(self) -> np.random.Generator:
        """Return the world's random numbers from their beginning."""
        return np.random.default_rng(self._sequence)

    @property
    def experts(self) -> int:
        """Number of experts N."""
        return self._experts

    @property
    def horizon(self) -> int:
        """Number of rounds T."""
        return self._horizon

    @property
    def round(self) -> int:
        """Rounds that are over."""
        return self._round

    def losses(self) -> FloatArray:
        """Return the losses of the current round, shape (N,), read-only, in [0, 1].

        They are the same however often they are asked for, and never depend on the decision of
        this round.

        Raises
        ------
        HorizonExceeded
            After the last round.
        """
        if self._current is None:
            if self._round >= self._horizon:
                raise HorizonExceeded("the world has no more rounds")
            self._current = self._draw()
            self._current.flags.writeable = False
        return self._current

    def observe(self, decision: int) -> None:
        """End the round by revealing the learner's decision, an expert in 0..N-1.

        Raises
        ------
        HorizonExceeded
            After the last round.
        ValueError, TypeError
            If that is no expert: nothing changed.
        """
        if isinstance(decision, (bool, np.bool_)) or not isinstance(decision, (int, np.integer)):
            raise TypeError(f"decision must be an int; got {type(decision).__name__}")
        if not 0 <= decision < self._experts:
            raise ValueError(f"decision must be below the number of experts, {self._experts}")
        row = self.losses()
        self._answer(int(decision), row)
        self._current = None
        self._round += 1

    def reset(self, seed: int | None = None) -> None:
        """Go back to the first round: of the same world, or of another one if a seed is given."""
        if seed is not None:
            self._set_seed(seed)
        self._round = 0
        self._current = None
        self._restart()

    @abstractmethod
    def _restart(self) -> None:
        """Forget the rounds played, and the losses if the seed is another."""

    @abstractmethod
    def _draw(self) -> FloatArray:
        """Return the losses of round `self.round`."""

    @abstractmethod
    def _answer(self, decision: int, row: FloatArray) -> None:
        """Take note of a decision and of the losses it met."""

    @abstractmethod
    def comparator(self) -> IntArray:
        """Return the experts of the sequence the world was made for, one for each round.

        It knows how the world was made, not how chance fell out: the best sequence in hindsight,
        `dpoco.evaluation.best_switching_sequence`, may be better.
        """

    def __repr__(self) -> str:
        return f"<dpoco {type(self).__name__}: {self._horizon} rounds, {self._experts} experts>"


class Oblivious(Environment):
    """Base of the worlds whose losses are all fixed before the first round.

    For these, ``learner.run(world.matrix())`` is the same game as `play`, in compiled code.
    """

    _matrix: FloatArray | None = None
    _best: IntArray | None = None

    @abstractmethod
    def _build(self) -> tuple[FloatArray, IntArray]:
        """Return the losses, shape (T, N), and the sequence they were made for, shape (T,)."""

    def _built(self) -> tuple[FloatArray, IntArray]:
        if self._matrix is None or self._best is None:
            self._matrix, self._best = self._build()
            for array in (self._matrix, self._best):
                array.flags.writeable = False
        return self._matrix, self._best

    def matrix(self) -> FloatArray:
        """Return the losses of all rounds, shape (T, N), read-only; T N doubles of memory."""
        return self._built()[0]

    def comparator(self) -> IntArray:
        """Return the experts of the sequence the world was made for, shape (T,), read-only."""
        return self._built()[1]

    def _draw(self) -> FloatArray:
        row: FloatArray = self.matrix()[self._round]
        return row

    def reset(self, seed: int | None = None) -> None:
        """Go back to the first round: of the same world, or of another one if a seed is given."""
        if seed is not None:
            self._matrix = self._best = None
        super().reset(seed)

    def _answer(self, decision: int, row: FloatArray) -> None:
        pass

    def _restart(self) -> None:
        pass


def within(name: str, value: float, low: float, high: float) -> float:
    """Return a public parameter that lies in (low, high], or raise naming it."""
    if not low < value <= high:
        raise ValueError(f"{name} must be in ({low:g}, {high:g}]; got {value!r}")
    return value


def world_switches(value: int, horizon: int, experts: int) -> int:
    """Return the number of switches of a world, which needs rounds and experts to switch."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"switches must be an int; got {type(value).__name__}")
    largest = horizon - 1 if experts > 1 else 0
    if not 0 <= value <= largest:
        raise ValueError(
            f"switches must be in [0, {largest}] for {horizon} rounds and {experts} experts; "
            f"got {value}"
        )
    return int(value)


def segment_starts(horizon: int, segments: int) -> IntArray:
    """Return where segments of almost equal length start, shape (segments,)."""
    return np.arange(segments, dtype=np.int64) * horizon // segments
