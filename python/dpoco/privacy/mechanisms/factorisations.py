"""How the draws behind running sums are correlated: factorisations of prefix sums.

A = B C with C lower triangular; each row of C g gets one independent draw, and the sums are B times
these rows. Only the columns of C count: the longest one is the factor on the sensitivity.

Proof: ``docs/privacy/continual_sum.md``; in integers: ``docs/privacy/lattice.md``. Sources: Dwork
et al. and Chan et al. (tree, 2010); Honaker (2015); Fichtenberger, Henzinger and Upadhyay
(square-root Toeplitz, 2023); Dvijotham et al. (BLT, 2024), with our own parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.privacy.mechanisms.participation import (
    blt_column,
    coefficients_column,
    most_rounds,
    normalised_column,
    tree_column,
)
from dpoco.privacy.neighbours import ONE, Neighbours
from dpoco.privacy.records import Description

__all__ = ["RATES", "SHIPPED", "AnyFactorisation", "Buffered", "Normalised", "SquareRoot", "Tree"]

SQUARE_ROOT_LIMIT = 4096  # it keeps every past draw: O(n d) memory, O(n d) time a push
_BUFFER_BITS = 43
_FOLLOWED = 10**5  # rounds of a person that are followed one by one


@dataclass(frozen=True)
class Factorisation(Description):
    """Base of the factorisations.

    Attributes
    ----------
    longest : int
        Most pushes it is for.
    """

    longest = 10**18

    def column(self, pushes: int, near: Neighbours = ONE, batch: int = 1) -> float:
        """Return the largest l2 norm that |C| makes of one person's rounds, `batch` to a push.

        For a single round that of a column.
        """
        if most_rounds(near.rounds, near.separation, pushes * batch) == 1:
            return self._longest_column(pushes)
        return self._participation(pushes, batch, near.rounds, near.separation)

    def _longest_column(self, pushes: int) -> float:
        raise NotImplementedError

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        raise NotImplementedError

    def draws(self, pushes: int) -> int:
        """Return how many vectors of noise are drawn, at most."""
        return pushes

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return the l2 change per root of entries that rounding correlated noise adds to rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class Buffered(Factorisation):
    """C is Toeplitz with c_0 = 1 and c_i = sum_j weights_j (1 - decay_j)^(i-1) (BLT)."""

    kind = "blt"
    decay: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse rates from 1 on."""
        super().__post_init__()
        if len(self.decay) != len(self.weights) or not all(s < 1.0 for s in self.decay):
            raise ValueError("blt needs a rate below 1 for every weight")

    def _longest_column(self, pushes: int) -> float:
        """Return the norm of the first column, of which the others hold a part."""
        return _column(self, pushes)

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        return blt_column(self.decay, self.weights, pushes, batch, rounds, separation)

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return what rounded buffers and sums add, for the `SHIPPED` parameters only."""
        return (1.0 + 2.0**-10) * grid + 1.25 * self._memory(pushes, scale)

    def _memory(self, pushes: int, scale: float) -> float:
        """Return what an error of one unit in every round leaves in the sum of the buffers."""
        unit = math.ldexp(1.0, math.frexp(scale)[1] - 1 - _BUFFER_BITS)
        memory: float = sum(
            w * min(1.0 / s, float(pushes)) for w, s in zip(self.weights, self.decay, strict=True)
        )
        return unit * memory


@dataclass(frozen=True)
class Normalised(Buffered):
    """`Buffered` with smaller draws later on: each column of C is as long as the first, or shorter.

    Column i is divided by the level of its block, at least (norm of that column) / (norm of the
    first); scales are those of the first draw.

    Attributes
    ----------
    pushes : int
        Those that it is for, at most.
    """

    kind = "blt_normalised"
    pushes: int

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Most pushes it is for."""
        return self.pushes

    @property
    def ends(self) -> tuple[int, ...]:
        """The last push of every block, in order."""
        return _blocks(self)[0]

    @property
    def levels(self) -> tuple[float, ...]:
        """The scales of the blocks' draws, not increasing; the first is 1."""
        return _blocks(self)[1]

    def _longest_column(self, pushes: int) -> float:
        return _column(self, self.pushes)

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        s, w, n = np.array(self.decay), np.array(self.weights), self.pushes
        k, first = most_rounds(rounds, separation, n * batch), self._longest_column(n)
        falling = w.sum() <= 1.0 and w.sum() ** 2 <= float(w @ (1.0 - s))  # and so are their ratios
        if k > _FOLLOWED or not falling:  # levels are at least 1 / first
            plain = blt_column(self.decay, self.weights, n, batch, rounds, separation)
            return first * min(k, plain)
        return _people(self, batch, k, separation)

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return what rounded buffers and sums add, and buffers' rounding at the blocks' ends."""
        first, lengths = self._longest_column(pushes), np.diff(self.ends, prepend=0)
        smaller = math.sqrt(float((lengths / np.square(self.levels)).sum()) / pushes)
        changes = 1.5 * math.sqrt(len(lengths) / pushes) * first
        memory = self._memory(self.pushes, scale)
        return (1.0 + 2.0**-10) * grid * smaller + memory * (1.25 * smaller + changes)


@lru_cache(maxsize=64)
def _blocks(factor: Normalised) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the blocks, of one push in the last 32 and of 32 in every octave before them."""
    n, left = factor.pushes, [0]  # pushes behind every block, from the last one on
    while left[-1] < n:
        octave = max(left[-1], 32).bit_length() - 1
        left.append(min(n, left[-1] + (1 << (octave - 5))))
    norms = _columns(factor, np.array(left[1:], dtype=np.float64)) * (1.0 + 2.0**-48)
    # Up to 32 bits, so that machines whose logarithms differ agree.
    levels = np.minimum(1.0, np.ceil(norms / _column(factor, n) * 2.0**32) * 2.0**-32)
    return tuple(n - behind for behind in left[-2::-1]), tuple(levels[::-1].tolist())


@lru_cache(maxsize=256)
def _people(factor: Normalised, batch: int, rounds: int, separation: int) -> float:
    n, norms = factor.pushes, partial(_columns, factor)
    found = normalised_column(factor.decay, factor.weights, norms, n, batch, rounds, separation)
    return _column(factor, n) * found


@lru_cache(maxsize=1024)
def _column(factor: Buffered, pushes: int) -> float:
    return float(_columns(factor, np.float64(pushes)))


def _columns(factor: Buffered, pushes: Any) -> Any:
    """Return the norms of the first `pushes` coefficients, of any shape."""
    total, m = np.float64(0.0), pushes - 1.0
    for i, x in enumerate(factor.decay):
        for j in range(i + 1):
            y = factor.decay[j]
            ratio = min(x + y - x * y, 1.0 - 2.0**-53)
            # The sum of (1 - ratio)^t over t < m.
            geometric = -np.expm1(m * math.log1p(-ratio)) / ratio
            term = factor.weights[i] * factor.weights[j] * geometric
            total = total + (term if i == j else 2.0 * term)
    return np.sqrt(1.0 + total)


@dataclass(frozen=True)
class Tree(Factorisation):
    """Dyadic nodes with one draw each.

    `combined` (Honaker): nodes are estimated from their descendants, too, which is post-processing
    of the same nodes with up to twice the draws.
    """

    kind = "tree"
    combined: bool = False

    def _longest_column(self, pushes: int) -> float:
        """Return the root of the number of completed nodes a leaf can lie in, one of each size."""
        return math.sqrt(pushes.bit_length())

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        return tree_column(pushes, batch, rounds, separation)

    def draws(self, pushes: int) -> int:
        """Return one a push; combined, one more for every right child."""
        return 2 * pushes if self.combined else pushes

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return 0: noisy nodes are integers plus their draws."""
        return 0.0


@dataclass(frozen=True)
class SquareRoot(Factorisation):
    """B = C = A^(1/2): Toeplitz with the coefficients of (1 - x)^(-1/2)."""

    kind = "square_root"
    longest = SQUARE_ROOT_LIMIT

    def _longest_column(self, pushes: int) -> float:
        """Return the norm of the first column."""
        return float(square_root_norms()[pushes - 1])

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        return coefficients_column(square_roots()[:pushes], batch, rounds, separation)

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return what rounded sums of past draws add."""
        return 8.0 * grid


@lru_cache(maxsize=1)
def square_roots() -> NDArray[np.float64]:
    """Return the first 4096 coefficients f_k of (1 - x)^(-1/2)."""
    k = np.arange(1, SQUARE_ROOT_LIMIT)
    coefficients = np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / k)])
    coefficients.setflags(write=False)
    return coefficients


@lru_cache(maxsize=1)
def square_root_norms() -> NDArray[np.float64]:
    """Return sqrt(sum_{k < t} f_k^2) for t = 1..4096."""
    norms: NDArray[np.float64] = np.sqrt(np.cumsum(square_roots() ** 2))
    norms.setflags(write=False)
    return norms


AnyFactorisation = Buffered | Normalised | Tree | SquareRoot

# Decay and weights, by the number of pushes they are best for. Any are safe for as many as one
# likes; that no buffer in integers overflows was computed for these.
RATES = {
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
SHIPPED = {pushes: Buffered(*rates) for pushes, rates in RATES.items()}
