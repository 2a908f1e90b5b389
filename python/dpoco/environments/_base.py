"""Worlds of experts: recorded, switching or hidden losses, and one that answers to decisions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from dpoco._validation import (
    FloatArray,
    IntArray,
    positive_float,
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


def world_switches(value: int, horizon: int, experts: int) -> int:
    """Return the number of switches of a world, which needs rounds and experts to switch."""
    return whole_number("switches", value, 0, horizon - 1 if experts > 1 else 0)


def segment_starts(horizon: int, segments: int) -> IntArray:
    """Return where segments of almost equal length start, shape (segments,)."""
    return np.arange(segments, dtype=np.int64) * horizon // segments


class _Switching(Oblivious):
    """Base of the worlds with a good expert that changes."""

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
        self.switches = world_switches(switches, self.horizon, self.experts)
        self.gap = real_in("gap", gap, "(0, 1]")

    def _good(self, generator: np.random.Generator, starts: IntArray) -> IntArray:
        """Return the good expert of each round; no two segments in a row have the same."""
        first = generator.integers(self.experts)
        more = len(starts) - 1
        # A step of 1 to N - 1, modulo N, never leads back to the same expert.
        steps = generator.integers(1, self.experts, more) if more else np.empty(0, np.int64)
        good = np.cumsum(np.concatenate([[first], steps])) % self.experts
        return np.repeat(good.astype(np.int64), np.diff(starts, append=self.horizon))


class SwitchingStochastic(_Switching):
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

    def _build(self) -> tuple[FloatArray, IntArray]:
        generator = self._generator()
        starts = segment_starts(self.horizon, self.switches + 1)
        best = self._good(generator, starts)
        means = _losses_with_gap(best, self.experts, self.gap)
        return (generator.random(means.shape) < means).astype(np.float64), best


class ObliviousSwitching(_Switching):
    """Losses fixed in advance that are not stationary even between switches.

    Every expert's loss is a wave, ``1/2 + ((1 - gap) sin(2 pi t / period + phase) +- gap) / 2``,
    with its own phase; the good expert has the minus sign. The S switches fall on uniformly chosen
    rounds. A window of the past misleads a learner about the future; the average over whole periods
    does not.

    Parameters
    ----------
    experts : int
        Number of experts N; at least 2 if there are switches.
    horizon : int
        Number of rounds T.
    switches : int, default 0
        How often the good expert changes, S in [0, T - 1].
    gap : float, default 0.4
        How much less the good expert loses per round, averaged over a period, in (0, 1].
    period : float, default 64.0
        Rounds of a wave, at least 2.
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
        period: float = 64.0,
        seed: int | None = None,
    ) -> None:
        super().__init__(experts, horizon, switches=switches, gap=gap, seed=seed)
        self.period = real_in("period", period, "[2, 1e12]")

    def _build(self) -> tuple[FloatArray, IntArray]:
        generator = self._generator()
        # Without replacement: two switches after one round would be one.
        after = generator.choice(self.horizon - 1, self.switches, replace=False)
        starts = np.concatenate([[0], np.sort(after) + 1]).astype(np.int64)
        best = self._good(generator, starts)
        phases = generator.random(self.experts)
        turns = np.arange(self.horizon)[:, None] / self.period + phases
        # With this height the largest loss is 1/2 + gap/2 + (1 - gap)/2 = 1.
        waves = 0.5 * (1.0 - self.gap) * np.sin(2.0 * np.pi * turns)
        losses = _losses_with_gap(best, self.experts, self.gap) + waves
        return np.clip(losses, 0.0, 1.0), best  # rounding only


class AdversarialBlocks(Oblivious):
    """Experts take turns: in each block one expert loses nothing and all others lose 1.

    Block b belongs to expert b modulo N. A learner that decides once per batch of rounds, or moves
    its weights slowly, loses at every change. Nothing is random.

    Parameters
    ----------
    experts : int
        Number of experts N.
    horizon : int
        Number of rounds T.
    block : int, default 1
        Rounds in a block.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """

    def __init__(
        self, experts: int, horizon: int, *, block: int = 1, seed: int | None = None
    ) -> None:
        super().__init__(experts, horizon, seed=seed)
        self.block = positive_int("block", block)

    def _build(self) -> tuple[FloatArray, IntArray]:
        best = np.arange(self.horizon, dtype=np.int64) // self.block % self.experts
        return _losses_with_gap(best, self.experts, 1.0), best


def _losses_with_gap(best: IntArray, experts: int, gap: float) -> FloatArray:
    """Return 1/2 + gap/2 everywhere but for the good expert of each round, who has 1/2 - gap/2."""
    table = np.full((len(best), experts), 0.5 + 0.5 * gap)
    table[np.arange(len(best)), best] = 0.5 - 0.5 * gap
    return table


class Packing(Oblivious):
    """One hidden good expert per phase; phases are too short for a private learner to find it.

    The experts are dealt into S disjoint groups of M = floor(N / S), one for each of S phases of
    almost equal length. In the first m = floor(log(M) / (2 epsilon)) rounds of a phase an expert
    that is uniform in the phase's group loses 0 and all others lose 1; in the rest of the phase
    no one loses anything. The sequence of the good experts switches S - 1 times and loses nothing.

    Parameters
    ----------
    experts : int
        Number of experts N.
    horizon : int, optional
        Number of rounds T >= S m; None is S m.
    epsilon : float
        Budget of the learners for which the world is made, which sets m. It must be at most log(M)
        / 2, so that m >= 1.
    phases : int, default 1
        Number of phases S.
    seed : int, optional
        Seed of the world. None takes one from the operating system.

    Attributes
    ----------
    shown : int
        Rounds of a phase in which experts lose anything, m.
    largest_regret : float
        Loss of the worst learner: S m.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """

    def __init__(
        self,
        experts: int,
        horizon: int | None = None,
        *,
        epsilon: float,
        phases: int = 1,
        seed: int | None = None,
    ) -> None:
        self.phases = positive_int("phases", phases)
        self._group = positive_int("experts", experts) // self.phases
        # More phases than experts leave groups empty: the next check refuses them.
        spread = math.log(self._group) if self._group > 0 else 0.0
        self.shown = math.floor(spread / (2.0 * positive_float("epsilon", epsilon)))
        if self.shown < 1:
            raise ValueError(
                f"{experts} experts in {phases} phases are too few for epsilon = {epsilon:g}: "
                "log(experts / phases) must be at least 2 epsilon"
            )
        # Before the base is set up, whose horizon may be this number.
        least = self.phases * self.shown
        self.largest_regret = float(least)
        super().__init__(experts, least if horizon is None else horizon, seed=seed)
        if self.horizon < least:
            raise ValueError(f"horizon must be at least {least}; got {self.horizon}")

    def regret_lower_bound(self, epsilon: float, delta: float = 0.0) -> float:
        """Return the least expected loss of every private learner here.

        Parameters
        ----------
        epsilon, delta : float
            The learner's guarantee for one replaced round; epsilon > 0, delta in [0, 1).

        Returns
        -------
        float
            In [0, S m]: the largest ``S k (1 - exp(epsilon k) / M - delta_k)`` over k <= m, with
            ``delta_k = delta (exp(epsilon k) - 1) / (exp(epsilon) - 1)``.

        Notes
        -----
        Fix a phase, the rounds before it and an i <= k. Let world g be the one with good expert g,
        and world 0 the one in which all experts lose 1 in this phase. Before the phase's i-th
        decision they differ in i - 1 < k rounds, so by group privacy
        ``P_g(J_i = g) <= exp(epsilon k) P_0(J_i = g) + delta_k``. Over the M experts of the group
        the probabilities of world 0 add up to at most 1, so a uniform g is hit with probability at
        most ``exp(epsilon k) / M + delta_k``; each miss costs 1. Summing over the first k rounds of
        every phase gives the bound. The expectation is over world and learner.
        """
        budget = positive_float("epsilon", epsilon)
        failure = real_in("delta", delta, "[0, 1)")
        largest = 0.0
        for k in range(1, self.shown + 1):
            exponent = budget * k
            # From here on the bound is negative, and the exponential may overflow.
            if exponent > math.log(self._group):
                break
            # For a small epsilon the differences to 1 would cancel.
            shared = failure * math.expm1(exponent) / math.expm1(budget)
            largest = max(largest, k * (1.0 - math.exp(exponent) / self._group - shared))
        return self.phases * largest

    def _build(self) -> tuple[FloatArray, IntArray]:
        generator = self._generator()
        phases = np.arange(self.phases, dtype=np.int64)
        good = phases * self._group + generator.integers(self._group, size=self.phases)
        starts = segment_starts(self.horizon, self.phases)
        best = np.repeat(good, np.diff(starts, append=self.horizon))
        # After the first rounds of a phase no expert loses: a longer horizon adds no regret.
        losses = np.zeros((self.horizon, self.experts))
        for start in starts:
            losses[start : start + self.shown] = 1.0
        losses[np.arange(self.horizon), best] = 0.0
        return losses, best
