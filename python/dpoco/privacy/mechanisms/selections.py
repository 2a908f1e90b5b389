"""Noisy selections, and tests of queries against a noisy threshold.

A selection is the index of the best of many scores, after noise on each.

Let one record move every score by an amount in [c, c + r], c the same for all scores. Claim: one
selection with noise of scale b is (r / b)-private, tightly. With Gumbel noise its log-likelihood
ratios also lie in an interval of length r / b. On a polytope whose scores are means of leaves that
are weighted by 1 / (k + offset), ranges shrink from one selection to the next.

Let one record move every query by an amount in [-c', c], c and c' the same for all queries, with
c <= D (the sensitivity) and c + c' <= s (the spread, at most 2 D). A threshold carries noise of
scale b_1 drawn once, every query noise of scale b_2. Claim: all answers up to the k-th alarm are
together epsilon-private with

    epsilon = D / b_1 + k s / b_2,

for adaptively chosen queries and any public thresholds, with one-sided exponential noises as well
as with Laplace noises. It is attained for every k, in the limit of many silent queries.

Proofs: ``docs/privacy/noisy_max.md``, ``docs/privacy/polyhedral_frank_wolfe.md``; of tests:
``docs/privacy/shift_detector.md``. Sources of these: Dwork, Naor, Reingold, Rothblum and Vadhan
(2009); Lyu, Su and Li, "Understanding the sparse vector technique" (2017).
"""

from __future__ import annotations

from dataclasses import dataclass

from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.combined import NOTHING, Least, group
from dpoco.privacy.losses.decaying import LARGEST_EXPONENT, Decaying, Returning
from dpoco.privacy.losses.loss import Loss, Pure, Zcdp, sum_up
from dpoco.privacy.mechanisms.base import Mechanism, central
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["LossSums", "PromisedScores", "Selections", "ThresholdTests", "VertexScores"]


@dataclass(frozen=True)
class LossSums(Description):
    """Sums of losses that are each clipped to an interval of length `width`.

    A replaced record moves them by amounts in [-width, width]; an emptied one counts as replaced.
    """

    kind = "loss_sums"
    width: float

    @property
    def range(self) -> float:
        """Length of the interval that all scores move in."""
        return 2.0 * self.width


@dataclass(frozen=True)
class PromisedScores(Description):
    """Scores that a record changes by at most `sensitivity` each: a promise, not enforced.

    `one_way`: it moves all of them the same way.
    """

    kind = "promised_scores"
    sensitivity: float
    one_way: bool

    @property
    def range(self) -> float:
        """Length of the interval that all scores move in."""
        return self.sensitivity * (1.0 if self.one_way else 2.0)


@dataclass(frozen=True)
class VertexScores(Description):
    """Scores <s_k, v> of a polytope's vertices v; s_k adds up leaves over batch (k + offset).

    Attributes
    ----------
    slope : float
        Bound on the scalar that a round multiplies its vector with; 1 where there is none.
    leaf, leaf_l2 : float
        Bounds on that vector in the maximum norm and in l2; enforced. The second may be infinite.
    diameter_l1, diameter_l2, diameter_max : float
        Diameters of the polytope; 0 of a single point.
    product : bool
        Whether it is a box, whose coordinates are chosen independently.
    batch : int
        Rounds per selection.
    offset : int
        0 or 1.
    """

    kind = "vertex_scores"
    slope: float
    leaf: float
    diameter_l1: float = limits(zero=True)
    diameter_l2: float = limits(zero=True)
    diameter_max: float = limits(zero=True)
    product: bool = limits()
    batch: int = limits()
    leaf_l2: float = limits(infinite=True)
    offset: int = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse other offsets, and ranges that would underflow to those of a single point."""
        super().__post_init__()
        if self.offset > 1:
            raise ValueError(f"offset of {self.kind} must be 0 or 1; got {self.offset!r}")
        # Squares of ranges must stay within doubles. Both changes of a record are tried, because a
        # description does not state its neighbours.
        reaches = [self.reach(sides)[0] for sides in (1.0, 2.0)]
        if self.diameter_l1 > 0.0 and not all(1e-140 <= reach <= 1e140 for reach in reaches):
            raise ValueError("the domain's size times the loss's bounds must be in [1e-140, 1e140]")

    def reach(self, sides: float) -> tuple[float, float]:
        """Return bounds on the change of (k + offset) times the scores, by Hoelder's inequality.

        The first is the length of the interval, the second its equivalent for zCDP: for a box, the
        root of the sum of the squares of its coordinates' intervals.
        """
        length = self._movement(sides, self.diameter_l1, self.diameter_l2)
        if not self.product:
            return length, length
        return length, min(length, self._movement(sides, self.diameter_l2, self.diameter_max))

    def _movement(self, sides: float, diameter: float, diameter_l2: float) -> float:
        leaf, leaf_l2 = self.slope * self.leaf, self.slope * self.leaf_l2
        return sides / self.batch * min(diameter * leaf, diameter_l2 * leaf_l2)


@dataclass(frozen=True)
class Selections(Mechanism):
    """`rounds` selections of the best of some scores, by noise of `law` on each.

    Attributes
    ----------
    law : {"exponential", "gumbel", "laplace"}
        Law of the noise.
    scores
        Scores to select by.
    scale : float
        Scale of the noise of the first selection, in units of the scores; 0 is no noise.
    exponent : float
        Selection k has noise of scale ``scale k^-exponent``; 0 unless vertices are selected.
    rounds : int
        Selections that a record can enter.
    """

    kind = "selections"
    noise = "fresh"
    proofs = ("noisy_max", "bounded_range", "polyhedral_frank_wolfe", "participation")
    law: str
    scores: LossSums | PromisedScores | VertexScores
    scale: float = limits(zero=True)
    rounds: int = limits()
    exponent: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse laws and exponents that no proof is about."""
        super().__post_init__()
        vertices = isinstance(self.scores, VertexScores)
        self.check_choice("law", ("gumbel", "laplace", *(() if vertices else ("exponential",))))
        if not 0.0 <= self.exponent <= (LARGEST_EXPONENT if vertices else 0.0):
            raise ValueError(f"exponent of {self.kind} cannot be {self.exponent!r}")

    @property
    def reacting(self) -> bool:
        """Whether vertices are selected, because their moments hold given any past."""
        return isinstance(self.scores, VertexScores)

    @property
    def longest(self) -> int | None:
        """Rounds up to the end of the batch after the last selection of vertices.

        For promised scores it is the number of selections, for sums of losses None.
        """
        if isinstance(self.scores, VertexScores):
            return (self.rounds + 1) * self.scores.batch
        return self.rounds if isinstance(self.scores, PromisedScores) else None

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of all selections together; None where there is no noise."""
        central(near)
        if isinstance(self.scores, VertexScores) and self.scores.diameter_l1 == 0.0:
            return NOTHING
        if self.scale == 0.0:
            return None
        if isinstance(self.scores, VertexScores):
            return self.loss_in_arms(near, 1, 0)
        each = sum_up((1, self.scores.range, self.scale))
        if self.law == "gumbel":
            return group(BoundedRange(each, self.rounds), near.rounds)
        summed = Pure(sum_up((self.rounds, self.scores.range, self.scale)))
        # The curve of zCDP is never below that of the pure epsilon it comes from, for a single
        # selection.
        if self.rounds == 1:
            return group(summed, near.rounds)
        return group(Least((summed, Zcdp(0.5 * self.rounds * each * each))), near.rounds)

    def loss_in_arms(self, near: Neighbours, arms: int, forced: int) -> Decaying:
        """Return the loss of selections of vertices; a person's rounds may react to releases."""
        if not isinstance(self.scores, VertexScores):
            raise ValueError("several rounds in several parts: only vertices are scores of arms")
        law = "bounded_range" if self.law == "gumbel" else "pure"
        reach, spread = (each / self.scale for each in self.scores.reach(near.sides))
        one = (law, reach, spread, self.exponent, self.scores.offset, self.rounds)
        if near.rounds == 1:
            return Decaying(*one)
        return Returning(*one, near.rounds, near.separation, self.scores.batch, arms, forced)


@dataclass(frozen=True)
class ThresholdTests(Mechanism):
    """Tests of any number of queries, up to an alarm; an emptied record counts as replaced.

    Attributes
    ----------
    law : {"exponential", "laplace"}
        Law of both noises.
    threshold_scale, query_scale : float
        Their scales, in units of the queries; 0 for none.
    sensitivity, spread : float
        Largest change of one query; largest rise of one plus largest fall of another.
    alarms : int
        Alarms answered.
    """

    kind = "threshold_tests"
    proofs = ("shift_detector",)
    law: str
    threshold_scale: float = limits(zero=True)
    query_scale: float = limits(zero=True)
    sensitivity: float = limits()
    spread: float = limits()
    alarms: int = limits()

    def __post_init__(self) -> None:
        """Refuse other laws, and spreads that no sensitivity has."""
        super().__post_init__()
        self.check_choice("law", ("exponential", "laplace"))
        if not self.sensitivity <= self.spread <= 2.0 * self.sensitivity:
            raise ValueError("spread must lie between the sensitivity and twice the sensitivity")

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the pure loss of all answers together; None if a noise is missing."""
        central(near)
        if 0.0 in (self.threshold_scale, self.query_scale):
            return None
        # The threshold's noise is drawn and charged once, the noise of queries is charged once per
        # alarm, and silent answers are free (docs/privacy/shift_detector.md, Theorem 1).
        first = (1, self.sensitivity, self.threshold_scale)
        pure = sum_up(first, (self.alarms, self.spread, self.query_scale))
        return group(Pure(pure), near.rounds)
