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

from dpoco._validation import positive_int, real_float
from dpoco.accounting import _shift_regret as shift_regret
from dpoco.accounting._shift_regret import (
    QUERY_SENSITIVITY,
    QUERY_SPREAD,
    ShiftDetectorParameters,
    spent,
)
from dpoco.accounting.above_threshold import split_scales
from dpoco.accounting.budget import Budget
from dpoco.accounting.epoch_selector import LOSS_SUMS
from dpoco.accounting.noisy_max import raised_until, scale_for
from dpoco.accounting.statement import check_experts, expert_guarantee, expert_mechanism

__all__ = ["ShiftDetectorParameters", "calibrate", "guarantee", "mechanism_of", "regret_bound",
           "spent", "with_regret", "with_thresholds"]  # fmt: skip

guarantee, mechanism_of = expert_guarantee, expert_mechanism
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
) -> ShiftDetectorParameters:
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
    real_float("select_share", select_share)
    bare = ShiftDetectorParameters(
        experts=experts,
        horizon=horizon,
        selection="exponential",
        detects=select_share < 1.0 and length >= shift_regret.SHORTEST_HORIZON,
        noise="exponential",
        windows=windows,
        threshold_scale=threshold_scale,
        nominal_horizon=length if nominal_horizon is None else nominal_horizon,
        select_share=select_share,
        false_alarm=false_alarm,
        expected_shifts=expected_shifts,
        first=first,
        regret_scope="stationary" if expected_shifts is None else "shifting",
    )
    shifts = bare.planned_shifts
    if expected_shifts is not None and shifts < expected_shifts:
        warnings.warn(
            f"expected_shifts={expected_shifts} is taken as {shifts}: a distribution over "
            f"{horizon} rounds cannot change more often",
            UserWarning,
            stacklevel=2,
        )
    if budget is None:
        return with_thresholds(bare)
    select = budget.epsilon * bare.select_share if bare.detects else budget.epsilon
    scale, b1, b2 = scale_for(LOSS_SUMS.range, select), 0.0, 0.0
    if bare.detects:
        b1, b2 = split_scales(
            budget.epsilon - select,
            sensitivity=QUERY_SENSITIVITY,
            spread=QUERY_SPREAD,
            alarms=1,
            log_queries=math.log(bare.nominal_horizon / (0.25 * bare.false_alarm)),
        )
        b2 = raised_until(b2, lambda b: spent(scale, b1, b) <= budget.epsilon)
    return with_thresholds(
        replace(bare, selection_scale=scale, threshold_noise_scale=b1, query_noise_scale=b2)
    )


def with_thresholds(parameters: ShiftDetectorParameters) -> ShiftDetectorParameters:
    """Return parameters of these noises with thresholds that keep false alarms rare."""
    p, b = parameters, 0.25 * parameters.false_alarm
    n, nominal, shifts = p.experts, p.nominal_horizon, p.planned_shifts
    per_round = 2.0 if p.windows == "dyadic" else float(shift_regret.tangents(nominal))
    threshold = p.query_noise_scale * math.log(nominal / b)
    if p.noise == "laplace":  # which also lowers the threshold
        threshold += p.threshold_noise_scale * math.log((shifts + 1) / b)
    return with_regret(
        replace(
            p,
            threshold=threshold,
            log_windows=math.log(nominal * n * per_round / b),
            log_selection=math.log(n * (shifts + 1) * max(1, (nominal - 1).bit_length()) / b),
        )
    )


def with_regret(parameters: ShiftDetectorParameters) -> ShiftDetectorParameters:
    """Return parameters with the bound on regret that follows from them."""
    p = parameters
    bound, terms = shift_regret.regret_of(p, p.bounded_rounds, p.planned_shifts)
    return replace(p, regret_bound=bound, regret_terms=terms)


def regret_bound(
    experts: int,
    parameters: ShiftDetectorParameters,
    *,
    switches: int = 0,
    rounds: int | None = None,
) -> float:
    """Return a bound on the expected dynamic regret; infinite if there is no claim.

    In expectation over the learner's noise and losses that are drawn independently, from a law on
    [0, 1]^N that changes at most `switches` times; against the sequence of experts with at most
    `switches` switches that turns out best. Where there is a claim, never above the rounds.

    Parameters
    ----------
    experts : int
        N.
    parameters : ShiftDetectorParameters
        Noises and thresholds, from which the probability of false alarms is computed, too.
    switches : int
        S.
    rounds : int, optional
        Default: the horizon, the nominal one without any.
    """
    check_experts(experts, parameters)
    if switches:
        positive_int("switches", switches)
    length = parameters.bounded_rounds if rounds is None else positive_int("rounds", rounds)
    return shift_regret.regret_of(parameters, length, switches)[0]
