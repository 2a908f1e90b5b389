"""Private Hedge compiled by Numba: sums with binary-tree noise, softmax, one draw a round."""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from numba_tree import LEVELS, _level
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_fast = njit(fastmath=True, error_model="numpy")


@_fast
def _decide(released, weights, eta, uniform):
    n = released.shape[0]
    least = released[0]
    for j in range(n):
        least = min(least, released[j])
    total = 0.0
    for j in range(n):
        weights[j] = np.exp(-eta * (released[j] - least))
        total += weights[j]
    left = uniform * total
    for j in range(n):
        left -= weights[j]
        if left <= 0.0:
            return j
    return n - 1


@_fast
def _round(t, losses, draws, scale, eta, uniform, total, prefix, released, weights):
    n = losses.shape[0]
    level = _level(t)
    before = t & (t - 1)
    if before == 0:
        for j in range(n):
            prefix[level, j] = scale * draws[j]
            total[j] += min(max(losses[j], 0.0), 1.0)
            released[j] = total[j] + prefix[level, j]
    else:
        base = _level(before)
        for j in range(n):
            prefix[level, j] = prefix[base, j] + scale * draws[j]
            total[j] += min(max(losses[j], 0.0), 1.0)
            released[j] = total[j] + prefix[level, j]
    return _decide(released, weights, eta, uniform)


@_fast
def _run_generator(
    t, rows, generator, draws, scale, eta, decision, total, prefix, released, weights, own, played
):
    for i in range(rows.shape[0]):
        own[i] = rows[i, decision]
        played[i] = decision
        for j in range(rows.shape[1]):
            draws[0, j] = generator.standard_normal()
        decision = _round(
            t + i + 1, rows[i], draws[0], scale, eta, generator.random(), total, prefix, released,
            weights,
        )  # fmt: skip
    return decision


@_fast
def _run_pool(
    t, rows, draws, uniforms, scale, eta, decision, total, prefix, released, weights, own, played
):
    for i in range(rows.shape[0]):
        own[i] = rows[i, decision]
        played[i] = decision
        decision = _round(
            t + i + 1, rows[i], draws[i], scale, eta, uniforms[i], total, prefix, released, weights
        )
    return decision


class Hedge:
    """A whole learner; `noise` as for `numba_tree.Tree`: "generator" or "pool"."""

    NOISE = ("generator", "pool")

    def __init__(self, experts: int, *, scale: float, eta: float, noise: str, seed: int = 1):
        self._scale, self._eta, self._noise = scale, eta, noise
        self._generator = np.random.default_rng(seed)
        self._t = self._decision = 0
        self._total = np.zeros(experts)
        self._prefix = np.zeros((LEVELS, experts))
        self._released = np.zeros(experts)
        self._weights = np.zeros(experts)
        rows = max(1, 2**16 // experts) if noise == "pool" else 1
        self._draws = np.empty((rows, experts))

    def run(self, rows: FloatArray) -> tuple[FloatArray, IntArray]:
        own = np.empty(len(rows))
        played = np.empty(len(rows), dtype=np.int64)
        state = (self._total, self._prefix, self._released, self._weights)
        if self._noise == "generator":
            self._decision = _run_generator(
                self._t, rows, self._generator, self._draws, self._scale, self._eta,
                self._decision, *state, own, played,
            )  # fmt: skip
        else:
            size = len(self._draws)
            for first in range(0, len(rows), size):
                part = slice(first, min(first + size, len(rows)))
                count = part.stop - first
                self._generator.standard_normal(out=self._draws[:count])
                self._decision = _run_pool(
                    self._t + first, rows[part], self._draws[:count],
                    self._generator.random(count), self._scale, self._eta, self._decision, *state,
                    own[part], played[part],
                )  # fmt: skip
        self._t += len(rows)
        return own, played


def fastest(experts: int, scale: float, eta: float, rows: FloatArray) -> tuple[str, Hedge]:
    """Return the variant that plays `rows` in the least CPU time on this machine."""
    best: tuple[float, str, Hedge] | None = None
    for noise in Hedge.NOISE:
        hedge = Hedge(experts, scale=scale, eta=eta, noise=noise)
        hedge.run(rows[:100])  # compiles
        elapsed = float("inf")
        for _ in range(2):
            start = time.process_time()
            hedge.run(rows)
            elapsed = min(elapsed, time.process_time() - start)
        if best is None or elapsed < best[0]:
            best = (elapsed, noise, hedge)
    assert best is not None
    return best[1], best[2]
