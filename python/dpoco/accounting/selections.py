"""Many private selections whose noise follows a power law: ranges that shrink from one to the next.

Selection j = 1, ..., K chooses with noise of scale b_j from scores that one record moves by amounts
within an interval of length r_j b_j. With

    r_j = range f(j),  s_j = spread f(j),  f(j) = j^exponent / (j + offset),

the log moment of order a of selection j is at most that of bounded range r_j (law "bounded_range",
the exponential mechanism) or of pure privacy r_j (law "pure", Laplace noise), and at most
a (a-1) s_j^2 / 8 or / 2. spread = range unless the selection is made of independent parts. Claim:
moments add up over j, and pure epsilons do; the sum over a group of consecutive j is at most
m(r) / r^2 at the group's last j times the group's sum of squares.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``. Sources: Dong, Durfee and Rogers (2020) for
bounded range; Bun and Steinke (2016) for pure privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import choice, positive_int, real_float
from dpoco.accounting.bounded_range import moment
from dpoco.accounting.events import zcdp_event
from dpoco.accounting.pure import pure_delta, pure_epsilon_at
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_delta, rdp_epsilon
from dpoco.accounting.zcdp import zcdp_delta, zcdp_epsilon

__all__ = [
    "LARGEST_EXPONENT",
    "LAWS",
    "Decay",
    "checked",
    "describe",
    "event",
    "profile_delta",
    "profile_epsilon",
    "pure_epsilon",
    "selections_profile",
    "selections_rho",
]

FloatArray = NDArray[np.float64]

LAWS = {"bounded_range": 0.125, "pure": 0.5}  # law: zCDP rho of a selection with spread 1
LARGEST_EXPONENT = 0.9
# f decreases from exponent / (1 - exponent) on; up to here every selection is on its own.
_SINGLE = 128
_RATIO = 1.03  # of the ends of a group
_SUMMED = 2**14  # terms added one by one; integrals beyond
_ROUNDING = 1e-11
_FIELDS = {"kind", "law", "range", "spread", "exponent", "offset", "terms"}


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
        return float(_groups(self, start)[1].sum()) * (1.0 + _ROUNDING)

    def squares(self, start: int = 1) -> float:
        """Return the sum of f(j)^2 over j >= start, rounded up."""
        return float(_groups(self, start)[2].sum()) * (1.0 + _ROUNDING)

    def mean_scale(self) -> float:
        """Return the mean of j^-exponent."""
        head = np.arange(1.0, min(self.terms, _SUMMED) + 1.0) ** -self.exponent
        tail = 0.0
        if self.terms > _SUMMED:
            tail = float(_integral(-self.exponent, _SUMMED + 0.5, self.terms + 0.5))
        return (float(head.sum()) + tail) / self.terms


def selections_profile(law: str, reach: float, spread: float, decay: Decay) -> dict[str, Any]:
    """Return the record of selections with ranges reach f(j), for ``Guarantee.profile``."""
    return checked(
        {"kind": "selections", "law": law, "range": reach, "spread": spread, **decay._asdict()}
    )


def selections_rho(law: str, spread: float, decay: Decay, start: int = 1) -> float:
    """Return the zCDP rho of the selections from number `start` on."""
    return LAWS[law] * spread * spread * decay.squares(start)


def checked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of a record."""
    if set(record) != _FIELDS:
        raise ValueError(f"a profile of kind 'selections' has the fields {sorted(_FIELDS)}")
    reach, spread = (real_float(name, record[name]) for name in ("range", "spread"))
    if not 0.0 <= spread <= reach:
        raise ValueError("range and spread must be at least 0, and spread at most range")
    exponent = real_float("exponent", record["exponent"])
    if not 0.0 <= exponent <= LARGEST_EXPONENT:
        raise ValueError(f"exponent must be in [0, {LARGEST_EXPONENT}]; got {exponent!r}")
    if record["offset"] not in (0, 1):
        raise ValueError("offset must be 0 or 1")
    return {
        "kind": "selections",
        "law": choice("law", record["law"], LAWS),
        "range": reach,
        "spread": spread,
        "exponent": exponent,
        "offset": int(record["offset"]),
        "terms": positive_int("terms", record["terms"]),
    }


def profile_delta(record: Mapping[str, Any], epsilon: float) -> float:
    """Return delta at `epsilon` >= 0: the best of Renyi, zCDP and pure accounting."""
    pure = pure_epsilon(record)
    if epsilon >= pure:
        return 0.0
    law, reach, spread, decay = _read(record)
    return min(
        pure_delta(epsilon, pure),
        zcdp_delta(epsilon, selections_rho(law, spread, decay)),
        rdp_delta(DEFAULT_ORDERS, _divergences(law, reach, spread, decay), epsilon),
    )


def profile_epsilon(record: Mapping[str, Any], delta: float) -> float:
    """Return the smallest epsilon >= 0 known at `delta` in (0, 1)."""
    law, reach, spread, decay = _read(record)
    return min(
        pure_epsilon_at(delta, pure_epsilon(record)),
        zcdp_epsilon(selections_rho(law, spread, decay), delta),
        rdp_epsilon(DEFAULT_ORDERS, _divergences(law, reach, spread, decay), delta),
    )


def pure_epsilon(record: Mapping[str, Any]) -> float:
    """Return the epsilon at delta = 0: the sum of the ranges."""
    _, reach, _, decay = _read(record)
    return reach * decay.total()


def describe(record: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    law, reach, _, decay = _read(record)
    first, last = reach * decay.at(np.array([1.0, float(decay.terms)]))
    kind = "of bounded range" if law == "bounded_range" else "of pure epsilon"
    return f"{decay.terms} selections {kind} {first:.6g} down to {last:.6g}"


def event(record: Mapping[str, Any]) -> Any:
    """Return a zCDP event, which is weaker than the profile; ``ValueError`` if nothing is spent."""
    law, _, spread, decay = _read(record)
    return zcdp_event(selections_rho(law, spread, decay))


def _read(record: Mapping[str, Any]) -> tuple[str, float, float, Decay]:
    decay = Decay(float(record["exponent"]), int(record["offset"]), int(record["terms"]))
    return record["law"], float(record["range"]), float(record["spread"]), decay


@lru_cache(maxsize=64)
def _divergences(law: str, reach: float, spread: float, decay: Decay) -> FloatArray:
    """Return bounds on the Renyi divergences of all selections together, at `DEFAULT_ORDERS`."""
    orders = np.array(DEFAULT_ORDERS)
    a = orders[:, None]
    last, _, squares = _groups(decay, 1)
    f = decay.at(last)
    moments = _pure_moment(reach * f, a) if law == "pure" else moment(reach * f, a)
    quadratic = LAWS[law] * a * (a - 1.0) * np.square(spread * f)
    total = np.minimum(moments, quadratic) @ (squares / np.square(f))
    result: FloatArray = total * (1.0 + _ROUNDING) / (orders - 1.0)
    result.flags.writeable = False
    return result


def _pure_moment(epsilon: FloatArray, a: FloatArray) -> FloatArray:
    """Return the log moment of randomised response, which dominates pure privacy."""
    exact = (a - 1.0) * epsilon + np.log1p(np.exp((1.0 - 2.0 * a) * epsilon))
    # Rounded up: what is left of terms up to log 2 and more loses digits.
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
    # f^n (x) = (x + o)^(n (exponent - 1)) (x / (x + o))^(n exponent): the last factor grows, the
    # first is convex, so that its sum is at most an integral from half before to half behind.
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
