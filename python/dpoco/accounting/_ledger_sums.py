"""Costs of charges in every currency, and privacy filters: limits on the sums of costs.

Claim: n releases of one mechanism are sqrt(n) mu-GDP, has n times the Renyi divergences of
every order, and is pure with n epsilon; an epsilon-private mechanism is mu-GDP with
mu = 2 Phi^-1(1 / (1 + e^-eps)). Protecting a replaced instead of an emptied round doubles mu and
epsilon, quadruples rho, and turns (epsilon, delta) into (2 epsilon, (1 + e^epsilon) delta).

Claim: the parameters of every charge, and the choice of the next charge, may depend in any way on
earlier releases. No charge is admitted that would lift a sum above its limit. Then all releases
together are (epsilon, delta)-private if the sums and limits are those of one currency:

* basic: the epsilons up to epsilon, the deltas up to delta;
* gaussian: mu^2 up to the largest mu^2 whose curve has delta_1 at epsilon;
* renyi: divergences of one order a, up to the largest that proves delta_1 at epsilon;

In the last two currencies, delta - delta_1 pays for charges of which only (epsilon_i, delta_i) is
known, and for (1 + e^epsilon) times truncated tails. Such a charge counts as epsilon_i-private, and
its delta_i is added separately. The currency, the order and delta_1 are fixed before the first
release.

Proof: ``docs/privacy/ledger.md``. Sources: Rogers, Roth, Ullman and Vadhan (2016); Feldman and
Zrnic (2021); Smith and Thakurta (2022); Whitehouse, Ramdas, Rogers and Wu (2023). Sources for
costs: Dong, Roth and Su (2022) for mu; Bun and Steinke (2016), Prop. 27, for rho.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from dpoco._validation import Fields, FloatArray, Named, positive_int, real_float
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.errors import CalibrationError, StateError
from dpoco.privacy.losses.combined import UNKNOWN, Together, group, least, together, with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import ORDERS, UP, Loss, Pure, Zcdp, pure_renyi, sum_up
from dpoco.privacy.special import special_functions

__all__ = ["CURRENCIES", "WAYS", "Cost", "Exact", "Filter", "Repeated", "Spent", "fixed_epsilon",
           "largest_fitting", "make_filter", "pure_mu", "with_gaussian"]  # fmt: skip

_Found = TypeVar("_Found")

CURRENCIES = ("basic", "gaussian", "renyi")
WAYS = ("parts", "point")
# Search for the largest budget: relative precision of epsilon, smallest share of `largest`,
# attempts.
_PRECISION, _SMALLEST, _TRIALS = 1e-3, 2.0**-12, 30
_ROUNDING = 1e-12  # limits are reduced by this relative amount
_LARGEST_GAUSSIAN = 1e6  # epsilon, above that of mu = 1000
# Names of a loss's parameters in stored costs.
_STORED: dict[str, type[Loss]] = {"mu": Gaussian, "rho": Zcdp, "pure": Pure}


def pure_mu(epsilon: float) -> float:
    """Return the smallest mu such that every `epsilon`-private mechanism is mu-GDP, rounded up.

    Parameters
    ----------
    epsilon : float
        At least 0; if it is infinite, mu is infinite.
    """
    ndtri = special_functions().ndtri
    if epsilon > 600.0:
        # Phi(-x) <= e^(-x^2 / 2) / 2, which is e^-eps / 2 <= 1 / (1 + e^eps) at x = sqrt(2 eps).
        return 2.0 * math.sqrt(2.0 * epsilon) * (1.0 + 1e-14)
    # The small probability keeps its digits: -Phi^-1(1 / (1 + e^eps)).
    return -2.0 * float(ndtri(1.0 / (1.0 + math.exp(epsilon)))) * (1.0 + 1e-14) + 1e-15


def with_gaussian(loss: Loss) -> Loss:
    """Return an ideal loss; if it is pure, together with the Gaussian loss that bounds it."""
    if loss.pure == math.inf or loss.mu <= (mu := pure_mu(loss.pure)):
        return loss
    return least(*loss.bounds, Gaussian(mu))


@dataclass(frozen=True)
class Repeated(Loss):
    """The loss of `count` independent releases of one ideal mechanism, all fixed in advance.

    Attributes
    ----------
    one : Loss
        Loss of a single release, without truncated tails.
    count : int
        At least 1.
    mu, rho, pure : float
        Totals over all releases, rounded up: sqrt(count) mu, count rho and count epsilon.
    """

    kind = "repeated"
    one: Loss
    count: int
    mu: float = field(init=False)
    rho: float = field(init=False)
    pure: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the totals from one release."""
        self.require(count=1)
        object.__setattr__(self, "mu", math.sqrt(self.count) * self.one.mu * UP)
        for name in ("rho", "pure"):
            total = sum_up((self.count, getattr(self.one, name), 1.0))
            object.__setattr__(self, name, total)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return `count` times the divergences of one release."""
        return self.count * self.one.renyi(orders) * UP


@dataclass(frozen=True)
class Cost:
    """Cost of one charge.

    Attributes
    ----------
    loss : Loss
        Loss of everything that is charged, truncated tails included.
    epsilon, delta : float
        A point of the charge's curve; an infinite epsilon if none is stated.
    """

    loss: Loss = UNKNOWN
    epsilon: float = math.inf
    delta: float = 0.0

    def square(self) -> float:
        """Return the smallest known mu^2 of the ideal loss."""
        mu = with_gaussian(self.loss.bare).mu
        return mu * mu  # mu ** 2 would raise for huge mu

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the smallest known bounds on the Renyi divergences of the ideal loss."""
        return self.loss.bare.renyi(orders)

    def double(self) -> Cost:
        """Return the cost for neighbours that are two steps apart.

        mu and epsilon double, rho quadruples, and (epsilon, delta) becomes
        (2 epsilon, (1 + e^epsilon) delta).
        """
        delta = self.delta
        if delta > 0.0:
            # Two steps: P <= e^e R + d and R <= e^e Q + d give P <= e^(2e) Q + (1 + e^e) d
            # (docs/privacy/ledger.md, "Change and view").
            delta = delta * (1.0 + math.exp(self.epsilon)) if self.epsilon < 700.0 else 1.0
        loss = with_tails(_double(self.loss.bare), self.loss.mass)
        return Cost(loss, 2.0 * self.epsilon, min(1.0, delta))

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary of the cost."""
        parts = self.loss.parts if isinstance(self.loss, Together) else (self.loss,)
        return {"parts": [_part_to_dict(part) for part in parts]}

    @classmethod
    def from_dict(cls, record: Named) -> Cost:
        """Return the cost written by `to_dict`; `StateError` if it is not one."""
        try:
            return cls(together(*(_part_from_dict(row) for row in record["parts"])))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError("malformed cost record") from error


def _part_to_dict(part: Loss) -> Fields:
    """Return the parameters of one mechanism's loss, and its number of repetitions."""
    count, one = (part.count, part.one) if isinstance(part, Repeated) else (1, part)
    numbers = {n: getattr(p, n) for n, k in _STORED.items() for p in one.bounds if type(p) is k}
    return {"count": count, **{n: v for n, v in numbers.items() if v != math.inf}}


def _part_from_dict(record: Named) -> Loss:
    """Return the loss that `_part_to_dict` wrote; raise for anything else."""
    numbers = {name: value for name, value in record.items() if name != "count"}
    bounds = (_STORED[n](real_float(n, v)) for n, v in sorted(numbers.items()))  # type: ignore[call-arg]
    count, one = positive_int("count", record["count"]), least(*bounds)
    return one if count == 1 else Repeated(one, count)


def _double(loss: Loss) -> Loss:
    """Return an ideal loss for neighbours that are two steps apart."""
    if isinstance(loss, Together):
        return together(*map(_double, loss.parts))
    if isinstance(loss, Repeated):
        return Repeated(_double(loss.one), loss.count)
    return group(loss, 2)


class Spent(NamedTuple):
    """Amounts in a currency: the main sum, and the separate sum of delta."""

    main: float
    side: float


class Filter(NamedTuple):
    """A currency with its limits, fixed before the first release.

    Attributes
    ----------
    currency : {"basic", "gaussian", "renyi"}
        What is summed: epsilons, mu^2, or divergences of one order.
    order : float
        Order of the Renyi divergence; 0 in other currencies.
    limit : Spent
        Largest sums that together prove the budget.
    tail_factor : float
        Cost of a truncated tail in the separate sum, per unit of mass: 1 + e^epsilon of the budget.
    """

    currency: str
    order: float
    limit: Spent
    tail_factor: float

    def choose(self, cost: Cost, left: Spent) -> str:
        """Return the way of paying with the smallest main amount that fits into `left`.

        If neither way fits, return the one with the smallest main amount.
        """
        prices = self.prices(cost)
        fitting = [
            way
            for way, price in prices.items()
            if price.main <= left.main and price.side <= left.side
        ]
        return min(fitting or prices, key=prices.__getitem__)

    def prices(self, cost: Cost) -> dict[str, Spent]:
        """Return the cost of a charge by its loss, and by its stated (epsilon, delta)."""
        # The condition avoids NaN: the factor may be infinite and the mass 0.
        tails = self.tail_factor * cost.loss.mass if cost.loss.mass > 0.0 else 0.0
        if self.currency == "basic":
            # In this currency, only the epsilon of a pure loss can be summed. Every other loss
            # counts by its stated point, which already includes tails.
            parts, point = Spent(cost.loss.pure, 0.0), cost.epsilon
        elif self.currency == "gaussian":
            mu = pure_mu(cost.epsilon)
            parts, point = Spent(cost.square(), tails), mu * mu
        else:
            order = np.array([self.order])
            parts = Spent(float(cost.renyi(order)[0]), tails)
            point = float(pure_renyi(cost.epsilon, order)[0])
        return {"parts": parts, "point": Spent(point, cost.delta)}


@lru_cache(maxsize=64)
def make_filter(currency: str, budget: Budget, side_share: float) -> Filter:
    """Return the filter of a currency for a budget; `side_share` of delta is kept separate.

    Parameters
    ----------
    currency : {"basic", "gaussian", "renyi"}
        The last two need a positive delta.
    budget : Budget
        What all charges together may cost.
    side_share : float
        In [0, 1); not used by "basic".

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
    # Divergences that prove main_delta at epsilon. The chosen order is the best one for zCDP
    # mechanisms.
    limits = budget.epsilon + (np.log(main_delta) + np.log(t) + orders * np.log1p(1.0 / t)) / t
    # The order is fixed before the first release. Continuing while any order is within its limit is
    # not covered by the proof (docs/privacy/ledger.md, after Theorem 3).
    best = int(np.argmax(limits / orders))
    limit = float(limits[best]) * (1.0 - _ROUNDING)
    if not 0.0 < limit < math.inf:
        raise CalibrationError('the currency "renyi" proves nothing for a budget this small')
    return Filter("renyi", float(orders[best]), Spent(limit, side), factor)


class Exact(NamedTuple):
    """An exact sum of doubles, rounded only when read; infinite if a term is not finite."""

    value: Fraction = Fraction(0)
    finite: bool = True

    def plus(self, term: float) -> Exact:
        """Return the sum with one more term."""
        if not math.isfinite(term):
            return Exact(self.value, False)
        # Exact sums do not depend on the order of charges, and ten times 0.1 fills a budget of 1.
        return Exact(self.value + Fraction(term), self.finite)

    def __float__(self) -> float:
        """Return the nearest double."""
        return float(self.value) if self.finite else math.inf


def fixed_epsilon(costs: Sequence[Cost], delta: float) -> float:
    """Return the least epsilon proved at `delta` for charges that were all fixed in advance.

    The losses are composed in three ways, and the smallest bound is returned. In each way, a charge
    whose loss cannot be summed counts by its stated (epsilon, delta).

    Parameters
    ----------
    costs : sequence of Cost
        Costs of all charges; none is 0.
    delta : float
        Delta of the budget, in [0, 1).

    Returns
    -------
    float
        Infinite if nothing is proved at this delta.
    """
    # In each way, other charges are replaced by their stated points, so no way is the best for all
    # lists.
    ways = (
        [cost.loss.pure <= cost.epsilon for cost in costs],
        [cost.square() < math.inf for cost in costs],
        [bool(np.isfinite(cost.renyi(ORDERS)).any()) for cost in costs],
    )
    return min(_compose(costs, by_loss, delta) for by_loss in ways)


def _compose(costs: Sequence[Cost], by_loss: Iterable[bool], delta: float) -> float:
    """Return epsilon of charges that count by their losses or by their stated points."""
    losses, side = list[Loss](), list[float]()
    for cost, own in zip(costs, by_loss, strict=True):
        loss = cost.loss if own else Pure(cost.epsilon)
        losses.append(with_tails(with_gaussian(loss.bare), loss.mass))
        side.append(0.0 if own else cost.delta)
    left, total = delta - math.fsum(side), together(*losses)
    return min(total.epsilon(left), total.pure) if left >= 0.0 else math.inf


def largest_fitting(attempt: Callable[[float], _Found | None], largest: float) -> _Found | None:
    """Return ``attempt(epsilon)`` at the largest epsilon for which it is not None.

    Assumes that an attempt that succeeds at an epsilon succeeds at smaller ones. The precision is a
    relative 1e-3; at most 30 attempts. None if no attempt succeeds down to `largest` / 4096.
    """
    # Before the first charge, `attempt` succeeds at the whole budget.
    best = attempt(largest)
    if best is not None:
        return best
    high, low, trials = largest, 0.5 * largest, 1
    while (best := attempt(low)) is None:
        high, low, trials = low, 0.5 * low, trials + 1
        if low < _SMALLEST * largest:
            return None
    while high > low * (1.0 + _PRECISION) and trials < _TRIALS:
        middle, trials = (low * high) ** 0.5, trials + 1
        found = attempt(middle)
        if found is None:
            high = middle
        else:
            low, best = middle, found
    return best
