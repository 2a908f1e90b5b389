"""P-COMW: what parameters cost in regret, and those of coupling, block, forced switch and noise.

Proof: ``docs/privacy/oco_regret.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpoco.accounting._coupled_costs import (
    Allowance,
    age_quantile,
    allowance,
    anchor_width,
    bernstein_cap,
    cap_penalty,
    clip_penalty,
    constant_bound,
    gibbs_distance,
    switch_cap,
)
from dpoco.accounting._coupled_parameters import (
    ContinuousMultiplicativeWeightsParameters as Parameters,
)
from dpoco.accounting._coupled_search import (
    CONSTANT_SPREAD,
    FloatArray,
    RoughProfile,
    Setting,
    rough_cap,
    rough_window,
)
from dpoco.accounting._coupled_statement import coupled_draws
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.accounting.regret_bounds import (
    RegretBound,
    best_inverse_temperature,
    entropy_term,
    gibbs_regret,
)
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws, GibbsDraw

DEFAULT_ANCHORS = 16
# Without privacy nothing asks for noise: draws may cost about this share of the bound.
_QUIET_ENTROPY = 0.01
# Chains are exponentially good in their length: only what doubles hold bounds the tolerance below.
_LARGEST_TOLERANCE, _SMALLEST_TOLERANCE = 1e-3, 1e-300


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
        # A draw around the centre.
        spread = math.sqrt(p.dimension / (p.inverse_temperature * p.regularization))
        return constant_bound(p, spread), 0.0
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


def _ideal_regret(p: Parameters, clip: float = 0.0, cap: float = 0.0) -> RegretBound:
    return gibbs_regret(
        **p.constants,
        inverse_temperature=p.inverse_temperature,
        regularization=p.regularization,
        clip=clip,
        cap=cap,
    )


def root_mean_square(
    lipschitz: float, horizon: int, dimension: int, beta: float, lam: float
) -> float:
    """Return a bound on the root mean square distance of any draw from the centre, over R^n."""
    return lipschitz * horizon / lam + math.sqrt(dimension / (beta * lam))


def drawn(p: Parameters, problem: EuclideanProblem) -> CoupledDraws:
    """Return the mechanism of parameters."""
    body = math.inf if p.unbounded else problem.half_width
    draw = GibbsDraw(p.inverse_temperature, p.regularization, body, p.sampler_tolerance)
    # Draws need no smoothness, and nobody has to declare one that holds.
    smoothness = math.inf if problem.family == "custom" else problem.smoothness
    return coupled_draws(p, problem, draw, smoothness=smoothness, factor_range=p.factor_range)


@dataclass(frozen=True)
class GibbsSetting(Setting[Parameters]):
    """A problem with its sampler, the tolerance of its chains, and the number of anchors."""

    sampler: str
    tolerance: float | None
    anchors: int = DEFAULT_ANCHORS

    def drawn(self, p: Parameters) -> CoupledDraws:
        """Return the mechanism of parameters."""
        return drawn(p, self.problem)

    def inverse_temperature(self, block: int, noise: float) -> tuple[float, float]:
        """Return (beta, lam) of the least regret bound at this noise-to-signal ratio."""
        return best_inverse_temperature(**self.constants, noise_to_signal=noise, block=block)

    def build(
        self, coupling: str, _variant: float, block: int, forced: float, noise: float
    ) -> Parameters:
        """Return the parameters at noise-to-signal ratio `noise`, windows and cap included."""
        q, decisions = self.problem, -(-self.horizon // block) - 1
        beta, lam = self.inverse_temperature(block, noise)
        allowed = self.allowance(beta, lam)
        width, span, anchors = 0.0, 0.0, 0
        if coupling == "density_ratio":
            width = gaussian_epsilon(noise, min(0.5, forced / block * allowed.closeness))
        elif coupling == "anchored":
            anchors = self.anchors
            age = age_quantile(anchors, block, forced, 0.5 * allowed.tail / max(decisions, 1))
            error = min(0.5, forced / block * allowed.closeness)
            width = anchor_width(noise, error, anchors=anchors, mean_age=age, horizon=self.horizon)
        elif coupling == "dartboard":
            span = factor_range_of(q)
        bare = self.bare(
            coupling, block, forced, beta, lam, clip_high=width, clip_low=width, factor_range=span,
            anchors=anchors,
        )  # fmt: skip
        cap = decisions
        if coupling != "scheduled":
            hazard, mean = hazard_and_mean(bare)
            tail = allowed.tail * (0.5 if coupling == "anchored" else 1.0)
            cap = switch_cap(decisions, hazard, tail)
            if mean is not None:
                cap = min(cap, bernstein_cap(mean, tail))
        return self.finish(replace(bare, max_switches=cap, private=self.budget is not None))

    def bare(
        self, coupling: str, block: int, forced: float, beta: float, lam: float, **own: Any
    ) -> Parameters:
        """Return parameters without cap, privacy and derived fields."""
        return Parameters(
            **self.constants,
            coupling=coupling,
            block=block,
            forced_switch=forced,
            inverse_temperature=beta,
            regularization=lam,
            relation=self.relation,
            calibration=self.calibration,
            sampler=self.sampler,
            sampler_tolerance=0.0 if self.sampler == "exact" else _SMALLEST_TOLERANCE,
            **own,
        )

    def constant(self) -> Parameters:
        """Return the parameters of the decision that never looks at data."""
        q = self.problem
        lam = q.lipschitz / q.radius * math.sqrt(self.horizon)
        beta = q.dimension / lam / (CONSTANT_SPREAD * q.radius) ** 2
        bare = self.bare("scheduled", self.horizon, 1.0, beta, lam)
        return self.finish(replace(bare, max_switches=0, private=True))

    def quiet(self, block: int) -> Parameters:
        """Return a fresh draw every block, at a temperature that costs little of the bound."""
        q = self.problem
        rounds = float(block) ** 2 * -(-self.horizon // block)
        noise = 1.0
        for _ in range(100):
            beta, lam = self.inverse_temperature(block, noise)
            term = entropy_term(
                self.horizon,
                q.dimension,
                q.lipschitz,
                q.diameter,
                beta,
                regularization=lam if q.unbounded else None,
            )
            following = math.sqrt(2.0 * beta * term / (_QUIET_ENTROPY * rounds))
            if abs(following - noise) <= 1e-9 * noise:
                break
            noise = following
        bare = self.build("scheduled", 1.0, block, 1.0, noise)
        return self.finish(replace(bare, max_switches=None, private=False))

    def lazy(self, coupling: str, noise: float) -> Parameters:
        """Return non-private parameters of a coupling without forced switches."""
        bare = self.build("scheduled", 1.0, 1, 1.0, noise)
        width = 0.0
        if coupling == "density_ratio":
            closeness = self.allowance(bare.inverse_temperature, bare.regularization).closeness
            width = gaussian_epsilon(noise, closeness * 2.0 / max(self.horizon - 1, 2))
        return self.finish(
            replace(
                bare,
                coupling=coupling,
                forced_switch=0.0,
                clip_high=width,
                clip_low=width,
                factor_range=factor_range_of(self.problem) if coupling == "dartboard" else 0.0,
                max_switches=None,
                private=False,
            )
        )

    def finish(self, p: Parameters) -> Parameters:
        """Return `p` with its sampler tolerance and derived fields filled in."""
        if p.sampler == "mcmc":
            draws = p.decisions if p.max_switches is None else min(p.max_switches, p.decisions)
            p = replace(p, sampler_tolerance=self.chain_tolerance(draws))
        bound, switches = assess(p)
        return replace(
            p,
            regret_bound=bound.total,
            regret_terms=bound.terms,
            expected_switches=switches,
        )

    def chain_tolerance(self, draws: int) -> float:
        """Return the total variation a Markov chain may be off by, per draw."""
        if self.tolerance is not None:
            return self.tolerance
        if self.budget is None or draws == 0:
            return _LARGEST_TOLERANCE
        share = self.budget.delta / (10.0 * (1.0 + math.exp(min(self.budget.epsilon, 600.0))))
        return max(_SMALLEST_TOLERANCE, min(_LARGEST_TOLERANCE, share / draws))

    def allowance(self, beta: float, lam: float) -> Allowance:
        """Return the total variations that cost G D / 2 (clipping) and G D (cap) in regret."""
        q = self.problem
        spread = root_mean_square(q.lipschitz, self.horizon, q.dimension, beta, lam)
        return allowance(self.horizon, q.diameter, spread if q.unbounded else None)

    def rough(
        self, coupling: str, _variant: float, m: FloatArray, p: FloatArray, g: FloatArray
    ) -> RoughProfile:
        """Return the profile on a grid, roughly; see `search`."""
        q, horizon = self.problem, float(self.horizon)
        decisions = np.ceil(horizon / m) - 1.0
        sides = 2.0 if self.relation == "replace" else 1.0
        zero = np.zeros_like(g)
        if coupling == "scheduled":
            return RoughProfile((sides * g) ** 2, decisions + zero, zero, zero, zero)
        rounds = m * m * np.ceil(horizon / m)
        ell = np.full_like(g, 10.0)
        for _ in range(6):
            lam = q.lipschitz / q.radius * np.sqrt(rounds + 2.0 * q.dimension * ell / (g * g))
            ell = g * g * lam / q.lipschitz * q.diameter * horizon / q.dimension
            ell = 1.0 + np.log(np.maximum(1.0, ell))
        beta = g * g * lam / q.lipschitz**2
        spread = q.lipschitz * horizon / lam + np.sqrt(q.dimension / (beta * lam))
        closeness, tail = 0.5 / horizon + zero, 1.0 / horizon + zero
        if q.unbounded:
            closeness = (q.diameter / (4.0 * horizon**1.5 * spread)) ** 2
            tail = 4.0 * closeness
        if coupling == "dartboard":
            span = beta * factor_range_of(q)
            hazard = 1.0 - (1.0 - p) * np.exp(-m * span)
            regret = 2.0 * (q.lipschitz * horizon * q.radius)
            mean = p * horizon / m + beta * regret
            hazard = np.minimum(hazard, mean / np.maximum(decisions, 1.0))
            return RoughProfile(
                (sides * g) ** 2, rough_cap(decisions, hazard, tail), span, zero, zero
            )
        width = rough_window(g, np.minimum(0.5, p / m * closeness))
        if coupling == "anchored":
            k = self.anchors
            z = math.sqrt(2.0 * math.log(2.0 * horizon**3))
            width = width + g * z / math.sqrt(k) + g * g * (2.5 * k + 1.5) * m / p
            hazard = 1.0 - (1.0 - p) * np.exp(-2.0 * m * width)
            cap = rough_cap(decisions, hazard, tail)
            return RoughProfile((sides * g) ** 2, cap, 2.0 * width, zero, zero)
        each = sides * g * g
        hazard = 1.0 - (1.0 - p) * np.exp(-2.0 * m * width)
        return RoughProfile(
            (sides * g) ** 2,
            rough_cap(decisions, hazard, tail),
            2.0 * width + (m - 1.0) * each,
            np.maximum(decisions - 1.0, 0.0),
            m * each,
        )

    def rough_value(self, _coupling: str, _variant: float, block: int, noise: float) -> float:
        """Return the regret bound without clip and cap terms."""
        beta, lam = self.inverse_temperature(block, noise)
        return gibbs_regret(
            **self.constants, inverse_temperature=beta, regularization=lam, block=block
        ).total
