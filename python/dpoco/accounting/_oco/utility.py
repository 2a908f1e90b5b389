"""What clipped acceptance factors, the cap on switches and aged anchors cost in regret.

Proof: ``docs/privacy/oco_regret.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Coupled(Protocol):
    """The fields of either learner's parameters that matter here."""

    @property
    def horizon(self) -> int: ...
    @property
    def lipschitz(self) -> float: ...
    @property
    def diameter(self) -> float: ...
    @property
    def block(self) -> int: ...
    @property
    def forced_switch(self) -> float: ...
    @property
    def coupling(self) -> str: ...
    @property
    def max_switches(self) -> int | None: ...
    @property
    def decisions(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Allowance:
    """Total variations the calibration aims at.

    Attributes
    ----------
    closeness : float
        Between the law of a decision and the ideal one, in every round; costs at most G D / 2.
    tail : float
        Probability of reaching the cap; costs at most G D.
    """

    closeness: float
    tail: float


def decisions_of(horizon: int, block: int) -> int:
    """Return the number of stay-or-switch decisions."""
    return -(-horizon // block) - 1


def allowance(horizon: int, diameter: float, spread: float | None) -> Allowance:
    """Return the targets; `spread` is the root mean square reach of draws over R^n, else None."""
    if spread is None:
        return Allowance(0.5 / horizon, min(0.5, 1.0 / horizon))
    closeness = min(0.5 / horizon, (diameter / (4.0 * float(horizon) ** 1.5 * spread)) ** 2)
    return Allowance(max(closeness, 1e-250), max(min(0.5, 4.0 * closeness), 1e-250))


def clip_penalty(p: Coupled, error: float, spread: float | None) -> float:
    """Return what clipping that moves a law by `error` a round costs in regret.

    Every decision resamples with probability p at least, which forgets all errors.
    """
    memory = (p.horizon - 1) / 2.0
    if p.forced_switch > 0.0:
        memory = min(memory, p.block / p.forced_switch)
    if p.block == 1:
        error *= 1.0 - p.forced_switch
    return _penalty(p, min(1.0, memory * error), spread)


def cap_penalty(p: Coupled, hazard: float, mean: float | None, spread: float | None) -> float:
    """Return what freezing the decision after the last allowed switch costs in regret."""
    from scipy.special import betainc

    if p.max_switches is None or p.max_switches >= p.decisions:
        return 0.0
    b = float(p.max_switches)
    tail = float(betainc(b + 1.0, p.decisions - b, hazard))
    if mean is not None and b > mean:
        excess = b - mean
        tail = min(tail, math.exp(-0.5 * excess**2 / (mean + excess / 3.0)))
    if p.coupling == "anchored":
        tail += 0.5 / p.horizon
    return _penalty(p, min(1.0, tail), spread)


def age_quantile(anchors: int, block: int, forced: float, tail: float) -> float:
    """Return an age in rounds that the mean age of the anchors exceeds with probability <= tail.

    Switches are at least as frequent as forced ones, so the ages are dominated by sums of
    geometric gaps, a gap by 1 plus an exponential of rate -ln(1 - p): a Chernoff bound.
    """
    weights = [1.0] + [(anchors - j + 1.0) / anchors for j in range(1, anchors + 1)]
    total = math.fsum(weights)
    if forced >= 1.0:
        return block * total
    goal = -math.log(tail)
    best = math.inf
    for k in range(1, 40):
        s = k / 40.0
        log_moment = -math.fsum(math.log1p(-s * w) for w in weights)
        best = min(best, (log_moment + goal) / s)
    return block * (total + best / -math.log1p(-forced))


def _penalty(p: Coupled, variation: float, spread: float | None) -> float:
    """Return the regret that laws at this total variation from the ideal ones cost."""
    if spread is None:
        return p.lipschitz * p.diameter * p.horizon * variation
    return 2.0 * p.lipschitz * spread * math.pow(p.horizon, 1.5) * math.sqrt(variation)
