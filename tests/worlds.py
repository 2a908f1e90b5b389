"""Worlds for tests: experts that answer to decisions, and arms whose rewards are 0 or 1."""

from __future__ import annotations

import numpy as np

from dpoco._validation import FloatArray, IntArray
from dpoco.environments import ContextualWorld, Environment


class BurnAfterPlay(Environment):
    """A played expert loses in every later round of the phase.

    There are at most S + 1 phases of L = ceil(T / (S + 1)) rounds (the last may be shorter). At the
    start of a phase every expert gets a hidden bias, 1/4 or 3/4 with equal probability. In each
    round an expert that was already played in this phase loses 1. Any other expert loses 1 with the
    probability of its bias and 0 otherwise, independently. A learner does well only if it keeps
    finding new experts of low bias, that is by asking L adaptively chosen questions of at most L
    samples.

    It is inspired by the lower bound that Asi, Raman and Saha ("Tracking the Best Expert
    Privately") prove for adaptive losses, but it is not the same construction: here **nothing is
    proven**. Decisions that ignore the losses lose about 1/2 a round, and the best expert that is
    never played about 1/4.

    Parameters
    ----------
    experts : int
        Number of experts N >= 4 L, so that there are enough good ones.
    horizon : int
        Number of rounds T.
    switches : int, default 0
        Number of phases minus one, S in [0, T - 1].
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
    O(N) time and memory per round. Regret is the usual one: the comparator meets the losses that
    the learner's decisions caused.
    """

    def __init__(
        self, experts: int, horizon: int, *, switches: int = 0, seed: int | None = None
    ) -> None:
        super().__init__(experts, horizon, seed=seed)
        self.switches = switches
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
        """Return the expert with the least loss in each completed phase.

        Computed in hindsight, for completed rounds.
        """
        done = sum(map(len, self._finished))
        return np.concatenate([*self._finished, self._best_of_phase(self.round - done)])


class LogisticWorld(ContextualWorld):
    """Rewards 1 with probability 1/(1 + exp(-<x, theta_a>)), else 0.

    Parameters
    ----------
    arms, dimension, horizon, norm, context_bound, parameter_bound, sparsity, seed
        As for `ContextualWorld`.
    """

    def _mean_rewards(self, margins: FloatArray) -> FloatArray:
        # The logistic function, in a form that cannot overflow.
        return 0.5 * (1.0 + np.tanh(0.5 * margins))

    def _draw_rewards(self, generator: np.random.Generator, means: FloatArray) -> FloatArray:
        return (generator.random(means.shape) < means).astype(np.float64)

    @property
    def reward_bound(self) -> float:
        """Bound on the absolute value of all rewards."""
        return 1.0
