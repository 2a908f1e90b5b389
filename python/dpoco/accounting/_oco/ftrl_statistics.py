"""What a round of the noisy leader adds to its sum: enforced bounds and sensitivities.

Claim: a gradient has l2 norm at most G. The statistics (x x', a y x) of two records with
||x||_2 <= B, |y| <= Y differ by at most sqrt(2) B^2 (1 + u/2) in l2 if u = (a Y / B)^2 <= 2, else
2 B^2 sqrt(u), and from zero by at most B^2 sqrt(1 + u).

Proof: ``docs/privacy/noisy_ftrl.md``.
"""

from __future__ import annotations

import math
from typing import Any

from dpoco._validation import choice
from dpoco.accounting._oco.ftrl_parameters import STATISTICS
from dpoco.domains import Domain
from dpoco.losses import CustomLoss, GlmLoss, LinearLoss, SquaredLoss
from dpoco.privacy.neighbours import CHANGES

__all__ = [
    "best_vector_scale",
    "check_statistics",
    "enforced_bounds",
    "feature_length",
    "quadratic_sensitivity",
    "sum_dimension",
]


def sum_dimension(dimension: int, statistics: str) -> int:
    """Return the length of the vectors that are summed: d, or d(d+1)/2 + d."""
    quadratic = statistics == "quadratic"
    return dimension + dimension * (dimension + 1) // 2 if quadratic else dimension


def enforced_bounds(domain: Domain, loss: Any) -> tuple[float | None, float, float]:
    """Return what clipping enforces on a gradient: of its scalar, in the dual norm, in l2.

    The scalar is that of a generalised linear loss (None for the others); the l2 bound is infinite
    if none is declared.
    """
    if isinstance(loss, GlmLoss):
        scalar = float(loss.derivative_bound(loss.margin_bound(domain)))
        return scalar, scalar * loss.feature_bound, scalar * _or_inf(loss._l2)
    if isinstance(loss, LinearLoss):
        return None, loss.gradient_bound, _or_inf(loss.gradient_bound_l2)
    if isinstance(loss, CustomLoss):
        dual = min(loss.lipschitz_bound, _or_inf(loss.leaf_bound))
        return None, dual, _or_inf(loss.leaf_bound_l2)
    raise TypeError(f"loss must be generalised linear, linear or custom; got {type(loss).__name__}")


def quadratic_sensitivity(length: float, label: float, vector_scale: float, relation: str) -> float:
    """Return the l2 sensitivity of (x x', a y x), ||x||_2 <= length, |y| <= label.

    Units: those of length squared. See the module's claim.
    """
    u = (vector_scale * label / length) ** 2
    if choice("relation", relation, CHANGES) == "zero_out":
        return length**2 * math.sqrt(1.0 + u)
    return length**2 * (math.sqrt(2.0) * (1.0 + 0.5 * u) if u <= 2.0 else 2.0 * math.sqrt(u))


def best_vector_scale(domain: Domain, loss: Any, relation: str) -> float:
    """Return the a of (x x', a y x) at which a gradient's noise is least, in mean square.

    At the point of the domain farthest from the origin, at distance h: the mean square is
    proportional to D(a)^2 (h^2 (d + 1)/2 + d/a^2); its minimiser in u = (a Y / B)^2 is
    sqrt(k) for "zero_out", k = 2 d Y^2 / ((d + 1) h^2 B^2), and (sqrt(k^2 + 16 k) - k)/4 otherwise.
    """
    length, label = feature_length(domain, loss), float(loss.label_bound)
    reach = max(float(domain.max_norm(2.0)), 1e-6 * label / length)  # a domain {0} has h = 0
    d = domain.dimension
    k = 2.0 * d / (d + 1.0) * (label / (reach * length)) ** 2
    # 4k / (sqrt(k^2 + 16k) + k) is the same and does not cancel.
    u = math.sqrt(k) if relation == "zero_out" else 4.0 * k / (math.sqrt(k * k + 16.0 * k) + k)
    return math.sqrt(u) * length / label


def check_statistics(loss: Any, statistics: str) -> str:
    """Return `statistics` if they describe the loss; `ValueError` if not."""
    choice("statistics", statistics, STATISTICS)
    if statistics == "quadratic" and not isinstance(loss, SquaredLoss):
        raise ValueError(f"statistics 'quadratic' need a SquaredLoss; got {type(loss).__name__}")
    return statistics


def feature_length(domain: Domain, loss: Any) -> float:
    """Return the enforced l2 bound on the features."""
    stretch = math.pow(domain.dimension, max(0.0, 0.5 - 1.0 / domain.dual_exponent))
    return min(float(loss.feature_bound) * stretch, _or_inf(loss._l2))


def _or_inf(bound: float | None) -> float:
    return math.inf if bound is None else float(bound)
