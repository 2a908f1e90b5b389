"""Worlds of experts: recorded, switching or hidden losses, and one that answers to decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpoco._validation import (
    FloatArray,
    IntArray,
    positive_int,
    real_in,
    whole_number,
)
from dpoco.errors import HorizonExceeded

LARGEST_WORLD = 2**40


class Environment(ABC):
    """Base of the worlds; subclasses draw the losses of a round and may react to decisions.

    In a round, `losses` are computed, the learner decides, and `observe` reveals its decision to
    the world. Losses lie in [0, 1]. The world has its own random numbers: the i-th one does not
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
        N and T. Other parameters of worlds are attributes as well.
    round : int
        Number of completed rounds.
    """

    def __init__(self, experts: int, horizon: int, *, seed: int | None = None) -> None:
        self.experts = positive_int("experts", experts, maximum=LARGEST_WORLD)
        self.horizon = positive_int("horizon", horizon, maximum=LARGEST_WORLD)
        self.round = 0
        self._sequence = seed_sequence(seed)
        self._current: FloatArray | None = None

    def _generator(self) -> np.random.Generator:
        """Return the world's random numbers from their beginning."""
        # A sequence can be asked again; a generator would go on where it was.
        return np.random.default_rng(self._sequence)

    def losses(self) -> FloatArray:
        """Return the losses of the current round, shape (N,), read-only, in [0, 1].

        They are the same on every call and never depend on the decision of this round.

        Raises
        ------
        HorizonExceeded
            After the last round.
        """
        if self._current is None:
            if self.round >= self.horizon:
                raise HorizonExceeded("the world has no rounds left")
            self._current = self._draw()
            # Learner, caller and trace share it: none may change what the others see.
            self._current.flags.writeable = False
        return self._current

    def observe(self, decision: int) -> None:
        """End the round by revealing the learner's decision, an expert in 0..N-1.

        Raises
        ------
        HorizonExceeded
            After the last round.
        ValueError, TypeError
            If it is not an expert; nothing changes.
        """
        played = whole_number("decision", decision, 0, self.experts - 1)
        # The losses are drawn first, if they were not: they must not depend on this decision.
        self._answer(played, self.losses())
        self._current = None
        self.round += 1

    def reset(self, seed: int | None = None) -> None:
        """Go back to the first round of the same world, or of another one if you pass a seed."""
        if seed is not None:
            self._sequence = seed_sequence(seed)
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
        """Return the sequence of experts for which the world was made, one for each round.

        It knows how the world was made, but not the outcome of chance: the best sequence in
        hindsight, `dpoco.evaluation.best_switching_sequence`, may be better.
        """

    def __repr__(self) -> str:
        return f"<dpoco {type(self).__name__}: {self.horizon} rounds, {self.experts} experts>"


class Oblivious(Environment):
    """Base of the worlds that fix all losses before the first round.

    For these, ``learner.run(world.matrix())`` is the same game as `play`, in compiled code.
    """

    _matrix: FloatArray | None = None
    _best: IntArray | None = None

    @abstractmethod
    def _build(self) -> tuple[FloatArray, IntArray]:
        """Return the losses, shape (T, N), and the sequence they were made for, shape (T,)."""

    def _build_once(self) -> tuple[FloatArray, IntArray]:
        """Return what `_build` returns, built when it is first asked for."""
        if self._matrix is None or self._best is None:
            self._matrix, self._best = self._build()
            for array in (self._matrix, self._best):
                array.flags.writeable = False
        return self._matrix, self._best

    def matrix(self) -> FloatArray:
        """Return the losses of all rounds, shape (T, N), read-only; T N doubles of memory."""
        return self._build_once()[0]

    def comparator(self) -> IntArray:
        """Return the sequence of experts for which the world was made, shape (T,), read-only."""
        return self._build_once()[1]

    def _draw(self) -> FloatArray:
        row: FloatArray = self.matrix()[self.round]
        return row

    def _answer(self, decision: int, row: FloatArray) -> None:
        pass

    def _restart(self, another: bool) -> None:
        # The same world has the same losses, which took the time.
        if another:
            self._matrix = self._best = None


def seed_sequence(seed: int | None) -> np.random.SeedSequence:
    """Return the root of a world's random numbers; None is the operating system's entropy."""
    # It keeps the entropy that it took: `reset` repeats a world without a seed as well.
    return np.random.SeedSequence(None if seed is None else whole_number("seed", seed))


class SwitchingStochastic(Oblivious):
    """Losses of 0 or 1, independent and identically distributed between switches.

    The horizon is cut into S + 1 segments of almost equal length. In each, one expert loses with
    probability 1/2 - gap/2 and all others with 1/2 + gap/2; the good one is uniform among those
    that were not good just before.

    Parameters
    ----------
    experts : int
        Number of experts N; at least 2 if there are switches.
    horizon : int
        Number of rounds T.
    switches : int, default 0
        How often the good expert changes, S in [0, T - 1].
    gap : float, default 0.4
        How much less the good expert loses per round, in (0, 1].
    seed : int, optional
        Seed of the world. None takes one from the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """

    def __init__(
        self,
        experts: int,
        horizon: int,
        *,
        switches: int = 0,
        gap: float = 0.4,
        seed: int | None = None,
    ) -> None:
        super().__init__(experts, horizon, seed=seed)
        # A world needs rounds and experts to switch.
        most = self.horizon - 1 if self.experts > 1 else 0
        self.switches = whole_number("switches", switches, 0, most)
        self.gap = real_in("gap", gap, "(0, 1]")

    def _good(self, generator: np.random.Generator, starts: IntArray) -> IntArray:
        """Return the good expert of each round; no two segments in a row have the same."""
        first = generator.integers(self.experts)
        more = len(starts) - 1
        # A step of 1 to N - 1, modulo N, never leads back to the same expert.
        steps = generator.integers(1, self.experts, more) if more else np.empty(0, np.int64)
        good = np.cumsum(np.concatenate([[first], steps])) % self.experts
        return np.repeat(good.astype(np.int64), np.diff(starts, append=self.horizon))

    def _build(self) -> tuple[FloatArray, IntArray]:
        generator = self._generator()
        starts = np.arange(self.switches + 1) * self.horizon // (self.switches + 1)
        best = self._good(generator, starts)
        means = _losses_with_gap(best, self.experts, self.gap)
        return (generator.random(means.shape) < means).astype(np.float64), best


def _losses_with_gap(best: IntArray, experts: int, gap: float) -> FloatArray:
    """Return 1/2 + gap/2 everywhere but for the good expert of each round, who has 1/2 - gap/2."""
    table = np.full((len(best), experts), 0.5 + 0.5 * gap)
    table[np.arange(len(best)), best] = 0.5 - 0.5 * gap
    return table
