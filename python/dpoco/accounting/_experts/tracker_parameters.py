"""Everything calibration fixes for the oblivious tracker, what is asked of it, and its regret.

The stored value carries no claim of its own: `dpoco.accounting.oblivious_tracker.guarantee`
recomputes privacy and regret from the fields that describe the mechanism.

Claim: against losses fixed in advance and any sequence of experts with S switches, the expected
regret is at most L / eta + eta Q / 8, L = -log of the sequence's prior mass and Q the sum of the
squared lengths of the batches. On an endless stream, a round of a stream whose sequences switch
at the rate sigma costs at most h(sigma) / eta + eta B / 8 in the long run.

Proof: ``docs/privacy/tracker_accounting.md``, section "Regret".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting._experts.parameters import (
    StoredParameters,
    at_least_zero,
    check_terms,
    count_of,
    in_unit_interval,
    uniform_is_as_good,
)
from dpoco.accounting._experts.share_regret import best_share_rate, log_class_size, share_log_prior
from dpoco.privacy.losses.flagged_draws import PRIORS, FlaggedDraws
from dpoco.privacy.mechanisms.tracker_draws import SMALLEST_FORCED, SMALLEST_SHARE_RATE

__all__ = [
    "CALIBRATIONS",
    "PRIORS",
    "SMALLEST_FORCED",
    "Comparison",
    "ObliviousTrackerParameters",
    "Request",
    "checked_request",
    "largest_share_rate",
]

CALIBRATIONS = ("tight",)


@dataclass(frozen=True)
class ObliviousTrackerParameters(StoredParameters):
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

    experts: int
    horizon: int | None
    switches: int
    prior: str
    learning_rate: float
    forced_switch: float
    batch: int
    share_rate: float | None
    max_resamples: int | None
    calibration: str
    private: bool
    regret_bound: float | None
    regret_terms: dict[str, float]
    regret_scope: str = "oblivious"

    _kind: ClassVar[str] = "dpoco.oblivious_tracker_parameters"

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        put = object.__setattr__
        put(self, "experts", positive_int("experts", self.experts))
        if self.horizon is not None:
            put(self, "horizon", positive_int("horizon", self.horizon))
        put(self, "switches", count_of("switches", self.switches))
        choice("prior", self.prior, PRIORS)
        put(self, "learning_rate", positive_float("learning_rate", self.learning_rate))
        put(self, "forced_switch", in_unit_interval("forced_switch", self.forced_switch))
        put(self, "batch", positive_int("batch", self.batch))
        put(self, "share_rate", check_share_rate(self.share_rate, self.prior, self.experts))
        if self.max_resamples is not None:
            put(self, "max_resamples", count_of("max_resamples", self.max_resamples))
        choice("calibration", self.calibration, CALIBRATIONS)
        if not isinstance(self.private, bool):
            raise TypeError(f"private must be a bool; got {type(self.private).__name__}")
        if self.private and self.forced_switch < SMALLEST_FORCED:
            raise ValueError(
                f"forced_switch must be at least {SMALLEST_FORCED:g} for a private learner"
            )
        if self.horizon is None:
            if self.prior != "share":
                raise ValueError("an endless stream needs the prior 'share'")
            if self.private and self.experts > 1 and not self.share_rate:
                raise ValueError("an endless private stream needs share_rate > 0")
        if self.regret_bound is not None:
            put(self, "regret_bound", at_least_zero("regret_bound", self.regret_bound))
        put(self, "regret_terms", check_terms("regret_terms", self.regret_terms))
        choice("regret_scope", self.regret_scope, ("oblivious",))

    @property
    def noise_dominates(self) -> bool:
        """Whether noise makes the regret bound no better than that of uniform draws."""
        return self.private and uniform_is_as_good(self.experts, self.horizon, self.regret_bound)


def check_share_rate(value: Any, prior: str, experts: int) -> float | None:
    """Return sigma checked against the prior, clamped to 1 - 1/N exactly; or raise."""
    if prior == "at_most":
        if value is not None:
            raise ValueError("share_rate belongs to the prior 'share'")
        return None
    rate = at_least_zero("share_rate", value)
    largest = largest_share_rate(experts)
    if rate > largest * (1.0 + 1e-12):
        raise ValueError(f"share_rate must be at most 1 - 1/experts = {largest:.6g}; got {rate!r}")
    if 0.0 < rate < SMALLEST_SHARE_RATE:
        raise ValueError(f"share_rate must be 0 or at least {SMALLEST_SHARE_RATE:g}; got {rate!r}")
    return min(rate, largest)


def largest_share_rate(experts: int) -> float:
    """Return 1 - 1/N: there, the next expert is uniform whatever the last one."""
    return (experts - 1.0) / experts


class Comparison(NamedTuple):
    """With which sequences of experts the tracker is compared."""

    experts: int
    horizon: int | None
    switches: int
    prior: str

    def prior_cost(self, share_rate: float | None) -> float:
        """Return L; for an endless stream h(sigma), what a round adds to it."""
        n, rounds = self.experts, self.horizon
        if n == 1:
            return 0.0
        if rounds is None:
            assert share_rate is not None
            stay = (share_rate - 1.0) * math.log1p(-share_rate)
            return stay + (share_rate * math.log((n - 1.0) / share_rate) if share_rate else 0.0)
        switches = min(self.switches, rounds - 1)
        if self.prior == "at_most":
            return log_class_size(n, rounds, switches)
        assert share_rate is not None
        return share_log_prior(n, rounds, switches, share_rate)

    def squares(self, batch: int) -> float:
        """Return Q; for an endless stream what a round adds to it."""
        if self.horizon is None:
            return float(batch)
        full, rest = divmod(self.horizon, batch)
        return float(full) * batch * batch + float(rest) * rest

    def best_learning_rate(self, batch: int, share_rate: float | None) -> float:
        """Return the eta of the least bound; 1 if none is, for a cost of 0."""
        cost = self.prior_cost(share_rate)
        return math.sqrt(8.0 * cost / self.squares(batch)) if 0.0 < cost < math.inf else 1.0

    def terms(
        self, learning_rate: float, batch: int, share_rate: float | None
    ) -> dict[str, float] | None:
        """Return the two terms of the bound; None if there is no bound."""
        if self.experts == 1:
            return {"prior": 0.0, "learning": 0.0}
        cost = self.prior_cost(share_rate)
        if cost == math.inf:
            return None
        suffix = ", a round" if self.horizon is None else ""
        return {
            f"prior{suffix}": cost / learning_rate,
            f"learning{suffix}": 0.125 * learning_rate * self.squares(batch),
        }


class Request(NamedTuple):
    """What is asked for; None where the search is free."""

    comparison: Comparison
    learning_rate: float | None
    forced_switch: float | None
    batch: int | None
    share_rate: float | None
    max_resamples: int | None

    def without_search(self, forced_switch: float) -> FlaggedDraws:
        """Return the mechanism of the best eta, for a stream that privacy does not limit."""
        c, rate, batch = self.comparison, self.share_rate, self.batch or 1
        if rate is None and c.prior == "share" and c.horizon is not None:
            rate = best_share_rate(c.experts, c.horizon, c.switches)
        forced = forced_switch if self.forced_switch is None else self.forced_switch
        eta = self.learning_rate or c.best_learning_rate(batch, rate)
        cap = self.max_resamples
        return FlaggedDraws(eta, forced, batch, c.horizon, rate, c.experts, c.prior, cap)


def checked_request(
    *,
    experts: Any,
    horizon: Any,
    private: bool,
    switches: Any,
    prior: Any,
    learning_rate: Any,
    forced_switch: Any,
    batch: Any,
    share_rate: Any,
    max_resamples: Any,
) -> Request:
    """Return the arguments of calibration, checked; `ValueError` or `TypeError` if they are bad."""
    n = positive_int("experts", experts)
    rounds = None if horizon is None else positive_int("horizon", horizon)
    choice("prior", prior, PRIORS)
    eta = None if learning_rate is None else positive_float("learning_rate", learning_rate)
    forced = None if forced_switch is None else in_unit_interval("forced_switch", forced_switch)
    if private and forced is not None and forced < SMALLEST_FORCED:
        raise ValueError(f"forced_switch must be at least {SMALLEST_FORCED:g} with a budget")
    rate = None if share_rate is None else check_share_rate(share_rate, prior, n)
    moves = count_of("switches", switches)
    if rounds is None:
        if prior != "share":
            raise ValueError("an endless stream needs the prior 'share'")
        if n == 1:
            rate = 0.0
        elif rate is None:
            raise ValueError("an endless stream needs share_rate")
        elif private and rate == 0.0:
            raise ValueError("an endless private stream needs share_rate > 0")
    elif rate == 0.0 and moves and n > 1 and rounds > 1:
        raise ValueError("share_rate 0 never switches, but switches is positive")
    return Request(
        comparison=Comparison(n, rounds, moves, prior),
        learning_rate=eta,
        forced_switch=forced,
        batch=None if batch is None else positive_int("batch", batch),
        share_rate=rate,
        max_resamples=None if max_resamples is None else count_of("max_resamples", max_resamples),
    )
