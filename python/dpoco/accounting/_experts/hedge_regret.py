"""Regret of Hedge on noisy sums: bounds, and the learning rate that is best.

Claim, for N experts with losses in [0, 1], decisions drawn from softmax(-eta (L_{t-1} + n_{t-1})),
n_0 = 0, n_t normal with standard deviation s_t in each coordinate, independent over coordinates,
c = 1 - 1/N and w = E max of N standard normals:

(a) losses fixed in advance, s_t non-decreasing: E Reg <= ln N/eta + eta T/8 + M, where
    M = eta c s^2/2 if eta c s <= w, else w s - w^2/(2 eta c), and s = s_{T-1};
(b) all losses, also such as react to the decisions: E Reg <= ln N/eta + eta T/8
    + (eta w/2) sum_{t < T} s_t.

The rounding of released sums to a grid g adds eta (T - 1) g/4 to both.

Proof: ``docs/privacy/prefix_hedge.md``. Source of (a): Agarwal and Singh, "The price of
differential privacy for online learning" (2017), with the noise counted once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from dpoco.accounting import continual_sum

__all__ = ["GROWING", "Regret", "Schedule", "best_learning_rate", "expected_maximum", "regret_of"]

# Methods whose noise grows with every round, exactly: rows of a Toeplitz factor.
GROWING = ("blt", "toeplitz")


@dataclass(frozen=True, slots=True)
class Regret:
    """A bound on expected regret (loss), its terms, and the losses it holds for."""

    total: float
    terms: dict[str, float]
    scope: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the noise of a run looks like, whatever the learning rate.

    Attributes
    ----------
    experts, horizon : int
        N and T.
    method : str
        Continual sum.
    noise_scale : float
        Scale of one draw.
    """

    experts: int
    horizon: int
    method: str
    noise_scale: float

    @property
    def pushes(self) -> int:
        """Rounds that enter the sum: all but the last, which decides nothing."""
        return max(self.horizon - 1, 1)

    @property
    def rounding(self) -> float:
        """Factor of eta in the rounding term."""
        return 0.25 * (self.horizon - 1) * continual_sum.release_grid(self.noise_scale)

    @property
    def last_deviation(self) -> float:
        """Standard deviation of the noise behind the last decision."""
        if self.noise_scale == 0.0 or self.horizon == 1:
            return 0.0
        row = continual_sum.row_norm(self.method, self.pushes, self.pushes)
        return self.noise_scale * float(row)

    @property
    def sum_of_deviations(self) -> float:
        """Bound on the sum of the deviations behind all decisions (Cauchy-Schwarz)."""
        if self.noise_scale == 0.0 or self.horizon == 1:
            return 0.0
        mean = continual_sum.root_mean_square_row(self.method, self.pushes)
        return self.noise_scale * self.pushes * mean


@lru_cache(maxsize=64)
def expected_maximum(n: int) -> float:
    """Return E max of n independent standard normal variables, rounded up by 1e-9."""
    if n == 1:
        return 0.0
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    # E max = int_0^inf P(max > x) dx - int_0^inf P(max < -x) dx.
    top = math.sqrt(2.0 * math.log(n)) + 9.0

    def above(x: float) -> float:
        return -math.expm1(n * float(log_ndtr(x)))

    def below(x: float) -> float:
        return math.exp(n * float(log_ndtr(-x)))

    turn = math.sqrt(2.0 * math.log(n))
    upper = quad(above, 0.0, top, points=[turn], limit=200, epsabs=1e-12, epsrel=1e-12)[0]
    lower = quad(below, 0.0, 9.0, limit=200, epsabs=1e-12, epsrel=1e-12)[0]
    return min(turn, (float(upper) - float(lower)) * (1.0 + 1e-9))


def regret_of(run: Schedule, learning_rate: float) -> Regret:
    """Return the least proved bound for a learning rate eta > 0."""
    if run.experts == 1:
        return Regret(0.0, {}, "adaptive")
    bounds = [_any_losses(run, learning_rate)]
    if run.method in GROWING and run.noise_scale > 0.0:
        bounds.append(_fixed_losses(run, learning_rate))
    bounds.append(Regret(float(run.horizon), {"trivial": float(run.horizon)}, "adaptive"))
    return min(bounds, key=lambda bound: bound.total)


def best_learning_rate(run: Schedule) -> float:
    """Return the learning rate of the least bound; 1 for a single expert."""
    if run.experts == 1:
        return 1.0
    entropy, flat = math.log(run.experts), run.horizon / 8.0 + run.rounding
    w, c, s = expected_maximum(run.experts), 1.0 - 1.0 / run.experts, run.last_deviation
    candidates = [math.sqrt(entropy / (flat + 0.5 * w * run.sum_of_deviations))]
    if run.method in GROWING and s > 0.0:
        turn = w / (c * s)
        candidates.append(min(turn, math.sqrt(entropy / (flat + 0.5 * c * s * s))))
        candidates.append(max(turn, math.sqrt(max(0.0, entropy - 0.5 * w * w / c) / flat)))
    return min(candidates, key=lambda eta: regret_of(run, eta).total)


def _any_losses(run: Schedule, eta: float) -> Regret:
    width = expected_maximum(run.experts)
    terms = _common(run, eta)
    terms["noise"] = 0.5 * eta * width * run.sum_of_deviations
    return Regret(math.fsum(terms.values()), terms, "adaptive")


def _fixed_losses(run: Schedule, eta: float) -> Regret:
    w, c, s = expected_maximum(run.experts), 1.0 - 1.0 / run.experts, run.last_deviation
    terms = _common(run, eta)
    small = eta * c * s <= w
    terms["noise"] = 0.5 * eta * c * s * s if small else w * s - 0.5 * w * w / (eta * c)
    return Regret(math.fsum(terms.values()), terms, "oblivious")


def _common(run: Schedule, eta: float) -> dict[str, float]:
    return {
        "entropy": math.log(run.experts) / eta,
        "stability": eta * run.horizon / 8.0,
        "rounding": eta * run.rounding,
    }
