"""Noises of AboveThreshold, the sparse vector technique, for a budget.

What they cost: `dpoco.privacy.mechanisms.selections`. Proof: ``docs/privacy/shift_detector.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from dpoco._validation import LARGEST_HORIZON, SMALLEST_SCALE, positive_float, real_float
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import raised_until, scale_for
from dpoco.accounting.parameters import Parameters, at_least
from dpoco.privacy.losses.loss import sum_up
from dpoco.privacy.mechanisms.selections import ThresholdTests
from dpoco.privacy.neighbours import Neighbours

__all__ = ["AboveThresholdParameters", "calibrate", "guarantee", "mechanism_of", "probability",
           "split_scales"]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AboveThresholdParameters(Parameters):
    """Parameters of AboveThreshold.

    Attributes
    ----------
    horizon : int or None
        Number of queries; None is 10^12.
    threshold_noise_scale, query_noise_scale : float
        Means of the one-sided exponential noises, in units of the queries; 0 means no noise.
    sensitivity : float
        Largest change of one query.
    spread : float
        Largest rise of one query plus largest fall of another that one record can cause.
    alarms : int
        Alarms answered.
    false_alarm : float
        Probability that any of all queries raises an alarm below its threshold.
    margin : float
        What is added to every threshold to that end. No privacy depends on it.
    epsilon : float
        Pure epsilon; infinite without noise. Derived.
    """

    kind: ClassVar[str] = "dpoco.above_threshold_parameters"

    horizon: int | None
    threshold_noise_scale: float = at_least(0.0)
    query_noise_scale: float = at_least(0.0)
    sensitivity: float
    spread: float
    alarms: int
    false_alarm: float = at_least(SMALLEST_SCALE, 1.0 - 2.0**-53)
    margin: float = at_least(-math.inf)
    epsilon: float = at_least(0.0, infinite=True)

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if not self.sensitivity <= self.spread <= 2.0 * self.sensitivity:
            raise ValueError("spread must lie between the sensitivity and twice the sensitivity")

    @property
    def private(self) -> bool:
        """Whether both noises are there."""
        return self.threshold_noise_scale > 0.0 and self.query_noise_scale > 0.0

    def detection_margin(self, beta: float) -> float:
        """Return how far above threshold and margin a query must lie to be found for sure.

        It then raises an alarm with probability at least ``1 - beta``.
        """
        return self.threshold_noise_scale * -math.log(probability("beta", beta))


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
    """Return the scales of threshold and query noise that spend `epsilon` best.

    Least ``b_1 + log_queries b_2``: the mean noise on the threshold and the largest on the queries.
    """
    ratio = math.sqrt(alarms * spread * log_queries / sensitivity)
    first = epsilon / (1.0 + ratio)
    threshold_scale = scale_for(sensitivity, first)
    query_scale = scale_for(alarms * spread, epsilon - first)
    threshold = (1, sensitivity, threshold_scale)
    query_scale = raised_until(
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
) -> AboveThresholdParameters:
    """Return the noises that spend `budget.epsilon` best; its delta is not needed.

    Parameters
    ----------
    horizon : int or None
        Number of queries; None: up to 10^12.
    budget : Budget or None
        None adds no noise.
    sensitivity : float
        Largest change of one query, in either direction.
    spread : float, optional
        Largest rise of one query plus largest fall of another that the same record can cause;
        default: twice the sensitivity. Queries that a record moves all the same way have a spread
        equal to their sensitivity.
    alarms : int
        Alarms answered.
    false_alarm : float
        Probability that one of all queries raises an alarm though below its threshold.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    plain = AboveThresholdParameters(
        horizon=horizon,
        threshold_noise_scale=0.0,
        query_noise_scale=0.0,
        sensitivity=sensitivity,
        spread=2.0 * positive_float("sensitivity", sensitivity) if spread is None else spread,
        alarms=alarms,
        false_alarm=false_alarm,
        margin=0.0,
        epsilon=math.inf,
    )
    if budget is None:
        return plain
    log_queries = math.log((plain.horizon or LARGEST_HORIZON) / plain.false_alarm)
    first, second = split_scales(
        budget.epsilon,
        sensitivity=plain.sensitivity,
        spread=plain.spread,
        alarms=plain.alarms,
        log_queries=log_queries,
    )
    return replace(
        plain,
        threshold_noise_scale=first,
        query_noise_scale=second,
        margin=second * log_queries,
        epsilon=plain.sensitivity / first + plain.alarms * plain.spread / second,
    )


def mechanism_of(parameters: AboveThresholdParameters) -> ThresholdTests:
    """Return what the parameters describe."""
    p = parameters
    return ThresholdTests(
        law="exponential",
        threshold_scale=p.threshold_noise_scale,
        query_scale=p.query_noise_scale,
        sensitivity=p.sensitivity,
        spread=p.spread,
        alarms=p.alarms,
    )


def guarantee(
    parameters: AboveThresholdParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from the scales.

    Parameters
    ----------
    parameters : AboveThresholdParameters
        Calibrated or the user's own.
    budget : Budget, float or None
        Ignored: the guarantee is pure.
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.
    """
    p = parameters
    return Guarantee.about(
        mechanism_of(p),
        Neighbours(),
        released=f"the answers of AboveThreshold up to its alarm number {p.alarms}",
        horizon=p.horizon,
        delta=0.0,
        reference="sparse vector technique, one-sided noise; docs/privacy/shift_detector.md",
        seeded=seeded,
        conditions=("Thresholds are public.",),
        details={
            "threshold noise scale": p.threshold_noise_scale,
            "query noise scale": p.query_noise_scale,
            "margin above thresholds": p.margin,
        },
    )
