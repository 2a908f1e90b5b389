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
from dataclasses import replace

from dpoco._validation import LARGEST_HORIZON, choice, positive_int
from dpoco.accounting._experts.statement import SCOPES_IN_WORDS, regret_rows
from dpoco.accounting._experts.tracker_parameters import (
    CALIBRATIONS,
    Comparison,
    ObliviousTrackerParameters,
    checked_request,
)
from dpoco.accounting._experts.tracker_search import plan
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.statement import state, stated_delta
from dpoco.privacy.losses.flagged_draws import FlaggedDraws
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Open
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws
from dpoco.privacy.neighbours import Neighbours

__all__ = ["ObliviousTrackerParameters", "calibrate", "guarantee", "mechanism_of"]

_REFERENCE = (
    "coin and draws of bounded range, composed by Renyi divergences; "
    "docs/privacy/tracker_accounting.md"
)


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    calibration: str = "tight",
    switches: int = 0,
    prior: str = "share",
    learning_rate: float | None = None,
    forced_switch: float | None = None,
    batch: int | None = None,
    share_rate: float | None = None,
    max_resamples: int | None = None,
) -> ObliviousTrackerParameters:
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
    calibration : {"tight"}
        Renyi divergences of the released path.
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
    ObliviousTrackerParameters
        Typically after less than a second.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no parameters meet the budget.
    """
    choice("calibration", calibration, CALIBRATIONS)
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget or None; got {type(budget).__name__}")
    request = checked_request(
        experts=experts,
        horizon=horizon,
        private=budget is not None,
        switches=switches,
        prior=prior,
        learning_rate=learning_rate,
        forced_switch=forced_switch,
        batch=batch,
        share_rate=share_rate,
        max_resamples=max_resamples,
    )
    c = request.comparison
    if budget is None:
        tracker = request.without_search(forced_switch=0.0)
    elif c.experts == 1 or c.horizon == 1 or request.max_resamples == 0:
        tracker = request.without_search(forced_switch=1.0)
    else:
        tracker = plan(request, budget).tracker
    bound, terms = _regret(c, tracker)
    return ObliviousTrackerParameters(
        experts=c.experts,
        horizon=c.horizon,
        switches=c.switches,
        prior=c.prior,
        learning_rate=tracker.learning_rate,
        forced_switch=tracker.forced_switch,
        batch=tracker.batch,
        share_rate=tracker.share_rate,
        max_resamples=tracker.max_resamples,
        calibration=calibration,
        private=budget is not None,
        regret_bound=bound,
        regret_terms=terms,
    )


def mechanism_of(experts: int, parameters: ObliviousTrackerParameters) -> Mechanism:
    """Return what the parameters describe.

    Raises
    ------
    ValueError
        If the parameters are those of another number of experts.
    """
    p = parameters
    if positive_int("experts", experts) != p.experts:
        raise ValueError(f"the parameters are for {p.experts} experts, not {experts}")
    if not p.private:
        return Open("nothing is promised")
    if _draws(p).constant:
        return Nothing("there is nothing to learn from")
    return TrackerDraws(
        experts=p.experts,
        prior=p.prior,
        learning_rate=p.learning_rate,
        forced=p.forced_switch,
        batch=p.batch,
        horizon=p.horizon,
        share_rate=p.share_rate,
        cap=p.max_resamples,
    )


def guarantee(
    experts: int,
    parameters: ObliviousTrackerParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from the mechanism they describe.

    Parameters
    ----------
    experts : int
        N; must be that of the parameters.
    parameters : ObliviousTrackerParameters
        Calibrated or the user's own; regret bound and terms are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta; 0 is pure privacy); None means
        1 / (10 horizon).
    seeded : bool
        Whether the draws are reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters are those of another number of experts.
    """
    p, mechanism = parameters, mechanism_of(experts, parameters)
    comparison = Comparison(p.experts, p.horizon, p.switches, p.prior)
    bound, terms = _regret(comparison, _draws(p))
    what = (
        f"the played experts of the oblivious tracker (N = {p.experts}, prior {p.prior!r}) and "
        "which of them are fresh draws"
    )
    details: dict[str, float | str | None] = {
        "learning rate": p.learning_rate,
        "forced switch": p.forced_switch,
        "batch": float(p.batch),
        "share rate": p.share_rate,
        "switches compared with": None if p.horizon is None else float(p.switches),
        **{f"regret: {name}": value for name, value in terms.items()},
    }
    if bound is None and terms and p.horizon is not None:
        details["regret bound until the cap"] = math.fsum(terms.values())
    if isinstance(mechanism, Open):
        none = Guarantee.none(p.horizon or LARGEST_HORIZON, what)
        details = {"regret bound holds for": SCOPES_IN_WORDS[p.regret_scope], **details}
        return replace(none, regret_bound=bound, details=details)
    conditions: tuple[str, ...] = (
        "losses are clipped to their declared range, enforced",
        "fresh draws have exact tails (races of exponential variates); the grid of the coins' "
        "uniform variates is accounted for",
    )
    if isinstance(mechanism, Nothing):
        conditions = ("no release depends on the losses: there is nothing to learn from",)
    return state(
        mechanism,
        Neighbours(),
        released=what,
        horizon=p.horizon,
        delta=stated_delta(budget, p.horizon),
        calibration=p.calibration,
        reference=_REFERENCE,
        seeded=seeded,
        conditions=conditions,
        **regret_rows(bound, p.regret_scope, p.experts, p.horizon, details),
    )


def _draws(p: ObliviousTrackerParameters) -> FlaggedDraws:
    """Return what the parameters draw, private or not."""
    return FlaggedDraws(
        p.learning_rate,
        p.forced_switch,
        p.batch,
        p.horizon,
        p.share_rate,
        p.experts,
        p.prior,
        p.max_resamples,
    )


def _regret(comparison: Comparison, tracker: FlaggedDraws) -> tuple[float | None, dict[str, float]]:
    """Return the bound, None where nothing is claimed for a whole stream, and its terms."""
    terms = comparison.terms(tracker.learning_rate, tracker.batch, tracker.share_rate)
    if terms is None:
        return None, {}
    cap = tracker.max_resamples
    capped = cap is not None and cap < tracker.boundaries and comparison.experts > 1
    endless = comparison.horizon is None and comparison.experts > 1
    return (None if capped or endless else math.fsum(terms.values())), terms
