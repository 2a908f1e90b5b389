"""How much noise LinUCB's statistics need, and what is tuned to it.

Proof: ``docs/privacy/linucb.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpoco._validation import choice, positive_float
from dpoco.accounting import continual_sum
from dpoco.accounting._bandits.linucb_parameters import LinUCBParameters
from dpoco.accounting._bandits.linucb_regret import confidence_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.release import calibrate_noise, numerics_of, sum_of
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.neighbours import Neighbours

__all__ = ["moments_of", "tuned", "unit_bound"]

# Products are rounded in double precision; contexts are shrunk by more than that beforehand.
ROUNDING = 1.0 + 1e-12
# Candidates for u = (a Y / X)^2; beyond 2 the noise in the rewards falls no further.
_SHARES = tuple(2.0 ** (1.0 - 0.25 * i) for i in range(40))


def moments_of(p: LinUCBParameters, rounding: float = ROUNDING) -> SecondMoments:
    """Return what a record adds: the statistics of the arm chosen."""
    bounds = float(p.context_bound), math.inf, float(p.reward_bound)
    return SecondMoments(
        p.dimension, 2.0, *bounds, float(p.reward_weight), arms=p.arms, rounding=rounding
    )


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
        moved = moments_of(base, rounding=1.0).movement(Neighbours(base.relation))
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
    base, near = replace(base, reward_weight=weight), Neighbours(base.relation)
    plain = sum_of(moments_of(base), base.sum_method, base.pushes, near, batch=base.batch)
    found, mu = calibrate_noise(plain, near, budget=budget, numerics=numerics)
    noisy = replace(
        base,
        sensitivity=moments_of(base, rounding=1.0).movement(near),
        noise_scale=found.scale,
        mu=mu,
        numerics=numerics_of(found),
    )
    return replace(noisy, regularization=noisy.noise_margin) if regularization is None else noisy
