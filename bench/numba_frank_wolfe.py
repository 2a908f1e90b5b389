"""Private Frank-Wolfe on an l_p ball compiled by Numba: logistic loss, binary-tree noise."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba_tree import LEVELS, _level
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_fast = njit(fastmath=True, error_model="numpy")


@_fast
def _clipping(row, p, bound):
    """The dual norm's root is taken only of rows that are clipped."""
    size = 0.0
    for x in row:
        size += x * x if p == 2.0 else abs(x) if p < 0.0 else abs(x) ** 3
    if p < 0.0:
        return 1.0 if size <= bound else bound / size
    if p == 2.0:
        return 1.0 if size <= bound * bound else bound / np.sqrt(size)
    return 1.0 if size <= bound**3 else bound / size ** (1.0 / 3.0)


@_fast
def _vertex(released, p, radius, vertex):
    size = 0.0
    for j in range(released.shape[0]):
        g = released[j]
        vertex[j] = -radius * np.sign(g) if p < 0.0 else g if p == 2.0 else g * abs(g)
        size += g * vertex[j]
    if p > 0.0:
        root = np.sqrt(size) if p == 2.0 else size ** (2.0 / 3.0)
        for j in range(released.shape[0]):
            vertex[j] *= -radius / root


@_fast
def _run(t, rows, labels, generator, law, theta, before, total, prefix, released, vertex, out):
    p, radius, bound, leaf_bound, scale = law
    for i in range(rows.shape[0]):
        k = t + i + 1
        row = rows[i]
        factor = _clipping(row, p, bound)
        now = then = 0.0
        for j in range(row.shape[0]):
            now += theta[j] * row[j]
            then += before[j] * row[j]
        now, then = factor * now, factor * then
        out[i] = max(now, 0.0) + np.log1p(np.exp(-abs(now))) - labels[i] * now
        slope = k * (1.0 / (1.0 + np.exp(-now)) - labels[i])
        slope -= (k - 1) * (1.0 / (1.0 + np.exp(-then)) - labels[i])
        leaf = factor * min(max(slope, -leaf_bound), leaf_bound)
        level, rest = _level(k), k & (k - 1)
        base = _level(rest) if rest else LEVELS - 1  # the last level stays zero
        for j in range(row.shape[0]):
            noise = prefix[base, j] + scale * generator.standard_normal()
            prefix[level, j] = noise
            total[j] += leaf * row[j]
            released[j] = total[j] + noise
        _vertex(released, p, radius, vertex)
        for j in range(row.shape[0]):
            before[j] = theta[j]
            theta[j] += (vertex[j] - theta[j]) / (k + 1)


class FrankWolfe:
    """A whole learner for p = 3/2, 2 or infinity; its normals come from a compiled generator."""

    def __init__(
        self, dimension: int, *, p: float, radius: float, bound: float, leaf_bound: float,
        scale: float, seed: int = 1,
    ) -> None:  # fmt: skip
        if p not in (1.5, 2.0, math.inf):
            raise ValueError("p must be 3/2, 2 or infinity")
        # Relaxed arithmetic knows no infinity.
        self._law = (-1.0 if math.isinf(p) else p, radius, bound, leaf_bound, scale)
        self._generator = np.random.default_rng(seed)
        self._t = 0
        self.decision = np.zeros(dimension)
        state = [np.zeros(dimension) for _ in range(4)]
        self._state = (*state[:2], np.zeros((LEVELS, dimension)), *state[2:])

    def run(self, rows: FloatArray, labels: FloatArray) -> FloatArray:
        """Play the rows, and return the losses."""
        losses = np.empty(len(labels))
        state = (self._law, self.decision, *self._state, losses)
        _run(self._t, rows, labels, self._generator, *state)
        self._t += len(labels)
        return losses
