"""What the accountants of the two coupled learners share: a problem's parameters and guarantee.

Proofs: ``docs/privacy/couplings.md``, ``docs/privacy/oco_regret.md`` and the learners' own pages.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from dpoco.accounting._coupled_parameters import CoupledParameters, mechanism
from dpoco.accounting._coupled_regret import (
    assess,
    bernstein_cap,
    clip_widths,
    forecast,
    hazard,
    switch_cap,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem, euclidean_problem
from dpoco.accounting.gaussian import check_delta
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.statement import stated_delta
from dpoco.domains import Domain
from dpoco.losses import Loss
from dpoco.privacy.losses.coupled_bits import Bits
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws
from dpoco.privacy.neighbours import Neighbours

P = TypeVar("P", bound=CoupledParameters)
Law = tuple[float, float]

# A constant decision is a draw this close to the centre, relative to the radius.
CONSTANT_SPREAD = 1e-9
# Released points that the coupling "anchored" averages over.
ANCHORS = 16
# Share of delta that inexact draws may cost before a smaller epsilon is aimed at.
_MASS_SHARE = 0.2
# A published delta this many times the theorem's own says nothing; nor does one of 1.
_VACUOUS_FACTOR = 10.0


def tried(p: P, **changes: Any) -> P:
    """Return `p` with changes that are not checked yet: a search tries many."""
    copy = object.__new__(type(p))
    vars(copy).update(vars(p), **changes)
    return copy


@dataclass(frozen=True)
class Setting(ABC, Generic[P]):
    """A learner's problem: what stays fixed while a search varies coupling, block and noise.

    In the methods `variant` is the learner's own extra parameter, and `noise` the ratio of signal
    to noise.

    Attributes
    ----------
    private_couplings, lazy_couplings : tuple of str
        Those whose statements hold for the problem with privacy, and without forced switches.
    variants : tuple of float
        What the search tries.
    own : dict
        The learner's own fields of parameters that stay fixed.
    """

    problem: EuclideanProblem
    horizon: int
    relation: str
    budget: Budget | None
    private_couplings: tuple[str, ...]
    lazy_couplings: tuple[str, ...]
    variants: tuple[float, ...]
    own: dict[str, Any]

    record: ClassVar[Any]
    law_fields: ClassVar[tuple[str, str]]  # of the record, which say how a decision is drawn
    regret: ClassVar[Any]  # the bound of a law

    @property
    def constants(self) -> dict[str, Any]:
        """What parameters and regret bounds take."""
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
    def laziest(self, coupling: str, limit: float) -> list[P]:
        """Return the best parameters of a coupling for so many expected switches, if any."""

    @abstractmethod
    def rough_law(self, variant: float, m: Any, g: Any) -> tuple[Any, Any, Any]:
        """Return (b, spread, beta) on a grid of blocks and noises, roughly."""

    def bare(self, block: int, law: Law) -> P:
        """Return a fresh draw every block, of that law, without privacy and derived fields."""
        found: P = self.record(
            **self.constants,
            **self.own,
            **dict(zip(self.law_fields, law, strict=True)),
            coupling="scheduled",
            block=block,
            forced_switch=1.0,
            relation=self.relation,
        )
        return found

    def finish(self, p: P, **changes: Any) -> P:
        """Return `p` with changes, and with its derived fields filled in."""
        p = tried(p, **changes)
        bound, switches = assess(p)
        return tried(
            p, regret_bound=bound.total, regret_terms=bound.terms, expected_switches=switches
        )

    def build(self, coupling: str, variant: float, block: int, forced: float, noise: float) -> P:
        """Return parameters with windows, cap and regret bound."""
        p = self.bare(block, self.law(variant, block, noise))
        cap = p.decisions
        if coupling != "scheduled":
            closeness, tail = self.allowance(p)
            if coupling == "anchored":
                tail *= 0.5
            error = min(0.5, forced / block * closeness)
            window = self.window(p, coupling, noise, error, forced, tail)
            p = tried(p, coupling=coupling, forced_switch=forced, **window)
            cap = switch_cap(p.decisions, hazard(p), tail)
            if p.mean_switches is not None:
                cap = min(cap, bernstein_cap(p.mean_switches, tail))
        return self.finish(p, max_switches=cap, private=self.budget is not None)

    def window(
        self,
        p: P,
        coupling: str,
        noise: float,
        error: float,
        forced: float = 0.0,
        tail: float = 0.0,
    ) -> dict[str, Any]:
        """Return the coupling's own fields, for that total variation a round by clipping."""
        if coupling != "density_ratio":
            return {}
        _, b, rank = p.ratios
        high, low = clip_widths(noise, b, p.dimension, rank, error)
        return {"clip_high": high, "clip_low": low}

    def lazy_window(self, p: P, coupling: str, noise: float) -> dict[str, Any]:
        """Return the same without forced switches: clipping costs G D / 2 in all."""
        error = self.allowance(p)[0] * 2.0 / max(self.horizon - 1, 2)
        return self.window(p, coupling, noise, error)

    def lazy(self, coupling: str, law: Law, noise: float) -> P:
        """Return non-private parameters of a coupling without forced switches."""
        p = self.bare(1, law)
        window = self.lazy_window(p, coupling, noise)
        return self.finish(p, coupling=coupling, forced_switch=0.0, **window)

    def allowance(self, p: P) -> tuple[float, float]:
        """Return the total variations that cost G D / 2 (clipping) and G D (cap) in regret.

        Between the law of a decision and the ideal one in every round, and the probability of
        reaching the cap.
        """
        t = float(self.horizon)
        if not p.unbounded:
            return 0.5 / t, min(0.5, 1.0 / t)
        closeness = min(0.5 / t, (p.diameter / (4.0 * t**1.5 * p.spread)) ** 2)
        return max(closeness, 1e-250), max(min(0.5, 4.0 * closeness), 1e-250)

    def constant(self) -> P:
        """Return the parameters of the decision that never looks at data."""
        return self.finish(self.bare(self.horizon, self.still_law()), max_switches=0, private=True)

    def quiet(self, block: int) -> P:
        """Return a fresh draw every block, with noise that costs next to nothing."""
        p = self.build("scheduled", 1.0, block, 1.0, self.quiet_noise(block))
        return self.finish(p, max_switches=None, private=False)

    def spent(self, p: P, budget: Budget) -> float:
        """Return a bound on delta at the budget's epsilon, inexact draws charged."""
        loss = mechanism(p, self.problem).loss(Neighbours(p.relation))
        if loss is None:
            return 1.0
        if loss.mass == 0.0:
            return loss.delta(budget.epsilon)
        # A guarantee at a smaller epsilon, where the charge would take too much of the budget.
        epsilon = max(0.0, math.log(_MASS_SHARE * budget.delta / loss.mass))
        epsilon = min(budget.epsilon, epsilon)
        return loss.bare.delta(epsilon) + (1.0 + math.exp(epsilon)) * loss.mass


def with_forecast(parameters: P) -> P:
    """Return parameters with the regret and the switches that follow from them."""
    bound, switches = assess(parameters)
    return replace(
        parameters,
        regret_bound=bound.total,
        regret_terms=bound.terms,
        expected_switches=switches,
    )


def mechanism_of(domain: Domain, loss: Loss, parameters: CoupledParameters) -> CoupledDraws:
    """Return what the engine built from these draws and enforces.

    Raises
    ------
    ValueError
        If the parameters contradict the domain or the loss, or their coupling does not fit them.
    """
    problem = euclidean_problem(domain, loss, parameters.unbounded)
    parameters.check(problem)
    return mechanism(parameters, problem)


def guarantee(
    domain: Domain,
    loss: Loss,
    parameters: CoupledParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from coupling, noise and cap.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    parameters
        Of the learner, calibrated or the user's own; regret and switches in them are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters contradict the domain or the loss, or their coupling does not fit them.
    """
    p, drawn = parameters, mechanism_of(domain, loss, parameters)
    problem = euclidean_problem(domain, loss, p.unbounded)
    delta, near = stated_delta(budget, p.horizon), Neighbours(p.relation)
    check_delta(delta)
    said, conditions = forecast(p, problem, drawn.draw.moved(drawn.losses, near))
    if not p.private:
        none = Guarantee.none(p.horizon, p.released)
        said |= {"reference": p.reference}
        return replace(none, conditions=(*none.conditions, *conditions), **said)
    details = said["details"]
    cost = drawn.loss(near)
    assert cost is not None  # it is private
    bits = cost.bare
    claim = paper = None
    if p.relation == "replace" and p.decisions > 0:
        paper = p.claim(delta, False)
        if p.calibration != "tight":
            claim = paper if p.calibration == "paper" else p.claim(delta, True)
    constant = not isinstance(bits, Bits)
    own = []
    if isinstance(bits, Bits):
        details["factor_floor"] = bits.factor_floor
        details["later_bits"] = bits.later_bits
        details["later_bit_shift"] = bits.shift
    else:
        own.append("The learner never switches: nothing released depends on data.")
        if p.block == p.horizon > 1:
            own.append("At this budget and horizon no noise beats the constant decision.")
    if p.calibration == "paper":
        own.append("The claim of calibration 'paper' is as printed, and is not certified.")
        if claim is not None and not claim.delta < min(1.0, _VACUOUS_FACTOR * delta):
            own.append(f"The printed claim is vacuous: its total delta is {claim.delta:.3g}.")
    bounds = f"G = {problem.lipschitz:.6g}"
    if problem.smoothness > 0.0:
        bounds += f", beta_s = {problem.smoothness:.6g}"
    if problem.enforced:
        own.append(f"The program scales records into the bounds ({bounds}, l2).")
    return Guarantee.about(
        drawn,
        near,
        released=p.released,
        horizon=p.horizon,
        delta=delta,
        reference=p.reference,
        seeded=seeded,
        calibration=p.calibration,
        conditions=(*own, *conditions),
        claimed=None if claim is None else (claim.epsilon, claim.delta),
        paper_epsilon=None if constant or paper is None else paper.epsilon,
        **said,
    )
