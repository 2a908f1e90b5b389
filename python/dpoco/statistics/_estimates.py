"""Numbers with exact error bars from noisy counts: linear ones, ratios and quantiles.

The noise of all cells is independent and Gaussian with a public deviation, so intervals are exact:
they cover the value that the same records have without noise. They say nothing about how well
these records stand for others. Sources: Fieller (1954) for ratios; inverted tests for quantiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpoco._validation import FloatArray

__all__ = ["Estimates", "linear", "quantiles", "ratio"]

# A count is clearly above 0 if it is so many deviations above.
CLEAR = 1.959963984540054
Bounds = Callable[[float], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Estimates:
    """The numbers of one statistic in one view, for all groups.

    Attributes
    ----------
    labels : tuple of str
        What each number of a group is: the bin, the category or the quantile; "" for a single one.
    values : ndarray, shape (groups, labels)
        NaN where the noise hides the value.
    deviations : ndarray, shape (groups, labels)
        Standard deviations of the noise: exact for counts and sums; to first order for means,
        shares and quantiles.
    bounds : callable
        From a number of deviations z to lower and upper ends, of the same shape.
    whole : bool
        Whether values count records, so that they may be rounded to integers from 0 on.
    """

    labels: tuple[str, ...]
    values: FloatArray
    deviations: FloatArray
    bounds: Bounds
    whole: bool = False


def linear(
    labels: tuple[str, ...], values: FloatArray, deviation: float, *, whole: bool = False
) -> Estimates:
    """Return estimates with noise of one deviation."""

    def bounds(z: float) -> tuple[FloatArray, FloatArray]:
        return values - z * deviation, values + z * deviation

    return Estimates(labels, values, np.full_like(values, deviation), bounds, whole)


def ratio(
    top: FloatArray,
    bottom: FloatArray,
    variances: tuple[float, float, float],
    low: float,
    high: float,
    shift: float = 0.0,
) -> Estimates:
    """Return shift + top / bottom, kept within [low, high], with Fieller's sets.

    Parameters
    ----------
    top, bottom : ndarray, shape (groups, 1)
        Noisy numbers; `bottom` is a count.
    variances : (float, float, float)
        Of the noise of `top`, of `bottom`, and their covariance.
    low, high : float
        What the value can be. A set that Fieller's method does not bound is [low, high].
    shift : float
        Added to the ratio.
    """
    of_top, of_bottom, joint = variances
    known = bottom > CLEAR * np.sqrt(of_bottom)
    quotient = np.where(known, top, np.nan) / np.where(known, bottom, 1.0)
    spread = of_top - 2.0 * quotient * joint + quotient**2 * of_bottom
    deviations = np.sqrt(np.maximum(spread, 0.0)) / np.where(known, bottom, 1.0)

    def bounds(z: float) -> tuple[FloatArray, FloatArray]:
        a = bottom**2 - z * z * of_bottom
        b = top * bottom - z * z * joint
        c = top**2 - z * z * of_top
        bounded = (a > 0.0) & (bottom > 0.0)
        root = np.sqrt(np.maximum(b * b - a * c, 0.0))
        divisor = np.where(bounded, a, 1.0)
        least = np.where(bounded, (b - root) / divisor + shift, low)
        most = np.where(bounded, (b + root) / divisor + shift, high)
        return np.clip(least, low, high), np.clip(most, low, high)

    return Estimates(("",), np.clip(quotient + shift, low, high), deviations, bounds)


def quantiles(
    probabilities: tuple[float, ...], edges: FloatArray, counts: FloatArray, deviation: float
) -> Estimates:
    """Return quantiles from noisy counts of bins, linear within a bin.

    Parameters
    ----------
    probabilities : tuple of float
        In (0, 1).
    edges : ndarray, shape (bins + 1,)
        Ends of the bins.
    counts : ndarray, shape (groups, bins)
        Noisy counts with independent noise of this deviation.
    """
    found = [_quantile(q, edges, counts, deviation) for q in probabilities]

    def bounds(z: float) -> tuple[FloatArray, FloatArray]:
        ends = [_quantile_set(q, edges, counts, deviation, z) for q in probabilities]
        return (np.stack([low for low, _ in ends], -1), np.stack([high for _, high in ends], -1))

    low, high = bounds(1.0)
    values = np.stack(found, -1)
    deviations = np.where(np.isnan(values), np.nan, 0.5 * (high - low))
    return Estimates(tuple(f"{q:g}" for q in probabilities), values, deviations, bounds)


def _quantile(q: float, edges: FloatArray, counts: FloatArray, deviation: float) -> FloatArray:
    """Return the quantile of the isotonic cumulative counts, shape (groups,)."""
    groups, bins = counts.shape
    sums = np.concatenate([np.zeros((groups, 1)), np.cumsum(counts, axis=1)], axis=1)
    # Midway between the largest monotone curve below and the smallest one above.
    above = np.maximum.accumulate(sums, axis=1)
    below = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
    curve = 0.5 * (above + below)
    values = np.full(groups, np.nan)
    for group in range(groups):
        if sums[group, -1] > CLEAR * deviation * np.sqrt(bins):
            own = curve[group] - curve[group, 0]
            values[group] = np.interp(q * own[-1], own, edges)
    return values


def _quantile_set(
    q: float, edges: FloatArray, counts: FloatArray, deviation: float, z: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of all x at which a test at level z does not reject that x is the quantile.

    At the fraction f of bin k the noise of (records below x) - q (all records) has the variance
    deviation^2 (k (1 - q)^2 + (f - q)^2 + (bins - 1 - k) q^2), and the test rejects where that
    number is more than z deviations from 0: a quadratic inequality in f.
    """
    bins = counts.shape[1]
    k = np.arange(bins, dtype=np.float64)
    total = counts.sum(axis=1, keepdims=True)
    start = np.cumsum(counts, axis=1) - counts - q * total
    unit = (z * deviation) ** 2
    rest = k * (1.0 - q) ** 2 + (bins - 1.0 - k) * q**2
    # a f^2 + 2 b f + c <= 0
    a = counts**2 - unit
    b = start * counts + unit * q
    c = start**2 - unit * (rest + q * q)
    inside = b * b - a * c
    root = np.sqrt(np.maximum(inside, 0.0))
    safe = np.where(a == 0.0, 1.0, a)
    one, other = (-b - root) / safe, (-b + root) / safe
    # Ends of a bin, and roots within it, are the only candidates for the ends of the set.
    fractions = np.stack([np.zeros_like(a), np.ones_like(a), one, other])
    within = (fractions >= 0.0) & (fractions <= 1.0)
    value = a * fractions**2 + 2.0 * b * fractions + c
    kept = within & (value <= 1e-9 * (np.abs(c) + np.abs(b) + np.abs(a) + unit))
    kept[2:] |= within[2:] & (inside >= 0.0)
    x = edges[:-1] + fractions * np.diff(edges)
    least = np.where(kept, x, np.inf).min(axis=(0, 2))
    most = np.where(kept, x, -np.inf).max(axis=(0, 2))
    empty = least > most  # nothing is accepted: say nothing
    return np.where(empty, edges[0], least), np.where(empty, edges[-1], most)
