"""Calibration of the noise of AboveThreshold, the sparse vector technique.

Claim: one noise of scale b_1 is added to the threshold, and one of scale b_2 to every query. Then
the answers up to alarm number k are (D/b_1 + k s/b_2)-private, if one record raises queries by at
most D and moves two of them apart by at most s. Noise with one sign suffices, because the proof
only moves the threshold upwards.

Costs: `dpoco.privacy.mechanisms.selections`. Proof: ``docs/privacy/shift_detector.md``, Theorem 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpoco._validation import (
    LARGEST_HORIZON,
    SMALLEST_SCALE,
    positive_float,
    positive_int,
    real_float,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import raise_scale, scale_for
from dpoco.accounting.plan import Plan
from dpoco.privacy.losses.loss import sum_up
from dpoco.privacy.mechanisms.selections import ThresholdTests
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["ThresholdPlan", "ThresholdTuning", "calibrate", "detection_margin", "guarantee",
           "probability", "split_scales"]  # fmt: skip


@dataclass(frozen=True)
class ThresholdTuning(Description):
    """Public numbers of AboveThreshold, on which no privacy depends.

    Attributes
    ----------
    horizon : int or None
        Number of queries; None is 10^12.
    false_alarm : float
        Probability that any query below its threshold raises an alarm.
    margin : float
        Amount added to every threshold to keep `false_alarm`, in units of the queries.
    """

    kind = "threshold_tuning"
    horizon: int | None
    false_alarm: float
    margin: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Raise for a `false_alarm` that is not a probability."""
        super().__post_init__()
        probability("false_alarm", self.false_alarm)


ThresholdPlan = Plan[ThresholdTests, ThresholdTuning, None]


def detection_margin(plan: ThresholdPlan, beta: float) -> float:
    """Return how far above threshold plus margin a query must lie to be detected.

    A query this far above raises an alarm with probability at least ``1 - beta``.

    Parameters
    ----------
    plan : Plan
        Calibrated or the user's own.
    beta : float
        In [1e-100, 1).

    Raises
    ------
    ValueError, TypeError
        If `beta` is not such a probability.
    """
    # Noise on the query only helps. Noise on the threshold exceeds b x with probability e^-x.
    return plan.mechanism.threshold_scale * -math.log(probability("beta", beta))


def probability(name: str, value: float) -> float:
    """Return `value` as a float in [1e-100, 1), or raise naming the argument."""
    number = real_float(name, value)
    if not SMALLEST_SCALE <= number < 1.0:
        raise ValueError(
            f"{name} must be strictly between 0 and 1, at least 1e-100; got {number!r}"
        )
    return number


def split_scales(
    epsilon: float, *, sensitivity: float, spread: float, alarms: int, log_queries: float
) -> tuple[float, float]:
    """Return the best scales of threshold and query noise for `epsilon`.

    They minimise ``b_1 + log_queries b_2``: mean threshold noise plus largest query noise.

    Parameters
    ----------
    epsilon : float
        Cost of both noises together, positive.
    sensitivity, spread : float
        D and s, positive.
    alarms : int
        k.
    log_queries : float
        L = log(queries / false_alarm), positive.

    Returns
    -------
    threshold_scale, query_scale : float
        b_1 and b_2 with ``D/b_1 + k s/b_2 <= epsilon``, compared exactly.

    Raises
    ------
    CalibrationError
        If a scale exceeds 1e200.
    """
    # The minimum of b_1 + L b_2 at a given D / b_1 + k s / b_2, by Lagrange.
    # The threshold's noise is drawn once, but every alarm pays for the noise of its queries.
    ratio = math.sqrt(alarms * spread * log_queries / sensitivity)
    first = epsilon / (1.0 + ratio)
    threshold_scale = scale_for(sensitivity, first)
    query_scale = scale_for(alarms * spread, epsilon - first)
    threshold = (1, sensitivity, threshold_scale)
    # Both quotients are rounded. The query scale is raised until their sum is at most epsilon.
    query_scale = raise_scale(
        query_scale, lambda b: sum_up(threshold, (alarms, spread, b)) <= epsilon
    )
    return threshold_scale, query_scale


def calibrate(
    *,
    horizon: int | None,
    budget: Budget | None,
    sensitivity: float = 1.0,
    spread: float | None = None,
    alarms: int = 1,
    false_alarm: float = 0.05,
) -> ThresholdPlan:
    """Return the best noise scales for `budget.epsilon`; the budget's delta is not needed.

    Parameters
    ----------
    horizon : int or None
        Number of queries; None: up to 10^12.
    budget : Budget or None
        None adds no noise.
    sensitivity : float
        Largest change of one query, in either direction.
    spread : float, optional
        Largest sum of the rise of one query and the fall of another that the same record can cause.
        The default is twice the sensitivity. If a record moves all queries in the same direction,
        the spread equals their sensitivity.
    alarms : int
        Number of alarms answered.
    false_alarm : float
        Probability that any query below its threshold raises an alarm.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If the budget needs a noise scale above 1e200.
    """
    moved = positive_float("sensitivity", sensitivity)
    # One query may rise by D while another falls by D.
    apart = 2.0 * moved if spread is None else positive_float("spread", spread)
    count, rare = positive_int("alarms", alarms), probability("false_alarm", false_alarm)
    n = None if horizon is None else positive_int("horizon", horizon)
    first = second = 0.0
    # Union bound: the largest of n exponential noises exceeds b log(n / p) with probability p.
    log_queries = math.log((n or LARGEST_HORIZON) / rare)
    quiet = ThresholdTests(
        law="exponential",
        threshold_scale=first,
        query_scale=second,
        sensitivity=moved,
        spread=apart,
        alarms=count,
    )
    if budget is not None:
        first, second = split_scales(
            budget.epsilon, sensitivity=moved, spread=apart, alarms=count, log_queries=log_queries
        )
    drawn = replace(quiet, threshold_scale=first, query_scale=second)
    # Noise only raises queries, so thresholds are raised by an amount that it almost never exceeds.
    return Plan(drawn, ThresholdTuning(n, rare, second * log_queries), None)


def guarantee(
    plan: ThresholdPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return what any plan guarantees, computed from its mechanism.

    Parameters
    ----------
    plan : Plan
        Calibrated or the user's own.
    budget : Budget, float or None
        Ignored: the guarantee is pure, so a delta does not help.
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.
    """
    drawn = plan.mechanism
    return Guarantee.about(
        drawn,
        Neighbours(),
        released=f"the answers of AboveThreshold up to its alarm number {drawn.alarms}",
        horizon=plan.tuning.horizon,
        delta=0.0,  # the proof shifts the threshold's noise and excludes no event
        reference="sparse vector technique, one-sided noise; docs/privacy/shift_detector.md",
        seeded=seeded,
        conditions=("Thresholds are public.",),
        details={
            "threshold noise scale": drawn.threshold_scale,
            "query noise scale": drawn.query_scale,
            "margin above thresholds": plan.tuning.margin,
        },
    )
