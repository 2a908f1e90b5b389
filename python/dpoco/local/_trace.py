"""What a simulation of the server and its devices measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LocalTrace"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class LocalTrace:
    """What a simulation measured. **Not private**: it is computed from the truth.

    Attributes
    ----------
    kl : array of shape (T,) or None
        KL(f_*, prediction) of each round, nats; None without a truth.
    tv : array of shape (T,) or None
        Total variation distance of each round, half the l1 distance.
    checkpoints : array of shape (n,)
        Rounds after which weights were kept.
    weights : array of shape (n, K)
        Weights after these rounds.
    misses : int or None
        Rounds after which the true hypothesis was outside the confidence set; None without one.
    first_miss : int or None
        The first such round; None for never.
    subsets : int
        Rounds that asked for a subset.
    """

    kl: FloatArray | None
    tv: FloatArray | None
    checkpoints: IntArray
    weights: FloatArray
    misses: int | None
    first_miss: int | None
    subsets: int

    @property
    def kl_risk(self) -> float:
        """Sum of the KL divergences, nats."""
        return float(_given(self.kl).sum())

    @property
    def mean_tv_risk(self) -> float:
        """Mean total variation distance."""
        return float(_given(self.tv).mean())

    def __repr__(self) -> str:
        rounds = "" if self.kl is None else f", kl_risk={self.kl_risk:.4g}"
        return f"LocalTrace(not private, checkpoints={len(self.checkpoints)}{rounds})"


def _given(values: FloatArray | None) -> FloatArray:
    if values is None:
        raise ValueError("no truth was named, so there is no risk")
    return values
