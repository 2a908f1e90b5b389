"""Search for the parameters of the oblivious tracker with the least regret bound at a budget.

The bound L(sigma) / eta + eta Q(B) / 8 decreases in eta up to the best eta without privacy, so the
largest eta a budget allows is taken, for every B, p and sigma of a grid. A point of the grid is
worth more than one evaluation of epsilon only if the eta at which it would beat the best point so
far is allowed. What is found is checked by the accountant itself; the search proves nothing.

Proof of the bound and of the accounting: ``docs/privacy/tracker_accounting.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpoco.accounting._experts.tracker_arguments import Request
from dpoco.accounting._experts.tracker_moments import Tracker, pure_bound, tracker_moments
from dpoco.accounting._experts.tracker_parameters import largest_share_rate
from dpoco.accounting._experts.tracker_profile import profile_epsilon, tracker_profile
from dpoco.accounting._experts.tracker_regret import Comparison
from dpoco.accounting.budget import Budget
from dpoco.accounting.pure import pure_epsilon_at
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_epsilon
from dpoco.errors import CalibrationError

__all__ = ["Plan", "plan"]

_FORCED = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4)
_RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# Batches on an endless stream.
_LONGEST_BATCH = 2**20
# While searching: fewer orders, coarser groups. Both only overstate epsilon.
_SOME_ORDERS = np.array(DEFAULT_ORDERS[28::4])
_COARSE = 0.8
# No smaller eta is tried, relative to the best without privacy.
_SMALLEST = 1e-30


@dataclass(frozen=True)
class Plan:
    """A point of the search: bound, and the mechanism's parameters."""

    bound: float
    tracker: Tracker


def plan(request: Request, budget: Budget) -> Plan:
    """Return the plan of the least bound within the budget; arguments that are given are kept.

    Raises
    ------
    CalibrationError
        If no parameters meet the budget; it names the smallest epsilon in reach.
    """
    comparison, search = request.comparison, _Search(request, budget)
    free_p, free_rate = request.forced_switch is None, request.share_rate is None
    batches = [2**k for k in range(search.longest.bit_length())]
    if request.batch is not None:
        batches = [request.batch]
    forced = list(_FORCED) if request.forced_switch is None else [request.forced_switch]
    rates = _rates(comparison) if free_rate else [request.share_rate]
    search.descend(batches, forced, rates)
    for b in batches:
        for p in forced:
            for rate in rates:
                search.consider(b, p, rate)
    best = search.best
    if best is None:
        smallest = search.smallest_epsilon(batches, forced, rates)
        raise CalibrationError(
            f"no parameters meet epsilon = {budget.epsilon:.6g} at delta = {budget.delta:.6g} with "
            f"the arguments that were fixed; the smallest epsilon in reach is {smallest:.6g}"
        )
    search.refine(request.batch is None, free_p, free_rate)
    return search.finish(forced if free_p else [])


class _Search:
    def __init__(self, request: Request, budget: Budget) -> None:
        self.comparison, self.budget = request.comparison, budget
        self.learning_rate, self.max_resamples = request.learning_rate, request.max_resamples
        self.forced_fixed = request.forced_switch is not None
        self.best: Plan | None = None
        horizon = self.comparison.horizon
        # With a single batch nothing would be learned.
        self.longest = _LONGEST_BATCH if horizon is None else horizon - 1
        self._costs: dict[float | None, float] = {}

    def tracker(self, eta: float, batch: int, forced: float, rate: float | None) -> Tracker:
        c = self.comparison
        return Tracker(eta, forced, batch, c.horizon, rate, c.experts, c.prior, self.max_resamples)

    def limited(self, batch: int, forced: float) -> float:
        """Return p, lowered so that forced draws alone use at most half of a cap on draws."""
        cap = self.max_resamples
        if cap is None or self.forced_fixed:
            return forced
        boundaries = self.tracker(1.0, batch, forced, None).boundaries
        return forced if cap >= boundaries else max(min(forced, 0.5 * cap / boundaries), 1e-6)

    def consider(self, batch: int, forced: float, rate: float | None) -> None:
        """Make this point the best one if it is."""
        forced = self.limited(batch, forced)
        cost, squares = self._cost(rate), self.comparison.squares(batch)
        if cost == math.inf:
            return
        highest = math.sqrt(8.0 * cost / squares)
        lowest = highest * _SMALLEST
        if self.best is not None:
            # Between the roots of cost / eta + eta squares / 8 = best the bound is smaller.
            best = self.best.bound * (1.0 - 1e-9)
            gap = best * best - 0.5 * cost * squares
            if gap <= 0.0:
                return
            lowest = 2.0 * cost / (best + math.sqrt(gap))
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
        eta = math.exp(_last_below(excess, low, high, 1e-3))
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
        largest = largest_share_rate(self.comparison.experts)
        for factor in (1.6, 1.25, 1.12):
            for _ in range(4):
                before = self.best
                assert before is not None
                b, p, rate = self.point(before)
                for step in (factor, 1.0 / factor):
                    if batch_free:
                        self.consider(min(max(1, round(b * step)), self.longest), p, rate)
                    if forced_free and p < 1.0:
                        self.consider(b, min(1.0, max(p * step, 1e-6)), rate)
                    if rate_free and rate:
                        self.consider(b, p, min(rate * step, largest))
                if self.best is before:
                    break

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
            eta = min(math.exp(_last_below(excess, low, high, 1e-7)), highest)
        t = t._replace(learning_rate=eta)
        if self.learning_rate is not None or eta == highest:
            # Privacy is not what limits eta: take the p that leaks least.
            choices = [t.forced_switch, *(self.limited(t.batch, p) for p in forced)]
            t = min((t._replace(forced_switch=p) for p in choices), key=self._epsilon)
        return Plan(self._bound(cost, squares, t.learning_rate), t)

    def smallest_epsilon(
        self, batches: Sequence[int], forced: Sequence[float], rates: Sequence[float | None]
    ) -> float:
        """Return the smallest epsilon of the grid, at the fixed eta or the smallest one tried."""
        best = math.inf
        for b in batches:
            for rate in rates:
                eta = self.learning_rate
                if eta is None:
                    eta = self.comparison.best_learning_rate(b, rate) * _SMALLEST
                for p in forced:
                    best = min(best, self._epsilon(self.tracker(eta, b, p, rate)))
        return best

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
        pure = pure_bound(tracker)
        if self.budget.delta == 0.0:
            return pure
        moments = tracker_moments(tracker, _SOME_ORDERS, group_ratio=_COARSE)
        epsilon = rdp_epsilon(_SOME_ORDERS, moments / (_SOME_ORDERS - 1.0), self.budget.delta)
        if pure == math.inf:
            return epsilon
        return min(epsilon, pure_epsilon_at(self.budget.delta, pure))

    def _epsilon(self, tracker: Tracker) -> float:
        """Return epsilon, as the guarantee will state it."""
        if self.budget.delta == 0.0:
            return pure_bound(tracker)
        return profile_epsilon(tracker_profile(tracker), self.budget.delta)


def _last_below(
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


def _rates(comparison: Comparison) -> list[float | None]:
    """Return the grid of sigma; for no switches also 0."""
    if comparison.prior == "at_most":
        return [None]
    assert comparison.horizon is not None
    largest = largest_share_rate(comparison.experts)
    switches = min(comparison.switches, comparison.horizon - 1)
    unit = max(1, switches) / (comparison.horizon - 1)
    rates: list[float | None] = [] if switches else [0.0]
    for factor in _RATES:
        rate = min(factor * unit, largest)
        if rate not in rates:
            rates.append(rate)
    return rates
