"""Accounting of selection on epochs with private restarts.

Claim: let the selection noise have scale b, the threshold noise b_1 and the query noises b_2. All
decisions and all alarms together are epsilon-private with

    epsilon = 2/b + 2/b_1 + 2/b_2,

whatever reacts to what: a round belongs to one instance, feeds one selection there, and moves every
test statistic by an amount in [a - 1, a + 1] for one a in [-1, 1], so that sensitivity and spread
of the queries are both 2. Threshold, allowances and windows have no influence on privacy.

Proof: ``docs/privacy/shift_detector.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately", algorithm 2 and theorem 3.6, corrected.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

from dpoco._validation import choice, positive_float, positive_int, whole_number
from dpoco.accounting import _shift_regret as shift_regret
from dpoco.accounting._shift_regret import (
    QUERY_SENSITIVITY,
    QUERY_SPREAD,
    SHORTEST_HORIZON,
    DetectorPlan,
    DetectorTuning,
    false_alarm_probability,
    spent,
)
from dpoco.accounting._shift_regret import (
    bias as bias,  # for the selectors
)
from dpoco.accounting._shift_regret import (
    bias_noise as bias_noise,
)
from dpoco.accounting.above_threshold import probability, split_scales
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES
from dpoco.accounting.epoch_selector import (
    LARGEST_EXPERTS,
    LOSS_SUMS,
    draw_instances,
    find_noise,
)
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import raised_until, scale_for
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.regret_bounds import endless_regret
from dpoco.accounting.statement import expert_guarantee
from dpoco.privacy.mechanisms.selections import ThresholdTests

__all__ = ["DetectorPlan", "DetectorTuning", "calibrate", "guarantee", "make_plan", "regret_bound",
           "spent", "with_regret", "with_thresholds"]  # fmt: skip

# What the thresholds of an endless stream are made for.
NOMINAL_HORIZON = 10**6


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    false_alarm: float = 0.05,
    select_share: float = 0.5,
    windows: str = "tangent",
    expected_shifts: int | None = None,
    threshold_scale: float = 1.0,
    nominal_horizon: int | None = None,
    first: int | None = None,
) -> DetectorPlan:
    """Return noises that keep to `budget`, and thresholds that keep false alarms rare.

    Parameters
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds; None: any number, up to 10^12, with the same noise.
    budget : Budget or None
        None adds no noise and gives no guarantee. Its delta is not needed.
    false_alarm : float
        Probability of an alarm without a change, in (0, 1).
    select_share : float
        Part of the budget for selection, in (0, 1]; the detector has the rest. 1: no detector.
    windows : {"tangent", "dyadic", "naive"}
        Tested windows: all, by the tangents of the square root; aligned blocks; all, by brute force
        (up to 4096 rounds).
    expected_shifts : int, optional
        Shifts S to plan for: then `false_alarm` holds for the whole stream, and the regret bound is
        against sequences with S switches. Default: for each instance; the bound is for S = 0.
    threshold_scale : float
        In (0, 1]; below 1 alarms come earlier, and false ones oftener.
    nominal_horizon : int, optional
        Rounds that thresholds are made for; default: the horizon, 10^6 without one.
    first : int, optional
        Expert of the first round; None draws it uniformly.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    """
    length = NOMINAL_HORIZON if horizon is None else positive_int("horizon", horizon)
    tuning = DetectorTuning(
        experts=positive_int("experts", experts, maximum=LARGEST_EXPERTS),
        horizon=None if horizon is None else length,
        windows=choice("windows", windows, shift_regret.WINDOWS),
        nominal_horizon=length
        if nominal_horizon is None
        else positive_int("nominal_horizon", nominal_horizon),
        false_alarm=probability("false_alarm", false_alarm),
        select_share=positive_float("select_share", select_share),
        threshold_scale=positive_float("threshold_scale", threshold_scale),
        first=None if first is None else whole_number("first", first),
        expected_shifts=None
        if expected_shifts is None
        else whole_number("expected_shifts", expected_shifts),
    )
    detects = tuning.select_share < 1.0 and length >= SHORTEST_HORIZON
    shifts = tuning.planned_shifts
    if expected_shifts is not None and shifts < expected_shifts:
        warnings.warn(
            f"expected_shifts={expected_shifts} is taken as {shifts}: a distribution over "
            f"{horizon} rounds cannot change more often",
            UserWarning,
            stacklevel=2,
        )
    scale = b1 = b2 = 0.0
    if budget is not None:
        select = budget.epsilon * tuning.select_share if detects else budget.epsilon
        scale = scale_for(LOSS_SUMS.range, select)
        if detects:
            b1, b2 = split_scales(
                budget.epsilon - select,
                sensitivity=QUERY_SENSITIVITY,
                spread=QUERY_SPREAD,
                alarms=1,
                log_queries=math.log(tuning.nominal_horizon / (0.25 * tuning.false_alarm)),
            )
            b2 = raised_until(b2, lambda b: spent(scale, b1, b) <= budget.epsilon)
    return with_thresholds(make_plan(tuning, "exponential", scale, (b1, b2) if detects else None))


def make_plan(
    tuning: DetectorTuning, law: str, scale: float, tests: tuple[float, float] | None
) -> DetectorPlan:
    """Return a plan with noise of one law: of selections, and of thresholds and queries."""
    drawn = None
    if tests is not None:
        drawn = ThresholdTests(law, *tests, QUERY_SENSITIVITY, QUERY_SPREAD, alarms=1)
    mechanism = draw_instances(tuning, law, scale, drawn, "shift_detector")
    scope = "stationary" if tuning.expected_shifts is None else "shifting"
    return Plan(mechanism, tuning, Forecast(None, scope))


def with_thresholds(plan: DetectorPlan) -> DetectorPlan:
    """Return a plan of these noises with thresholds that keep false alarms rare."""
    p, tests = plan.tuning, shift_regret.find_tests(plan)
    b, n, nominal, shifts = 0.25 * p.false_alarm, p.experts, p.nominal_horizon, p.planned_shifts
    per_round = 2.0 if p.windows == "dyadic" else float(shift_regret.tangents(nominal))
    threshold = 0.0
    if tests is not None:
        threshold = tests.query_scale * math.log(nominal / b)
        if tests.law == "laplace":  # which also lowers the threshold
            threshold += tests.threshold_scale * math.log((shifts + 1) / b)
    tuning = replace(
        p,
        threshold=threshold,
        log_windows=math.log(nominal * n * per_round / b),
        log_selection=math.log(n * (shifts + 1) * max(1, (nominal - 1).bit_length()) / b),
    )
    return with_regret(replace(plan, tuning=tuning))


def with_regret(plan: DetectorPlan) -> DetectorPlan:
    """Return a plan with the bound on regret that follows from it."""
    own = plan.tuning
    bound, _ = shift_regret.regret_of(plan, own.bounded_rounds, own.planned_shifts)
    return replace(plan, forecast=replace(plan.forecast, regret_bound=bound))


def guarantee(
    plan: DetectorPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return what any plan guarantees, computed from its mechanism; see `expert_guarantee`.

    It is pure: `budget` is ignored.
    """
    own, (law, scale) = plan.tuning, find_noise(plan.mechanism)
    tests = shift_regret.find_tests(plan)
    rounds, shifts = own.bounded_rounds, own.planned_shifts
    bound, terms = shift_regret.regret_of(plan, rounds, shifts)
    scope = "stationary" if own.expected_shifts is None else "shifting"
    proved = math.isfinite(bound)
    endless = proved and own.horizon is None
    scales = (0.0, 0.0) if tests is None else (tests.threshold_scale, tests.query_scale)
    said: dict[str, Any] = {"calibration": "tight"}
    if law == "laplace":
        said["calibration"] = "paper" if own.log_selection is None else "corrected"
    if said["calibration"] == "paper" and 0.0 not in (scale, *scales):
        # As if one round moved a statistic by at most 1.
        printed = spent(scale, *scales, sensitivity=1.0)
        said["claimed"] = (printed, 0.0)
        said["conditions"] = (
            CLIPPED_LOSSES,
            "The claim in print is false, since a round moves the test statistics by up to 2, "
            f"not 1: as printed the budget is spent {spent(scale, *scales) / printed:.4g} times.",
        )
    return expert_guarantee(
        plan.mechanism,
        own.experts,
        own.horizon,
        bound if proved and own.horizon is not None else None,
        scope if proved else None,
        budget=budget,
        seeded=seeded,
        details={
            "threshold noise scale": scales[0],
            "query noise scale": scales[1],
            "threshold": own.threshold * own.threshold_scale,
            "false alarms of an instance, at most": false_alarm_probability(plan, rounds),
            "regret bound, rounds": float(rounds),
            "regret bound, shifts": float(shifts),
            **{f"regret: {name}": value for name, value in terms.items()},
            **(endless_regret(lambda _: bound, (rounds,)) if endless else {}),
        },
        released=f"the decisions and alarms of the shift detector among {own.experts} experts",
        reference="sparse vector technique and noisy argmin; docs/privacy/shift_detector.md",
        delta=0.0,
        **said,
    )


def regret_bound(plan: DetectorPlan, *, switches: int = 0, rounds: int | None = None) -> float:
    """Return a bound on the expected dynamic regret; infinite if there is no claim.

    In expectation over the learner's noise and losses that are drawn independently, from a law on
    [0, 1]^N that changes at most `switches` times; against the sequence of experts with at most
    `switches` switches that turns out best. Where there is a claim, never above the rounds.

    Parameters
    ----------
    plan : Plan
        Noises and thresholds, from which the probability of false alarms is also computed.
    switches : int
        S.
    rounds : int, optional
        Default: the horizon, the nominal one without any.
    """
    if switches:
        positive_int("switches", switches)
    length = plan.tuning.bounded_rounds if rounds is None else positive_int("rounds", rounds)
    return shift_regret.regret_of(plan, length, switches)[0]
