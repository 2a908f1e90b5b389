"""Stay-or-switch bits composed with Gaussian draws.

A lazy learner releases its decisions and, after every block, one bit: keep the decision or draw a
fresh one. A decision stays with probability (1 - p) w, w the product of the acceptance factors of
its block. When a record of the block changes and its factor lies in [w_lo, 1], the bit is dominated
by the coins p and 1 - (1 - p) w_lo, one way round or the other; every later bit, whose log w moves
by at most c, by one three-outcome pair that covers both ways. Claim: with draws that are together
mu-GDP and n later bits, the release has the curve

    delta(epsilon) = max over the orientations (a, b) of the coin pair of
        sum_o a_o sum_k P(D = k) delta_G(epsilon - log(a_o / b_o) - k step; mu),

D being the number of the up outcomes minus that of the down outcomes in n trials of the
three-outcome pair. The order of the bits and draws and adaptive data do not matter.

Proof: ``docs/privacy/couplings.md``. Source of the mechanism: Agarwal, Kale, Singh and Thakurta,
"Improved differentially private and lazy online convex optimization"; the accounting is exact
where theirs splits epsilon and delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.losses.line_sum import LossSum, log_delta
from dpoco.privacy.losses.loss import SMALLEST_DELTA, FloatArray, Loss, check_delta, check_epsilon

__all__ = ["DIVERGENCE_UP", "LEAST_FACTOR", "Bits", "CoupledBits", "coin_renyi",
           "later_bit_pair", "switch_probability"]  # fmt: skip

LEAST_FACTOR = 1e-300  # replaces all smaller factors; see `CoupledBits.delta`
# Relative margin on the composed curve, larger than its error.
_MARGIN = 1e-8
_LOSS = 2.0**-50  # relative margin on a privacy loss
DIVERGENCE_UP = 1.0 + 1e-12  # more than the roundings of a divergence


@dataclass(frozen=True, kw_only=True)
class Bits(Loss):
    """The bits of a lazy learner, composed with draws that a subclass describes.

    Attributes
    ----------
    forced_switch : float
        Probability p of a forced switch per decision, in (0, 1]; 1 means that no bit is random.
    factor_floor : float
        Smallest acceptance factor of the changed block, in (0, 1]; with blocks of m rounds whose
        other factors move by e^shift each, ``w * exp(-(m - 1) shift)``.
    later_bits : int
        Number of decisions after that of the changed block, at least 0.
    shift : float
        How far the log stay probability of a later block moves, at least 0.
    """

    forced_switch: float
    factor_floor: float
    later_bits: int = 0
    shift: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that describe no bits."""
        for name in ("forced_switch", "factor_floor"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be in (0, 1]; got {getattr(self, name)!r}")
        self.require("shift", later_bits=0)

    def with_bits(self, draws: FloatArray, orders: FloatArray) -> FloatArray:
        """Return the divergences of the draws plus those of all bits, in the worse direction."""
        p, w = self.forced_switch, self.factor_floor
        # `LEAST_FACTOR` may stand for any smaller factor, whose divergences have no bound.
        if p < 1.0 and w <= LEAST_FACTOR:
            return np.full(orders.shape, math.inf)
        later = self.later_bits * coin_renyi(orders, p, self.shift)
        return np.asarray(draws + self.changed_block(orders) + later)

    def changed_block(self, orders: FloatArray) -> FloatArray:
        """Return the divergences of the changed block's bit."""
        return coin_renyi(orders, self.forced_switch, -math.log(self.factor_floor))


@dataclass(frozen=True, kw_only=True)
class CoupledBits(Bits):
    """Bits, and draws that are together `draws`-GDP."""

    kind = "gaussian"
    names = (("draws", "mu"),)
    draws: float
    mu: float = field(init=False, repr=False, compare=False)
    rho: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that are not bounds; without random bits only the draws count."""
        super().__post_init__()
        self.require("draws")
        # The comparison is exact: only at probability 1 is no bit random. Otherwise the bits are
        # released with the draws, and no mu covers them.
        mu = self.draws if self.forced_switch == 1.0 else math.inf
        object.__setattr__(self, "mu", mu)
        object.__setattr__(self, "rho", 0.5 * mu * mu)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the sum of the divergences of the draws and of all bits."""
        return np.asarray(self.with_bits(0.5 * orders * self.draws**2, orders) * DIVERGENCE_UP)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon; infinite from mu = 1e8 on, where doubles do not resolve it."""
        check_delta(delta)
        return math.inf if self.draws >= 1e8 else super().epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return the composed curve, rounded up.

        Never below the truth; above it by a relative 2e-8 at most, down to 1e-300. About 0.2 ms
        whatever `later_bits`; O(sqrt(later_bits)) when the draws add next to nothing.
        """
        check_epsilon(epsilon)
        p, w, mu = self.forced_switch, self.factor_floor, self.draws
        if p == 1.0 or epsilon == math.inf:
            return gaussian_delta(epsilon, mu)
        # A smaller factor would matter first for epsilon near its logarithm.
        if mu == math.inf or (w <= LEAST_FACTOR and epsilon > 600.0):
            return 1.0
        rare, step = later_bit_pair(p, self.shift)
        trials = self.later_bits if step > 0.0 else 0
        stay = (1.0 - p) * w
        switch = switch_probability(p, w)
        gains = (-math.log1p((1.0 - p) * (1.0 - w) / p), -math.log(w))
        total = 0.0
        # The pair of coins in both orientations. Losses are rounded up, which only raises delta.
        for weights, exact in (((p, 1.0 - p), gains), ((switch, stay), (-gains[0], -gains[1]))):
            losses = (exact[0] + _LOSS * abs(exact[0]), exact[1] + _LOSS * abs(exact[1]))
            if trials == 0:
                value = sum(
                    a * _any_gaussian_delta(epsilon - loss, mu)
                    for a, loss in zip(weights, losses, strict=True)
                )
            else:
                loss_sum = LossSum(mu, weights, losses, trials, rare, step)
                value = math.exp(log_delta(epsilon, loss_sum))
            total = max(total, value)
            # The two coins are then equal, and so are both orientations.
            if w == 1.0:
                break
        # Without draws and later bits only one coin remains, whose delta may be exactly 0.
        least = SMALLEST_DELTA if mu > 0.0 or trials else 0.0
        return min(1.0, total * (1.0 + _MARGIN) + least)


def switch_probability(forced_switch: float, stay_factor: float) -> float:
    """Return 1 - (1 - forced_switch) stay_factor, the probability of a switch, exactly rounded."""
    return forced_switch + (1.0 - forced_switch) * (1.0 - stay_factor)


def later_bit_pair(forced_switch: float, shift: float) -> tuple[float, float]:
    """Return (rare, step) of the three-outcome pair that dominates every later bit.

    Under P the loss is +step with probability rare * e^step, -step with probability `rare` and 0
    otherwise; under Q the first two are exchanged.
    """
    if forced_switch == 1.0 or shift == 0.0:
        return 0.0, 0.0
    moved = -(1.0 - forced_switch) * math.expm1(-shift)
    # If the two switch probabilities add up to more than 1, the corners of the two coins' curves
    # change places (docs/privacy/couplings.md, Lemma 3).
    if 2.0 * forced_switch + moved > 1.0:
        return (1.0 - forced_switch) * math.exp(-shift), shift
    return forced_switch, math.log1p(moved / forced_switch)


def _any_gaussian_delta(epsilon: float, mu: float) -> float:
    """Return delta(epsilon; mu) for any finite epsilon."""
    if epsilon >= 0.0:
        return gaussian_delta(epsilon, mu)
    return math.exp(epsilon) * gaussian_delta(-epsilon, mu) - math.expm1(epsilon)


def coin_renyi(orders: FloatArray, p: float, shift: float) -> FloatArray:
    """Return the larger Renyi divergence between stay probabilities 1 - p and (1 - p) e^-shift."""
    t = orders - 1.0
    if p == 1.0 or shift == 0.0:
        return np.zeros_like(t)
    moved = -(1.0 - p) * math.expm1(-shift)
    gap = math.log1p(moved / p)
    forward = _log_moment(t, (p, 1.0 - p), (-gap, shift))
    backward = _log_moment(t, (p + moved, (1.0 - p) * math.exp(-shift)), (gap, -shift))
    return np.asarray(np.maximum(np.maximum(forward, backward) / t, 0.0))


def _log_moment(
    t: FloatArray, weights: tuple[float, float], losses: tuple[float, float]
) -> FloatArray:
    """Return log sum_o weights_o e^(t losses_o), to full relative accuracy for small losses."""
    top = t * max(losses)
    with np.errstate(over="ignore", divide="ignore"):
        terms = [w * np.exp(t * x - top) for w, x in zip(weights, losses, strict=True)]
        large = top + np.log(terms[0] + terms[1])
        # These terms are used for small exponents only; the minimum prevents overflow of the rest.
        drops = [w * np.expm1(np.minimum(t * x, 1.0)) for w, x in zip(weights, losses, strict=True)]
        small = np.log1p(drops[0] + drops[1])
    return np.where(top > 0.5, large, small)
