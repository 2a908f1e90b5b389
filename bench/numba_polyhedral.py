"""DP-POFW compiled by Numba: the l_1 ball of radius 1, squared loss, an update a round."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_fast = njit(fastmath=True, error_model="numpy")


@_fast
def _choose(total, k, scale):
    """A vertex by the exponential mechanism, in two passes: +i is i, -i is d + i."""
    d = total.shape[0]
    least, rate = 0.0, 1.0 / (k * scale)
    for i in range(d):
        least = min(least, -abs(total[i]))
    weight = 0.0
    for i in range(d):
        weight += np.exp((least - total[i]) * rate) + np.exp((least + total[i]) * rate)
    left = np.random.random() * weight
    for i in range(d):
        left -= np.exp((least - total[i]) * rate)
        if left <= 0.0:
            return i
        left -= np.exp((least + total[i]) * rate)
        if left <= 0.0:
            return d + i
    return 2 * d - 1


@_fast
def _run(t, rows, labels, law, theta, before, total, own):
    scale, exponent, bound = law
    d = theta.shape[0]
    for r in range(rows.shape[0]):
        k = t + r + 1
        longest = 0.0
        for i in range(d):
            longest = max(longest, abs(rows[r, i]))
        factor = min(1.0, 1.0 / longest)
        now = then = 0.0
        for i in range(d):
            now += theta[i] * rows[r, i]
            then += before[i] * rows[r, i]
        now, then = 2.0 * (factor * now - labels[r]), 2.0 * (factor * then - labels[r])
        own[r] = 0.25 * now * now
        leaf = factor * min(max(k * now - (k - 1) * then, -bound), bound)
        for i in range(d):
            total[i] += leaf * rows[r, i]
        vertex = _choose(total, k, scale * k ** (-exponent))
        step = 1.0 / (k + 1.0)
        for i in range(d):
            before[i] = theta[i]
            theta[i] *= 1.0 - step
        theta[vertex % d] += step if vertex < d else -step


class Polyhedral:
    """A whole learner; its noise is Numba's, in doubles."""

    def __init__(self, dimension: int, *, scale: float, exponent: float, bound: float) -> None:
        self._law, self._t = (scale, exponent, bound), 0
        self.decision, self._before, self._total = (np.zeros(dimension) for _ in range(3))

    def run(self, rows: FloatArray, labels: FloatArray) -> FloatArray:
        """Play the rows, and return the losses."""
        own = np.empty(len(labels))
        _run(self._t, rows, labels, self._law, self.decision, self._before, self._total, own)
        self._t += len(labels)
        return own
