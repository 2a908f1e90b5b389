"""P-COMW: what parameters cost, in privacy and in regret.

Proof: ``docs/privacy/oco_regret.md`` (regret, switches), ``docs/privacy/couplings.md`` (privacy).
"""

from __future__ import annotations

import math
from typing import Any

from dpoco.accounting._oco.parameters import ContinuousMultiplicativeWeightsParameters as Parameters
from dpoco.accounting._oco.round_distance import gibbs_distance
from dpoco.accounting._oco.utility import cap_penalty, clip_penalty
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.gaussian import gaussian_delta
from dpoco.accounting.gibbs_draws import draw_mu, ratio_shift
from dpoco.accounting.regret_bounds import RegretBound, gibbs_regret


def sensitivity_of(problem: EuclideanProblem, relation: str) -> float:
    """Return Delta, the largest change of one round's gradient: 2 G or G."""
    return (2.0 if relation == "replace" else 1.0) * problem.lipschitz


def exact_normalizer(problem: EuclideanProblem) -> bool:
    """Whether ln Z of successive laws has a closed form: linear losses on a ball, box or R^d."""
    return problem.family == "linear" and (problem.unbounded or problem.shape in ("ball", "box"))


def linear_sampler(problem: EuclideanProblem) -> bool:
    """Whether Gibbs laws of linear losses can be drawn exactly on the domain."""
    return problem.unbounded or problem.shape in ("ball", "box", "simplex")


def envelopes_are_tight_for(problem: EuclideanProblem) -> bool:
    """Whether a public bound on the losses' curvature bounds the acceptance of envelopes."""
    return problem.enforced and problem.family in ("glm", "quadratic") and linear_sampler(problem)


def envelope_acceptance(p: Parameters, problem: EuclideanProblem) -> float:
    """Return a lower bound on the chance that a proposal of the exact sampler is accepted.

    (1 + T beta_s / lam)^(-n/2): ``docs/privacy/gibbs_sampling.md``.
    """
    curvature = p.horizon * problem.smoothness / p.regularization
    return math.exp(-0.5 * p.dimension * math.log1p(curvature))


def factor_range_of(problem: EuclideanProblem) -> float:
    """Return the public range of l - min l for "dartboard": G D, or 2 G R with a crude minimum."""
    if problem.family in ("linear", "glm"):
        return problem.lipschitz * problem.diameter
    return 2.0 * problem.lipschitz * problem.radius


def private_couplings(problem: EuclideanProblem) -> tuple[str, ...]:
    """Return the couplings whose privacy and regret statements hold for the problem."""
    found = ["scheduled"]
    if exact_normalizer(problem):
        found.append("density_ratio")
    if not problem.unbounded:
        found += ["dartboard", "anchored"]
    return tuple(found)


def inexactness(p: Parameters) -> float:
    """Return the total variation assumed of Markov chains over the horizon; 0 of exact draws."""
    return min(1.0, drawn(p) * p.sampler_tolerance)


def drawn(p: Parameters) -> int:
    """Return the largest number of draws that see data."""
    return p.decisions if p.max_switches is None else min(p.max_switches, p.decisions)


def profile_of(p: Parameters, problem: EuclideanProblem) -> dict[str, Any]:
    """Return the arguments of ``coupling.coupled_delta`` for the parameters."""
    sensitivity = sensitivity_of(problem, p.relation)
    later = 0
    shift = 0.0
    log_floor = p.clip_high + p.clip_low
    if p.coupling == "scheduled":
        log_floor = 0.0
    elif p.coupling == "dartboard":
        log_floor = p.inverse_temperature * p.factor_range
    elif p.coupling == "density_ratio":
        each = ratio_shift(
            sensitivity,
            p.lipschitz,
            p.inverse_temperature,
            p.regularization,
            normalizer_error=normalizer_error(p, problem),
        )
        later, shift = max(p.decisions - 1, 0), p.block * each
        log_floor += (p.block - 1) * each
    mu = draw_mu(sensitivity, p.inverse_temperature, p.regularization)
    return {
        "mu": mu * math.sqrt(drawn(p)),
        "forced_switch": p.forced_switch,
        "factor_floor": max(math.exp(-log_floor), 1e-300),
        "later_bits": later,
        "shift": shift,
    }


def normalizer_error(p: Parameters, problem: EuclideanProblem) -> float:
    """Return what rounding does to the log density ratio of successive laws, where clips leave it.

    On a ball or box it holds the difference of two log masses of the body, each off by at most 24
    units of 2^-53 times 2 n + 81 + g^2 T^2 / 2 + the log mass at the centre; and the means they
    are taken at are rounded. Derivation: ``docs/privacy/gibbs_draws.md``.
    """
    n, root = p.dimension, math.sqrt(p.inverse_temperature * p.regularization)
    far = noise_to_signal(p) * p.horizon
    units = (n / 8.0 + 24.0) / p.horizon * far**2 + 4.0 * (p.clip_high + p.clip_low)
    if not p.unbounded:
        central = max(math.erf(problem.half_width * root / math.sqrt(2.0)), 5e-324)
        size = 0.5 * far**2 - n * math.log(central)
        units += 52.0 * (2.0 * n + 81.0 + size) + 8.0 * far**2
    return 2.0**-53 * units


def noise_to_signal(p: Parameters) -> float:
    """Return g = G sqrt(beta/lam)."""
    return p.lipschitz * math.sqrt(p.inverse_temperature / p.regularization)


def hazard_and_mean(p: Parameters) -> tuple[float, float | None]:
    """Return a bound on the probability of a switch given any history, and one on their mean.

    The second is for "dartboard" only, whose switches are independent.
    """
    if p.coupling == "scheduled":
        return 1.0, None
    if p.coupling == "maximal":
        return gibbs_distance(noise_to_signal(p)), None
    stay = p.block * (p.clip_high + p.clip_low)
    mean = None
    if p.coupling == "dartboard":
        stay = p.block * p.inverse_temperature * p.factor_range
        worst = p.lipschitz * p.radius * p.horizon + _ideal_regret(p).total
        mean = p.forced_switch * p.decisions + p.inverse_temperature * worst
    hazard = p.forced_switch - (1.0 - p.forced_switch) * math.expm1(-stay)
    return min(1.0, hazard), mean


def assess(p: Parameters) -> tuple[RegretBound, float]:
    """Return the regret bound and a bound on the expected number of switches."""
    if p.max_switches == 0:
        return constant_bound(p), 0.0
    ideal = _ideal_regret(p)
    spread = root_mean_square(
        p.lipschitz, p.horizon, p.dimension, p.inverse_temperature, p.regularization
    )
    outside = spread if p.unbounded else None
    clip = 0.0
    g = noise_to_signal(p)
    if p.coupling == "density_ratio":
        high, low = gaussian_delta(p.clip_high, g), gaussian_delta(p.clip_low, g)
        error = math.exp(-p.clip_high) * max(high, math.exp(-p.clip_low) * low)
        clip = clip_penalty(p, error, outside)
    elif p.coupling == "anchored":
        # Half of the allowance per side of the window, and the anchors' deviation.
        clip = p.lipschitz * p.diameter * (0.5 + 1.0 / p.horizon)
    hazard, mean = hazard_and_mean(p)
    cap = cap_penalty(p, hazard, mean, outside)
    switches = p.decisions * hazard
    if p.coupling == "anchored":
        switches += 0.5  # forced by a window too wide, with probability 1/(2 T) in all
    if mean is not None:
        switches = min(switches, mean)
    if p.max_switches is not None:
        switches = min(switches, float(p.max_switches))
    return _ideal_regret(p, clip=clip, cap=cap) if clip or cap else ideal, switches


def constant_bound(p: Parameters) -> RegretBound:
    """Return the bound of a decision that never looks at data: at distance sqrt(n/(beta lam))."""
    spread = math.sqrt(p.dimension / (p.inverse_temperature * p.regularization))
    terms = {
        "constant": p.lipschitz * p.radius * p.horizon,
        "spread": p.lipschitz * spread * p.horizon,
    }
    return RegretBound(math.fsum(terms.values()), terms)


def _ideal_regret(p: Parameters, clip: float = 0.0, cap: float = 0.0) -> RegretBound:
    return gibbs_regret(
        horizon=p.horizon,
        dimension=p.dimension,
        lipschitz=p.lipschitz,
        radius=p.radius,
        diameter=p.diameter,
        inverse_temperature=p.inverse_temperature,
        regularization=p.regularization,
        block=p.block,
        clip=clip,
        cap=cap,
        unbounded=p.unbounded,
    )


def root_mean_square(
    lipschitz: float, horizon: int, dimension: int, beta: float, lam: float
) -> float:
    """Return a bound on the root mean square distance of any draw from the centre, over R^n."""
    return lipschitz * horizon / lam + math.sqrt(dimension / (beta * lam))
