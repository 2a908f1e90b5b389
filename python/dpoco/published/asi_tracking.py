"""Asi, Raman and Saha, "Tracking the best expert privately" (2025).

Plans of `dpoco.experts`: `EpochSelector` (Algorithm 1), `ShiftDetector` (Algorithm 2),
`ObliviousTracker` (Section 4) and `BatchShare` (Algorithm 3). The errors in print, and the
differences of the learners' defaults:

* Algorithm 1 takes the largest sum of losses, but the proof takes the smallest. Its Laplace noise
  is right; the default is one-sided exponential noise of the same scale, which has smaller errors.
* Algorithm 2 assumes that its statistic changes by at most 1, but it changes by up to 2. With equal
  shares it spends 1.25 times its budget. "Corrected" doubles the noise of the threshold. The
  algorithm also restarts in the round of an alarm, which would use that round twice; the learner
  restarts one round later.
* Theorem 3.1 and the threshold lack a factor log T, so no regret is claimed for the printed
  version.
* Section 4 only prints rates, for a static learner of another paper (Proposition 1) with one expert
  for every sequence of at most S switches (Corollary 4.1.1). The bound on their number is wrong for
  S = 0, and the printed index set counts some sequences twice. `oblivious_tracker` has the same
  prior with each sequence once, without the exponential cost; coin and accounting are the
  library's.
* Algorithm 3 releases N losses per round, each with noise for one, so it is N epsilon-private.

Proofs: ``docs/privacy/epoch_selector.md``, ``docs/privacy/shift_detector.md``,
``docs/privacy/oblivious_tracker.md`` and ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpoco._validation import positive_int
from dpoco.accounting import batch_share as share
from dpoco.accounting import epoch_selector as epochs
from dpoco.accounting import oblivious_tracker as tracker
from dpoco.accounting import shift_detector as detector
from dpoco.accounting.batch_share import Noise, SharePlan, ShareTuning
from dpoco.accounting.budget import Budget
from dpoco.accounting.epoch_selector import SelectorPlan
from dpoco.accounting.noisy_max import raise_scale, scale_for
from dpoco.accounting.oblivious_tracker import TrackerPlan
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.shift_detector import DetectorPlan
from dpoco.privacy.mechanisms.selections import ThresholdTests

__all__ = ["batch_share", "epoch_selector", "oblivious_tracker", "shift_detector"]


def epoch_selector(
    experts: int, *, horizon: int | None, budget: Budget, first: int | None = None
) -> SelectorPlan:
    """Return the plan of Algorithm 1: Laplace noise of scale 2/epsilon.

    Parameters
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds; None means any number.
    budget : Budget
        Met by the plan; its delta is not needed.
    first : int, optional
        Expert of the first round; None draws it uniformly at random.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    return epochs.calibrate(
        experts, horizon=horizon, budget=budget, selection="laplace", first=first
    )


def shift_detector(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget,
    corrected: bool = False,
    false_alarm: float = 0.05,
    select_share: float = 0.5,
    windows: str = "tangent",
    expected_shifts: int | None = None,
    threshold_scale: float = 1.0,
    nominal_horizon: int | None = None,
    first: int | None = None,
) -> DetectorPlan:
    """Return the plan of Algorithm 2 with Laplace noises.

    Parameters
    ----------
    experts, horizon
        See the learner.
    budget : Budget
        Met if corrected; the printed plan with equal shares spends 1.25 times the budget. Its delta
        is not needed.
    corrected : bool, default False
        Whether noises meet the budget and thresholds keep false alarms rare. If False, both are as
        printed.
    false_alarm, select_share, windows, expected_shifts, threshold_scale, nominal_horizon, first
        See the learner.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    """
    # Without a budget, calibration sets windows and shares, and the paper sets the noise.
    silent = detector.calibrate(
        experts, horizon=horizon, budget=None, false_alarm=false_alarm, select_share=select_share,
        windows=windows, expected_shifts=expected_shifts, threshold_scale=threshold_scale,
        nominal_horizon=nominal_horizon, first=first,
    )  # fmt: skip
    own, detects = silent.tuning, silent.mechanism.part(ThresholdTests) is not None
    select = budget.epsilon * own.select_share if detects else budget.epsilon
    scale, noises = scale_for(epochs.LOSS_SUMS.range, select), None
    if detects:
        rest = budget.epsilon - select
        # The statistic changes by up to 2, but 1 is printed.
        b1, b2 = scale_for(4.0 if corrected else 2.0, rest), scale_for(4.0, rest)
        if corrected:
            # Because of rounding, both noises together may exceed the budget.
            b2 = raise_scale(b2, lambda b: detector.epsilon_spent(scale, b1, b) <= budget.epsilon)
        noises = b1, b2
    found = detector.make_plan(own, "laplace", scale, noises)
    if corrected:
        # The library's thresholds for this noise, because those of the paper lack a factor log T.
        return detector.with_thresholds(found)
    # Reg_w and alpha as printed: no allowance for the bias, everything is in the threshold.
    log_queries = math.log(own.experts * own.nominal_horizon / false_alarm)
    alpha = 16.0 * (2.0 * math.log(own.nominal_horizon) + math.log(2.0 / false_alarm))
    alpha /= budget.epsilon
    printed = replace(
        own,
        threshold=16.0 * log_queries / budget.epsilon + alpha + 1.0,
        log_windows=40.5 * log_queries,
        log_selection=None,
    )
    return detector.with_regret(replace(found, tuning=printed))


def oblivious_tracker(experts: int, *, horizon: int, budget: Budget, switches: int) -> TrackerPlan:
    """Return the plan of the learner of Corollary 4.1.1: uniform on sequences of S switches.

    Without switches it is the lazy learner of Proposition 1, against one fixed expert. The paper
    prints no constants, so we search for those with the least proved regret bound.

    Parameters
    ----------
    experts, horizon
        See the learner.
    budget : Budget
        Met by the plan; delta > 0 allows less noise.
    switches : int
        S: largest number of switches of a sequence.
    """
    return tracker.calibrate(
        experts, horizon=horizon, budget=budget, switches=switches, prior="at_most"
    )


def batch_share(
    experts: int,
    *,
    horizon: int,
    budget: Budget,
    switches: int = 0,
    learning_rate: float | None = None,
    numerics: str = DEFAULT_NUMERICS,
) -> SharePlan:
    """Return the plan of Algorithm 3, which spends N times the budget.

    Parameters
    ----------
    experts, horizon, numerics
        See the learner.
    budget : Budget
        The paper's claim. The noise makes the N losses of a round as private as one loss should be.
    switches : int, default 0
        S; 0, which the paper does not cover, counts as 1.
    learning_rate : float, optional
        eta, per unit of loss; None means as printed.

    Raises
    ------
    ValueError, TypeError
        For bad arguments, and without a horizon, which the paper needs.
    """
    experts, horizon = positive_int("experts", experts), positive_int("horizon", horizon)
    moves = max(1, min(switches, horizon))
    # For one expert in one round the logarithm would be 0, and a division would fail.
    logarithm = max(math.log(float(experts) * horizon), math.log(2.0))
    printed = budget.epsilon * math.sqrt(moves / (horizon * logarithm))
    tuning = ShareTuning(
        experts=experts,
        horizon=horizon,
        switches=switches,
        adversary="oblivious",
        batch=1,
        learning_rate=printed if learning_rate is None else learning_rate,
        share_rate=0.0,
        # The clipped simplex of Algorithm 3 has no weight below S / (N T).
        floor=moves / (float(experts) * horizon),
    )
    scale = share.noise_scale(experts, "knorm", budget)
    return share.make_plan(tuning, Noise("laplace", scale, experts), numerics)
