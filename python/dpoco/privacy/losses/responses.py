"""Randomised responses of one user, one report after the other.

Claim: r reports of one user, each epsilon-private for any two values of the data, whatever was
reported before, are together dominated by r randomised responses, and so

    delta_r(e) = sum_{i: (2i - r) epsilon > e} P_i (1 - e^(e - (2i - r) epsilon)),

P_i the binomial probabilities of r trials with chance 1 / (1 + e^-epsilon). As delta_r(r epsilon)
= 0, this is never worse than adding up.

Proof: ``docs/privacy/local_randomizers.md``. Source: Kairouz, Oh and Viswanath, "The composition
theorem for differential privacy" (2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dpoco.privacy.losses.loss import FloatArray, Loss, check_epsilon, sum_up
from dpoco.privacy.special import special_functions

__all__ = ["LARGEST_REPORTS", "Responses"]

# The law has one entry per report, and the error of log-Gamma values grows with the reports.
LARGEST_REPORTS = 10**6


@dataclass(frozen=True)
class Responses(Loss):
    """`reports` reports, each `each`-private whatever was reported before.

    Delta is rounded up: by a relative 2e-8 for a million reports, 1e-11 for one. O(reports).
    """

    kind = "local_reports"
    names = (("each", "epsilon"),)
    # Records of guarantees contain the delta of a single report, which can only be 0.
    besides = (("delta", 0.0),)
    each: float
    reports: int = 1
    pure: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that describe no reports."""
        if not 0.0 < self.each < math.inf:
            raise ValueError(f"epsilon must be positive and finite; got {self.each!r}")
        if type(self.reports) is not int or not 1 <= self.reports <= LARGEST_REPORTS:
            raise ValueError(f"reports must be in [1, {LARGEST_REPORTS}]; got {self.reports!r}")
        object.__setattr__(self, "pure", sum_up((self.reports, self.each, 1.0)))

    def delta(self, epsilon: float) -> float:
        """Return the exact curve of the responses, rounded up."""
        check_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        log_chances, losses = _law(self.each, self.reports)
        # The difference of two nearly equal numbers has few correct digits, so losses are rounded
        # up.
        losses = losses * (1.0 + 2.0**-50)
        above = losses > epsilon
        gaps = -np.expm1(epsilon - losses[above])
        total = float(np.sum(np.exp(log_chances[above]) * gaps))
        # Log-chances are differences of log-Gamma values of size reports * log(reports). Their
        # absolute error grows with this size, and so does the relative error of the chances.
        slack = 1.0 + 2e-14 * (self.reports + 1000)
        return min(1.0, total * slack * (1.0 + 2.0**-50))


@lru_cache(maxsize=8)
def _law(each: float, reports: int) -> tuple[FloatArray, FloatArray]:
    """Return logarithms of the binomial probabilities of losses > 0, and the losses."""
    gammaln = special_functions().gammaln
    # At epsilon >= 0 only positive losses contribute to delta, so half of the outcomes suffice.
    i = np.arange(reports // 2 + 1, reports + 1, dtype=np.float64)
    choices = gammaln(reports + 1.0) - gammaln(i + 1.0) - gammaln(reports - i + 1.0)
    log_chance = -math.log1p(math.exp(-each))  # of a true answer; a false one has `each` less
    return choices + reports * log_chance - (reports - i) * each, (2.0 * i - reports) * each
