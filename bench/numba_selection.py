"""Private selection compiled by Numba: doubling epochs, and shared weights on noisy losses.

Losses are clipped to [0, 1] and the noise is Numba's, in doubles: what a user would write. The
learners of `dpoco.experts` also count what they clip, treat NaN as 0 and add exact noise.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_fast = njit(fastmath=True, error_model="numpy")


@_fast
def _epochs(losses, own, decisions, sums, filled, length, current, scale):
    n = losses.shape[1]
    for t in range(losses.shape[0]):
        own[t] = min(max(losses[t, current], 0.0), 1.0)
        decisions[t] = current
        for i in range(n):
            sums[i] += min(max(losses[t, i], 0.0), 1.0)
        filled += 1
        if filled == length:
            least = np.inf
            for i in range(n):
                noisy = sums[i] - scale * np.log(np.random.random())
                if noisy < least:
                    least, current = noisy, i
                sums[i] = 0.0
            filled, length = 0, 2 * length
    return filled, length, current


@_fast
def _shares(losses, own, decisions, weights, scale, eta, share, gaussian):
    n = losses.shape[1]
    for t in range(losses.shape[0]):
        at, below, chosen = np.random.random(), 0.0, n - 1
        for i in range(n):
            below += weights[i]
            if below >= at:
                chosen = i
                break
        own[t] = min(max(losses[t, chosen], 0.0), 1.0)
        decisions[t] = chosen
        total = 0.0
        for i in range(n):
            if gaussian:
                noise = scale * np.random.standard_normal()
            else:
                u = np.random.random() - 0.5
                noise = -scale * math.copysign(math.log(1.0 - 2.0 * abs(u)), u)
            weights[i] *= math.exp(-eta * (min(max(losses[t, i], 0.0), 1.0) + noise))
            total += weights[i]
        for i in range(n):
            weights[i] = (1.0 - share) * weights[i] / total + share / n


class Epochs:
    """The expert with the least noisy sum of the last epoch; epochs double."""

    def __init__(self, experts: int, *, scale: float) -> None:
        self._sums, self._scale = np.zeros(experts), scale
        self._place = 0, 1, 0

    def run(self, losses: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
        own, decisions = np.empty(len(losses)), np.empty(len(losses), dtype=np.int64)
        self._place = _epochs(losses, own, decisions, self._sums, *self._place, self._scale)
        return own, decisions


class Shares:
    """Exponential weights on losses with noise, a share of them spread evenly."""

    def __init__(
        self, experts: int, *, scale: float, eta: float, share: float, gaussian: bool
    ) -> None:
        self._weights = np.full(experts, 1.0 / experts)
        self._law = scale, eta, share, gaussian

    def run(self, losses: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
        own, decisions = np.empty(len(losses)), np.empty(len(losses), dtype=np.int64)
        _shares(losses, own, decisions, self._weights, *self._law)
        return own, decisions
