"""CTRL: what parameters cost, in privacy and in regret.

Proof: ``docs/privacy/oco_regret.md`` (regret), ``docs/privacy/objective_perturbation.md`` and
``docs/privacy/couplings.md`` (privacy).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting._coupling.renyi_orders import best_delta
from dpoco.accounting._oco.growing_noise import growing_assessment
from dpoco.accounting._oco.parameters import CoupledRegularizedLeaderParameters as Parameters
from dpoco.accounting._oco.round_distance import leader_distance
from dpoco.accounting._oco.utility import cap_penalty, clip_penalty
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.gaussian import gaussian_delta
from dpoco.accounting.objective_perturbation import ratio_shift, renyi_excess
from dpoco.accounting.regret_bounds import RegretBound, leader_regret

FloatArray = NDArray[np.float64]


def barrier_weight(problem: EuclideanProblem, horizon: int) -> float:
    """Return the weight at which the barrier is at most G D on the shrunk domain (loss).

    0 where no barrier is used: linear losses, and decisions in R^d.
    """
    if problem.unbounded or problem.family == "linear":
        return 0.0
    t = float(max(horizon, 3))
    if problem.shape == "lp_ball":
        if problem.exponent < 2.0:
            raise ValueError(
                "an l_p ball with p < 2 has no smooth barrier: use p >= 2, a Box or a Simplex"
            )
        supremum = -math.log(-math.expm1(problem.exponent * math.log1p(-1.0 / t)))
    else:
        once = math.log(t * t / (2.0 * t - 1.0))
        supremum = {
            "ball": once,
            "box": problem.dimension * once,
            "simplex": (problem.dimension + 1) * math.log(t),
            "polytope": problem.constraints * math.log(t),
        }[problem.shape]
    return problem.lipschitz * problem.diameter / supremum


def curvature_of(p: Parameters) -> float:
    """Return b = eta beta_s; 0 where strong convexity replaces the step size."""
    return p.step_size * p.smoothness if p.smoothness > 0.0 and not p.noise_growth else 0.0


def drawn(p: Parameters) -> int:
    """Return the largest number of draws that see data."""
    return p.decisions if p.max_switches is None else min(p.max_switches, p.decisions)


def profile_of(p: Parameters, sensitivity: float) -> dict[str, Any]:
    """Return the composed profile, as `Guarantee.coupling` holds it."""
    b, later, shift, log_floor = curvature_of(p), 0, 0.0, 0.0
    if p.coupling == "density_ratio":
        each = ratio_shift(sensitivity, p.lipschitz, p.noise_scale, b, p.rank)
        later, shift = max(p.decisions - 1, 0), p.block * each
        log_floor = p.clip_high + p.clip_low + (p.block - 1) * each
    coins = {
        "forced_switch": p.forced_switch,
        "factor_floor": max(math.exp(-log_floor), 1e-300),
        "later_bits": later,
        "shift": shift,
    }
    ratio = sensitivity / p.noise_scale
    if b == 0.0:
        return {"kind": "gaussian", "mu": ratio * math.sqrt(drawn(p)), **coins}
    return {
        "kind": "renyi",
        "cap": drawn(p),
        "sensitivity_ratio": ratio,
        "b": b,
        "dimension": p.dimension,
        "rank": p.rank,
        "relation": p.relation,
        **coins,
    }


def hazard_of(p: Parameters) -> float:
    """Return a bound on the probability of a switch given any history."""
    if p.coupling == "scheduled":
        return 1.0
    stay = p.block * (p.clip_high + p.clip_low)
    return min(1.0, p.forced_switch - (1.0 - p.forced_switch) * math.expm1(-stay))


def finish(p: Parameters) -> Parameters:
    """Return `p` with its derived fields filled in."""
    bound, switches = assess(p)
    return replace(
        p, regret_bound=bound.total, regret_terms=bound.terms, expected_switches=switches
    )


def assess(p: Parameters) -> tuple[RegretBound, float]:
    """Return the regret bound and a bound on the expected number of switches."""
    if p.max_switches == 0:
        return constant_bound(p), 0.0
    if p.noise_growth:
        return growing_assessment(p)
    clip = cap = 0.0
    switches = p.decisions * hazard_of(p)
    if p.coupling == "maximal":
        switches = p.decisions * leader_distance(
            p.lipschitz / p.noise_scale, curvature_of(p), p.rank
        )
    elif p.coupling == "density_ratio":
        spread = root_mean_square(p.lipschitz, p.horizon, p.dimension, p.step_size, p.noise_scale)
        outside = spread if p.unbounded else None
        clip = clip_penalty(p, _clip_error(p), outside)
        cap = cap_penalty(p, hazard_of(p), None, outside)
    if p.max_switches is not None:
        switches = min(switches, float(p.max_switches))
    bound = leader_regret(
        horizon=p.horizon,
        dimension=p.dimension,
        lipschitz=p.lipschitz,
        radius=p.radius,
        diameter=p.diameter,
        step_size=p.step_size,
        noise_scale=p.noise_scale,
        block=p.block,
        barrier=p.barrier_weight > 0.0,
        clip=clip,
        cap=cap,
        unbounded=p.unbounded,
    )
    return bound, switches


def constant_bound(p: Parameters) -> RegretBound:
    """Return the bound of a decision that never looks at data: within eta |Z| of the centre."""
    spread = p.step_size * p.noise_scale * math.sqrt(p.dimension)
    terms = {
        "constant": p.lipschitz * p.radius * p.horizon,
        "spread": p.lipschitz * spread * p.horizon,
    }
    return RegretBound(math.fsum(terms.values()), terms)


def _clip_error(p: Parameters) -> float:
    """Return how far clipping moves the law of a decision in one round (total variation)."""
    g, b = p.lipschitz / p.noise_scale, curvature_of(p)
    if b == 0.0:
        high, low = gaussian_delta(p.clip_high, g), gaussian_delta(p.clip_low, g)
    else:
        added = lambda order: 0.5 * g * g * order + p.rank * _addition(order, b)  # noqa: E731
        removed = lambda order: (  # noqa: E731
            0.5 * g * g * order + renyi_excess(order, b, p.dimension, p.rank, "zero_out")
        )
        high = best_delta(added, p.clip_high, math.inf)
        low = min(best_delta(removed, p.clip_low, 1.0 / b), _quantile_tail(p, g))
    return math.exp(-p.clip_high) * max(high, math.exp(-p.clip_low) * low)


def _addition(order: FloatArray, b: float) -> FloatArray:
    """Return the divergence that one eigenvalue ratio 1 + b contributes."""
    return np.asarray((order * math.log1p(b) - np.log1p(order * b)) / (order - 1.0))


def _quantile_tail(p: Parameters, g: float) -> float:
    """Return P(g^2/2 + g q > clip_low), q of the law |N(0, 1)| (rank 1) or chi_n."""
    from scipy.special import chdtrc, ndtr

    quantile = max(0.0, p.clip_low / g - 0.5 * g)
    if p.rank == 1:
        return float(2.0 * ndtr(-quantile))
    return float(chdtrc(float(p.dimension), quantile**2))


def root_mean_square(
    lipschitz: float, horizon: int, dimension: int, eta: float, sigma: float
) -> float:
    """Return a bound on the root mean square distance of any draw from the centre, over R^n."""
    return eta * (lipschitz * horizon + sigma * math.sqrt(dimension))
