"""Streams of linear regression whose true coefficients change."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import FloatArray, choice, positive_int, real_in
from dpoco.environments._base import seed_sequence

__all__ = ["DriftingRegression"]

KINDS = ("constant", "turning", "jumping", "season", "flip", "fading", "anisotropic", "noise")


class DriftingRegression:
    """Features on the unit sphere, and labels of a linear model that moves.

    Parameters
    ----------
    kind : str
        What happens. "constant": nothing. "turning": the truth turns by 90 degrees in `period`
        rounds. "jumping": it is drawn again every `period` rounds. "season": it swings by 45
        degrees to either side. "flip": it changes its sign after `period` rounds. "fading": nothing
        happens to the truth, but one half of the features fades while the other comes.
        "anisotropic": features of unequal variance. "noise": labels do not depend on features.
    rounds, dimension : int
        Number of rounds T, and of features d, at least 2.
    period : int, optional
        Rounds; a quarter of all by default ("flip": half).
    noise : float, default 0.3
        Standard deviation of labels about the truth. Labels are clipped to [-1, 1].
    seed : int, optional
        Seed of the stream, which does not depend on any decision.

    Attributes
    ----------
    features : ndarray, shape (T, d)
    labels : ndarray, shape (T,)
    truth : ndarray, shape (T, d)
        Coefficients of every round, of length 1 (0 for "noise").

    Examples
    --------
    >>> import dpoco
    >>> world = dpoco.environments.DriftingRegression("turning", 1000, 3, seed=1)
    >>> world.features.shape, world.labels.shape
    ((1000, 3), (1000,))
    """

    def __init__(
        self,
        kind: str,
        rounds: int,
        dimension: int,
        *,
        period: int | None = None,
        noise: float = 0.3,
        seed: int | None = None,
    ) -> None:
        self.kind = choice("kind", kind, KINDS)
        n = positive_int("rounds", rounds)
        # A line has no directions to turn to.
        d = positive_int("dimension", dimension, minimum=2)
        deviation = real_in("noise", noise, "[0, inf)")
        # A quarter, so that a learner sees several periods; a flip comes once, in the middle.
        if period is None:
            period = max(1, n // (2 if kind == "flip" else 4))
        self.period = positive_int("period", period)
        generator = np.random.default_rng(seed_sequence(seed))
        # Features first: worlds of one seed have the same draws for them, whatever their kind.
        features = self._features(generator, n, d)
        self.truth = self._truth(generator, n, d)
        means = np.einsum("td,td->t", features, self.truth)
        scale = 0.5 if kind == "noise" else deviation
        self.features = features
        self.labels = np.clip(means + scale * generator.normal(size=n), -1.0, 1.0)
        for values in (self.features, self.labels, self.truth):
            values.setflags(write=False)

    def _features(self, generator: np.random.Generator, n: int, d: int) -> FloatArray:
        """Return the features of all rounds, shape (T, d), of length 1 at most."""
        features = generator.normal(size=(n, d))
        if self.kind == "anisotropic":
            features *= np.linspace(1.0, 0.1, d)
        elif self.kind == "fading":
            # Shares of one half each in the middle; squares add up to 1 in every round.
            come = np.sqrt(np.linspace(0.0, 1.0, n))[:, None]
            features[:, : d // 2] *= np.sqrt(1.0 - np.square(come))
            features[:, d // 2 :] *= come
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        # One factor for all rows keeps small directions small.
        largest = lengths.max() if self.kind == "anisotropic" else np.maximum(lengths, 1e-9)
        return np.asarray(features / largest)

    def _truth(self, generator: np.random.Generator, n: int, d: int) -> FloatArray:
        """Return the coefficients of all rounds, shape (T, d)."""
        # Two directions at right angles: a turn between them keeps the length.
        first, second = np.linalg.qr(generator.normal(size=(d, 2)))[0].T
        t = np.arange(n)
        if self.kind == "noise":
            return np.zeros((n, d))
        if self.kind == "jumping":
            drawn = generator.normal(size=(n // self.period + 1, d))
            drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
            return np.asarray(drawn[t // self.period])
        if self.kind == "flip":
            return np.asarray(np.where(t < self.period, 1.0, -1.0)[:, None] * first)
        angles = np.zeros(n)
        if self.kind == "turning":
            angles = 0.5 * math.pi * t / self.period
        elif self.kind == "season":
            angles = 0.25 * math.pi * np.sin(2.0 * math.pi * t / self.period)
        return np.asarray(np.cos(angles)[:, None] * first + np.sin(angles)[:, None] * second)

    def regret(self, losses: ArrayLike) -> float:
        """Return the mean squared loss of decisions above that of the true coefficients.

        Parameters
        ----------
        losses : array_like, shape (T,)
            Squared losses of all rounds.

        Raises
        ------
        ValueError
            For another number of losses.
        """
        own: NDArray[np.float64] = np.asarray(losses, dtype=np.float64)
        if own.shape != self.labels.shape:
            raise ValueError(f"losses must have shape {self.labels.shape}; got {own.shape}")
        best = np.square(np.einsum("td,td->t", self.features, self.truth) - self.labels)
        return float((own - best).mean())

    def __repr__(self) -> str:
        rounds, dimension = self.features.shape
        return f"DriftingRegression({self.kind!r}, {rounds}, {dimension}, period={self.period})"
