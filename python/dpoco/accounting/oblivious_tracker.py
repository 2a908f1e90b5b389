"""Accounting of the oblivious tracker: exponential weights on all sequences of experts, lazily.

Claim: replacing the losses of one round moves one coin, and the law of every later fresh draw by
log-likelihood ratios of bounded range, which shrinks as the prior forgets. The Renyi divergences
of these add up to those of the played path with flags that tell the fresh draws, also when the
losses react to the path. The expected regret against losses fixed in advance is that of
exponential weights in batches, whatever the coins.

Proof: ``docs/privacy/tracker_accounting.md``. Source: Asi, Raman and Saha, "Tracking the
best expert privately" (2025), Section 4, whose reduction this learner runs without its exponential
number of experts; coin and accounting are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import (
    LARGEST_HORIZON,
    MissingHorizonError,
    choice,
    positive_float,
    positive_int,
    real_float,
    whole_number,
)
from dpoco.accounting._share_regret import best_share_rate
from dpoco.accounting._tracker_search import Comparison, Search, largest_share_rate
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.statement import expert_guarantee
from dpoco.privacy.losses.flagged_draws import PRIORS
from dpoco.privacy.mechanisms.tracker_draws import (
    SMALLEST_FORCED,
    SMALLEST_SHARE_RATE,
    TrackerDraws,
)
from dpoco.privacy.records import Description, limits

__all__ = ["TrackerPlan", "TrackerTuning", "calibrate", "guarantee", "regret"]


@dataclass(frozen=True)
class TrackerTuning(Description):
    """With which sequences of experts the tracker is compared.

    Attributes
    ----------
    switches : int
        S, as asked for. The bound on regret uses min(S, T - 1), and so does the prior "at_most".
    """

    kind = "tracker_tuning"
    switches: int = limits(zero=True)


TrackerPlan = Plan[TrackerDraws, TrackerTuning, Forecast]


def guarantee(
    plan: TrackerPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return what any plan guarantees, computed from its mechanism; see `expert_guarantee`."""
    drawn, switches = plan.mechanism, plan.tuning.switches
    bound, terms = regret(plan)
    details: dict[str, float | str | None] = {
        "learning rate": drawn.learning_rate,
        "forced switch": drawn.forced,
        "batch": float(drawn.batch),
        "share rate": drawn.share_rate,
        "switches compared with": None if drawn.horizon is None else float(switches),
        **{f"regret: {name}": value for name, value in terms.items()},
    }
    if bound is None and terms and drawn.horizon is not None:
        details["regret bound until the cap"] = math.fsum(terms.values())
    conditions: tuple[str, ...] = (
        CLIPPED_LOSSES,
        "Fresh draws have exact tails (races of exponential variates), and the grid of the "
        "coins' uniform variates is accounted for.",
    )
    said: dict[str, Any] = {}
    if drawn.draws.constant:
        conditions = ("No release depends on the losses: there is nothing to learn from.",)
        said["delta"] = 0.0
    return expert_guarantee(
        drawn,
        drawn.experts,
        drawn.horizon,
        bound,
        "oblivious",
        budget=budget,
        seeded=seeded,
        details=details,
        released=f"the played experts of the oblivious tracker (N = {drawn.experts}, prior "
        f"{drawn.prior!r}) and which of them are fresh draws",
        reference="coin and draws of bounded range, composed by Renyi divergences; "
        "docs/privacy/tracker_accounting.md",
        conditions=conditions,
        **said,
    )


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    switches: int = 0,
    prior: str = "share",
    learning_rate: float | None = None,
    forced_switch: float | None = None,
    batch: int | None = None,
    share_rate: float | None = None,
    max_resamples: int | None = None,
) -> TrackerPlan:
    """Return the parameters of the least regret bound that meet `budget`.

    Parameters
    ----------
    experts : int
        N, at least 1.
    horizon : int or None
        Rounds T. None is an endless stream: prior "share", and `share_rate` is needed, positive
        with a budget.
    budget : Budget or None
        None is the baseline without privacy: B = 1, p = 0 and the best eta. With delta = 0 the
        largest log-likelihood ratio must not exceed epsilon.
    switches : int
        S >= 0, of the sequences to compare with; more than T - 1 mean T - 1. Not used on an
        endless stream, where `share_rate` says how often the best expert changes.
    prior : {"share", "at_most"}
        Prior over sequences of experts.
    learning_rate, forced_switch, batch, share_rate : optional
        eta, p, B and sigma; those given are kept, the others are searched for. sigma is 0 or at
        least 1e-100. Without a budget, on an endless stream with sigma = 0, no eta is best: 1
        unless given.
    max_resamples : int, optional
        Cap on the fresh draws. The search minimises the bound that holds until it is hit, with p
        so small that draws that losses do not cause take at most half of it in expectation, as far
        as p >= 1e-9 allows. On an endless stream every cap is used up sooner or later, and p is
        chosen as if there were none.

    Returns
    -------
    Plan
        Typically after less than a second.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no parameters meet the budget.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget or None; got {type(budget).__name__}")
    n, private = positive_int("experts", experts), budget is not None
    horizon = None if horizon is None else positive_int("horizon", horizon)
    switches = whole_number("switches", switches)
    rate = share_rate
    if rate is None and horizon is None and n == 1:
        rate = 0.0
    elif rate is None and prior == "share":
        if horizon is None:
            raise MissingHorizonError("an endless stream needs share_rate")
        rate = best_share_rate(n, horizon, switches)
    elif rate == 0.0 and horizon is not None and switches and min(n, horizon) > 1:
        raise ValueError("share_rate 0 never switches, but switches is positive")
    if rate is not None:
        rate, largest = real_float("share_rate", rate), largest_share_rate(n)
        if 0.0 < rate < SMALLEST_SHARE_RATE or not 0.0 <= rate <= largest * (1.0 + 1e-12):
            raise ValueError(
                f"share_rate must be 0 or in [{SMALLEST_SHARE_RATE:g}, 1 - 1/experts = "
                f"{largest:.6g}]; got {rate!r}"
            )
        rate = min(rate, largest)  # which is meant exactly
    if (rate is None) != (choice("prior", prior, PRIORS) == "at_most"):
        raise ValueError("share_rate belongs to the prior 'share', and to it only")
    forced = float(private) if forced_switch is None else real_float("forced_switch", forced_switch)
    if private and forced < SMALLEST_FORCED:
        raise ValueError(
            f"forced_switch must be at least {SMALLEST_FORCED:g} for a private learner"
        )
    if horizon is None and prior != "share":
        raise ValueError("an endless stream needs the prior 'share'")
    if horizon is None and private and n > 1 and not rate:
        raise ValueError("an endless private stream needs share_rate > 0")
    cap = max_resamples
    drawn = TrackerDraws(
        experts=n,
        prior=prior,
        learning_rate=1.0
        if learning_rate is None
        else positive_float("learning_rate", learning_rate),
        forced=forced,
        batch=1 if batch is None else positive_int("batch", batch),
        horizon=horizon,
        share_rate=rate,
        cap=None if cap is None else whole_number("max_resamples", cap, high=LARGEST_HORIZON),
    )
    comparison = Comparison(n, horizon, switches, prior)
    if budget is None or n == 1 or horizon == 1 or drawn.cap == 0:
        # Privacy limits nothing.
        if learning_rate is None:
            best = comparison.best_learning_rate(drawn.batch, drawn.share_rate)
            drawn = replace(drawn, learning_rate=best)
    else:
        asked = (
            None if batch is None else drawn.batch,
            None if forced_switch is None else drawn.forced,
            None if share_rate is None else drawn.share_rate,
        )
        own = None if learning_rate is None else drawn.learning_rate
        found = Search(comparison, budget, own, asked, drawn.cap).plan()
        drawn = replace(
            drawn,
            learning_rate=found.learning_rate,
            forced=found.forced_switch,
            batch=found.batch,
            share_rate=found.share_rate,
        )
    plan = Plan(drawn, TrackerTuning(switches), Forecast(None, "oblivious"))
    return replace(plan, forecast=Forecast(regret(plan)[0], "oblivious"))


def regret(plan: TrackerPlan) -> tuple[float | None, dict[str, float]]:
    """Return the bound, None where nothing is claimed for a whole stream, and its terms."""
    drawn = plan.mechanism
    if drawn.experts == 1:
        return 0.0, {"prior": 0.0, "learning": 0.0}
    comparison = Comparison(drawn.experts, drawn.horizon, plan.tuning.switches, drawn.prior)
    cost = comparison.prior_cost(drawn.share_rate)
    if cost == math.inf:
        return None, {}
    suffix = ", a round" if drawn.horizon is None else ""
    terms = {
        f"prior{suffix}": cost / drawn.learning_rate,
        f"learning{suffix}": 0.125 * drawn.learning_rate * comparison.squares(drawn.batch),
    }
    capped = drawn.cap is not None and drawn.cap < drawn.draws.boundaries
    return (None if capped or drawn.horizon is None else math.fsum(terms.values())), terms
