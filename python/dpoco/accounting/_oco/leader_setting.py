"""CTRL: parameters from coupling, block, forced switch, noise and step size.

Proof: ``docs/privacy/oco_regret.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpoco.accounting import coupling as bits
from dpoco.accounting._oco.leader_costs import (
    barrier_weight,
    curvature_of,
    finish,
    hazard_of,
    root_mean_square,
)
from dpoco.accounting._oco.parameters import CoupledRegularizedLeaderParameters as Parameters
from dpoco.accounting._oco.rough import FloatArray, RoughProfile, rough_cap, rough_window
from dpoco.accounting._oco.utility import Allowance, allowance, decisions_of
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.objective_perturbation import clip_widths
from dpoco.accounting.regret_bounds import best_step_size, leader_regret

# Without privacy: noise so small that it costs a twenty-thousandth of the bound.
_QUIET_NOISE = 0.01
# Factors on the step size of the least bound: smaller ones lower b = eta beta_s.
STEP_FACTORS = (1.0, 0.6, 0.3, 0.1, 0.03, 0.01)


@dataclass(frozen=True)
class LeaderSetting:
    """What stays fixed while the search varies coupling, block, forced switch and noise."""

    problem: EuclideanProblem
    horizon: int
    relation: str
    calibration: str
    private: bool

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
        decisions = decisions_of(self.horizon, block)
        eta = self.step_size(factor, block, noise)
        bare = self.bare(coupling, block, forced, eta, self.problem.lipschitz / noise)
        allowed = self.allowance(eta, bare.noise_scale)
        cap = decisions
        if coupling == "density_ratio":
            error = min(0.5, forced / block * allowed.closeness)
            high, low = clip_widths(noise, curvature_of(bare), bare.dimension, bare.rank, error)
            bare = replace(bare, clip_high=high, clip_low=low)
            cap = bits.switch_cap(decisions, hazard_of(bare), allowed.tail)
        return finish(replace(bare, max_switches=cap, private=self.private))

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
        q = self.problem
        return Parameters(
            horizon=self.horizon,
            dimension=q.dimension,
            lipschitz=q.lipschitz,
            smoothness=q.smoothness,
            rank=self.rank,
            radius=q.radius,
            diameter=q.diameter,
            step_size=step_size,
            noise_scale=noise_scale,
            barrier_weight=barrier_weight(q, self.horizon),
            coupling=coupling,
            block=block,
            forced_switch=forced,
            clip_high=0.0,
            clip_low=0.0,
            max_switches=None,
            relation=self.relation,
            calibration=self.calibration,
            unbounded=q.unbounded,
            private=False,
            regret_bound=0.0,
            regret_terms={},
            expected_switches=0.0,
        )

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
        q = self.problem
        return leader_regret(
            horizon=self.horizon,
            dimension=q.dimension,
            lipschitz=q.lipschitz,
            radius=q.radius,
            diameter=q.diameter,
            step_size=self.step_size(factor, block, noise),
            noise_scale=q.lipschitz / noise,
            block=block,
            unbounded=q.unbounded,
        ).total
