"""A search for the ranges of columns: noisy medians, then noisy counts of bins about them.

The first rounds give a median of each of some columns: one selection a column, with Gumbel noise,
by the scores -|values below v - values above v| / 2 of the candidates v. All later ones fall into
bins of every column, counted from its median, and the prefix sums of the counts are released by
the Gaussian sum `counts`, whose pushes are the bins. A value that is missing is in no bin, and
neither below nor above.

Claim: medians of d columns have d times the range 2 k / scale, where a person brings k of their
rounds, and are mu-GDP with mu = sqrt(d) 2 Phi^-1(1 / (1 + e^(-k / scale))). Prefix sums of D
columns are mu-GDP with mu = k sqrt(2 D) (column of the factorisation) / scale. A round enters one
of the two, and nothing else.

Proof: ``docs/privacy/ranges.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.combined import either, together, with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import UP, Loss, sum_up
from dpoco.privacy.mechanisms.base import Mechanism, central
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.participation import most_rounds
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import limits
from dpoco.privacy.special import special_functions

__all__ = ["NOISE_LIMIT", "RangeSearch", "gaussian_range"]

# Counts are added to noise that was rounded to multiples of 2^(floor(log2 scale) - 12). Below this
# scale counts are such multiples themselves, so the order of adding and rounding does not matter.
NOISE_LIMIT = 2.0**13


@dataclass(frozen=True)
class RangeSearch(Mechanism):
    """Medians from the `first` rounds, and noisy counts of bins from `second` later ones.

    Attributes
    ----------
    second : int
        Rounds for counts.
    counts : GaussianSum
        Mechanism that releases the prefix sums; a push is a bin, an entry is a column.
    medians : int
        Number of columns whose median is drawn first; 0 if no round is for medians.
    first : int
        Rounds for medians, before those for counts.
    scale : float
        Scale of the Gumbel noise, in units of the scores; 0 is no noise.
    """

    kind = "range_search"
    noise = "fresh"
    reacting = True
    proofs = ("ranges", "noisy_max", "bounded_range", "lattice", "noise")
    second: int
    counts: GaussianSum
    medians: int = limits(zero=True, default=0)
    first: int = limits(zero=True, default=0)
    scale: float = limits(zero=True, default=0.0)

    def __post_init__(self) -> None:
        """Refuse rounds that no search uses, and sums that are not of the counts of bins."""
        super().__post_init__()
        own, vector = self.counts, self.counts.summand
        if (self.first == 0) != (self.medians == 0):
            raise ValueError("medians need rounds, and rounds for medians are for some column")
        if not isinstance(vector, ClippedVector) or (vector.norm, own.order) != (math.inf, 2.0):
            raise ValueError("counts are vectors, each entry with a bound, and Gaussian noise")
        # All `second` rounds may fall into one bin, so this bound never clips a count.
        if self.medians > vector.size or vector.bound != self.second or own.pushes == 0:
            raise ValueError("counts are of every column, and of as many values as rounds")
        if (own.batch, own.growth) != (1, None):
            raise ValueError("each bin is released by itself")
        # A coarser rounding of the noise would leave the last digits of all counts without noise
        # (docs/privacy/ranges.md, "Noise first").
        if own.scale >= NOISE_LIMIT:
            raise ValueError("counts lie on the grid that their noise is rounded to")

    @property
    def longest(self) -> int:
        """Rounds for medians and for counts together."""
        return self.first + self.second

    @property
    def grid(self) -> float:
        """The grid of the counts if there are no medians, which are selected in doubles."""
        return 0.0 if self.medians else self.counts.grid

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the worse of both losses, or their sum if a person's rounds may be in both parts.

        The rounds of a person may react to releases, since each part's loss holds given any past.
        """
        central(near)
        if self.counts.scale == 0.0 or (self.medians and self.scale == 0.0):
            return None
        if not self.medians:
            return self._counts_loss(near)
        moved = near.sides * most_rounds(near.rounds, near.separation, self.first)
        each = sum_up((1, moved, self.scale))
        if near.rounds == 1:
            return either(BoundedRange(each, self.medians), self._counts_loss(near))
        # Several rounds may be in both parts, whose squares of mu add up. A single round has the
        # exact curve of bounded ranges.
        mu = math.sqrt(self.medians) * gaussian_range(each) * UP
        own_rounds = most_rounds(near.rounds, near.separation, self.longest)
        return (either if own_rounds == 1 else together)(Gaussian(mu), self._counts_loss(near))

    def _counts_loss(self, near: Neighbours) -> Loss:
        """Return the loss of the prefix sums: a record is in one bin of every column, or none."""
        own, columns = self.counts, self.counts.summand.size
        records = most_rounds(near.rounds, near.separation, self.second)
        # The columns of C for the bins that a record leaves and enters have no negative entries, so
        # they are at most sqrt(2) norms apart, not 2 (docs/privacy/ranges.md, Theorem 1).
        reach = own.factorisation.column(own.pushes) * records * math.sqrt(near.sides * columns)
        if own.grid > 0.0:  # counts are multiples of the grid, so only draws are rounded
            path = own.factorisation.path(own.pushes, own.grid, own.scale)
            reach += math.sqrt(float(own.pushes) * columns) * path
        return with_tails(Gaussian(reach * (1.0 + 2.0**-48) / own.scale), own.mass)


def gaussian_range(length: float) -> float:
    """Return the mu with which log-likelihood ratios of this range are mu-GDP, rounded up.

    mu = 2 Phi^-1(1 / (1 + e^(-length / 2))); ``docs/privacy/bounded_range.md``, Lemma 5.
    """
    # The quantile grows with its argument, and the added unit exceeds the rounding of the quotient.
    likelier = 1.0 / (1.0 + math.exp(-0.5 * length)) + 2.0**-52
    return 2.0 * float(special_functions().ndtri(likelier)) * UP if likelier < 1.0 else math.inf
