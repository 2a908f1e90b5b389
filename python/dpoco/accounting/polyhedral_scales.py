"""Noise scales and batches of the polyhedral Frank-Wolfe learner.

Claim: for sums of squares of ranges that are fixed by the budget, the sum of the noise scales b_k =
b_1 k^-alpha is least at alpha = 2/3; for fixed sums of ranges, pure privacy, at 1/2.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``, section "Allocation".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dpoco.accounting import selections
from dpoco.accounting.budget import Budget
from dpoco.accounting.leaf_bounds import published_leaf_bound
from dpoco.accounting.polyhedral_geometry import L1Geometry, Reach
from dpoco.accounting.selections import Decay
from dpoco.accounting.zcdp import zcdp_rho
from dpoco.errors import CalibrationError

__all__ = [
    "best_batch",
    "closed_scale",
    "keeps",
    "published_epsilon",
    "published_scale",
    "smallest_scale",
]

# Of the worst-case curvature in the choice of the batch: it is far too large for records that are
# not aligned with a pair of vertices.
_CURVATURE = 0.125
_FEWEST_UPDATES = 16


def smallest_scale(budget: Budget, reach: Reach, law: str, decay: Decay, tight: bool) -> float:
    """Return the least b_1 that keeps to `budget`; by zCDP and pure composition unless `tight`."""
    scale = closed_scale(budget, reach, law, decay)
    if tight and budget.delta > 0.0:
        scale = _least(scale, lambda b: _delta(budget, reach, law, decay, b), budget.delta)
    while not keeps(budget, reach, law, decay, scale):  # rounding, by a few units
        scale *= 1.0 + 1e-12
    return scale


def closed_scale(budget: Budget, reach: Reach, law: str, decay: Decay) -> float:
    """Return the b_1 that zCDP or pure composition ask for; nothing checks its rounding."""
    scale = reach.range * decay.total() / budget.epsilon
    if budget.delta > 0.0:
        try:
            rho = _rho(budget.epsilon, budget.delta)
        except CalibrationError:
            return scale
        scale = min(scale, reach.spread * math.sqrt(selections.LAWS[law] / rho * decay.squares()))
    return scale


@lru_cache(maxsize=64)
def _rho(epsilon: float, delta: float) -> float:
    return zcdp_rho(epsilon, delta)


def _least(high: float, delta: Callable[[float], float], target: float) -> float:
    """Return the smallest scale at which `delta` is at most `target`, to 1e-9; at most `high`."""
    from scipy.optimize import brentq

    def excess(log_scale: float) -> float:
        return math.log(max(delta(math.exp(log_scale)), 1e-300)) - math.log(target)

    low = 0.8 * high
    while delta(low) <= target:
        high, low = low, 0.8 * low
    if delta(high) > target:
        return high
    root, top = math.log(low), math.log(high)
    if excess(root) > 0.0:
        root = float(brentq(excess, root, top, xtol=2e-10)) if excess(top) < 0.0 else top
    scale, margin = min(math.exp(root), high), 2e-10
    while delta(scale) > target:
        scale, margin = min(scale * (1.0 + margin), high), 2.0 * margin
    return scale


def _delta(budget: Budget, reach: Reach, law: str, decay: Decay, scale: float) -> float:
    profile = selections.selections_profile(law, *reach.over(scale), decay)
    return selections.profile_delta(profile, budget.epsilon)


def keeps(budget: Budget, reach: Reach, law: str, decay: Decay, scale: float) -> bool:
    """Whether selections whose first noise scale is `scale` keep to `budget`."""
    if budget.delta == 0.0:
        profile = selections.selections_profile(law, *reach.over(scale), decay)
        return selections.pure_epsilon(profile) <= budget.epsilon
    return _delta(budget, reach, law, decay, scale) <= budget.delta


def best_batch(
    view: L1Geometry,
    loss: Any,
    n: int,
    selector: str,
    exponent: float,
    coefficient: Callable[[int], float],
) -> int:
    """Return the m that minimises optimisation error plus noise, K = n // m updates."""
    width = view.diameter()
    curvature = _CURVATURE * float(loss.smoothness(view)) * width * width
    excess = view.excess(selector)
    best, least, m = 1, math.inf, 1
    while m == 1 or m <= n // _FEWEST_UPDATES:
        updates = n // m
        slow = curvature * (1.0 + math.log(updates)) / (2.0 * updates)
        error = slow + excess * coefficient(m) * Decay(exponent, 0, updates).mean_scale()
        if error < least:
            best, least = m, error
        m = max(m + 1, int(1.15 * m))
    return best


def _published_factor(view: L1Geometry, loss: Any, n: int, delta: float) -> float:
    """Return epsilon times the published noise scale at t = 1: 4 D (beta D + L) sqrt(...)."""
    bound = published_leaf_bound(view, loss, 1.0)
    return 4.0 * view.diameter() * bound * math.sqrt(math.log(n) * math.log(1.0 / delta))


def published_scale(view: L1Geometry, loss: Any, n: int, budget: Budget) -> float:
    """Return the scale of the first update as published, for `n` rounds."""
    return _published_factor(view, loss, n, budget.delta) / budget.epsilon


def published_epsilon(view: L1Geometry, loss: Any, n: int, scale: float, delta: float) -> float:
    """Return the epsilon that is claimed at `delta` for a scale of the first update."""
    if not delta > 0.0:
        raise ValueError("calibration 'paper' claims nothing at delta = 0")
    return _published_factor(view, loss, n, delta) / scale
