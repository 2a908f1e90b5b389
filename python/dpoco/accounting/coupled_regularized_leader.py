"""Plans and accounting of the coupled regularized leader (CTRL).

Claim: the decisions, together with all stay-or-switch bits, are (epsilon, delta)-private with the
loss of `dpoco.privacy.mechanisms.coupled_draws`, even if the losses react to the decisions. For
losses fixed in advance, the expected regret is at most the stated bound
(`dpoco.accounting.regret_bounds`). In the lazy modes, the coupling "maximal" keeps every decision's
law unchanged. It switches with probability TV <= sqrt(KL/2), KL <= g^2/2 + r (ln(1 + b) - b/(1 +
b)), g = G/sigma, b = eta beta_s, or less if strong convexity lets the noise grow.

Proofs: ``docs/privacy/objective_perturbation.md``, ``docs/privacy/couplings.md`` and
``docs/privacy/oco_regret.md``. Source: Agarwal et al., CTRL (Algorithms 1 and 2), generalised to
blocks, accounting and regret corrected.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np

from dpoco._validation import FloatArray
from dpoco.accounting._coupled_setting import (
    CONSTANT_SPREAD,
    Grid,
    Law,
    Setting,
    search_plan,
    state,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import known_horizon
from dpoco.accounting.coupled_regret import curving, find_window
from dpoco.accounting.coupled_runs import (
    LEADER_COUPLINGS,
    CoupledPlan,
    TiltedPlan,
    TiltedRun,
    TiltedTuning,
    euclidean_problem,
    open_tilted,
)
from dpoco.accounting.gaussian import find_root, largest_fitting, rounded_down
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import best_step_size, leader_regret
from dpoco.domains import Domain
from dpoco.losses import Loss
from dpoco.privacy.mechanisms.coupled_draws import Maximal, TiltedMinimum

__all__ = ["TiltedPlan", "TiltedTuning", "calibrate", "guarantee"]

# Without privacy, the noise is so small that it costs a twenty-thousandth of the bound.
_QUIET_NOISE = 0.01
# Factors on the step size with the least bound. Smaller ones reduce b = eta beta_s.
_STEP_FACTORS = (1.0, 0.6, 0.3, 0.1, 0.03, 0.01)


class _Setting(Setting[TiltedRun]):
    """The problem of CTRL: a law is (eta, sigma), and variants are factors on the best eta."""

    kind = TiltedRun
    regret = staticmethod(leader_regret)

    def still_law(self) -> Law:
        q = self.problem
        sigma = q.lipschitz * math.sqrt(self.horizon / q.dimension)
        # We choose the step so that the noise moves the minimiser by this distance: ||x - c|| <=
        # eta ||Z||.
        return CONSTANT_SPREAD * q.radius / (sigma * math.sqrt(q.dimension)), sigma

    def law(self, variant: float, block: int, noise: float) -> Law:
        sigma = self.problem.lipschitz / noise
        return variant * best_step_size(self.problem.lazy(self.horizon, block), sigma), sigma

    def quiet_noise(self, block: int) -> float:
        rounds = float(block) ** 2 * -(-self.horizon // block)
        return math.sqrt(self.problem.dimension / rounds) / _QUIET_NOISE

    @property
    def strongly_convex(self) -> bool:
        """Whether the curvature of the losses can serve as regularisation."""
        return self.problem.strong_convexity > 0.0 and not self.problem.unbounded

    def draw(self, law: Law) -> TiltedMinimum:
        step, noise = law
        return TiltedMinimum(noise, step)

    def growing(self, noise_scale: float) -> CoupledPlan:
        """Return a plan without privacy, with growing noise and as few switches as possible."""
        run = self.keep(self.bare(1, (math.inf, noise_scale)), Maximal(0.0))
        own = replace(run.tuning, strong_convexity=self.problem.strong_convexity)
        return self.finish(replace(run, tuning=own))

    def laziest(self, coupling: str, limit: float) -> list[CoupledPlan]:
        found = [self._laziest_step(coupling, limit)]
        if self.strongly_convex and coupling == "maximal":

            def at(x: float) -> CoupledPlan:
                return self.growing(self.problem.lipschitz * math.exp(-x))

            low, high = -math.log(1e6), -math.log(1e-9)
            fits = lambda x: at(x).forecast.expected_switches <= limit  # noqa: E731
            least = largest_fitting(fits, low, high, 40)
            found.append(None if least is None else at(least))
        return [p for p in found if p is not None]

    def _laziest_step(self, coupling: str, limit: float) -> CoupledPlan | None:
        """Search the step size; for each, find the least noise with few enough switches."""
        q, share = self.problem, min(1.0, limit / (self.horizon - 1))
        top = math.log(q.radius / (q.lipschitz * math.sqrt(self.horizon))) + 0.01
        grid = np.linspace(top - 12.0, top, 25)
        best, at = None, top
        for _ in range(3):
            for log_eta in grid:
                eta = math.exp(float(log_eta))
                noise = self._laziest_noise(coupling, eta, share)
                if noise is None:
                    continue
                plan = self.lazy(coupling, (eta, q.lipschitz / noise), noise)
                bound = plan.forecast.regret_bound
                if best is None or bound < best.forecast.regret_bound:
                    best, at = plan, float(log_eta)
            gap = float(grid[1] - grid[0])
            grid = np.linspace(at - gap, at + gap, 7)
        return best

    def _laziest_noise(self, coupling: str, eta: float, share: float) -> float | None:
        """Return the largest G/sigma at which a round switches with probability at most `share`."""
        from scipy.special import ndtri

        q, b = self.problem, eta * self.problem.smoothness
        if coupling == "maximal":
            if b == 0.0:
                return min(10.0, 2.0 * float(ndtri(0.5 * (1.0 + share))))
            # `law_distance`, solved for g. There is no solution if the step is so long that
            # curvature alone causes more switches.
            square = 4.0 * share * share - 2.0 * q.rank * curving(b)
            return math.sqrt(square) * (1.0 - 1e-12) if square > 1e-24 else None
        width = 50.0 if share == 1.0 else -math.log1p(-share)

        def excess(log_g: float) -> float:
            noise = math.exp(log_g)
            run = self.bare(1, (eta, q.lipschitz / noise))
            window = find_window(self.keep(run, self.lazy_window(run, coupling, noise)))
            # The laws may be so close that their window is empty.
            return math.log(max(sum(window), 1e-300) / width)

        low, high = math.log(1e-12), math.log(10.0)
        if excess(low) > 0.0:
            return None
        if excess(high) < 0.0:
            return 10.0
        root = find_root(excess, low, high, xtol=1e-4)
        # The root may lie on the side with too many switches.
        while excess(root) > 0.0:
            root -= 1e-4
        return rounded_down(math.exp(root))

    def rough_law(self, variant: float, m: FloatArray, g: FloatArray) -> tuple[Grid, Grid, Grid]:
        q, horizon = self.problem, float(self.horizon)
        sigma = q.lipschitz / g
        rounds = (m * q.lipschitz) ** 2 * np.ceil(horizon / m) + sigma**2 * q.dimension
        eta = variant * q.radius / np.sqrt(rounds)
        spread = eta * (q.lipschitz * horizon + sigma * math.sqrt(q.dimension))
        # There is no inverse temperature; "dartboard", which needs one, is not a coupling of this
        # learner.
        return eta * q.smoothness, spread, math.nan


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int,
    budget: Budget | None,
    coupling: str = "auto",
    block: int | None = None,
    relation: str = "replace",
    unbounded: bool = False,
    max_switches: float | None = None,
) -> TiltedPlan:
    """Return the plan with the least proven regret bound that meets `budget`.

    Parameters
    ----------
    domain, loss
        A domain and a convex, smooth loss of this library. An l_p ball with p < 2 works with linear
        losses only.
    horizon, budget, coupling, block, relation, unbounded, max_switches
        See `dpoco.oco.CoupledRegularizedLeader`.

    Returns
    -------
    Plan
        If no noise beats the constant decision, its plan: a cap of 0 switches, one block, and a
        guarantee with epsilon 0.

    Raises
    ------
    ValueError, TypeError
        For contradictory or inadmissible arguments.
    CalibrationError
        If no plan has so few switches.

    Notes
    -----
    Deterministic; takes about 0.1 to 0.7 s.
    """
    problem, horizon = euclidean_problem(domain, loss, unbounded), known_horizon(horizon)
    setting = _Setting(
        problem, horizon, relation, budget, ("scheduled", "density_ratio"),
        ("maximal", "density_ratio"),
        variants=_STEP_FACTORS if problem.smoothness > 0.0 else (1.0,),
        tuning=TiltedTuning(problem.barrier_weight(horizon), 0.0, unbounded),
    )  # fmt: skip
    found = search_plan(setting, LEADER_COUPLINGS, coupling, block, max_switches)
    return cast(TiltedPlan, found)


def guarantee(
    domain: Domain,
    loss: Loss,
    plan: TiltedPlan,
    *,
    relation: str = "replace",
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    plan, relation, budget, seeded
        See `dpoco.accounting.statement`.

    Raises
    ------
    ValueError, TypeError
        If the plan contradicts the domain or the loss, or its coupling does not fit them.
    """
    run = open_tilted(domain, loss, plan)
    return state(run, plan.calibration, relation=relation, budget=budget, seeded=seeded)
