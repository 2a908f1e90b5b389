"""How the draws behind running sums are correlated: factorisations of prefix sums.

A = B C with C lower triangular; each row of C g gets one independent draw, and the sums are B times
these rows. Only the columns of C count: the longest one is the factor on the sensitivity.

Proof: ``docs/privacy/continual_sum.md``; in integers: ``docs/privacy/lattice.md``. Sources: Dwork
et al. and Chan et al. (tree, 2010); Fichtenberger, Henzinger and Upadhyay
(square-root Toeplitz, 2023); Dvijotham et al. (BLT, 2024), with our own parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
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

__all__ = ["Buffered", "Factorisation", "Normalised", "Rates", "SquareRoot", "Tree",
           "decoder_rate"]  # fmt: skip

Rates = tuple[float, ...]

SQUARE_ROOT_LIMIT = 4096  # it stores every past draw: O(n d) memory, O(n d) time per push
_BUFFER_BITS = 43
# The proof allows a swing of 5.07; the rounding of `_swing` is far below the distance from 5 to
# 5.07 (docs/privacy/lattice.md, "Which parameters fit").
_BUFFERS, _LONGEST, _SWING = 5, 2**40, 5.0  # on a lattice
_FOLLOWED = 10**5  # largest number of a person's rounds that are added one by one


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
        """Return the largest l2 norm of |C| times one person's rounds, with `batch` per push.

        For a single round this is the norm of a column.
        """
        # The norm for a single round is that of a column, and exact. Bounds for patterns are
        # raised by their rounding.
        if most_rounds(near.rounds, near.separation, pushes * batch) == 1:
            return self._longest_column(pushes)
        return self._participation(pushes, batch, near.rounds, near.separation)

    def _longest_column(self, pushes: int) -> float:
        raise NotImplementedError

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        raise NotImplementedError

    def draws(self, pushes: int) -> int:
        """Return the largest number of noise vectors that are drawn."""
        return pushes

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return the l2 change per root of entries that rounding correlated noise adds to rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class Buffered(Factorisation):
    """C is Toeplitz with c_0 = 1 and c_i = sum_j weights_j (1 - decay_j)^(i-1) (BLT)."""

    kind = "blt"
    decay: Rates
    weights: Rates

    def __post_init__(self) -> None:
        """Refuse rates from 1 on, and coefficients that do not fall."""
        super().__post_init__()
        if not 0 < len(self.decay) == len(self.weights) or not max(self.decay) < 1.0:
            raise ValueError("blt needs a rate below 1 for every weight")
        # If the weights add up to at most 1, coefficients do not increase, and the earliest and
        # closest pattern of a person is the worst (docs/privacy/participation.md, "The worst
        # pattern").
        if not math.fsum(self.weights) <= 1.0:
            raise ValueError("weights of blt must add up to at most 1")

    def fits(self, pushes: int) -> bool:
        """Whether buffers and noise in integers overflow with 2^-100 each at most (lattices)."""
        pairs = [*zip(self.decay, self.weights, strict=True)]
        # Conditions (i) to (iii) of docs/privacy/lattice.md, "Which parameters fit".
        held = 1.0 + sum(w / s for s, w in pairs)
        falling = sum(w / (1.0 - s) for s, w in pairs) <= 1.0  # eigenvalues are at most 1
        few = falling and len(self.decay) <= _BUFFERS and pushes <= _LONGEST
        drift = min(float(pushes), 1.0 / (self.decay[0] * held))  # of rounding, in grids
        calm = drift <= 2.0**18 and math.sqrt(pushes) <= 2.0**12 * held
        return few and calm and _swing(self.decay, self.weights) <= _SWING

    def _longest_column(self, pushes: int) -> float:
        """Return the norm of the first column; the others contain only a part of it."""
        return _column(self, pushes)

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        return blt_column(self.decay, self.weights, pushes, batch, rounds, separation)

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return the change that rounded buffers and sums add, if they fit."""
        return (1.0 + 2.0**-10) * grid + 1.25 * self._memory(pushes, scale)

    def _memory(self, pushes: int, scale: float) -> float:
        """Return the error in the sum of the buffers due to an error of one unit in every round."""
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
        Largest number of pushes.
    """

    kind = "blt_normalised"
    pushes: int

    def __post_init__(self) -> None:
        """Refuse coefficients whose ratios fall, because their worst pattern is not known."""
        super().__post_init__()
        # Ratios of successive coefficients must not fall. The margin exceeds the rounding of both
        # sums, so weights for which both sides agree up to rounding are refused.
        third = math.fsum(w * (1.0 - s) for w, s in zip(self.weights, self.decay, strict=True))
        if not math.fsum(self.weights) ** 2 <= third * (1.0 - 2.0**-40):
            raise ValueError("blt_normalised needs (sum of w)^2 <= sum of w (1 - s)")

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Largest number of pushes."""
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
        # Levels belong to the whole horizon, even if fewer pushes are released.
        return _column(self, self.pushes)

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        n, k = self.pushes, most_rounds(rounds, separation, self.pushes * batch)
        if k > _FOLLOWED:  # levels are at least 1 / the first norm
            plain = blt_column(self.decay, self.weights, n, batch, rounds, separation)
            return self._longest_column(n) * min(k, plain)
        return _people(self, batch, k, separation)

    def path(self, pushes: int, grid: float, scale: float) -> float:
        """Return the change that rounded buffers and sums add, also at the ends of blocks."""
        first, lengths = self._longest_column(pushes), np.diff(self.ends, prepend=0)
        smaller = math.sqrt(float((lengths / np.square(self.levels)).sum()) / pushes)
        changes = 1.5 * math.sqrt(len(lengths) / pushes) * first
        memory = self._memory(self.pushes, scale)
        return (1.0 + 2.0**-10) * grid * smaller + memory * (1.25 * smaller + changes)


def decoder_rate(j: int, decay: Rates, weights: Rates) -> tuple[float, float]:
    """Return g - s_j of the j-th eigenvalue g of the decoder, and sum_i w_i / (s_i - g)^2.

    The eigenvalues are those of diag(s) + sqrt(w) sqrt(w)^T, for rates s in increasing order, and
    interlace with the rates. Solving the secular equation for g - s_j keeps full relative accuracy
    for the smallest eigenvalue, which a dense eigensolver would lose.
    """
    gaps = [s - decay[j] for s in decay]
    terms = list(zip(weights, gaps, strict=True))
    low, high = 0.0, gaps[j + 1] if j + 1 < len(decay) else math.fsum(weights)
    while True:
        shift = 0.5 * (low + high)
        if not low < shift < high:
            break
        # Bisection continues until the ends are neighbouring doubles, so no tolerance is needed.
        if 1.0 + math.fsum(w / (gap - shift) for w, gap in terms) < 0.0:
            low = shift
        else:
            high = shift
    return shift, math.fsum(w / (gap - shift) ** 2 for w, gap in terms)


@lru_cache(maxsize=256)
def _swing(decay: Rates, weights: Rates) -> float:
    """Return a bound on the norm that any number of draws of scale 1 give to any buffer.

    It is the norm of the slowest buffer, a sum of positive terms, times a factor for the others.
    """
    if any(later <= s for s, later in pairwise(decay)):
        return math.inf  # rates must increase
    first = decay[0]
    found = [(s, *decoder_rate(j, decay, weights)) for j, s in enumerate(decay)]
    modes = [(s + shift, 1.0 / ((s - first + shift) * pull)) for s, shift, pull in found]
    squared = sum(a * b / (g + h - g * h) for g, a in modes for h, b in modes)
    return math.sqrt(squared) * (2.0 - first) / (2.0 - decay[-1])


@lru_cache(maxsize=64)
def _blocks(factor: Normalised) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the blocks: one push each in the last 32 pushes, 32 blocks in every octave before."""
    n, left = factor.pushes, [0]  # pushes behind every block, from the last one on
    while left[-1] < n:
        octave = max(left[-1], 32).bit_length() - 1
        left.append(min(n, left[-1] + (1 << (octave - 5))))
    # A block has the level of its first column, which is the longest; the factor pays for the
    # rounding of the closed form (docs/privacy/continual_sum.md, "Blocks").
    norms = _columns(factor, np.array(left[1:], dtype=np.float64)) * (1.0 + 2.0**-48)
    # Levels are rounded up to 32 bits, so that machines agree even if their logarithms differ.
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
            # The logarithm below is not finite at a ratio of 1; a smaller ratio gives a longer
            # column, which is safe.
            ratio = min(x + y - x * y, 1.0 - 2.0**-53)
            # This is the sum of (1 - ratio)^t over t < m.
            geometric = -np.expm1(m * math.log1p(-ratio)) / ratio
            term = factor.weights[i] * factor.weights[j] * geometric
            total = total + (term if i == j else 2.0 * term)
    return np.sqrt(1.0 + total)


@dataclass(frozen=True)
class Tree(Factorisation):
    """Dyadic nodes with one draw each."""

    kind = "tree"

    def _longest_column(self, pushes: int) -> float:
        """Return the root of the largest number of completed nodes with one leaf, one per size."""
        return math.sqrt(pushes.bit_length())

    def _participation(self, pushes: int, batch: int, rounds: int, separation: int) -> float:
        return tree_column(pushes, batch, rounds, separation)

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
        """Return the change that rounded sums of past draws add."""
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
