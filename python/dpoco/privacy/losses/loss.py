"""Privacy losses: upper bounds on what all releases together reveal about one change of the data.

A loss answers with upper bounds, infinite where nothing is known: ``delta(epsilon)``, its Gaussian
parameter ``mu``, its zCDP parameter ``rho``, its largest log-ratio ``pure``, and its Renyi
divergences ``renyi(orders)``. Four combinators make new ones: `together`, `either`, `group` and
`with_tails`.

Proofs: ``docs/privacy/gaussian.md``, ``docs/privacy/pure.md``, ``docs/privacy/composition.md``;
tails: ``docs/privacy/noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDERS", "UP", "Loss", "Pure", "Zcdp", "check_delta", "check_epsilon", "crossing",
           "log_zcdp_delta", "pure_delta", "pure_renyi", "renyi_delta", "sum_up",
           "tabulate_divergences", "zcdp_delta"]  # fmt: skip

FloatArray = NDArray[np.float64]

# Any order proves a delta, so the grid costs tightness only. The best order is at most about
# 2 ln(1/delta) / epsilon: 2^12 is enough from epsilon = 0.02 on, for deltas down to 1e-16.
ORDERS: FloatArray = np.asarray(1.0 + 2.0 ** (0.125 * np.arange(-64, 97)), dtype=np.float64)
ORDERS.flags.writeable = False
# A delta of 0 would state pure privacy, so deltas that underflow become two units of the smallest
# double.
SMALLEST_DELTA = 1e-323  # where deltas underflow
# Margins added to log delta, larger than its error; the second covers the rounding of large terms.
_MARGIN, _TERM = 2.0**-44, 2.0**-50
_FEW = 2.0**-50  # relative; more than the roundings of a pure delta, or of a charge and its sum
UP = 1.0 + 1e-14  # more than the roundings of a few sums, products and roots


class Loss:
    """Base of the losses, with no known bound. Subclasses are frozen values with bounds.

    Attributes
    ----------
    mu : float
        Gaussian: the loss is at most that of telling N(0, 1) from N(mu, 1).
    rho : float
        zCDP: every Renyi divergence of order a is at most a rho.
    pure : float
        Largest log-likelihood ratio.
    mass : float
        Total variation between the real law and the one that the other bounds are about.
    """

    kind: ClassVar[str]
    names: ClassVar[tuple[tuple[str, str], ...]] = ()  # fields with other names in records
    besides: ClassVar[tuple[tuple[str, float], ...]] = ()  # constant entries of records
    orders: ClassVar[FloatArray] = ORDERS  # orders at which its divergences are kept
    mu: float = math.inf
    rho: float = math.inf
    pure: float = math.inf
    mass: float = 0.0

    def require(self, *numbers: str, **counts: int) -> None:
        """Raise unless the fields `numbers` are at least 0 and `counts` are ints of that size."""
        for name in numbers:
            # "not ... >=" also refuses NaN.
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must be at least 0; got {getattr(self, name)!r}")
        for name, least in counts.items():
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ValueError(f"{name} must be an int of at least {least}; got {value!r}")

    @property
    def bare(self) -> Loss:
        """The loss without truncated tails."""
        return self

    @property
    def bounds(self) -> tuple[Loss, ...]:
        """All known bounds; the least of them counts."""
        return (self,)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return bounds on the Renyi divergences of `orders` above 1, shape of `orders`."""
        bound = np.full(orders.shape, math.inf)
        if self.rho < math.inf:
            bound = orders * (self.rho * UP)
        if self.mu < math.inf:
            bound = np.minimum(bound, 0.5 * orders * (self.mu * self.mu * UP))
        if self.pure < math.inf:
            bound = np.minimum(bound, pure_renyi(self.pure, orders))
        return bound

    def delta(self, epsilon: float) -> float:
        """Return an upper bound at `epsilon` >= 0: the least delta that any known bound proves."""
        check_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        # The exact curve of mu is not used here, because `gaussian` imports this module; losses
        # with a mu override this method. Here mu counts through its divergences.
        found = [1.0, renyi_delta(tabulate_divergences(self), epsilon, self.orders)]
        if self.rho < math.inf:
            found.append(zcdp_delta(epsilon, self.rho))
        if self.pure < math.inf:
            found.append(pure_delta(epsilon, self.pure))
        return min(found)

    def epsilon(self, delta: float) -> float:
        """Return about the least epsilon with ``self.delta(epsilon) <= delta``, which it satisfies.

        All kinds use the same search. The result is infinite if none is found; a `delta` of 0 asks
        for pure privacy.
        """
        check_delta(delta)
        # The mass of a tail may lie on events that are possible under only one of the two streams.
        # Then no epsilon has delta 0, nor any other below the least charge for tails.
        if delta == 0.0 or delta < min(1.0, 2.0 * self.mass):
            return self.pure if self.mass == 0.0 else math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        high = 1.0
        while self.delta(high) > delta:
            high *= 2.0
            if high > 2.0**60:
                return math.inf
        goal = math.log(delta)

        def excess(epsilon: float) -> float:
            value = self.delta(epsilon)
            gap = math.log(max(value, SMALLEST_DELTA)) - goal
            # The search uses the logarithm; the sign of the result is decided without it.
            return max(gap, SMALLEST_DELTA) if value > delta else min(gap, 0.0)

        # The loop above evaluated both ends: delta is too large at `low`, small enough at `high`.
        low = 0.0 if high == 1.0 else 0.5 * high
        # A pure epsilon holds at every delta; the search may stop just above it.
        return min(self.pure, crossing(excess, low, high, 2.0**-49))

    def delta_with_tails(self, epsilon: float, mass: float) -> float:
        """Return delta at `epsilon` of a law within total variation `mass` of this loss's.

        The minimum of delta(e) + (1 + e^e) mass over some e <= epsilon; every such e is valid.
        """
        if epsilon > 1.0:  # for larger epsilon the charge alone exceeds 1
            epsilon = min(epsilon, max(1.0, -math.log(mass)))
        value = self.delta(epsilon) + charge(epsilon, mass)
        # A smaller e can be better only if the charge matters; steps of 1/4 lose little.
        if charge(epsilon, mass) > 1e-3 * value:
            at = epsilon
            while at > 1e-3:
                at = max(at - 0.25, 0.5 * at) if at > 0.25 else 0.5 * at
                value = min(value, self.delta(at) + charge(at, mass))
        return min(1.0, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers that define the loss, with its kind, under the names of records."""
        own = [each.name for each in fields(self) if each.init]  # type: ignore[arg-type]
        stored, held = dict(self.names), {name: getattr(self, name) for name in own}
        plain: Any = {n: v.to_dict() if isinstance(v, Loss) else v for n, v in held.items()}
        if "parts" in plain:
            plain["parts"] = [part.to_dict() for part in plain["parts"]]
        said = {stored.get(n, n): v for n, v in plain.items()}
        return {"kind": self.kind, **said, **dict(self.besides)}


@dataclass(frozen=True)
class Pure(Loss):
    """Log-likelihood ratios of at most `epsilon0`, everywhere (``docs/privacy/pure.md``)."""

    kind = "pure"
    names = (("pure", "epsilon"),)
    pure: float = field()

    def __post_init__(self) -> None:
        """Refuse what is not a bound."""
        self.require("pure")

    def delta(self, epsilon: float) -> float:
        """Return delta of the randomised response that dominates."""
        return pure_delta(epsilon, self.pure)


@dataclass(frozen=True)
class Zcdp(Loss):
    """Renyi divergences of at most order * rho (``docs/privacy/gaussian.md``)."""

    kind = "zcdp"
    rho: float = field()

    def __post_init__(self) -> None:
        """Refuse what is not a bound."""
        self.require("rho")

    def delta(self, epsilon: float) -> float:
        """Return the delta that the best order proves."""
        return zcdp_delta(epsilon, self.rho)


def check_epsilon(epsilon: float) -> None:
    """Raise `ValueError` unless `epsilon` is a number of at least 0."""
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")


def check_delta(delta: float) -> None:
    """Raise `ValueError` unless `delta` is a probability."""
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"delta must be in [0, 1]; got {delta!r}")


def sum_up(*terms: tuple[int, float, float]) -> float:
    """Return the sum of n a / b over terms (n, a, b), a >= 0 and b > 0: exact, then rounded up."""
    try:
        exact = sum((n * Fraction(a) / Fraction(b) for n, a, b in terms), Fraction())
        # float() rounds to nearest, so about half of the results lie below the sum. Python
        # compares the double and the fraction exactly.
        value = float(exact)
    except OverflowError:  # a term or the sum exceeds all doubles
        return math.inf
    return value if value >= exact else math.nextafter(value, math.inf)


def pure_delta(epsilon: float, pure: float) -> float:
    """Return delta at `epsilon` >= 0 of any mechanism that is `pure`-private (delta = 0)."""
    check_epsilon(epsilon)
    check_epsilon(pure)
    if epsilon >= pure:
        return 0.0
    # (1 - e^(epsilon - pure)) / (1 + e^-pure), without overflow.
    return min(1.0, -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure)) * (1.0 + _FEW))


def renyi_delta(divergences: FloatArray, epsilon: float, orders: FloatArray = ORDERS) -> float:
    """Return the least delta that divergences of `orders` prove at `epsilon` >= 0."""
    # This is Theorem 4 of docs/privacy/gaussian.md in logarithms, because e^(t D) overflows long
    # before its product with e^(-t epsilon).
    t = orders - 1.0
    with np.errstate(over="ignore", invalid="ignore"):  # such an order proves nothing
        log_delta = t * (divergences - epsilon) - np.log(t) - orders * np.log1p(1.0 / t)
        log_delta += _MARGIN + _TERM * (t * (divergences + epsilon) + np.abs(np.log(t)))
    if not np.isfinite(divergences).any():
        return 1.0
    return min(1.0, math.exp(min(0.0, float(np.nanmin(log_delta)))) + SMALLEST_DELTA)


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return the delta that rho-zCDP proves at `epsilon` >= 0, at the best of all orders."""
    check_epsilon(epsilon)
    if rho == 0.0 or epsilon == math.inf:
        return 0.0
    # `log_zcdp_delta` accepts no larger rho; 1 is always a bound.
    if rho > 1e15:
        return 1.0
    return min(1.0, math.exp(min(0.0, log_zcdp_delta(epsilon, rho))) + SMALLEST_DELTA)


def log_zcdp_delta(epsilon: float, rho: float) -> float:
    """Return the logarithm of the bound of `zcdp_delta`, which may exceed 0; 0 < rho <= 1e15."""

    # The derivative in a = 1 + e^x of the log of the bound increases from -infinity to infinity.
    # Any order is valid, so a rough root is safe.
    def slope(x: float) -> float:
        t = math.exp(x)
        return epsilon + math.log1p(1.0 / t) - (2.0 * t + 1.0) * rho

    low, high = -1.0, 1.0
    while slope(low) < 0.0 and low > -700.0:
        low = max(2.0 * low, -700.0)
    while slope(high) > 0.0 and high < 700.0:
        high = min(2.0 * high, 700.0)
    x = crossing(slope, low, high, 2.0**-40) if slope(low) > 0.0 else low
    t = math.exp(x)
    # log(1 - 1/a) = -log1p(1/t) for a = 1 + t.
    up = _MARGIN + _TERM * (t * ((1.0 + t) * rho + epsilon) + abs(x))
    return t * ((1.0 + t) * rho - epsilon) - x - (1.0 + t) * math.log1p(1.0 / t) + up


def charge(epsilon: float, mass: float) -> float:
    """Return (1 + e^epsilon) mass: the delta that a total variation of `mass` costs."""
    # Doubling is exact and needs no margin.
    if mass == 0.0 or epsilon == 0.0:
        return 2.0 * mass
    # From 700 on e^epsilon nears overflow; an infinite charge is safe.
    return (1.0 + math.exp(epsilon)) * mass * (1.0 + _FEW) if epsilon < 700.0 else math.inf


def crossing(
    function: Callable[[float], float], low: float, high: float, precision: float
) -> float:
    """Return a point at or just above where a decreasing function falls to 0 or below.

    `function` is positive at `low` and at most 0 at `high`. It is also at most 0 at the returned
    point, which is within a relative `precision` of a point where `function` is positive. The
    method is false position (Illinois), with bisection whenever three steps did not halve the
    bracket.
    """
    above, below = function(low), function(high)
    widths, last = [math.inf, math.inf, math.inf], 0
    while high - low > precision * max(abs(low), abs(high)):
        middle = 0.5 * (low + high)
        if above > below and high - low <= 0.5 * widths[0]:
            guess = high + (high - low) * below / (above - below)
            # Steps stay this far inside the bracket, so that the last one closes it from the other
            # side.
            inside = 0.5 * precision * max(abs(low), abs(high))
            middle = min(max(guess, low + inside), high - inside)
        if not low < middle < high:
            break
        widths = [*widths[1:], high - low]
        value = function(middle)
        if value > 0.0:  # an end that stays twice loses half its weight
            low, above, below = middle, value, 0.5 * below if last == 1 else below
            last = 1
        else:
            high, below, above = middle, value, 0.5 * above if last == -1 else above
            last = -1
    return high


@lru_cache(maxsize=256)
def tabulate_divergences(loss: Loss) -> FloatArray:
    """Return the bounds of a loss at `ORDERS`, read-only."""
    result = loss.renyi(loss.orders)
    result.flags.writeable = False
    return result


def pure_renyi(pure: float, orders: FloatArray) -> FloatArray:
    """Return the largest divergences of `pure`-private mechanisms, rounded up."""
    # log(p e^(t eps) + (1 - p) e^(-t eps)) / t with t = order - 1, p = 1 / (1 + e^-eps).
    t = orders - 1.0
    ratio = np.log1p(np.exp(-(2.0 * orders - 1.0) * pure)) - np.log1p(np.exp(-pure))
    # There are three bounds: the exact one, which loses digits for small `pure`; that of zCDP; and
    # the largest log-ratio, which no divergence exceeds.
    value = pure + ratio / t + 1e-15 / t + 1e-15 * pure
    with np.errstate(over="ignore"):  # on overflow the third bound is the least
        simple = 0.5 * orders * pure * pure * (1.0 + 1e-15)
    return np.asarray(np.minimum(np.minimum(value, simple), pure))
