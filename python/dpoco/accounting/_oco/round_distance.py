"""How far apart the laws of successive rounds are: the switches that "maximal" needs.

P-COMW: TV <= 2 Phi(g/2) - 1 with g = G sqrt(beta/lam). CTRL: TV <= sqrt(KL/2) with
KL <= g^2/2 + r (ln(1 + b) - b/(1 + b)), g = G/sigma, b = eta beta_s.

Proof: ``docs/privacy/oco_regret.md``.
"""

from __future__ import annotations

import math


def gibbs_distance(noise_to_signal: float) -> float:
    """Return 2 Phi(g/2) - 1, a bound on the total variation between successive laws of P-COMW."""
    return math.erf(noise_to_signal / math.sqrt(8.0))


def leader_distance(noise_to_signal: float, b: float, rank: int) -> float:
    """Return a bound on the total variation between successive laws of CTRL."""
    if b == 0.0 or rank == 0:
        return gibbs_distance(noise_to_signal)
    return min(1.0, 0.5 * math.sqrt(noise_to_signal**2 + 2.0 * rank * curving(b)))


def curving(b: float) -> float:
    """Return ln(1 + b) - b/(1 + b), without cancellation for small b."""
    if b < 1e-4:
        return b * b * (0.5 - b * (2.0 / 3.0))
    return math.log1p(b) - b / (1.0 + b)
