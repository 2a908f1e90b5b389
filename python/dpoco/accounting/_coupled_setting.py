"""What the accountants of the two coupled learners share: a problem's plans and guarantee.

Proofs: ``docs/privacy/couplings.md``, ``docs/privacy/oco_regret.md`` and the learners' own pages.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from dpoco._validation import choice
from dpoco.accounting.budget import Budget
from dpoco.accounting.coupled_regret import (
    bernstein_cap,
    clip_widths,
    describe,
    forecast,
    hazard,
    switch_cap,
)
from dpoco.accounting.coupled_runs import CoupledPlan, GibbsRun, TiltedRun, open_plan
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.gaussian import check_delta
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.plan import Plan
from dpoco.accounting.statement import stated_delta
from dpoco.domains import Domain
from dpoco.losses import Loss
from dpoco.privacy.losses.coupled_bits import Bits
from dpoco.privacy.mechanisms import coupled_draws as kinds
from dpoco.privacy.neighbours import CHANGES, Neighbours

R = TypeVar("R", GibbsRun, TiltedRun)
Keep = kinds.Always | kinds.Window | kinds.Dartboard | kinds.Anchored | kinds.Maximal
Law = tuple[float, float]

# A constant decision is a draw this close to the centre, relative to the radius.
CONSTANT_SPREAD = 1e-9
# Released points that the coupling "anchored" averages over.
ANCHORS = 16
# Share of delta that inexact draws may cost before a smaller epsilon is aimed at.
_MASS_SHARE = 0.2
# A published delta this many times the theorem's own says nothing; nor does one of 1.
_VACUOUS_FACTOR = 10.0


@dataclass(frozen=True)
class Setting(ABC, Generic[R]):
    """A learner's problem: what stays fixed while a search varies coupling, block and noise.

    In the methods `variant` is the learner's own extra parameter, and `noise` the ratio of signal
    to noise.

    Attributes
    ----------
    private_couplings, lazy_couplings : tuple of str
        Those whose statements hold for the problem with privacy, and without forced switches.
    variants : tuple of float
        What the search tries.
    tuning : GibbsTuning or TiltedTuning
        The learner's own, for couplings without anchors.
    """

    problem: EuclideanProblem
    horizon: int
    relation: str
    budget: Budget | None
    private_couplings: tuple[str, ...]
    lazy_couplings: tuple[str, ...]
    variants: tuple[float, ...]
    tuning: Any

    kind: ClassVar[Any]  # of runs
    regret: ClassVar[Any]  # the bound of a law
    law_fields: ClassVar[tuple[str, str]]  # of that, which say how a decision is drawn

    @property
    def constants(self) -> dict[str, Any]:
        """What regret bounds take, but for the block."""
        q = self.problem
        names = ("dimension", "lipschitz", "radius", "diameter", "unbounded")
        return {"horizon": self.horizon, **{name: getattr(q, name) for name in names}}

    @abstractmethod
    def still_law(self) -> Law:
        """Return the law of the decision that never looks at data."""

    @abstractmethod
    def law(self, variant: float, block: int, noise: float) -> Law:
        """Return the law of the least regret bound."""

    @abstractmethod
    def quiet_noise(self, block: int) -> float:
        """Return a ratio of signal to noise at which the noise costs next to nothing."""

    @abstractmethod
    def draw(self, law: Law) -> kinds.GibbsDraw | kinds.TiltedMinimum:
        """Return the description of a law."""

    @abstractmethod
    def laziest(self, coupling: str, limit: float) -> list[CoupledPlan]:
        """Return the best plans of a coupling for so many expected switches, if any."""

    @abstractmethod
    def rough_law(self, variant: float, m: Any, g: Any) -> tuple[Any, Any, Any]:
        """Return (b, spread, beta) on a grid of blocks and noises, roughly."""

    def bare(self, block: int, law: Law) -> R:
        """Return a fresh draw every block, of that law, without privacy."""
        losses = self.kind.bound_losses(self.problem)
        drawn = kinds.CoupledDraws(
            losses, self.draw(law), kinds.Always(), self.horizon, block, None
        )
        found: R = self.kind(self.problem, drawn, self.tuning)
        return found

    def keep(self, run: R, keep: Keep, cap: int | None = None) -> R:
        """Return a run with another coupling and cap."""
        return replace(run, mechanism=replace(run.mechanism, keep=keep, cap=cap))

    def finish(self, run: R) -> CoupledPlan:
        """Return the plan of a run, with its forecast."""
        return Plan(run.mechanism, run.tuning, forecast(run))

    def build(
        self, coupling: str, variant: float, block: int, forced: float, noise: float
    ) -> CoupledPlan:
        """Return a plan with windows, cap and regret bound."""
        run = self.bare(block, self.law(variant, block, noise))
        m = run.mechanism
        cap = m.decisions
        if coupling != "scheduled":
            closeness, tail = self.allowance(run)
            if coupling == "anchored":
                tail *= 0.5
            error = min(0.5, forced / block * closeness)
            run = self.keep(run, self.window(run, coupling, noise, error, forced, tail))
            cap = switch_cap(m.decisions, hazard(run), tail)
            if run.mean_switches is not None:
                cap = min(cap, bernstein_cap(run.mean_switches, tail))
        return self.finish(self.keep(run, run.mechanism.keep, cap))

    def window(
        self,
        run: R,
        coupling: str,
        noise: float,
        error: float,
        forced: float = 0.0,
        tail: float = 0.0,
    ) -> Keep:
        """Return a coupling, for that total variation a round by clipping."""
        if coupling == "maximal":
            return kinds.Maximal(forced)
        _, b, rank = run.ratios
        high, low = clip_widths(noise, b, self.problem.dimension, rank, error)
        return kinds.Window(forced, high, low)

    def lazy_window(self, run: R, coupling: str, noise: float) -> Keep:
        """Return the same without forced switches: clipping costs G D / 2 in all."""
        error = self.allowance(run)[0] * 2.0 / max(self.horizon - 1, 2)
        return self.window(run, coupling, noise, error)

    def lazy(self, coupling: str, law: Law, noise: float) -> CoupledPlan:
        """Return a plan without privacy, of a coupling without forced switches."""
        run = self.bare(1, law)
        return self.finish(self.keep(run, self.lazy_window(run, coupling, noise)))

    def allowance(self, run: R) -> tuple[float, float]:
        """Return the total variations that cost G D / 2 (clipping) and G D (cap) in regret.

        Between the law of a decision and the ideal one in every round, and the probability of
        reaching the cap.
        """
        t = float(self.horizon)
        if not self.problem.unbounded:
            return 0.5 / t, min(0.5, 1.0 / t)
        closeness = min(0.5 / t, (self.problem.diameter / (4.0 * t**1.5 * run.spread)) ** 2)
        return max(closeness, 1e-250), max(min(0.5, 4.0 * closeness), 1e-250)

    def constant(self) -> CoupledPlan:
        """Return the plan of the decision that never looks at data."""
        run = self.bare(self.horizon, self.still_law())
        return self.finish(self.keep(run, kinds.Always(), 0))

    def quiet(self, block: int) -> CoupledPlan:
        """Return a fresh draw every block, with noise that costs next to nothing."""
        return self.finish(self.bare(block, self.law(1.0, block, self.quiet_noise(block))))

    def spent(self, plan: CoupledPlan, budget: Budget) -> float:
        """Return a bound on delta at the budget's epsilon, inexact draws charged."""
        loss = plan.mechanism.loss(Neighbours(self.relation))
        if loss is None:
            return 1.0
        if loss.mass == 0.0:
            return loss.delta(budget.epsilon)
        # A guarantee at a smaller epsilon, where the charge would take too much of the budget.
        epsilon = max(0.0, math.log(_MASS_SHARE * budget.delta / loss.mass))
        epsilon = min(budget.epsilon, epsilon)
        return loss.bare.delta(epsilon) + (1.0 + math.exp(epsilon)) * loss.mass


def guarantee(
    domain: Domain,
    loss: Loss,
    plan: CoupledPlan,
    *,
    relation: str = "replace",
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any plan guarantees, computed from its mechanism.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    plan : Plan
        Calibrated or the user's own; its forecast is not trusted.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError, TypeError
        If the plan contradicts the domain or the loss, or its coupling does not fit them.
    """
    run = open_plan(domain, loss, plan)
    q, drawn = run.problem, run.mechanism
    near = Neighbours(choice("relation", relation, CHANGES))
    delta = stated_delta(budget, drawn.rounds)
    check_delta(delta)
    said, conditions = describe(run, drawn.draw.moved(drawn.losses, near))
    if not run.private:
        none = Guarantee.none(drawn.rounds, run.released)
        said |= {"reference": run.reference}
        return replace(none, conditions=(*none.conditions, *conditions), **said)
    details = said["details"]
    cost = drawn.loss(near)
    assert cost is not None  # it is private
    bits = cost.bare
    claim = paper = None
    if relation == "replace" and drawn.decisions > 0:
        paper = run.claim(delta, False)
        if plan.calibration != "tight":
            claim = paper if plan.calibration == "paper" else run.claim(delta, True)
    constant = not isinstance(bits, Bits)
    own = []
    if isinstance(bits, Bits):
        details["factor_floor"] = bits.factor_floor
        details["later_bits"] = bits.later_bits
        details["later_bit_shift"] = bits.shift
    else:
        own.append("The learner never switches: nothing released depends on data.")
        if drawn.block == drawn.rounds > 1:
            own.append("At this budget and horizon no noise beats the constant decision.")
    if plan.calibration == "paper":
        own.append("The claim of calibration 'paper' is as printed, and is not certified.")
        if claim is not None and not claim.delta < min(1.0, _VACUOUS_FACTOR * delta):
            own.append(f"The printed claim is vacuous: its total delta is {claim.delta:.3g}.")
    bounds = f"G = {q.lipschitz:.6g}"
    if q.smoothness > 0.0:
        bounds += f", beta_s = {q.smoothness:.6g}"
    if q.enforced:
        own.append(f"The program scales records into the bounds ({bounds}, l2).")
    return Guarantee.about(
        drawn,
        near,
        released=run.released,
        horizon=drawn.rounds,
        delta=delta,
        reference=run.reference,
        seeded=seeded,
        calibration=plan.calibration,
        conditions=(*own, *conditions),
        claimed=None if claim is None else (claim.epsilon, claim.delta),
        paper_epsilon=None if constant or paper is None else paper.epsilon,
        **said,
    )
