"""Oblivious worlds in which the good expert changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int, real_float
from dpoco.environments._base import Oblivious, segment_starts, within, world_switches

__all__ = ["AdversarialBlocks", "ObliviousSwitching", "SwitchingStochastic"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
        How much less the good expert loses a round, in (0, 1].
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
        self._switches = world_switches(switches, self.horizon, self.experts)
        self._gap = within("gap", real_float("gap", gap), 0.0, 1.0)

    @property
    def switches(self) -> int:
        """How often the good expert changes, S."""
        return self._switches

    @property
    def gap(self) -> float:
        """How much less the good expert loses a round, in expectation."""
        return self._gap

    def _build(self) -> tuple[FloatArray, IntArray]:
        generator = self._generator()
        starts = segment_starts(self.horizon, self.switches + 1)
        best = _sequence(starts, self.horizon, _changing(generator, len(starts), self.experts))
        means = _gapped(best, self.experts, self.gap)
        return (generator.random(means.shape) < means).astype(np.float64), best


class ObliviousSwitching(Oblivious):
    """Losses fixed in advance that are not stationary even between switches.

    Every expert's loss is a wave, ``1/2 + ((1 - gap) sin(2 pi t / period + phase) +- gap) / 2``,
    with a phase of its own; the good expert has the minus sign. The S switches fall on uniformly
    chosen rounds. Whoever trusts a window of the past to speak for the future is misled; the
    average over whole periods is not.

    Parameters
    ----------
    experts : int
        Number of experts N; at least 2 if there are switches.
    horizon : int
        Number of rounds T.
    switches : int, default 0
        How often the good expert changes, S in [0, T - 1].
    gap : float, default 0.4
        How much less the good expert loses a round, averaged over a period, in (0, 1].
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
        super().__init__(experts, horizon, seed=seed)
        self._switches = world_switches(switches, self.horizon, self.experts)
        self._gap = within("gap", real_float("gap", gap), 0.0, 1.0)
        self._period = real_float("period", period)
        if not 2.0 <= self._period <= 1e12:
            raise ValueError(f"period must be in [2, 1e12]; got {self._period!r}")

    @property
    def switches(self) -> int:
        """How often the good expert changes, S."""
        return self._switches

    def _build(self) -> tuple[FloatArray, IntArray]:
        generator = self._generator()
        after = generator.choice(self.horizon - 1, self.switches, replace=False)
        starts = np.concatenate([[0], np.sort(after) + 1]).astype(np.int64)
        best = _sequence(starts, self.horizon, _changing(generator, len(starts), self.experts))
        phases = generator.random(self.experts)
        turns = np.arange(self.horizon)[:, None] / self._period + phases
        waves = 0.5 * (1.0 - self._gap) * np.sin(2.0 * np.pi * turns)
        losses = _gapped(best, self.experts, self._gap) + waves
        return np.clip(losses, 0.0, 1.0), best  # rounding only


class AdversarialBlocks(Oblivious):
    """Experts take turns: in each block one loses nothing and all others lose everything.

    Block b belongs to expert b modulo N. A learner that decides once in a batch of rounds, or
    moves its weights slowly, pays at every change. Nothing is random.

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
        self._block = positive_int("block", block)

    @property
    def block(self) -> int:
        """Rounds in a block."""
        return self._block

    def _build(self) -> tuple[FloatArray, IntArray]:
        best = np.arange(self.horizon, dtype=np.int64) // self._block % self.experts
        return _gapped(best, self.experts, 1.0), best


def _changing(generator: np.random.Generator, count: int, experts: int) -> IntArray:
    """Return a uniform sequence of experts no two of which in a row are equal."""
    first = generator.integers(experts)
    steps = generator.integers(1, experts, count - 1) if count > 1 else np.empty(0, np.int64)
    return np.concatenate([[first], first + np.cumsum(steps)]).astype(np.int64) % experts


def _sequence(starts: IntArray, horizon: int, good: IntArray) -> IntArray:
    """Return the good expert of each round, given that of each segment."""
    return np.repeat(good, np.diff(starts, append=horizon))


def _gapped(best: IntArray, experts: int, gap: float) -> FloatArray:
    """Return 1/2 + gap/2 everywhere but for the good expert of each round, who has 1/2 - gap/2."""
    table = np.full((len(best), experts), 0.5 + 0.5 * gap)
    table[np.arange(len(best)), best] = 0.5 - 0.5 * gap
    return table
