"""Parameters of buffered sums: a table for single rounds, and a search for people who come back.

Nothing here is believed: any parameters are private, and these decide how large the noise is. Every
norm is computed anew from the numbers that are stored.

Error of a sum, at equal privacy, is S(k, b) times the norm of the decoder's last row; the search
starts from the tabulated parameters of least error and refines their ten numbers by L-BFGS. It
keeps to parameters that fit on a lattice.

Proof: ``docs/privacy/participation.md``. Source: Dvijotham et al. (BLT, 2024), with our own
parameters.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpoco._validation import FloatArray
from dpoco.privacy.mechanisms.factorisations import Buffered
from dpoco.privacy.mechanisms.participation import geometric, most_rounds, spaced_column

__all__ = ["SHIPPED", "find_shipped", "search_rates"]


# Decay and weights, by the number of pushes they are best for.
_RATES = {
    10**3: ((6.24126667e-4, 7.353890764e-3, 3.695414384e-2, 1.63922512905e-1, 5.76439487927e-1),
            (0.032767165, 0.047949185, 0.092414465, 0.16747058, 0.15901149)),
    10**4: ((8.1447992e-5, 1.221682084e-3, 9.448425957e-3, 6.8753177096e-2, 4.15481488343e-1),
            (0.012129389, 0.023729957, 0.061827868, 0.15651199, 0.2414919)),
    10**5: ((9.962417e-6, 1.9464655e-4, 2.35420945e-3, 2.772818972e-2, 2.85496205147e-1),
            (0.004349322, 0.011247942, 0.038146992, 0.12756183, 0.30080657)),
    10**6: ((1.228577e-6, 3.2192478e-5, 6.06912951e-4, 1.1317580458e-2, 1.92308969831e-1),
            (0.0015732736, 0.0053055006, 0.022858327, 0.097662454, 0.3288874)),
    10**7: ((1.5604225e-7, 5.70457006e-6, 1.6539022922e-4, 4.77187310915e-3, 1.2923012250163e-1),
            (0.00058301663, 0.0025314596, 0.013613792, 0.072798979, 0.33147323)),
    10**8: ((1.993606e-8, 1.05921789e-6, 4.674852786e-5, 2.05795518504e-3, 8.678961580926e-2),
            (0.00021831015, 0.001212863, 0.0080615549, 0.05338383, 0.31724272)),
    10**9: ((2.48744e-9, 1.9621181e-7, 1.319647964e-5, 8.8600218551e-4, 5.78143430935e-2),
            (8.0609787e-05, 0.00057157048, 0.0046912795, 0.038404658, 0.29257134)),
    10**10: ((3.03978235e-10, 3.58895389e-8, 3.69022527e-6, 3.7926428e-4, 3.82173249e-2),
             (2.9263346e-05, 2.6404512e-04, 2.6793709e-03, 2.7152552e-02, 0.26218411)),
    10**11: ((3.67635208e-11, 6.52095144e-9, 1.02521794e-6, 1.61378871e-4, 2.5104578e-2),
             (1.0500294e-05, 1.2007653e-04, 1.5063367e-03, 1.8901736e-02, 0.22991985)),
    10**12: ((4.43125775e-12, 1.18195104e-9, 2.84464182e-7, 6.85005553e-5, 1.64171181e-2),
             (3.7425558e-06, 5.3921079e-05, 8.3717581e-04, 1.299872e-02, 0.19787309)),
}  # fmt: skip
SHIPPED = {pushes: Buffered(*rates) for pushes, rates in _RATES.items()}

# Bounds of the search: rates at most 0.6, weights over 1 - rates at most 0.98 together; what a
# buffer holds below the 5 scales that fit on a lattice, nor so slow that rounding piles up.
_FASTEST, _FULL, _SMALLEST, _SWING, _DRIFT = 0.6, 0.98, 4e-6, 4.8, 2.0**17.5
_APART = 1.2  # of a rate and the next, at least
_STEP, _STARTS, _ITERATIONS = 1e-6, 2, 60
_BOUNDS = [(-30.0, -1.5), *[(-5.0, 10.0)] * 4, *[(math.log(_SMALLEST), 0.0)] * 5]


def find_shipped(pushes: int) -> int:
    """Return the smallest tabulated horizon that covers `pushes`, or the largest there is."""
    return next((key for key in SHIPPED if key >= pushes), max(SHIPPED))


@lru_cache(maxsize=256)
def search_rates(pushes: int, rounds: int, separation: int, mean: bool = False) -> Buffered:
    """Return parameters for people who come in so many rounds, so far apart, of nine digits each.

    O(log k) a step, below a second for any numbers.

    Parameters
    ----------
    pushes : int
        Sums released, n.
    rounds, separation : int
        k and b, in pushes.
    mean : bool, default False
        Whether the error is the root mean square of all sums, not that of the last one.
    """
    from scipy.optimize import minimize

    k = most_rounds(rounds, separation, pushes)

    def value(points: FloatArray) -> FloatArray:
        return _log_error(points, pushes, k, separation, mean)

    def slope(point: FloatArray) -> tuple[float, FloatArray]:
        found = value(np.concatenate([point[None], point + _STEP * np.eye(len(point))]))
        return float(found[0]), (found[1:] - found[0]) / _STEP

    table = np.array([_point(*rates) for rates in _RATES.values()])
    order = np.argsort(value(table))
    starts = {[*SHIPPED].index(find_shipped(pushes)), *order[:_STARTS].tolist()}
    options = {"maxiter": _ITERATIONS}
    known = [*SHIPPED.values()]
    for start in starts:
        found = minimize(slope, table[start], (), "L-BFGS-B", True, bounds=_BOUNDS, options=options)
        decay, weights = (tuple(float(f"{x:.8e}") for x in each) for each in _rates(found.x))
        known.append(Buffered(decay, weights))
    points = np.array([_point(each.decay, each.weights) for each in known])
    errors = np.nan_to_num(value(points), nan=math.inf)
    fitting = [at for at, each in enumerate(known) if each.fits(pushes)]
    return known[min(fitting, key=lambda at: float(errors[at]))]


def _point(decay: tuple[float, ...], weights: tuple[float, ...]) -> FloatArray:
    """Return what `_rates` reads: the logarithms of the first rate, of quotients and of weights."""
    s, w = np.array(decay), np.array(weights)
    quotients = np.maximum(s[1:] / s[:-1] - _APART, 1e-2)
    return np.asarray(np.log(np.concatenate([s[:1], quotients, w])))


def _rates(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return decay, increasing, and weights of points of any shape, kept within the bounds."""
    first, quotients, w = np.split(np.exp(points), [1, 5], axis=-1)
    s = first * np.concatenate([np.ones_like(first), np.cumprod(_APART + quotients, -1)], -1)
    s = s * np.minimum(1.0, _FASTEST / s[..., -1:])
    return s, w * np.minimum(1.0, _FULL / (w / (1.0 - s)).sum(-1, keepdims=True))


def _log_error(points: FloatArray, pushes: int, k: int, separation: int, mean: bool) -> FloatArray:
    """Return the logarithm of the error, and a penalty for what does not fit on a lattice."""
    s, w = _rates(points)
    row, swing = _row(s, w, pushes, mean)
    drift = np.minimum(pushes, 1.0 / (s[..., 0] * (1.0 + (w / s).sum(-1)))) / _DRIFT
    error = np.log(spaced_column(s, w, pushes, k, separation)) + 0.5 * np.log(row)
    too_much = np.maximum(0.0, swing - _SWING), np.log(np.maximum(1.0, drift))
    return np.asarray(error + 10.0 * (too_much[0] ** 2 + too_much[1] ** 2))


def _row(s: FloatArray, w: FloatArray, pushes: int, mean: bool) -> tuple[FloatArray, FloatArray]:
    """Return the square of the norm of a row of the decoder, and that of the fullest buffer.

    The last row, or the mean of the squares of all.
    """
    shift, pull = _decoder(s, w)
    g = s + shift
    x = g[..., :, None] + g[..., None, :] - g[..., :, None] * g[..., None, :]
    gamma, rest, n = 1.0 / (g * pull), 1.0 / (1.0 + (w / s).sum(-1)), float(pushes)
    powers = _mean_geometric if mean else geometric
    row = (0.5 * (n + 1.0) if mean else n) * rest**2 + 2.0 * rest * (gamma * powers(g, n)).sum(-1)
    row = row + np.einsum("...i,...ij,...j", gamma, powers(x, n), gamma)
    held = 1.0 / ((g - s[..., :1]) * pull)
    swing = np.sqrt(np.einsum("...i,...ij,...j", held, 1.0 / x, held))
    return np.asarray(row), np.asarray(swing * (2.0 - s[..., 0]) / (2.0 - s[..., -1]))


def _mean_geometric(x: FloatArray, n: float) -> FloatArray:
    """Return the mean of `geometric(x, t)` over t = 1, ..., n."""
    return np.asarray((1.0 - (1.0 - x) * geometric(x, n) / n) / x)


def _decoder(s: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of `decoder_rate` for all buffers, of any shape.

    The two terms of the secular equation next to a root are solved for, with the others where they
    were, again and again; every third step halves the bracket's logarithm.
    """
    gaps = s[..., None, :] - s[..., :, None]
    at, behind = np.arange(s.shape[-1]), np.arange(s.shape[-1] - 1)
    near = np.zeros(gaps.shape[-2:], dtype=bool)
    near[at, at] = near[behind, behind + 1] = True
    full = w.sum(-1, keepdims=True)  # behind the last, as if a term without weight came
    room = np.concatenate([np.diff(s), full * (1.0 + 1e-9)], -1)
    beside = np.concatenate([w[..., 1:], np.zeros_like(full)], -1)
    shift, low, high = 0.5 * np.minimum(room, w), room * 2.0**-200, room
    for step in range(60):
        others = w[..., None, :] / np.where(near, 1.0, gaps - shift[..., None])
        rest = 1.0 + np.where(near, 0.0, others).sum(-1)
        above = rest - w / shift + beside / (room - shift) > 0.0
        low, high = np.where(above, low, shift), np.where(above, shift, high)
        middle = rest * room + w + beside
        root = middle + np.sqrt(np.maximum(middle**2 - 4.0 * rest * w * room, 0.0))
        found = 2.0 * w * room / np.where(root > 0.0, root, 1.0)
        outside = (found <= low) | (found >= high) | (step % 3 == 2)
        before, shift = shift, np.where(outside, np.sqrt(low) * np.sqrt(high), found)
        if step % 3 == 1 and np.all(np.abs(shift - before) <= 1e-13 * shift):
            break
    return shift, (w[..., None, :] / (gaps - shift[..., None]) ** 2).sum(-1)
