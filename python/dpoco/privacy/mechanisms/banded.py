"""Banded factorisations for people who come back: their rounds move disjoint rows.

Proof: ``docs/privacy/banded.md``; in integers: ``docs/privacy/lattice.md``. Sources: Choquette-Choo
et al. (2023) for bands no wider than the separation; column norms with weights are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpoco.privacy.mechanisms.factorisations import Factorisation
from dpoco.privacy.mechanisms.participation import banded_column
from dpoco.privacy.records import limits

__all__ = ["LONGEST_BANDED", "WIDEST_BAND", "Banded"]

# Each push costs a multiply-add per past draw in the band; every coordinate stores these draws.
LONGEST_BANDED, WIDEST_BAND = 10**4, 10**3
_POWER = 0.57
_STEEPEST = 0.25  # a larger tilt would make the last draws too small for a lattice


@dataclass(frozen=True)
class Banded(Factorisation):
    """Column t of C holds the first `band` coefficients of (1 - x)^-0.57, divided by a level.

    A column of window j = floor(t / band), cut off at the last push and divided by its level, has a
    norm proportional to max(windows - j, 1)^tilt, with the same factor for all columns. Levels are
    at most 1, and scales are those of the largest draw.

    Attributes
    ----------
    pushes : int
        Largest number of pushes, up to 10^4.
    band : int
        Coefficients of a column, up to 1000 and up to `pushes`.
    windows : int
        Number of windows; from the last one on all columns have the same norm.
    tilt : float
        Exponent by which columns of earlier windows are longer, from 0 to 1/4.
    """

    kind = "banded"
    pushes: int
    band: int
    windows: int
    tilt: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse numbers that the proofs do not cover."""
        super().__post_init__()
        if self.pushes > LONGEST_BANDED or not self.band <= min(self.pushes, WIDEST_BAND):
            raise ValueError(f"a band of {self.band} is not for {self.pushes} pushes")
        if self.windows > self.pushes or self.tilt > _STEEPEST:
            raise ValueError("more windows than pushes, or columns that shrink too fast")

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Largest number of pushes."""
        return self.pushes

    @property
    def coefficients(self) -> tuple[float, ...]:
        """The first `band` coefficients of (1 - x)^-0.57."""
        return _coefficients(self.band)

    @property
    def levels(self) -> tuple[float, ...]:
        """The scales of the draws, one per push, in units of the largest."""
        return _levels(self)

    def _weights(self) -> NDArray[np.float64]:
        """Return the norms of the columns of each window, up to the common factor."""
        left = self.windows - np.arange(-(-self.pushes // self.band), dtype=np.float64)
        return np.asarray(np.maximum(left, 1.0) ** self.tilt)

    def _longest_column(self, pushes: int) -> float:
        return self._participation(pushes, 1, 1, 1)

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        norm = banded_column(self._weights(), self.band, self.pushes, batch, rounds, separation)
        # Scales are those of the largest draw: the common factor makes its level 1.
        return float(_draws(self).max()) * norm

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return the l2 change per root of entries that rounded sums of past noise add."""
        return 2.0 * grid * math.sqrt(float((np.array(self.levels) ** -2.0).sum()) / pushes)


@lru_cache(maxsize=16)
def _coefficients(band: int) -> tuple[float, ...]:
    i = np.arange(1, band)
    return tuple(np.cumprod([1.0, *((i - 1 + _POWER) / i)]).tolist())


def _draws(factor: Banded) -> NDArray[np.float64]:
    """Return the norms of the columns of coefficients, divided by the prescribed norms."""
    norms = np.sqrt(np.cumsum(np.square(_coefficients(factor.band))))
    # Columns near the last push are cut off there, so they are shorter.
    left = np.minimum(factor.pushes - np.arange(factor.pushes), factor.band)
    return np.asarray(norms[left - 1] / np.repeat(factor._weights(), factor.band)[: factor.pushes])


@lru_cache(maxsize=16)
def _levels(factor: Banded) -> tuple[float, ...]:
    draws = _draws(factor)
    # Shares are rounded up to 32 bits, so that machines agree even if their powers differ.
    shares = np.ceil(draws / draws.max() * (1.0 + 2.0**-40) * 2.0**32) * 2.0**-32
    return tuple(np.minimum(1.0, shares).tolist())
