"""What published theorems claim, printed and repaired: for comparison with exact accounting.

DP-TOFW: Theorem 3.1 of Han et al. claims (epsilon, delta)-privacy of the tree Frank-Wolfe learner
for noise scale

    sigma_+ = sqrt(8) L sqrt(kappa) sqrt(ln(L / delta)) (beta D + L_f) / epsilon,

L = ceil(log2 n) + 1. Its composition argument uses, per node, a closed form that is not valid for
every epsilon; `dpoco.accounting.tree_frank_wolfe` checks each use of it by exact accounting.

P-COMW and CTRL (Agarwal et al.): the privacy theorems, as printed and with every step repaired, and
the regret bounds of their lazy modes: P-COMW, Theorem 4.2; CTRL, Theorems 9, 12 and 13.

Proofs: ``docs/privacy/tree_frank_wolfe.md``; ``docs/privacy/oco_regret.md``, section "Published
parameters", which says what is wrong in print.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco._validation import positive_float, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import worst_row_norm

__all__ = [
    "PublishedClaim",
    "gibbs_claim",
    "leader_claim",
    "published_epsilon",
    "published_gibbs_lazy_bound",
    "published_growing_bound",
    "published_leader_lazy_bound",
    "published_levels",
    "published_sigma",
    "tree_equivalent_scale",
]


def published_levels(pushes: int) -> int:
    """Return ceil(log2 n) + 1, the number of nodes the paper charges a round with."""
    return (positive_int("pushes", pushes) - 1).bit_length() + 1


def published_sigma(budget: Budget, *, pushes: int, kappa: float, leaf_bound: float) -> float:
    """Return sigma_+ of Theorem 3.1.

    Parameters
    ----------
    budget : Budget
        What the theorem claims.
    pushes : int
        Number of leaves n.
    kappa : float
        Smoothness constant of the noise norm relative to the dual norm.
    leaf_bound : float
        beta D + L in the dual norm.
    """
    return _sigma_epsilon(pushes, kappa, leaf_bound, budget.delta) / budget.epsilon


def published_epsilon(
    sigma: float, delta: float, *, pushes: int, kappa: float, leaf_bound: float
) -> float:
    """Return the epsilon Theorem 3.1 claims for noise scale `sigma`; arguments as above."""
    return _sigma_epsilon(pushes, kappa, leaf_bound, delta) / positive_float("sigma", sigma)


def tree_equivalent_scale(sigma: float, method: str, pushes: int) -> float:
    """Return the scale at which a binary tree's noisiest sum is as noisy as that of `method`.

    It is `sigma` itself for the tree.
    """
    return sigma * worst_row_norm(method, pushes) / worst_row_norm("tree", pushes)


def _sigma_epsilon(pushes: int, kappa: float, leaf_bound: float, delta: float) -> float:
    levels = published_levels(pushes)
    root = math.sqrt(8.0 * positive_float("kappa", kappa) * math.log(levels / delta))
    return levels * root * positive_float("leaf_bound", leaf_bound)


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


def published_gibbs_lazy_bound(
    *, horizon: int, dimension: int, lipschitz: float, diameter: float, switches: float,
    corrected: bool,
) -> float:  # fmt: skip
    """Return the regret bound of P-COMW's Theorem 4.2; the printed constant 16 lacks sqrt(2)."""
    t, whole = float(horizon), lipschitz * diameter
    constant = 16.0 * (math.sqrt(2.0) if corrected else 1.0)
    lazy = constant * math.log(t) * math.sqrt(dimension) * t / switches
    return whole * (math.sqrt(2.0 * t) + lazy + 13.0)


def published_leader_lazy_bound(
    *, horizon: int, dimension: int, lipschitz: float, smoothness: float, diameter: float,
    switches: float, generalized_linear: bool, corrected: bool,
) -> float:  # fmt: skip
    """Return the regret bound of CTRL's Theorem 9 or 12; the latter lacks a sqrt(n) in print."""
    t, whole = float(horizon), lipschitz * diameter
    noise = 12.0 * whole * math.sqrt(math.log(t))
    if not generalized_linear:
        lazy = dimension * (3.0 * smoothness * diameter**2 + noise)
    else:
        lazy = 3.0 * smoothness * diameter**2
        lazy += noise * (math.sqrt(dimension) if corrected else 1.0)
    return 2.0 * whole * math.sqrt(t) + t / switches * lazy + 14.0 * whole


def published_growing_bound(
    *, horizon: int, dimension: int, lipschitz: float, strong_convexity: float, diameter: float,
    switches: float, corrected: bool,
) -> float:  # fmt: skip
    """Return the regret bound of CTRL's Theorem 13; the second term lacks G^2 in print."""
    log = math.log(horizon)
    square = lipschitz**2 if corrected else 1.0
    lazy = 512.0 * square * dimension**2 * log * (1.0 + log) * horizon / switches**2
    main = 2.0 * lipschitz**2 * (1.0 + log)
    return (main + lazy) / strong_convexity + 14.0 * lipschitz * diameter
