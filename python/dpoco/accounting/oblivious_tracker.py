"""Accounting of the oblivious tracker: exponential weights on all sequences of experts, lazily.

Claim: replacing the losses of one round changes one coin, and changes the law of every later fresh
draw by log-likelihood ratios of bounded range, which shrinks as the prior forgets. The sum of the
Renyi divergences of these covers the played path with flags that mark the fresh draws, even if the
losses react to the path. The expected regret against losses fixed in advance is that of exponential
weights in batches; the coins do not change it.

Proof: ``docs/privacy/tracker_accounting.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately" (2025), Section 4. This learner runs their reduction without its exponential
number of experts; the coin and the accounting are ours.

The search for parameters: the bound L(sigma) / eta + eta Q(B) / 8 decreases in eta up to the best
eta without privacy. So for every B, p and sigma of a grid, and then around the best point, we take
the largest eta that the budget allows. A point needs more than one evaluation of epsilon only if
the eta at which it would beat the best point so far is allowed. A pair (B, sigma) is dropped for
all p at once if that eta is too large even without the contribution of p. The search proves
nothing; the accountant checks its result.

Claim of the bound: against losses fixed in advance and any sequence of experts with S switches, the
expected regret is at most L / eta + eta Q / 8, where L is -log of the sequence's prior mass and Q
is the sum of the squared lengths of the batches. On an endless stream, for sequences that switch at
the rate sigma, a round costs at most h(sigma) / eta + eta B / 8 in the long run.

Proof of the bound and of the accounting: ``docs/privacy/tracker_accounting.md``. Source of the root
finder: regula falsi, Illinois variant (Dowell and Jarratt, 1971).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpoco._validation import (
    LARGEST_HORIZON,
    Fields,
    FloatArray,
    MissingHorizonError,
    choice,
    positive_float,
    positive_int,
    real_float,
    whole_number,
)
from dpoco.accounting.batch_share import best_share_rate, log_class_size, share_log_prior
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES
from dpoco.accounting.gaussian import raise_epsilon
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.rdp import rdp_epsilon
from dpoco.accounting.statement import expert_guarantee
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.bounded_range import moment
from dpoco.privacy.losses.flagged_draws import ORDERS, PRIORS, FlaggedDraws, rounded_up
from dpoco.privacy.losses.loss import ORDERS as COMMON_ORDERS
from dpoco.privacy.losses.loss import pure_delta
from dpoco.privacy.mechanisms.tracker_draws import (
    SMALLEST_FORCED,
    SMALLEST_SHARE_RATE,
    TrackerDraws,
)
from dpoco.privacy.records import Description, limits

__all__ = ["TrackerPlan", "TrackerTuning", "calibrate", "guarantee", "regret"]

Point = tuple[int, float, float | None]  # B, p, sigma

# Largest batch on an endless stream.
_LONGEST_BATCH = 2**20
# Orders for the search: fewer orders and coarser groups, which only overstate epsilon.
_SOME_ORDERS = np.array([*COMMON_ORDERS[28::4], *ORDERS[len(COMMON_ORDERS) + 1 :: 2]])
_COARSE = 0.8
# Smallest eta that is tried, relative to the best one without privacy.
_SMALLEST = 1e-30
# Number of points at which the accountant computes the smallest reachable epsilon.
_ASKED = 10
# Grid for p.
_FORCED = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4)


def largest_share_rate(experts: int) -> float:
    """Return 1 - 1/N, at which the next expert is uniform whatever the last one was."""
    return (experts - 1.0) / experts


class Comparison(NamedTuple):
    """The sequences of experts with which the tracker is compared."""

    experts: int
    horizon: int | None
    switches: int
    prior: str

    @lru_cache(maxsize=1024)  # noqa: B019
    def prior_cost(self, share_rate: float | None) -> float:
        """Return L; for an endless stream return h(sigma), its increase per round."""
        n, rounds = self.experts, self.horizon
        if n == 1:
            return 0.0
        if share_rate is None:
            assert rounds is not None
            return log_class_size(n, rounds, self.switches)
        if rounds is not None:
            return share_log_prior(n, rounds, self.switches, share_rate)
        stay = (share_rate - 1.0) * math.log1p(-share_rate)
        return stay + (share_rate * math.log((n - 1.0) / share_rate) if share_rate else 0.0)

    def squares(self, batch: int) -> float:
        """Return Q; for an endless stream return its increase per round."""
        if self.horizon is None:
            return float(batch)
        full, rest = divmod(self.horizon, batch)
        return float(full) * batch * batch + float(rest) * rest

    def best_learning_rate(self, batch: int, share_rate: float | None) -> float:
        """Return the eta with the least bound; 1 if there is none, for a cost of 0."""
        cost = self.prior_cost(share_rate)
        return math.sqrt(8.0 * cost / self.squares(batch)) if 0.0 < cost < math.inf else 1.0


@dataclass
class Search:
    """The best point so far, and its search; `asked` has B, p and sigma, None if free."""

    comparison: Comparison
    budget: Budget
    learning_rate: float | None
    asked: tuple[int | None, float | None, float | None]
    max_resamples: int | None
    best: FlaggedDraws | None = None
    at: Point | None = None
    bound: float = math.inf

    def __post_init__(self) -> None:
        """Set up the grid of free parameters, and the orders that can matter for this budget."""
        horizon, (batch, forced, rate) = self.comparison.horizon, self.asked
        # With a single batch, nothing would be learned.
        self.longest = _LONGEST_BATCH if horizon is None else horizon - 1
        self.grid = (
            [2**k for k in range(self.longest.bit_length())] if batch is None else [batch],
            list(_FORCED) if forced is None else [forced],
            self._rates() if rate is None else [rate],
        )
        self._floors: dict[tuple[float, int, float | None], float] = {}
        # Orders far above the best one for this budget do not help. The best order is at most 2
        # log(1 / delta) / epsilon (docs/privacy/tracker_accounting.md), so eight times this value
        # excludes no useful order.
        reach = 16.0 * math.log(1.0 / (self.budget.delta or 0.5)) / self.budget.epsilon
        self._orders = _SOME_ORDERS[max(reach, COMMON_ORDERS[-1]) >= _SOME_ORDERS]

    def plan(self) -> FlaggedDraws:
        """Return the draws with the least bound within the budget.

        Raises
        ------
        CalibrationError
            If no parameters meet the budget; the message contains the smallest reachable epsilon.
        """
        self._descend()
        batches, forced, rates = self.grid
        for b, rate in product(batches, rates):
            if not self._hopeless(b, rate):
                for p in forced:
                    self._consider(b, p, rate)
        if self.best is None:
            at, smallest = self.budget, self.smallest_epsilon()
            raise CalibrationError(
                f"no parameters meet epsilon = {at.epsilon:.6g} at delta = {at.delta:.6g} with "
                f"the arguments that were fixed; the smallest epsilon in reach is {smallest:.6g}"
            )
        self._refine()
        return self._finish(self.best)

    def smallest_epsilon(self) -> float:
        """Return the smallest epsilon of the grid, at the fixed eta or at the smallest one tried.

        The accountant is only used at the points with the best rough epsilon.
        """
        batches, forced, rates = self.grid
        places = []
        for b, rate in product(batches, rates):
            eta = self.learning_rate
            if eta is None:
                eta = self.comparison.best_learning_rate(b, rate) * _SMALLEST
            places.append((self._floor(eta, b, rate), eta, b, rate))
        places.sort(key=lambda place: place[0])
        found: list[tuple[float, FlaggedDraws]] = []
        for floor, eta, b, rate in places:
            # Places are ordered by their lower bounds, so no later one can be better.
            if len(found) == _ASKED and floor >= found[-1][0]:
                break
            draws = [self.draws(eta, b, self._limit(b, p), rate) for p in forced]
            found += [(self._rough(each), each) for each in draws]
            found = sorted(found, key=lambda one: one[0])[:_ASKED]
        return min(self._epsilon(each) for _, each in found)

    def draws(self, eta: float, batch: int, forced: float, rate: float | None) -> FlaggedDraws:
        """Return the tracker's draws for these parameters."""
        c = self.comparison
        return FlaggedDraws(
            eta, forced, batch, c.horizon, rate, c.experts, c.prior, self.max_resamples
        )

    def _rates(self) -> list[float | None]:
        """Return the grid of sigma; if there are no switches, it contains 0.

        It has the multiples of S / (T - 1) by powers of two, and some values near the largest
        sigma, where the prior forgets so fast that small budgets allow a large eta.
        """
        c = self.comparison
        if c.prior == "at_most":
            return [None]
        assert c.horizon is not None
        largest, switches = largest_share_rate(c.experts), min(c.switches, c.horizon - 1)
        rates: set[float] = {largest, largest / 2.0, largest / 8.0}
        rate = max(1, switches) / (c.horizon - 1)
        while rate < largest:
            rates.add(rate)
            rate *= 2.0
        return [*([] if switches else [0.0]), *sorted(rates)]

    def _limit(self, batch: int, forced: float) -> float:
        """Return p, lowered so that forced draws alone use at most half of a cap on draws.

        It is not lowered below the smallest p, nor on an endless stream, where no p would suffice.
        """
        cap = self.max_resamples
        if cap is None or self.asked[1] is not None or self.comparison.horizon is None:
            return forced
        boundaries = -(-self.comparison.horizon // batch) - 1
        if cap >= boundaries:
            return forced
        return max(min(forced, 0.5 * cap / boundaries), SMALLEST_FORCED)

    def _hopeless(self, batch: int, rate: float | None) -> bool:
        """Return whether no p makes this pair better than the best point."""
        lowest = self._lowest(batch, rate)
        if lowest is None:
            return True
        if self.learning_rate is not None:
            # Up to twice the budget, the accountant decides.
            return self._floor(self.learning_rate, batch, rate) > 2.0 * self.budget.epsilon
        return self._floor(lowest, batch, rate) > self.budget.epsilon

    def _lowest(self, batch: int, rate: float | None) -> float | None:
        """Return the smallest eta at which the bound may beat the best one, or None."""
        cost, squares = self.comparison.prior_cost(rate), self.comparison.squares(batch)
        if cost == math.inf:
            return None
        if self.best is None:
            return self.comparison.best_learning_rate(batch, rate) * _SMALLEST
        # The bound is smaller between the roots of cost / eta + eta squares / 8 = best. It must be
        # smaller by more than rounding errors, or the search might not end.
        best = self.bound * (1.0 - 1e-9)
        gap = best * best - 0.5 * cost * squares
        return None if gap <= 0.0 else 2.0 * cost / (best + math.sqrt(gap))

    def _consider(self, batch: int, forced: float, rate: float | None) -> None:
        """Make this point the best one if it is better."""
        forced, lowest = self._limit(batch, forced), self._lowest(batch, rate)
        if lowest is None:
            return
        cost, squares = self.comparison.prior_cost(rate), self.comparison.squares(batch)
        budget, eta = self.budget.epsilon, self.learning_rate
        if eta is None:

            def excess(log_eta: float) -> float:
                return self._rough(self.draws(math.exp(log_eta), batch, forced, rate)) - budget

            low, high = math.log(lowest), math.log(self.comparison.best_learning_rate(batch, rate))
            if low >= high or excess(low) > 0.0:
                return
            eta = math.exp(last_below(excess, low, high, 1e-3))
        elif not cost / eta + 0.125 * eta * squares < self.bound:
            return
        draws = self.draws(eta, batch, forced, rate)
        if self.learning_rate is not None:
            rough = self._rough(draws)
            # The rough epsilon is an overestimate, so the accountant decides up to twice the
            # budget.
            if rough > budget and (rough > 2.0 * budget or self._epsilon(draws) > budget):
                return
        self.best, self.at = draws, (batch, forced, rate)
        self.bound = cost / eta + 0.125 * eta * squares

    def _descend(self) -> None:
        """Improve one coordinate at a time. A good point makes the sweep over all others fast."""
        batches, forced, rates = self.grid
        at: Point = (batches[len(batches) // 3], forced[len(forced) // 2], rates[len(rates) // 3])
        self._consider(*at)
        for _ in range(4):
            before = self.best
            for place, values in enumerate(self.grid):
                for value in values:
                    near: list[Any] = list(at)
                    near[place] = value
                    self._consider(*near)
                at = self.at or at
            if self.best is before:
                break

    def _refine(self) -> None:
        """Leave the grid: change B, p and sigma by shrinking factors as long as this helps."""
        free = [value is None for value in self.asked]
        for factor in (1.6, 1.25, 1.12, 1.04):
            for _ in range(4):
                before = self.best
                assert self.at is not None
                b, p, rate = self.at
                for step in (factor, 1.0 / factor):
                    if free[0]:
                        self._consider(min(max(1, round(b * step)), self.longest), p, rate)
                    if free[1] and p < 1.0:
                        self._consider(b, min(1.0, max(p * step, SMALLEST_FORCED)), rate)
                if free[2] and rate:
                    for near in self._rates_near(rate, factor):
                        self._consider(b, p, near)
                if self.best is before:
                    break

    def _rates_near(self, rate: float, factor: float) -> list[float]:
        """Return sigma changed by a factor, and the same for its distance from the largest one."""
        largest = largest_share_rate(self.comparison.experts)
        rates = [min(rate * factor, largest), rate / factor]
        # Near the largest rate, its distance from the rate decides how fast the prior forgets.
        if rate > 0.4 * largest:
            distance = max(largest - rate, 0.01 * largest)
            rates += [largest - distance / factor, max(largest - distance * factor, rate / factor)]
        return rates

    def _finish(self, best: FlaggedDraws) -> FlaggedDraws:
        """Return the best point with its exact eta, computed by the accountant."""
        highest = self.comparison.best_learning_rate(best.batch, best.share_rate)
        if self.learning_rate is None:

            def excess(log_eta: float) -> float:
                exact = self._epsilon(replace(best, learning_rate=math.exp(log_eta)))
                return exact - self.budget.epsilon

            low, high = math.log(best.learning_rate), math.log(highest)
            eta = min(math.exp(last_below(excess, low, high, 1e-7)), highest)
            best = replace(best, learning_rate=eta)
            if eta != highest:
                return best
        # Privacy does not limit eta, so we take the p with the least epsilon.
        forced = self.grid[1] if self.asked[1] is None else []
        choices = [best.forced_switch, *(self._limit(best.batch, p) for p in forced)]
        return min((replace(best, forced_switch=p) for p in choices), key=self._epsilon)

    def _rough(self, draws: FlaggedDraws) -> float:
        """Return an upper bound on epsilon that is fast to compute."""
        return self._state_epsilon(
            draws.pure, self._orders, lambda: draws.moments(self._orders, _COARSE)
        )

    def _epsilon(self, draws: FlaggedDraws) -> float:
        """Return epsilon as the guarantee will state it."""
        return self._state_epsilon(draws.pure, ORDERS, lambda: draws.moments(ORDERS))

    def _floor(self, eta: float, batch: int, rate: float | None) -> float:
        """Return a lower bound on `_rough` for any p, from the draws that are not forced."""
        # Cached, because it is needed for every p of the grid.
        at = (eta, batch, rate)
        if at not in self._floors:
            draws = self.draws(eta, batch, 1.0, rate)  # the largest ratio, without a coin
            self._floors[at] = self._state_epsilon(
                draws.pure, self._orders, lambda: unforced_moments(draws, self._orders, _COARSE)
            )
        return self._floors[at]

    def _state_epsilon(
        self, pure: float, orders: FloatArray, moments: Callable[[], FloatArray]
    ) -> float:
        """Return the epsilon at the budget's delta that moments or the largest ratio prove."""
        delta = self.budget.delta
        if delta == 0.0:
            return pure
        epsilon = rdp_epsilon(orders, moments() / (orders - 1.0), delta)
        if pure == math.inf:
            return epsilon
        # The inverse of the pure curve (docs/privacy/pure.md). `raise_epsilon` corrects its
        # rounding.
        gap = delta * (1.0 + math.exp(-pure))
        start = max(0.0, pure + math.log1p(-gap)) if gap < 1.0 else 0.0
        return min(epsilon, raise_epsilon(start, lambda e: pure_delta(e, pure) <= delta, pure))


def last_below(
    excess: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Return an x in [low, high], within `tolerance` of the largest with ``excess(x) <= 0``.

    Needs ``excess(low) <= 0`` (else `low` is returned) and an increasing function.
    """
    if excess(high) <= 0.0:
        return high
    at_low, step = excess(low), 0.25
    while True:  # double the step
        x = min(high, low + step)
        value = excess(x)
        if value > 0.0:
            break
        low, at_low, step = x, value, 2.0 * step
    upper, at_upper = x, value
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


def unforced_moments(draws: FlaggedDraws, orders: FloatArray, group_ratio: float) -> FloatArray:
    """Return the moments without the contribution of p, the coin and the forced draws.

    They are not a bound, but are below the moments for any p with the same orders and groups.
    """
    if draws.constant:
        return np.zeros_like(orders)
    series, boundaries, cap = draws.series, draws.boundaries, draws.max_resamples
    caused = replace(draws, forced_switch=0.0).resample_probability
    first = moment(np.asarray(series.first), orders)
    total = series.flagged_moments(1, boundaries - 1.0, caused, orders, group_ratio) + first
    if cap is not None and cap < boundaries:
        all_drawn = first + series.flagged_moments(1, cap - 1.0, 1.0, orders, group_ratio)
        total = np.minimum(total, all_drawn)
    return rounded_up(total, orders)


@dataclass(frozen=True)
class TrackerTuning(Description):
    """The sequences of experts with which the tracker is compared.

    Attributes
    ----------
    switches : int
        S, as given. The regret bound and the prior "at_most" use min(S, T - 1).
    """

    kind = "tracker_tuning"
    switches: int = limits(zero=True)


TrackerPlan = Plan[TrackerDraws, TrackerTuning, Forecast]


def guarantee(
    plan: TrackerPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism; see `expert_guarantee`."""
    drawn, switches = plan.mechanism, plan.tuning.switches
    bound, terms = regret(plan)
    details: dict[str, float | str | None] = {
        "learning rate": drawn.learning_rate,
        "forced switch": drawn.forced,
        "batch": float(drawn.batch),
        "share rate": drawn.share_rate,
        "switches compared with": None if drawn.horizon is None else float(switches),
        **{f"regret: {name}": value for name, value in terms.items()},
    }
    if bound is None and terms and drawn.horizon is not None:
        details["regret bound until the cap"] = math.fsum(terms.values())
    conditions: tuple[str, ...] = (
        CLIPPED_LOSSES,
        "Fresh draws have exact tails (races of exponential variates), and the rounding of the "
        "coins' probabilities is accounted for.",
    )
    said: Fields = {}
    if drawn.draws.constant:
        conditions = ("No release depends on the losses: there is nothing to learn from.",)
        said["delta"] = 0.0
    return expert_guarantee(
        drawn,
        drawn.experts,
        drawn.horizon,
        bound,
        "oblivious",
        budget=budget,
        seeded=seeded,
        details=details,
        released=f"the played experts of the oblivious tracker (N = {drawn.experts}, prior "
        f"{drawn.prior!r}) and which of them are fresh draws",
        reference="coin and draws of bounded range, composed by Renyi divergences; "
        "docs/privacy/tracker_accounting.md",
        conditions=conditions,
        **said,
    )


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
) -> TrackerPlan:
    """Return the parameters with the least regret bound that meet `budget`.

    Parameters
    ----------
    experts : int
        N, at least 1.
    horizon : int or None
        Rounds T. None is an endless stream, which needs the prior "share" and a `share_rate`; this
        must be positive if there is a budget.
    budget : Budget or None
        None is the baseline without privacy: B = 1, p = 0 and the best eta. With delta = 0, the
        largest log-likelihood ratio must not exceed epsilon.
    switches : int
        S >= 0: number of switches of the compared sequences; larger values count as T - 1. Not used
        on an endless stream, where `share_rate` says how often the best expert changes.
    prior : {"share", "at_most"}
        Prior over sequences of experts.
    learning_rate, forced_switch, batch, share_rate : optional
        eta, p, B and sigma. Given values are kept, the others are searched for. sigma is 0 or at
        least 1e-100. Without a budget, on an endless stream with sigma = 0, there is no best eta,
        and its default is 1.
    max_resamples : int, optional
        Cap on the fresh draws. The search minimises the bound that holds until the cap is reached.
        p is so small that draws which no loss causes use at most half of the cap in expectation, as
        far as p >= 1e-9 allows. On an endless stream every cap is eventually reached, and p is
        chosen as if there were none.

    Returns
    -------
    Plan
        Typically computed in less than a second.

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
    if rate is not None:
        rate, largest = real_float("share_rate", rate), largest_share_rate(n)
        if 0.0 < rate < SMALLEST_SHARE_RATE or not 0.0 <= rate <= largest * (1.0 + 1e-12):
            raise ValueError(
                f"share_rate must be 0 or in [{SMALLEST_SHARE_RATE:g}, 1 - 1/experts = "
                f"{largest:.6g}]; got {rate!r}"
            )
        rate = min(rate, largest)  # the largest rate is meant exactly
    if (rate is None) != (choice("prior", prior, PRIORS) == "at_most"):
        raise ValueError("share_rate belongs to the prior 'share', and to it only")
    forced = float(private) if forced_switch is None else real_float("forced_switch", forced_switch)
    if private and forced < SMALLEST_FORCED:
        raise ValueError(
            f"forced_switch must be at least {SMALLEST_FORCED:g} for a private learner"
        )
    if horizon is None and prior != "share":
        raise ValueError("an endless stream needs the prior 'share'")
    if horizon is None and private and n > 1 and not rate:
        raise ValueError("an endless private stream needs share_rate > 0")
    cap = max_resamples
    drawn = TrackerDraws(
        experts=n,
        prior=prior,
        learning_rate=1.0
        if learning_rate is None
        else positive_float("learning_rate", learning_rate),
        forced=forced,
        batch=1 if batch is None else positive_int("batch", batch),
        horizon=horizon,
        share_rate=rate,
        cap=None if cap is None else whole_number("max_resamples", cap, high=LARGEST_HORIZON),
    )
    comparison = Comparison(n, horizon, switches, prior)
    if budget is None or n == 1 or horizon == 1 or drawn.cap == 0:
        # Privacy imposes no limit.
        if learning_rate is None:
            best = comparison.best_learning_rate(drawn.batch, drawn.share_rate)
            drawn = replace(drawn, learning_rate=best)
    else:
        asked = (
            None if batch is None else drawn.batch,
            None if forced_switch is None else drawn.forced,
            None if share_rate is None else drawn.share_rate,
        )
        own = None if learning_rate is None else drawn.learning_rate
        found = Search(comparison, budget, own, asked, drawn.cap).plan()
        drawn = replace(
            drawn,
            learning_rate=found.learning_rate,
            forced=found.forced_switch,
            batch=found.batch,
            share_rate=found.share_rate,
        )
    plan = Plan(drawn, TrackerTuning(switches), Forecast(None, "oblivious"))
    return replace(plan, forecast=Forecast(regret(plan)[0], "oblivious"))


def regret(plan: TrackerPlan) -> tuple[float | None, dict[str, float]]:
    """Return the bound, None if nothing is claimed for a whole stream, and its terms."""
    drawn = plan.mechanism
    if drawn.experts == 1:
        return 0.0, {"prior": 0.0, "learning": 0.0}
    comparison = Comparison(drawn.experts, drawn.horizon, plan.tuning.switches, drawn.prior)
    cost = comparison.prior_cost(drawn.share_rate)
    if cost == math.inf:
        return None, {}
    suffix = ", a round" if drawn.horizon is None else ""
    terms = {
        f"prior{suffix}": cost / drawn.learning_rate,
        f"learning{suffix}": 0.125 * drawn.learning_rate * comparison.squares(drawn.batch),
    }
    # After the cap is reached, nothing is learned, so the sum of the terms only holds until then.
    capped = drawn.cap is not None and drawn.cap < drawn.draws.boundaries
    return (None if capped or drawn.horizon is None else math.fsum(terms.values())), terms
