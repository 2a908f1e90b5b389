"""One way to ask for regret: against a fixed decision, a sequence with switches, any interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import choice, float_array
from dpoco.domains import Domain
from dpoco.evaluation._comparators import (
    best_constant_prediction,
    best_fixed_decision,
)
from dpoco.evaluation._measures import constant_losses
from dpoco.evaluation._sequences import best_switching_sequence, interval_regret
from dpoco.experts._trace import admitted_losses, checked_range
from dpoco.trace import Trace

__all__ = ["COMPARATORS", "Regret", "regret"]

FloatArray = NDArray[np.float64]

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
    if domain is not None:
        return _convex(own, rows, labels, against, domain, loss, tolerance)
    if labels is not None:
        raise TypeError("losses of experts take no labels")
    if against == "constant":
        raise ValueError('against="constant" needs domain, loss and labels')
    if against == "interval":
        return Regret(against, interval_regret(own, rows, loss_range=loss_range), None, None)
    best = best_switching_sequence(rows, switches or 0, loss_range=loss_range)
    low, high = checked_range(loss_range)
    compared = admitted_losses(rows[np.arange(len(rows)), best.decisions], low, high)
    curve = np.cumsum(own - compared)
    return Regret(against, float(curve[-1]), curve, best)


def _convex(
    own: FloatArray,
    rows: FloatArray,
    labels: Any,
    against: str,
    domain: Domain,
    loss: Any,
    tolerance: float,
) -> Regret:
    comparator: Any
    if against == "fixed":
        targets = None if labels is None else float_array("labels", labels, (len(own),))
        comparator = best_fixed_decision(domain, loss, rows, targets, tolerance=tolerance)
        compared = loss.batch_values(domain, comparator.decision, rows, targets)
    elif against == "constant":
        targets = float_array("labels", labels, (len(own),))
        # A round with a missing record costs nobody anything.
        present = np.where(np.isfinite(rows).all(axis=1), targets, np.nan)
        comparator = best_constant_prediction(loss, present)
        compared = constant_losses(loss, comparator.prediction, present)
    else:
        raise ValueError(f"against={against!r} is for losses of experts")
    curve = np.cumsum(own - compared)
    return Regret(against, float(curve[-1]), curve, comparator)
