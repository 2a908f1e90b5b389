"""Accounting of selection on dyadic epochs.

Claim: the losses of a round affect the decisions through one noisy argmin only, of sums over one
epoch. A round moves each sum by at most 1, in either direction. So all decisions together, over any
number of rounds, are 2/b-private for noise of scale b. If losses are drawn independently from one
law, the expected regret against the best expert in hindsight is at most

    1 + sum over epochs of n min(1, sqrt(log N / (2 m)) + b c_N / m) + sqrt(T log N / 2)

with n the number of rounds played, m the number of rounds selected from, and c_N the mean excess of
the noise, H_N - 1 for exponential noise.

Proof: ``docs/privacy/epoch_selector.md``. Source: Asi, Raman and Saha, "Tracking the best expert
privately", algorithm 1 (with an argmin instead of the printed argmax) and theorem 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import Fields, choice, positive_int, whole_number
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import mean_excess, scale_for, selection_budget
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.regret_bounds import RegretBound, endless_regret
from dpoco.accounting.statement import expert_guarantee
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Parts
from dpoco.privacy.mechanisms.selections import LossSums, Selections, ThresholdTests
from dpoco.privacy.records import Description, limits

__all__ = ["SelectorPlan", "SelectorTuning", "calibrate", "guarantee", "regret", "regret_terms"]

SELECTIONS = ("exponential", "gumbel", "laplace")
# Sums of losses in [0, 1], to which learners scale clipped losses.
LOSS_SUMS = LossSums(1.0)
LARGEST_EXPERTS = 2**32
# Largest rounding error of the difference of two mean losses, from rounding losses and sums.
ROUNDING = 2.0**-45


@dataclass(frozen=True)
class SelectorTuning(Description):
    """Public numbers of the selector on epochs.

    Attributes
    ----------
    experts : int
        N, at most 2^32.
    horizon : int or None
        Rounds T; None is 10^12.
    first : int or None
        Expert of the first round; None draws it uniformly.
    """

    kind = "selector_tuning"
    experts: int
    horizon: int | None
    first: int | None = limits(zero=True)

    def __post_init__(self) -> None:
        """Raise for a first expert that does not exist."""
        super().__post_init__()
        positive_int("experts", self.experts, maximum=LARGEST_EXPERTS)
        check_first(self.first, self.experts)


def check_first(first: int | None, experts: int) -> None:
    """Raise `ValueError` unless the expert of the first round, if there is one, exists."""
    if first is not None and first >= experts:
        raise ValueError(f"first must be below the number of experts, {experts}; got {first}")


SelectorPlan = Plan[Parts | Nothing, SelectorTuning, Forecast]


def find_noise(mechanism: Mechanism) -> tuple[str, float]:
    """Return law and scale of the selection noise; scale 0 if nothing is selected."""
    # The law then has no effect, but regret bounds need one as an argument.
    drawn = mechanism.part(Selections)
    return ("exponential", 0.0) if drawn is None else (drawn.law, drawn.scale)


def draw_instances(
    tuning: Any, law: str, scale: float, tests: ThresholdTests | None, lemma: str
) -> Parts | Nothing:
    """Return the mechanism of a selector: instances, each round belonging to one of them.

    Parameters
    ----------
    tuning : SelectorTuning or DetectorTuning
        Its experts and horizon.
    law, scale
        Law and scale of the noise on the sums of losses; scale 0 means no noise.
    tests : ThresholdTests or None
        Tests of an instance that also watches for shifts.
    lemma : str
        Proof that the rounds of an instance affect one selection.
    """
    if tuning.experts == 1 or tuning.horizon == 1:
        return Nothing("there is nothing to select from, or nothing to select by")
    # A record enters one selection: the epochs are disjoint and their lengths are public.
    each = Selections(law=law, scores=LOSS_SUMS, scale=scale, rounds=1, exponent=0.0)
    return Parts("instances", (each if tests is None else Parts("together", (each, tests)),), lemma)


def regret(plan: SelectorPlan, rounds: int | None = None) -> RegretBound:
    """Return a bound on the expected regret after `rounds` (default: the horizon, if any).

    The expectation is over losses that are drawn independently from one law on [0, 1]^N and over
    the learner's noise. The comparator is the best expert in hindsight.

    Parameters
    ----------
    plan : Plan
        Calibrated or the user's own.
    rounds : int, optional
        At least 1; required for an endless stream.

    Returns
    -------
    RegretBound
        At most `rounds`, with the terms of `regret_terms`. O(log rounds).

    Raises
    ------
    ValueError, TypeError
        If `rounds` is not a number of rounds.
    """
    length = positive_int("rounds", plan.tuning.horizon if rounds is None else rounds)
    law, scale = find_noise(plan.mechanism)
    terms = regret_terms(plan.tuning.experts, length, scale, law)
    # Losses are in [0, 1], so the regret never exceeds the number of rounds.
    return RegretBound(min(float(length), math.fsum(terms.values())), terms, "stationary")


def state_selector(
    plan: Plan[Any, Any, Any],
    bound: Callable[[int], RegretBound],
    pieces: str,
    assumed: dict[str, float],
    *,
    budget: Budget | float | None,
    seeded: bool,
) -> Guarantee:
    """Return the guarantee of a selector.

    Parameters
    ----------
    plan : Plan
        Plan of a selector on epochs or windows.
    bound : callable
        Takes a number of rounds and returns the regret bound.
    pieces : str
        What the selector plays on: "epochs" or "windows".
    assumed : dict of str to float
        Public numbers on which the regret bound relies, by name.
    budget, seeded
        See `expert_guarantee`.
    """
    own, law = plan.tuning, find_noise(plan.mechanism)[0]
    details: Fields = dict(assumed)
    regret = None if own.horizon is None else bound(own.horizon)
    if regret is None:  # a bound that grows with the rounds is shown for some numbers of rounds
        details |= endless_regret(lambda rounds: bound(rounds).total)
    else:
        details |= {f"regret: {name}": value for name, value in regret.terms.items()}
    return expert_guarantee(
        plan.mechanism,
        own.experts,
        own.horizon,
        None if regret is None else regret.total,
        bound(1).scope,  # the same for any number of rounds
        budget=budget,
        seeded=seeded,
        details=details,
        released=f"the decisions of selection on {pieces} among {own.experts} experts "
        f"({law} noise)",
        reference=f"noisy argmin on disjoint {pieces}; docs/privacy/epoch_selector.md",
        # The published learner uses Laplace noise of this scale; one-sided noise has smaller
        # errors.
        calibration="paper" if law == "laplace" else "tight",
    )


def guarantee(
    plan: SelectorPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism; see `expert_guarantee`."""
    return state_selector(
        plan, lambda rounds: regret(plan, rounds), "epochs", {}, budget=budget, seeded=seeded
    )


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    selection: str | None = None,
    first: int | None = None,
) -> SelectorPlan:
    """Return the least noise that meets `budget`.

    Parameters
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds; None means any number up to 10^12. The noise is the same.
    budget : Budget or None
        None adds no noise and gives no guarantee. A positive delta helps only "gumbel".
    selection : {"exponential", "gumbel", "laplace"}, optional
        Law of the noise; "exponential" (default) errs least.
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
    law = "exponential" if selection is None else choice("selection", selection, SELECTIONS)
    tuning = SelectorTuning(
        positive_int("experts", experts, maximum=LARGEST_EXPERTS),
        None if horizon is None else positive_int("horizon", horizon),
        None if first is None else whole_number("first", first),
    )
    scale = 0.0
    if budget is not None:
        # One selection may spend the whole budget, because a round's losses enter only one.
        scale = scale_for(LOSS_SUMS.range, selection_budget(budget, law))
    drawn = draw_instances(tuning, law, scale, None, "epoch_selector")
    plan = Plan(drawn, tuning, Forecast(None, "stationary"))
    if tuning.horizon is None:
        return plan
    return replace(plan, forecast=Forecast(regret(plan).total, "stationary"))


def regret_terms(experts: int, rounds: int, scale: float, selection: str) -> dict[str, float]:
    """Return the terms of the bound on the expected regret; see `regret`.

    Parameters
    ----------
    experts, rounds : int
        N and T.
    scale : float
        Scale of the noise.
    selection : {"exponential", "gumbel", "laplace"}
        Its law.

    Returns
    -------
    dict
        "first round"; "sampling": error of the losses selected from; "privacy": what the noise adds
        to this error; "comparator": advantage of the best expert over its mean.
    """
    if experts == 1:  # no other expert can be better
        return dict.fromkeys(("first round", "sampling", "privacy", "comparator"), 0.0)
    log_n = math.log(experts)
    excess = scale * mean_excess(experts, selection)
    sampling = total = 0.0
    m = 1
    # Epochs have 1, 2, 4, ... rounds. The expert selected from m rounds is played for the next 2 m.
    while 2 * m <= rounds:
        played = min(2 * m, rounds - 2 * m + 1)  # the last epoch may be cut short
        per_round = math.sqrt(0.5 * log_n / m) + ROUNDING
        sampling += played * min(1.0, per_round)
        # The noise is on sums, so its effect on a mean falls with the number of losses.
        total += played * min(1.0, per_round + excess / m)
        m *= 2
    return {
        "first round": 1.0,
        "sampling": sampling,
        "privacy": max(0.0, total - sampling),
        "comparator": math.sqrt(0.5 * rounds * log_n),
    }
