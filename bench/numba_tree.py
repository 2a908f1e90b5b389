"""A private binary-tree prefix sum compiled by Numba: the fastest thing users write without C++.

The same job as `dpoco.mechanisms.ContinualSum`: clip, add, one fresh draw per completed node, the
prefix noise updated incrementally. Not the same randomness: NumPy's generators are not
cryptographic, and their state can be recovered from the noise.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LEVELS = 40
POOL_ENTRIES = 2**16

_fast = njit(fastmath=True, error_model="numpy")


@_fast
def _level(t):
    level = 0
    while t & 1 == 0:
        t >>= 1
        level += 1
    return level


@_fast
def _push(t, values, row, draws, draw, scale, bound, total, prefix, out):
    d = values.shape[1]
    squares = 0.0
    for j in range(d):
        squares += values[row, j] * values[row, j]
    factor = 1.0 if squares <= bound * bound else bound / np.sqrt(squares)
    level = _level(t)
    before = t & (t - 1)
    if before == 0:
        for j in range(d):
            noise = scale * draws[draw, j]
            prefix[level, j] = noise
            total[j] += factor * values[row, j]
            out[row, j] = total[j] + noise
    else:
        base = _level(before)
        for j in range(d):
            noise = prefix[base, j] + scale * draws[draw, j]
            prefix[level, j] = noise
            total[j] += factor * values[row, j]
            out[row, j] = total[j] + noise


@_fast
def _run_pool(t, values, first, count, draws, scale, bound, total, prefix, out):
    for i in range(count):
        _push(t + i + 1, values, first + i, draws, i, scale, bound, total, prefix, out)


@_fast
def _run_generator(t, values, generator, draws, scale, bound, total, prefix, out):
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            draws[0, j] = generator.standard_normal()
        _push(t + i + 1, values, i, draws, 0, scale, bound, total, prefix, out)


@_fast
def _run_legacy(t, values, draws, scale, bound, total, prefix, out):
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            draws[0, j] = np.random.standard_normal()
        _push(t + i + 1, values, i, draws, 0, scale, bound, total, prefix, out)


class Tree:
    """Running private sums; `noise` names where the normal draws come from.

    "generator": a `numpy.random.Generator` inside the compiled loop. "pool": large pools filled by
    NumPy. "legacy": `numpy.random.standard_normal` inside the compiled loop.
    """

    NOISE = ("generator", "pool", "legacy")

    def __init__(
        self, dimension: int, *, scale: float, bound: float, noise: str, seed: int = 1
    ) -> None:
        self._scale = scale
        self._bound = bound
        self._noise = noise
        self._generator = np.random.default_rng(seed)
        self._t = 0
        self._total = np.zeros(dimension)
        self._prefix = np.zeros((LEVELS, dimension))
        rows = max(1, POOL_ENTRIES // dimension) if noise == "pool" else 1
        self._draws = np.empty((rows, dimension))

    def run(self, values: FloatArray) -> FloatArray:
        out = np.empty_like(values)
        law = (self._scale, self._bound, self._total, self._prefix, out)
        if self._noise == "generator":
            _run_generator(self._t, values, self._generator, self._draws, *law)
        elif self._noise == "legacy":
            _run_legacy(self._t, values, self._draws, *law)
        else:
            size = self._draws.shape[0]
            for first in range(0, values.shape[0], size):
                count = min(size, values.shape[0] - first)
                self._generator.standard_normal(out=self._draws[:count])
                _run_pool(self._t + first, values, first, count, self._draws, *law)
        self._t += values.shape[0]
        return out


def fastest(dimension: int, scale: float, values: FloatArray) -> tuple[str, Tree]:
    """Return the variant that handles `values` in the least CPU time on this machine."""
    best: tuple[float, str, Tree] | None = None
    for noise in Tree.NOISE:
        tree = Tree(dimension, scale=scale, bound=1.0, noise=noise)
        tree.run(values[:1000])  # compiles
        elapsed = float("inf")
        for _ in range(2):
            start = time.process_time()
            tree.run(values)
            elapsed = min(elapsed, time.process_time() - start)
        if best is None or elapsed < best[0]:
            best = (elapsed, noise, tree)
    assert best is not None
    return best[1], best[2]
