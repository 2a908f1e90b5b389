"""Privacy filters: sums that may be filled by charges chosen as one goes, and what they prove.

Claim: let every charge's parameters, and which charge comes next, depend in any way on what was
released before, and let no charge be admitted that would lift a sum above its limit. Everything
released is together (epsilon, delta)-private if the sums and limits are those of one currency:

* basic: the epsilons up to epsilon, the deltas up to delta;
* gaussian: mu^2 up to the largest mu^2 whose curve has delta_1 at epsilon;
* renyi: divergences of one order a, up to the largest that proves delta_1 at epsilon;

where the last two leave delta - delta_1 for charges known by (epsilon_i, delta_i) only, which count
as epsilon_i-private with delta_i on the side, and for (1 + e^epsilon) times truncated tails. The
currency, the order and delta_1 are fixed before the first release.

Proof: ``docs/privacy/ledger.md``. Sources: Rogers, Roth, Ullman and Vadhan (2016); Feldman and
Zrnic (2021); Smith and Thakurta (2022); Whitehouse, Ramdas, Rogers and Wu (2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpoco.accounting._ledger.costs import Cost, pure_mu, pure_renyi
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_delta, rdp_epsilon
from dpoco.accounting.truncation import charged_delta, charged_epsilon, charged_gaussian_epsilon
from dpoco.errors import CalibrationError

__all__ = ["CURRENCIES", "WAYS", "Filter", "Spent", "filter_of", "fixed_plan_epsilon"]

CURRENCIES = ("basic", "gaussian", "renyi")
WAYS = ("parts", "point")
_ROUNDING = 1e-12  # of limits, downwards
_LARGEST_GAUSSIAN = 1e6  # epsilon: beyond what mu = 1000 spends


class Spent(NamedTuple):
    """Amounts in a currency: of the main sum, and of delta on the side."""

    main: float
    side: float


class Filter(NamedTuple):
    """A currency with its limits; `order` is that of the Renyi divergence, else 0."""

    currency: str
    order: float
    limit: Spent
    tail_factor: float

    def choose(self, cost: Cost, left: Spent) -> str:
        """Return the way of paying with the smallest main amount that what is `left` can pay.

        If it can pay none, the one with the smallest main amount.
        """
        prices = self.prices(cost)
        fitting = [
            way
            for way, price in prices.items()
            if price.main <= left.main and price.side <= left.side
        ]
        return min(fitting or prices, key=prices.__getitem__)

    def prices(self, cost: Cost) -> dict[str, Spent]:
        """Return what a charge costs by its parts, and by its stated (epsilon, delta)."""
        tails = self.tail_factor * cost.mass if cost.mass > 0.0 else 0.0
        if self.currency == "basic":
            parts, point = Spent(cost.pure(), 0.0), cost.epsilon
        elif self.currency == "gaussian":
            mu = pure_mu(cost.epsilon)
            parts, point = Spent(cost.gaussian_square(), tails), mu * mu
        else:
            parts = Spent(cost.renyi(self.order), tails)
            point = pure_renyi(cost.epsilon, self.order)
        return {"parts": parts, "point": Spent(point, cost.delta)}


def filter_of(currency: str, budget: Budget, side_share: float) -> Filter:
    """Return the filter of a currency for a budget; `side_share` of delta is kept on the side.

    Raises
    ------
    CalibrationError
        If the currency has no limit above 0 for this budget.
    """
    factor = 1.0 + math.exp(budget.epsilon) if budget.epsilon < 700.0 else math.inf
    if currency == "basic":
        return Filter("basic", 0.0, Spent(budget.epsilon, budget.delta), factor)
    side = side_share * budget.delta
    main_delta = budget.delta - side
    if currency == "gaussian":
        if not 0.0 < main_delta < 1.0 or budget.epsilon > _LARGEST_GAUSSIAN:
            raise CalibrationError('the currency "gaussian" has no limit for this budget')
        mu = gaussian_mu(budget.epsilon, main_delta)
        return Filter("gaussian", 0.0, Spent(mu * mu * (1.0 - _ROUNDING), side), factor)
    orders = 1.0 + 2.0 ** np.linspace(-10.0, 14.0, 4001)
    t = orders - 1.0
    # Divergences that prove main_delta at epsilon; the order is the best for zCDP mechanisms.
    limits = budget.epsilon + (np.log(main_delta) + np.log(t) + orders * np.log1p(1.0 / t)) / t
    best = int(np.argmax(limits / orders))
    limit = float(limits[best]) * (1.0 - _ROUNDING)
    if not 0.0 < limit < math.inf:
        raise CalibrationError('the currency "renyi" proves nothing for a budget this small')
    return Filter("renyi", float(orders[best]), Spent(limit, side), factor)


def fixed_plan_epsilon(costs: Sequence[Cost], delta: float) -> float:
    """Return the smallest epsilon known at `delta` of charges that were all fixed in advance.

    The smallest of basic, Gaussian and Renyi composition, of all charges or of those that are not
    purely private, whose epsilons are then added; infinite if all fail.
    """
    best = _composed(costs, delta)
    others = [cost for cost in costs if cost.pure() == math.inf]
    if len(others) == len(costs):
        return best
    pure = math.fsum(cost.pure() for cost in costs if cost.pure() < math.inf)
    return min(best, pure + _composed(others, delta))


def _composed(costs: Sequence[Cost], delta: float) -> float:
    if not costs:
        return 0.0
    return min(_basic(costs, delta), _gaussian(costs, delta), _renyi(costs, delta))


def _basic(costs: Sequence[Cost], delta: float) -> float:
    pairs = [(c.pure(), 0.0) if c.pure() <= c.epsilon else (c.epsilon, c.delta) for c in costs]
    if math.fsum(d for _, d in pairs) > delta:
        return math.inf
    return math.fsum(e for e, _ in pairs)


def _gaussian(costs: Sequence[Cost], delta: float) -> float:
    squares, side, mass = [], [], 0.0
    for cost in costs:
        if cost.gaussian_square() < math.inf:
            squares.append(cost.gaussian_square())
            mass += cost.mass
        else:
            mu = pure_mu(cost.epsilon)
            squares.append(mu * mu)  # ** would raise where that is infinite
            side.append(cost.delta)
    left = delta - math.fsum(side)
    total = math.sqrt(math.fsum(squares)) * (1.0 + 1e-15)
    if not left > 0.0 or total == math.inf:
        return math.inf
    return charged_gaussian_epsilon(total, left, mass)


def _renyi(costs: Sequence[Cost], delta: float) -> float:
    orders = np.array(DEFAULT_ORDERS)
    total, side, mass = np.zeros_like(orders), [], 0.0
    for cost in costs:
        curve = np.array([cost.renyi(a) for a in DEFAULT_ORDERS])
        if np.isfinite(curve).any():
            mass += cost.mass
        else:
            curve = np.array([pure_renyi(cost.epsilon, a) for a in DEFAULT_ORDERS])
            side.append(cost.delta)
        total = total + curve
    left = delta - math.fsum(side)
    known = np.isfinite(total)
    if not left > 0.0 or not known.any():
        return math.inf
    orders, total = orders[known], total[known]
    return charged_epsilon(
        lambda target: rdp_epsilon(orders, total, target),
        lambda e: charged_delta(lambda x: rdp_delta(orders, total, x), e, mass),
        left,
        mass,
    )
