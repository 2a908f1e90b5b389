"""Draws that minimise a randomly tilted objective (objective perturbation), with their bits.

A draw is the minimiser of F(x) + ||x - c||^2 / (2 eta) + B(x) + <Z, x> with Z ~ N(0, sigma^2 I), F
the sum of the losses so far, each convex, G-Lipschitz and beta_s-smooth with Hessians of rank at
most r, B any public convex function. Put b = eta beta_s. Claim: the laws of the draw for two sums
that differ in one record have Renyi divergence at most

    alpha Delta^2 / (2 sigma^2) + V_alpha                        for 1 < alpha < 1 + 1/b,

with V_alpha of second order in b, and those of draws and bits add up.

On all of R^d that needs losses that are Lipschitz there.

Proof: ``docs/privacy/objective_perturbation.md``; of the conversion to delta:
``docs/privacy/gaussian.md``, section "Renyi divergences". Source of the mechanism: Agarwal, Kale,
Singh and Thakurta, "Differentially private and lazy online convex optimization", whose bound is of
first order in b; the accounting is new.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpoco.privacy.losses.coupled_bits import DIVERGENCE_UP, Bits, coin_renyi
from dpoco.privacy.losses.loss import SMALLEST_DELTA, FloatArray, check_epsilon
from dpoco.privacy.neighbours import CHANGES

__all__ = ["Curve", "ReturningDraws", "TiltedDraws", "addition", "best_delta", "least_over_orders",
           "removal"]  # fmt: skip

Curve = Callable[[FloatArray], FloatArray]

_SMALLEST, _LARGEST = 1e-4, 1e7  # of order - 1
# Double precision does not distinguish orders this close to 1.
_NO_ORDER = 1e-8
_COARSE, _FINE, _ROUNDS = 500, 33, 4
# Theorem 8 of docs/privacy/participation.md divides by q. All q from 16 on are divided by 16.
_APART = 16  # numbers of rounds in a block from this one on are treated together
# Margins added to log delta, larger than its error; the second covers the rounding of large terms.
_MARGIN, _TERM = 2.0**-44, 2.0**-50


@dataclass(frozen=True, kw_only=True)
class TiltedDraws(Bits):
    """Bits, and draws by objective perturbation with losses that have curvature.

    Attributes
    ----------
    cap : int
        Largest number of draws after the first, at least 1.
    sensitivity_ratio : float
        Delta / sigma: the largest difference between the gradients of the exchanged losses, over
        the standard deviation of a coordinate of the noise; at least 0.
    b : float
        Step size times smoothness, eta * beta_s, at least 0; for 0 use `CoupledBits`.
    dimension, rank : int
        d, and the largest rank r of the Hessian of one loss: 1 for generalised linear losses.
    change : {"replace", "zero_out"}
        Whether a loss is exchanged for another one or for the zero loss.
    """

    kind = "renyi"
    names = (("change", "relation"),)
    _counts: ClassVar[dict[str, int]] = {"cap": 1, "dimension": 1, "rank": 0}
    cap: int
    sensitivity_ratio: float
    b: float
    dimension: int
    rank: int
    change: str

    def __post_init__(self) -> None:
        """Refuse what is not a bound."""
        super().__post_init__()
        self.require("sensitivity_ratio", "b", **self._counts)
        if self.change not in CHANGES:
            raise ValueError(f"change must be one of {list(CHANGES)}; got {self.change!r}")

    def excess(self, orders: FloatArray) -> FloatArray:
        """Return V_alpha, the part of a draw's divergence that is due to curvature.

        About alpha (n- + n+) b^2 / 2, n- and n+ the numbers of eigenvalue ratios below and above 1;
        infinite from order 1 + 1/b on.
        """
        # An eigenvalue ratio below 1 costs more than one above 1, so the worst case has as many
        # below as possible (docs/privacy/objective_perturbation.md, Theorem B). An emptied loss
        # moves all ratios to one side.
        below = min(self.rank, self.dimension)
        above = min(self.rank, self.dimension - below) if self.change == "replace" else 0
        value = np.zeros_like(orders)
        for count, divergence in ((below, removal), (above, addition)):
            if count:
                value = value + count * divergence(orders, self.b)
        return value

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the sum of the divergences of all draws and bits."""
        return np.asarray(self._renyi(orders) * DIVERGENCE_UP)

    def delta(self, epsilon: float) -> float:
        """Return the delta that the best order proves."""
        check_epsilon(epsilon)
        # Theorem B holds up to order 1 + 1 / b, which is infinite at b = 0.
        return best_delta(self._renyi, epsilon, 1.0 / self.b if self.b > 1e-300 else math.inf)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        ratio = self.sensitivity_ratio
        draw = 0.5 * ratio * ratio * orders + self.excess(orders)
        # Where squares underflow or differences cancel, the sum may be 0, which would say that the
        # laws are equal.
        if ratio > 0.0 or (self.b > 0.0 and self.rank > 0):
            draw = draw + SMALLEST_DELTA
        return self.with_bits(self.cap * draw, orders)


@dataclass(frozen=True, kw_only=True)
class ReturningDraws(TiltedDraws):
    """`TiltedDraws` whose numbers count all rounds of one person together.

    Attributes
    ----------
    factor_floor : float
        Smallest acceptance factor of one of the person's rounds.
    rounds, together : int
        Number of rounds, and the largest number in one block of `block` rounds; at least 1.
    """

    kind = "renyi_of_person"
    _counts = TiltedDraws._counts | {"rounds": 1, "together": 1, "block": 1}
    rounds: int
    together: int
    block: int

    def changed_block(self, orders: FloatArray) -> FloatArray:
        """Return the cost of the bits of all blocks of a person."""
        # `shift` adds up all rounds of a block, each moved by all changed records.
        own, other = -math.log(self.factor_floor), self.shift / self.block
        most = np.zeros_like(orders)  # cost per round of the person, if q are in a block
        for q in (*range(1, min(self.together, _APART)), self.together):
            moved = q * own + (self.block - 1) * other
            most = np.maximum(most, coin_renyi(orders, self.forced_switch, moved) / min(q, _APART))
        return np.asarray(self.rounds * most)


def removal(order: FloatArray, b: float) -> FloatArray:
    """Return the divergence that a smallest eigenvalue ratio 1/(1 + b) contributes."""
    t = order - 1.0
    # An order at the pole must not pass because order - 1 was rounded.
    inside = t * b < 1.0
    value = -math.log1p(b) - np.log1p(-np.where(inside, t * b, 0.5)) / t
    return np.where(inside, np.maximum(value, 0.0), math.inf)


def addition(order: FloatArray, b: float) -> FloatArray:
    """Return the divergence that a largest eigenvalue ratio 1 + b contributes."""
    value = (order * math.log1p(b) - np.log1p(order * b)) / (order - 1.0)
    return np.asarray(np.maximum(value, 0.0))


def best_delta(curve: Curve, epsilon: float, largest: float) -> float:
    """Return the least delta that divergences prove at `epsilon` >= 0.

    Parameters
    ----------
    curve : callable
        Orders (array) to bounds on the divergence; infinite where nothing is known.
    epsilon : float
        At least 0, possibly infinite.
    largest : float
        Supremum of order - 1 over the admissible orders, positive, possibly infinite.
    """
    if epsilon == math.inf:
        return 0.0

    def bound(t: FloatArray) -> FloatArray:
        divergence = curve(1.0 + t)
        up = _MARGIN + _TERM * (t * (divergence + epsilon) + np.abs(np.log(t)))
        return t * (divergence - epsilon) - np.log(t) - (1.0 + t) * np.log1p(1.0 / t) + up

    least = least_over_orders(curve, bound, largest)
    return 0.0 if least == -math.inf else min(1.0, math.exp(min(0.0, least)) + SMALLEST_DELTA)


def least_over_orders(curve: Curve, bound: Curve, largest: float) -> float:
    """Return about the minimum of `bound` over order - 1 in (0, largest); every order is valid.

    The result is infinite if `bound` is nowhere finite, and -infinite if some divergence is 0,
    because the laws are then equal.
    """
    if largest < _NO_ORDER:
        return math.inf
    # The comparison is exact: a divergence of 0 at one order means that the laws are equal.
    if float(curve(np.array([1.0 + min(1.0, 0.5 * largest)]))[0]) == 0.0:
        return -math.inf
    # `high` lies just inside the open end, where the divergence is still finite.
    high = math.log(min(_LARGEST, largest * (1.0 - 1e-9)))
    low = min(math.log(_SMALLEST), high - 1.0)
    best, count = math.inf, _COARSE
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, count)
        values = bound(np.exp(grid))
        at = int(np.argmin(values))
        best = min(best, float(values[at]))
        low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, count - 1)])
        count = _FINE
    return best
