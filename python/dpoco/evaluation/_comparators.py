"""Comparators: the best fixed decision with a certificate, the best constant, excess risk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco._clipping import record_multipliers
from dpoco._validation import FloatArray, float_array, positive_float, positive_int
from dpoco.domains import Domain
from dpoco.errors import DpocoError
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss

GlmLoss = SquaredLoss | LogisticLoss | HuberLoss
Loss = GlmLoss | LinearLoss | QuadraticLoss

# Logistic losses have no best constant when all labels are equal: beyond this margin a loss is
# below 1e-13.
_LARGEST_MARGIN = 30.0


@dataclass(frozen=True, eq=False)
class FixedDecision:
    """The best decision in hindsight. Not private.

    Attributes
    ----------
    decision : ndarray of float64, shape (d,), read-only
        In the domain.
    total_loss, average_loss : float
        Sum and mean of its losses over the records, clipped as a learner clips them.
    gap : float
        Proven bound on how far `average_loss` is above the optimum.
    iterations : int
        Iterations of the solver; 0 when the solution is closed.
    """

    decision: FloatArray
    total_loss: float
    average_loss: float
    gap: float
    iterations: int


@dataclass(frozen=True)
class ConstantPrediction:
    """The best constant margin, which ignores the features. Not private.

    Attributes
    ----------
    prediction : float
        The margin z that stands for ``<theta, x>`` in every round.
    total_loss, average_loss : float
        Sum and mean of ``l(z, y)`` over all rounds; rounds with a non-finite label count 0.
    """

    prediction: float
    total_loss: float
    average_loss: float


def best_fixed_decision(
    domain: Domain,
    loss: Loss,
    features: Any,
    labels: Any = None,
    *,
    tolerance: float = 1e-7,
    max_iterations: int = 100_000,
) -> FixedDecision:
    """Minimise the total loss over the domain, to a certified gap.

    Parameters
    ----------
    domain : Domain
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss or QuadraticLoss
        Records are clipped to its bounds exactly as a learner clips them.
    features : array_like of shape (T, d)
        Records; gradients for a `LinearLoss`; matrices, shape (T, d, d), for a `QuadraticLoss`.
    labels : array_like of shape (T,), optional
        For generalised linear losses; vectors, shape (T, d), for a `QuadraticLoss`.
    tolerance : float, default 1e-7
        Largest gap of the average loss, relative to the average loss of the domain's centre.
    max_iterations : int, default 100000
        Limit of the solver's iterations.

    Returns
    -------
    FixedDecision
        With ``gap`` at most the tolerance.

    Raises
    ------
    DpocoError
        If the gap is not reached within `max_iterations`.
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    Accelerated projected gradient with backtracking and restarts (Beck and Teboulle 2009;
    O'Donoghue and Candes 2015); the certificate is the Frank-Wolfe gap
    ``max_v <grad F(theta), theta - v>``, an upper bound on ``F(theta) - min F`` for convex F,
    whatever the solver did. O(T d) time per iteration, O(T d) memory.
    """
    relative = positive_float("tolerance", tolerance)
    limit = positive_int("max_iterations", max_iterations)
    d = domain.dimension
    quadratic = isinstance(loss, QuadraticLoss)
    rows = float_array("features", features, (None, d, d) if quadratic else (None, d))
    rounds = rows.shape[0]
    if rounds == 0:
        raise ValueError("features must have at least one row")
    targets = None
    if loss.glm or quadratic:
        if labels is None:
            raise TypeError("labels are required by this loss")
        targets = float_array("labels", labels, (rounds, d) if quadratic else (rounds,))
    elif not isinstance(loss, LinearLoss):
        raise TypeError("the losses must be given by arrays, not by a CustomLoss")
    elif labels is not None:
        raise TypeError("this loss takes no labels")

    objective: _AverageQuadratic | _AverageLoss
    if isinstance(loss, QuadraticLoss):
        assert targets is not None
        objective = _AverageQuadratic(domain, loss, rows, targets)
    else:
        objective = _AverageLoss(domain, loss, rows, targets)
    centre = objective.margins(domain.center)
    if isinstance(loss, LinearLoss):
        decision = domain.minimize_linear(objective.gradient_at(centre))
        gap, iterations = 0.0, 0
    else:
        scale = abs(objective.value_at(centre))
        if quadratic:  # known up to a constant, so its value at the centre is no scale
            slope = objective.gradient_at(centre)
            scale = float(np.linalg.norm(slope)) * domain.radius_from_center()
        goal = relative * scale if scale > 0.0 else relative
        decision, gap, iterations = _minimize(objective, domain, goal, limit)
        if not gap <= goal:
            raise DpocoError(
                f"the best fixed decision was not certified within {limit} iterations; "
                "raise max_iterations or tolerance"
            )
    decision.flags.writeable = False
    total = float(loss.batch_values(domain, decision, rows, targets).sum())
    return FixedDecision(decision, total, total / rounds, gap, iterations)


def best_constant_prediction(loss: GlmLoss, labels: Any) -> ConstantPrediction:
    """Return the margin z that minimises ``sum_t l(z, y_t)``, over all real z.

    Parameters
    ----------
    loss : SquaredLoss, LogisticLoss or HuberLoss
        Labels are clipped to its range.
    labels : array_like of shape (T,)
        Labels; rounds with a non-finite one count as zero loss.

    Returns
    -------
    ConstantPrediction
        For the logistic loss the average is the entropy of the label rate, in nats, and the
        margin is capped at 30 in magnitude (reached when all labels are equal).

    Raises
    ------
    ValueError, TypeError
        For other losses or bad shapes.
    """
    if not loss.glm:
        raise TypeError("the best constant prediction is defined for generalised linear losses")
    given = float_array("labels", labels, (None,))
    if given.size == 0:
        raise ValueError("labels must not be empty")
    engine = loss._glm_engine
    targets = engine.clip_labels(np.ascontiguousarray(given[np.isfinite(given)]))
    if targets.size == 0:
        return ConstantPrediction(0.0, 0.0, 0.0)

    def slope(margin: float) -> float:
        return float(engine.derivatives(np.full(targets.size, margin), targets).sum())

    if isinstance(loss, LogisticLoss):
        low, high = -_LARGEST_MARGIN, _LARGEST_MARGIN
    else:
        low, high = float(targets.min()), float(targets.max())
    # The slope never decreases: halve until the interval is as short as doubles allow.
    while low < (middle := low + (high - low) / 2.0) < high:
        if slope(middle) < 0.0:
            low = middle
        else:
            high = middle
    total = float(engine.values(np.full(targets.size, high), targets).sum())
    return ConstantPrediction(high, total, total / given.size)


def constant_losses(loss: GlmLoss, margin: float, labels: FloatArray) -> FloatArray:
    """Losses of a constant margin, shape (T,); 0 where the label is not finite."""
    present = np.isfinite(labels)
    low, high = loss.label_range
    targets = np.clip(np.where(present, labels, low), low, high)
    values = loss.value(np.array([margin]), np.ones((len(labels), 1)), targets)
    return np.where(present, values, 0.0)


def suboptimality(
    loss: Loss, decision: Any, features: Any, labels: Any, reference: Any, *, relative: bool = False
) -> float:
    """Excess risk of a decision on test data: mean loss minus that of a reference decision.

    Parameters
    ----------
    loss : SquaredLoss, LogisticLoss, HuberLoss or LinearLoss
        Evaluated on raw records: nothing is clipped.
    decision, reference : array_like of shape (d,)
        The decision to judge, and the best one (a simulated stream's ``target``).
    features, labels : array_like of shapes (T, d) and (T,)
        Fresh records; labels None for a `LinearLoss`.
    relative : bool, default False
        Divide by the excess risk of the zero decision: 0 is perfect, 1 has learned nothing.

    Returns
    -------
    float
        An unbiased estimate of ``E f(decision) - E f(reference)``; it may be slightly negative.
    """
    rows = float_array("features", features, (None, None))
    if rows.shape[0] == 0:
        raise ValueError("features must have at least one row")

    def risk(point: Any) -> float:
        theta = float_array("decision", point, (rows.shape[1],))
        return float(np.mean(loss.value(theta, rows, labels)))

    best = risk(reference)
    excess = risk(decision) - best
    if not relative:
        return excess
    span = risk(np.zeros(rows.shape[1])) - best
    if not span > 0.0:
        raise ValueError("the zero decision is no worse than the reference: no relative excess")
    return excess / span


# ---- accelerated projected gradient --------------------------------------------------------------

# The certificate costs one more pass over the data: looked at this often.
_CHECK_EVERY = 10
_GROWTH, _SHRINK = 2.0, 0.9


class _AverageQuadratic:
    """The mean of a stream of quadratic losses, scaled as a learner scales them."""

    def __init__(
        self, domain: Domain, loss: QuadraticLoss, matrices: FloatArray, vectors: FloatArray
    ) -> None:
        factors = loss.scales(domain, matrices, vectors)
        kept = factors > 0.0
        weights = factors[kept] / matrices.shape[0]
        matrix = np.einsum("t,tij->ij", weights, matrices[kept])
        self._matrix: FloatArray = 0.5 * (matrix + matrix.T)
        self._vector: FloatArray = weights @ vectors[kept]

    def margins(self, theta: FloatArray) -> FloatArray:
        """Return the point itself."""
        return theta

    def value_at(self, margins: FloatArray) -> float:
        """F."""
        return float(0.5 * margins @ self._matrix @ margins - self._vector @ margins)

    def gradient_at(self, margins: FloatArray) -> FloatArray:
        """Gradient of F."""
        gradient: FloatArray = self._matrix @ margins - self._vector
        return gradient

    def typical_curvature(self) -> float:
        """Mean eigenvalue."""
        return float(np.trace(self._matrix)) / len(self._vector)


class _AverageLoss:
    """``F(theta) = (1/T) sum_t f_t(theta)`` on records clipped as a learner clips them."""

    def __init__(
        self,
        domain: Domain,
        loss: SquaredLoss | LogisticLoss | HuberLoss | LinearLoss,
        features: FloatArray,
        labels: FloatArray | None,
    ) -> None:
        if isinstance(loss, LinearLoss):
            factors = record_multipliers(
                domain, features, loss.gradient_bound, loss.gradient_bound_l2
            )
        else:
            assert labels is not None
            factors = record_multipliers(
                domain, features, loss.feature_bound, loss.feature_bound_l2
            )
            factors[~np.isfinite(labels)] = 0.0
        kept = factors > 0.0
        self._rounds = int(features.shape[0])
        self._rows = np.ascontiguousarray(features[kept] * factors[kept, None])
        self._engine = None
        self._labels = np.empty(0)
        if labels is not None:
            self._engine = loss._glm_engine
            self._labels = self._engine.clip_labels(np.ascontiguousarray(labels[kept]))

    def margins(self, theta: FloatArray) -> FloatArray:
        """``<theta, x_t>`` of the kept records, shape (T',)."""
        return np.ascontiguousarray(self._rows @ theta)

    def value_at(self, margins: FloatArray) -> float:
        """F, from the margins."""
        if self._engine is None:
            return float(margins.sum()) / self._rounds
        return float(self._engine.values(margins, self._labels).sum()) / self._rounds

    def gradient_at(self, margins: FloatArray) -> FloatArray:
        """Gradient of F, shape (d,), from the margins."""
        if self._engine is None:
            weights = np.ones(len(margins))
        else:
            weights = self._engine.derivatives(margins, self._labels)
        gradient: FloatArray = weights @ self._rows / self._rounds
        return gradient

    def typical_curvature(self) -> float:
        """First guess of the smoothness constant: the mean squared length of a record."""
        return float(np.einsum("ij,ij->", self._rows, self._rows)) / self._rounds


def _minimize(
    objective: _AverageQuadratic | _AverageLoss, domain: Domain, goal: float, limit: int
) -> tuple[FloatArray, float, int]:
    """Return a point of the domain, its Frank-Wolfe gap and the number of iterations.

    The gap is at most `goal` unless `limit` iterations were spent.
    """
    point = np.array(domain.center)
    margins = objective.margins(point)
    ahead, margins_ahead = point, margins  # the extrapolated point
    momentum, smoothness = 1.0, objective.typical_curvature() or 1.0
    gap = math.inf
    best, best_gap = point, math.inf
    for iteration in range(limit + 1):
        if iteration % _CHECK_EVERY == 0 or iteration == limit:
            gradient = objective.gradient_at(margins)
            gap = float(gradient @ (point - domain.minimize_linear(gradient)))
            gap = max(gap, 0.0)
            if gap < best_gap:
                best, best_gap = point, gap
            if gap <= goal or iteration == limit:
                return np.array(best), best_gap, iteration
        slope = objective.gradient_at(margins_ahead)
        height = objective.value_at(margins_ahead)
        rounding = 1e-14 * max(1.0, abs(height))
        smoothness *= _SHRINK
        while True:
            candidate = domain.project(ahead - slope / smoothness)
            step = candidate - ahead
            new_margins = objective.margins(candidate)
            model = height + float(slope @ step) + 0.5 * smoothness * float(step @ step)
            if objective.value_at(new_margins) <= model + rounding:
                break
            smoothness *= _GROWTH
        moved = candidate - point
        if float(slope @ moved) > 0.0:  # momentum points uphill: start it again
            momentum = 1.0
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        pull = (momentum - 1.0) / following
        ahead = candidate + pull * moved
        margins_ahead = new_margins + pull * (new_margins - margins)
        point, margins, momentum = candidate, new_margins, following
    return np.array(best), best_gap, limit
