"""What a competent user writes in NumPy: loops over rounds, vectorised over coordinates.

Noise is drawn in large pools, everything is updated in place, nothing is recomputed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

POOL_ENTRIES = 2**18
LEVELS = 40


class Pool:
    """Rows of N(0, scale^2), drawn many at a time."""

    def __init__(self, dimension: int, scale: float, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._scale = scale
        self._rows = np.empty((max(1, POOL_ENTRIES // dimension), dimension))

    def rows(self, count: int) -> Iterator[FloatArray]:
        while count > 0:
            part = self._rows[:count]
            self._generator.standard_normal(out=part)
            part *= self._scale
            yield from part
            count -= part.shape[0]


def clip_rows(values: FloatArray, bound: float) -> FloatArray:
    """Clip every row to l2 norm `bound`, all at once."""
    norms = np.sqrt(np.einsum("ij,ij->i", values, values))
    return values * np.minimum(1.0, bound / np.maximum(norms, 1e-300))[:, None]


class Tree:
    """Binary tree with incremental prefix noise."""

    def __init__(self, dimension: int, *, scale: float, bound: float, seed: int = 1) -> None:
        self._pool = Pool(dimension, scale, seed)
        self._bound = bound
        self._t = 0
        self._total = np.zeros(dimension)
        self._zero = np.zeros(dimension)
        self._prefix = [np.zeros(dimension) for _ in range(LEVELS)]

    def run(self, values: FloatArray) -> FloatArray:
        out = np.empty_like(values)
        total, prefix, zero, t = self._total, self._prefix, self._zero, self._t
        add = np.add
        clipped = clip_rows(values, self._bound)
        for g, node, released in zip(clipped, self._pool.rows(len(values)), out, strict=True):
            t += 1
            before = t & (t - 1)
            base = prefix[(before & -before).bit_length() - 1] if before else zero
            noise = prefix[(t & -t).bit_length() - 1]
            add(base, node, noise)
            add(total, g, total)
            add(total, noise, released)
        self._t = t
        return out


class BufferedToeplitz:
    """Buffered linear Toeplitz noise with the given decay rates and weights."""

    def __init__(
        self,
        dimension: int,
        *,
        decay: FloatArray,
        weights: FloatArray,
        scale: float,
        bound: float,
        seed: int = 1,
    ) -> None:
        self._pool = Pool(dimension, scale, seed)
        self._bound = bound
        self._keep = (1.0 - decay)[:, None]
        self._omega = np.ascontiguousarray(weights)
        self._state = np.zeros((len(decay), dimension))
        self._noise = np.zeros(dimension)
        self._total = np.zeros(dimension)
        self._w = np.empty(dimension)

    def run(self, values: FloatArray) -> FloatArray:
        out = np.empty_like(values)
        total, noise, state, w = self._total, self._noise, self._state, self._w
        keep, omega = self._keep, self._omega
        add, multiply, subtract, dot = np.add, np.multiply, np.subtract, np.dot
        clipped = clip_rows(values, self._bound)
        for g, z, released in zip(clipped, self._pool.rows(len(values)), out, strict=True):
            dot(omega, state, w)
            subtract(z, w, w)
            multiply(state, keep, state)
            add(state, w, state)
            add(noise, w, noise)
            add(total, g, total)
            add(total, noise, released)
        return out


class FrankWolfe:
    """Private online Frank-Wolfe on an l_p ball with logistic loss and BLT noise, weights w_k = k.

    scale 0 is the learner without noise.
    """

    def __init__(
        self,
        dimension: int,
        *,
        p: float,
        radius: float,
        feature_bound: float,
        leaf_bound: float,
        scale: float,
        decay: FloatArray,
        weights: FloatArray,
        seed: int = 1,
    ) -> None:
        self._p = p
        self._radius = radius
        self._feature_bound = feature_bound
        self._leaf_bound = leaf_bound
        self._pool = Pool(dimension, scale, seed)
        self._keep = (1.0 - decay)[:, None]
        self._omega = weights
        self._state = np.zeros((len(decay), dimension))
        self._noise = np.zeros(dimension)
        self._total = np.zeros(dimension)
        self._theta = np.zeros(dimension)
        self._previous = np.zeros(dimension)
        self._step = 1

    def _norms(self, features: FloatArray) -> FloatArray:
        """Dual norms of all rows at once."""
        q = 1.0 if math.isinf(self._p) else self._p / (self._p - 1.0)
        return np.linalg.norm(features, ord=q, axis=1)

    def _vertex(self, direction: FloatArray) -> FloatArray:
        if math.isinf(self._p):
            return -self._radius * np.sign(direction)
        if self._p == 2.0:
            return direction * (-self._radius / math.sqrt(direction @ direction))
        magnitude = np.abs(direction)
        magnitude /= magnitude.max()
        powers = magnitude ** (1.0 / (self._p - 1.0))
        factor = -self._radius * (powers @ magnitude) ** (-1.0 / self._p)
        return factor * np.sign(direction) * powers

    def run(self, features: FloatArray, labels: FloatArray) -> FloatArray:
        decisions = np.empty_like(features)
        factors = np.minimum(1.0, self._feature_bound / np.maximum(self._norms(features), 1e-300))
        records = features * factors[:, None]
        for x, y, z, decision in zip(
            records, labels.tolist(), self._pool.rows(len(features)), decisions, strict=True
        ):
            k = self._step
            decision[:] = self._theta
            slope = 1.0 / (1.0 + math.exp(-float(self._theta @ x))) - y
            previous_slope = 1.0 / (1.0 + math.exp(-float(self._previous @ x))) - y
            leaf = k * slope - (k - 1) * previous_slope
            leaf = min(max(leaf, -self._leaf_bound), self._leaf_bound)
            self._total += leaf * x
            w = z - self._omega @ self._state
            self._state *= self._keep
            self._state += w
            self._noise += w
            vertex = self._vertex(self._total + self._noise)
            self._previous = self._theta
            self._theta = self._theta + (vertex - self._theta) / (k + 1)
            self._step = k + 1
        return decisions
