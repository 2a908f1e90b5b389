"""The constants of Han et al., DP-TOFW, as printed: for comparison with exact accounting.

Theorem 3.1 claims (epsilon, delta)-privacy of the tree Frank-Wolfe learner for noise scale

    sigma_+ = sqrt(8) L sqrt(kappa) sqrt(ln(L / delta)) (beta D + L_f) / epsilon,

L = ceil(log2 n) + 1. Its composition argument uses, per node, a closed form that is not valid for
every epsilon; `dpoco.accounting.tree_frank_wolfe` checks each use of it by exact accounting.

Proof: ``docs/privacy/tree_frank_wolfe.md``.
"""

from __future__ import annotations

import math

from dpoco._validation import positive_float, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import worst_row_norm

__all__ = ["published_epsilon", "published_levels", "published_sigma", "tree_equivalent_scale"]


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
