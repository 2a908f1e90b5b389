"""What every world has; recorded losses; and a world that answers to decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, IntArray, float_array, positive_int, whole_number
from dpoco.errors import HorizonExceeded

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

    Attributes
    ----------
    experts, horizon : int
        N and T. Other parameters of worlds are attributes, too.
    round : int
        Rounds that are over.
    """

    def __init__(self, experts: int, horizon: int, *, seed: int | None = None) -> None:
        self.experts = positive_int("experts", experts, maximum=LARGEST_WORLD)
        self.horizon = positive_int("horizon", horizon, maximum=LARGEST_WORLD)
        self.round = 0
        self._sequence = seeded(seed)
        self._current: FloatArray | None = None

    def _generator(self) -> np.random.Generator:
        """Return the world's random numbers from their beginning."""
        return np.random.default_rng(self._sequence)

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
            if self.round >= self.horizon:
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
        played = whole_number("decision", decision, 0, self.experts - 1)
        self._answer(played, self.losses())
        self._current = None
        self.round += 1

    def reset(self, seed: int | None = None) -> None:
        """Go back to the first round: of the same world, or of another one if a seed is given."""
        if seed is not None:
            self._sequence = seeded(seed)
        self.round = 0
        self._current = None
        self._restart(seed is not None)

    @abstractmethod
    def _restart(self, another: bool) -> None:
        """Forget the rounds played, and the losses if it is another world now."""

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
        return f"<dpoco {type(self).__name__}: {self.horizon} rounds, {self.experts} experts>"


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
        row: FloatArray = self.matrix()[self.round]
        return row

    def _answer(self, decision: int, row: FloatArray) -> None:
        pass

    def _restart(self, another: bool) -> None:
        if another:
            self._matrix = self._best = None


def seeded(seed: int | None) -> np.random.SeedSequence:
    """Return the root of a world's random numbers; None is the operating system's entropy."""
    return np.random.SeedSequence(None if seed is None else whole_number("seed", seed))


def world_switches(value: int, horizon: int, experts: int) -> int:
    """Return the number of switches of a world, which needs rounds and experts to switch."""
    return whole_number("switches", value, 0, horizon - 1 if experts > 1 else 0)


def segment_starts(horizon: int, segments: int) -> IntArray:
    """Return where segments of almost equal length start, shape (segments,)."""
    return np.arange(segments, dtype=np.int64) * horizon // segments


class Recorded(Oblivious):
    """Losses that were recorded elsewhere, one row a round.

    Its comparator is the expert with the least total loss.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        In [0, 1]. Copied.

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes, or entries that are not in [0, 1].
    """

    def __init__(self, losses: Any) -> None:
        rows = float_array("losses", losses, (None, None))
        if rows.size == 0:
            raise ValueError(f"losses must have rounds and experts; got shape {rows.shape}")
        if not np.all((rows >= 0.0) & (rows <= 1.0)):
            raise ValueError("losses must be in [0, 1]")
        super().__init__(rows.shape[1], rows.shape[0], seed=0)
        self._rows = rows.copy()

    def _build(self) -> tuple[FloatArray, IntArray]:
        best = int(np.argmin(self._rows.sum(axis=0)))
        return self._rows, np.full(self.horizon, best, dtype=np.int64)


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

    Attributes
    ----------
    phase_length : int
        Rounds of a phase, L.

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
        self.switches = world_switches(switches, self.horizon, self.experts)
        self.phase_length = -(-self.horizon // (self.switches + 1))
        if self.experts < 4 * self.phase_length:
            raise ValueError(
                f"experts must be at least 4 times a phase's {self.phase_length} rounds; "
                f"got {experts}"
            )
        self._restart(False)

    def _restart(self, another: bool) -> None:
        self._tape = self._generator()
        self._biases = np.zeros(self.experts)
        self._burnt = np.zeros(self.experts, dtype=np.bool_)
        self._totals = np.zeros(self.experts)
        self._finished: list[IntArray] = []

    def _draw(self) -> FloatArray:
        if self.round % self.phase_length == 0:
            if self.round > 0:
                self._finished.append(self._best_of_phase(self.phase_length))
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
