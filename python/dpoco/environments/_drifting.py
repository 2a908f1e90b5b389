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
    """Features on the unit sphere, and labels of a linear model that changes.

    Parameters
    ----------
    kind : str
        Kind of change. "constant": none. "turning": the truth turns by 90 degrees in `period`
        rounds. "jumping": it is drawn again every `period` rounds. "season": it swings by 45
        degrees to both sides. "flip": it changes its sign after `period` rounds. "fading": the
        truth is constant, but one half of the features fades out while the other fades in.
        "anisotropic": features have unequal variances. "noise": labels do not depend on features.
    rounds, dimension : int
        Number of rounds T, and number of features d, at least 2.
    period : int, optional
        In rounds; by default a quarter of all rounds ("flip": half).
    noise : float, default 0.3
        Standard deviation of labels about the truth. Labels are clipped to [-1, 1].
    seed : int, optional
        Seed of the stream, which does not depend on decisions.

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
        # In one dimension there is no direction to turn to.
        d = positive_int("dimension", dimension, minimum=2)
        deviation = real_in("noise", noise, "[0, inf)")
        # A quarter, so that a learner sees several periods. A flip occurs once, in the middle.
        if period is None:
            period = max(1, n // (2 if kind == "flip" else 4))
        self.period = positive_int("period", period)
        generator = np.random.default_rng(seed_sequence(seed))
        # Features come first, so that streams of one seed have the same feature draws for every
        # kind.
        features = self._features(generator, n, d)
        self.truth = self._truth(generator, n, d)
        means = np.einsum("td,td->t", features, self.truth)
        scale = 0.5 if kind == "noise" else deviation
        self.features = features
        self.labels = np.clip(means + scale * generator.normal(size=n), -1.0, 1.0)
        for values in (self.features, self.labels, self.truth):
            values.setflags(write=False)

    def _features(self, generator: np.random.Generator, n: int, d: int) -> FloatArray:
        """Return the features of all rounds, shape (T, d), with length at most 1."""
        features = generator.normal(size=(n, d))
        if self.kind == "anisotropic":
            features *= np.linspace(1.0, 0.1, d)
        elif self.kind == "fading":
            # Both halves have equal shares in the middle, and the squares sum to 1 in every round.
            come = np.sqrt(np.linspace(0.0, 1.0, n))[:, None]
            features[:, : d // 2] *= np.sqrt(1.0 - np.square(come))
            features[:, d // 2 :] *= come
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        # A common factor for all rows keeps small directions small.
        largest = lengths.max() if self.kind == "anisotropic" else np.maximum(lengths, 1e-9)
        return np.asarray(features / largest)

    def _truth(self, generator: np.random.Generator, n: int, d: int) -> FloatArray:
        """Return the coefficients of all rounds, shape (T, d)."""
        # Two orthogonal directions, so that turning between them preserves the length.
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
