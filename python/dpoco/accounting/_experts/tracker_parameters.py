"""Everything calibration fixes for the oblivious tracker, as one stored value.

The value carries no claim of its own: `dpoco.accounting.oblivious_tracker.guarantee` recomputes
privacy and regret from the fields that describe the mechanism.

Proof: ``docs/privacy/tracker_accounting.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting._experts.parameters import (
    StoredParameters,
    at_least_zero,
    check_terms,
    count_of,
    in_unit_interval,
    uniform_is_as_good,
)

__all__ = ["CALIBRATIONS", "PRIORS", "SMALLEST_FORCED_SWITCH", "ObliviousTrackerParameters"]

CALIBRATIONS = ("tight",)
PRIORS = ("share", "at_most")
# Below, coins computed in double precision would not be covered by the proof.
SMALLEST_FORCED_SWITCH = 1e-9
# Below, weights would leave the range of doubles.
SMALLEST_SHARE_RATE = 1e-100


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
        if self.private and self.forced_switch < SMALLEST_FORCED_SWITCH:
            raise ValueError(
                f"forced_switch must be at least {SMALLEST_FORCED_SWITCH:g} for a private learner"
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
