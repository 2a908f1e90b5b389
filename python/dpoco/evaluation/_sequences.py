"""Regret against one expert, a sequence that switches, any interval, or a fixed decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco import _core
from dpoco._clipping import admitted_losses, checked_range
from dpoco._validation import (
    LARGEST_HORIZON,
    FloatArray,
    IntArray,
    choice,
    float_array,
    real_float,
    whole_number,
)
from dpoco.domains import Domain
from dpoco.evaluation._comparators import (
    best_constant_prediction,
    best_fixed_decision,
    constant_losses,
)
from dpoco.trace import Trace


@dataclass(frozen=True)
class FixedExpert:
    """The best single expert in hindsight. Not private.

    Attributes
    ----------
    decision : int
        Its index; the lowest one of several.
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


def best_expert(losses: Any, *, loss_range: tuple[float, float] = (0.0, 1.0)) -> FixedExpert:
    """Return the expert with the least total loss.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        Losses of all experts, one row a round, T and N at least 1.
    loss_range : (low, high), default (0, 1)
        As the learner's: values outside are clipped, and entries that are not finite count as
        `low`.

    Returns
    -------
    FixedExpert

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes.
    """
    best = best_switching_sequence(losses, 0, loss_range=loss_range)
    return FixedExpert(
        int(best.decisions[0]), best.total_loss, best.total_loss / len(best.decisions)
    )


def best_switching_sequence(
    losses: Any, switches: int, *, loss_range: tuple[float, float] = (0.0, 1.0)
) -> BestSequence:
    """Return the sequence of experts with the least total loss among those with few switches.

    What dynamic regret is measured against: ``trace.regret(best_switching_sequence(losses, S))``.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        Losses of all experts, one row a round, T and N at least 1.
    switches : int
        Largest number S >= 0 of rounds after which the sequence may change expert.
    loss_range : (low, high), default (0, 1)
        As the learner's: values outside are clipped, and entries that are not finite count as
        `low`.

    Returns
    -------
    BestSequence
        Exact up to the rounding of sums. Of several best sequences it is one with the fewest
        switches; the choice among those is deterministic.

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes, or negative `switches`.

    Notes
    -----
    Dynamic programming over (switches so far, expert): O(N S T) time and O(S (N + T)) memory at
    the worst. The costs of all limits come together, since they are not convex in the limit and no
    penalty per switch finds them all.
    """
    most = whole_number("switches", switches, 0, LARGEST_HORIZON)
    rows = _admitted_table(losses, loss_range)
    useful = min(most, len(rows) - 1)
    costs, decisions = _core.best_switching_sequence(rows, useful)
    for array in (costs, decisions):
        array.flags.writeable = False
    return BestSequence(decisions, float(costs[-1]), costs)


def interval_regret(
    own_losses: Any,
    losses: Any,
    *,
    allowance: float = 0.0,
    loss_range: tuple[float, float] = (0.0, 1.0),
) -> float:
    """Return the largest regret over all intervals of rounds, against any one expert.

    Parameters
    ----------
    own_losses : array_like of shape (T,)
        What the learner lost in each round; for example the ``losses`` of its trace.
    losses : array_like of shape (T, N)
        Losses of all experts, one row a round, T and N at least 1.
    allowance : float, default 0
        Non-negative c: only the part of an interval's regret above an allowance counts, which for
        w rounds is between ``c sqrt(w)`` and ``1.061 c sqrt(w)`` (the lowest of the tangents at
        1, 4, 16, ... rounds). An i.i.d. gambler's largest interval regret grows with the length
        of the game; what exceeds an allowance does not.
    loss_range : (low, high), default (0, 1)
        As the learner's, for both arrays: values outside are clipped, and entries that are not
        finite count as `low`.

    Returns
    -------
    float
        In the units of the losses, at least 0: the empty interval counts, too.

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes, or a negative allowance.

    Notes
    -----
    One running sum per expert and tangent: O(N T) time without allowance, O(N T log T) with one.
    """
    extra = real_float("allowance", allowance)
    if not 0.0 <= extra <= 1e100:
        raise ValueError(f"allowance must be in [0, 1e100]; got {extra!r}")
    rows = _admitted_table(losses, loss_range)
    low, high = checked_range(loss_range)
    own = admitted_losses(float_array("own_losses", own_losses, (len(rows),)), low, high)
    return _core.interval_regret(own, rows, extra)


def _admitted_table(losses: Any, loss_range: tuple[float, float]) -> FloatArray:
    low, high = checked_range(loss_range)
    rows = float_array("losses", losses, (None, None))
    if rows.size == 0:
        raise ValueError(f"losses must have rounds and experts; got shape {rows.shape}")
    return admitted_losses(rows, low, high)


COMPARATORS = ("fixed", "constant", "switching", "interval")


@dataclass(frozen=True, eq=False)
class Regret:
    """Regret of a run against a comparator in hindsight. **Not private**.

    Attributes
    ----------
    against : {"fixed", "constant", "switching", "interval"}
        The comparator.
    total : float
        Regret over the run; for intervals, the largest over all of them.
    curve : ndarray of float64, shape (T,), or None
        Regret so far, round by round; None for intervals.
    comparator : object
        What it was compared with: `FixedDecision`, `ConstantPrediction`, `FixedExpert` or
        `BestSequence`; None for intervals.
    """

    against: str
    total: float
    curve: FloatArray | None
    comparator: Any

    def __repr__(self) -> str:
        return (
            f"<dpoco.evaluation.Regret against {self.against!r}: not private, for evaluation only>"
        )


def regret(
    trace: Trace,
    data: Any,
    labels: Any = None,
    *,
    against: str = "fixed",
    domain: Domain | None = None,
    loss: Any = None,
    switches: int | None = None,
    loss_range: tuple[float, float] = (0.0, 1.0),
    tolerance: float = 1e-7,
) -> Regret:
    """Return the regret of a run, against any comparator of this package.

    Parameters
    ----------
    trace : Trace
        What a learner's ``run`` returned, or a loaded one; its losses, shape (T,), do, too.
    data : array_like
        The stream of the run. Experts: losses of all of them, shape (T, N). Convex learners:
        features, shape (T, d) (gradients for a `LinearLoss`), with `domain` and `loss`.
    labels : array_like of shape (T,), optional
        For losses that take labels.
    against : {"fixed", "constant", "switching", "interval"}
        ``"fixed"``: the best decision (or expert) for the whole stream; ``"constant"``: the best
        prediction that ignores the features; ``"switching"``: the best sequence of experts with
        `switches` switches; ``"interval"``: the largest regret against one expert over any
        interval of rounds.
    domain, loss : optional
        The convex learner's problem; without them `data` are losses of experts.
    switches : int, optional
        For ``"switching"``.
    loss_range : (low, high), default (0, 1)
        For experts, as the learner's.
    tolerance : float, default 1e-7
        Certified gap of the best fixed decision, relative.

    Returns
    -------
    Regret

    Raises
    ------
    ValueError, TypeError
        If arguments do not fit the comparator, or trace and stream differ in length.

    Notes
    -----
    Costs: `best_fixed_decision`, `best_switching_sequence`, `interval_regret`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpoco import evaluation
    >>> losses = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> own = np.array([1.0, 1.0])
    >>> evaluation.regret(own, losses, against="fixed").total
    1.0
    >>> evaluation.regret(own, losses, against="switching", switches=1).total
    2.0
    """
    choice("against", against, COMPARATORS)
    own = float_array("losses of the run", getattr(trace, "losses", trace), (None,))
    rows = float_array("data", data, (len(own), None))
    if (domain is None) != (loss is None):
        raise TypeError("domain and loss come together")
    if (switches is not None) != (against == "switching"):
        raise TypeError('switches belongs to against="switching"')
    if domain is None and labels is not None:
        raise TypeError("losses of experts take no labels")
    if domain is None and against == "constant":
        raise ValueError('against="constant" needs domain, loss and labels')
    if domain is not None and against in ("switching", "interval"):
        raise ValueError(f"against={against!r} is for losses of experts")
    targets: Any = None
    if labels is not None or against == "constant":
        targets = float_array("labels", labels, (len(own),))
    best: Any
    if domain is None and against == "interval":
        return Regret(against, interval_regret(own, rows, loss_range=loss_range), None, None)
    if domain is None:
        best = best_switching_sequence(rows, switches or 0, loss_range=loss_range)
        met = rows[np.arange(len(rows)), best.decisions]
        compared = admitted_losses(met, *checked_range(loss_range))
    elif against == "fixed":
        best = best_fixed_decision(domain, loss, rows, targets, tolerance=tolerance)
        compared = loss.batch_values(domain, best.decision, rows, targets)
    else:
        # A round with a missing record costs nobody anything.
        present = np.where(np.isfinite(rows).all(axis=1), targets, np.nan)
        best = best_constant_prediction(loss, present)
        compared = constant_losses(loss, best.prediction, present)
    curve = np.cumsum(own - compared)
    return Regret(against, float(curve[-1]), curve, best)
