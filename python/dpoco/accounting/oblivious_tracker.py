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
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from dpoco._validation import LARGEST_HORIZON, MissingHorizonError, positive_int, whole_number
from dpoco.accounting._share_regret import best_share_rate
from dpoco.accounting._tracker_search import Comparison, Search, largest_share_rate
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.regret_bounds import uniform_is_as_good
from dpoco.accounting.statement import expert_guarantee, expert_mechanism
from dpoco.privacy.losses.flagged_draws import PRIORS, FlaggedDraws
from dpoco.privacy.mechanisms.tracker_draws import (
    SMALLEST_FORCED,
    SMALLEST_SHARE_RATE,
    TrackerDraws,
)

__all__ = ["ObliviousTrackerParameters", "calibrate", "guarantee", "mechanism_of"]

guarantee, mechanism_of = expert_guarantee, expert_mechanism


@dataclass(frozen=True, kw_only=True)
class ObliviousTrackerParameters(Parameters):
    """Parameters of the oblivious tracker.

    Attributes
    ----------
    experts : int
        N, at least 1.
    horizon : int or None
        Rounds T; None is an endless stream (share prior with a positive rate, when private).
    switches : int
        S, switches of the sequences of experts to compare with, as asked for. The mechanism
        and the regret bound use min(S, T - 1).
    prior : {"share", "at_most"}
        Law of the sequence of experts before any loss: a Markov chain that leaves its expert with
        probability `share_rate` a round, or uniform over all sequences of at most S switches.
    learning_rate : float
        eta, per unit of loss.
    forced_switch : float
        p in [0, 1]: probability of a fresh draw at the end of a batch, whatever the losses. At
        least 1e-9 if private.
    batch : int
        B, rounds per decision to keep or to draw afresh.
    share_rate : float or None
        sigma in [0, 1 - 1/N], 0 or at least 1e-100; None with the prior "at_most".
    max_resamples : int or None
        Fresh draws after which the learner follows the prior and neither tosses coins nor draws;
        None is no such cap.
    calibration : {"tight"}
        Accounting by the Renyi divergences of the released path and flags.
    private : bool
        Whether a budget was to be met. False: a baseline about which no privacy is stated.
    regret_bound : float or None
        Bound on the expected regret against any sequence of S switches, for losses fixed in
        advance; None for an endless stream and where a cap can end the learning. Derived, as is
        all below.
    regret_terms : dict of str to float
        Terms of the bound, of the bound as long as no cap is hit, or of the bound per round of an
        endless stream.
    regret_scope : {"oblivious"}
        Losses the bound holds for: fixed in advance.
    """

    kind: ClassVar[str] = "dpoco.oblivious_tracker_parameters"

    experts: int
    horizon: int | None
    switches: int = at_least(0, LARGEST_HORIZON)
    prior: str = one_of(*PRIORS)
    learning_rate: float
    forced_switch: float = at_least(0.0, 1.0)
    batch: int
    share_rate: float | None = at_least(0.0)
    max_resamples: int | None = at_least(0, LARGEST_HORIZON)
    calibration: str = one_of("tight", default="tight")
    private: bool
    regret_bound: float | None = at_least(0.0, default=None)
    regret_terms: dict[str, float] = field(default_factory=dict)
    regret_scope: str = one_of("oblivious", default="oblivious")

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too; share_rate 1 - 1/N is meant exactly."""
        super().__post_init__()
        if (self.share_rate is None) != (self.prior == "at_most"):
            raise ValueError("share_rate belongs to the prior 'share', and to it only")
        if self.share_rate is not None:
            rate, largest = self.share_rate, largest_share_rate(self.experts)
            if 0.0 < rate < SMALLEST_SHARE_RATE or rate > largest * (1.0 + 1e-12):
                raise ValueError(
                    f"share_rate must be 0 or in [{SMALLEST_SHARE_RATE:g}, 1 - 1/experts = "
                    f"{largest:.6g}]; got {rate!r}"
                )
            object.__setattr__(self, "share_rate", min(rate, largest))
        if self.private and self.forced_switch < SMALLEST_FORCED:
            raise ValueError(
                f"forced_switch must be at least {SMALLEST_FORCED:g} for a private learner"
            )
        if self.horizon is None and self.prior != "share":
            raise ValueError("an endless stream needs the prior 'share'")
        if self.horizon is None and self.private and self.experts > 1 and not self.share_rate:
            raise ValueError("an endless private stream needs share_rate > 0")

    @property
    def noise_dominates(self) -> bool:
        """Whether noise makes the regret bound no better than that of uniform draws."""
        return self.private and uniform_is_as_good(self.experts, self.horizon, self.regret_bound)

    def mechanism(self) -> TrackerDraws:
        """Return what is drawn."""
        return TrackerDraws(
            experts=self.experts,
            prior=self.prior,
            learning_rate=self.learning_rate,
            forced=self.forced_switch,
            batch=self.batch,
            horizon=self.horizon,
            share_rate=self.share_rate,
            cap=self.max_resamples,
        )

    def stated(self, mechanism: TrackerDraws) -> dict[str, Any]:
        """Return further fields of the guarantee."""
        bound, terms = _regret(self)
        details: dict[str, float | str | None] = {
            "learning rate": self.learning_rate,
            "forced switch": self.forced_switch,
            "batch": float(self.batch),
            "share rate": self.share_rate,
            "switches compared with": None if self.horizon is None else float(self.switches),
            **{f"regret: {name}": value for name, value in terms.items()},
        }
        if bound is None and terms and self.horizon is not None:
            details["regret bound until the cap"] = math.fsum(terms.values())
        conditions: tuple[str, ...] = (
            CLIPPED_LOSSES,
            "Fresh draws have exact tails (races of exponential variates), and the grid of the "
            "coins' uniform variates is accounted for.",
        )
        if mechanism.draws.constant:
            conditions = ("No release depends on the losses: there is nothing to learn from.",)
        return {
            "released": f"the played experts of the oblivious tracker (N = {self.experts}, prior "
            f"{self.prior!r}) and which of them are fresh draws",
            "reference": "coin and draws of bounded range, composed by Renyi divergences; "
            "docs/privacy/tracker_accounting.md",
            "conditions": conditions,
            "regret_bound": bound,
            "regret_scope": self.regret_scope,
            "details": details,
        }


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
    p = ObliviousTrackerParameters(
        experts=n,
        horizon=horizon,
        switches=switches,
        prior=prior,
        learning_rate=1.0 if learning_rate is None else learning_rate,
        forced_switch=float(private) if forced_switch is None else forced_switch,
        batch=1 if batch is None else batch,
        share_rate=rate,
        max_resamples=max_resamples,
        private=private,
    )
    comparison = _comparison(p)
    if budget is None or p.experts == 1 or p.horizon == 1 or p.max_resamples == 0:
        # Privacy limits nothing.
        if learning_rate is None:
            best = comparison.best_learning_rate(p.batch, p.share_rate)
            p = replace(p, learning_rate=best)
    else:
        asked = (
            None if batch is None else p.batch,
            None if forced_switch is None else p.forced_switch,
            None if share_rate is None else p.share_rate,
        )
        draws = Search(comparison, budget, learning_rate, asked, p.max_resamples).plan()
        found = ("learning_rate", "forced_switch", "batch", "share_rate")
        p = replace(p, **{name: getattr(draws, name) for name in found})
    bound, terms = _regret(p)
    return replace(p, regret_bound=bound, regret_terms=terms)


def _draws(p: ObliviousTrackerParameters) -> FlaggedDraws:
    """Return what the parameters draw, private or not."""
    names = [each.name for each in fields(FlaggedDraws) if each.init]
    return FlaggedDraws(**{name: getattr(p, name) for name in names})


def _comparison(p: ObliviousTrackerParameters) -> Comparison:
    return Comparison(p.experts, p.horizon, p.switches, p.prior)


def _regret(p: ObliviousTrackerParameters) -> tuple[float | None, dict[str, float]]:
    """Return the bound, None where nothing is claimed for a whole stream, and its terms."""
    if p.experts == 1:
        return 0.0, {"prior": 0.0, "learning": 0.0}
    comparison, draws = _comparison(p), _draws(p)
    cost = comparison.prior_cost(p.share_rate)
    if cost == math.inf:
        return None, {}
    suffix = ", a round" if p.horizon is None else ""
    terms = {
        f"prior{suffix}": cost / p.learning_rate,
        f"learning{suffix}": 0.125 * p.learning_rate * comparison.squares(p.batch),
    }
    capped = p.max_resamples is not None and p.max_resamples < draws.boundaries
    return (None if capped or p.horizon is None else math.fsum(terms.values())), terms
