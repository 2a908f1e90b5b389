"""Regret of Hedge on a net with noisy sums: bounds, and the learning rate that is best.

Claim, for G-Lipschitz losses on a set of diameter D (so of range R = G D), N net points, noise of
scale s_t (times a fixed Gaussian field of `radius` rho and E max at most w) in round t:

(a) losses fixed in advance, s_t non-decreasing: E Reg <= ln N/eta + eta T R^2/8 + T c + M, where
    M = eta (rho s)^2/2 if eta rho^2 s <= w, else w s - w^2/(2 eta rho^2), and s = s_{T-1};
(b) all losses, also such as react to the decisions: E Reg <= ln N/eta + eta T R^2/8 + T c
    + (eta R w/2) sum_{t < T} s_t,

with c the discretisation, G times half a cell's diagonal. The rounding of released sums of m
entries to a grid g adds (T - 1) eta R rho sqrt(m) g/4 to (b), and to (a), with sigma the scale of
one draw and u = g/sigma, (T - 1) (1 + u)^2 eta R rho g
(sqrt(m) u + eta rho g exp(eta rho sqrt(m) g) (1 + m u^2/4))/8. T R is always a bound.

Proof: ``docs/privacy/lipschitz.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco.accounting import continual_sum
from dpoco.accounting._experts.hedge_regret import GROWING, Regret
from dpoco.accounting._experts.nets import NoiseField

__all__ = ["NetRun", "best_learning_rate", "growing_bound", "regret_of"]


@dataclass(frozen=True, slots=True)
class NetRun:
    """What a run looks like, whatever the learning rate.

    Attributes
    ----------
    points, horizon : int
        N and T.
    loss_range : float
        R = G D.
    discretisation : float
        Loss a round that playing on the net costs.
    method : str
        Continual sum.
    noise_scale : float
        Scale of one draw.
    field : NoiseField
        What unit noise does to the values.
    """

    points: int
    horizon: int
    loss_range: float
    discretisation: float
    method: str
    noise_scale: float
    field: NoiseField

    @property
    def pushes(self) -> int:
        """Rounds that enter the sum: all but the last, which decides nothing."""
        return max(self.horizon - 1, 1)

    @property
    def noisy(self) -> bool:
        """Whether any decision has noise behind it."""
        return self.noise_scale > 0.0 and self.horizon > 1

    @property
    def entropy(self) -> float:
        """Logarithm of the number of points."""
        return math.log(self.points)

    @property
    def stability(self) -> float:
        """Factor of eta in the stability term."""
        return 0.125 * self.horizon * self.loss_range**2

    @property
    def last_scale(self) -> float:
        """The largest s_t if they grow: that of the last decision."""
        if not self.noisy:
            return 0.0
        row = continual_sum.worst_row_norm(self.method, self.pushes)
        return self.noise_scale * row

    @property
    def sum_of_scales(self) -> float:
        """Bound on the sum of all s_t (Cauchy-Schwarz)."""
        if not self.noisy:
            return 0.0
        return (
            self.noise_scale
            * self.pushes
            * continual_sum.root_mean_square_row(self.method, self.pushes)
        )

    @property
    def rounding(self) -> float:
        """Return rho sqrt(m) g: twice the largest distance that rounding moves a point."""
        grid = continual_sum.release_grid(self.noise_scale)
        return self.field.radius * math.sqrt(self.field.entries) * grid


def regret_of(run: NetRun, learning_rate: float) -> Regret:
    """Return the least proved bound for a learning rate eta > 0."""
    if run.points == 1:
        return Regret(0.0, {}, "adaptive")
    bounds = [_any_losses(run, learning_rate)]
    if run.noisy and run.method in GROWING:
        bounds.append(_growing_noise(run, learning_rate))
    trivial = run.horizon * run.loss_range
    bounds.append(Regret(trivial, {"trivial": trivial}, "adaptive"))
    return min(bounds, key=lambda bound: bound.total)


def best_learning_rate(run: NetRun, as_if_growing: bool = False) -> float:
    """Return the learning rate of the least bound; 1 for a single point.

    `as_if_growing` takes the one of bound (a), which does not hold for noise that shrinks at times:
    the better choice where (b) is too coarse to choose by.
    """
    if run.points == 1:
        return 1.0
    calm = math.sqrt(
        run.entropy
        / (
            run.stability
            + 0.5 * run.loss_range * run.field.maximum * run.sum_of_scales
            + 0.25 * (run.horizon - 1) * run.loss_range * run.rounding
        )
    )
    if not run.noisy or not (as_if_growing or run.method in GROWING):
        return calm
    s, w, square = run.last_scale, run.field.maximum, run.field.radius**2
    turn = w / (square * s)
    rest = max(0.0, run.entropy - 0.5 * w * w / square)
    candidates = [
        min(turn, math.sqrt(run.entropy / (run.stability + 0.5 * square * s * s))),
        max(turn, math.sqrt(rest / run.stability)),
    ]
    best = min(candidates, key=lambda eta: _growing_noise(run, eta).total)
    if as_if_growing:
        return best
    return min((calm, best), key=lambda eta: regret_of(run, eta).total)


def growing_bound(run: NetRun, learning_rate: float) -> float:
    """Return bound (a), to compare nets by; proved for growing noise only."""
    return _growing_noise(run, learning_rate).total


def _growing_noise(run: NetRun, eta: float) -> Regret:
    s, w, square = run.last_scale, run.field.maximum, run.field.radius**2
    terms = _common(run, eta)
    small = eta * square * s <= w
    terms["noise"] = 0.5 * eta * square * s * s if small else w * s - 0.5 * w * w / (eta * square)
    terms["rounding"] = _fine_rounding(run, eta) if run.noisy else 0.0
    return Regret(math.fsum(terms.values()), terms, "oblivious")


def _fine_rounding(run: NetRun, eta: float) -> float:
    grid = continual_sum.release_grid(run.noise_scale)
    unit, entries = grid / run.noise_scale, run.field.entries
    shift = eta * run.field.radius * grid  # of one entry, in units of log weight
    spread = shift * math.exp(min(700.0, eta * run.rounding)) * (1.0 + 0.25 * entries * unit**2)
    each = 0.125 * run.loss_range * shift * (math.sqrt(entries) * unit + spread)
    return (run.horizon - 1) * (1.0 + unit) ** 2 * each


def _any_losses(run: NetRun, eta: float) -> Regret:
    terms = _common(run, eta)
    terms["noise"] = 0.5 * eta * run.loss_range * run.field.maximum * run.sum_of_scales
    terms["rounding"] = 0.25 * eta * (run.horizon - 1) * run.loss_range * run.rounding
    return Regret(math.fsum(terms.values()), terms, "adaptive")


def _common(run: NetRun, eta: float) -> dict[str, float]:
    return {
        "entropy": run.entropy / eta,
        "stability": eta * run.stability,
        "discretisation": run.horizon * run.discretisation,
    }
