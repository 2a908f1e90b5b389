"""Exact likelihoods of what the coupled learners release in one dimension, from first principles.

No engine of the library: laws are those of `dpoco.audit`, by quadrature on the interval or by
change of variables, and couplings are written out. A transcript holds, for many runs of one stream,
the point of every block and whether the decision after the block switched; its likelihood under a
stream is the product of those of all bits and all draws (the first draw sees no data).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from dpoco.audit._laws import Gibbs, Law

FloatArray = NDArray[np.float64]

# ---- couplings -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """When and with which probability a block ends in a switch."""

    coupling: str
    horizon: int
    block: int = 1
    forced: float = 1.0
    cap: float = math.inf
    clip_high: float = 0.0
    clip_low: float = 0.0
    factor_range: float = 0.0
    anchors: int = 0
    lipschitz: float = 1.0

    @property
    def decisions(self) -> int:
        return -(-self.horizon // self.block) - 1

    def anchor_width(self, g: float, round_: int, drawn: FloatArray) -> FloatArray:
        """Return a_t; `drawn` are the anchors' rounds of birth, shape (runs, anchors)."""
        error = self.forced / (2.0 * self.block * self.horizon)

        def excess(x: float) -> float:
            return math.log(g / x) - 0.5 * x * x - math.log(error)

        x = scipy.optimize.brentq(excess, 1e-9, 60.0, xtol=1e-14)
        z = math.sqrt(2.0 * math.log(2.0 * self.horizon**3))
        age = round_ - drawn.mean(axis=1)
        return x * g + z * g / math.sqrt(self.anchors) + g * g * age


@dataclass
class Transcript:
    """Many runs; with anchors, also their mean during every block.

    points (runs, blocks) or (runs, blocks, d); switched (runs, blocks - 1); factors (runs, rounds)
    are the engine's own log factors, if it tells them.
    """

    points: FloatArray
    switched: NDArray[np.bool_]
    anchor_means: FloatArray | None = None
    factors: FloatArray | None = None


@dataclass
class Likelihood:
    """Logarithms; `bits` (runs, decisions), `draws` likewise, `factors` (runs, rounds)."""

    bits: FloatArray
    draws: FloatArray
    factors: FloatArray = field(repr=False)


def likelihood(transcript: Transcript, law: Law, rule: Rule) -> Likelihood:
    """Return the likelihood of all bits and draws under the losses of `law`."""
    runs = len(transcript.points)
    bits, draws = np.zeros((runs, rule.decisions)), np.zeros((runs, rule.decisions))
    factors = np.zeros((runs, rule.horizon))
    drawn = np.zeros((runs, rule.anchors))  # the anchors' rounds of birth, oldest first
    born = np.zeros(runs)  # the current point's
    used = np.zeros(runs, dtype=int)
    for k in range(rule.decisions):
        end = (k + 1) * rule.block
        at = transcript.points[:, k]
        free = np.zeros(runs, dtype=bool)  # whether a public trigger switches without a coin
        for t in range(k * rule.block, end):
            factors[:, t], free = _factor(transcript, law, rule, k, t, at, drawn)
        open_ = used < rule.cap
        log_stay = math.log1p(-rule.forced) if rule.forced < 1.0 else -math.inf
        log_stay = log_stay + factors[:, k * rule.block : end].sum(axis=1)
        moved = transcript.switched[:, k]
        with np.errstate(divide="ignore"):
            log_switch = np.log(-np.expm1(log_stay))
        bits[:, k] = np.where(open_ & ~free, np.where(moved, log_switch, log_stay), 0.0)
        if rule.forced == 1.0:
            bits[:, k] = 0.0
        assert not (moved & ~open_).any()
        assert moved[open_ & free].all()
        after = law.log_density(end, transcript.points[:, k + 1])
        draws[:, k] = np.where(moved, after, 0.0)
        if rule.anchors:
            drawn[moved] = np.hstack([drawn[moved, 1:], born[moved, None]])
        born[moved] = end
        used += moved
        factors[~open_, k * rule.block : end] = 0.0
    return Likelihood(bits, draws, factors)


def _factor(
    transcript: Transcript,
    law: Law,
    rule: Rule,
    k: int,
    t: int,
    at: FloatArray,
    drawn: FloatArray,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the log acceptance factors of round t and whether a switch is forced."""
    nothing = np.zeros(len(at), dtype=bool)
    if rule.coupling == "scheduled":
        return np.zeros(len(at)), nothing
    if rule.coupling == "maximal":
        return np.minimum(law.log_ratio(t, at), 0.0), nothing
    high, low = rule.clip_high, rule.clip_low
    if rule.coupling == "density_ratio":
        return np.clip(law.log_ratio(t, at) - high, -high - low, 0.0), nothing
    assert isinstance(law, Gibbs)
    loss = law.losses[t]
    if rule.coupling == "dartboard":
        ends = np.array([-law.half, law.half])
        least = float(loss.value(ends).min())  # monotone losses only
        excess = -law.beta * (loss.value(at) - least)
        return np.clip(excess, -law.beta * rule.factor_range, 0.0), nothing
    assert rule.coupling == "anchored"
    assert transcript.anchor_means is not None
    g = rule.lipschitz * math.sqrt(law.beta / law.lam)
    width = rule.anchor_width(g, t + 1, drawn)
    mean = loss.value(transcript.anchor_means[:, k])  # linear losses only
    excess = -law.beta * (loss.value(at) - mean) - np.minimum(width, high)
    return np.clip(excess, -2.0 * high, 0.0), width > high


# ---- what a likelihood ratio says ----------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    mean: float
    error: float


def mean_of(values: FloatArray) -> Estimate:
    return Estimate(float(values.mean()), float(values.std() / math.sqrt(len(values))))


def delta_of(log_ratio: FloatArray, epsilon: float) -> Estimate:
    """Return E max(0, 1 - exp(epsilon - L)), the delta that epsilon really has."""
    return mean_of(-np.expm1(np.minimum(0.0, epsilon - log_ratio)))
