"""Running sums of bounded vectors, released with noise.

An engine that is built from a `GaussianSum` bounds the contribution of a round as `summand` states,
adds up `batch` rounds, and releases the `pushes` running sums with draws of scale `scale` that the
factorisation correlates. It takes all of these numbers from the description and has no others.

Claim: all sums together, and all that is computed from them, are mu-GDP with mu = (column of the
factorisation) (inflation) (movement of the summand) / scale, for adaptive streams, up to the total
variation of the draws' tails. In integers, rounding is part of mu.

Proof: ``docs/privacy/continual_sum.md``, ``docs/privacy/generalized_gaussian.md``,
``docs/privacy/lattice.md``, ``docs/privacy/noise.md``, ``docs/privacy/statistics.md``,
``docs/privacy/deep_learning.md``, ``docs/privacy/banded.md``, ``docs/privacy/residual_phases.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from dpoco.privacy.losses.combined import NOTHING, with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.base import Mechanism, check_view
from dpoco.privacy.mechanisms.bounds import (
    CentredLosses,
    ClippedVector,
    ClippedVectors,
    GlmGradient,
    GradientAndCurvature,
    IntervalTotals,
    MomentsAndLoss,
    SecondMoments,
)
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised, SquareRoot, Tree
from dpoco.privacy.mechanisms.lattice import LARGEST_LIMIT, LARGEST_SUM, grid_bits
from dpoco.privacy.mechanisms.nets import NetDifferences
from dpoco.privacy.mechanisms.participation import arms_column, most_rounds
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import limits

__all__ = ["EXACT_TAIL", "TAIL", "AnyFactorisation", "AnySummand", "GaussianSum",
           "batch_starts"]  # fmt: skip

AnyFactorisation = Buffered | Normalised | Tree | SquareRoot | Banded
AnySummand = (ClippedVector | ClippedVectors | GlmGradient | GradientAndCurvature | SecondMoments
              | MomentsAndLoss | ResidualStatistics | CentredLosses | IntervalTotals
              | NetDifferences)  # fmt: skip

# Total variation of one variate in doubles, and of one draw or buffer of exact integers. The true
# value of the second is below 2^-280.
TAIL, EXACT_TAIL = 2.0**-64, 2.0**-100


def batch_starts(first: int, growth: str) -> Iterator[int]:
    """Yield the number of rounds before each growing batch, up to 2^42; see `GaussianSum`."""
    # Engines compute the ends of batches with the same integers and the same doubles.
    start, length = 0, float(first)
    while start < 2**42:
        yield start
        if growth == "three_tenths":
            start, length = start + int(length), 1.3 * length
            continue
        grown = start // 4 if growth == "quarter" else min(start // 10, math.isqrt(4 * start))
        start += max(first, grown)


@lru_cache(maxsize=1024)
def _extent(first: int, growth: str | None, pushes: int) -> tuple[int, int]:
    """Return the length of the longest of `pushes` batches, and the end of the next batch."""
    if growth is None:
        return first, (pushes + 1) * first
    starts = tuple(islice(batch_starts(first, growth), pushes - 1, pushes + 2))
    if len(starts) < 3:
        raise ValueError(f"{pushes} growing batches are too long")
    return starts[1] - starts[0], starts[2]


@dataclass(frozen=True)
class GaussianSum(Mechanism):
    """All running sums of contributions, with Gaussian or (order > 2) generalised Gaussian noise.

    Attributes
    ----------
    summand : AnySummand
        Contribution of a round, and the bounds that the engine enforces.
    factorisation : AnyFactorisation
        How draws are correlated.
    pushes : int
        Number of sums released; may be 0.
    batch : int
        Rounds added up for each sum; for the first one, if batches grow.
    growth : {"root", "quarter", "three_tenths"} or None
        How batches grow. After e rounds comes a batch of max(batch, g) rounds, where g is
        min(e // 10, isqrt(4 e)) ("root") or e // 4 ("quarter"); or each batch is 1.3 times as long
        as the one before, in doubles, rounded down ("three_tenths"). None: batches do not grow.
    scale : float
        Scale of the largest draw, in units of the summand; 0 is no noise.
    order : float
        Order of the noise's norm: 2 is Gaussian; a larger order is for vectors that are bounded in
        a norm of that order or more.
    grid : float
        Spacing of the integers sums are kept in; 0 for doubles, whose rounding no proof covers.
    limit : int
        Bound, in grids, on the entries that one push adds; 0 for doubles.
    """

    kind = "gaussian_sum"
    unsaid = ("growth",)
    noise = "fresh"
    one_round = True
    reacting = True
    proofs = ("continual_sum", "participation", "generalized_gaussian", "lattice", "noise",
              "statistics", "deep_learning", "banded", "residual_phases")  # fmt: skip
    summand: AnySummand
    factorisation: AnyFactorisation
    pushes: int = limits(zero=True)
    batch: int = 1
    scale: float = limits(zero=True, default=0.0)
    order: float = 2.0
    grid: float = limits(zero=True, default=0.0)
    limit: int = limits(zero=True, default=0)
    growth: str | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that the proofs do not cover."""
        super().__post_init__()
        if self.pushes > self.factorisation.longest:
            raise ValueError(f"{self.factorisation.kind} is not for {self.pushes} pushes")
        self.check_choice("growth", (None, "root", "quarter", "three_tenths"))
        _extent(self.batch, self.growth, max(self.pushes, 1))  # refuses streams that are too long
        # Only these summands state distances in their norm, and an order above that of the norm
        # would only inflate kappa = order - 1.
        shaped = isinstance(self.summand, (ClippedVector, GlmGradient))
        if self.order != 2.0 and not (shaped and 2.0 < self.order <= self.summand.norm):
            raise ValueError(f"noise of order {self.order!r} carries no claim for this summand")
        if self.grid > 0.0:
            self._check_grid()
        elif self.limit != 0:
            raise ValueError("a limit is for sums on a grid")

    def _check_grid(self) -> None:
        # Only Gaussian variates exist in exact integers; no sampler here decides the digits of
        # Gamma variates (docs/privacy/lattice.md, "What stays in doubles").
        if self.scale == 0.0 or self.order != 2.0:
            raise ValueError("a grid is for Gaussian noise")
        own = self.factorisation
        if isinstance(own, Buffered) and self.pushes and not own.fits(self.pushes):
            raise ValueError("a grid is for blt whose buffers cannot overflow on it")
        grid_bits(self.grid, self.scale)
        # The distance to an empty round is the largest length of a summand. The engine clamps
        # entries to the limit; a limit of this size never changes an entry.
        entry = self.longest_batch * self.summand.movement(Neighbours("zero_out"))
        if not entry <= self.limit * self.grid <= LARGEST_LIMIT * self.grid:
            raise ValueError(f"a limit of {self.limit} grids does not hold what a push adds")
        if self.limit * self.pushes > LARGEST_SUM:
            raise ValueError(f"sums of {self.pushes} pushes can overflow")

    @property
    def promised(self) -> bool:
        """Whether the bounds on the contribution of a round are a promise."""
        return not self.summand.enforced

    @property
    def longest(self) -> int | None:
        """Rounds up to the end of the batch after the last sum; None if no sum is released."""
        return _extent(self.batch, self.growth, self.pushes)[1] if self.pushes else None

    @property
    def longest_batch(self) -> int:
        """Rounds of the longest batch that is released."""
        return _extent(self.batch, self.growth, max(self.pushes, 1))[0]

    def column(self, near: Neighbours) -> float:
        """Return the largest norm of the summed columns of one person's rounds.

        For a single round this is the norm of a column. In growing batches every q-th round of a
        person is in a separate batch, far from the others, if q of them take as long as the longest
        batch. The result is then the sum of q such norms.
        """
        factor, pushes = self.factorisation, max(self.pushes, 1)
        if self.growth is None:
            return factor.column(pushes, near, self.batch)
        length, behind = _extent(self.batch, self.growth, pushes)
        # docs/privacy/participation.md, "Growing batches": the proof needs only the longest batch,
        # for any order of the lengths.
        rounds = most_rounds(near.rounds, near.separation, behind)
        crowd = min(rounds, -(-length // near.separation))
        apart = max(1, crowd * near.separation // length)
        each = replace(near, rounds=-(-rounds // crowd), separation=apart)
        return min(rounds * factor.column(pushes), crowd * factor.column(pushes, each))

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of all sums together; None where there is no noise.

        The rounds of one person may react to releases (``docs/privacy/participation.md``). For the
        view "others", they may also react to what only this person saw, if their times do not.

        Raises
        ------
        ValueError
            For a view that is wider than the summand's.
        """
        check_view(near, self.summand.widest_view)
        moved = self.summand.inflation(self.order) * self.summand.movement(near, self.order)
        if self.pushes == 0 or moved == 0.0:
            return NOTHING
        if self.scale == 0.0:
            return None
        return with_tails(Gaussian(self.reach(near) / self.scale), self.mass)

    def loss_in_arms(self, near: Neighbours, arms: int, forced: int) -> Loss | None:
        """Return the loss of the sums of all arms together, for several rounds of a person."""
        # On a grid the rounding term is proved for the rows of one sum, not for arms between which
        # a record may move. For arms with growing batches nothing is proved.
        if self.grid > 0.0 or self.growth is not None:
            raise ValueError("several rounds in several parts: nothing is proved for such sums")

        def column(rounds: int, separation: int) -> float:
            return self.column(replace(near, rounds=rounds, separation=separation))

        moved = self.summand.inflation(self.order) * self.summand.movement(near, self.order)
        stacked = arms_column(column, near.rounds, near.separation, arms, forced)
        return with_tails(Gaussian(moved * stacked / self.scale), min(1.0, arms * self.mass))

    def reach(self, near: Neighbours) -> float:
        """Return the largest distance of all rows between neighbours: mu times the scale."""
        column = self.column(near)
        moved = self.summand.movement(near, self.order)
        if self.grid == 0.0:
            return self.summand.inflation(self.order) * moved * column
        # Rounding moves each entry by at most half a grid under either stream, for every record of
        # a person in an interval; a batch is added in doubles.
        size = self.summand.size
        leaf = self.summand.records * math.sqrt(size) * self.grid
        length = float(self.longest_batch)
        if length > 1.0:  # growing batches are added with compensation for rounding
            leaf += moved * 2.0**-53 * (length * (length + 1.0 if self.growth is None else 5.0))
        path = self.factorisation.path(self.pushes, self.grid, self.scale)
        # A batch with several rounds of a person moves by at most that many times moved + leaf. The
        # path of rounded noise does not depend on the contributions that move.
        total = column * (moved + leaf) + math.sqrt(float(self.pushes) * size) * path
        return total * (1.0 + 2.0**-48)

    @property
    def mass(self) -> float:
        """Total variation between the real noise of all pushes and the ideal one."""
        return self.tails(exact=self.grid > 0.0)

    def tails(self, *, exact: bool) -> float:
        """Return the `mass` if draws are exact integers (`exact`) or doubles."""
        size, draws = float(self.summand.size), self.factorisation.draws(self.pushes)
        if exact:  # a draw and at most five buffers
            return min(1.0, draws * size * 6.0 * EXACT_TAIL)
        # A coordinate of generalised noise takes a uniform, a sign and a Gamma variate, and the
        # vector one more Gamma variate for its radius; rejection needs 1.06 attempts on average.
        return min(1.0, draws * (size if self.order == 2.0 else 8.0 * (size + 1.0)) * TAIL)
