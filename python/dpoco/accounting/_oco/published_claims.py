"""What the published privacy theorems of P-COMW and CTRL claim, printed and repaired.

Proof of the repaired ones: ``docs/privacy/oco_regret.md``, section "Published parameters".
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedClaim:
    """What a published privacy theorem says about some parameters.

    Attributes
    ----------
    log_ratio : float
        ln Phi, scale of the acceptance factor.
    forced_switch : float
        p of the theorem.
    hazard : float
        p~ = p + 1 - Phi^-2.
    cap : int
        floor(3 p~ T).
    composed : float
        epsilon' (printed) or S (repaired), the sum that epsilon is computed from.
    epsilon, delta : float
        The claim, delta in total.
    """

    log_ratio: float
    forced_switch: float
    hazard: float
    cap: int
    composed: float
    epsilon: float
    delta: float


def gibbs_claim(
    *, horizon: int, noise_to_signal: float, delta: float, corrected: bool
) -> PublishedClaim:
    """Return the privacy theorem of P-COMW at g = G sqrt(beta/lam).

    Parameters
    ----------
    horizon : int
        T.
    noise_to_signal : float
        g.
    delta : float
        The theorem's delta.
    corrected : bool
        Whether every step of the proof is repaired, or the theorem taken as printed.
    """
    t, g2 = float(horizon), noise_to_signal**2
    small = delta / (60.0 * t * t)
    half = 18.0 * g2 + math.sqrt(72.0 * g2 * math.log(2.0 / small))
    log_ratio = 2.0 * half
    p = min(1.0, max(t ** (-1.0 / 3.0), (g2 / log_ratio) ** (2.0 / 3.0)))
    hazard = p - math.expm1(-2.0 * log_ratio)
    cap = math.floor(3.0 * hazard * t)
    if corrected:
        composed = (2.0 * log_ratio / p) ** 2 + cap * log_ratio**2
        composed += (t - 1.0) * (2.0 * g2 / p) ** 2
    else:
        composed = 7.0 * t ** (2.0 / 3.0) * log_ratio**2 + 12.0 * t * log_ratio**3
        composed += 11.0 * t * g2 ** (2.0 / 3.0) * log_ratio ** (4.0 / 3.0)
    return _claim(t, log_ratio, p, hazard, cap, composed, delta, corrected)


def leader_claim(
    *,
    horizon: int,
    dimension: int,
    lipschitz: float,
    smoothness: float,
    step_size: float,
    noise_scale: float,
    delta: float,
    corrected: bool,
    generalized_linear: bool = False,
) -> PublishedClaim:
    """Return the privacy theorem of CTRL.

    Parameters
    ----------
    horizon, dimension : int
        T and n.
    lipschitz, smoothness, step_size, noise_scale : float
        G, beta_s, eta, sigma.
    delta : float
        The theorem's delta.
    corrected : bool
        As in `gibbs_claim`.
    generalized_linear : bool
        Whether the closeness lemma of generalised linear losses is used (n counts as 1); the paper
        proves it for one added loss only, where three are exchanged.
    """
    t, size = float(horizon), 1 if generalized_linear else dimension
    small = delta / (60.0 * t * t)
    root = math.sqrt(2.0 * size * math.log(2.0 / small))
    b, g = step_size * smoothness, lipschitz / noise_scale
    log_ratio = 2.0 * (2.0 * b * size + 4.5 * g * g + 3.0 * g * root)
    p = t ** (-1.0 / 3.0)
    hazard = p - math.expm1(-2.0 * log_ratio)
    cap = math.floor(3.0 * hazard * t)
    shift = 2.0 * g * g + 2.0 * b * b * size
    if corrected:
        composed = (2.0 * log_ratio / p) ** 2 + cap * log_ratio**2
        composed += (t - 1.0) * (shift / p) ** 2
    else:
        composed = 7.0 * log_ratio**2 * t ** (2.0 / 3.0) + 2.0 * log_ratio**3 * t
        composed += shift**2 * t ** (5.0 / 3.0)
    return _claim(t, log_ratio, p, hazard, cap, composed, delta, corrected)


def _claim(
    t: float, log_ratio: float, p: float, hazard: float, cap: int, composed: float,
    delta: float, corrected: bool,
) -> PublishedClaim:  # fmt: skip
    epsilon = 1.5 * composed + math.sqrt(6.0 * composed * math.log(2.0 / delta))
    if corrected:
        total = 0.5 * delta + cap * delta / (60.0 * t * t)
    else:
        total = delta + 3.0 * t * math.exp(t * math.expm1(-2.0 * log_ratio))
    return PublishedClaim(log_ratio, p, hazard, cap, composed, epsilon, total)
