"""How running sums mix their draws, as matrices; and what makes their noise white."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpoco.audit._family import FloatArray
from dpoco.privacy.mechanisms.factorisations import Buffered, Factorisation, Normalised, Tree

__all__ = ["noise_map", "whitening_of"]


def noise_map(factor: Factorisation, rounds: int) -> FloatArray:
    """Return the matrix from independent draws of scale 1 to the noise of the first sums.

    Shape (rounds, draws). Computed from the definition of each factorisation, not by the engine.
    """
    if isinstance(factor, Tree):
        return _tree_map(rounds, weighted=factor.combined)
    if not isinstance(factor, Buffered):
        first: Any = np.cumprod([1.0, *((2.0 * k - 1.0) / (2.0 * k) for k in range(1, rounds))])
        return _lower_toeplitz(first)
    powers = (1.0 - np.array(factor.decay)) ** np.arange(max(rounds - 1, 0))[:, None]
    encoder = _lower_toeplitz(np.concatenate([[1.0], powers @ np.array(factor.weights)]))
    if isinstance(factor, Normalised):
        encoder = encoder / np.repeat(factor.levels, np.diff(factor.ends, prepend=0))[:rounds]
    decoder: Any = np.linalg.solve(encoder.T, np.triu(np.ones((rounds, rounds)))).T
    result: FloatArray = decoder
    return result


def whitening_of(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a lower-triangular L with L L' = M M'."""
    upper: Any = np.linalg.qr(matrix.T, mode="r")
    return np.linalg.inv(upper.T)


def _lower_toeplitz(first: Any) -> FloatArray:
    n = len(first)
    lags = np.arange(n)[:, None] - np.arange(n)[None, :]
    return np.where(lags >= 0, first[np.abs(lags)], 0.0)


def _tree_map(rounds: int, *, weighted: bool) -> FloatArray:
    """Return the map of the binary tree; with weights, of Honaker's estimate from below."""
    top, variance, own = rounds.bit_length(), 1.0, [1.0]
    for _ in range(1, top):  # the children's sum has variance 2 v
        variance = 2.0 * variance / (1.0 + 2.0 * variance)
        own.append(variance if weighted else 1.0)
    nodes = [(h, i) for h in range(top) for i in range(rounds >> h)]
    rows: dict[tuple[int, int], FloatArray] = {}
    for (h, i), unit in zip(nodes, np.eye(len(nodes)), strict=True):
        rows[h, i] = own[h] * unit
        if own[h] < 1.0:
            rows[h, i] += (1.0 - own[h]) * (rows[h - 1, 2 * i] + rows[h - 1, 2 * i + 1])
    prefixes = range(1, rounds + 1)
    levels = [[h for h in range(top) if t >> h & 1] for t in prefixes]
    out: FloatArray = np.array(
        [sum(rows[h, (t >> h) - 1] for h in hs) for t, hs in zip(prefixes, levels, strict=True)]
    )
    return out
