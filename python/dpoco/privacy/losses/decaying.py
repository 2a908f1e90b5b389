"""Many private selections whose noise follows a power law: ranges that shrink from one to the next.

Selection j = 1, ..., K chooses with noise of scale b_j from scores that one record moves by amounts
within an interval of length r_j b_j. With

    r_j = range f(j),  s_j = spread f(j),  f(j) = j^exponent / (j + offset),

the log moment of order a of selection j is at most that of bounded range r_j (law "bounded_range",
the exponential mechanism) or of pure privacy r_j (law "pure", Laplace noise), and at most
a (a-1) s_j^2 / 8 or / 2. spread = range unless the selection is made of independent parts. Claim:
moments add up over j, and pure epsilons do; the sum over a group of consecutive j is at most
m(r) / r^2 at the group's last j times the group's sum of squares. If at most a_j records of one
person have entered by selection j, then a_j r_j and a_j s_j replace r_j and s_j.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``, ``docs/privacy/participation.md``. Sources: Dong,
Durfee and Rogers (2020) for bounded range; Bun and Steinke (2016) for pure privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpoco.privacy.losses.bounded_range import moment
from dpoco.privacy.losses.loss import FloatArray, Loss

__all__ = ["LARGEST_EXPONENT", "LAWS", "Decay", "Decaying", "Returning"]

LAWS = {"bounded_range": 0.125, "pure": 0.5}  # law: zCDP rho of a selection with spread 1
LARGEST_EXPONENT = 0.9
# f decreases from exponent / (1 - exponent) on. Selections up to this number are not grouped.
_SINGLE = 128
_RATIO = 1.03  # ratio of the two ends of a group
_SUMMED = 2**14  # number of terms added one by one; integrals bound the later ones
_ROUNDING = 1e-11


class Decay(NamedTuple):
    """The factors f(j) = j^exponent / (j + offset), j = 1, ..., terms; offset 0 or 1."""

    exponent: float
    offset: int
    terms: int

    def at(self, j: FloatArray) -> FloatArray:
        """Return f(j)."""
        return np.asarray(j**self.exponent / (j + self.offset))

    def total(self, start: int = 1) -> float:
        """Return the sum of f(j) over j >= start, rounded up."""
        return _up(_groups(self, start)[1])

    def squares(self, start: int = 1) -> float:
        """Return the sum of f(j)^2 over j >= start, rounded up."""
        return _up(_groups(self, start)[2])


@dataclass(frozen=True)
class Decaying(Loss):
    """Selections j = 1, ..., terms of `law` with ranges range f(j), and spreads spread f(j)."""

    kind = "selections"
    law: str
    range: float
    spread: float
    exponent: float
    offset: int
    terms: int
    rho: float = field(init=False, repr=False, compare=False)
    pure: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that no proof covers."""
        if self.law not in LAWS:
            raise ValueError(f"law must be one of {list(LAWS)}; got {self.law!r}")
        if not 0.0 <= self.spread <= self.range < math.inf:
            raise ValueError("range and spread must be at least 0, and spread at most range")
        if not 0.0 <= self.exponent <= LARGEST_EXPONENT:
            raise ValueError(f"exponent must be in [0, {LARGEST_EXPONENT}]; got {self.exponent!r}")
        self.require(offset=0, terms=1)
        if self.offset > 1:
            raise ValueError("offset must be 0 or 1")
        object.__setattr__(self, "rho", self.rho_from(1))
        object.__setattr__(self, "pure", self.range * _up(self._groups(1)[1]))

    @property
    def decay(self) -> Decay:
        """The factors by which ranges and spreads shrink."""
        return Decay(self.exponent, self.offset, self.terms)

    def rho_from(self, start: int) -> float:
        """Return the zCDP rho of the selections from number `start` on."""
        return LAWS[self.law] * self.spread * self.spread * _up(self._groups(start)[2])

    def _crowd(self, last: FloatArray) -> FloatArray:
        """Return the largest number of changed records that have entered by these selections."""
        return np.ones_like(last)

    def _groups(self, start: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return, for groups of j >= start: last factor, sum of factors, sum of their squares."""
        last, sums, squares = _groups(self.decay, start)
        many = self._crowd(last)  # the number at a group's end bounds that of all its members
        return many * self.decay.at(last), many * sums, many * many * squares

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return bounds on the divergences of all selections together."""
        a = orders[:, None]
        f, _, squares = self._groups(1)
        law = _pure_moment if self.law == "pure" else moment
        quadratic = LAWS[self.law] * a * (a - 1.0) * np.square(self.spread * f)
        # `law(r) / r^2` does not increase in r, and factors decrease within a group, so the
        # quotient at its last member bounds that of all members
        # (docs/privacy/polyhedral_frank_wolfe.md, "Sums over many updates").
        total = np.minimum(law(self.range * f, a), quadratic) @ (squares / np.square(f))
        return np.asarray(total * (1.0 + _ROUNDING) / (orders - 1.0))


@dataclass(frozen=True)
class Returning(Decaying):
    """`Decaying` for up to `rounds` records of one person, at least `separation` rounds apart.

    By selection j, as many records may have entered as fit into the first `batch` j rounds. If each
    of `arms` selects by a separate clock, which only `forced` rounds move at first, in any order,
    these rounds include those of the other arms.
    """

    kind = "selections_of_person"
    rounds: int
    separation: int
    batch: int
    arms: int = 1
    forced: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that count no rounds."""
        # This check precedes that of the base class, which computes rho and pure with `_crowd` and
        # so reads these fields.
        self.require(rounds=1, separation=1, batch=1, arms=1, forced=0)
        super().__post_init__()

    def _crowd(self, last: FloatArray) -> FloatArray:
        """Return the largest number of a person's records that have entered these selections."""
        # Theorem 5 of docs/privacy/participation.md; with a single arm, its Theorem 4.
        before = (self.arms - 1) * self.forced
        passed = (before + max(self.forced, self.batch * int(j)) for j in last)
        return np.array([min(self.rounds, -(-t // self.separation)) for t in passed], dtype=float)


def _up(values: FloatArray) -> float:
    """Return the sum, rounded up."""
    return float(values.sum()) * (1.0 + _ROUNDING)


def _pure_moment(epsilon: FloatArray, a: FloatArray) -> FloatArray:
    """Return the log moment of randomised response, which dominates pure privacy."""
    exact = (a - 1.0) * epsilon + np.log1p(np.exp((1.0 - 2.0 * a) * epsilon))
    # The margin rounds up: the difference of terms of size log 2 and more loses digits.
    slack = 1e-15 * (2.0 + (a - 1.0) * epsilon)
    return np.asarray(exact - np.log1p(np.exp(-epsilon)) + slack)


@lru_cache(maxsize=256)
def _groups(decay: Decay, start: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return, for groups of consecutive j >= start: last j, sum of f, sum of f^2 (upper bounds)."""
    count = decay.terms
    singles = np.arange(float(start), min(count, start + _SINGLE - 1) + 1.0)
    ends, at = list(singles), start + _SINGLE - 1
    while at < count:
        at = min(count, max(at + 1, int(at * _RATIO)))
        ends.append(float(at))
    last = np.array(ends)
    first = np.concatenate([[float(start)], last[:-1] + 1.0])
    sums, squares = np.empty_like(last), np.empty_like(last)
    summed = last <= start + _SUMMED
    known = int(summed.sum())
    f = decay.at(np.arange(float(start), last[known - 1] + 1.0))
    begin = (first[:known] - start).astype(np.intp)
    sums[:known], squares[:known] = np.add.reduceat(f, begin), np.add.reduceat(f * f, begin)
    # f^n (x) = (x + o)^(n (exponent - 1)) (x / (x + o))^(n exponent). The last factor increases.
    # The first is convex, so its sum over first..last is at most its integral from first - 1/2 to
    # last + 1/2.
    low, high, end = (x[known:] + decay.offset for x in (first - 0.5, last + 0.5, last))
    fading = (last[known:] / end) ** decay.exponent
    sums[known:] = fading * _integral(decay.exponent - 1.0, low, high)
    squares[known:] = fading**2 * _integral(2.0 * (decay.exponent - 1.0), low, high)
    for array in (last, sums, squares):
        array.flags.writeable = False
    return last, sums, squares


def _integral(power: float, low: Any, high: Any) -> FloatArray:
    """Return the integral of x^power; accurate also where power + 1 is near 0."""
    p = power + 1.0
    ratio = np.log(high) - np.log(low)
    if p == 0.0:
        return np.asarray(ratio)
    return np.asarray(np.power(low, p) * np.expm1(p * ratio) / p)
