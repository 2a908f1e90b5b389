"""Coins and draws of shrinking bounded range: a lazily played path, with flags at fresh draws.

Claim: when one round changes, the logarithm of the moment of order a is at most that of one coin
followed by a draw of range 2 eta tau, plus one flagged draw of range r_k = 2 eta tau^(B k + 1) for
each later end of a batch, k = 1, ..., ceil(T / B) - 2, made with probability at most q. tau is how
much of a log-likelihood ratio survives one round of the prior.

Proof: ``docs/privacy/tracker_accounting.md``. Source: Asi, Raman and Saha, "Tracking the
best expert privately" (the learner); the accounting is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpoco.privacy.losses.bounded_range import RangeSeries, moment
from dpoco.privacy.losses.loss import ORDERS as COMMON_ORDERS
from dpoco.privacy.losses.loss import FloatArray, Loss

__all__ = ["ORDERS", "PRIORS", "FlaggedDraws", "rounded_up"]

PRIORS = ("share", "at_most")
# Orders at which divergences are computed. The best order for (epsilon, delta) is at most about
# 2 ln(1/delta) / epsilon, so these orders suffice down to epsilon = 1e-7.
ORDERS: FloatArray = np.concatenate(
    [COMMON_ORDERS, 1.0 + 2.0 ** (12.0 + 0.25 * np.arange(1.0, 73.0))]
)
ORDERS.flags.writeable = False

# Least charge for the rounding of a coin's probability; see `coin_error`.
_COIN_ERROR = 2.0**-50
# Least ratio of the smallest to the largest range in a group of the series, about.
_FINE = 0.9
# The result is raised by this relative margin, and by 1e-14 times the order.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class FlaggedDraws(Loss):
    """A path over `experts` that is redrawn at ends of batches, with a flag at each fresh draw.

    Attributes
    ----------
    learning_rate : float
        eta, per unit of loss.
    forced_switch : float
        p in [0, 1]: probability of a fresh draw for any losses; at 0 no bound is known.
    batch, horizon : int
        Rounds between two coins, and rounds in total; None is an endless stream.
    share_rate : float or None
        sigma in [0, 1 - 1/N], the rate at which the prior "share" forgets; None with "at_most".
    experts : int
        N.
    prior : {"share", "at_most"}
        Law of the sequence of experts before any loss.
    max_resamples : int or None
        Cap on the fresh draws.
    """

    kind = "tracker"
    orders = ORDERS
    learning_rate: float
    forced_switch: float
    batch: int
    horizon: int | None
    share_rate: float | None
    experts: int
    prior: str
    max_resamples: int | None
    pure: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what no proof is about, and compute the largest log-likelihood ratio."""
        limits = {"horizon": 1, "max_resamples": 0}
        limits = {name: low for name, low in limits.items() if getattr(self, name) is not None}
        self.require(batch=1, experts=1, **limits)
        if self.prior not in PRIORS or (self.share_rate is None) != (self.prior == "at_most"):
            raise ValueError("prior must be 'share' with a share_rate, or 'at_most' without")
        largest = (self.experts - 1.0) / self.experts if self.experts > 1 else 1.0
        if not 0.0 <= (self.share_rate or 0.0) <= largest:
            raise ValueError(f"share_rate must be in [0, 1 - 1/N]; got {self.share_rate!r}")
        if not 0.0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be positive; got {self.learning_rate!r}")
        if not 0.0 <= self.forced_switch <= 1.0:
            raise ValueError(f"forced_switch must be in [0, 1]; got {self.forced_switch!r}")
        object.__setattr__(self, "pure", self._largest_ratio())

    @property
    def boundaries(self) -> float:
        """Ends of batches at which the learner may draw afresh, ceil(T / B) - 1; may be inf."""
        if self.horizon is None:
            return math.inf
        return float(-(-self.horizon // self.batch) - 1)

    @property
    def constant(self) -> bool:
        """Whether no decision of the learner depends on data."""
        return self.experts == 1 or self.boundaries == 0.0 or self.max_resamples == 0

    @property
    def log_forgetting(self) -> float:
        """Logarithm of tau: 0 if the prior never forgets, -infinity if it forgets in one round."""
        sigma, others = self.share_rate, self.experts - 1.0
        # Underestimating how much the prior forgets is safe, because ranges stay larger.
        if self.prior == "at_most" or not sigma or sigma < 1e-290:
            return 0.0
        # This is 1 - tau without cancellation; tau itself rounds to 1 for small rates.
        forgotten = 2.0 * sigma / (others * (1.0 - sigma) + sigma)
        return math.log1p(-forgotten) if forgotten < 1.0 else -math.inf

    @property
    def series(self) -> RangeSeries:
        """Ranges of the draws at the boundaries from the changed batch's (k = 0) on."""
        decay = self.log_forgetting
        first = 2.0 * self.learning_rate * math.exp(decay)
        return RangeSeries(first, self.batch * decay if decay else 0.0)

    @property
    def resample_probability(self) -> float:
        """Largest probability q of a fresh draw at the end of a batch."""
        keep = (1.0 - self.forced_switch) * math.exp(-self.learning_rate * self.batch)
        # Doubles round the probabilities of real coins, so the bound charges more draws than the
        # ideal q has.
        return min(1.0, 1.0 - keep + self.coin_error)

    @property
    def coin_error(self) -> float:
        """Largest change of a coin's probability by rounding.

        The logarithm of a keep probability is a sum of batch + 1 rounded numbers of one sign, so
        its relative error is at most (batch + 4) 2^-53.
        """
        if self.forced_switch == 1.0:
            return 0.0
        least = -math.log1p(-self.forced_switch)
        # From 700 on, e^-x is 0 for all purposes here.
        ends = (least, min(least + self.learning_rate * self.batch, 700.0))
        relative = (self.batch + 4.0) * 2.0**-53
        return max(_COIN_ERROR, *(math.exp(-x) * math.expm1(relative * x) for x in ends))

    @property
    def coin(self) -> tuple[float, float, float]:
        """Return (p, log of the ratio on "draw", log of the ratio on "keep") of the worst coin."""
        keep = (1.0 - self.forced_switch) * math.exp(-self.learning_rate * self.batch)
        # The keep probabilities of both streams are rounded, possibly in opposite directions. So
        # eta is raised by the most that the ratio of the rounded ones can grow
        # (docs/privacy/tracker_accounting.md, "The coins' probabilities").
        grid = self.coin_error
        forced, error = self.forced_switch - grid, grid / keep if keep else math.inf
        if not forced > 0.0 or error > 0.25:
            return (forced, math.inf, math.inf)
        eta = self.learning_rate + math.log1p(error) - math.log1p(-error)
        return (forced, math.log1p(-(1.0 - forced) * math.expm1(-eta) / forced), eta)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return bounds on the divergences of the whole path with its flags."""
        return np.asarray(self.moments(orders) / (orders - 1.0))

    def moments(self, orders: FloatArray, group_ratio: float = _FINE) -> FloatArray:
        """Return order - 1 times the Renyi divergence bound, at every order above 1.

        Never below the exact sum; above it by less than 2 % at orders below 1.5 / eta, 10 % at any
        other. Infinite where nothing is known. O(k) times at most 70 groups, about 3 ms for all
        of `ORDERS`. Coarser groups of the series, a smaller `group_ratio` in (0, 1), are faster.
        """
        if self.constant:
            return np.zeros_like(orders)
        series, boundaries, cap = self.series, self.boundaries, self.max_resamples
        first = moment(np.asarray(series.first), orders)
        total = series.flagged_moments(
            1, boundaries - 1.0, self.resample_probability, orders, group_ratio
        )
        total = total + self.coin_moments(orders, first)
        # Both bounds hold under a cap. The flags make the first smaller if draws are rare. The
        # second has only as many terms as the cap allows, and charges its coin separately.
        if cap is not None and cap < boundaries:
            draws = first + series.flagged_moments(1, cap - 1.0, 1.0, orders, group_ratio)
            draws = draws + self.coin_moments(orders, np.zeros_like(orders))
            total = np.minimum(total, draws)
        return rounded_up(total, orders)

    def coin_moments(self, orders: FloatArray, draw: FloatArray) -> FloatArray:
        """Return the moments of the changed batch's coin, followed on "draw" by the draw `draw`.

        The result is the largest over both orientations of the two coins and the draw alone.
        """
        if self.forced_switch == 1.0:
            return draw
        forced, on_draw, on_keep = self.coin
        if on_draw == math.inf:
            return np.full_like(orders, math.inf)
        a = orders
        log_p, log_stay = math.log(forced), math.log1p(-forced)
        log_q, log_low = log_p + on_draw, log_stay - on_keep
        up = np.logaddexp(a * on_draw + log_p + draw, log_low - (a - 1.0) * on_keep)
        down = np.logaddexp(log_q - a * on_draw + draw, a * on_keep + log_low)
        # After a batch of large losses both streams draw almost surely. The coin then costs
        # nothing, and the draw is charged in full (docs/privacy/tracker_accounting.md, Lemma 3,
        # corner u = 0).
        return np.asarray(np.maximum(np.maximum(up, down), draw))

    def _largest_ratio(self) -> float:
        """Return the epsilon at delta = 0; infinite for an endless stream that forgets nothing."""
        if self.constant:
            return 0.0
        series, later = self.series, self.boundaries - 1.0
        if self.forced_switch == 1.0:
            on_draw, on_keep = 0.0, -math.inf
        else:
            _, on_draw, on_keep = self.coin
        cap = math.inf if self.max_resamples is None else float(self.max_resamples)
        drawn = on_draw + series.first + series.total(1, min(later, cap - 1.0))
        # A "keep" after the changed batch uses up none of the cap, so one more term counts than
        # after a draw.
        kept = on_keep + series.total(1, min(later, cap))
        return max(drawn, kept) * (1.0 + 1e-12)


def rounded_up(moments: FloatArray, orders: FloatArray) -> FloatArray:
    """Return the moments, raised by more than the errors of their terms."""
    return np.asarray(moments * (1.0 + _ROUNDING) + 1e-14 * orders)
