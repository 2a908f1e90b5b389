"""Renyi divergences of the oblivious tracker: its path with flags that tell fresh draws.

Claim: when one round changes, the logarithm of the moment of order a is at most that of one coin
followed by a draw of range 2 eta tau, plus one flagged draw of range r_k = 2 eta tau^(B k + 1) for
each later end of a batch, k = 1, ..., ceil(T / B) - 2, made with probability at most q. tau is how
much of a log-likelihood ratio survives one round of the prior.

Proof: ``docs/privacy/tracker_accounting.md``. Source: Asi, Raman and Saha, "Tracking the
best expert privately" (the learner); the accounting is ours.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting._experts.tracker_series import RangeSeries
from dpoco.accounting.bounded_range import moment
from dpoco.accounting.rdp import DEFAULT_ORDERS

__all__ = ["ORDERS", "Tracker", "coin_moments", "pure_bound", "tracker_moments"]

FloatArray = NDArray[np.float64]

# Where the account is taken. The best order for (epsilon, delta) is up to 2 ln(1/delta) / epsilon:
# these reach far enough for epsilon = 1e-7.
ORDERS: tuple[float, ...] = (
    *DEFAULT_ORDERS,
    *(1.0 + 2.0 ** (12.0 + 0.25 * k) for k in range(1, 73)),
)

# How far the grid of a uniform variate and its rounding to a double move a coin's probability.
_COIN_GRID = 2.0**-50
# Neighbouring ranges of the series are grouped up to this factor.
_FINE = 0.9
# The result is rounded up by this, relatively, and by 1e-14 times the order.
_ROUNDING = 1e-10


class Tracker(NamedTuple):
    """What privacy depends on; fields as in ``ObliviousTrackerParameters``."""

    learning_rate: float
    forced_switch: float
    batch: int
    horizon: int | None
    share_rate: float | None
    experts: int
    prior: str
    max_resamples: int | None

    @property
    def boundaries(self) -> float:
        """Ends of batches at which the learner may draw afresh, ceil(T / B) - 1; may be inf."""
        if self.horizon is None:
            return math.inf
        return float(-(-self.horizon // self.batch) - 1)

    @property
    def constant(self) -> bool:
        """Whether nothing the learner plays depends on data."""
        return self.experts == 1 or self.boundaries == 0.0 or self.max_resamples == 0

    @property
    def log_forgetting(self) -> float:
        """Logarithm of tau: 0 if the prior forgets nothing, -infinity if all in one round."""
        sigma, others = self.share_rate, self.experts - 1.0
        if self.prior == "at_most" or not sigma or sigma < 1e-290:
            return 0.0
        forgotten = 2.0 * sigma / (others * (1.0 - sigma) + sigma)
        return math.log1p(-forgotten) if forgotten < 1.0 else -math.inf

    @property
    def series(self) -> RangeSeries:
        """Ranges of the draws at the later boundaries, k = 0 being the changed batch's own."""
        decay = self.log_forgetting
        first = 2.0 * self.learning_rate * math.exp(decay)
        return RangeSeries(first, self.batch * decay if decay else 0.0)

    @property
    def resample_probability(self) -> float:
        """Largest probability q of a fresh draw at the end of a batch."""
        keep = (1.0 - self.forced_switch) * math.exp(-self.learning_rate * self.batch)
        return min(1.0, 1.0 - keep + _COIN_GRID)

    @property
    def coin(self) -> tuple[float, float, float]:
        """Return (p, log of the ratio on "draw", log of the ratio on "keep") of the worst coin."""
        keep = (1.0 - self.forced_switch) * math.exp(-self.learning_rate * self.batch)
        forced, error = self.forced_switch - _COIN_GRID, _COIN_GRID / keep if keep else math.inf
        if not forced > 0.0 or error > 0.25:
            return (forced, math.inf, math.inf)
        eta = self.learning_rate + math.log1p(error) - math.log1p(-error)
        return (forced, math.log1p(-(1.0 - forced) * math.expm1(-eta) / forced), eta)


def tracker_moments(
    tracker: Tracker,
    orders: FloatArray,
    *,
    group_ratio: float = _FINE,
    any_forced: bool = False,
) -> FloatArray:
    """Return order - 1 times the Renyi divergence bound, at every order.

    Parameters
    ----------
    tracker : Tracker
        The mechanism.
    orders : ndarray of shape (k,)
        Orders above 1.
    group_ratio : float
        In (0, 1): coarser groups of the series are faster and still upper bounds.
    any_forced : bool
        Leave out what p adds, the coin and the forced draws: the result is then below that for
        any p with the same orders and groups (for searches; no bound on the divergence).

    Returns
    -------
    ndarray of shape (k,)
        Never below the exact sum; above it by less than 2 % at orders below 1.5 / eta, 10 % at any
        other (more where the order exceeds 5e5 and ranges are below 1e-6, which have a simple
        bound). Infinite where nothing is known. O(k) times at most 70 groups, about 3 ms for all
        of `ORDERS`.
    """
    if tracker.constant:
        return np.zeros_like(orders)
    series, boundaries = tracker.series, tracker.boundaries
    if any_forced:
        tracker = tracker._replace(forced_switch=0.0)
    first = moment(np.asarray(series.first), orders)
    later = series.flagged_moments(
        1, boundaries - 1.0, tracker.resample_probability, orders, group_ratio
    )
    total = later + (first if any_forced else coin_moments(tracker, orders, first))
    if tracker.max_resamples is not None and tracker.max_resamples < boundaries:
        draws = first + series.flagged_moments(
            1, tracker.max_resamples - 1.0, 1.0, orders, group_ratio
        )
        if not any_forced:
            draws = draws + coin_moments(tracker, orders, np.zeros_like(orders))
        total = np.minimum(total, draws)
    return np.asarray(total * (1.0 + _ROUNDING) + 1e-14 * orders)


def coin_moments(tracker: Tracker, orders: FloatArray, draw: FloatArray) -> FloatArray:
    """Return the moments of the changed batch's coin, with a draw of moments `draw` if it falls so.

    The larger over both orders of the two coins, and of the draw alone.
    """
    if tracker.forced_switch == 1.0:
        return draw
    forced, on_draw, on_keep = tracker.coin
    if on_draw == math.inf:
        return np.full_like(orders, math.inf)
    a = orders
    log_p, log_stay = math.log(forced), math.log1p(-forced)
    log_q, log_low = log_p + on_draw, log_stay - on_keep
    up = np.logaddexp(a * on_draw + log_p + draw, log_low - (a - 1.0) * on_keep)
    down = np.logaddexp(log_q - a * on_draw + draw, a * on_keep + log_low)
    return np.asarray(np.maximum(np.maximum(up, down), draw))


def pure_bound(tracker: Tracker) -> float:
    """Return the epsilon at delta = 0; infinite for an endless stream that forgets nothing."""
    if tracker.constant:
        return 0.0
    series, later = tracker.series, tracker.boundaries - 1.0
    if tracker.forced_switch == 1.0:
        on_draw, on_keep = 0.0, -math.inf
    else:
        _, on_draw, on_keep = tracker.coin
    cap = math.inf if tracker.max_resamples is None else float(tracker.max_resamples)
    drawn = on_draw + series.first + series.total(1, min(later, cap - 1.0))
    kept = on_keep + series.total(1, min(later, cap))
    return max(drawn, kept) * (1.0 + 1e-12)
