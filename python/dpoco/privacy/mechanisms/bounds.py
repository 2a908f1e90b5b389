"""Contributions of a round to a sum: bounds that engines enforce, and distances of neighbours.

Proofs: vectors ``docs/privacy/continual_sum.md``, ``docs/privacy/generalized_gaussian.md``; second
moments ``docs/privacy/noisy_ftrl.md``, ``docs/privacy/linucb.md``, with losses
``docs/privacy/forgetting.md``; gradients with curvature ``docs/privacy/noisy_newton.md``; losses of
experts ``docs/privacy/prefix_hedge.md``; records of an interval ``docs/privacy/statistics.md``;
gradients of many examples ``docs/privacy/deep_learning.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco.privacy.mechanisms.norms import check_norm, largest_l2, smoothness_constant
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits

# fmt: off
__all__ = ["ROUNDING", "CentredLosses", "ClippedVector", "ClippedVectors", "GlmGradient",
           "GradientAndCurvature", "IntervalTotals", "MomentsAndLoss", "SecondMoments",
           "Summand"]
# fmt: on

# Factor on distances that exceeds the rounding of means and transforms in double precision.
ROUNDING = 1.0 + 1e-12


@dataclass(frozen=True)
class Summand(Description):
    """Base of the contributions of a round: a vector of `size` entries.

    Attributes
    ----------
    norm : float
        Exponent of the norm that noise of an order other than 2 is measured against.
    enforced : bool
        Whether the engine enforces the bounds; otherwise they are a promise.
    records : int
        Records of one person in a round, each of which is rounded separately on a lattice.
    widest_view : {"others", "everyone"}
        Who may see all releases made with such sums.
    """

    norm = 2.0
    enforced = True
    records = 1

    def __post_init__(self) -> None:
        """Refuse exponents that define no norm."""
        super().__post_init__()
        check_norm(self.norm)

    @property
    def widest_view(self) -> str:
        """Everyone, unless a subclass restricts it."""
        return "everyone"

    @property
    def size(self) -> int:
        """Entries of the vector; 0 if no round adds anything."""
        raise NotImplementedError

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return the largest distance of two rounds, in l2 for noise of order 2, else in `norm`."""
        raise NotImplementedError

    def inflation(self, order: float) -> float:
        """Return the factor on `movement` for noise of this order; 1 for order 2."""
        return 1.0 if order == 2.0 else math.sqrt(smoothness_constant(order, self.norm, self.size))


@dataclass(frozen=True)
class VectorSummand(Summand):
    """Base of vectors of `dimension` entries, and of contributions made from such vectors."""

    dimension: int
    norm: float = limits(infinite=True)

    @property
    def size(self) -> int:
        """`dimension`."""
        return self.dimension


@dataclass(frozen=True)
class ClippedVector(VectorSummand):
    """A vector of `dimension` entries with ||g||_norm <= bound and ||g||_2 <= bound_l2."""

    kind = "clipped_vector"
    bound: float = limits()
    bound_l2: float = limits(infinite=True)

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return `near.sides` times the largest vector."""
        if order != 2.0:
            return near.sides * self.bound
        # The engine enforces both bounds, so either bound on the l2 norm holds.
        return near.sides * min(largest_l2(self.bound, self.norm, self.dimension), self.bound_l2)


@dataclass(frozen=True)
class ClippedVectors(Summand):
    """A sum of at most `count` vectors of `dimension` entries with ||g||_2 <= bound, in doubles.

    One person contributes one of them. The caller, who adds them up, enforces the bound; the engine
    does not.
    """

    kind = "clipped_vectors"
    enforced = False
    dimension: int
    bound: float
    count: int

    def __post_init__(self) -> None:
        """Refuse more vectors than the bound on rounding is for."""
        super().__post_init__()
        # Up to this count the term of order count^2 in `movement` stays small compared with 1.
        if self.count > 2**20:
            raise ValueError(f"count of {self.kind} cannot be {self.count!r}")

    @property
    def size(self) -> int:
        """`dimension`."""
        return self.dimension

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return `near.sides` times the bound, plus the rounding of both sums."""
        # Plain addition of n vectors loses at most 2^-53 n (n + 1) / 2 bounds in either sum, in
        # both together less than n^2 2^-51 (docs/privacy/lattice.md, "Leaves").
        return self.bound * (near.sides + self.count**2 * 2.0**-51) * ROUNDING


@dataclass(frozen=True)
class FeatureSummand(VectorSummand):
    """Base of functions of features x with ||x||_norm <= features and ||x||_2 <= features_l2."""

    features: float = limits()
    features_l2: float = limits(infinite=True)

    @property
    def _length(self) -> float:
        return min(largest_l2(self.features, self.norm, self.dimension), self.features_l2)


@dataclass(frozen=True)
class GlmGradient(FeatureSummand):
    """s x with |s| <= slope."""

    kind = "glm_gradient"
    slope: float = limits()

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return `near.sides` times the largest gradient."""
        bounds = self.slope * self.features, self.slope * self.features_l2
        return ClippedVector(self.dimension, self.norm, *bounds).movement(near, order)


@dataclass(frozen=True)
class GradientAndCurvature(FeatureSummand):
    """(s x, weight w x x') with |s| <= slope and 0 <= w <= curvature, products in doubles."""

    kind = "gradient_and_curvature"
    slope: float = limits()
    curvature: float = limits()
    weight: float = limits()

    def __post_init__(self) -> None:
        """Refuse bounds that are too large or too small for doubles."""
        super().__post_init__()
        # Within these limits squares, and products of squares, stay in the range of doubles.
        if not (1e-50 <= self._share <= 1e50 and 1e-100 <= self._length <= 1e100):
            raise ValueError("weight * curvature * features / slope, or features, is out of range")

    @property
    def _share(self) -> float:
        return self.weight * self.curvature * self._length / self.slope

    @property
    def size(self) -> int:
        """A vector and an upper triangle."""
        return self.dimension + self.dimension * (self.dimension + 1) // 2

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return the largest distance, matrices in Frobenius norm."""
        z = self._share**2  # the features of two records may be opposite, or at an angle
        # The Lemma of docs/privacy/noisy_newton.md: opposite features are the worst for light
        # matrices, features at an angle for heavy ones.
        two = 4.0 + z if z <= 1.0 + math.sqrt(0.5) else 2.0 + 2.0 * z + 0.5 / z
        squared = 1.0 + z if near.change == "zero_out" else two
        return self.slope * self._length * math.sqrt(squared) * ROUNDING


@dataclass(frozen=True)
class SecondMoments(FeatureSummand):
    """(x x', weight y x) with |y| <= label of one of `arms`, zeros for the others.

    `rounding` covers products in doubles. The arm is what the person of the record was shown, which
    depends on this person's x without noise. So with several arms the proof is about the view of
    all others.
    """

    kind = "second_moments"
    label: float = limits()
    weight: float = limits()
    arms: int = 1
    rounding: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a rounding factor below 1, and values out of range."""
        super().__post_init__()
        if not 1.0 <= self.rounding < 2.0:
            raise ValueError(f"rounding of {self.kind} cannot be {self.rounding!r}")
        if not (1e-50 <= self._share <= 1e50 and 1e-100 <= self._length <= 1e100):
            raise ValueError("weight * label / features, or features, is too large or too small")

    @property
    def widest_view(self) -> str:
        """All others if there are several arms."""
        return "everyone" if self.arms == 1 else "others"

    @property
    def _share(self) -> float:
        return self.weight * self.label / self._length

    @property
    def size(self) -> int:
        """Upper triangles and vectors of all arms."""
        return self.arms * (self.dimension + self.dimension * (self.dimension + 1) // 2)

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return the largest distance in Frobenius norm."""
        length, u = self._length, self._share**2
        if near.change == "zero_out":
            return length**2 * math.sqrt(1.0 + u) * self.rounding
        # docs/privacy/linucb.md, "Joint differential privacy", has two cases: for u > 2 the worst
        # pair has opposite features, for u <= 2 features at an angle. Records of two different
        # arms are never farther apart.
        factor = math.sqrt(2.0) * (1.0 + 0.5 * u) if u <= 2.0 else 2.0 * math.sqrt(u)
        return length**2 * factor * self.rounding


@dataclass(frozen=True)
class MomentsAndLoss(SecondMoments):
    """Second moments, and `loss_weight` times the round's loss at its decision, clipped to a range.

    Attributes
    ----------
    largest_loss : float
        The range is [0, largest_loss]; an empty round has the loss 0.
    loss_weight : float
        Factor on the loss.
    """

    kind = "moments_and_loss"
    largest_loss: float = limits(default=1.0)
    loss_weight: float = limits(default=1.0)

    @property
    def size(self) -> int:
        """Upper triangles and vectors of all arms, and the loss."""
        return super().size + 1

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return the largest distance, from that of the moments and the whole range of losses."""
        loss = self.loss_weight * self.largest_loss
        # An emptied round has the loss 0, so emptying moves the loss as far as replacing.
        return math.hypot(super().movement(near, order), loss) * ROUNDING


@dataclass(frozen=True)
class CentredLosses(Summand):
    """Losses of `experts`, clipped to a range and scaled to [0, 1], less their mean."""

    kind = "centred_losses"
    experts: int

    def __post_init__(self) -> None:
        """Refuse more experts than the bound on rounding is for."""
        super().__post_init__()
        # The bound on the rounding of a mean is proved up to 2^32 (docs/privacy/prefix_hedge.md).
        if self.experts > 2**32:
            raise ValueError(f"experts of {self.kind} cannot be {self.experts!r}")

    @property
    def size(self) -> int:
        """`experts`."""
        return self.experts

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return the diameter of the centred cube, in which an empty round also lies."""
        # For odd n no corner of the cube has as many ones as zeros, so the squared distance of
        # centred corners is smaller by 1 / n (docs/privacy/prefix_hedge.md, "The constant D").
        n = self.experts
        return math.sqrt(n - (n % 2) / n) * (ROUNDING + max(0.0, n - 4096.0) * 2.0**-52)


@dataclass(frozen=True)
class IntervalTotals(Summand):
    """Totals of any number of records, at most `records` of them from one person.

    A round is an interval of the stream. A record changes at most one cell of each block, by at
    most the block's unit.

    Attributes
    ----------
    cells : tuple of int
        Cells of each block.
    units : tuple of float
        Largest change of a cell, for each block.
    records : int
        Records of one person that count in an interval.
    """

    kind = "interval_totals"
    cells: tuple[int, ...]
    units: tuple[float, ...]
    records: int = 1

    def __post_init__(self) -> None:
        """Refuse blocks without cells or units."""
        super().__post_init__()
        if not 0 < len(self.cells) == len(self.units):
            raise ValueError(f"{self.kind} needs a unit for every block of cells")

    @property
    def size(self) -> int:
        """Cells of all blocks."""
        return sum(self.cells)

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return `near.sides` times the longest total of one person's records."""
        # A record changes one cell of each block, so the squares of the blocks' units add up; the
        # lengths of the records add up themselves.
        return near.sides * self.records * math.hypot(*self.units) * ROUNDING
