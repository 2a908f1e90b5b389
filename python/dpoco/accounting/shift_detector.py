"""Accounting of selection on epochs with private restarts.

Claim: let the selection noise have scale b, the threshold noise b_1 and the query noises b_2. All
decisions and all alarms together are epsilon-private with

    epsilon = 2/b + 2/b_1 + 2/b_2,

whatever depends on earlier releases. A round belongs to one instance, affects one selection there,
and moves every test statistic by an amount in [a - 1, a + 1] for one a in [-1, 1], so the
sensitivity and the spread of the queries are both 2. The threshold, allowances and windows do not
affect privacy.

Proof: ``docs/privacy/shift_detector.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately", algorithm 2 and theorem 3.6, corrected.

A plan makes no claim: `guarantee` recomputes all numbers on privacy and regret from the noise
scales and the public offsets.

Claim: let the losses of all rounds be independent, with a law that changes at most S times, and let
beta < 1 bound the probability that an instance raises an alarm before it has seen a change. Then
the expected regret over T rounds, against the best sequence of experts that switches at most S
times, is at most

    I G(T/I) + P (B theta + phi) + b_1 B (I + S (1 + log I)) + A + 1
        + X (phi(M) + theta + b_1 (1 + log I)),

with A = S + (S + 1) beta / (1 - beta) alarms, I = A + 1 instances and P = I + S pieces in
expectation, and G(n) the bias allowed in the first n rounds of an instance. phi = phi(T/P) is the
allowance of a window for chance, and B = 1 (for dyadic windows: B is the number of blocks per
window, phi that of all of them together). X is the number of additional windows of M rounds, the
longest tested length, for long pieces. Rounding errors are added.

Proof: ``docs/privacy/shift_detector.md``, section "Regret".
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

from dpoco._validation import Fields, choice, positive_float, positive_int, whole_number
from dpoco.accounting.above_threshold import probability, split_scales
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES
from dpoco.accounting.epoch_selector import (
    LARGEST_EXPERTS,
    LOSS_SUMS,
    check_first,
    draw_instances,
    find_noise,
    regret_terms,
)
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import raise_scale, scale_for
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.regret_bounds import endless_regret
from dpoco.accounting.statement import expert_guarantee
from dpoco.privacy.losses.loss import sum_up
from dpoco.privacy.mechanisms.base import Nothing, Parts
from dpoco.privacy.mechanisms.selections import ThresholdTests
from dpoco.privacy.records import Description, limits

__all__ = ["DetectorPlan", "DetectorTuning", "calibrate", "epsilon_spent", "guarantee", "make_plan",
           "regret_bound", "with_regret", "with_thresholds"]  # fmt: skip

WINDOWS = ("tangent", "dyadic", "naive")
# The naive windows store all rounds: O(N T) memory, and O(N T) time per round. For tests.
NAIVE_LIMIT = 4096
# Sums of this many rounds are resolved, at no more than 2^-25 per round.
SHORTEST_REACH = 2**26
# With fewer rounds, there is nothing to detect.
SHORTEST_HORIZON = 4
# Largest change of a test statistic, and largest sum of a rise and a fall.
QUERY_SENSITIVITY = QUERY_SPREAD = 2.0


@dataclass(frozen=True)
class DetectorTuning(Description):
    """Public numbers of the shift detector, for losses in [0, 1].

    Attributes
    ----------
    experts : int
        N, at most 2^32.
    horizon : int or None
        Rounds T; None means 10^12.
    first : int or None
        Expert of the first round; None draws it uniformly at random.
    windows : {"tangent", "dyadic", "naive"}
        Windows to test.
    nominal_horizon : int
        Number of rounds for which the threshold and the windows are made.
    expected_shifts : int or None
        Number of shifts that were planned for.
    false_alarm : float
        Planned probability of a false alarm.
    select_share : float
        Share of the budget for selection.
    threshold_scale : float
        Factor in (0, 1] on the threshold and on the allowances for chance.
    threshold : float
        theta, public; multiplied by `threshold_scale` in use.
    log_windows : float
        Lambda: a window of w rounds has the allowance sqrt(2 Lambda w) for chance (its tangents).
    log_selection : float or None
        L: a decision selected from m rounds has a bias allowance of sqrt(2 L / m) + b L / m, with
        twice the b for Laplace noise. None: no such allowance (as published).
    """

    kind = "detector_tuning"
    experts: int
    horizon: int | None
    windows: str
    nominal_horizon: int
    false_alarm: float
    select_share: float
    threshold_scale: float
    first: int | None = limits(zero=True)
    expected_shifts: int | None = limits(zero=True)
    threshold: float = limits(zero=True, default=0.0)
    log_windows: float = limits(zero=True, default=0.0)
    log_selection: float | None = limits(zero=True, default=None)

    def __post_init__(self) -> None:
        """Also check that the fields are consistent."""
        super().__post_init__()
        self.check_choice("windows", WINDOWS)
        check_first(self.first, self.experts)
        probability("false_alarm", self.false_alarm)
        for name in ("threshold_scale", "select_share"):
            if not getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be in (0, 1]")
        if self.windows == "naive" and (self.horizon or NAIVE_LIMIT + 1) > NAIVE_LIMIT:
            raise ValueError(f"windows 'naive' are limited to {NAIVE_LIMIT} rounds")

    @property
    def planned_shifts(self) -> int:
        """Number of shifts that are planned for; less than the number of rounds."""
        shifts = self.expected_shifts or 0
        return shifts if self.horizon is None else min(shifts, self.horizon - 1)

    @property
    def bounded_rounds(self) -> int:
        """Number of rounds of the regret bound."""
        return self.nominal_horizon if self.horizon is None else self.horizon

    def window_lines(self) -> tuple[list[float], list[float]]:
        """Return offsets and slopes of the allowance of a window for chance.

        For "dyadic": allowances of blocks of 2^k rounds, k = 0, 1, ..., and no slopes.
        """
        factor, level = self.threshold_scale, self.log_windows
        if self.windows == "dyadic":
            blocks = self.nominal_horizon.bit_length()
            return [factor * math.sqrt(2.0 * level * 2.0**k) for k in range(blocks)], []
        lengths = [4.0**k for k in range(tangents(self.nominal_horizon))]
        offsets = [factor * math.sqrt(0.5 * level * w) for w in lengths]
        return offsets, [factor * math.sqrt(0.5 * level / w) for w in lengths]

    def reach(self) -> int:
        """Return the power of two up to which sums of the test statistic are resolved."""
        # Sums of this many rounds must stay below 2^53 grids to be exact
        # (docs/privacy/shift_detector.md, "Sums without errors").
        wanted = max(self.nominal_horizon, SHORTEST_REACH)
        if self.horizon is not None:
            wanted = min(wanted, self.horizon)
        return int(1 << (wanted - 1).bit_length())

    def rounding(self) -> float:
        """Return the grid to which the statistic's losses and allowances are rounded."""
        return max(2.0**-46, self.reach() * 2.0**-51)


DetectorPlan = Plan[Parts | Nothing, DetectorTuning, Forecast]


def find_tests(plan: DetectorPlan) -> ThresholdTests | None:
    """Return the tests; None if there is no detector."""
    return plan.mechanism.part(ThresholdTests)


def bias_noise(plan: DetectorPlan) -> float:
    """Return the factor of log_selection in the noise part of the bias."""
    law, scale = find_noise(plan.mechanism)
    return scale * (2.0 if law == "laplace" else 1.0)


def bias(plan: DetectorPlan, m: int) -> float:
    """Return g(m), the allowed bias of a decision selected from m rounds; m = 0 means none yet."""
    level = plan.tuning.log_selection
    if level is None:
        return 0.0
    if m == 0:
        return 1.0
    return min(1.0, math.sqrt(2.0 * level / m) + bias_noise(plan) * level / m)


def epsilon_spent(
    selection_scale: float, b1: float, b2: float, sensitivity: float = QUERY_SENSITIVITY
) -> float:
    """Return epsilon, with its parts rounded up as in the kernel."""
    selection = sum_up((1, LOSS_SUMS.range, selection_scale))
    tests = sum_up((1, sensitivity, b1), (1, QUERY_SPREAD, b2))
    return sum_up((1, selection, 1.0), (1, tests, 1.0))


def tangents(horizon: int) -> int:
    """Return K = ceil(log_4 T) + 1, the number of tangents to the square root."""
    return ((horizon - 1).bit_length() + 1) // 2 + 1


def false_alarm_probability(plan: DetectorPlan, rounds: int) -> float:
    """Return a bound on the false-alarm probability of one instance of up to `rounds` rounds.

    It is computed from the threshold and the allowances in use; 1 if nothing is known.
    """
    p = plan.tuning
    threshold = p.threshold * p.threshold_scale
    if p.log_selection is None or not threshold >= 0.0:
        return 1.0
    offsets, slopes = p.window_lines()
    if p.windows == "dyadic":
        crossings = math.fsum(
            rounds / 2.0**k * math.exp(-0.5 * a * a / 2.0**k) for k, a in enumerate(offsets)
        )
    else:
        crossings = rounds * math.fsum(
            math.exp(-2.0 * a * s) for a, s in zip(offsets, slopes, strict=True)
        )
    selections = rounds.bit_length() - 1  # selections at local rounds 2, 4, 8, ...
    events = 1.0 if bias_noise(plan) == 0.0 else 2.0  # chance, and noise
    wrong = events * selections * math.exp(-p.log_selection)
    return min(1.0, p.experts * (crossings + wrong) + _noise_exceeds(plan, rounds, threshold))


def _noise_exceeds(plan: DetectorPlan, rounds: int, threshold: float) -> float:
    """Return a bound on the probability that a query's noise ever exceeds threshold plus noise."""
    tests = find_tests(plan)
    if tests is None:
        return 0.0
    b1, b2 = tests.threshold_scale, tests.query_scale
    # One-sided noise on the threshold only raises it.
    if b2 == 0.0 and (b1 == 0.0 or tests.law == "exponential"):
        return 0.0
    if tests.law == "exponential":
        return min(1.0, rounds * math.exp(-threshold / b2))
    if b1 == 0.0 or b2 == 0.0:
        return 1.0
    # If so, either the noise of a query exceeds x or that of the threshold is below -y, for any x +
    # y = threshold.
    y = (threshold - b2 * math.log(rounds * b1 / b2)) / (1.0 + b2 / b1)
    # Any split is valid. This one minimises the sum of both tails if it lies inside.
    y = min(max(y, 0.0), threshold)
    tails = rounds * math.exp(-(threshold - y) / b2) + math.exp(-y / b1)
    return min(1.0, 0.5 * tails)


def bound_regret(plan: DetectorPlan, rounds: int, shifts: int) -> tuple[float, dict[str, float]]:
    """Return the expected regret bound, infinite if there is no claim, and its terms."""
    p, tests = plan.tuning, find_tests(plan)
    if p.experts == 1:
        return 0.0, {}
    if tests is None:
        if shifts > 0:
            return math.inf, {}
        law, scale = find_noise(plan.mechanism)
        terms = regret_terms(p.experts, rounds, scale, law)
        return min(float(rounds), math.fsum(terms.values())), terms
    beta = false_alarm_probability(plan, rounds)
    if beta >= 1.0:
        return math.inf, {}
    changes = min(shifts, rounds - 1)
    # Theorem 3 of docs/privacy/shift_detector.md: false alarms start instances, which may raise
    # further ones, which gives a geometric series.
    alarms = changes + (changes + 1) * beta / (1.0 - beta)
    instances = alarms + 1.0
    pieces = instances + changes
    blocks, chance = _chance(p, rounds, rounds / pieces)
    more, longest = _long_windows(p, rounds)
    laplace = tests.law == "laplace"
    largest_noise = 1.0 + math.log(instances)  # for all instances, in units of its scale
    noise = instances * (0.5 if laplace else 1.0) + changes * largest_noise
    count = pieces * blocks + more
    terms = {
        "bias of selections": instances * _bias_sum(plan, rounds / instances),
        "windows": pieces * chance + more * longest,
        "threshold": count * p.threshold * p.threshold_scale,
        "threshold noise": tests.threshold_scale * (blocks * noise + more * largest_noise),
        "alarms": alarms + 1.0,
        "rounding": p.rounding() * (6.0 * rounds + 2.0 * count),
    }
    if laplace:
        largest = count * math.log(rounds) + 0.5
        terms["query noise"] = tests.query_scale * largest
    return min(float(rounds), math.fsum(terms.values())), terms


def _chance(p: DetectorTuning, rounds: int, length: float) -> tuple[int, float]:
    """Return the number of tests that cover a piece, and their total allowance for chance."""
    if p.windows == "dyadic":
        # There are at most two blocks of each length; the sum of the square roots is geometric.
        lengths = min(rounds.bit_length(), p.nominal_horizon.bit_length())
        length = min(length, 2.0 ** (lengths - 1))
        root = p.threshold_scale * math.sqrt(2.0 * p.log_windows * length)
        return 2 * lengths, 2.0 / (1.0 - math.sqrt(0.5)) * root
    return 1, _allowance(p, length)


def _long_windows(p: DetectorTuning, rounds: int) -> tuple[int, float]:
    """Return the number of additional tests of the longest windows, and the allowance of each.

    Pieces of w rounds together contain at most T/M windows of the largest length M, and each piece
    has one more for the remaining rounds. For blocks, two of them are among those of each length.
    """
    if p.windows == "dyadic":
        longest = 1 << (p.nominal_horizon.bit_length() - 1)
        level = p.threshold_scale * math.sqrt(2.0 * p.log_windows * longest)
        return max(0, rounds // longest - 2), level
    return (rounds // p.reach() if rounds > p.reach() else 0), _allowance(p, float(p.reach()))


def _allowance(p: DetectorTuning, length: float) -> float:
    """Return the allowance of a window for chance by the lowest of the tangents."""
    offsets, slopes = p.window_lines()
    return min(a + s * length for a, s in zip(offsets, slopes, strict=True))


def _bias_sum(plan: DetectorPlan, length: float) -> float:
    """Return G(n), the bias allowed in the first n rounds of an instance; linear in between."""
    total = min(length, 1.0) * bias(plan, 0)
    m = 1
    while 2 * m <= length:
        total += min(2.0 * m, length - 2 * m + 1) * bias(plan, m)
        m *= 2
    # The last partial step: rounds 2m, ... of an epoch that has begun but has not reached 2m.
    if length > 1.0 and 2 * m - 1 < length < 2 * m:
        total += (length - (2 * m - 1)) * bias(plan, m)
    return total


# Number of rounds for which the thresholds of an endless stream are made.
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
        Rounds; None means any number up to 10^12, with the same noise.
    budget : Budget or None
        None adds no noise and gives no guarantee. Its delta is not needed.
    false_alarm : float
        Probability of an alarm without a change, in (0, 1).
    select_share : float
        Share of the budget for selection, in (0, 1]; the detector gets the rest. 1 means no
        detector.
    windows : {"tangent", "dyadic", "naive"}
        Windows to test: all, by the tangents of the square root; aligned blocks; all, by brute
        force (up to 4096 rounds).
    expected_shifts : int, optional
        Number S of shifts to plan for. Then `false_alarm` holds for the whole stream, and the
        regret bound is against sequences with S switches. By default `false_alarm` holds for each
        instance, and the bound is for S = 0.
    threshold_scale : float
        In (0, 1]; below 1, alarms come earlier, and false alarms are more frequent.
    nominal_horizon : int, optional
        Number of rounds for which thresholds are made; default: the horizon, or 10^6 without one.
    first : int, optional
        Expert of the first round; None draws it uniformly at random.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    """
    length = NOMINAL_HORIZON if horizon is None else positive_int("horizon", horizon)
    tuning = DetectorTuning(
        experts=positive_int("experts", experts, maximum=LARGEST_EXPERTS),
        horizon=None if horizon is None else length,
        windows=choice("windows", windows, WINDOWS),
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
            # Each scale was rounded for its own share. The sum is rounded up once more, as in the
            # kernel.
            b2 = raise_scale(b2, lambda b: epsilon_spent(scale, b1, b) <= budget.epsilon)
    return with_thresholds(make_plan(tuning, "exponential", scale, (b1, b2) if detects else None))


def make_plan(
    tuning: DetectorTuning, law: str, scale: float, tests: tuple[float, float] | None
) -> DetectorPlan:
    """Return a plan with the same noise law for selections and for thresholds and queries."""
    drawn = None
    if tests is not None:
        drawn = ThresholdTests(law, *tests, QUERY_SENSITIVITY, QUERY_SPREAD, alarms=1)
    mechanism = draw_instances(tuning, law, scale, drawn, "shift_detector")
    scope = "stationary" if tuning.expected_shifts is None else "shifting"
    return Plan(mechanism, tuning, Forecast(None, scope))


def with_thresholds(plan: DetectorPlan) -> DetectorPlan:
    """Return a plan with these noises, and thresholds that keep false alarms rare."""
    p, tests = plan.tuning, find_tests(plan)
    # Four kinds of events get equal shares of the false-alarm probability
    # (docs/privacy/shift_detector.md, "False alarms").
    b, n, nominal, shifts = 0.25 * p.false_alarm, p.experts, p.nominal_horizon, p.planned_shifts
    # On average, at most two aligned blocks end in a round. Every tangent has a test in every
    # round.
    per_round = 2.0 if p.windows == "dyadic" else float(tangents(nominal))
    threshold = 0.0
    if tests is not None:
        threshold = tests.query_scale * math.log(nominal / b)
        if tests.law == "laplace":  # Laplace noise may also lower the threshold
            threshold += tests.threshold_scale * math.log((shifts + 1) / b)
    tuning = replace(
        p,
        threshold=threshold,
        log_windows=math.log(nominal * n * per_round / b),
        log_selection=math.log(n * (shifts + 1) * max(1, (nominal - 1).bit_length()) / b),
    )
    return with_regret(replace(plan, tuning=tuning))


def with_regret(plan: DetectorPlan) -> DetectorPlan:
    """Return a plan with the regret bound that follows from it."""
    own = plan.tuning
    bound, _ = bound_regret(plan, own.bounded_rounds, own.planned_shifts)
    return replace(plan, forecast=replace(plan.forecast, regret_bound=bound))


def guarantee(
    plan: DetectorPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism; see `expert_guarantee`.

    It is pure, so `budget` is ignored.
    """
    own, (law, scale) = plan.tuning, find_noise(plan.mechanism)
    tests = find_tests(plan)
    rounds, shifts = own.bounded_rounds, own.planned_shifts
    bound, terms = bound_regret(plan, rounds, shifts)
    scope = "stationary" if own.expected_shifts is None else "shifting"
    proved = math.isfinite(bound)
    endless = proved and own.horizon is None
    scales = (0.0, 0.0) if tests is None else (tests.threshold_scale, tests.query_scale)
    said: Fields = {"calibration": "tight"}
    if law == "laplace":
        said["calibration"] = "paper" if own.log_selection is None else "corrected"
    if said["calibration"] == "paper" and 0.0 not in (scale, *scales):
        # The paper assumes that one round moves a statistic by at most 1.
        printed = epsilon_spent(scale, *scales, sensitivity=1.0)
        needed = epsilon_spent(scale, *scales)
        said["claimed"] = (printed, 0.0)
        said["conditions"] = (
            CLIPPED_LOSSES,
            "The claim in print is false, since a round moves the test statistics by up to 2, "
            f"not 1: as printed the budget is spent {needed / printed:.4g} times.",
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

    The expectation is over the learner's noise and over losses that are drawn independently, from a
    law on [0, 1]^N that changes at most `switches` times. The comparator is the best sequence of
    experts with at most `switches` switches in hindsight. If there is a claim, the bound never
    exceeds the number of rounds.

    Parameters
    ----------
    plan : Plan
        Noises and thresholds. They also determine the probability of false alarms.
    switches : int
        S.
    rounds : int, optional
        Default: the horizon, or the nominal one without a horizon.
    """
    if switches:
        positive_int("switches", switches)
    length = plan.tuning.bounded_rounds if rounds is None else positive_int("rounds", rounds)
    return bound_regret(plan, length, switches)[0]
