"""Accounting of selection on windows of bounded length.

Claim: as for dyadic epochs, the losses of a round affect the decisions through one noisy argmin
only, so all decisions together, over any number of rounds, are 2/b-private for noise of scale b.
Let the losses of all rounds be independent, with a law that changes at most S times, and let the
windows have 1, 2, 4, ..., W, W, ... rounds. With h(m) = sqrt(log N / (2 m)) + b c_N / m, the
expected regret against the best sequence of experts with at most S switches is at most

    1 + sum over windows of n min(1, h(m)) + sqrt(T log(N^(S+1) C(T-1, S)) / 2)

with n the number of rounds played and m the number of rounds selected from; the S (2 W - 1) rounds
with the smallest charge cost 1 instead. If the best expert's mean is always below all others' by a
gap g,

    h(m) = (N - 1) max over D in [g, 1] of D exp(-m l (D - l/2)),  l = min(D, 1/b),

if that is less.

Proof: ``docs/privacy/epoch_selector.md``, section "Windows".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpoco._validation import LARGEST_HORIZON, choice, positive_int, real_float, whole_number
from dpoco.accounting import epoch_selector
from dpoco.accounting.budget import Budget
from dpoco.accounting.epoch_selector import ROUNDING, SelectorTuning, find_noise
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import mean_excess
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.regret_bounds import RegretBound
from dpoco.privacy.mechanisms.base import Nothing, Parts
from dpoco.privacy.records import limits

__all__ = ["WindowPlan", "WindowTuning", "calibrate", "guarantee", "regret"]

SELECTIONS = ("exponential", "gumbel")


@dataclass(frozen=True)
class WindowTuning(SelectorTuning):
    """Public numbers of the selector on windows.

    Attributes
    ----------
    experts, horizon, first
        See `SelectorTuning`.
    window : int
        Rounds W of the longest window.
    expected_shifts : int
        Number S of changes of the law that were planned for.
    gap : float
        Assumed difference of all other experts from the best one, in units of losses in [0, 1]; 0
        means no assumption.
    """

    kind = "window_tuning"
    window: int = limits()
    expected_shifts: int = limits(zero=True)
    gap: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Raise for gaps above the range of losses."""
        super().__post_init__()
        positive_int("window", self.window, maximum=LARGEST_HORIZON)
        if not self.gap <= 1.0:
            raise ValueError(f"gap must be in [0, 1]; got {self.gap!r}")


WindowPlan = Plan[Parts | Nothing, WindowTuning, Forecast]


def regret(plan: WindowPlan, rounds: int | None = None) -> RegretBound:
    """Return a bound on the expected regret after `rounds` (default: the horizon, if any).

    The expectation is over the learner's noise and over losses that are drawn independently from a
    law that changes. The comparator is the best sequence of experts with as many switches.

    Parameters
    ----------
    plan : Plan
        Calibrated or the user's own.
    rounds : int, optional
        At least 1; required for an endless stream.

    Returns
    -------
    RegretBound
        At most `rounds`. Terms: "first round", "selection", "shifts" (rounds that a change may
        spoil) and "comparator" (advantage of the best sequence in hindsight).

    Raises
    ------
    ValueError, TypeError
        If `rounds` is not a number of rounds.
    """
    length = positive_int("rounds", plan.tuning.horizon if rounds is None else rounds)
    terms = _regret_terms(plan.tuning, find_noise(plan.mechanism), length)
    return RegretBound(min(float(length), math.fsum(terms.values())), terms, "shifting")


def guarantee(
    plan: WindowPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism; see `expert_guarantee`."""
    own = plan.tuning
    assumed = {
        "rounds of the longest window": float(own.window),
        "shifts planned for": float(own.expected_shifts),
        "gap assumed, as a share of the range": own.gap,
    }
    return epoch_selector.state_selector(
        plan, lambda rounds: regret(plan, rounds), "windows", assumed, budget=budget, seeded=seeded
    )


def _regret_terms(own: WindowTuning, noise: tuple[str, float], rounds: int) -> dict[str, float]:
    """Return the terms of `regret`, for noise of this law and scale."""
    # There is at most one change before each round but the first.
    n, shifts = own.experts, min(own.expected_shifts, rounds - 1)
    if n == 1:
        return dict.fromkeys(("first round", "selection", "shifts", "comparator"), 0.0)
    losses = 0.0
    # A change spoils the rest of its window, W - 1 rounds, and the next window, whose expert is
    # selected from rounds of two laws.
    spoilt = left = min(rounds, shifts * (2 * own.window - 1))
    # It is unknown which rounds a change spoils. Charging 1 for those with the smallest charge
    # gives an upper bound (docs/privacy/epoch_selector.md, "Windows").
    for played, selected_from in reversed(_windows(rounds, own.window)):
        missed = min(left, played)
        left -= missed
        losses += (played - missed) * min(1.0, _charge(own, noise, selected_from))
    # ln(N^(S+1) C(T-1, S)) for the number of sequences, from log-gamma functions, increased by more
    # than their error.
    log_places = math.lgamma(rounds) * (1.0 + 2.0**-48) - math.lgamma(shifts + 1)
    log_paths = (shifts + 1) * math.log(n) + log_places - math.lgamma(rounds - shifts)
    return {
        "first round": 1.0,
        "selection": losses,
        "shifts": float(spoilt - left),
        "comparator": math.sqrt(0.5 * rounds * log_paths),
    }


def _pseudo_regret(own: WindowTuning, noise: tuple[str, float], rounds: int) -> float:
    """Return the bound without the comparator's term; if the bound is void, a larger value."""
    terms = _regret_terms(own, noise, rounds)
    lost = terms["selection"] + terms["shifts"]
    if lost < rounds - 1:
        return lost
    # A void bound is the same for all windows. The added terms still allow a comparison.
    return lost + rounds * _charge(own, noise, own.window) + 2.0 * own.expected_shifts * own.window


def _charge(own: WindowTuning, noise: tuple[str, float], selected_from: int) -> float:
    """Return a bound on the mean excess loss of an expert selected from m rounds of one law."""
    n, m, (law, b) = own.experts, selected_from, noise
    # Without a gap: chance in m rounds, plus the effect of the selection noise.
    charge = math.sqrt(0.5 * math.log(n) / m) + b * mean_excess(n, law) / m
    low = own.gap - ROUNDING  # rounded losses may have a smaller gap
    if low > 0.0:
        largest = 0.0
        for at in (low, 1.0, 1.0 / math.sqrt(m), b / m):  # all extremes of a smooth function
            gap = min(max(low, at), 1.0)
            rate = gap if gap * b <= 1.0 else 1.0 / b  # l: because of the noise at most 1/b
            largest = max(largest, gap * math.exp(-m * rate * (gap - 0.5 * rate)))
        charge = min(charge, (n - 1) * largest)
    return charge + ROUNDING


def _windows(rounds: int, longest: int) -> list[tuple[int, int]]:
    """Return (played, selected from), the rounds of each window after the first."""
    found, m, left = [], 1, rounds - 1
    while left > 0:
        # All windows of full length are one entry, because there may be 10^12 of them.
        played = left if m == longest else min(2 * m, longest, left)
        found.append((played, m))
        m, left = min(2 * m, longest), left - played
    return found


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    expected_shifts: int = 0,
    gap: float = 0.0,
    window: int | None = None,
    selection: str | None = None,
    first: int | None = None,
) -> WindowPlan:
    """Return the least noise that meets `budget`, and the window with the least regret bound.

    Parameters
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds; None means any number up to 10^12, for which the window is then chosen.
    budget : Budget or None
        None adds no noise and gives no guarantee. A positive delta helps only "gumbel".
    expected_shifts : int
        Number S of changes of the law to plan for.
    gap : float
        In [0, 1]: difference of all other experts from the best one at all times, in units of
        losses in [0, 1]. It only affects the window and the regret bound.
    window : int, optional
        Rounds W of the longest window; default: the one with the least bound without the
        comparator's term.
    selection : {"exponential", "gumbel"}, optional
        Law of the noise; "exponential" (default) has the smallest errors.
    first : int, optional
        Expert of the first round; None draws it uniformly at random.

    Returns
    -------
    Plan
        Without a horizon it has no regret bound.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If the budget needs a noise scale above 1e200.
    """
    if selection is not None:
        choice("selection", selection, SELECTIONS)
    longest = None if window is None else positive_int("window", window)
    drawn = epoch_selector.calibrate(
        experts, horizon=horizon, budget=budget, selection=selection, first=first
    )
    tuning = WindowTuning(
        **vars(drawn.tuning),  # experts, horizon and first of the selector on epochs
        window=1 if longest is None else longest,
        expected_shifts=whole_number("expected_shifts", expected_shifts, high=LARGEST_HORIZON),
        gap=real_float("gap", gap),
    )
    if longest is None:
        # The window is chosen from public numbers. Choosing it after looking at losses would cost
        # budget.
        noise, rounds = find_noise(drawn.mechanism), tuning.horizon or LARGEST_HORIZON
        lengths = {int(2.0 ** (0.25 * i)) for i in range(int(4.0 * math.log2(rounds)) + 1)}
        plans = [replace(tuning, window=length) for length in sorted({*lengths, rounds})]
        tuning = min(plans, key=lambda own: _pseudo_regret(own, noise, rounds))
    plan = Plan(drawn.mechanism, tuning, Forecast(None, "shifting"))
    if tuning.horizon is None:
        return plan
    return replace(plan, forecast=Forecast(regret(plan).total, "shifting"))
