"""Accounting of stay-or-switch bits composed with Gaussian draws.

A lazy learner releases its decisions and, after every block, one bit: keep the decision or draw a
fresh one. The bit of the block with the changed record is dominated by one pair of coins, every
later bit by one three-outcome pair, and every draw is mu-GDP. Claim: with at most B draws and n
later bits, the release has the profile

    delta(epsilon) = max over the orientations (a, b) of the coin pair of
        sum_o a_o sum_k P(D = k) delta_G(epsilon - log(a_o / b_o) - k step; mu sqrt(B)),

D being the number of the up outcomes minus that of the down outcomes in n trials of the
three-outcome pair. The order of the bits and draws and adaptive data do not matter.

Proof: ``docs/privacy/couplings.md``. Source of the mechanism: Agarwal, Kale, Singh and Thakurta,
"Improved differentially private and lazy online convex optimization"; the accounting is exact
where theirs splits epsilon and delta.
"""

from __future__ import annotations

import math

import numpy as np

from dpoco._validation import real_float
from dpoco.accounting._coupling.bits import (
    bit_epsilon,
    bit_renyi,
    checked_bit,
    checked_later,
    later_bit_epsilon,
    later_bit_pair,
    later_bit_renyi,
    switch_probability,
)
from dpoco.accounting._coupling.caps import bernstein_cap, switch_cap
from dpoco.accounting._coupling.profile_sum import LossSum, log_delta
from dpoco.accounting.gaussian import (
    SMALLEST_DELTA,
    gaussian_delta,
    gaussian_epsilon,
    smallest_epsilon,
)

__all__ = [
    "bernstein_cap",
    "bit_epsilon",
    "bit_renyi",
    "coupled_delta",
    "coupled_epsilon",
    "later_bit_epsilon",
    "later_bit_pair",
    "later_bit_renyi",
    "switch_cap",
    "switch_probability",
]

# Relative, of the composed profile: more than its error.
_MARGIN = 1e-8
_LOSS = 2.0**-50  # relative, of a loss


def coupled_delta(
    epsilon: float,
    *,
    mu: float,
    forced_switch: float,
    factor_floor: float,
    later_bits: int = 0,
    shift: float = 0.0,
) -> float:
    """Return delta(epsilon) of the composed profile.

    Parameters
    ----------
    epsilon : float
        At least 0, possibly infinite.
    mu : float
        GDP parameter of all draws together, ``draw_mu * sqrt(cap)``; at least 0.
    forced_switch : float
        Probability of a forced switch per decision, in (0, 1]; 1 means that no bit is random.
    factor_floor : float
        Smallest acceptance factor of the changed block, in (0, 1], see `bit_epsilon`.
    later_bits : int
        Number of decisions after that of the changed block, at least 0.
    shift : float
        How far the log stay probability of a later block moves, at least 0.

    Returns
    -------
    float
        In [0, 1], never below the truth; above it by a relative 2e-8 at most, down to 1e-300.

    Notes
    -----
    About 0.2 ms whatever `later_bits`; O(sqrt(later_bits)) when the draws add next to nothing.
    """
    arguments = _checked_profile(mu, forced_switch, factor_floor, later_bits, shift)
    if math.isnan(epsilon) or epsilon < 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    return _delta(epsilon, *arguments)


def coupled_epsilon(
    delta: float,
    *,
    mu: float,
    forced_switch: float,
    factor_floor: float,
    later_bits: int = 0,
    shift: float = 0.0,
) -> float:
    """Return the smallest epsilon >= 0 with ``coupled_delta(epsilon, ...) <= delta``, rounded up.

    Parameters
    ----------
    delta : float
        Strictly between 0 and 1.
    mu, forced_switch, factor_floor, later_bits, shift
        As in `coupled_delta`.

    Returns
    -------
    float
        The inequality holds for the returned value. Infinite from mu = 1e8 on.
    """
    if not 0.0 < real_float("delta", delta) < 1.0:
        raise ValueError(f"delta must be strictly between 0 and 1; got {delta!r}")
    arguments = _checked_profile(mu, forced_switch, factor_floor, later_bits, shift)
    if mu >= 1e8:
        return math.inf
    if forced_switch == 1.0:
        return gaussian_epsilon(mu, delta)

    def holds(epsilon: float) -> bool:
        return _delta(epsilon, *arguments) <= delta

    if holds(0.0):
        return 0.0
    target = math.log(delta)

    def excess(epsilon: float) -> float:
        value = _delta(epsilon, *arguments)
        return math.log(value) - target if value > 0.0 else -750.0 - target

    highest = bit_epsilon(forced_switch, factor_floor) + gaussian_epsilon(mu, delta)
    while not holds(highest):
        highest = 2.0 * highest + 1e-300
    return smallest_epsilon(excess, holds, highest)


def _delta(epsilon: float, mu: float, p: float, w: float, trials: int, shift: float) -> float:
    if epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    if p == 1.0:
        return gaussian_delta(epsilon, mu)
    rare, step = later_bit_pair(p, shift)
    trials = trials if step > 0.0 else 0
    stay = (1.0 - p) * w
    switch = switch_probability(p, w)
    gains = (-math.log1p((1.0 - p) * (1.0 - w) / p), -math.log(w))
    total = 0.0
    # The pair of coins, both ways round; losses are rounded up, which only adds to delta.
    for weights, exact in (
        ((p, 1.0 - p), gains),
        ((switch, stay), (-gains[0], -gains[1])),
    ):
        losses = (exact[0] + _LOSS * abs(exact[0]), exact[1] + _LOSS * abs(exact[1]))
        if trials == 0:
            value = sum(
                a * _gaussian_delta(epsilon - loss, mu)
                for a, loss in zip(weights, losses, strict=True)
            )
        else:
            loss_sum = LossSum(mu, weights, losses, trials, rare, step)
            value = math.exp(log_delta(epsilon, loss_sum))
        total = max(total, value)
        if w == 1.0:
            break
    least = SMALLEST_DELTA if mu > 0.0 or trials else 0.0
    return min(1.0, total * (1.0 + _MARGIN) + least)


def _gaussian_delta(epsilon: float, mu: float) -> float:
    """Return delta(epsilon; mu) for any finite epsilon."""
    if epsilon >= 0.0:
        return gaussian_delta(epsilon, mu)
    return math.exp(epsilon) * gaussian_delta(-epsilon, mu) - math.expm1(epsilon)


def _checked_profile(
    mu: float, forced_switch: float, factor_floor: float, later_bits: int, shift: float
) -> tuple[float, float, float, int, float]:
    p, w = checked_bit(forced_switch, factor_floor)
    _, c = checked_later(forced_switch, shift)
    if not mu >= 0.0:
        raise ValueError(f"mu must be at least 0; got {mu!r}")
    if isinstance(later_bits, bool) or not isinstance(later_bits, int | np.integer):
        raise TypeError(f"later_bits must be an int; got {type(later_bits).__name__}")
    if later_bits < 0:
        raise ValueError(f"later_bits must be at least 0; got {later_bits}")
    return float(mu), p, w, int(later_bits), c
