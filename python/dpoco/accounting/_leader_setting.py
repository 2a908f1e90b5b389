"""CTRL: what parameters cost in regret, and those of coupling, block, forced switch, noise, step.

Proofs: ``docs/privacy/oco_regret.md``; windows: ``docs/privacy/objective_perturbation.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpoco._validation import real_float
from dpoco.accounting._coupled_costs import (
    Allowance,
    allowance,
    cap_penalty,
    clip_penalty,
    constant_bound,
    leader_distance,
    switch_cap,
)
from dpoco.accounting._coupled_parameters import CoupledRegularizedLeaderParameters as Parameters
from dpoco.accounting._coupled_search import (
    CONSTANT_SPREAD,
    FloatArray,
    RoughProfile,
    Setting,
    rough_cap,
    rough_window,
)
from dpoco.accounting._coupled_statement import coupled_draws
from dpoco.accounting._growing_noise import growing_assessment
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.accounting.regret_bounds import RegretBound, best_step_size, leader_regret
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.losses.tilted_draws import (
    Curve,
    addition,
    best_delta,
    least_over_orders,
    removal,
)
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws, TiltedMinimum

# Without privacy: noise so small that it costs a twenty-thousandth of the bound.
_QUIET_NOISE = 0.01
# Factors on the step size of the least bound: smaller ones lower b = eta beta_s.
STEP_FACTORS = (1.0, 0.6, 0.3, 0.1, 0.03, 0.01)


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
        return constant_bound(p, p.step_size * p.noise_scale * math.sqrt(p.dimension)), 0.0
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
        **p.constants,
        step_size=p.step_size,
        noise_scale=p.noise_scale,
        barrier=p.barrier_weight > 0.0,
        clip=clip,
        cap=cap,
    )
    return bound, switches


def _clip_error(p: Parameters) -> float:
    """Return how far clipping moves the law of a decision in one round (total variation)."""
    g, b = p.lipschitz / p.noise_scale, curvature_of(p)
    if b == 0.0:
        high, low = gaussian_delta(p.clip_high, g), gaussian_delta(p.clip_low, g)
    else:
        added = lambda order: 0.5 * g * g * order + p.rank * addition(order, b)  # noqa: E731
        removed = lambda order: (  # noqa: E731
            0.5 * g * g * order + p.rank * removal(order, b)
        )
        high = best_delta(added, p.clip_high, math.inf)
        low = min(best_delta(removed, p.clip_low, 1.0 / b), _quantile_tail(p, g))
    return math.exp(-p.clip_high) * max(high, math.exp(-p.clip_low) * low)


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


def clip_widths(g: float, b: float, dimension: int, rank: int, error: float) -> tuple[float, float]:
    """Return (high, low), the widths at which clipping the log density ratio costs `error`.

    The hockey-stick divergences of order e^high of the next law from the current one, and of order
    e^low of the current law from the next one, are at most `error`.

    Parameters
    ----------
    g : float
        lipschitz / noise_scale, at least 0.
    b : float
        Step size times smoothness, at least 0.
    dimension, rank : int
        d, and the largest rank of one loss's Hessian; 1 is to mean a generalised linear loss (or
        dimension 1).
    error : float
        Strictly between 0 and 1.

    Notes
    -----
    Concerns utility only: the acceptance factors are clamped to the window whatever it is.
    """
    from scipy.special import chdtri, ndtri

    if not 0.0 < real_float("error", error) < 1.0:
        raise ValueError(f"error must be strictly between 0 and 1; got {error!r}")
    if not real_float("g", g) >= 0.0:
        raise ValueError(f"g must be at least 0; got {g!r}")
    count = min(rank, dimension)
    if b == 0.0 or count == 0:
        width = gaussian_epsilon(g, error)
        return width, width
    high = _best_epsilon(
        lambda order: 0.5 * g * g * order + count * addition(order, b), error, math.inf
    )
    low = _best_epsilon(
        lambda order: 0.5 * g * g * order + count * removal(order, b), error, 1.0 / b
    )
    if count == 1:
        quantile = -float(ndtri(0.5 * error))
    else:
        quantile = math.sqrt(float(chdtri(float(dimension), error)))
    return high, min(low, 0.5 * g * g + g * quantile)


def _best_epsilon(curve: Curve, delta: float, largest: float) -> float:
    """Return the smallest epsilon >= 0 that divergences prove at `delta`; infinite if none is."""
    log_delta = math.log(delta)

    def bound(t: FloatArray) -> FloatArray:
        return curve(1.0 + t) - np.log1p(1.0 / t) - (log_delta + np.log1p(t)) / t

    return max(0.0, least_over_orders(curve, bound, largest))


def drawn(p: Parameters, problem: EuclideanProblem) -> CoupledDraws:
    """Return the mechanism of parameters."""
    draw = TiltedMinimum(p.noise_scale, p.step_size)
    return coupled_draws(p, problem, draw, smoothness=problem.smoothness)


@dataclass(frozen=True)
class LeaderSetting(Setting[Parameters]):
    """A problem; the search's variant is a factor on the step size."""

    def drawn(self, p: Parameters) -> CoupledDraws:
        """Return the mechanism of parameters."""
        return drawn(p, self.problem)

    @property
    def rank(self) -> int:
        """r, at most the dimension."""
        return min(self.problem.rank, self.problem.dimension)

    def step_size(self, factor: float, block: int, noise: float) -> float:
        """Return `factor` times the step size of the least bound at g = G/sigma = `noise`."""
        q = self.problem
        return factor * best_step_size(
            horizon=self.horizon,
            dimension=q.dimension,
            lipschitz=q.lipschitz,
            radius=q.radius,
            noise_scale=q.lipschitz / noise,
            block=block,
        )

    def build(
        self, coupling: str, factor: float, block: int, forced: float, noise: float
    ) -> Parameters:
        """Return the parameters at g = `noise`, windows and cap included."""
        decisions = -(-self.horizon // block) - 1
        eta = self.step_size(factor, block, noise)
        bare = self.bare(coupling, block, forced, eta, self.problem.lipschitz / noise)
        allowed = self.allowance(eta, bare.noise_scale)
        cap = decisions
        if coupling == "density_ratio":
            error = min(0.5, forced / block * allowed.closeness)
            high, low = clip_widths(noise, curvature_of(bare), bare.dimension, bare.rank, error)
            bare = replace(bare, clip_high=high, clip_low=low)
            cap = switch_cap(decisions, hazard_of(bare), allowed.tail)
        return finish(replace(bare, max_switches=cap, private=self.budget is not None))

    def quiet(self, block: int) -> Parameters:
        """Return follow the regularized leader, redrawn every block, noise next to nothing."""
        rounds = float(block) ** 2 * -(-self.horizon // block)
        noise = math.sqrt(self.problem.dimension / rounds) / _QUIET_NOISE
        bare = self.build("scheduled", 1.0, block, 1.0, noise)
        return finish(replace(bare, max_switches=None, private=False))

    def lazy(self, coupling: str, step_size: float, noise: float) -> Parameters:
        """Return non-private parameters of a coupling without forced switches."""
        bare = self.bare(coupling, 1, 0.0, step_size, self.problem.lipschitz / noise)
        if coupling == "density_ratio":
            high, low = self.lazy_widths(step_size, noise)
            bare = replace(bare, clip_high=high, clip_low=low)
        return finish(bare)

    def lazy_widths(self, step_size: float, noise: float) -> tuple[float, float]:
        """Return the window whose clipping costs G D / 2 without forced switches."""
        q = self.problem
        allowed = self.allowance(step_size, q.lipschitz / noise)
        error = allowed.closeness * 2.0 / max(self.horizon - 1, 2)
        return clip_widths(noise, step_size * q.smoothness, q.dimension, self.rank, error)

    def growing(self, coupling: str, noise_scale: float) -> Parameters:
        """Return non-private parameters with growing noise, for strongly convex losses."""
        return finish(
            replace(
                self.bare(coupling, 1, 0.0, 1.0, noise_scale),
                step_size=math.inf,
                noise_growth=True,
                strong_convexity=self.problem.strong_convexity,
            )
        )

    def bare(
        self, coupling: str, block: int, forced: float, step_size: float, noise_scale: float
    ) -> Parameters:
        """Return parameters without window, cap, privacy and derived fields."""
        return Parameters(
            **self.constants,
            smoothness=self.problem.smoothness,
            rank=self.rank,
            step_size=step_size,
            noise_scale=noise_scale,
            barrier_weight=barrier_weight(self.problem, self.horizon),
            coupling=coupling,
            block=block,
            forced_switch=forced,
            relation=self.relation,
            calibration=self.calibration,
        )

    def constant(self) -> Parameters:
        """Return the parameters of the decision that never looks at data."""
        q = self.problem
        sigma = q.lipschitz * math.sqrt(self.horizon / q.dimension)
        eta = CONSTANT_SPREAD * q.radius / (sigma * math.sqrt(q.dimension))
        bare = self.bare("scheduled", self.horizon, 1.0, eta, sigma)
        return finish(replace(bare, max_switches=0, private=True))

    def allowance(self, eta: float, sigma: float) -> Allowance:
        """Return the total variations that cost G D / 2 (clipping) and G D (cap) in regret."""
        q = self.problem
        spread = root_mean_square(q.lipschitz, self.horizon, q.dimension, eta, sigma)
        return allowance(self.horizon, q.diameter, spread if q.unbounded else None)

    def rough(
        self, coupling: str, factor: float, m: FloatArray, p: FloatArray, g: FloatArray
    ) -> RoughProfile:
        """Return the profile on a grid, roughly; see `search`."""
        q, horizon = self.problem, float(self.horizon)
        decisions = np.ceil(horizon / m) - 1.0
        sides = 2.0 if self.relation == "replace" else 1.0
        zero = np.zeros_like(g)
        sigma = q.lipschitz / g
        rounds = (m * q.lipschitz) ** 2 * np.ceil(horizon / m) + sigma**2 * q.dimension
        eta = factor * q.radius / np.sqrt(rounds)
        b = eta * q.smoothness
        rank = self.rank
        count = min(2 * rank, q.dimension) if self.relation == "replace" else rank
        # Beyond b ~ 0.1 the Renyi bound runs out of orders; the square forbids it smoothly.
        variance = (sides * g) ** 2 + count * (b * (1.0 + 10.0 * b)) ** 2
        if coupling == "scheduled":
            return RoughProfile(variance, decisions + zero, zero, zero, zero)
        closeness, tail = 0.5 / horizon + zero, 1.0 / horizon + zero
        if q.unbounded:
            spread = eta * (q.lipschitz * horizon + sigma * math.sqrt(q.dimension))
            closeness = (q.diameter / (4.0 * horizon**1.5 * spread)) ** 2
            tail = 4.0 * closeness
        width = rough_window(np.sqrt(g * g + rank * b * b), np.minimum(0.5, p / m * closeness))
        hazard = 1.0 - (1.0 - p) * np.exp(-2.0 * m * width)
        each = sides * g * g + rank * b * b
        return RoughProfile(
            variance,
            rough_cap(decisions, hazard, tail),
            2.0 * width + (m - 1.0) * each,
            np.maximum(decisions - 1.0, 0.0),
            m * each,
        )

    def rough_value(self, _coupling: str, factor: float, block: int, noise: float) -> float:
        """Return the regret bound without clip and cap terms."""
        step = self.step_size(factor, block, noise)
        scale = self.problem.lipschitz / noise
        return leader_regret(**self.constants, step_size=step, noise_scale=scale, block=block).total
