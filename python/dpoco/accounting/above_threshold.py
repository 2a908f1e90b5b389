"""Noises of AboveThreshold, the sparse vector technique, for a budget.

What they cost: `dpoco.privacy.mechanisms.thresholds`. Proof: ``docs/privacy/shift_detector.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from dpoco._validation import (
    LARGEST_HORIZON,
    SMALLEST_SCALE,
    positive_float,
    positive_int,
    real_float,
)
from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero
from dpoco.accounting._experts.selection_scales import store, zero_or_more
from dpoco.accounting._search import raised_until, scale_for
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.statement import state
from dpoco.privacy.mechanisms.base import Mechanism, Open
from dpoco.privacy.mechanisms.thresholds import ThresholdTests
from dpoco.privacy.neighbours import Neighbours

__all__ = [
    "AboveThresholdParameters",
    "calibrate",
    "guarantee",
    "mechanism_of",
    "probability",
    "split_scales",
]


@dataclass(frozen=True)
class AboveThresholdParameters(StoredParameters):
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

    _kind: ClassVar[str] = "dpoco.above_threshold_parameters"

    horizon: int | None
    threshold_noise_scale: float
    query_noise_scale: float
    sensitivity: float
    spread: float
    alarms: int
    false_alarm: float
    margin: float
    epsilon: float

    def __post_init__(self) -> None:
        """Validate the ranges and convert; `epsilon` is not trusted."""
        store(
            self,
            horizon=None if self.horizon is None else positive_int("horizon", self.horizon),
            sensitivity=positive_float("sensitivity", self.sensitivity),
            spread=positive_float("spread", self.spread),
            alarms=positive_int("alarms", self.alarms),
            false_alarm=probability("false_alarm", self.false_alarm),
            margin=real_float("margin", self.margin),
            epsilon=zero_or_more("epsilon", self.epsilon),
        )
        for name in ("threshold_noise_scale", "query_noise_scale"):
            store(self, **{name: at_least_zero(name, getattr(self, name))})
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
    query_scale = raised_until(
        query_scale, lambda b: sensitivity / threshold_scale + alarms * spread / b <= epsilon
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
    queries = LARGEST_HORIZON if horizon is None else positive_int("horizon", horizon)
    sensitivity = positive_float("sensitivity", sensitivity)
    reach = 2.0 * sensitivity if spread is None else positive_float("spread", spread)
    count = positive_int("alarms", alarms)
    log_queries = math.log(queries / probability("false_alarm", false_alarm))
    parameters = AboveThresholdParameters(
        horizon=horizon,
        threshold_noise_scale=0.0,
        query_noise_scale=0.0,
        sensitivity=sensitivity,
        spread=reach,
        alarms=count,
        false_alarm=false_alarm,
        margin=0.0,
        epsilon=math.inf,
    )
    if budget is None:
        return parameters
    first, second = split_scales(
        budget.epsilon,
        sensitivity=sensitivity,
        spread=reach,
        alarms=count,
        log_queries=log_queries,
    )
    return replace(
        parameters,
        threshold_noise_scale=first,
        query_noise_scale=second,
        margin=second * log_queries,
        epsilon=sensitivity / first + count * reach / second,
    )


def mechanism_of(parameters: AboveThresholdParameters) -> Mechanism:
    """Return what the parameters describe."""
    p = parameters
    if not p.private:
        return Open("no noise is added")
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
    return state(
        mechanism_of(p),
        Neighbours(),
        released=f"the answers of AboveThreshold up to its alarm number {p.alarms}",
        horizon=p.horizon,
        delta=0.0,
        reference="sparse vector technique, one-sided noise; docs/privacy/shift_detector.md",
        seeded=seeded,
        unit="one record",
        sensitivity=p.sensitivity,
        sensitivity_norm="linf",
        noise_scale=p.query_noise_scale,
        conditions=(
            f"one record changes each query by at most {p.sensitivity:g}, the largest rise and the "
            f"largest fall adding up to at most {p.spread:g}: promised by the caller, not enforced",
            "thresholds are public",
        ),
        details={
            "threshold noise scale": p.threshold_noise_scale,
            "query noise scale": p.query_noise_scale,
            "margin above thresholds": p.margin,
        },
    )
