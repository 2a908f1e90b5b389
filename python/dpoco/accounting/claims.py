"""Claims of published privacy theorems about parameters, to compare with exact accounting.

DP-TOFW: Theorem 3.1 of Han et al. claims (epsilon, delta)-privacy of the tree Frank-Wolfe learner
for noise scale

    sigma_+ = sqrt(8) L sqrt(kappa) sqrt(ln(L / delta)) (beta D + L_f) / epsilon,

with L = ceil(log2 n) + 1. Its composition argument uses a closed form per node that is not valid
for every epsilon.

P-COMW and CTRL (Agarwal et al.): P-COMW, Theorem 4.1, and CTRL, Theorems 8 (smooth losses) and 11
(generalised linear losses), as printed or with every step repaired. Claims are reported but never
certified. For short horizons the printed delta exceeds 1.

`dpoco.published` has the parameters for these theorems. Proofs:
``docs/privacy/tree_frank_wolfe.md``; ``docs/privacy/oco_regret.md``, section "Published
parameters", which lists the errors in print.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco._validation import positive_float, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import Method, worst_row_norm

__all__ = ["PublishedClaim", "gibbs_claim", "leader_claim", "published_epsilon",
           "published_levels", "published_sigma", "tree_equivalent_scale"]  # fmt: skip


def published_levels(pushes: int) -> int:
    """Return ceil(log2 n) + 1, the number of nodes that the paper charges for a round."""
    return (positive_int("pushes", pushes) - 1).bit_length() + 1


def published_sigma(budget: Budget, *, pushes: int, kappa: float, leaf_bound: float) -> float:
    """Return sigma_+ of Theorem 3.1.

    Parameters
    ----------
    budget : Budget
        The (epsilon, delta) that the theorem claims.
    pushes : int
        Number of leaves n.
    kappa : float
        Smoothness constant of the noise norm relative to the dual norm.
    leaf_bound : float
        beta D + L in the dual norm.

    Raises
    ------
    ValueError, TypeError
        For numbers out of range.
    """
    return _sigma_epsilon(pushes, kappa, leaf_bound, budget.delta) / budget.epsilon


def published_epsilon(
    sigma: float, delta: float, *, pushes: int, kappa: float, leaf_bound: float
) -> float:
    """Return the epsilon Theorem 3.1 claims for noise scale `sigma`; arguments as above."""
    return _sigma_epsilon(pushes, kappa, leaf_bound, delta) / positive_float("sigma", sigma)


def tree_equivalent_scale(sigma: float, method: Method, pushes: int) -> float:
    """Return the scale at which a binary tree's noisiest sum is as noisy as that of `method`.

    For the tree it is `sigma`. The theorem is about trees, so this makes other sums comparable.

    Parameters
    ----------
    sigma : float
        Scale of a draw in the sum by `method`.
    method : str or factorisation
        See `continual_sum.factorisation`.
    pushes : int
        Number of leaves n.
    """
    # The deviation of a sum's noise is the norm of a row of the factorisation, times the scale.
    return sigma * worst_row_norm(method, pushes) / worst_row_norm("tree", pushes)


def _sigma_epsilon(pushes: int, kappa: float, leaf_bound: float, delta: float) -> float:
    """Return sigma_+ times epsilon, which the theorem keeps constant."""
    levels = published_levels(pushes)
    root = math.sqrt(8.0 * positive_float("kappa", kappa) * math.log(levels / delta))
    return levels * root * positive_float("leaf_bound", leaf_bound)


@dataclass(frozen=True, slots=True)
class PublishedClaim:
    """The claim of a published privacy theorem for given parameters.

    Attributes
    ----------
    log_ratio : float
        ln Phi, scale of the acceptance factor.
    forced_switch : float
        p of the theorem.
    cap : int
        floor(3 p~ T), p~ = p + 1 - Phi^-2.
    epsilon, delta : float
        The claimed epsilon, and the claimed total delta.
    """

    log_ratio: float
    forced_switch: float
    cap: int
    epsilon: float
    delta: float


def gibbs_claim(horizon: int, g: float, delta: float, corrected: bool) -> PublishedClaim:
    """Return the privacy theorem of P-COMW.

    Parameters
    ----------
    horizon : int
        T.
    g : float
        Signal to noise, G sqrt(beta/lam).
    delta : float
        The theorem's delta.
    corrected : bool
        Whether every step of the proof is repaired. If False, the theorem is taken as printed.

    Returns
    -------
    PublishedClaim
        The parameters that the theorem requires, and its claim.
    """
    t, g2 = float(horizon), g**2
    half = 18.0 * g2 + math.sqrt(72.0 * g2 * math.log(2.0 / _small(t, delta)))
    log_ratio = 2.0 * half
    # The theorem's p and its three terms, with the printed constants.
    p = min(1.0, max(t ** (-1.0 / 3.0), (g2 / log_ratio) ** (2.0 / 3.0)))
    printed = 7.0 * t ** (2.0 / 3.0) * log_ratio**2 + 12.0 * t * log_ratio**3
    printed += 11.0 * t * g2 ** (2.0 / 3.0) * log_ratio ** (4.0 / 3.0)
    return _claim(t, log_ratio, p, 2.0 * g2, None if corrected else printed, delta)


def leader_claim(
    horizon: int, g: float, b: float, dimension: int, delta: float, corrected: bool
) -> PublishedClaim:
    """Return the privacy theorem of CTRL.

    Parameters
    ----------
    horizon : int
        T.
    g, b : float
        G/sigma and eta beta_s.
    dimension : int
        n, or 1 for the closeness lemma of generalised linear losses. The paper proves this lemma
        for one added loss only, but three losses are exchanged.
    delta, corrected
        As in `gibbs_claim`.
    """
    t = float(horizon)
    root = math.sqrt(2.0 * dimension * math.log(2.0 / _small(t, delta)))
    log_ratio = 2.0 * (2.0 * b * dimension + 4.5 * g * g + 3.0 * g * root)
    shift = 2.0 * g * g + 2.0 * b * b * dimension
    printed = 7.0 * log_ratio**2 * t ** (2.0 / 3.0) + 2.0 * log_ratio**3 * t
    printed += shift**2 * t ** (5.0 / 3.0)
    return _claim(t, log_ratio, t ** (-1.0 / 3.0), shift, None if corrected else printed, delta)


def _small(t: float, delta: float) -> float:
    """Return the delta that both theorems allow for each closeness of two laws."""
    return delta / (60.0 * t * t)


def _claim(
    t: float, log_ratio: float, p: float, shift: float, printed: float | None, delta: float
) -> PublishedClaim:
    """Return the claim for this scale of acceptance factors and this shift of later bits.

    `printed` is the composition as printed; None means that every step is repaired.
    """
    hazard = p - math.expm1(-2.0 * log_ratio)
    cap = math.floor(3.0 * hazard * t)
    if printed is None:
        # The changed round, `cap` draws, and the later bits (docs/privacy/oco_regret.md, "Published
        # parameters").
        composed = (2.0 * log_ratio / p) ** 2 + cap * log_ratio**2 + (t - 1.0) * (shift / p) ** 2
        total = 0.5 * delta + cap * _small(t, delta)
    else:
        composed = printed
        # The printed delta may exceed the requested one many times. A claim repeats it unchanged.
        total = delta + 3.0 * t * math.exp(t * math.expm1(-2.0 * log_ratio))
    epsilon = 1.5 * composed + math.sqrt(6.0 * composed * math.log(2.0 / delta))
    return PublishedClaim(log_ratio, p, cap, epsilon, total)
