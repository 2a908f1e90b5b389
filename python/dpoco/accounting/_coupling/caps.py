"""Caps on the number of fresh draws that are hit with small probability.

A cap is private whatever it is; these make hitting it, and so its cost in regret, unlikely.
Proof: ``docs/privacy/couplings.md``, section "Caps".
"""

from __future__ import annotations

import math

from dpoco._validation import real_float

__all__ = ["bernstein_cap", "switch_cap"]


def switch_cap(decisions: int, hazard: float, tail: float) -> int:
    """Return the smallest B with P(Binomial(decisions, hazard) > B) <= tail.

    Parameters
    ----------
    decisions : int
        Number of stay-or-switch decisions, at least 0.
    hazard : float
        Upper bound on the probability of a switch given the history, in [0, 1].
    tail : float
        In (0, 1).
    """
    from scipy.special import betainc

    if decisions < 0:
        raise ValueError(f"decisions must be at least 0; got {decisions}")
    if not 0.0 <= real_float("hazard", hazard) <= 1.0:
        raise ValueError(f"hazard must be in [0, 1]; got {hazard!r}")
    _check_tail(tail)
    low, high = -1, decisions
    while high - low > 1:
        middle = (low + high) // 2
        # P(X > B) = I_hazard(B + 1, decisions - B).
        if float(betainc(middle + 1.0, float(decisions - middle), hazard)) <= tail:
            high = middle
        else:
            low = middle
    return high


def bernstein_cap(mean: float, tail: float) -> int:
    """Return a B with P(N > B) <= tail for every sum N of independent bits of at most this mean.

    B is the ceiling of M + L/3 + sqrt(L^2/9 + 2 M L), L = log(1/tail) (Bernstein's inequality; the
    variance of a sum of independent bits is at most its mean M).

    Parameters
    ----------
    mean : float
        Upper bound on the expected number of switches, at least 0.
    tail : float
        In (0, 1).
    """
    if not real_float("mean", mean) >= 0.0:
        raise ValueError(f"mean must be at least 0; got {mean!r}")
    _check_tail(tail)
    log_tail = -math.log(tail)
    spread = math.sqrt(log_tail**2 / 9.0 + 2.0 * mean * log_tail)
    return math.ceil(mean + log_tail / 3.0 + spread)


def _check_tail(tail: float) -> None:
    if not 0.0 < real_float("tail", tail) < 1.0:
        raise ValueError(f"tail must be strictly between 0 and 1; got {tail!r}")
