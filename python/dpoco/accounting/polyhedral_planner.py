"""Noise scales and batches of the polyhedral Frank-Wolfe learner: planning, never believed.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``, section "Allocation".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpoco.accounting.budget import Budget
from dpoco.accounting.leaf_bounds import L1Geometry, published_leaf_bound
from dpoco.accounting.zcdp import zcdp_rho
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.decaying import LAWS, Decay, Decaying

__all__ = ["SELECTORS", "Ranges", "best_batch", "least_at", "published_factor"]

SELECTORS = ("gumbel", "laplace")
_LAW = {"gumbel": "bounded_range", "laplace": "pure"}
# Of the worst-case curvature in the choice of the batch: it is far too large for records that are
# not aligned with a pair of vertices.
_CURVATURE = 0.125
_FEWEST_UPDATES = 16


@dataclass(frozen=True)
class Ranges:
    """What one record can do to a series of selections whose noise scale is to be found.

    Attributes
    ----------
    selector : {"gumbel", "laplace"}
        Law of the noise.
    range, spread : float
        How far one record moves the scores: within an interval, and in the sense of zCDP.
    decay : Decay
        How the noise scales, and with them the ranges, shrink.
    """

    selector: str
    range: float
    spread: float
    decay: Decay

    def loss(self, scale: float) -> Decaying:
        """Return the loss of selections whose first noise has this scale."""
        law = _LAW[self.selector]
        return Decaying(law, self.range / scale, self.spread / scale, *self.decay)

    def keep(self, budget: Budget, scale: float) -> bool:
        """Whether selections whose first noise has this scale keep to `budget`."""
        loss = self.loss(scale)
        if budget.delta == 0.0:
            return loss.pure <= budget.epsilon
        return loss.delta(budget.epsilon) <= budget.delta

    def closed_scale(self, budget: Budget) -> float:
        """Return the scale that zCDP or pure composition ask for; nothing checks its rounding."""
        scale = self.range * self.decay.total() / budget.epsilon
        if budget.delta > 0.0:
            try:
                rho = _rho(budget.epsilon, budget.delta)
            except CalibrationError:
                return scale
            share = LAWS[_LAW[self.selector]] / rho
            scale = min(scale, self.spread * math.sqrt(share * self.decay.squares()))
        return scale

    def least_scale(self, budget: Budget, *, tight: bool) -> float:
        """Return the least scale that keeps to `budget`; the closed one's least unless `tight`."""
        scale = self.closed_scale(budget)
        if tight and budget.delta > 0.0:
            scale = least_at(scale, lambda b: self.loss(b).delta(budget.epsilon), budget.delta)
        while not self.keep(budget, scale):  # rounding, by a few units
            scale *= 1.0 + 1e-12
        return scale


def least_at(high: float, delta: Callable[[float], float], target: float) -> float:
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


@lru_cache(maxsize=64)
def _rho(epsilon: float, delta: float) -> float:
    return zcdp_rho(epsilon, delta)


def best_batch(
    view: L1Geometry, loss: Any, n: int, chosen: dict[str, Any], scale: Callable[[int], float]
) -> int:
    """Return the m that minimises optimisation error plus noise, K = n // m updates."""
    width = view.diameter()
    curvature = _CURVATURE * float(loss.smoothness(view)) * width * width
    excess = view.excess(chosen["selector"])
    best, least, m = 1, math.inf, 1
    while m == 1 or m <= n // _FEWEST_UPDATES:
        updates = n // m
        slow = curvature * (1.0 + math.log(updates)) / (2.0 * updates)
        error = slow + excess * scale(m) * Decay(chosen["exponent"], 0, updates).mean_scale()
        if error < least:
            best, least = m, error
        m = max(m + 1, int(1.15 * m))
    return best


def published_factor(view: L1Geometry, loss: Any, n: int, delta: float) -> float:
    """Return epsilon times the published noise scale at t = 1: 4 D (beta D + L) sqrt(...)."""
    bound = published_leaf_bound(view, loss, 1.0)
    return 4.0 * view.diameter() * bound * math.sqrt(math.log(n) * math.log(1.0 / delta))
