"""Contextual environments: a context per round, which determines the arms' mean rewards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, positive_float, positive_int, real_in, whole_number
from dpoco.environments._base import seed_sequence
from dpoco.errors import HorizonExceeded

_LARGEST = 2**31


class ContextualWorld(ABC):
    """Base of the contextual environments, which draw everything before the first round.

    In a round, `context` is shown, the learner chooses an arm, and `reward` of this arm ends the
    round. The rewards of the other arms exist, but only `rewards` shows them, for evaluation.

    Parameters
    ----------
    arms, dimension, horizon : int
        K, d and T.
    norm : {2, inf}
        2: contexts are uniform on the sphere, coefficients bounded in l2. inf: contexts are uniform
        in the cube, coefficients bounded in l1.
    context_bound : float, default 1.0
        Radius of this sphere, or half the side of this cube.
    parameter_bound : float, default 1.0
        Norm of every arm's coefficients; their direction is uniform.
    sparsity : int, optional
        Number of nonzero coefficients of each arm; default all.
    seed : int, optional
        Seed of the environment. None takes one from the operating system.

    Attributes
    ----------
    arms, dimension, horizon : int
        K, d and T.
    round : int
        Number of completed rounds.
    coefficients : ndarray of float64, shape (K, d), read-only
        The true coefficients.
    contexts : ndarray of float64, shape (T, d), read-only
        Contexts of all rounds.
    means, rewards : ndarray of float64, shape (T, K), read-only
        Expected and actual rewards of all arms in all rounds.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """

    def __init__(
        self,
        arms: int,
        dimension: int,
        horizon: int,
        *,
        norm: float = 2.0,
        context_bound: float = 1.0,
        parameter_bound: float = 1.0,
        sparsity: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.arms = positive_int("arms", arms, maximum=_LARGEST)
        self.dimension = positive_int("dimension", dimension, maximum=_LARGEST)
        self.horizon = positive_int("horizon", horizon, maximum=_LARGEST)
        # The two pairs of dual norms for which bandits exist.
        if norm not in (2.0, np.inf):
            raise ValueError(f"norm must be 2 or inf; got {norm!r}")
        self._norm = float(norm)
        self._context_bound = positive_float("context_bound", context_bound)
        self._parameter_bound = positive_float("parameter_bound", parameter_bound)
        most = self.dimension
        self._sparsity = positive_int(
            "sparsity", most if sparsity is None else sparsity, maximum=most
        )
        # One generator in this order; another order would change the environment of a seed.
        generator = np.random.default_rng(seed_sequence(seed))
        self.round = 0
        self.coefficients = self._draw_coefficients(generator)
        self.contexts = self._draw_contexts(generator)
        self.means = self._mean_rewards(self.contexts @ self.coefficients.T)
        self.rewards = self._draw_rewards(generator, self.means)
        for array in (self.coefficients, self.contexts, self.means, self.rewards):
            array.flags.writeable = False

    def _draw_coefficients(self, generator: np.random.Generator) -> FloatArray:
        """Return the coefficients of all arms, shape (K, d), with the requested norm."""
        drawn = generator.standard_normal((self.arms, self.dimension))
        # Ranks of uniform variates: every set of coordinates is equally likely.
        order = np.argsort(generator.random(drawn.shape), axis=1)
        drawn[np.argsort(order, axis=1) >= self._sparsity] = 0.0
        # In the dual norm, so that |<x, theta>| is at most the product of the two bounds.
        size = np.linalg.norm(drawn, ord=2.0 if self._norm == 2.0 else 1.0, axis=1)
        coefficients: FloatArray = drawn * (self._parameter_bound / size)[:, None]
        return coefficients

    def _draw_contexts(self, generator: np.random.Generator) -> FloatArray:
        """Return the contexts of all rounds, shape (T, d), within their bound."""
        shape = self.horizon, self.dimension
        if self._norm == 2.0:
            drawn = generator.standard_normal(shape)
            # Slightly inside the sphere, so that rounding does not cause clipping.
            drawn *= (self._context_bound * (1.0 - 1e-12) / np.linalg.norm(drawn, axis=1))[:, None]
            return drawn
        return generator.uniform(-self._context_bound, self._context_bound, shape)

    @abstractmethod
    def _mean_rewards(self, margins: FloatArray) -> FloatArray:
        """Return the expected rewards for <x, theta_a>."""

    @abstractmethod
    def _draw_rewards(self, generator: np.random.Generator, means: FloatArray) -> FloatArray:
        """Return rewards with these means."""

    @property
    @abstractmethod
    def reward_bound(self) -> float:
        """Bound on the absolute value of all rewards."""

    def context(self) -> FloatArray:
        """Return the context of the current round, shape (d,), read-only.

        Raises
        ------
        HorizonExceeded
            After the last round.
        """
        if self.round >= self.horizon:
            raise HorizonExceeded("the world has no rounds left")
        row: FloatArray = self.contexts[self.round]
        return row

    def reward(self, action: int) -> float:
        """End the round with an action, an arm in 0..K-1, and return its reward.

        Raises
        ------
        HorizonExceeded
            After the last round.
        ValueError, TypeError
            If it is not an arm; nothing changes.
        """
        # Checked before the round is counted, because an invalid action is not a played round.
        arm = whole_number("action", action, 0, self.arms - 1)
        if self.round >= self.horizon:
            raise HorizonExceeded("the world has no rounds left")
        self.round += 1
        return float(self.rewards[self.round - 1, arm])

    def reset(self) -> None:
        """Return to the first round of the same environment."""
        self.round = 0


class LinearWorld(ContextualWorld):
    """Rewards <x, theta_a> plus uniform noise.

    Parameters
    ----------
    arms, dimension, horizon, norm, context_bound, parameter_bound, sparsity, seed
        See `ContextualWorld`.
    reward_noise : float, default 0.1
        Largest deviation of a reward from its mean.

    Examples
    --------
    >>> world = LinearWorld(2, 3, 100, seed=0)
    >>> world.contexts.shape, world.rewards.shape
    ((100, 3), (100, 2))
    """

    def __init__(
        self, arms: int, dimension: int, horizon: int, *, reward_noise: float = 0.1, **options: Any
    ) -> None:
        # Before the base class is set up, because that draws the rewards.
        self._reward_noise = real_in("reward_noise", reward_noise, "[0, inf)")
        super().__init__(arms, dimension, horizon, **options)

    def _mean_rewards(self, margins: FloatArray) -> FloatArray:
        return margins

    def _draw_rewards(self, generator: np.random.Generator, means: FloatArray) -> FloatArray:
        return means + self._reward_noise * generator.uniform(-1.0, 1.0, means.shape)

    @property
    def reward_bound(self) -> float:
        """Bound on the absolute value of all rewards."""
        return self._context_bound * self._parameter_bound + self._reward_noise
