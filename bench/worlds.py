"""Worlds of experts in which some learners do badly: waves, blocks and hidden experts."""

from __future__ import annotations

import math

import numpy as np

from dpoco._validation import FloatArray, IntArray, positive_float, positive_int, real_in
from dpoco.environments import Oblivious, SwitchingStochastic


class ObliviousSwitching(SwitchingStochastic):
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
        starts = phases * self.horizon // self.phases
        best = np.repeat(good, np.diff(starts, append=self.horizon))
        # After the first rounds of a phase no expert loses: a longer horizon adds no regret.
        losses = np.zeros((self.horizon, self.experts))
        for start in starts:
            losses[start : start + self.shown] = 1.0
        losses[np.arange(self.horizon), best] = 0.0
        return losses, best


def _losses_with_gap(best: IntArray, experts: int, gap: float) -> FloatArray:
    """Return 1/2 + gap/2 everywhere but for the good expert of each round, who has 1/2 - gap/2."""
    table = np.full((len(best), experts), 0.5 + 0.5 * gap)
    table[np.arange(len(best)), best] = 0.5 - 0.5 * gap
    return table
