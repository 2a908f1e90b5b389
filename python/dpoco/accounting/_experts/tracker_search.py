"""Search for the parameters of the oblivious tracker with the least regret bound at a budget.

The bound L(sigma) / eta + eta Q(B) / 8 decreases in eta up to the best eta without privacy, so the
largest eta a budget allows is taken, for every B, p and sigma of a grid, and then around the best.
A point is worth more than one evaluation of epsilon only if the eta at which it would beat the best
point so far is allowed; and (B, sigma) are dropped for all p at once if that eta is too large even
without what p adds. The search proves nothing: what it finds is checked by the accountant itself.

Proof of the bound and of the accounting: ``docs/privacy/tracker_accounting.md``. Source of the
root finder: regula falsi, Illinois variant (Dowell and Jarratt, 1971).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting._experts.tracker_parameters import Comparison, Request, largest_share_rate
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import raised
from dpoco.accounting.rdp import rdp_epsilon
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.bounded_range import moment
from dpoco.privacy.losses.flagged_draws import ORDERS, FlaggedDraws, rounded_up
from dpoco.privacy.losses.loss import ORDERS as COMMON_ORDERS
from dpoco.privacy.losses.loss import pure_delta
from dpoco.privacy.mechanisms.tracker_draws import SMALLEST_FORCED

__all__ = ["Plan", "Search", "last_below", "plan"]

FloatArray = NDArray[np.float64]

# Batches on an endless stream.
_LONGEST_BATCH = 2**20
# While searching: fewer orders, coarser groups. Both only overstate epsilon.
_SOME_ORDERS = np.array([*COMMON_ORDERS[28::4], *ORDERS[len(COMMON_ORDERS) + 1 :: 2]])
_COARSE = 0.8
# No smaller eta is tried, relative to the best without privacy.
_SMALLEST = 1e-30
# Points at which the accountant is asked for the smallest epsilon in reach.
_ASKED = 10
# The grid of p.
_FORCED = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4)


@dataclass(frozen=True)
class Plan:
    """A point of the search: bound, and the mechanism's parameters."""

    bound: float
    tracker: FlaggedDraws


class Search:
    """The best point so far, and how to improve it."""

    def __init__(self, request: Request, budget: Budget) -> None:
        self.comparison, self.budget = request.comparison, budget
        self.learning_rate, self.max_resamples = request.learning_rate, request.max_resamples
        self.forced_fixed = request.forced_switch is not None
        self.best: Plan | None = None
        horizon = self.comparison.horizon
        # With a single batch nothing would be learned.
        self.longest = _LONGEST_BATCH if horizon is None else horizon - 1
        self._costs: dict[float | None, float] = {}
        self._floors: dict[tuple[float, int, float | None], float] = {}
        # Orders far above the best one for this budget are no help.
        reach = 16.0 * math.log(1.0 / (budget.delta or 0.5)) / budget.epsilon
        self._orders = _SOME_ORDERS[max(reach, COMMON_ORDERS[-1]) >= _SOME_ORDERS]

    def tracker(self, eta: float, batch: int, forced: float, rate: float | None) -> FlaggedDraws:
        c = self.comparison
        return FlaggedDraws(
            eta, forced, batch, c.horizon, rate, c.experts, c.prior, self.max_resamples
        )

    def limited(self, batch: int, forced: float) -> float:
        """Return p, lowered so that forced draws alone use at most half of a cap on draws.

        As far as the smallest p allows, and not on an endless stream: there no p could do it.
        """
        cap = self.max_resamples
        if cap is None or self.forced_fixed or self.comparison.horizon is None:
            return forced
        boundaries = -(-self.comparison.horizon // batch) - 1
        if cap >= boundaries:
            return forced
        return max(min(forced, 0.5 * cap / boundaries), SMALLEST_FORCED)

    def sweep(
        self, batches: Sequence[int], forced: Sequence[float], rates: Sequence[float | None]
    ) -> None:
        """Make the best point of the grid the best one, unless the best one is better."""
        for b in batches:
            for rate in rates:
                if not self._hopeless(b, rate):
                    for p in forced:
                        self.consider(b, p, rate)

    def _hopeless(self, batch: int, rate: float | None) -> bool:
        """Return whether no p can make these better than the best point."""
        lowest = self._lowest(batch, rate)
        if lowest is None:
            return True
        if self.learning_rate is not None:
            # In doubt `_meets` asks the accountant.
            return self._floor(self.learning_rate, batch, rate) > 2.0 * self.budget.epsilon
        return self._floor(lowest, batch, rate) > self.budget.epsilon

    def _lowest(self, batch: int, rate: float | None) -> float | None:
        """Return the eta from which on the bound may be better than the best; None if nowhere."""
        cost, squares = self._cost(rate), self.comparison.squares(batch)
        if cost == math.inf:
            return None
        if self.best is None:
            return math.sqrt(8.0 * cost / squares) * _SMALLEST
        # Between the roots of cost / eta + eta squares / 8 = best the bound is smaller.
        best = self.best.bound * (1.0 - 1e-9)
        gap = best * best - 0.5 * cost * squares
        return None if gap <= 0.0 else 2.0 * cost / (best + math.sqrt(gap))

    def consider(self, batch: int, forced: float, rate: float | None) -> None:
        """Make this point the best one if it is."""
        forced = self.limited(batch, forced)
        cost, squares = self._cost(rate), self.comparison.squares(batch)
        lowest, highest = self._lowest(batch, rate), math.sqrt(8.0 * cost / squares)
        if lowest is None:
            return
        if self.learning_rate is not None:
            eta = self.learning_rate
            if not self._bound(cost, squares, eta) < (self.best.bound if self.best else math.inf):
                return
            if self._meets(self.tracker(eta, batch, forced, rate)):
                self._keep(cost, squares, self.tracker(eta, batch, forced, rate))
            return

        def excess(log_eta: float) -> float:
            tracker = self.tracker(math.exp(log_eta), batch, forced, rate)
            return self._rough(tracker) - self.budget.epsilon

        low, high = math.log(lowest), math.log(highest)
        if low >= high or excess(low) > 0.0:
            return
        eta = math.exp(last_below(excess, low, high, 1e-3))
        self._keep(cost, squares, self.tracker(eta, batch, forced, rate))

    def descend(
        self, batches: Sequence[int], forced: Sequence[float], rates: Sequence[float | None]
    ) -> None:
        """Improve one coordinate at a time: a good point makes the sweep of all others fast."""
        at = (batches[len(batches) // 3], forced[len(forced) // 2], rates[len(rates) // 3])
        self.consider(*at)
        for _ in range(4):
            before = self.best
            for b in batches:
                self.consider(b, at[1], at[2])
            at = at if self.best is None else self.point(self.best)
            for p in forced:
                self.consider(at[0], p, at[2])
            at = at if self.best is None else self.point(self.best)
            for rate in rates:
                self.consider(at[0], at[1], rate)
            at = at if self.best is None else self.point(self.best)
            if self.best is before:
                break

    def refine(self, batch_free: bool, forced_free: bool, rate_free: bool) -> None:
        """Leave the grid: move B, p and sigma by shrinking factors while it helps."""
        for factor in (1.6, 1.25, 1.12, 1.04):
            for _ in range(4):
                before = self.best
                assert before is not None
                b, p, rate = self.point(before)
                for step in (factor, 1.0 / factor):
                    if batch_free:
                        self.consider(min(max(1, round(b * step)), self.longest), p, rate)
                    if forced_free and p < 1.0:
                        self.consider(b, min(1.0, max(p * step, SMALLEST_FORCED)), rate)
                if rate_free and rate:
                    for near in self._rates_near(rate, factor):
                        self.consider(b, p, near)
                if self.best is before:
                    break

    def _rates_near(self, rate: float, factor: float) -> list[float]:
        """Return sigma moved by a factor, and its distance from the largest one by as much."""
        largest = largest_share_rate(self.comparison.experts)
        rates = [min(rate * factor, largest), rate / factor]
        if rate > 0.4 * largest:
            distance = max(largest - rate, 0.01 * largest)
            rates += [largest - distance / factor, max(largest - distance * factor, rate / factor)]
        return rates

    def finish(self, forced: Sequence[float]) -> Plan:
        """Return the best point with its eta exact, by the accountant itself."""
        assert self.best is not None
        t = self.best.tracker
        cost, squares = self._cost(t.share_rate), self.comparison.squares(t.batch)

        def excess(log_eta: float) -> float:
            return self._epsilon(replace(t, learning_rate=math.exp(log_eta))) - self.budget.epsilon

        eta, highest = t.learning_rate, math.sqrt(8.0 * cost / squares)
        if self.learning_rate is None:
            low, high = math.log(eta), math.log(highest)
            eta = min(math.exp(last_below(excess, low, high, 1e-7)), highest)
        t = replace(t, learning_rate=eta)
        if self.learning_rate is not None or eta == highest:
            # Privacy is not what limits eta: take the p that leaks least.
            choices = [t.forced_switch, *(self.limited(t.batch, p) for p in forced)]
            t = min((replace(t, forced_switch=p) for p in choices), key=self._epsilon)
        return Plan(self._bound(cost, squares, t.learning_rate), t)

    def smallest_epsilon(
        self, batches: Sequence[int], forced: Sequence[float], rates: Sequence[float | None]
    ) -> float:
        """Return the smallest epsilon of the grid, at the fixed eta or the smallest one tried.

        The accountant is asked at the points that look best without it.
        """
        places = []
        for b in batches:
            for rate in rates:
                eta = self.learning_rate
                if eta is None:
                    eta = self.comparison.best_learning_rate(b, rate) * _SMALLEST
                places.append((self._floor(eta, b, rate), eta, b, rate))
        places.sort(key=lambda place: place[0])
        found: list[tuple[float, FlaggedDraws]] = []
        for floor, eta, b, rate in places:
            if len(found) == _ASKED and floor >= found[-1][0]:
                break
            for p in forced:
                tracker = self.tracker(eta, b, self.limited(b, p), rate)
                found.append((self._rough(tracker), tracker))
            found = sorted(found, key=lambda one: one[0])[:_ASKED]
        return min(self._epsilon(tracker) for _, tracker in found)

    def _cost(self, rate: float | None) -> float:
        if rate not in self._costs:
            self._costs[rate] = self.comparison.prior_cost(rate)
        return self._costs[rate]

    def _bound(self, cost: float, squares: float, eta: float) -> float:
        return cost / eta + 0.125 * eta * squares

    def _keep(self, cost: float, squares: float, tracker: FlaggedDraws) -> None:
        self.best = Plan(self._bound(cost, squares, tracker.learning_rate), tracker)

    @staticmethod
    def point(plan: Plan) -> tuple[int, float, float | None]:
        """Return (B, p, sigma)."""
        return plan.tracker.batch, plan.tracker.forced_switch, plan.tracker.share_rate

    def _meets(self, tracker: FlaggedDraws) -> bool:
        """Return whether the budget is met; the accountant itself is asked in doubt only."""
        rough, epsilon = self._rough(tracker), self.budget.epsilon
        return rough <= epsilon or (rough <= 2.0 * epsilon and self._epsilon(tracker) <= epsilon)

    def _rough(self, tracker: FlaggedDraws) -> float:
        """Return an upper bound on epsilon, fast."""
        return self._epsilon_of(tracker.pure, lambda: tracker.moments(self._orders, _COARSE))

    def _floor(self, eta: float, batch: int, rate: float | None) -> float:
        """Return what `_rough` is at least, whatever p: for draws that are not forced alone."""
        at = (eta, batch, rate)
        if at not in self._floors:
            drawn = self.tracker(eta, batch, 1.0, rate)  # the largest ratio without a coin
            self._floors[at] = self._epsilon_of(
                drawn.pure, lambda: unforced_moments(drawn, self._orders, _COARSE)
            )
        return self._floors[at]

    def _epsilon_of(self, pure: float, moments: Callable[[], FloatArray]) -> float:
        if self.budget.delta == 0.0:
            return pure
        return _least_epsilon(self._orders, moments(), pure, self.budget.delta)

    def _epsilon(self, tracker: FlaggedDraws) -> float:
        """Return epsilon, as the guarantee will state it."""
        if self.budget.delta == 0.0:
            return tracker.pure
        return _least_epsilon(ORDERS, tracker.moments(ORDERS), tracker.pure, self.budget.delta)


def unforced_moments(tracker: FlaggedDraws, orders: FloatArray, group_ratio: float) -> FloatArray:
    """Return the moments without what p adds, the coin and the forced draws: no bound.

    Below those for any p with the same orders and groups.
    """
    if tracker.constant:
        return np.zeros_like(orders)
    series, boundaries, cap = tracker.series, tracker.boundaries, tracker.max_resamples
    caused = replace(tracker, forced_switch=0.0).resample_probability
    first = moment(np.asarray(series.first), orders)
    total = series.flagged_moments(1, boundaries - 1.0, caused, orders, group_ratio) + first
    if cap is not None and cap < boundaries:
        draws = first + series.flagged_moments(1, cap - 1.0, 1.0, orders, group_ratio)
        total = np.minimum(total, draws)
    return rounded_up(total, orders)


def _least_epsilon(orders: FloatArray, moments: FloatArray, pure: float, delta: float) -> float:
    """Return the epsilon at `delta` that moments or the largest ratio prove."""
    epsilon = rdp_epsilon(orders, moments / (orders - 1.0), delta)
    if pure == math.inf:
        return epsilon
    gap = delta * (1.0 + math.exp(-pure))
    start = max(0.0, pure + math.log1p(-gap)) if gap < 1.0 else 0.0
    return min(epsilon, raised(start, lambda e: pure_delta(e, pure) <= delta, pure))


def plan(request: Request, budget: Budget) -> Plan:
    """Return the plan of the least bound within the budget; arguments that are given are kept.

    Raises
    ------
    CalibrationError
        If no parameters meet the budget; it names the smallest epsilon in reach.
    """
    comparison, search = request.comparison, Search(request, budget)
    free_p, free_rate = request.forced_switch is None, request.share_rate is None
    batches = [2**k for k in range(search.longest.bit_length())]
    if request.batch is not None:
        batches = [request.batch]
    forced = list(_FORCED) if request.forced_switch is None else [request.forced_switch]
    rates = _rates(comparison) if free_rate else [request.share_rate]
    search.descend(batches, forced, rates)
    search.sweep(batches, forced, rates)
    best = search.best
    if best is None:
        smallest = search.smallest_epsilon(batches, forced, rates)
        raise CalibrationError(
            f"no parameters meet epsilon = {budget.epsilon:.6g} at delta = {budget.delta:.6g} with "
            f"the arguments that were fixed; the smallest epsilon in reach is {smallest:.6g}"
        )
    search.refine(request.batch is None, free_p, free_rate)
    return search.finish(forced if free_p else [])


def _rates(comparison: Comparison) -> list[float | None]:
    """Return the grid of sigma; for no switches also 0.

    Powers of two from S / (T - 1) on, and some from the largest sigma downwards, where the prior
    forgets so fast that small budgets allow a large eta.
    """
    if comparison.prior == "at_most":
        return [None]
    assert comparison.horizon is not None
    largest = largest_share_rate(comparison.experts)
    switches = min(comparison.switches, comparison.horizon - 1)
    rates: set[float] = {largest, largest / 2.0, largest / 8.0}
    rate = max(1, switches) / (comparison.horizon - 1)
    while rate < largest:
        rates.add(rate)
        rate *= 2.0
    return [*([] if switches else [0.0]), *sorted(rates)]


def last_below(
    excess: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Return an x in [low, high], within `tolerance` of the largest with ``excess(x) <= 0``.

    Needs ``excess(low) <= 0`` (else `low` is returned) and an increasing function.
    """
    if excess(high) <= 0.0:
        return high
    at_low = excess(low)
    step = 0.25
    x = low
    while True:  # gallop up
        x = min(high, low + step)
        value = excess(x)
        if value > 0.0:
            break
        low, at_low, step = x, value, 2.0 * step
    upper, at_upper = x, value
    # Illinois variant of regula falsi.
    while upper - low > tolerance:
        if at_upper == math.inf:
            x = 0.5 * (low + upper)
        else:
            x = low - at_low * (upper - low) / (at_upper - at_low)
        x = min(max(x, low + 0.1 * tolerance), upper - 0.1 * tolerance)
        value = excess(x)
        if value <= 0.0:
            low, at_low, at_upper = x, value, 0.5 * at_upper
        else:
            upper, at_upper, at_low = x, value, 0.5 * at_low
    return low
