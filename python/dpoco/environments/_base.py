"""Environments for experts: recorded, switching or hidden losses, and one that reacts."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpoco._validation import FloatArray, IntArray, positive_int, real_in, whole_number
from dpoco.errors import HorizonExceeded

LARGEST_WORLD = 2**40


class Environment(ABC):
    """Base of the environments; subclasses draw the losses and may react to decisions.

    In a round, the losses are computed, the learner decides, and `observe` reveals its decision to
    the environment. Losses are in [0, 1]. The environment has its own random numbers, and the i-th
    one does not depend on what the learner does.

    Parameters
    ----------
    experts : int
        Number of experts N >= 1.
    horizon : int
        Number of rounds T >= 1.
    seed : int, optional
        Seed of the environment. None takes one from the operating system.

    Attributes
    ----------
    experts, horizon : int
        N and T. Other parameters are also attributes.
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
        """Return the environment's random numbers from their beginning."""
        # A sequence can be restarted; a generator would continue.
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
            # Learner, caller and trace share it, so nobody may change it.
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
        # Draw the losses first if necessary, because they must not depend on this decision.
        self._answer(played, self.losses())
        self._current = None
        self.round += 1

    def reset(self, seed: int | None = None) -> None:
        """Return to the first round of the same environment, or of another one with a new seed."""
        if seed is not None:
            self._sequence = seed_sequence(seed)
        self.round = 0
        self._current = None
        self._restart(seed is not None)

    @abstractmethod
    def _restart(self, another: bool) -> None:
        """Forget the rounds played, and the losses if the environment has changed."""

    @abstractmethod
    def _draw(self) -> FloatArray:
        """Return the losses of round `self.round`."""

    @abstractmethod
    def _answer(self, decision: int, row: FloatArray) -> None:
        """Take note of a decision and the losses in its round."""

    @abstractmethod
    def comparator(self) -> IntArray:
        """Return the sequence of experts for which the losses were made, one per round.

        It depends on how the losses were made, but not on their random outcome. The best sequence
        in hindsight, `dpoco.evaluation.best_switching_sequence`, may be better.
        """

    def __repr__(self) -> str:
        return f"<dpoco {type(self).__name__}: {self.horizon} rounds, {self.experts} experts>"


class Oblivious(Environment):
    """Base of the environments that fix all losses before the first round.

    For these, ``learner.run(world.matrix())`` is the same game as `play`, in compiled code.
    """

    _matrix: FloatArray | None = None
    _best: IntArray | None = None

    @abstractmethod
    def _build(self) -> tuple[FloatArray, IntArray]:
        """Return the losses, shape (T, N), and the sequence they were made for, shape (T,)."""

    def _build_once(self) -> tuple[FloatArray, IntArray]:
        """Return the result of `_build`, computed on first use."""
        if self._matrix is None or self._best is None:
            self._matrix, self._best = self._build()
            for array in (self._matrix, self._best):
                array.flags.writeable = False
        return self._matrix, self._best

    def matrix(self) -> FloatArray:
        """Return the losses of all rounds, shape (T, N), read-only; T N doubles of memory."""
        return self._build_once()[0]

    def comparator(self) -> IntArray:
        """Return the sequence of experts for which the losses were made, shape (T,), read-only."""
        return self._build_once()[1]

    def _draw(self) -> FloatArray:
        row: FloatArray = self.matrix()[self.round]
        return row

    def _answer(self, decision: int, row: FloatArray) -> None:
        pass

    def _restart(self, another: bool) -> None:
        # The same environment has the same losses, which take time to compute.
        if another:
            self._matrix = self._best = None


def seed_sequence(seed: int | None) -> np.random.SeedSequence:
    """Return the root of an environment's random numbers; None is the system's entropy."""
    # It stores the entropy, so that `reset` also repeats an environment without a seed.
    return np.random.SeedSequence(None if seed is None else whole_number("seed", seed))


class SwitchingStochastic(Oblivious):
    """Losses of 0 or 1, independent and identically distributed between switches.

    The horizon is split into S + 1 segments of almost equal length. In each, one expert has a loss
    with probability 1/2 - gap/2 and all others with probability 1/2 + gap/2. The good expert is
    uniform among those that were not good in the previous segment.

    Parameters
    ----------
    experts : int
        Number of experts N; at least 2 if there are switches.
    horizon : int
        Number of rounds T.
    switches : int, default 0
        How often the good expert changes, S in [0, T - 1].
    gap : float, default 0.4
        Difference of the mean losses of the good expert and the others, in (0, 1].
    seed : int, optional
        Seed of the environment. None takes one from the operating system.

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
        # Switching needs several rounds and experts.
        most = self.horizon - 1 if self.experts > 1 else 0
        self.switches = whole_number("switches", switches, 0, most)
        self.gap = real_in("gap", gap, "(0, 1]")

    def _good(self, generator: np.random.Generator, starts: IntArray) -> IntArray:
        """Return the good expert of each round, different in consecutive segments."""
        first = generator.integers(self.experts)
        more = len(starts) - 1
        # A step of 1 to N - 1, modulo N, never returns to the same expert.
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
    """Return 1/2 - gap/2 for the good expert of each round, and 1/2 + gap/2 for all others."""
    table = np.full((len(best), experts), 0.5 + 0.5 * gap)
    table[np.arange(len(best)), best] = 0.5 - 0.5 * gap
    return table
