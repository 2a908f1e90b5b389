"""Selection on epochs and windows, for losses with a fixed or a changing distribution."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco import _literals as literals
from dpoco._validation import Fields, whole_if_float
from dpoco.accounting import Budget, epoch_selector, shift_detector, window_selector
from dpoco.accounting.epoch_selector import SelectorPlan, SelectorTuning, find_noise
from dpoco.accounting.plan import Forecast
from dpoco.accounting.shift_detector import DetectorPlan, DetectorTuning, bias, bias_noise
from dpoco.accounting.window_selector import WindowPlan, WindowTuning
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.learning.calibrated import AnyPlan
from dpoco.learning.choice import Candidate, ExpertProblem
from dpoco.learning.participation import Participation
from dpoco.random import Source

__all__ = ["EpochSelector", "ShiftDetector", "WindowSelector"]

# Limit for windows that keep doubling; none becomes that long.
DOUBLING = 2**62


class Selector(ExpertLearner):
    """Base of the learners that play the noisy argmin of sums of losses."""

    _forecast = Forecast

    @staticmethod
    def _rename_fields(plan: AnyPlan) -> Fields:
        law, scale = find_noise(plan.mechanism)
        # A plan without noise has no distribution that an argument could contradict.
        return {"selection": law} if scale > 0.0 else {}

    def _build_engine(self, claim: _core.Claim) -> Any:
        own = self._plan.tuning
        # One engine serves both learners, since epochs are windows that never stop doubling
        # (docs/privacy/epoch_selector.md, "Windows").
        longest = own.window if isinstance(own, WindowTuning) else DOUBLING
        return _core.EpochSelector(self._mechanism, self._sizes(), own.first, longest, claim)


class EpochSelector(Selector):
    """Noisy argmin on epochs of doubling length, with pure privacy, for stationary losses.

    In rounds 2^l, ..., 2^(l+1) - 1 it plays a noisy argmin of the losses of the 2^(l-1) rounds
    before. The whole sequence of decisions is epsilon-differentially private for replacing the
    losses of one round, even if they react to the decisions, and over any number of rounds.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int or None
        Number of rounds T, at most 1e12. None: unknown, at no price. This and all following
        arguments are keyword-only.
    budget : Budget or None
        The target guarantee; its delta may be 0. None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` and with every other argument that you pass.
    selection : {"exponential", "gumbel", "laplace"}, optional
        Distribution of the noise; default "exponential".
    first : int, optional
        Expert of the first round; None (default): drawn uniformly.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        Treatment of losses out of range: clip them silently, or raise ``ValueError`` (only for
        trusted data, since the exception depends on them).
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    BudgetExceeded
        If `plan` spends more than `budget`.

    Notes
    -----
    Source: Asi, Raman and Saha, "Tracking the best expert privately", algorithm 1. O(N) time per
    round and O(N) memory; log2 T draws of N variates in total. If an epoch is not complete at the
    end, its losses are never used. `plan.forecast.regret_bound` holds in expectation, against the
    best expert in hindsight, for losses drawn independently from one distribution. If the
    distribution changes, see `ShiftDetector`. Proofs: ``docs/privacy/epoch_selector.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.EpochSelector(
    ...     10, horizon=None, budget=dpoco.Budget(epsilon=1.0, delta=0.0), first=3)
    >>> learner.decide()
    3
    >>> learner.observe([0.0] + [1.0] * 9)
    >>> learner.guarantee.epsilon
    1.0
    """

    plan: SelectorPlan
    _tuning = SelectorTuning
    _accountant: ClassVar = epoch_selector
    _noise: ClassVar[str] = "fresh"

    def __init__(
        self,
        experts: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        plan: SelectorPlan | None = None,
        selection: literals.Selection | None = None,
        first: int | None = None,
        loss_range: tuple[float, float] = (0.0, 1.0),
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            epoch_selector.calibrate, experts=experts, horizon=horizon, selection=selection,
            first=first,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {
            "loss_range": loss_range, "participation": participation, "on_violation": on_violation,
        })  # fmt: skip

    @classmethod
    def _candidates(cls, problem: ExpertProblem) -> Iterator[Candidate]:
        # The regret bound is against a single expert.
        if problem.switches == 0:
            yield problem.candidate(cls)


class WindowSelector(Selector):
    """Noisy argmin on windows of bounded length, with pure privacy, for shifting losses.

    It plays like `EpochSelector`, but windows stop doubling at `window` rounds. In each window it
    plays a noisy argmin of the losses of the previous window, so it forgets a change of the
    distribution after two windows. The whole sequence of decisions is epsilon-differentially
    private for replacing the losses of one round, even if they react to the decisions, and over any
    number of rounds.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int or None
        Number of rounds T, at most 1e12. None: unknown, at no price, except that the window is then
        chosen for 1e12 rounds unless you pass it. This and all following arguments are
        keyword-only.
    budget : Budget or None
        The target guarantee; its delta may be 0. None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` and with every other argument that you pass.
    expected_shifts : int, default 0
        Number S of changes of the distribution to plan for. This is a guess; privacy does not
        depend on it.
    gap : float, default 0
        Smallest excess of every other expert's mean loss over the best expert's, at all times, as a
        share of the range of losses, in [0, 1]. Only the window and the regret bound depend on it.
        If unsure, choose it too small rather than too large.
    window : int, optional
        Number W of rounds of the longest window; default: the one with the least regret bound for S
        and `gap`. If it equals the horizon, the learner is `EpochSelector`.
    selection : {"exponential", "gumbel"}, optional
        Distribution of the noise; default "exponential".
    first : int, optional
        Expert of the first round; None (default): drawn uniformly.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        Treatment of losses out of range: clip them silently, or raise ``ValueError`` (only for
        trusted data, since the exception depends on them).
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    BudgetExceeded
        If `plan` spends more than `budget`.

    Notes
    -----
    Source: Asi, Raman and Saha, "Tracking the best expert privately", algorithm 1, with epochs that
    stop growing. O(N) time per round and O(N) memory; T/W draws of N variates in total.
    `plan.forecast.regret_bound` is for losses drawn independently from a distribution that changes
    at most S times. It is a worst case over such distributions: for most of them the regret is many
    times smaller. Against losses that know the windows, such as blocks of W rounds that each punish
    the best expert of the block before, the regret is linear: take a learner for adversaries.
    Proofs: ``docs/privacy/epoch_selector.md``, section "Windows".

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.WindowSelector(
    ...     10, horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=0.0),
    ...     expected_shifts=5, gap=0.4)
    >>> learner.plan.tuning.window, round(learner.plan.forecast.regret_bound)
    (107, 3023)
    """

    plan: WindowPlan
    _tuning = WindowTuning
    _accountant: ClassVar = window_selector
    _noise: ClassVar[str] = "fresh"

    def __init__(
        self,
        experts: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        plan: WindowPlan | None = None,
        expected_shifts: int = 0,
        gap: float = 0.0,
        window: int | None = None,
        selection: literals.WindowSelection | None = None,
        first: int | None = None,
        loss_range: tuple[float, float] = (0.0, 1.0),
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            window_selector.calibrate, experts=experts, horizon=horizon,
            expected_shifts=expected_shifts, gap=gap, window=window, selection=selection,
            first=first,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {
            "loss_range": loss_range, "participation": participation, "on_violation": on_violation,
        })  # fmt: skip

    @classmethod
    def _candidates(cls, problem: ExpertProblem) -> Iterator[Candidate]:
        gap, options = problem.gap, {"expected_shifts": problem.switches}
        if gap > 0.0:
            yield problem.candidate(
                cls, {**options, "gap": gap}, variant="/gap", more=(math.log(gap),)
            )
        else:
            yield problem.candidate(cls, options)


class ShiftDetector(Selector):
    """Selection on epochs that restarts when a private test finds a change: pure privacy.

    It plays like `EpochSelector`. After every round it tests, with the sparse vector technique,
    whether some recent window had larger losses than stationary losses explain. An alarm restarts
    the selection in the next round. All decisions and all `alarms` together are
    epsilon-differentially private for replacing the losses of one round, even if they react to the
    decisions.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int or None
        Number of rounds T, at most 1e12. None: unknown, with the same noise and with thresholds for
        `nominal_horizon` rounds. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; its delta may be 0. None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` and with every other argument that you pass.
    false_alarm : float, default 0.05
        Probability of an alarm without a change, in (0, 1), for each instance; with
        `expected_shifts` for all instances together.
    select_share : float, default 0.5
        Part of epsilon for selection, in (0, 1]; the detector gets the rest. 1: no detector.
    windows : {"tangent", "dyadic", "naive"}
        Windows to test. "tangent" (default): all windows, by tangents of the square root. "dyadic":
        aligned blocks of 2^k rounds, which is cheaper but detects later. "naive": all windows by
        brute force, up to 4096 rounds.
    expected_shifts : int, optional
        Number S of changes to plan for; `plan.forecast.regret_bound` is then against sequences of
        experts with S switches. None: unknown; the bound is for no change.
    threshold_scale : float, default 1.0
        Factor in (0, 1]: smaller thresholds mean earlier alarms and more false ones. Privacy is the
        same.
    nominal_horizon : int, optional
        Number of rounds for which the thresholds are computed; default: the horizon, or 1e6 without
        one.
    first : int, optional
        Expert of the first round; None (default): drawn uniformly.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        Treatment of losses out of range: clip them silently, or raise ``ValueError`` (only for
        trusted data, since the exception depends on them).
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    BudgetExceeded
        If `plan` spends more than `budget`.

    Notes
    -----
    Source: Asi, Raman and Saha, "Tracking the best expert privately", algorithm 2, with the
    sensitivity, the restart and the thresholds corrected. K = ceil(log4 T) + 1 tangents: O(N K)
    time per round and memory ("dyadic": O(N) and O(N log T)). With fewer than four rounds there is
    no detector, and the whole budget goes into selection. `plan.forecast.regret_bound` holds in
    expectation, for losses drawn independently from a distribution that changes at most S times.
    Proofs: ``docs/privacy/shift_detector.md``.

    Examples
    --------
    >>> import dpoco, numpy as np
    >>> learner = dpoco.experts.ShiftDetector(
    ...     2, horizon=4000, budget=dpoco.Budget(epsilon=1.0, delta=0.0),
    ...     source=dpoco.random.Source.seeded(1))
    >>> losses = np.tile([0.0, 1.0], (4000, 1))
    >>> losses[2000:] = [1.0, 0.0]
    >>> trace = learner.run(losses)
    >>> len(learner.alarms), bool(2000 < learner.alarms[0] < 2500)
    (1, True)
    """

    plan: DetectorPlan
    _tuning = DetectorTuning
    # `_noise` stays "hidden": one noisy threshold serves all rounds until an alarm
    # (docs/privacy/shift_detector.md).
    _accountant: ClassVar = shift_detector

    def __init__(
        self,
        experts: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        plan: DetectorPlan | None = None,
        false_alarm: float = 0.05,
        select_share: float = 0.5,
        windows: literals.Windows = "tangent",
        expected_shifts: int | None = None,
        threshold_scale: float = 1.0,
        nominal_horizon: int | None = None,
        first: int | None = None,
        loss_range: tuple[float, float] = (0.0, 1.0),
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            shift_detector.calibrate, experts=experts, horizon=horizon, false_alarm=false_alarm,
            select_share=select_share, windows=windows, expected_shifts=expected_shifts,
            threshold_scale=threshold_scale, nominal_horizon=nominal_horizon, first=first,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {
            "loss_range": loss_range, "participation": participation, "on_violation": on_violation,
        })  # fmt: skip

    def _build_engine(self, claim: _core.Claim) -> _core.ShiftDetector:
        own, plan = self.plan.tuning, self.plan
        allowed: _core.Settings = {
            "log_union": own.log_selection or 0.0,
            "noise": 0.0 if own.log_selection is None else bias_noise(plan),
            "unselected": bias(plan, 0),
        }
        threshold, statistic = own.threshold * own.threshold_scale, statistic_settings(own)
        return _core.ShiftDetector(
            self._mechanism, self._sizes(), own.first, threshold, allowed, statistic, claim
        )

    @property
    def alarms(self) -> NDArray[np.int64]:
        """Rounds (0-based, increasing) that ended with an alarm, int64; the guarantee covers them.

        The selection restarts in the round after each alarm. The last round never raises an alarm.
        """
        self._check_active()
        return np.array(self._engine.alarms(), dtype=np.int64)

    @classmethod
    def _candidates(cls, problem: ExpertProblem) -> Iterator[Candidate]:
        yield problem.candidate(cls, {"expected_shifts": problem.switches})


def statistic_settings(own: DetectorTuning) -> _core.Settings:
    """Return the settings of the compiled test statistic."""
    offsets, slopes = own.window_lines()
    # The engine rounds losses, allowances and lines. The spare keeps rounding from causing an
    # alarm.
    spare = own.rounding()
    dyadic = own.windows == "dyadic"
    per_round = [4.0 * spare * (2.0**k if dyadic else 0.0) for k in range(len(offsets))]
    return {
        "experts": own.experts,
        "windows": own.windows,
        "offsets": [a + more + spare for a, more in zip(offsets, per_round, strict=True)],
        "slopes": [s + 4.0 * spare for s in slopes],
        "reach": own.reach(),
    }
