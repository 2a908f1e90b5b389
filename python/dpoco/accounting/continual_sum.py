"""Norms of the private continual sums: the privacy cost and the noise of each method.

A continual sum factors the prefix-sum matrix A = B C with C lower triangular; each row of C g gets
one independent draw of scale sigma. Claim: with leaves of sensitivity D (already inflated by
sqrt(kappa) for generalized Gaussian noise) all n sums together are mu-GDP with

    mu = D column_norm(n) / sigma,

for adaptively chosen leaves, and the sum released at t has noise sigma * row_norm(t) per unit.

For "blt", the encoder C is Toeplitz with c_0 = 1, c_i = sum_j omega_j (1 - s_j)^(i-1), and the
decoder B has coefficients b_t = b_0 + sum_j gamma_j (1 - g_j)^t. All parameters are private; they
only determine the accuracy.

For "banded", columns have few coefficients, so that the rounds of a returning person move disjoint
rows: ``docs/privacy/banded.md``. Rows are computed one by one, for at most 10^4 pushes.

For "blt_normalised", column i of the same C is divided by the level of its block, which is at least
(norm of column i)/(norm of the first), so draws become smaller as fewer sums remain. Norms are in
units of the first draw's scale: `column_norm` is that of "blt", and rows are shorter.

Proof: ``docs/privacy/continual_sum.md``, which also derives every formula below. Sources: Dwork et
al. and Chan et al. (tree, 2010); Fichtenberger, Henzinger and Upadhyay (square-root
Toeplitz, 2023); Dvijotham et al. (BLT, 2024).

Parameters of buffered sums come from a table for single rounds, and from a search for people who
return. No proof relies on them: all parameters are private, and they determine how large the noise
is. Every norm is computed from the stored numbers.

Error of a sum, at equal privacy, is S(k, b) times the norm of the decoder's last row; the search
starts from the tabulated parameters of least error and refines their ten numbers by L-BFGS. It
keeps to parameters that fit on a lattice.

Proof: ``docs/privacy/participation.md``. Source: Dvijotham et al. (BLT, 2024), with our own
parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import (
    FloatArray,
    IntArray,
    MissingHorizonError,
    choice,
    positive_float,
    positive_int,
)
from dpoco.privacy.mechanisms.banded import LONGEST_BANDED, WIDEST_BAND, Banded
from dpoco.privacy.mechanisms.factorisations import (
    SQUARE_ROOT_LIMIT,
    Buffered,
    Normalised,
    Rates,
    SquareRoot,
    Tree,
    decoder_rate,
    square_root_norms,
)
from dpoco.privacy.mechanisms.gaussian_sum import AnyFactorisation
from dpoco.privacy.mechanisms.participation import geometric, most_rounds, spaced_column
from dpoco.privacy.neighbours import ONE, Neighbours

__all__ = ["METHODS", "NOISES", "SHIPPED", "TOEPLITZ_LIMIT", "UNBOUNDED_HORIZON", "BLTParameters",
           "Method", "bands", "blt_parameters", "choose", "choose_buffers", "choose_method",
           "column_norm", "factorisation", "find_shipped", "known_horizon", "lower_bound",
           "max_error", "mean_error", "method_name", "noise_sigma", "plan_method", "release_grid",
           "resolve_horizon", "rises", "root_mean_square_row", "row_norm", "search_rates",
           "with_rates", "worst_round", "worst_row_norm"]  # fmt: skip

# Decay rates and weights, by the number of pushes for which they are best.
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

# Bounds of the search: rates at most 0.6; weights over 1 - rates sum to at most 0.98; contents of a
# buffer below the 5 scales that fit on a lattice; no rate so slow that rounding errors pile up.
_FASTEST, _FULL, _SMALLEST, _SWING, _DRIFT = 0.6, 0.98, 4e-6, 4.8, 2.0**17.5
_APART = 1.2  # least ratio of neighbouring rates
_STEP, _STARTS, _ITERATIONS = 1e-6, 2, 60
_BOUNDS = [(-30.0, -1.5), *[(-5.0, 10.0)] * 4, *[(math.log(_SMALLEST), 0.0)] * 5]


def find_shipped(pushes: int) -> int:
    """Return the smallest tabulated horizon that covers `pushes`, or the largest there is."""
    # Buffers for a longer stream are valid but a little noisier, as are those for a shorter one.
    return next((key for key in SHIPPED if key >= pushes), max(SHIPPED))


@lru_cache(maxsize=256)
def search_rates(pushes: int, rounds: int, separation: int, mean: bool = False) -> Buffered:
    """Return parameters, of nine digits each, for people with several rounds at a distance.

    A step takes O(log k), and the search less than a second for any numbers.

    Parameters
    ----------
    pushes : int
        Number n of released sums.
    rounds, separation : int
        k and b, in pushes.
    mean : bool, default False
        Use the root mean square error of all sums, instead of the error of the last one.

    Returns
    -------
    Buffered
        At least as good as every tabulated one, and suitable for a lattice.
    """
    # SciPy's optimisers take long to import, and most plans do not need the search.
    from scipy.optimize import minimize

    k = most_rounds(rounds, separation, pushes)

    def value(points: FloatArray) -> FloatArray:
        return _log_error(points, pushes, k, separation, mean)

    def slope(point: FloatArray) -> tuple[float, FloatArray]:
        # One call evaluates all points of a gradient: `_log_error` takes points of any shape.
        found = value(np.concatenate([point[None], point + _STEP * np.eye(len(point))]))
        return float(found[0]), (found[1:] - found[0]) / _STEP

    table = np.array([_point(*rates) for rates in _RATES.values()])
    order = np.argsort(value(table))
    starts = {[*SHIPPED].index(find_shipped(pushes)), *order[:_STARTS].tolist()}
    options = {"maxiter": _ITERATIONS}
    known = [*SHIPPED.values()]
    for start in starts:
        found = minimize(slope, table[start], (), "L-BFGS-B", True, bounds=_BOUNDS, options=options)
        # We round before comparing, so that the errors are those of the stored numbers.
        decay, weights = (tuple(float(f"{x:.8e}") for x in each) for each in _rates(found.x))
        known.append(Buffered(decay, weights))
    points = np.array([_point(each.decay, each.weights) for each in known])
    # The penalty only guides the search; `fits` decides, as in the kernel. The table's parameters
    # are among the candidates, so the result is never worse.
    errors = np.nan_to_num(value(points), nan=math.inf)
    fitting = [at for at, each in enumerate(known) if each.fits(pushes)]
    return known[min(fitting, key=lambda at: float(errors[at]))]


def _point(decay: tuple[float, ...], weights: tuple[float, ...]) -> FloatArray:
    """Return the input of `_rates`: logarithms of the first rate, of quotients and of weights."""
    s, w = np.array(decay), np.array(weights)
    quotients = np.maximum(s[1:] / s[:-1] - _APART, 1e-2)
    return np.asarray(np.log(np.concatenate([s[:1], quotients, w])))


def _rates(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return increasing decay rates, and weights, within the bounds, for points of any shape."""
    first, quotients, w = np.split(np.exp(points), [1, 5], axis=-1)
    s = first * np.concatenate([np.ones_like(first), np.cumprod(_APART + quotients, -1)], -1)
    s = s * np.minimum(1.0, _FASTEST / s[..., -1:])
    return s, w * np.minimum(1.0, _FULL / (w / (1.0 - s)).sum(-1, keepdims=True))


def _log_error(points: FloatArray, pushes: int, k: int, separation: int, mean: bool) -> FloatArray:
    """Return the log of the error, plus a penalty for parameters that do not fit on a lattice."""
    s, w = _rates(points)
    row, swing = _row(s, w, pushes, mean)
    drift = np.minimum(pushes, 1.0 / (s[..., 0] * (1.0 + (w / s).sum(-1)))) / _DRIFT
    error = np.log(spaced_column(s, w, pushes, k, separation)) + 0.5 * np.log(row)
    too_much = np.maximum(0.0, swing - _SWING), np.log(np.maximum(1.0, drift))
    return np.asarray(error + 10.0 * (too_much[0] ** 2 + too_much[1] ** 2))


def _row(s: FloatArray, w: FloatArray, pushes: int, mean: bool) -> tuple[FloatArray, FloatArray]:
    """Return the squared norms of a row of the decoder and of the fullest buffer.

    The row is the last one, or the squared norm is the mean over all rows.
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
    """Return the results of `decoder_rate` for all buffers, of any shape.

    Each step solves for the two terms of the secular equation next to a root and keeps the others
    fixed. Every third step halves the bracket in log scale.
    """
    gaps = s[..., None, :] - s[..., :, None]
    at, behind = np.arange(s.shape[-1]), np.arange(s.shape[-1] - 1)
    near = np.zeros(gaps.shape[-2:], dtype=bool)
    near[at, at] = near[behind, behind + 1] = True
    full = w.sum(-1, keepdims=True)  # after the last rate, as if a term with weight 0 followed
    room = np.concatenate([np.diff(s), full * (1.0 + 1e-9)], -1)
    beside = np.concatenate([w[..., 1:], np.zeros_like(full)], -1)
    # The bracket begins just above 0, because a root may be many powers of ten below `room`.
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


Method = str | AnyFactorisation  # a name, or a factorisation for this many pushes
M = TypeVar("M")

METHODS = ("blt", "tree", "toeplitz", "blt_normalised", "banded")
# Methods whose noise sometimes falls, so that the last sum need not be the noisiest.
FALLING = ("blt_normalised", "banded")
_BUFFERED = ("blt", "blt_normalised")
# Methods whose noise grows with every round, except for falls that the bounds count: their rows are
# those of a Toeplitz factor.
GROWING = ("blt", "toeplitz", *FALLING)
NOISES = ("gaussian", "generalized_gaussian")
TOEPLITZ_LIMIT = SQUARE_ROOT_LIMIT
# The meaning of `horizon=None`. At earlier rounds the noise is 1.1 to 1.6 times that of a sum
# planned for that number of rounds; no doubling scheme does better.
UNBOUNDED_HORIZON = 10**9
_FOLLOWED = 10**4  # most rounds of a person that are computed one by one
# How much longer the early columns of a band are. A larger tilt reduces the mean square noise over
# many rounds, and increases the noise of the worst sum. Named bands use the second value.
_TILTS = (0.0, 0.05, 0.15)


def resolve_horizon(horizon: int | None) -> int:
    """Return the number of pushes that `horizon` stands for; None means 10^9."""
    return UNBOUNDED_HORIZON if horizon is None else positive_int("horizon", horizon)


def known_horizon(horizon: int | None) -> int:
    """Return the number of rounds, or raise `ValueError` for an endless stream."""
    if horizon is None:
        raise MissingHorizonError
    return positive_int("horizon", horizon)


def factorisation(method: Method, pushes: int) -> AnyFactorisation:
    """Return the factorisation with this name, with the shipped parameters for `pushes`.

    Parameters
    ----------
    method : str or factorisation
        A factorisation is returned unchanged if it is valid for so many pushes.
    pushes : int
        Number of released sums.

    Raises
    ------
    ValueError
        For unknown names, and for more pushes than the method allows.
    """
    n = _check(method, pushes)
    if not isinstance(method, str):
        return method
    if method in _BUFFERED:
        plain = SHIPPED[find_shipped(n)]
        return plain if method == "blt" else Normalised(plain.decay, plain.weights, n)
    if method == "banded":
        return _make_banded(n, n, 1)
    return SquareRoot() if method == "toeplitz" else Tree()


def method_name(method: Method) -> str:
    """Return the name of a method, as used in options."""
    if isinstance(method, Tree):
        return "tree"
    if isinstance(method, SquareRoot):
        return "toeplitz"
    return method if isinstance(method, str) else method.kind


def with_rates(method: str, rates: Rates | None, pushes: int) -> Method:
    """Return a method with these rates and weights in one sequence; its name for None.

    For "banded", the sequence is the band, the windows and the tilt.

    Raises
    ------
    ValueError
        For methods without rates, and for an odd number of values.
    """
    if rates is None:
        return method
    if choice("method", method, METHODS) == "banded":
        band, windows, tilt = rates
        return Banded(pushes, round(band), round(windows), tilt)
    if method not in _BUFFERED or len(rates) % 2:
        raise ValueError("rates are for sums with buffers, and as many as weights")
    decay, weights = rates[: len(rates) // 2], rates[len(rates) // 2 :]
    return Buffered(decay, weights) if method == "blt" else Normalised(decay, weights, pushes)


def plan_method(method: str, pushes: int, near: Neighbours, batch: int = 1) -> Method:
    """Return a method whose parameters suit people who come in several rounds.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    pushes : int
        Number of released sums.
    near : Neighbours
        How often one person comes, in rounds.
    batch : int
        Rounds per push.

    Returns
    -------
    str or factorisation
        The name itself if each person comes once, or if the method has no parameters.
    """
    if most_rounds(near.rounds, near.separation, pushes * batch) == 1:
        return method
    # These numbers only choose parameters. The description computes how far a person moves the sum.
    crowd = min(near.rounds, -(-batch // near.separation))  # rounds of a person in one push
    times, apart = -(-near.rounds // crowd), max(1, near.separation // batch)
    if method == "banded":
        return _make_banded(pushes, min(apart, pushes), min(times, -(-pushes // apart)))
    if method not in _BUFFERED:
        return method
    found = search_rates(pushes, times, apart)
    return with_rates(method, found.decay + found.weights, pushes)


def _make_banded(pushes: int, band: int, windows: int) -> Banded:
    """Return bands as long as a person's rounds are apart; `ValueError` if they are too long."""
    if pushes > LONGEST_BANDED or (min(band, pushes) > WIDEST_BAND and windows > 1):
        raise ValueError(
            f"method 'banded' is for at most {LONGEST_BANDED} sums, a person's at most "
            f"{WIDEST_BAND} apart; got {pushes} and {band}: take 'blt_normalised'"
        )
    return Banded(pushes, min(band, WIDEST_BAND), windows, _TILTS[1])


def column_norm(method: Method, horizon: int | None) -> float:
    """Return the largest l2 norm of a column of C, which multiplies the sensitivity.

    Parameters
    ----------
    method : {"blt", "blt_normalised", "banded", "tree", "toeplitz"}
        Factorisation.
    horizon : int or None
        Number of leaves; None means 10^9.
    """
    n = resolve_horizon(horizon)
    return factorisation(method, n).column(n)


def row_norm(method: Method, t: ArrayLike, horizon: int | None) -> Any:
    """Return the l2 norm of row t of B: the noise of the sum released at round t, per unit scale.

    Parameters
    ----------
    method : {"blt", "blt_normalised", "banded", "tree", "toeplitz"}
        Factorisation.
    t : int or array_like of int
        Rounds in 1..horizon.
    horizon : int or None
        Number of leaves; None means 10^9.

    Returns
    -------
    float or ndarray
        A float for a scalar `t`, else an array of its shape.

    Raises
    ------
    TypeError, ValueError
        For rounds that are not integers or are out of range.
    """
    n = _check(method, horizon)
    rounds = np.asarray(t)
    if rounds.dtype.kind not in "iu":
        raise TypeError(f"t must be integers; got {rounds.dtype}")
    if rounds.size and not (int(rounds.min()) >= 1 and int(rounds.max()) <= n):
        raise ValueError(f"t must be in [1, {n}]")
    own = factorisation(method, n)
    if isinstance(own, Normalised):
        norm = np.sqrt(_normalised_rows(own).variance(rounds))
    elif isinstance(own, Buffered):
        return _build(own, n).row_norm(rounds)
    elif isinstance(own, Banded):
        norm = _banded_rows(own)[rounds - 1]
    elif isinstance(own, SquareRoot):
        norm = square_root_norms()[rounds - 1]
    else:
        squared = np.zeros(rounds.shape)
        for bit in range(n.bit_length()):
            squared += (rounds >> bit) & 1
        norm = np.sqrt(squared)
    return float(norm) if rounds.ndim == 0 else norm


def worst_round(method: Method, horizon: int | None) -> int:
    """Return the round t <= horizon whose released sum is noisiest, in O(log^2 n).

    Rows of BLT and Toeplitz grow with t, so it is the last one. Normalised BLT is noisiest at the
    end of some block, which we search for. For the tree, the variance is the number of bits set in
    t. A t < n first differs from n at a bit that is set in n and not in t, and is best if all lower
    bits are set; this gives log2(n) candidates besides n.
    """
    n = _check(method, horizon)
    own = factorisation(method, n)
    if isinstance(own, Normalised):
        rows = _normalised_rows(own)
        return int(rows.ends[np.argmax(rows.past[1:])])
    if isinstance(own, Banded):
        return 1 + int(np.argmax(_banded_rows(own)))
    if not isinstance(own, Tree):
        return n
    candidates = [n]
    for bit in range(n.bit_length()):
        if n >> bit & 1:
            candidate = (n >> (bit + 1) << (bit + 1)) | ((1 << bit) - 1)
            candidates += [candidate] if candidate else []
    return max(candidates, key=lambda t: (row_norm(method, t, n), -t))


@lru_cache(maxsize=1024)
def worst_row_norm(method: Method, horizon: int | None) -> float:
    """Return the largest `row_norm` over all rounds, exactly: the noise of the worst sum."""
    return float(row_norm(method, worst_round(method, horizon), horizon))


def root_mean_square_row(method: Method, horizon: int | None) -> float:
    """Return the root of the mean of row_norm(t)^2 over t = 1..horizon, in O(log n) (or O(1))."""
    n = _check(method, horizon)
    own = factorisation(method, n)
    if isinstance(own, Normalised):
        return math.sqrt(_normalised_rows(own).mean_square)
    if isinstance(own, Buffered):
        return math.sqrt(_build(own, n).mean_square_row(n))
    if isinstance(own, (SquareRoot, Banded)):
        norms = square_root_norms()[:n] if isinstance(own, SquareRoot) else _banded_rows(own)
        return math.sqrt(float(np.mean(norms**2)))
    total = 0.0
    for bit in range(n.bit_length()):
        half = 1 << bit
        whole, rest = divmod(n + 1, 2 * half)
        total += whole * half + max(0, rest - half)
    return math.sqrt(total / n)


def lower_bound(horizon: int | None) -> float:
    """Return a lower bound on the max and rms error of independent Gaussian draws.

    It holds for every factorisation at unit sensitivity and mu = 1. It is the sum of the singular
    values of the matrix A of prefix sums, divided by n: sum_j 1/(2 sin((2j - 1) pi/(4n + 2)))/n,
    computed by its expansion beyond 10^4 rounds. Source: Matousek, Nikolov and Talwar (2020);
    Henzinger, Upadhyay and Upadhyay (2023).
    """
    n = resolve_horizon(horizon)
    if n <= 10**4:
        angles = (2.0 * np.arange(1, n + 1) - 1.0) * (math.pi / (4 * n + 2))
        return float(np.sum(0.5 / np.sin(angles))) / n
    size = 2.0 * n + 1.0
    total = 2.0 * size / math.pi * (math.log(8.0 * size / math.pi) + np.euler_gamma)
    return float(total - 1.0 + math.pi / (72.0 * size)) / (4.0 * n)


@lru_cache(maxsize=64)
def rises(method: Method, horizon: int | None) -> tuple[tuple[float, float], ...]:
    """Return pairs of row norms between which the noise grows, in order.

    For methods whose noise always grows, and for those of `FALLING`.
    """
    n = _check(method, horizon)
    own = factorisation(method, n)
    if isinstance(own, Banded):
        rows = np.concatenate([[0.0], _banded_rows(own)])
        up = np.flatnonzero(np.diff(rows) > 0.0)
        return tuple(zip(rows[up].tolist(), rows[up + 1].tolist(), strict=True))
    if isinstance(own, Normalised):
        return _normalised_rows(own).rises()
    return ((0.0, worst_row_norm(method, n)),)


def max_error(method: Method, horizon: int | None, near: Neighbours = ONE, batch: int = 1) -> float:
    """Return the worst sum's noise at unit sensitivity and mu, for a round or a person.

    Parameters
    ----------
    method : {"blt", "blt_normalised", "banded", "tree", "toeplitz"}
        Name of a factorisation, or one with its own parameters.
    horizon : int or None
        Number of leaves; None means 10^9.
    near : Neighbours
        How often one person comes.
    batch : int
        Rounds per leaf.
    """
    n = resolve_horizon(horizon)
    column = factorisation(method, n).column(n, near, batch)
    return column * worst_row_norm(method, horizon)


def mean_error(method: Method, horizon: int, near: Neighbours = ONE, batch: int = 1) -> float:
    """Return `max_error` with the root mean square noise of all sums instead of the worst noise.

    This is the error that matters to a learner that uses all sums. Arguments are those of
    `max_error`.
    """
    column = factorisation(method, horizon).column(horizon, near, batch)
    return column * root_mean_square_row(method, horizon)


def choose(
    known: Iterable[M], errors: Callable[[M], Sequence[float]]
) -> tuple[M, tuple[float, ...]]:
    """Return the candidate for "auto", and its errors divided by the least ones.

    The candidate minimises its largest ratio of an error to the least error of all candidates; the
    first of equals wins. With one kind of error it is simply the best. The errors should be those
    that matter: of the worst sum if sums are published (`max_error`), the mean square if a learner
    uses them (`mean_error`), and those of all views if statistics are requested.

    Parameters
    ----------
    known : iterable
        Candidates, hashable; the first of equals wins.
    errors : callable
        Positive errors of a candidate; the same number for all candidates.
    """
    found = {each: errors(each) for each in known}
    least = [min(each) for each in zip(*found.values(), strict=True)]
    ratios = {c: tuple(a / b for a, b in zip(own, least, strict=True)) for c, own in found.items()}
    best = min(ratios, key=lambda each: max(ratios[each]))
    return best, ratios[best]


def choose_method(
    horizon: int | None,
    near: Neighbours = ONE,
    batch: int = 1,
    error: Callable[[Method, int, Neighbours, int], float] = max_error,
) -> Method:
    """Return the sum with the least error; "blt" for an unknown horizon.

    Parameters
    ----------
    horizon : int or None
        Number of leaves.
    near, batch
        How often one person comes, and rounds per leaf. They determine the parameters.
    error : callable
        `max_error` or `mean_error`. The latter only decides whether bands replace the sum with the
        least worst error.
    """
    if horizon is None:  # levels planned for 10^9 rounds would not help in earlier rounds
        return choose_buffers(None, near, batch)
    n = resolve_horizon(horizon)
    first: Method = choose_buffers(n, near, batch)
    if error is max_error:
        others = [m for m in ("tree", "toeplitz") if m != "toeplitz" or n <= TOEPLITZ_LIMIT]
        first = choose((first, *others), lambda method: (max_error(method, n, near, batch),))[0]
    known = (first, *bands(n, near, batch))
    return choose(known, lambda method: (error(method, n, near, batch),))[0]


def bands(pushes: int, near: Neighbours, batch: int = 1) -> tuple[Banded, ...]:
    """Return the bands to compare for people who return; empty if they are too long."""
    if most_rounds(near.rounds, near.separation, pushes * batch) == 1:
        return ()
    if pushes > LONGEST_BANDED or not batch < near.separation <= batch * WIDEST_BAND:
        return ()
    plain = plan_method("banded", pushes, near, batch)
    assert isinstance(plain, Banded)
    return tuple(replace(plain, tilt=tilt) for tilt in _TILTS)


def choose_buffers(horizon: int | None, near: Neighbours, batch: int = 1) -> Method:
    """Return the buffered sum with the least error; plain, without levels, for horizon None."""
    n = resolve_horizon(horizon)
    plain = plan_method("blt", n, near, batch)
    # The norm of a sum with levels is computed from a person's rounds one by one.
    if horizon is None or most_rounds(near.rounds, near.separation, n * batch) > _FOLLOWED:
        return plain
    level = plan_method("blt_normalised", n, near, batch)
    return min((level, plain), key=lambda method: max_error(method, n, near, batch))


def release_grid(noise_scale: float) -> float:
    """Return the grid spacing to which released sums are rounded: 2^(floor(log2 scale) - 12).

    Rounding is post-processing and costs no privacy; it hides the floating-point grid of the noise.
    The spacing is 0 without noise.
    """
    # Dividing doubles by a power of two is exact. Rounding to 2^-12 scales adds less than 1e-8 of
    # the variance and leaves 2^40 doubles in a cell (docs/privacy/noise.md, "What is not covered").
    return 2.0 ** (math.frexp(noise_scale)[1] - 1 - 12) if noise_scale > 0.0 else 0.0


def noise_sigma(method: Method, horizon: int | None, sensitivity: float, mu: float) -> float:
    """Return the scale of one draw for which all sums together are mu-GDP.

    Parameters
    ----------
    method : {"blt", "blt_normalised", "banded", "tree", "toeplitz"}
        Factorisation.
    horizon : int or None
        Number of leaves.
    sensitivity : float
        Largest l2 difference of a leaf between neighbours (or sqrt(kappa) times the l_q one).
    mu : float
        GDP parameter to spend.
    """
    sensitivity = positive_float("sensitivity", sensitivity)
    return sensitivity * column_norm(method, horizon) / positive_float("mu", mu)


def _check(method: Method, horizon: int | None) -> int:
    """Return the number of pushes, or raise if the method is not for so many."""
    choice("method", method_name(method), METHODS)
    n = resolve_horizon(horizon)
    # Levels and cut-off columns belong to one number of pushes; plain buffers are valid for any
    # number.
    if isinstance(method, (Normalised, Banded)) and method.pushes != n:
        raise ValueError(f"parameters are for {method.pushes} rounds; got {n}")
    if method == "toeplitz" and n > TOEPLITZ_LIMIT:
        raise ValueError(f"method 'toeplitz' is limited to {TOEPLITZ_LIMIT} rounds; got {n}")
    return n


@dataclass(frozen=True, eq=False)
class BLTParameters:
    """Decay rates, weights and exact norms of one BLT factorisation.

    Attributes
    ----------
    horizon : int
        Horizon for which the parameters were optimised (they are valid for every horizon).
    decay, weights : ndarray, shape (buffers,)
        s_j in (0, 1) increasing and omega_j > 0 of the encoder.
    g, gamma : ndarray, shape (buffers,)
        Decay rates, in (0, 1), and weights of the decoder.
    b0 : float
        Constant term of the decoder's coefficients (their limit).
    """

    horizon: int
    decay: FloatArray
    weights: FloatArray
    g: FloatArray
    gamma: FloatArray
    b0: float

    def row_norm(self, t: ArrayLike) -> Any:
        """Return the l2 norm of row t of the decoder; a float for a scalar, else an array.

        It increases with t, because row t has the first t coefficients.

        Parameters
        ----------
        t : int or array_like of int
            Rounds, at least 1.
        """
        rounds = np.asarray(t, dtype=np.float64)
        pairs = list(zip(self.gamma, self.g, strict=True))
        squared = rounds * self.b0**2 + _quadratic(self.gamma, self.g, rounds)
        squared = squared + 2.0 * self.b0 * sum(w * _geometric(x, rounds) for w, x in pairs)
        norm = np.sqrt(squared)
        return float(norm) if rounds.ndim == 0 else norm

    def mean_square_row(self, n: int) -> float:
        """Return the mean of row_norm(t)^2 over t = 1..n, in closed form."""
        n = positive_int("n", n)
        pairs = list(zip(self.gamma, self.g, strict=True))
        total = 0.5 * n * (n + 1.0) * self.b0**2
        total += 2.0 * self.b0 * sum(w * _geometric_sum(x, n) for w, x in pairs)
        total += sum(v * w * _geometric_sum(x + y - x * y, n) for v, x in pairs for w, y in pairs)
        return float(total) / n

    def encoder(self, n: int) -> FloatArray:
        """Return the coefficients c_0..c_{n-1}, shape (n,)."""
        powers = np.power.outer(1.0 - self.decay, np.arange(positive_int("n", n) - 1))
        return np.concatenate([[1.0], self.weights @ powers])

    def decoder(self, n: int) -> FloatArray:
        """Return the coefficients b_0..b_{n-1}, shape (n,)."""
        powers = np.power.outer(1.0 - self.g, np.arange(positive_int("n", n)))
        return np.asarray(self.b0 + self.gamma @ powers, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class NormalisedRows:
    """Exact variances of the sums of column-normalised BLT, for a first draw of scale 1.

    Within a block, the noise of a sum is the noise before the block, plus what plain BLT would have
    added since then at the block's level, minus what the buffers subtract.

    Attributes
    ----------
    plain : BLTParameters
        The factorisation that is normalised.
    ends : ndarray of int64, shape (blocks,)
        Last round of every block.
    levels : ndarray, shape (blocks,)
        Scale of the draws of each block.
    past : ndarray, shape (blocks + 1,)
        Variance before every block, and after the last one.
    cross : ndarray, shape (blocks, buffers)
        Covariance of the sum with the decoder's modes before every block.
    """

    plain: BLTParameters
    ends: NDArray[np.int64]
    levels: FloatArray
    past: FloatArray
    cross: FloatArray

    def variance(self, t: IntArray) -> FloatArray:
        """Return the variance of the sum of round t, any shape."""
        return self._within(np.searchsorted(self.ends, t), t)

    @property
    def mean_square(self) -> float:
        """Mean of the variance over all rounds, in closed form."""
        p, lengths, starts = self.plain, np.diff(self.ends, prepend=0), self._starts
        rows = {m: p.mean_square_row(m) for m in set(lengths.tolist())}
        size = lengths.astype(np.float64)
        total = size * self.past[:-1] + self.levels**2 * size * [rows[m] for m in lengths.tolist()]
        one = [(1.0 - g) * _geometric(g, size) for g in p.g]
        for j, g in enumerate(p.g):
            eta = p.gamma[j] * g
            total -= 2.0 * self.levels * eta * self.cross[:, j] * (size - one[j]) / g
            for k, h in enumerate(p.g):
                x = float(g + h - g * h)
                both = size - one[j] - one[k] + (1.0 - x) * _geometric(x, size)
                modes = _geometric(x, starts.astype(np.float64))
                total += self.levels**2 * p.gamma[j] * p.gamma[k] * modes * both
        return math.fsum(total) / int(self.ends[-1])

    def rises(self) -> tuple[tuple[float, float], ...]:
        """Return the least row norm of every block, its start included, and the norm at its end.

        It uses a ternary search: in a block the variance falls, then rises.
        """
        block, low, high = np.arange(len(self.ends)), self._starts, self.ends
        while np.any(high - low > 2):
            third = (high - low) // 3
            left, right = low + third, high - third
            falls = self._within(block, left) > self._within(block, right)
            low, high = np.where(falls, left, low), np.where(falls, high, right)
        # We checked, but did not prove, that the variance in a block falls once and then rises.
        # Only predicted errors and regret bounds use this (docs/privacy/continual_sum.md).
        least = np.minimum.reduce(
            [self._within(block, each) for each in (low, (low + high) // 2, high)]
        )
        least, last = np.minimum(least, self.past[1:]), self.past[1:]
        return tuple(zip(np.sqrt(least).tolist(), np.sqrt(last).tolist(), strict=True))

    @property
    def _starts(self) -> NDArray[np.int64]:
        """Last round before each block."""
        return np.concatenate([[0], self.ends[:-1]])

    def _within(self, block: IntArray, t: IntArray) -> FloatArray:
        """Return the variance of the sum of round t, in this block or at the last one's end."""
        start = self._starts[block]
        length = np.asarray(t - start, dtype=np.float64)
        p, level = self.plain, self.levels[block]
        eta = [p.gamma[j] * g * _geometric(g, length) for j, g in enumerate(p.g)]
        total = self.past[block] + level**2 * p.row_norm(length) ** 2
        for j, g in enumerate(p.g):
            total = total - 2.0 * level * eta[j] * self.cross[block, j]
            for k, h in enumerate(p.g):
                modes = _geometric(float(g + h - g * h), np.asarray(start, dtype=np.float64))
                total = total + level**2 * eta[j] * eta[k] * modes
        return np.asarray(total)


@lru_cache(maxsize=32)
def _normalised_rows(factor: Normalised) -> NormalisedRows:
    """Return the variances of normalised BLT, block by block; O(blocks buffers^2), cached."""
    p = _build(factor, factor.pushes)
    ends, levels = np.array(factor.ends, dtype=np.int64), np.array(factor.levels)
    rows = NormalisedRows(p, ends, levels, np.zeros(len(ends) + 1), np.zeros((len(ends), len(p.g))))
    joint = p.g[:, None] + p.g[None, :] - np.outer(p.g, p.g)
    starts = rows._starts.astype(np.float64)
    length = (ends - starts)[:, None]
    eta, keep = p.gamma * p.g * geometric(p.g, length), np.exp(length * np.log1p(-p.g))
    taken = np.einsum("bij,bj->bi", geometric(joint, starts[:, None, None]), eta)
    grown = p.row_norm(length[:, 0]) ** 2 + (eta * taken).sum(axis=1)
    added = p.b0 * geometric(p.g, length) + geometric(joint, length[:, :, None]) @ p.gamma
    for i, level in enumerate(levels.tolist()):
        cross = rows.cross[i]
        rows.past[i + 1] = rows.past[i] - 2.0 * level * (eta[i] @ cross) + level**2 * grown[i]
        if i + 1 < len(ends):
            rows.cross[i + 1] = keep[i] * (cross - level * taken[i]) + level * added[i]
    return rows


@lru_cache(maxsize=32)
def _banded_rows(factor: Banded) -> FloatArray:
    """Return the norms of all rows, shape (pushes,); O(n^2), draw by draw."""
    n, levels = factor.pushes, np.array(factor.levels)
    c = np.array(factor.coefficients)
    inverse = np.zeros(n)  # row of 1/C for draws of one scale
    inverse[0] = 1.0
    for t in range(1, n):
        lags = min(t, len(c) - 1)
        inverse[t] = -(c[1 : lags + 1] @ inverse[t - lags : t][::-1])
    squares = np.zeros(n)
    for draw in range(n):
        squares[draw:] += np.cumsum(levels[draw:] * inverse[: n - draw]) ** 2
    rows = np.sqrt(squares)
    rows.setflags(write=False)
    return rows


def blt_parameters(horizon: int) -> BLTParameters:
    """Return the shipped parameters for the smallest tabulated horizon that covers `horizon`."""
    key = find_shipped(positive_int("horizon", horizon))
    return _build(SHIPPED[key], key)


@lru_cache(maxsize=64)
def _build(factor: Buffered, horizon: int) -> BLTParameters:
    """Return encoder and decoder of a buffered sum, from the roots of the secular equation."""
    decay, weights = factor.decay, factor.weights
    g = [(s, *decoder_rate(j, decay, weights)) for j, s in enumerate(decay)]
    rates = np.array([s + shift for s, shift, _ in g])
    # gamma_j = (u_j . sqrt(omega))^2 / g_j for the unit eigenvector u_j proportional to
    # sqrt(omega_i) / (s_i - g_j); the secular equation simplifies this.
    gamma = np.array([1.0 / ((s + shift) * spread) for s, shift, spread in g])
    s, omega = np.array(decay), np.array(weights)
    for array in (s, omega, rates, gamma):
        array.setflags(write=False)
    return BLTParameters(horizon, s, omega, rates, gamma, b0=1.0 - math.fsum(gamma))


def _geometric(x: float, m: FloatArray | float) -> FloatArray:
    """Return sum_{t < m} (1 - x)^t for x in (0, 1], any shape of m."""
    # 1 - (1 - x)^m would cancel for the slow rates of long streams. x = 1 is reduced, because
    # log(0) is infinite.
    return -np.expm1(m * math.log1p(-min(x, 1.0 - 2.0**-53))) / x


def _geometric_sum(x: float, n: int) -> float:
    """Return sum_{t=1..n} of _geometric(x, t)."""
    return float((n - (1.0 - x) * _geometric(x, float(n))) / x)


def _quadratic(weights: FloatArray, rates: FloatArray, m: FloatArray) -> FloatArray:
    """Return sum_ij w_i w_j sum_{t < m} ((1 - x_i)(1 - x_j))^t, any shape of m."""
    m = np.asarray(m, dtype=np.float64)
    total = np.zeros_like(m)
    for i, x in enumerate(rates):
        for j in range(i + 1):
            y = rates[j]
            term = weights[i] * weights[j] * _geometric(float(x + y - x * y), m)
            total = total + (term if i == j else 2.0 * term)
    return total
