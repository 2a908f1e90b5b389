"""Distances between distributions, to measure predictions and to distinguish hypotheses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpoco._validation import FloatArray


def kl_divergence(truth: ArrayLike, prediction: ArrayLike) -> FloatArray:
    """Return the KL divergence of predictions from the truth, in nats: not private.

    Parameters
    ----------
    truth, prediction : arrays of shape (..., M)
        Distributions, nonnegative; leading axes are broadcast, so that one truth can be compared
        with the predictions of many rounds. Their sum over rounds is the KL-risk.

    Returns
    -------
    array of shape (...)
        ``sum_y f(y) log(f(y) / p(y))``; infinite if a label that can occur has probability 0.

    Raises
    ------
    ValueError
        For shapes that do not fit, and for numbers that are negative or not finite.
    """
    f, p = _pair(truth, prediction)
    # 0 log 0 is 0, and f log(f / 0) is infinite. NumPy warns about both.
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(f > 0.0, f * np.log(f / p), 0.0)
    total: FloatArray = terms.sum(axis=-1)
    return total


def total_variation(first: Any, second: Any) -> FloatArray:
    """Return the total variation distance: half the l1 distance, in [0, 1].

    Parameters
    ----------
    first, second : arrays of shape (..., M)
        Distributions; leading axes are broadcast. The mean over rounds is the mean TV-risk.

    Returns
    -------
    array of shape (...)

    Raises
    ------
    ValueError
        See `kl_divergence`.
    """
    p, q = _pair(first, second)
    half: FloatArray = 0.5 * np.abs(p - q).sum(axis=-1)
    return half


def total_variations(matrix: FloatArray) -> FloatArray:
    """Return the distances of all pairs of rows, shape (K, K). O(K^2 M), memory O(K M)."""
    distances = np.empty((matrix.shape[0], matrix.shape[0]))
    # One row at a time, because all pairs at once would take O(K^2 M) memory.
    for own, row in zip(distances, matrix, strict=True):
        own[:] = 0.5 * np.abs(matrix - row).sum(axis=1)
    return distances


def _pair(first: Any, second: Any) -> tuple[FloatArray, FloatArray]:
    """Return two arrays of distributions, or raise `ValueError`."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim == 0 or b.ndim == 0 or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"distributions must have as many labels; got {a.shape} and {b.shape}")
    for values in (a, b):
        if not (np.isfinite(values).all() and (values >= 0.0).all()):
            raise ValueError("distributions must be finite and not negative")
    return a, b
