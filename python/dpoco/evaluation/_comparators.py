"""The best in hindsight: a fixed decision with a certificate, a constant, experts, sequences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpoco._clipping import admitted_losses, checked_range, record_multipliers
from dpoco._validation import (
    LARGEST_HORIZON,
    FloatArray,
    IntArray,
    float_array,
    positive_float,
    positive_int,
    real_float,
    whole_number,
)
from dpoco.domains import Domain
from dpoco.errors import DpocoError
from dpoco.losses import CustomLoss, GlmLoss, LinearLoss, MarginLoss, QuadraticLoss

Loss = MarginLoss | LinearLoss | QuadraticLoss | CustomLoss

# If all labels are equal, logistic losses have no best constant. Beyond this margin, a loss is
# below 1e-13.
_LARGEST_MARGIN = 30.0


@dataclass(frozen=True, eq=False)
class FixedDecision:
    """The best decision in hindsight. Not private.

    Attributes
    ----------
    decision : ndarray of float64, shape (d,), read-only
        The decision, in the domain.
    total_loss, average_loss : float
        Sum and mean of its losses over the records, clipped as by a learner.
    gap : float
        Proven bound on how far `average_loss` is above the optimum.
    iterations : int
        Iterations of the solver; 0 for a closed-form solution.
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
        The margin z that replaces ``<theta, x>`` in every round.
    total_loss, average_loss : float
        Sum and mean of ``l(z, y)`` over all rounds; rounds with a non-finite label count as 0.
    """

    prediction: float
    total_loss: float
    average_loss: float


def best_fixed_decision(
    domain: Domain,
    loss: Loss,
    features: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    tolerance: float = 1e-7,
    max_iterations: int = 100_000,
) -> FixedDecision:
    """Minimise the total loss over the domain, with a certified gap.

    Parameters
    ----------
    domain : Domain
        The decision set.
    loss : MarginLoss, LinearLoss, QuadraticLoss or CustomLoss
        Records are clipped to its bounds exactly as by a learner. A `CustomLoss` must be convex and
        have ``values`` and ``gradients``.
    features : array_like of shape (T, d)
        Records; gradients for a `LinearLoss`; matrices, shape (T, d, d), for a `QuadraticLoss`;
        rows of shape (T, k) for a `CustomLoss`.
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
    O'Donoghue and Candes 2015). The certificate is the Frank-Wolfe gap ``max_v <grad F(theta),
    theta - v>``, which for convex F bounds ``F(theta) - min F`` whatever the solver did. O(T d)
    time per iteration, O(T d) memory.
    """
    relative = positive_float("tolerance", tolerance)
    limit = positive_int("max_iterations", max_iterations)
    d = domain.dimension
    quadratic = isinstance(loss, QuadraticLoss)
    if isinstance(loss, CustomLoss):
        rows = loss.rows(features)
    else:
        rows = float_array("features", features, (None, d, d) if quadratic else (None, d))
    rounds = rows.shape[0]
    if rounds == 0:
        raise ValueError("features must have at least one row")
    targets: Any = None
    if loss.glm or quadratic:
        if labels is None:
            raise TypeError("labels are required by this loss")
        targets = float_array("labels", labels, (rounds, d) if quadratic else (rounds,))
    elif labels is not None:
        raise TypeError("this loss takes no labels")

    if isinstance(loss, LinearLoss):
        factors = record_multipliers(domain, rows, loss.gradient_bound, loss.gradient_bound_l2)
        # Records that are not finite have the factor 0, but 0 times NaN would be NaN.
        kept = factors > 0.0
        decision = domain.minimize_linear(factors[kept] @ rows[kept] / rounds)
        gap, iterations = 0.0, 0
    else:
        objective = _average(domain, loss, rows, targets)
        centre = objective.margins(domain.center)
        scale = abs(float(objective.value(centre)))
        if quadratic:  # only known up to a constant, so its value at the centre is not a scale
            slope = objective.gradient(centre)
            scale = float(np.linalg.norm(slope)) * domain.radius_from_center()
        # If the loss at the centre is 0, it is not a unit, and the tolerance is absolute.
        goal = relative * scale if scale > 0.0 else relative
        decision, gap, iterations = _minimize(objective, domain, goal, limit)
        # Written with `not`, so that a gap of NaN is not accepted.
        if not gap <= goal:
            raise DpocoError(
                f"the best fixed decision was not certified within {limit} iterations; "
                "raise max_iterations or tolerance"
            )
    # Read-only, because all traces and figures share one comparator.
    decision.flags.writeable = False
    total = float(loss.batch_values(domain, decision, rows, targets).sum())
    return FixedDecision(decision, total, total / rounds, gap, iterations)


def best_constant_prediction(loss: MarginLoss, labels: ArrayLike) -> ConstantPrediction:
    """Return the margin z that minimises ``sum_t l(z, y_t)``, over all real z.

    Parameters
    ----------
    loss : MarginLoss
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
    engine = loss.reported._glm_engine
    targets = engine.clip_labels(np.ascontiguousarray(given[np.isfinite(given)]))
    if targets.size == 0:
        return ConstantPrediction(0.0, 0.0, 0.0)

    def slope(margin: float) -> float:
        return float(engine.derivatives(np.full(targets.size, margin), targets).sum())

    if loss.label_range == (0.0, 1.0):  # labels are probabilities, not margins
        low, high = -_LARGEST_MARGIN, _LARGEST_MARGIN
    else:
        # A loss is least at its label, or, for a custom loss, within `reach` of it.
        far = loss.reach if isinstance(loss, GlmLoss) else 0.0
        low, high = float(targets.min()) - far, float(targets.max()) + far
    # The slope never decreases, so we bisect until the interval is as short as doubles allow.
    while low < (middle := low + (high - low) / 2.0) < high:
        if slope(middle) < 0.0:
            low = middle
        else:
            high = middle
    total = float(engine.values(np.full(targets.size, high), targets).sum())
    # Over all rounds, as in `FixedDecision`: a missing label is a round without loss.
    return ConstantPrediction(high, total, total / given.size)


def present_labels(features: FloatArray, labels: FloatArray) -> FloatArray:
    """Return the labels, with NaN for missing records, because such a round costs nothing."""
    return np.where(np.isfinite(features).all(axis=1), labels, np.nan)


def constant_losses(loss: MarginLoss, margin: float, labels: FloatArray) -> FloatArray:
    """Losses of a constant margin, shape (T,); 0 where the label is not finite."""
    present = np.isfinite(labels)
    low, high = loss.label_range
    # A missing label is replaced by a valid number; its loss is dropped below.
    targets = np.clip(np.where(present, labels, low), low, high)
    values = loss.value(np.array([margin]), np.ones((len(labels), 1)), targets)
    return np.where(present, values, 0.0)


def suboptimality(
    loss: Loss,
    decision: ArrayLike,
    features: ArrayLike,
    labels: ArrayLike | None,
    reference: ArrayLike,
) -> float:
    """Excess risk of a decision on test data: mean loss minus that of a reference decision.

    Parameters
    ----------
    loss : MarginLoss or LinearLoss
        Evaluated on raw records: nothing is clipped.
    decision, reference : array_like of shape (d,)
        The decision to evaluate, and the best one (a simulated stream's ``target``).
    features, labels : array_like of shapes (T, d) and (T,)
        Fresh records; labels None for a `LinearLoss`.

    Returns
    -------
    float
        An unbiased estimate of ``E f(decision) - E f(reference)``; it may be slightly negative.
        Divided by the value for the zero decision, 0 is perfect and 1 means that nothing was
        learned.
    """
    rows = float_array("features", features, (None, None))
    if rows.shape[0] == 0:
        raise ValueError("features must have at least one row")

    def risk(point: ArrayLike) -> float:
        theta = float_array("decision", point, (rows.shape[1],))
        return float(np.mean(loss.value(theta, rows, labels)))

    return risk(decision) - risk(reference)


# ---- experts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FixedExpert:
    """The best single expert in hindsight. Not private.

    Attributes
    ----------
    decision : int
        Its index; the lowest one if several are best.
    total_loss, average_loss : float
        Sum and mean of its losses, clipped as a learner clips them.
    """

    decision: int
    total_loss: float
    average_loss: float


@dataclass(frozen=True, eq=False)
class BestSequence:
    """The best sequence of experts in hindsight with a limited number of switches. Not private.

    Attributes
    ----------
    decisions : ndarray of int64, shape (T,), read-only
        The expert of each round.
    total_loss : float
        Sum of its losses, clipped as a learner clips them.
    costs : ndarray of float64, shape (min(S, T - 1) + 1,), read-only
        Entry c is the least total loss with at most c switches; never increasing.
    """

    decisions: IntArray
    total_loss: float
    costs: FloatArray

    @property
    def limit(self) -> int:
        """Number of switches that were allowed and possible: S, at most T - 1."""
        return len(self.costs) - 1

    @property
    def switches(self) -> IntArray:
        """Round indices (0-based, increasing) after which the sequence changes expert."""
        return np.flatnonzero(self.decisions[1:] != self.decisions[:-1])


def best_expert(losses: ArrayLike, *, loss_range: tuple[float, float] = (0.0, 1.0)) -> FixedExpert:
    """Return the expert with the least total loss.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        Losses of all experts, one row per round, T and N at least 1.
    loss_range : (low, high), default (0, 1)
        The learner's range: values outside are clipped, and non-finite entries count as `low`.

    Returns
    -------
    FixedExpert

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes.
    """
    rows = _admitted_table(losses, loss_range)
    # Round by round, as `best_switching_sequence` adds: `sum` may have other last digits.
    totals = np.add.accumulate(rows)[-1]
    decision = int(totals.argmin())
    return FixedExpert(decision, float(totals[decision]), float(totals[decision]) / len(rows))


def best_switching_sequence(
    losses: ArrayLike, switches: int, *, loss_range: tuple[float, float] = (0.0, 1.0)
) -> BestSequence:
    """Return the sequence of experts with the least total loss and few switches.

    The comparator of dynamic regret: ``trace.regret(best_switching_sequence(losses, S))``.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        Losses of all experts, one row per round, T and N at least 1.
    switches : int
        Largest number S >= 0 of rounds after which the sequence may change expert.
    loss_range : (low, high), default (0, 1)
        The learner's range: values outside are clipped, and non-finite entries count as `low`.

    Returns
    -------
    BestSequence
        Exact up to the rounding of sums. If several sequences are best, the result has the fewest
        switches among them; the choice is deterministic.

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes, or negative `switches`.

    Notes
    -----
    Dynamic programming over (switches so far, expert): O(N S T) time and O(S (N + T)) memory. All
    limits are computed together: the costs are not convex in the limit, so a penalty per switch
    would not find them all.
    """
    most = whole_number("switches", switches, 0, LARGEST_HORIZON)
    rows = _admitted_table(losses, loss_range)
    # More switches than gaps between rounds would cost time and change nothing.
    useful = min(most, len(rows) - 1)
    costs, decisions = _least_costs(rows, useful)
    # Read-only, because `costs` and `decisions` belong together.
    for array in (costs, decisions):
        array.flags.writeable = False
    return BestSequence(decisions, float(costs[-1]), costs)


def _least_costs(rows: FloatArray, switches: int) -> tuple[FloatArray, IntArray]:
    """Return the least cost of each limit, and a sequence with the last cost and fewest switches.

    For each expert j, layer c of `costs` has the least loss D of a sequence with at most c switches
    that is with j now: D(c, j) <- l(j) + min(D(c, j), min_i D(c - 1, i)). Among equal choices it
    stays rather than switches, and takes the lowest index.
    """
    rounds, experts = rows.shape
    layers = np.arange(switches + 1)
    costs = np.zeros((switches + 1, experts))
    # The round in which the sequence behind each cost came to its expert.
    starts = np.zeros(costs.shape, dtype=np.int32)
    # The same for the best sequence of each layer after each round, and its expert. A sequence with
    # c switches that comes to an expert in round t continues the best one of layer c - 1.
    best_starts = np.empty((rounds, switches), dtype=np.int32)
    best_experts = np.empty((rounds, switches), dtype=np.int32)
    for t, row in enumerate(rows):
        if t > 0:
            least = costs[layers[:-1], best_experts[t - 1], np.newaxis]
            np.copyto(starts[1:], t, where=least < costs[1:])
            np.minimum(costs[1:], least, out=costs[1:])
        costs += row
        now = costs[:-1].argmin(axis=1)
        best_experts[t] = now
        best_starts[t] = starts[layers[:-1], now]

    totals = costs.min(axis=1)
    layer = int(np.argmax(totals == totals[-1]))
    expert = costs[layer].argmin()
    decisions = np.full(rounds, expert)
    start = starts[layer, expert]
    while start > 0:
        layer, end = layer - 1, start
        start = best_starts[end - 1, layer]
        decisions[start:end] = best_experts[end - 1, layer]
    return totals, decisions


def interval_regret(
    own_losses: ArrayLike,
    losses: ArrayLike,
    *,
    allowance: float = 0.0,
    loss_range: tuple[float, float] = (0.0, 1.0),
) -> float:
    """Return the largest regret over all intervals of rounds, against any single expert.

    Parameters
    ----------
    own_losses : array_like of shape (T,)
        The learner's loss in each round, for example the ``losses`` of its trace.
    losses : array_like of shape (T, N)
        Losses of all experts, one row per round, T and N at least 1.
    allowance : float, default 0
        Non-negative c. Only the part of an interval's regret above an allowance counts. For w
        rounds the allowance is between ``c sqrt(w)`` and ``1.061 c sqrt(w)`` (the lowest of the
        tangents at 1, 4, 16, ... rounds). The largest interval regret of an i.i.d. gambler grows
        with the length of the game; the part above an allowance does not.
    loss_range : (low, high), default (0, 1)
        The learner's range, for both arrays: values outside are clipped, and non-finite entries
        count as `low`.

    Returns
    -------
    float
        In the units of the losses, at least 0, because the empty interval counts.

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes, or a negative allowance.

    Notes
    -----
    One running sum per expert and tangent: O(N T) time without allowance, O(N T log T) with one.
    """
    extra = real_float("allowance", allowance)
    # The tangents multiply it by the number of rounds, which must not overflow.
    if not 0.0 <= extra <= 1e100:
        raise ValueError(f"allowance must be in [0, 1e100]; got {extra!r}")
    rows = _admitted_table(losses, loss_range)
    low, high = checked_range(loss_range)
    own = admitted_losses(float_array("own_losses", own_losses, (len(rows),)), low, high)
    # The tangent of the allowance at w = root^2 is (allowance / 2) (root + w / root).
    tangents = ((len(rows) - 1).bit_length() + 1) // 2 + 1 if extra > 0.0 else 1
    roots = 2.0 ** np.arange(tangents)
    tolls = 0.5 * extra / roots
    # Kadane's rule for all tangents and experts, if every round costs its toll more.
    ending = np.zeros((len(roots), rows.shape[1]))
    largest = np.full_like(ending, -np.inf)
    for row, loss in zip(rows, own, strict=True):
        np.maximum(ending, 0.0, out=ending)
        ending += (loss - tolls)[:, np.newaxis] - row
        np.maximum(largest, ending, out=largest)
    return max(0.0, float((largest.max(axis=1) - 0.5 * extra * roots).max()))


def _admitted_table(losses: ArrayLike, loss_range: tuple[float, float]) -> FloatArray:
    """Return losses of experts, shape (T, N), as read by learners: clipped and without gaps."""
    low, high = checked_range(loss_range)
    rows = float_array("losses", losses, (None, None))
    if rows.size == 0:
        raise ValueError(f"losses must have rounds and experts; got shape {rows.shape}")
    return admitted_losses(rows, low, high)


# ---- accelerated projected gradient --------------------------------------------------------------

# The certificate costs one more pass over the data, so it is only computed this often.
_CHECK_EVERY = 10
# The estimate of the smoothness shrinks in every iteration, so that one steep place does not
# shorten all later steps.
_GROWTH, _SHRINK = 2.0, 0.9


class _Average(NamedTuple):
    """``F(theta) = (1/T) sum_t f_t(theta)`` of records scaled or clipped as by a learner.

    Value and gradient are functions of the margins: for generalised linear losses ``<theta, x_t>``
    of the kept records, shape (T',), and for other losses the point itself. The curvature is a
    first estimate of the smoothness constant.
    """

    margins: Callable[[FloatArray], FloatArray]
    value: Callable[[FloatArray], FloatArray | float]
    gradient: Callable[[FloatArray], FloatArray]
    curvature: float


def _average(domain: Domain, loss: Loss, rows: FloatArray, targets: Any) -> _Average:
    """Return the average loss of records, with the loss's own clipping."""
    if isinstance(loss, QuadraticLoss):
        return _average_quadratic(loss.scales(domain, rows, targets), rows, targets)
    if isinstance(loss, CustomLoss):
        return _Average(
            lambda theta: theta,
            lambda theta: np.mean(loss.value(theta, rows)),
            lambda theta: np.asarray(loss.gradient(theta, rows).mean(axis=0)),
            loss.smoothness_bound,
        )
    assert not isinstance(loss, LinearLoss)
    return _average_glm(domain, loss, rows, targets)


def _average_quadratic(factors: FloatArray, matrices: FloatArray, vectors: FloatArray) -> _Average:
    """Return the average of quadratic losses as one matrix and one vector: O(d^2) a step."""
    kept = factors > 0.0
    weights = factors[kept] / matrices.shape[0]
    total = np.einsum("t,tij->ij", weights, matrices[kept])
    # Only the symmetric part affects a quadratic form; the gradient below requires it.
    matrix, vector = 0.5 * (total + total.T), weights @ vectors[kept]
    return _Average(
        lambda theta: theta,
        lambda theta: 0.5 * theta @ matrix @ theta - vector @ theta,
        lambda theta: matrix @ theta - vector,
        # The mean eigenvalue. The largest one takes longer to compute, and backtracking corrects
        # the estimate.
        float(np.trace(matrix)) / len(vector),
    )


def _average_glm(
    domain: Domain, loss: MarginLoss, features: FloatArray, labels: FloatArray
) -> _Average:
    """Return the average of generalised linear losses; O(T d) a step, for one pass over rows."""
    factors = record_multipliers(domain, features, loss.feature_bound, loss.feature_bound_l2)
    # Empty records have no loss but count as rounds, so sums are divided by the number of all
    # rounds.
    kept, rounds = (factors > 0.0) & np.isfinite(labels), len(features)
    rows = np.ascontiguousarray(features[kept] * factors[kept, None])
    # If a learner clips slopes (`slope_bound`), this affects its gradients but not the reported
    # loss.
    engine = loss.reported._glm_engine
    own = engine.clip_labels(np.ascontiguousarray(labels[kept]))
    return _Average(
        lambda theta: np.ascontiguousarray(rows @ theta),
        lambda margins: float(engine.values(margins, own).sum()) / rounds,
        lambda margins: engine.derivatives(margins, own) @ rows / rounds,
        # The trace of the mean of x x', which is the Hessian of squared losses and bounds that of
        # others.
        float(np.einsum("ij,ij->", rows, rows)) / rounds,
    )


def _minimize(
    objective: _Average, domain: Domain, goal: float, limit: int
) -> tuple[FloatArray, float, int]:
    """Return a point of the domain, its Frank-Wolfe gap and the number of iterations.

    The gap is at most `goal` unless `limit` iterations were spent.
    """
    point = np.array(domain.center)
    margins = objective.margins(point)
    ahead, margins_ahead = point, margins  # the extrapolated point
    # Without a record that counts the curvature is 0, and a step would divide by it.
    momentum, smoothness = 1.0, objective.curvature or 1.0
    # Gaps of accelerated methods are not monotone, so we keep the smallest with its point.
    best, best_gap = point, math.inf
    for iteration in itertools.count():
        # Also at the limit, because its point may be the first that is good enough.
        if iteration % _CHECK_EVERY == 0 or iteration == limit:
            gradient = objective.gradient(margins)
            gap = max(float(gradient @ (point - domain.minimize_linear(gradient))), 0.0)
            if gap < best_gap:
                best, best_gap = point, gap
            if gap <= goal or iteration == limit:
                return np.array(best), best_gap, iteration
        slope = objective.gradient(margins_ahead)
        height = float(objective.value(margins_ahead))
        # Near the optimum, the two sides only differ by rounding errors, and the loop would not
        # end.
        rounding = 1e-14 * max(1.0, abs(height))
        smoothness *= _SHRINK
        while True:
            candidate = domain.project(ahead - slope / smoothness)
            step = candidate - ahead
            new_margins = objective.margins(candidate)
            model = height + float(slope @ step) + 0.5 * smoothness * float(step @ step)
            if objective.value(new_margins) <= model + rounding:
                break
            smoothness *= _GROWTH
        moved = candidate - point
        # If the momentum points uphill, it is restarted, which does not need a known strong
        # convexity.
        if float(slope @ moved) > 0.0:
            momentum = 1.0
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        pull = (momentum - 1.0) / following
        ahead = candidate + pull * moved
        # Margins are linear in the point, so extrapolating them saves a pass over the data.
        margins_ahead = new_margins + pull * (new_margins - margins)
        point, margins, momentum = candidate, new_margins, following
    raise AssertionError("the limit ends the loop")
