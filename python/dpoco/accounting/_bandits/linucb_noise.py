"""How much noise LinUCB's statistics need, and what is tuned to it.

Proof: ``docs/privacy/linucb.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpoco._validation import choice, positive_float
from dpoco.accounting import continual_sum
from dpoco.accounting._bandits.linucb_parameters import LinUCBParameters, sum_dimension
from dpoco.accounting._bandits.linucb_regret import confidence_of
from dpoco.accounting._oco.ftrl_statistics import quadratic_sensitivity
from dpoco.accounting.budget import Budget
from dpoco.accounting.release import Sensitivity, calibrate_noise

__all__ = ["ROUNDING", "sensitivity", "tuned", "unit_bound"]

# Products are rounded in double precision; contexts are shrunk by more than that beforehand.
ROUNDING = 1.0 + 1e-12
# Candidates for u = (a Y / X)^2; beyond 2 the noise in the rewards falls no further.
_SHARES = tuple(2.0 ** (1.0 - 0.25 * i) for i in range(40))


def sensitivity(
    context_bound: float, reward_bound: float, reward_weight: float, relation: str = "replace"
) -> float:
    """Return the largest Frobenius norm by which one record can move the statistics of all arms.

    Parameters
    ----------
    context_bound, reward_bound : float
        X and Y.
    reward_weight : float
        a; with sqrt(2) the statistics are those of the matrix z z', z = (x, r), without r^2.
    relation : {"replace", "zero_out"}
        Whether the record is replaced or emptied.
    """
    if not 1e-50 <= reward_weight * reward_bound / context_bound <= 1e50:
        raise ValueError("reward_weight * reward_bound / context_bound must be in [1e-50, 1e50]")
    return quadratic_sensitivity(context_bound, reward_bound, reward_weight, relation)


def unit_bound(name: str, value: float) -> float:
    """Return a bound whose squares and ratios stay far from over- and underflow."""
    number = positive_float(name, value)
    if not 1e-30 <= number <= 1e30:
        raise ValueError(f"{name} must be in [1e-30, 1e30]; got {number!r}")
    return number


def tuned(
    plain: LinUCBParameters,
    batch: int,
    budget: Budget | None,
    sum_method: str | None,
    regularization: float | None,
    reward_weight: float | None,
    numerics: str,
) -> LinUCBParameters:
    """Return the parameters for batches of this many rounds, without a bound on the regret."""
    base = replace(plain, batch=batch, mu=math.inf)
    method = sum_method
    if method in (None, "auto"):
        method = "blt" if budget is None else continual_sum.choose_method(base.pushes)
    base = replace(base, sum_method=choice("sum_method", method, continual_sum.METHODS))
    base = replace(base, column_norm=continual_sum.column_norm(base.sum_method, base.pushes))
    if budget is None or base.releases == 0:
        # Without noise the weight has no effect, nor has anything without a release.
        moved = sensitivity(
            base.context_bound, base.reward_bound, base.reward_weight, base.relation
        )
        return replace(base, sensitivity=moved, mu=math.inf if budget is None else 0.0)
    budget.require_delta()
    ratio = base.context_bound / base.reward_bound
    weights = [math.sqrt(u) * ratio for u in _SHARES] if reward_weight is None else [reward_weight]
    candidates = [_weighted(base, budget, weight, regularization, numerics) for weight in weights]
    return min(candidates, key=lambda p: confidence_of(p.setting).bias)


def _weighted(
    base: LinUCBParameters,
    budget: Budget,
    weight: float,
    regularization: float | None,
    numerics: str,
) -> LinUCBParameters:
    """Return `base` with a weight, the noise it needs, and rho = noise margin if none is given."""
    moved = sensitivity(base.context_bound, base.reward_bound, weight, base.relation)
    arithmetic, scale, mu = calibrate_noise(
        Sensitivity(moved * ROUNDING, "l2", 1.0),
        budget=budget,
        method=base.sum_method,
        pushes=base.pushes,
        dimension=sum_dimension(base.arms, base.dimension),
        noise="gaussian",
        numerics=numerics,
        batch=base.batch,
    )
    noisy = replace(
        base,
        reward_weight=weight,
        sensitivity=moved,
        noise_scale=scale,
        mu=mu,
        numerics=arithmetic,
    )
    return replace(noisy, regularization=noisy.noise_margin) if regularization is None else noisy
