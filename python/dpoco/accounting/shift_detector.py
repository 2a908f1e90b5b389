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
from dataclasses import replace

from dpoco._validation import LARGEST_HORIZON, positive_int
from dpoco.accounting._experts.detector_calibration import (
    NOMINAL_HORIZON,
    QUERY_SENSITIVITY,
    QUERY_SPREAD,
    bounded_rounds,
    calibrate,
    planned_shifts,
)
from dpoco.accounting._experts.detector_parameters import (
    CALIBRATIONS,
    WINDOWS,
    ShiftDetectorParameters,
    check_count,
)
from dpoco.accounting._experts.detector_regret import false_alarm_probability, regret_of
from dpoco.accounting._experts.statement import SCOPES_IN_WORDS, statement_of
from dpoco.accounting.above_threshold import above_threshold_epsilon
from dpoco.accounting.budget import Budget
from dpoco.accounting.epoch_selector import LOSS_RANGE
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import selection_epsilon

__all__ = [
    "CALIBRATIONS",
    "NOMINAL_HORIZON",
    "QUERY_SENSITIVITY",
    "QUERY_SPREAD",
    "WINDOWS",
    "ShiftDetectorParameters",
    "calibrate",
    "guarantee",
    "regret_bound",
]


def guarantee(
    experts: int,
    parameters: ShiftDetectorParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from the noise scales.

    Parameters
    ----------
    experts : int
        N, as the learner has it.
    parameters : ShiftDetectorParameters
        Calibrated or the user's own; regret is not trusted.
    budget : Budget, float or None
        Ignored: the guarantee is pure.
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters are for another number of experts.
    """
    p = parameters
    if p.experts != experts:
        raise ValueError(f"parameters are for {p.experts} experts; got {experts}")
    horizon = LARGEST_HORIZON if p.horizon is None else p.horizon
    what = f"the decisions and alarms of the shift detector among {experts} experts"
    shifts = planned_shifts(p.expected_shifts, p.horizon, quiet=True)
    bound, terms = regret_of(p, bounded_rounds(p), shifts)
    scope = "stationary" if p.expected_shifts is None else "shifting"
    details: dict[str, float | str | None] = {
        "threshold noise scale": p.threshold_noise_scale,
        "query noise scale": p.query_noise_scale,
        "threshold": p.threshold * p.threshold_scale,
        "false alarms of an instance, at most": false_alarm_probability(p, bounded_rounds(p)),
        "regret bound, rounds": float(bounded_rounds(p)),
        "regret bound, shifts": float(shifts),
        **{f"regret: {name}": value for name, value in terms.items()},
    }
    stated = bound if math.isfinite(bound) else None
    if not p.private:
        details = {"regret bound holds for": SCOPES_IN_WORDS[scope], **details}
        return replace(Guarantee.none(horizon, what), regret_bound=stated, details=details)
    trivial = experts == 1 or p.horizon == 1
    epsilon = 0.0 if trivial else _epsilon(p)
    claimed = None
    conditions: tuple[str, ...] = ("losses are clipped to their declared range, enforced",)
    if p.calibration == "paper" and p.detects and not trivial:
        # As if one round moved a statistic by at most 1.
        printed = selection_epsilon(p.selection_scale, LOSS_RANGE) + above_threshold_epsilon(
            p.threshold_noise_scale, p.query_noise_scale, sensitivity=1.0, spread=2.0
        )
        claimed = (printed, 0.0)
        conditions += (
            "the claim in print is false: a round moves the test statistics by up to 2, not 1; as "
            f"printed the budget is spent {epsilon / printed:.4g} times",
        )
    return statement_of(
        mechanism=what,
        horizon=p.horizon,
        delta=0.0,
        calibration=p.calibration,
        reference="sparse vector technique and noisy argmin; docs/privacy/shift_detector.md",
        seeded=seeded,
        pure=epsilon,
        sensitivity=0.0 if trivial else 1.0,
        sensitivity_norm="linf",
        noise_scale=p.selection_scale,
        conditions=conditions,
        claimed=claimed,
        regret_bound=stated,
        experts=p.experts,
        regret_scope=None if stated is None else scope,
        details=details,
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
    if parameters.experts != experts:
        raise ValueError(f"parameters are for {parameters.experts} experts; got {experts}")
    check_count("switches", switches)
    length = bounded_rounds(parameters) if rounds is None else positive_int("rounds", rounds)
    return regret_of(parameters, length, switches)[0]


def _epsilon(p: ShiftDetectorParameters) -> float:
    epsilon = selection_epsilon(p.selection_scale, LOSS_RANGE)
    if p.detects:
        epsilon += above_threshold_epsilon(
            p.threshold_noise_scale,
            p.query_noise_scale,
            sensitivity=QUERY_SENSITIVITY,
            spread=QUERY_SPREAD,
        )
    return epsilon
