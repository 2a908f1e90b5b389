"""What charges cost in every currency, and privacy filters: sums that they may fill.

Claim: a charge that consists of independent parts, part i used n_i times, is mu-GDP with mu^2 the
sum of n_i mu_i^2, has the sum of n_i D_i as Renyi divergence of every order, and is pure with the
sum of n_i epsilon_i; a purely epsilon-private part is mu-GDP with mu = 2 Phi^-1(1 / (1 + e^-eps)).
Protecting a replaced instead of an emptied round doubles mu and epsilon, quadruples rho, and turns
(epsilon, delta) into (2 epsilon, (1 + e^epsilon) delta).

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
Zrnic (2021); Smith and Thakurta (2022); Whitehouse, Ramdas, Rogers and Wu (2023); of costs: Dong,
Roth and Su (2022) for mu; Bun and Steinke (2016), Prop. 27, for rho.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dpoco._validation import FloatArray, positive_int, real_float
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_delta, rdp_epsilon
from dpoco.accounting.truncation import charged_delta, charged_epsilon, charged_gaussian_epsilon
from dpoco.errors import CalibrationError, StateError
from dpoco.privacy.losses.combined import UNKNOWN, group, least
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure, Zcdp, pure_renyi

__all__ = ["CURRENCIES", "WAYS", "Cost", "Exact", "Filter", "FixedPlan", "Part", "Spent",
           "cost_of_guarantee", "filter_of", "largest_fitting", "pure_mu"]  # fmt: skip

_Found = TypeVar("_Found")

CURRENCIES = ("basic", "gaussian", "renyi")
WAYS = ("parts", "point")
# How the largest budget is searched: relative precision of epsilon, least share of the largest.
_PRECISION, _SMALLEST, _TRIALS = 1e-3, 2.0**-12, 30
_ROUNDING = 1e-12  # of limits, downwards
_LARGEST_GAUSSIAN = 1e6  # epsilon: beyond what mu = 1000 spends
_ORDERS: FloatArray = np.array(DEFAULT_ORDERS)
# What stored costs call the numbers of a part.
_STORED: dict[str, type[Loss]] = {"mu": Gaussian, "rho": Zcdp, "pure": Pure}


@dataclass(frozen=True)
class Part:
    """One mechanism with ideal noise, used `count` times: what one use costs is its loss."""

    count: int = 1
    loss: Loss = UNKNOWN

    def gaussian(self) -> float:
        """Return the smallest mu known of one use."""
        return min(self.loss.mu, pure_mu(self.loss.pure))

    def doubled(self) -> Part:
        """Return the part for neighbours that are two steps apart."""
        try:
            return Part(self.count, group(self.loss, 2))
        except ValueError:
            return Part(self.count)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of a part that is known by them."""
        known = self.loss.bounds
        numbers = {n: getattr(p, n) for p in known for n, k in _STORED.items() if type(p) is k}
        return {"count": self.count, **{n: v for n, v in numbers.items() if v != math.inf}}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Part:
        """Return the part written by `to_dict`; `KeyError`, `TypeError`, `ValueError` if none."""
        numbers = {name: value for name, value in record.items() if name != "count"}
        known = (_STORED[n](real_float(n, v)) for n, v in sorted(numbers.items()))  # type: ignore[call-arg]
        return cls(positive_int("count", record["count"]), least(*known))


@dataclass(frozen=True)
class Cost:
    """What one charge costs.

    Attributes
    ----------
    parts : tuple of Part
        Independent parts with ideal noise.
    mass : float
        Total variation between the real and the ideal law.
    epsilon, delta : float
        A point of the whole charge's curve, truncated tails included; infinite if none is stated.
    """

    parts: tuple[Part, ...]
    mass: float = 0.0
    epsilon: float = math.inf
    delta: float = 0.0

    def gaussian_square(self) -> float:
        """Return the smallest known mu^2."""
        # Not count * (mu * mu): a tiny mu must not vanish in its square.
        return math.fsum(part.count * mu * mu for part in self.parts for mu in [part.gaussian()])

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the smallest bounds known on the Renyi divergences of `orders`."""
        total = np.zeros(orders.shape)
        for part in self.parts:
            total += part.count * part.loss.renyi(orders)
        return total

    def pure(self) -> float:
        """Return the pure epsilon of the real mechanism; infinite with truncated tails."""
        if self.mass > 0.0:
            return math.inf
        return math.fsum(part.count * part.loss.pure for part in self.parts)

    def doubled(self) -> Cost:
        """Return the cost for neighbours that are two steps apart."""
        delta = self.delta
        if delta > 0.0:
            delta = delta * (1.0 + math.exp(self.epsilon)) if self.epsilon < 700.0 else 1.0
        parts = tuple(part.doubled() for part in self.parts)
        return replace(self, parts=parts, epsilon=2.0 * self.epsilon, delta=min(1.0, delta))

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry, of what an event costs."""
        return {"parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Cost:
        """Return the cost written by `to_dict`; `StateError` if it is not one."""
        try:
            return cls(tuple(Part.from_dict(row) for row in record["parts"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError("malformed cost record") from error


def cost_of_guarantee(guarantee: Guarantee) -> Cost:
    """Return the cost of everything a guarantee covers."""
    known = guarantee.stated
    if guarantee.delta == 0.0 and guarantee.loss.mass == 0.0:
        known = (*known, Pure(guarantee.epsilon))
    part = Part(1, least(*known))
    return Cost((part,), guarantee.loss.mass, guarantee.epsilon, guarantee.delta)


def pure_mu(epsilon: float) -> float:
    """Return the smallest mu such that every `epsilon`-private mechanism is mu-GDP, rounded up."""
    from scipy.special import ndtri

    if epsilon > 600.0:
        # Phi(-x) <= e^(-x^2 / 2) / 2, which is e^-eps / 2 <= 1 / (1 + e^eps) at x = sqrt(2 eps).
        return 2.0 * math.sqrt(2.0 * epsilon) * (1.0 + 1e-14)
    # -Phi^-1(1 / (1 + e^eps)): the small probability keeps its digits.
    return -2.0 * float(ndtri(1.0 / (1.0 + math.exp(epsilon)))) * (1.0 + 1e-14) + 1e-15


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
            order = np.array([self.order])
            parts = Spent(float(cost.renyi(order)[0]), tails)
            point = float(pure_renyi(cost.epsilon, order)[0])
        return {"parts": parts, "point": Spent(point, cost.delta)}


@lru_cache(maxsize=64)
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


class Exact(NamedTuple):
    """A sum of doubles, exact until it is asked for; infinite once a term is not finite."""

    value: Fraction = Fraction(0)
    finite: bool = True

    def plus(self, term: float) -> Exact:
        """Return the sum with one more term."""
        if not math.isfinite(term):
            return Exact(self.value, False)
        return Exact(self.value + Fraction(term), self.finite)

    def __float__(self) -> float:
        """Return the nearest double."""
        return float(self.value) if self.finite else math.inf


class _Sums(NamedTuple):
    """Sums over charges in every currency, with what is on the side of them."""

    charges: int = 0
    basic: tuple[Exact, Exact] = (Exact(), Exact())
    gaussian: tuple[Exact, Exact, float] = (Exact(), Exact(), 0.0)
    renyi: tuple[FloatArray, Exact, float] = (np.zeros(len(_ORDERS)), Exact(), 0.0)

    def plus(self, cost: Cost) -> _Sums:
        by_pure = cost.pure() <= cost.epsilon
        epsilon, delta = (cost.pure(), 0.0) if by_pure else (cost.epsilon, cost.delta)
        square, side, mass = cost.gaussian_square(), 0.0, cost.mass
        if not square < math.inf:
            mu = pure_mu(cost.epsilon)
            square, side, mass = mu * mu, cost.delta, 0.0  # ** would raise where that is infinite
        curve, renyi_side, renyi_mass = cost.renyi(_ORDERS), 0.0, cost.mass
        if not np.isfinite(curve).any():
            curve = pure_renyi(cost.epsilon, _ORDERS)
            renyi_side, renyi_mass = cost.delta, 0.0
        b, g, r = self.basic, self.gaussian, self.renyi
        return _Sums(
            self.charges + 1,
            (b[0].plus(epsilon), b[1].plus(delta)),
            (g[0].plus(square), g[1].plus(side), g[2] + mass),
            (r[0] + curve, r[1].plus(renyi_side), r[2] + renyi_mass),
        )

    def epsilon(self, delta: float) -> float:
        """Return the smallest of basic, Gaussian and Renyi composition; infinite if all fail."""
        if not self.charges:
            return 0.0
        basic = float(self.basic[0]) if float(self.basic[1]) <= delta else math.inf
        return min(basic, self._gaussian(delta), self._renyi(delta))

    def _gaussian(self, delta: float) -> float:
        squares, side, mass = self.gaussian
        left, total = delta - float(side), math.sqrt(float(squares)) * (1.0 + 1e-15)
        if not left > 0.0 or total == math.inf:
            return math.inf
        return charged_gaussian_epsilon(total, left, mass)

    def _renyi(self, delta: float) -> float:
        orders, (total, side, mass) = _ORDERS, self.renyi
        left, known = delta - float(side), np.isfinite(total)
        if not left > 0.0 or not known.any():
            return math.inf
        orders, total = orders[known], total[known]
        return charged_epsilon(
            lambda target: rdp_epsilon(orders, total, target),
            lambda e: charged_delta(lambda x: rdp_delta(orders, total, x), e, mass),
            left,
            mass,
        )


class FixedPlan(NamedTuple):
    """Charges that were all fixed in advance: the smallest of all composition bounds counts.

    Those of all charges, and of the ones that are not purely private, whose epsilons are added.
    """

    everything: _Sums = _Sums()
    impure: _Sums = _Sums()
    pure: Exact = Exact()

    def plus(self, cost: Cost) -> FixedPlan:
        """Return the plan with one more charge; in constant time."""
        if cost.pure() < math.inf:
            return FixedPlan(self.everything.plus(cost), self.impure, self.pure.plus(cost.pure()))
        return FixedPlan(self.everything.plus(cost), self.impure.plus(cost), self.pure)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon known at `delta`; infinite if there is none."""
        best = self.everything.epsilon(delta)
        if self.impure.charges == self.everything.charges:
            return best
        return min(best, float(self.pure) + self.impure.epsilon(delta))


def largest_fitting(attempt: Callable[[float], _Found | None], largest: float) -> _Found | None:
    """Return ``attempt(epsilon)`` at the largest epsilon for which it is not None.

    Assumes that what fits at an epsilon fits at smaller ones; up to a relative 1e-3, at most 30
    attempts; None if nothing fits down to `largest` / 4096.
    """
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
