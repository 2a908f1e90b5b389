"""CTRL with noise of variance sigma^2 (t - 1) before round t, for strongly convex losses.

The losses' own curvature regularises (eta is infinite). Claims: `growing_regret` bounds the
expected regret and `growing_switches` the expected number of switches, for streams fixed in
advance.

Proof: ``docs/privacy/oco_regret.md``. Source: Agarwal et al., CTRL, Algorithm 2 and Theorems 13 and
28, corrected.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting._coupled_parameters import CoupledRegularizedLeaderParameters
from dpoco.accounting.regret_bounds import RegretBound

FloatArray = NDArray[np.float64]

# Sums over rounds are exact up to this many terms; beyond, bounded in blocks of this ratio.
_EXACT_TERMS, _RATIO = 4096, 1e-3


def growing_switches(p: CoupledRegularizedLeaderParameters) -> float:
    """Return a bound on the expected switches with growing noise.

    "maximal": 1 + sum over 2 <= t < T of min(1, sqrt(KL_t/2)), kappa = t/(t - 1),
    h = beta_s/((t - 1) lm), KL_t = G^2/(2 sigma^2 (t - 1)) + (n/2)(kappa - 1 - ln kappa)
    + r max(0, ln(1 + h) - kappa h/(1 + h)). "density_ratio": 1 + sum of 1 - e^(-high - low).
    """
    if p.horizon <= 2:
        return float(p.horizon - 1)
    return 1.0 + _monotone_sum(lambda t: _growing_hazard(p, t), 2, p.horizon - 1)


def growing_regret(p: CoupledRegularizedLeaderParameters, clip: float = 0.0) -> RegretBound:
    """Return the bound with growing noise and losses of strong convexity lm.

    sum (G + sigma sqrt(n) q_t)^2/(2 lm t) + (n sigma^2/lm) sum over t >= 2 of q_t/sqrt(t - 1)
    + 2 G D, with q_t = sqrt(t) - sqrt(t - 1).
    """
    lm, sigma = p.strong_convexity, p.noise_scale
    size = sigma * math.sqrt(p.dimension)

    def growth(t: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (np.sqrt(t) + np.sqrt(t - 1.0)))

    terms = {
        "stability": _monotone_sum(
            lambda t: (p.lipschitz + size * growth(t)) ** 2 / (2.0 * lm * t), 1, p.horizon
        ),
        "noise": _monotone_sum(lambda t: size**2 / lm * growth(t) / np.sqrt(t - 1.0), 2, p.horizon),
        "barrier": 2.0 * p.lipschitz * p.diameter,
        "clip": clip,
    }
    return RegretBound(math.fsum(terms.values()), terms)


def growing_assessment(
    p: CoupledRegularizedLeaderParameters,
) -> tuple[RegretBound, float]:
    """Return regret bound and expected switches of parameters with growing noise."""
    clip = 0.0
    if p.coupling == "density_ratio":
        # Windows of closeness 2/T^2 per round: 3 (2/T^2) t TV in round t, 6 G D over all rounds.
        clip = 6.0 * p.lipschitz * p.diameter
    return growing_regret(p, clip), growing_switches(p)


def growing_clip_widths(p: CoupledRegularizedLeaderParameters, t: int) -> tuple[float, float]:
    """Return (high, low) of round t for growing noise and coupling "density_ratio".

    Both are ln Phi_(t-1), the closeness of the laws before rounds t and t + 1. In round 1, whose
    law is a point, the window is infinite: the decision always switches.

    Parameters
    ----------
    p : CoupledRegularizedLeaderParameters
        With ``noise_growth`` and coupling "density_ratio".
    t : int
        Round, from 1.
    """
    if not p.noise_growth or p.coupling != "density_ratio":
        raise ValueError("only growing noise with coupling 'density_ratio' has such windows")
    if t < 1:
        raise ValueError(f"t must be at least 1; got {t}")
    if t == 1:
        return math.inf, 0.0
    width = float(_growing_log_ratio(p, np.array([float(t)]))[0])
    return width, width


def _growing_hazard(p: CoupledRegularizedLeaderParameters, t: FloatArray) -> FloatArray:
    if p.coupling == "density_ratio":
        return np.asarray(-np.expm1(-2.0 * _growing_log_ratio(p, t)))
    x = t - 1.0
    h = p.smoothness / (x * p.strong_convexity)
    divergence = p.lipschitz**2 / (2.0 * p.noise_scale**2 * x)
    # u - ln(1 + u) with u = 1/x cancels for large x, where the series takes over.
    u = 1.0 / x
    excess = np.where(u < 1e-4, u * u * (0.5 - u / 3.0), u - np.log1p(u))
    divergence = divergence + 0.5 * p.dimension * excess
    curved = np.log1p(h) - (1.0 + u) * h / (1.0 + h)
    small = h * h * (0.5 - (2.0 / 3.0) * h) - u * h / (1.0 + h)
    curved = np.where(h < 1e-4, small + 0.75 * h**4, curved)
    return np.asarray(
        np.minimum(1.0, np.sqrt(0.5 * (divergence + p.rank * np.maximum(0.0, curved))))
    )


def _growing_log_ratio(p: CoupledRegularizedLeaderParameters, t: FloatArray) -> FloatArray:
    """Return ln Phi of the laws before rounds t and t + 1, t >= 2 (printed with t for t - 1)."""
    x = t - 1.0
    n, log = p.dimension, math.log(p.horizon)
    g = p.lipschitz / p.noise_scale
    return np.asarray(
        p.smoothness * n / (p.strong_convexity * x)
        + 4.0 * n * log / x
        + 0.5 * n * np.log1p(1.0 / x)
        + 0.5 * g * g / x
        + 2.0 * g * np.sqrt(n * log * (x + 1.0)) / x
    )


def _monotone_sum(value: Callable[[FloatArray], FloatArray], first: int, last: int) -> float:
    """Return an upper bound on the sum of a decreasing function over first <= t <= last.

    Exact for the first 4096 terms; beyond, blocks of ratio 1.001 at the value of their first term.
    """
    if last < first:
        return 0.0
    split = min(last, first + _EXACT_TERMS - 1)
    total = float(value(np.arange(first, split + 1, dtype=np.float64)).sum())
    if split < last:
        count = math.ceil(math.log(last / split) / _RATIO) + 1
        edges = np.unique(np.rint(np.geomspace(split + 1, last + 1, count)))
        total += float((value(edges[:-1]) * np.diff(edges)).sum())
    return total
