"""Parameters, geometry and noise scales of the polyhedral Frank-Wolfe learner.

The stored value carries no claim of its own: `dpoco.accounting.polyhedral_frank_wolfe.guarantee`
recomputes every privacy quantity from noise scale and enforced bounds. Claim: for sums of squares
of ranges that are fixed by the budget, the sum of the noise scales b_k = b_1 k^-alpha is least at
alpha = 2/3; for fixed sums of ranges, pure privacy, at 1/2.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``, section "Allocation".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero
from dpoco.accounting.budget import Budget
from dpoco.accounting.frank_wolfe_parameters import CALIBRATIONS, WEIGHTS
from dpoco.accounting.leaf_bounds import LeafBounds, published_leaf_bound
from dpoco.accounting.noisy_max import mean_excess
from dpoco.accounting.zcdp import zcdp_rho
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.decaying import LARGEST_EXPONENT, LAWS, Decay, Decaying
from dpoco.privacy.mechanisms.selections import VertexScores
from dpoco.privacy.neighbours import CHANGES

__all__ = [
    "SELECTORS",
    "L1Geometry",
    "PolyhedralFrankWolfeParameters",
    "Reach",
    "best_batch",
    "closed_scale",
    "decaying",
    "keeps",
    "published_epsilon",
    "published_scale",
    "scores_of",
    "smallest_scale",
]

SELECTORS = ("gumbel", "laplace")
_LAW = {"gumbel": "bounded_range", "laplace": "pure"}
# Of the worst-case curvature in the choice of the batch: it is far too large for records that are
# not aligned with a pair of vertices.
_CURVATURE = 0.125
_FEWEST_UPDATES = 16


@dataclass(frozen=True)
class PolyhedralFrankWolfeParameters(StoredParameters):
    """Parameters of the polyhedral Frank-Wolfe learner.

    Attributes
    ----------
    selector : {"gumbel", "laplace"}
        Private selection of a vertex: the exponential mechanism, or noisy max with Laplace noise.
    weights : {"unbiased", "paper"}
        Weights w_k of the gradient estimate: k or k + 1.
    exponent : float
        alpha in [0, 0.9]: update k has noise of scale ``scale * k**-alpha``.
    scale : float
        Noise scale b_1 of the first update, in units of the loss; 0 means no noise.
    leaf_scalar_bound : float or None
        Bound on the scalar of a generalised linear loss's leaf; None for other losses.
    leaf_bound : float
        Bound C on a leaf in the maximum norm, enforced by clipping.
    leaf_bound_l2 : float or None
        Bound on a leaf in l2, enforced too; None for none.
    batch : int
        Rounds per update.
    updates : int
        Updates K = horizon // batch.
    horizon : int
        Rounds.
    calibration : {"tight", "corrected", "paper"}
        How the noise scale was found.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    score_range : float
        Length of the interval in which one record moves the scores of the sum of leaves, divided
        by `batch`. Derived, as is all below.
    rho : float
        zCDP parameter; infinite without noise.
    predicted_error : float
        Bound on the excess loss that noise adds to the last decision.
    loss_range : float
        L D, more than which no loss can differ between two decisions.
    """

    _kind: ClassVar[str] = "dpoco.polyhedral_frank_wolfe_parameters"

    selector: str
    weights: str
    exponent: float
    scale: float
    leaf_scalar_bound: float | None
    leaf_bound: float
    leaf_bound_l2: float | None
    batch: int
    updates: int
    horizon: int
    calibration: str
    relation: str
    score_range: float
    rho: float
    predicted_error: float
    loss_range: float

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        choice("selector", self.selector, SELECTORS)
        choice("weights", self.weights, WEIGHTS)
        choice("calibration", self.calibration, CALIBRATIONS)
        choice("relation", self.relation, CHANGES)
        if not 0.0 <= real_float("exponent", self.exponent) <= LARGEST_EXPONENT:
            raise ValueError(f"exponent must be in [0, {LARGEST_EXPONENT}]; got {self.exponent!r}")
        if self.scale != 0.0:
            positive_float("scale", self.scale)
        positive_float("leaf_bound", self.leaf_bound)
        for name in ("leaf_scalar_bound", "leaf_bound_l2"):
            if getattr(self, name) is not None:
                positive_float(name, getattr(self, name))
        for name in ("batch", "updates", "horizon"):
            positive_int(name, getattr(self, name))
        if self.updates != self.horizon // self.batch:
            raise ValueError("updates must be horizon // batch")
        for name in ("score_range", "predicted_error", "loss_range"):
            at_least_zero(name, getattr(self, name))
        if not self.rho >= 0.0 or (self.rho == math.inf) != (self.scale == 0.0 < self.score_range):
            raise ValueError("rho must be at least 0, and infinite without noise only")

    @property
    def private(self) -> bool:
        """Whether anything is promised: there is noise, or nothing depends on the data."""
        return self.scale > 0.0 or self.score_range == 0.0

    @property
    def sensitivity(self) -> float:
        """Largest difference of a leaf between neighbours, in the maximum norm."""
        return self.leaf_bound * (2.0 if self.relation == "replace" else 1.0)

    @property
    def noise_dominates(self) -> bool:
        """Whether the predicted error exceeds the range of the loss."""
        return self.predicted_error > self.loss_range

    @property
    def decay(self) -> Decay:
        """How the ranges of the selections shrink."""
        return Decay(self.exponent, 1 if self.weights == "paper" else 0, self.updates)

    def noise_scale_at(self, update: int) -> float:
        """Return the noise scale b_k of an update k >= 1."""
        return self.scale * math.pow(positive_int("update", update), -self.exponent)


class L1Geometry:
    """A polytope in the geometry of l_1: what the learner's bounds are stated in, a box's too.

    Raises ``TypeError`` for a domain without listed or structured vertices.
    """

    p = 1.0
    dual_exponent = math.inf

    def __init__(self, domain: Any) -> None:
        from dpoco import domains

        self.domain = domain
        self.dimension: int = domain.dimension
        self.is_box = isinstance(domain, domains.Box)
        if isinstance(domain, domains.LpBall) and domain.p == 1.0:
            self.vertices = 2 * domain.dimension
        elif isinstance(domain, domains.Simplex):
            self.vertices = domain.dimension
        elif isinstance(domain, domains.VertexSet):
            self.vertices = len(domain.vertices)
        elif self.is_box:
            self.vertices = 2  # a coordinate
        else:
            raise TypeError(
                "domain must be an LpBall with p = 1, a Simplex, a Box or a VertexSet; "
                f"got {type(domain).__name__}"
            )

    def diameter(self, order: float | None = None) -> float:
        """Largest distance, in l_1 by default."""
        return float(self.domain.diameter(1.0 if order is None else order))

    def max_norm(self, order: float | None = None) -> float:
        """Largest norm, in l_1 by default."""
        return float(self.domain.max_norm(1.0 if order is None else order))

    def excess(self, selector: str) -> float:
        """Return a bound on the mean excess score of a private selection, in units of the scale."""
        coordinates = int(self.domain.intrinsic_dimension) if self.is_box else 1
        return coordinates * mean_excess(self.vertices, selector)


class Reach(NamedTuple):
    """How far one record moves the scores: within an interval, and in the sense of zCDP."""

    range: float
    spread: float


def scores_of(view: L1Geometry, loss: Any, leaf: LeafBounds, offset: int) -> VertexScores | None:
    """Return the scores of selections from batches of one round; None for a single point."""
    if view.diameter(1.0) == 0.0:
        return None
    bounds = {"slope": 1.0, "leaf": leaf.dual, "leaf_l2": leaf.l2}
    if leaf.scalar is not None:
        l2 = math.inf if loss.feature_bound_l2 is None else float(loss.feature_bound_l2)
        bounds = {"slope": leaf.scalar, "leaf": float(loss.feature_bound), "leaf_l2": l2}
    return VertexScores(
        diameter_l1=view.diameter(1.0),
        diameter_l2=view.diameter(2.0),
        diameter_max=view.diameter(math.inf),
        product=view.is_box,
        batch=1,
        offset=offset,
        **bounds,
    )


def decaying(selector: str, reach: Reach, decay: Decay, scale: float) -> Decaying:
    """Return the loss of selections whose first noise has this scale."""
    return Decaying(_LAW[selector], reach.range / scale, reach.spread / scale, *decay)


def smallest_scale(budget: Budget, reach: Reach, selector: str, decay: Decay, tight: bool) -> float:
    """Return the least b_1 that keeps to `budget`; by zCDP and pure composition unless `tight`."""
    scale = closed_scale(budget, reach, selector, decay)
    if tight and budget.delta > 0.0:
        scale = _least(scale, lambda b: _delta(budget, reach, selector, decay, b), budget.delta)
    while not keeps(budget, reach, selector, decay, scale):  # rounding, by a few units
        scale *= 1.0 + 1e-12
    return scale


def closed_scale(budget: Budget, reach: Reach, selector: str, decay: Decay) -> float:
    """Return the b_1 that zCDP or pure composition ask for; nothing checks its rounding."""
    scale = reach.range * decay.total() / budget.epsilon
    if budget.delta > 0.0:
        try:
            rho = _rho(budget.epsilon, budget.delta)
        except CalibrationError:
            return scale
        scale = min(scale, reach.spread * math.sqrt(LAWS[_LAW[selector]] / rho * decay.squares()))
    return scale


@lru_cache(maxsize=64)
def _rho(epsilon: float, delta: float) -> float:
    return zcdp_rho(epsilon, delta)


def _least(high: float, delta: Callable[[float], float], target: float) -> float:
    """Return the smallest scale at which `delta` is at most `target`, to 1e-9; at most `high`."""
    from scipy.optimize import brentq

    def excess(log_scale: float) -> float:
        return math.log(max(delta(math.exp(log_scale)), 1e-300)) - math.log(target)

    low = 0.8 * high
    while delta(low) <= target:
        high, low = low, 0.8 * low
    if delta(high) > target:
        return high
    root, top = math.log(low), math.log(high)
    if excess(root) > 0.0:
        root = float(brentq(excess, root, top, xtol=2e-10)) if excess(top) < 0.0 else top
    scale, margin = min(math.exp(root), high), 2e-10
    while delta(scale) > target:
        scale, margin = min(scale * (1.0 + margin), high), 2.0 * margin
    return scale


def _delta(budget: Budget, reach: Reach, selector: str, decay: Decay, scale: float) -> float:
    return decaying(selector, reach, decay, scale).delta(budget.epsilon)


def keeps(budget: Budget, reach: Reach, selector: str, decay: Decay, scale: float) -> bool:
    """Whether selections whose first noise scale is `scale` keep to `budget`."""
    if budget.delta == 0.0:
        return decaying(selector, reach, decay, scale).pure <= budget.epsilon
    return _delta(budget, reach, selector, decay, scale) <= budget.delta


def best_batch(
    view: L1Geometry,
    loss: Any,
    n: int,
    selector: str,
    exponent: float,
    coefficient: Callable[[int], float],
) -> int:
    """Return the m that minimises optimisation error plus noise, K = n // m updates."""
    width = view.diameter()
    curvature = _CURVATURE * float(loss.smoothness(view)) * width * width
    excess = view.excess(selector)
    best, least, m = 1, math.inf, 1
    while m == 1 or m <= n // _FEWEST_UPDATES:
        updates = n // m
        slow = curvature * (1.0 + math.log(updates)) / (2.0 * updates)
        error = slow + excess * coefficient(m) * Decay(exponent, 0, updates).mean_scale()
        if error < least:
            best, least = m, error
        m = max(m + 1, int(1.15 * m))
    return best


def _published_factor(view: L1Geometry, loss: Any, n: int, delta: float) -> float:
    """Return epsilon times the published noise scale at t = 1: 4 D (beta D + L) sqrt(...)."""
    bound = published_leaf_bound(view, loss, 1.0)
    return 4.0 * view.diameter() * bound * math.sqrt(math.log(n) * math.log(1.0 / delta))


def published_scale(view: L1Geometry, loss: Any, n: int, budget: Budget) -> float:
    """Return the scale of the first update as published, for `n` rounds."""
    return _published_factor(view, loss, n, budget.delta) / budget.epsilon


def published_epsilon(view: L1Geometry, loss: Any, n: int, scale: float, delta: float) -> float:
    """Return the epsilon that is claimed at `delta` for a scale of the first update."""
    if not delta > 0.0:
        raise ValueError("calibration 'paper' claims nothing at delta = 0")
    return _published_factor(view, loss, n, delta) / scale
