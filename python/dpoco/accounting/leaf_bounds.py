"""Bounds on what one round of a Frank-Wolfe learner adds to its gradient sum (a leaf).

Claim: with steps s/(k + s) and weights w_k, the leaf
w_k grad f(theta_k) - w_{k-1} grad f(theta_{k-1}) has dual norm at most

* c R for generalised linear losses and w_k = k, with c the loss's ``leaf_scalar_bound``,
* the gradient bound for linear losses,
* s beta D + L for smooth losses (w_k = k; for w_k = k + 1 if s >= 1).

Learners clip at these bounds, so the privacy guarantee does not rely on the claim. The claim says
that clipping has no effect if the data satisfy the declared bounds.

Proof: ``docs/privacy/leaf_bounds.md``. Source: Han et al., DP-TOFW, Section 3, sharpened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco import domains
from dpoco.accounting.noisy_max import mean_excess
from dpoco.domains import Domain, Geometry
from dpoco.losses import CustomLoss, LinearLoss, Loss, MarginLoss, SquaredLoss, check_undamped
from dpoco.privacy.mechanisms.bounds import (
    ClippedVector,
    GlmGradient,
    MomentsAndLoss,
    SecondMoments,
    Summand,
)
from dpoco.privacy.mechanisms.selections import VertexScores
from dpoco.privacy.neighbours import Neighbours

__all__ = ["WEIGHTS", "L1Geometry", "LeafBounds", "View", "clip_bounds",
           "enforced_leaf_bounds", "leader_summand", "lossless_leaf_bounds", "moments_and_loss",
           "published_leaf_bound", "record_length", "second_moments", "steepest_slope"]  # fmt: skip

WEIGHTS: tuple[str, ...] = ("unbiased", "paper")  # indexed by the offset k + offset of the weights
AnyBounds = Summand | VertexScores


@dataclass(frozen=True, slots=True)
class LeafBounds:
    """Enforced bounds on one round's leaf.

    Attributes
    ----------
    slope : float or None
        Bound on the factor of the features; None if the leaf itself is clipped.
    bound, bound_l2 : float
        Bounds on the clipped vector, features or leaf: in the dual norm, and in l2 (infinite if
        there is none).
    """

    slope: float | None
    bound: float
    bound_l2: float

    @property
    def dual(self) -> float:
        """Bound on the leaf in the dual norm."""
        return self.bound if self.slope is None else self.slope * self.bound

    @property
    def l2(self) -> float:
        """Bound on the leaf in l2."""
        return self.bound_l2 if self.slope is None else self.slope * self.bound_l2

    def summand(self, domain: Geometry) -> ClippedVector | GlmGradient:
        """Return the summand of a round: a leaf bounded as a product, or as a whole."""
        d, q = domain.dimension, float(domain.dual_exponent)
        if self.slope is None:
            return ClippedVector(d, q, self.bound, self.bound_l2)
        return GlmGradient(d, q, self.bound, self.bound_l2, float(self.slope))

    def condition(self, dual_exponent: float) -> str:
        """Return the clipping condition in words."""
        norm = "l_inf" if dual_exponent == math.inf else f"l_{dual_exponent:g}"
        text = f"The program clips what a round adds to the gradient sum to {norm} norm "
        text += f"{self.dual:g}"
        if self.l2 < math.inf:
            text += f" and l_2 norm {self.l2:g}"
        records = "" if self.slope is None else ", and features and labels to their declared bounds"
        return f"{text}{records}."


class View:
    """A domain whose sizes are in the norm of another order, as losses require them."""

    def __init__(self, domain: Domain, order: float) -> None:
        self.domain, self.dimension, self.p = domain, domain.dimension, order

    @property
    def dual_exponent(self) -> float:
        """The exponent q of the dual norm."""
        if self.p == 1.0:
            return math.inf
        return 1.0 if math.isinf(self.p) else self.p / (self.p - 1.0)

    def diameter(self, order: float | None = None) -> float:
        """Largest distance."""
        return float(self.domain.diameter(self.p if order is None else order))

    def max_norm(self, order: float | None = None) -> float:
        """Largest norm."""
        return float(self.domain.max_norm(self.p if order is None else order))


class L1Geometry(View):
    """A polytope in the l_1 geometry, in which the learner's bounds are stated, even for a box.

    Raises ``TypeError`` for a domain without listed or structured vertices.
    """

    def __init__(self, domain: Domain) -> None:
        super().__init__(domain, 1.0)
        self.is_box = isinstance(domain, domains.Box)
        if isinstance(domain, domains.LpBall) and domain.p == 1.0:
            self.vertices = 2 * domain.dimension
        elif isinstance(domain, domains.Simplex):
            self.vertices = domain.dimension
        elif isinstance(domain, domains.VertexSet):
            self.vertices = len(domain.vertices)
        elif self.is_box:
            self.vertices = 2  # each coordinate has two ends
        else:
            raise TypeError(
                "domain must be an LpBall with p = 1, a Simplex, a Box or a VertexSet; "
                f"got {type(domain).__name__}"
            )

    def excess(self, selector: str) -> float:
        """Return a bound on the mean excess score of a private selection, in units of the scale."""
        # Coordinates of a box are selected one by one, each from its two ends. Sides of length 0
        # need no selection.
        coordinates = int(self.domain.intrinsic_dimension) if self.is_box else 1
        return coordinates * mean_excess(self.vertices, selector)


def lossless_leaf_bounds(
    domain: Geometry, loss: Loss, weights: str, step_scale: float
) -> LeafBounds:
    """Return the bounds that have no effect on data within the declared bounds.

    With weights "paper", they are the published bounds.
    """
    check_undamped(loss)
    published = weights == "paper"
    if isinstance(loss, MarginLoss) and published:
        # The published bound is on the whole leaf, including the features.
        slope = published_leaf_bound(domain, loss, step_scale) / float(loss.feature_bound)
        return clip_bounds(loss, slope)
    if isinstance(loss, MarginLoss):
        return clip_bounds(
            loss, float(loss.leaf_scalar_bound(loss.margin_bound(domain), step_scale))
        )
    if isinstance(loss, LinearLoss):
        return clip_bounds(loss)
    if not isinstance(loss, CustomLoss):
        raise TypeError("a QuadraticLoss is for the learners of dpoco.oco; use a CustomLoss here")
    dual = loss.leaf_bound
    if published or dual is None:
        dual = published_leaf_bound(domain, loss, step_scale)
    # We clip the leaf and not its two gradients, because radial clipping is not a contraction in
    # general norms (docs/privacy/leaf_bounds.md, "Losses given by gradients").
    return clip_bounds(loss, None, dual, loss.leaf_bound_l2)


def enforced_leaf_bounds(domain: Geometry, loss: Loss, bounds: AnyBounds) -> LeafBounds:
    """Return the bounds that a mechanism enforces.

    Raises
    ------
    TypeError, ValueError
        If the bounds are not for this domain and loss.
    """
    if isinstance(bounds, VertexScores):
        leaf = LeafBounds(bounds.slope if loss.glm else None, bounds.leaf, bounds.leaf_l2)
    elif isinstance(bounds, GlmGradient) and loss.glm:
        leaf = LeafBounds(bounds.slope, bounds.features, bounds.features_l2)
    elif isinstance(bounds, ClippedVector) and not loss.glm:
        leaf = LeafBounds(None, bounds.bound, bounds.bound_l2)
    else:
        raise TypeError(f"leaves of this loss are no {bounds.kind}")
    # Compared exactly: other bounds would be those of another loss, which the engine does not
    # enforce.
    if clip_bounds(loss, leaf.slope, leaf.bound, leaf.bound_l2) != leaf:
        raise ValueError("the leaf bounds of the plan are not those of this loss")
    if not isinstance(bounds, VertexScores) and leaf.summand(domain) != bounds:
        raise ValueError("the plan is for leaves of another dimension, or of another norm")
    return leaf


def clip_bounds(
    loss: Loss, slope: float | None = None, dual: float | None = None, l2: float | None = None
) -> LeafBounds:
    """Return the clipped vector: features, gradients of linear losses, or leaves."""
    if isinstance(loss, MarginLoss):
        dual, l2 = loss.feature_bound, loss.feature_bound_l2
    elif isinstance(loss, LinearLoss):
        dual, l2 = loss.gradient_bound, loss.gradient_bound_l2
    assert dual is not None
    return LeafBounds(slope, float(dual), math.inf if l2 is None else float(l2))


def second_moments(domain: Geometry, loss: SquaredLoss, weight: float) -> SecondMoments:
    """Return the statistics of a squared loss's records, with labels times `weight`."""
    leaf = clip_bounds(loss)
    bounds = leaf.bound, leaf.bound_l2, float(loss.label_bound)
    exponent = float(domain.dual_exponent)
    return SecondMoments(domain.dimension, exponent, *bounds, weight=weight)


def moments_and_loss(
    domain: Geometry, loss: SquaredLoss, weight: float, loss_weight: float
) -> MomentsAndLoss:
    """Return these statistics, with a squared loss that no decision of the domain exceeds."""
    moments = second_moments(domain, loss, weight)
    largest = float(loss.margin_bound(domain)) + float(loss.label_bound)
    return MomentsAndLoss(
        **vars(moments), largest_loss=float(loss.weight) * largest**2, loss_weight=loss_weight
    )


def record_length(domain: Geometry, loss: Loss) -> float:
    """Return the l2 bound on a record's features, or on the gradient of a linear loss."""
    # With slope 1, emptying a record moves the sum by the length of its features.
    leaf = clip_bounds(loss, 1.0 if loss.glm else None)
    return leaf.summand(domain).movement(Neighbours("zero_out"))


def leader_summand(
    domain: Domain, loss: Loss, vector_scale: float | None = None
) -> SecondMoments | GlmGradient | ClippedVector:
    """Return the summand of a leader: a gradient, or the statistics of a squared loss.

    Parameters
    ----------
    domain, loss
        The problem; a generalised linear, linear or custom loss.
    vector_scale : float or None
        Factor on the labels in the statistics; None for gradients.

    Raises
    ------
    TypeError
        For other losses.
    """
    if vector_scale is not None:
        assert isinstance(loss, SquaredLoss)
        return second_moments(domain, loss, vector_scale)
    if isinstance(loss, MarginLoss):
        slope = float(loss.derivative_bound(loss.margin_bound(domain)))
        return clip_bounds(loss, slope).summand(domain)
    if isinstance(loss, LinearLoss):
        return clip_bounds(loss).summand(domain)
    if isinstance(loss, CustomLoss):
        dual = min(loss.lipschitz_bound, loss.leaf_bound or math.inf)
        return clip_bounds(loss, None, dual, loss.leaf_bound_l2).summand(domain)
    raise TypeError(f"loss must be generalised linear, linear or custom; got {type(loss).__name__}")


def steepest_slope(domain: Domain, loss: Loss) -> float:
    """Return the largest l2 norm of a gradient in a leader's sum."""
    return leader_summand(domain, loss).movement(Neighbours("zero_out"))


def published_leaf_bound(domain: Geometry, loss: Loss, step_scale: float) -> float:
    """Return s beta D + L, the leaf bound of the paper."""
    curvature = step_scale * float(loss.smoothness(domain)) * float(domain.diameter())
    return curvature + float(loss.lipschitz(domain))
