"""A world in which every private learner must lose."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_float, positive_int, real_float
from dpoco.environments._base import Oblivious, segment_starts

__all__ = ["Packing"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Packing(Oblivious):
    """One hidden good expert per phase, shown too briefly for a private learner to find it.

    The experts are dealt into S disjoint groups of M = floor(N / S), one for each of S phases of
    almost equal length. In the first m = floor(log(M) / (2 epsilon)) rounds of a phase an expert
    that is uniform in the phase's group loses 0 and all others lose 1; in the rest of the phase
    nobody loses anything. The sequence of the good experts switches S - 1 times and loses nothing.

    Parameters
    ----------
    experts : int
        Number of experts N.
    horizon : int, optional
        Number of rounds T >= S m; None is S m.
    epsilon : float
        Budget of the learners the world is made for, which sets m. It must be at most log(M) / 2,
        so that m >= 1.
    phases : int, default 1
        Number of phases S.
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
        horizon: int | None = None,
        *,
        epsilon: float,
        phases: int = 1,
        seed: int | None = None,
    ) -> None:
        self._phases = positive_int("phases", phases)
        self._group = positive_int("experts", experts) // self._phases
        self._epsilon = positive_float("epsilon", epsilon)
        spread = math.log(self._group) if self._group > 0 else 0.0
        self._shown = math.floor(spread / (2.0 * self._epsilon))
        if self._shown < 1:
            raise ValueError(
                f"{experts} experts in {phases} phases are too few for epsilon = {epsilon:g}: "
                "log(experts / phases) must be at least 2 epsilon"
            )
        least = self._phases * self._shown
        super().__init__(experts, least if horizon is None else horizon, seed=seed)
        if self.horizon < least:
            raise ValueError(f"horizon must be at least {least}; got {self.horizon}")

    @property
    def phases(self) -> int:
        """Number of phases S."""
        return self._phases

    @property
    def shown(self) -> int:
        """Rounds of a phase in which anybody loses, m."""
        return self._shown

    @property
    def largest_regret(self) -> float:
        """What the worst learner loses: S m."""
        return float(self._phases * self._shown)

    def regret_lower_bound(self, epsilon: float, delta: float = 0.0) -> float:
        """Return what every private learner loses here in expectation, at least.

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
        failure = real_float("delta", delta)
        if not 0.0 <= failure < 1.0:
            raise ValueError(f"delta must be in [0, 1); got {failure!r}")
        largest = 0.0
        for k in range(1, self._shown + 1):
            exponent = budget * k
            if exponent > math.log(self._group):
                break
            shared = failure * math.expm1(exponent) / math.expm1(budget)
            largest = max(largest, k * (1.0 - math.exp(exponent) / self._group - shared))
        return self._phases * largest

    def _build(self) -> tuple[FloatArray, IntArray]:
        generator = self._generator()
        phases = np.arange(self._phases, dtype=np.int64)
        good = phases * self._group + generator.integers(self._group, size=self._phases)
        starts = segment_starts(self.horizon, self._phases)
        best = np.repeat(good, np.diff(starts, append=self.horizon))
        losses = np.zeros((self.horizon, self.experts))
        for start in starts:
            losses[start : start + self._shown] = 1.0
        losses[np.arange(self.horizon), best] = 0.0
        return losses, best
