"""Confidence widths and regret of LinUCB on noisy statistics.

Claim: let the reward of arm a for context x have mean <x, theta_a>, ||theta_a|| <= S, lie in
[-Y, Y] and be conditionally R-subgaussian, ||x|| <= X. Let tau be the largest standard deviation of
an entry of the noise in the packed statistics (x x', a r x) of an arm, g their grid, N the number
of releases, L = sqrt(2 ln(6 N K/alpha)), rho the regularization, and

    margin = tau (sqrt(2 d) + L) + (g/2) sqrt(d (d + 1)/2),
    V      = noisy sum of x x' + (rho + margin) I,
    bias   = S sqrt(rho + 2 margin) + (tau (sqrt d + L) + (g/2) sqrt d) / (a sqrt rho),
    width  = R sqrt(2 ln(2 K/alpha) + d ln(1 + t X^2/(d rho))) + bias.

With probability 1 - alpha, |<x, V^-1 u - theta_a>| <= width sqrt(x' V^-1 x) for all arms, contexts
and releases; and then LinUCB with batches of b rounds has regret at most
(1 + exploration) width sqrt(T (1 + (b - 1) q) K d ln(1 + T q/(K d)) q/ln(1 + q)), q = X^2/rho, for
exploration >= 1.

Proof: ``docs/privacy/linucb.md``. Sources: Shariff and Sheffet, "Differentially private contextual
linear bandits" (2018); Abbasi-Yadkori, Pal and Szepesvari (2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Confidence", "Setting", "confidence_of", "leading_term", "regret_of"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What confidence and regret depend on; public quantities only.

    Attributes
    ----------
    arms, dimension, horizon, batch, releases : int
        K, d, T, b and N.
    deviation : float
        tau; 0 without noise.
    grid : float
        Spacing that released sums are rounded to.
    context_bound, reward_bound, parameter_bound, reward_noise : float
        X, Y, S and R.
    failure : float
        alpha, in (0, 1).
    exploration : float
        Factor on the width.
    regularization : float
        rho.
    reward_weight : float
        a in the statistics.
    """

    arms: int
    dimension: int
    horizon: int
    batch: int
    releases: int
    deviation: float
    grid: float
    context_bound: float
    reward_bound: float
    parameter_bound: float
    reward_noise: float
    failure: float
    exploration: float
    regularization: float
    reward_weight: float


@dataclass(frozen=True, slots=True)
class Confidence:
    """The width behind the release of t rounds, without the exploration factor.

    spread sqrt(log_term + dimension log(1 + t growth)) + bias; `margin` bounds the operator norm of
    the noise in the matrix of an arm.
    """

    margin: float
    spread: float
    log_term: float
    growth: float
    bias: float
    dimension: int

    def width(self, rounds: int) -> float:
        """Return the width behind the release of `rounds` rounds."""
        information = self.log_term + self.dimension * math.log1p(rounds * self.growth)
        return self.spread * math.sqrt(information) + self.bias


def confidence_of(s: Setting) -> Confidence:
    """Return the confidence widths that hold with probability 1 - alpha."""
    d, rho = s.dimension, s.regularization
    margin = drift = 0.0
    if s.deviation > 0.0:
        tail = math.sqrt(2.0 * math.log(6.0 * s.releases * s.arms / s.failure))
        margin = s.deviation * (math.sqrt(2.0 * d) + tail)
        margin += 0.5 * s.grid * math.sqrt(0.5 * d * (d + 1))
        drift = s.deviation * (math.sqrt(d) + tail) + 0.5 * s.grid * math.sqrt(d)
    bias = s.parameter_bound * math.sqrt(rho + 2.0 * margin)
    bias += drift / (s.reward_weight * math.sqrt(rho))
    return Confidence(
        margin=margin,
        spread=s.reward_noise,
        log_term=2.0 * math.log(2.0 * s.arms / s.failure),
        growth=s.context_bound**2 / (d * rho),
        bias=bias,
        dimension=d,
    )


def leading_term(s: Setting) -> float:
    """Return the bound on the regret where all confidence intervals hold, for exploration >= 1."""
    q = s.context_bound**2 / s.regularization
    entries = s.arms * s.dimension
    potential = entries * math.log1p(s.horizon * q / entries) * q / math.log1p(q)
    stale = 1.0 + (s.batch - 1) * q
    width = confidence_of(s).width(s.releases * s.batch)
    return (1.0 + s.exploration) * width * math.sqrt(s.horizon * stale * potential)


def regret_of(s: Setting) -> tuple[float, dict[str, float]]:
    """Return the least proved bound on expected regret, and its terms."""
    if s.arms == 1:
        return 0.0, {}
    gap = 2.0 * min(s.parameter_bound * s.context_bound, s.reward_bound)
    trivial = gap * s.horizon
    if s.exploration >= 1.0:
        terms = {"exploration": leading_term(s), "failure": s.failure * trivial}
        if math.fsum(terms.values()) < trivial:
            return math.fsum(terms.values()), terms
    return trivial, {"trivial": trivial}
