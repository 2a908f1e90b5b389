"""What the tracker's planner asks of points (B, p, sigma): the largest eta, and whether it helps.

A point is worth more than one evaluation of epsilon only if the eta at which it would beat the best
point so far is allowed; and (B, sigma) are dropped for all p at once if that eta is too large even
without what p adds. The search proves nothing: what it finds is checked by the accountant itself.

Proof of the bound and of the accounting: ``docs/privacy/tracker_accounting.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpoco.accounting._experts.tracker_arguments import Request
from dpoco.accounting._experts.tracker_moments import ORDERS, Tracker, pure_bound, tracker_moments
from dpoco.accounting._experts.tracker_parameters import SMALLEST_FORCED_SWITCH, largest_share_rate
from dpoco.accounting._experts.tracker_profile import profile_epsilon, tracker_profile
from dpoco.accounting._experts.tracker_root import last_below
from dpoco.accounting.budget import Budget
from dpoco.accounting.pure import pure_epsilon_at
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_epsilon

__all__ = ["Plan", "Search"]

# Batches on an endless stream.
_LONGEST_BATCH = 2**20
# While searching: fewer orders, coarser groups. Both only overstate epsilon.
_SOME_ORDERS = np.array([*DEFAULT_ORDERS[28::4], *ORDERS[len(DEFAULT_ORDERS) + 1 :: 2]])
_COARSE = 0.8
# No smaller eta is tried, relative to the best without privacy.
_SMALLEST = 1e-30
# Points at which the accountant is asked for the smallest epsilon in reach.
_ASKED = 10


@dataclass(frozen=True)
class Plan:
    """A point of the search: bound, and the mechanism's parameters."""

    bound: float
    tracker: Tracker


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
        self._orders = _SOME_ORDERS[max(reach, DEFAULT_ORDERS[-1]) >= _SOME_ORDERS]

    def tracker(self, eta: float, batch: int, forced: float, rate: float | None) -> Tracker:
        c = self.comparison
        return Tracker(eta, forced, batch, c.horizon, rate, c.experts, c.prior, self.max_resamples)

    def limited(self, batch: int, forced: float) -> float:
        """Return p, lowered so that forced draws alone use at most half of a cap on draws.

        As far as the smallest p allows, and not on an endless stream: there no p could do it.
        """
        cap = self.max_resamples
        if cap is None or self.forced_fixed or self.comparison.horizon is None:
            return forced
        boundaries = self.tracker(1.0, batch, forced, None).boundaries
        if cap >= boundaries:
            return forced
        return max(min(forced, 0.5 * cap / boundaries), SMALLEST_FORCED_SWITCH)

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
                        self.consider(b, min(1.0, max(p * step, SMALLEST_FORCED_SWITCH)), rate)
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
            return self._epsilon(t._replace(learning_rate=math.exp(log_eta))) - self.budget.epsilon

        eta, highest = t.learning_rate, math.sqrt(8.0 * cost / squares)
        if self.learning_rate is None:
            low, high = math.log(eta), math.log(highest)
            eta = min(math.exp(last_below(excess, low, high, 1e-7)), highest)
        t = t._replace(learning_rate=eta)
        if self.learning_rate is not None or eta == highest:
            # Privacy is not what limits eta: take the p that leaks least.
            choices = [t.forced_switch, *(self.limited(t.batch, p) for p in forced)]
            t = min((t._replace(forced_switch=p) for p in choices), key=self._epsilon)
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
        found: list[tuple[float, Tracker]] = []
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

    def _keep(self, cost: float, squares: float, tracker: Tracker) -> None:
        self.best = Plan(self._bound(cost, squares, tracker.learning_rate), tracker)

    @staticmethod
    def point(plan: Plan) -> tuple[int, float, float | None]:
        """Return (B, p, sigma)."""
        return plan.tracker.batch, plan.tracker.forced_switch, plan.tracker.share_rate

    def _meets(self, tracker: Tracker) -> bool:
        """Return whether the budget is met; the accountant itself is asked in doubt only."""
        rough, epsilon = self._rough(tracker), self.budget.epsilon
        return rough <= epsilon or (rough <= 2.0 * epsilon and self._epsilon(tracker) <= epsilon)

    def _rough(self, tracker: Tracker) -> float:
        """Return an upper bound on epsilon, fast."""
        return self._epsilon_of(tracker, pure_bound(tracker), any_forced=False)

    def _floor(self, eta: float, batch: int, rate: float | None) -> float:
        """Return what `_rough` is at least, whatever p: for draws that are not forced alone."""
        at = (eta, batch, rate)
        if at not in self._floors:
            drawn = self.tracker(eta, batch, 1.0, rate)  # the largest ratio without a coin
            self._floors[at] = self._epsilon_of(drawn, pure_bound(drawn), any_forced=True)
        return self._floors[at]

    def _epsilon_of(self, tracker: Tracker, pure: float, any_forced: bool) -> float:
        if self.budget.delta == 0.0:
            return pure
        orders = self._orders
        moments = tracker_moments(tracker, orders, group_ratio=_COARSE, any_forced=any_forced)
        epsilon = rdp_epsilon(orders, moments / (orders - 1.0), self.budget.delta)
        if pure == math.inf:
            return epsilon
        return min(epsilon, pure_epsilon_at(self.budget.delta, pure))

    def _epsilon(self, tracker: Tracker) -> float:
        """Return epsilon, as the guarantee will state it."""
        if self.budget.delta == 0.0:
            return pure_bound(tracker)
        return profile_epsilon(tracker_profile(tracker), self.budget.delta)
