"""P-COMW: parameters from coupling, block, forced switch and noise.

Proof: ``docs/privacy/oco_regret.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpoco.accounting import coupling as bits
from dpoco.accounting._oco.gibbs_costs import (
    assess,
    drawn,
    factor_range_of,
    hazard_and_mean,
    root_mean_square,
)
from dpoco.accounting._oco.parameters import ContinuousMultiplicativeWeightsParameters as Parameters
from dpoco.accounting._oco.rough import FloatArray, RoughProfile, rough_cap, rough_window
from dpoco.accounting._oco.utility import Allowance, age_quantile, allowance, decisions_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.gibbs_draws import anchor_width, clip_width
from dpoco.accounting.regret_bounds import best_inverse_temperature, entropy_term, gibbs_regret

DEFAULT_ANCHORS = 16
# Without privacy nothing asks for noise: draws may cost about this share of the bound.
_QUIET_ENTROPY = 0.01
# Chains are exponentially good in their length: only what doubles hold bounds the tolerance below.
_LARGEST_TOLERANCE, _SMALLEST_TOLERANCE = 1e-3, 1e-300


@dataclass(frozen=True)
class GibbsSetting:
    """What stays fixed while the search varies coupling, block, forced switch and noise."""

    problem: EuclideanProblem
    horizon: int
    relation: str
    calibration: str
    sampler: str
    tolerance: float | None
    budget: Budget | None
    anchors: int = DEFAULT_ANCHORS

    def inverse_temperature(self, block: int, noise: float) -> tuple[float, float]:
        """Return (beta, lam) of the least regret bound at this noise-to-signal ratio."""
        q = self.problem
        return best_inverse_temperature(
            horizon=self.horizon,
            dimension=q.dimension,
            lipschitz=q.lipschitz,
            radius=q.radius,
            diameter=q.diameter,
            noise_to_signal=noise,
            block=block,
            unbounded=q.unbounded,
        )

    def build(
        self, coupling: str, _variant: float, block: int, forced: float, noise: float
    ) -> Parameters:
        """Return the parameters at noise-to-signal ratio `noise`, windows and cap included."""
        q, decisions = self.problem, decisions_of(self.horizon, block)
        beta, lam = self.inverse_temperature(block, noise)
        allowed = self.allowance(beta, lam)
        width, span, anchors = 0.0, 0.0, 0
        if coupling == "density_ratio":
            width = clip_width(noise, min(0.5, forced / block * allowed.closeness))
        elif coupling == "anchored":
            anchors = self.anchors
            age = age_quantile(anchors, block, forced, 0.5 * allowed.tail / max(decisions, 1))
            error = min(0.5, forced / block * allowed.closeness)
            width = anchor_width(noise, error, anchors=anchors, mean_age=age, horizon=self.horizon)
        elif coupling == "dartboard":
            span = factor_range_of(q)
        bare = Parameters(
            horizon=self.horizon,
            dimension=q.dimension,
            lipschitz=q.lipschitz,
            radius=q.radius,
            diameter=q.diameter,
            inverse_temperature=beta,
            regularization=lam,
            coupling=coupling,
            block=block,
            forced_switch=forced,
            clip_high=width,
            clip_low=width,
            factor_range=span,
            anchors=anchors,
            max_switches=None,
            relation=self.relation,
            calibration=self.calibration,
            unbounded=q.unbounded,
            sampler=self.sampler,
            sampler_tolerance=0.0 if self.sampler == "exact" else _SMALLEST_TOLERANCE,
            private=False,
            regret_bound=0.0,
            regret_terms={},
            expected_switches=0.0,
        )
        cap = decisions
        if coupling != "scheduled":
            hazard, mean = hazard_and_mean(bare)
            tail = allowed.tail * (0.5 if coupling == "anchored" else 1.0)
            cap = bits.switch_cap(decisions, hazard, tail)
            if mean is not None:
                cap = min(cap, bits.bernstein_cap(mean, tail))
        return self.finish(replace(bare, max_switches=cap, private=self.budget is not None))

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
            width = clip_width(noise, closeness * 2.0 / max(self.horizon - 1, 2))
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
            p = replace(p, sampler_tolerance=self.chain_tolerance(drawn(p)))
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
        q = self.problem
        beta, lam = self.inverse_temperature(block, noise)
        return gibbs_regret(
            horizon=self.horizon,
            dimension=q.dimension,
            lipschitz=q.lipschitz,
            radius=q.radius,
            diameter=q.diameter,
            inverse_temperature=beta,
            regularization=lam,
            block=block,
            unbounded=q.unbounded,
        ).total
