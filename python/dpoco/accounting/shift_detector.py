"""Accounting of selection on epochs with private restarts.

Claim: let the selection noise have scale b, the threshold noise b_1 and the query noises b_2. All
decisions and all alarms together are epsilon-private with

    epsilon = 2/b + 2/b_1 + 2/b_2,

whatever reacts to what: a round belongs to one instance, feeds one selection there, and moves every
test statistic by an amount in [a - 1, a + 1] for one a in [-1, 1], so that sensitivity and spread
of the queries are both 2. The published scales, made for a sensitivity of 1, spend 1.25 times the
budget; threshold, allowances and windows have no influence on privacy.

Proof: ``docs/privacy/shift_detector.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately", algorithm 2 and theorem 3.6, corrected.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from dpoco._validation import choice, positive_int, real_float
from dpoco.accounting import _shift_regret as shift_regret
from dpoco.accounting._shift_regret import QUERY_SENSITIVITY, QUERY_SPREAD, ShiftDetectorParameters
from dpoco.accounting.above_threshold import split_scales
from dpoco.accounting.budget import Budget
from dpoco.accounting.epoch_selector import LOSS_SUMS
from dpoco.accounting.noisy_max import raised_until, scale_for
from dpoco.accounting.statement import check_experts, expert_guarantee, expert_mechanism

__all__ = ["ShiftDetectorParameters", "calibrate", "guarantee", "mechanism_of", "regret_bound"]

guarantee, mechanism_of = expert_guarantee, expert_mechanism
# What the thresholds of an endless stream are made for.
NOMINAL_HORIZON = 10**6


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    calibration: str = "tight",
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
    calibration : {"tight", "corrected", "paper"}
        "tight": one-sided exponential noises. "corrected": the published Laplace noises with the
        scales that keep to the budget. "paper": as printed, which spends 1.25 times the budget
        (for equal shares); the guarantee says so.
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
    published = choice("calibration", calibration, shift_regret.CALIBRATIONS) != "tight"
    law = "laplace" if published else "exponential"
    length = NOMINAL_HORIZON if horizon is None else positive_int("horizon", horizon)
    real_float("select_share", select_share)
    bare = ShiftDetectorParameters(
        experts=experts,
        horizon=horizon,
        calibration=calibration,
        selection=law,
        detects=select_share < 1.0 and length >= shift_regret.SHORTEST_HORIZON,
        noise=law,
        windows=windows,
        threshold_scale=threshold_scale,
        nominal_horizon=length if nominal_horizon is None else nominal_horizon,
        select_share=select_share,
        false_alarm=false_alarm,
        expected_shifts=expected_shifts,
        first=first,
        regret_scope="stationary" if expected_shifts is None else "shifting",
    )
    n, nominal, detects = bare.experts, bare.nominal_horizon, bare.detects
    b = 0.25 * bare.false_alarm
    shifts = bare.planned_shifts
    if expected_shifts is not None and shifts < expected_shifts:
        warnings.warn(
            f"expected_shifts={expected_shifts} is taken as {shifts}: a distribution over "
            f"{horizon} rounds cannot change more often",
            UserWarning,
            stacklevel=2,
        )
    scale = b1 = b2 = 0.0
    epsilon = math.inf if budget is None else budget.epsilon
    if budget is not None:
        select = epsilon * bare.select_share if detects else epsilon
        scale = scale_for(LOSS_SUMS.range, select)
        if detects:
            b1, b2 = _detector_scales(calibration, epsilon - select, math.log(nominal / b))
        if detects and calibration != "paper":
            b2 = raised_until(b2, lambda b: shift_regret.spent(scale, b1, b) <= epsilon)
    if calibration == "paper":
        # Reg_w and alpha as printed: no allowance for the bias, and everything in the threshold.
        log_queries = math.log(n * nominal / false_alarm)
        log_windows, log_selection = 40.5 * log_queries, None
        alpha = 16.0 * (2.0 * math.log(nominal) + math.log(2.0 / false_alarm)) / epsilon
        threshold = 16.0 * log_queries / epsilon + alpha + 1.0
    else:
        per_round = 2.0 if windows == "dyadic" else float(shift_regret.tangents(nominal))
        log_windows = math.log(nominal * n * per_round / b)
        log_selection = math.log(n * (shifts + 1) * max(1, (nominal - 1).bit_length()) / b)
        threshold = b2 * math.log(nominal / b)
        if published:  # Laplace noise also lowers the threshold
            threshold += b1 * math.log((shifts + 1) / b)
    parameters = replace(
        bare,
        selection_scale=scale,
        threshold_noise_scale=b1,
        query_noise_scale=b2,
        threshold=threshold,
        log_windows=log_windows,
        log_selection=log_selection,
    )
    bound, terms = shift_regret.regret_of(parameters, parameters.bounded_rounds, shifts)
    return replace(parameters, regret_bound=bound, regret_terms=terms)


def _detector_scales(calibration: str, epsilon: float, log_queries: float) -> tuple[float, float]:
    if calibration != "tight":
        return scale_for(2.0 if calibration == "paper" else 4.0, epsilon), scale_for(4.0, epsilon)
    return split_scales(
        epsilon,
        sensitivity=QUERY_SENSITIVITY,
        spread=QUERY_SPREAD,
        alarms=1,
        log_queries=log_queries,
    )


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
