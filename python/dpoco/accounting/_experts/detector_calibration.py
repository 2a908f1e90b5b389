"""Noises and thresholds of the shift detector for a budget.

The noises follow from the budget alone; thresholds and allowances from the tails of the noises and
of sums of losses (Hoeffding's inequality for windows that start anywhere), so that an instance
raises a false alarm with probability at most `false_alarm`.

Proof: ``docs/privacy/shift_detector.md``.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from dpoco._validation import choice, positive_int
from dpoco.accounting._experts.detector_parameters import (
    CALIBRATIONS,
    LARGEST_EXPERTS,
    NAIVE_LIMIT,
    SHORTEST_HORIZON,
    WINDOWS,
    ShiftDetectorParameters,
    check_count,
    check_first,
    tangents,
)
from dpoco.accounting._experts.detector_regret import regret_of
from dpoco.accounting._experts.parameters import in_unit_interval
from dpoco.accounting._experts.selection_scales import raised_until, scale_for
from dpoco.accounting.above_threshold import (
    above_threshold_epsilon,
    probability,
    split_scales,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.epoch_selector import LOSS_RANGE
from dpoco.accounting.noisy_max import selection_epsilon

__all__ = [
    "NOMINAL_HORIZON",
    "QUERY_SENSITIVITY",
    "QUERY_SPREAD",
    "bounded_rounds",
    "calibrate",
    "planned_shifts",
]

# Largest change of a test statistic, and its largest rise plus largest fall.
QUERY_SENSITIVITY = QUERY_SPREAD = 2.0
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
        None adds no noise and promises nothing. Its delta is not needed.
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
    n = positive_int("experts", experts, maximum=LARGEST_EXPERTS)
    rounds = None if horizon is None else positive_int("horizon", horizon)
    nominal = rounds or NOMINAL_HORIZON
    if nominal_horizon is not None:
        nominal = positive_int("nominal_horizon", nominal_horizon)
    choice("calibration", calibration, CALIBRATIONS)
    choice("windows", windows, WINDOWS)
    probability("false_alarm", false_alarm)
    share = in_unit_interval("select_share", select_share)
    if share == 0.0:
        raise ValueError("select_share must be positive")
    check_count("expected_shifts", expected_shifts)
    check_first(first, n)
    if windows == "naive" and (rounds is None or rounds > NAIVE_LIMIT):
        raise ValueError(f"windows 'naive' are limited to {NAIVE_LIMIT} rounds")
    shifts = planned_shifts(expected_shifts, rounds)
    detects = share < 1.0 and (rounds is None or rounds >= SHORTEST_HORIZON)
    published = calibration != "tight"
    b = 0.25 * false_alarm
    epsilon = math.inf if budget is None else budget.epsilon
    select = epsilon * share if detects else epsilon
    selection_scale = 0.0 if budget is None else scale_for(LOSS_RANGE, select)
    b1 = b2 = 0.0
    if budget is not None and detects:
        b1, b2 = _detector_scales(calibration, epsilon - select, math.log(nominal / b))
        if calibration != "paper":
            b2 = raised_until(b2, lambda b: _spent(selection_scale, b1, b) <= epsilon)
    if calibration == "paper":
        # Reg_w and alpha as printed: no allowance for the bias, and everything in the threshold.
        log_queries = math.log(n * nominal / false_alarm)
        log_windows, log_selection = 40.5 * log_queries, None
        alpha = 16.0 * (2.0 * math.log(nominal) + math.log(2.0 / false_alarm)) / epsilon
        threshold = 16.0 * log_queries / epsilon + alpha + 1.0
    else:
        per_round = 2.0 if windows == "dyadic" else float(tangents(nominal))
        log_windows = math.log(nominal * n * per_round / b)
        log_selection = math.log(n * (shifts + 1) * max(1, (nominal - 1).bit_length()) / b)
        threshold = b2 * math.log(nominal / b)
        if published:  # Laplace noise also lowers the threshold
            threshold += b1 * math.log((shifts + 1) / b)
    parameters = ShiftDetectorParameters(
        experts=n,
        horizon=rounds,
        calibration=calibration,
        selection="laplace" if published else "exponential",
        selection_scale=selection_scale,
        detects=detects,
        noise="laplace" if published else "exponential",
        threshold_noise_scale=b1,
        query_noise_scale=b2,
        threshold=threshold,
        windows=windows,
        log_windows=log_windows,
        log_selection=log_selection,
        threshold_scale=threshold_scale,
        nominal_horizon=nominal,
        select_share=share,
        false_alarm=false_alarm,
        expected_shifts=None if expected_shifts is None else int(expected_shifts),
        first=None if first is None else int(first),
        regret_bound=math.inf,
        regret_terms={},
        regret_scope="stationary" if expected_shifts is None else "shifting",
    )
    bound, terms = regret_of(parameters, bounded_rounds(parameters), shifts)
    return replace(parameters, regret_bound=bound, regret_terms=terms)


def _detector_scales(calibration: str, epsilon: float, log_queries: float) -> tuple[float, float]:
    if calibration == "paper":
        return scale_for(2.0, epsilon), scale_for(4.0, epsilon)
    if calibration == "corrected":
        return scale_for(4.0, epsilon), scale_for(4.0, epsilon)
    return split_scales(
        epsilon,
        sensitivity=QUERY_SENSITIVITY,
        spread=QUERY_SPREAD,
        alarms=1,
        log_queries=log_queries,
    )


def _spent(selection_scale: float, b1: float, b2: float) -> float:
    """Return epsilon, its parts added up in the order in which the guarantee adds them up."""
    return selection_epsilon(selection_scale, LOSS_RANGE) + above_threshold_epsilon(
        b1, b2, sensitivity=QUERY_SENSITIVITY, spread=QUERY_SPREAD
    )


def planned_shifts(expected: int | None, horizon: int | None, quiet: bool = False) -> int:
    """Return the number of shifts to plan for; there are fewer than rounds."""
    shifts = expected or 0
    if horizon is not None and shifts > horizon - 1:
        if not quiet:
            warnings.warn(
                f"expected_shifts={shifts} is taken as {horizon - 1}: a law of {horizon} rounds "
                "does not change more often",
                UserWarning,
                stacklevel=3,
            )
        return horizon - 1
    return shifts


def bounded_rounds(p: ShiftDetectorParameters) -> int:
    """Return the rounds that the regret bound is about."""
    return p.nominal_horizon if p.horizon is None else p.horizon
