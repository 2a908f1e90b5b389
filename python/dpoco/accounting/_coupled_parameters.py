"""Everything calibration fixes for the two coupled learners, and what follows from it alone.

Proofs of what ratios, spreads and regret stand for: ``docs/privacy/oco_regret.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpoco._validation import LARGEST_HORIZON
from dpoco.accounting.claims import PublishedClaim, gibbs_claim, leader_claim
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.regret_bounds import RegretBound, gibbs_regret, leader_regret
from dpoco.privacy.mechanisms import coupled_draws as kinds
from dpoco.privacy.neighbours import CHANGES

COUPLINGS = ("density_ratio", "dartboard", "anchored", "scheduled", "maximal")
# b = eta beta_s beyond which the conditions warn.
_LARGE_CURVATURE = 0.1
LEADER_COUPLINGS = ("density_ratio", "scheduled", "maximal")

_AGREED = ("dimension", "lipschitz", "radius", "diameter", "unbounded")
# Chains that are always used; "mcmc" is one that is used where exact draws would be slow.
CHAINS = ("hit_and_run", "langevin", "proximal")
NO_SAMPLER = "no exact sampler on a polytope, or on an l_p ball with p other than 2"

Keep = kinds.Always | kinds.Window | kinds.Dartboard | kinds.Anchored | kinds.Maximal


@dataclass(frozen=True, kw_only=True)
class _Shared(Parameters):
    """What both learners' parameters have."""

    # What domain and loss have, too, under the same names.
    agreed: ClassVar[tuple[str, ...]] = _AGREED

    horizon: int
    dimension: int
    lipschitz: float
    radius: float
    diameter: float
    coupling: str = one_of(*COUPLINGS)
    block: int
    forced_switch: float = at_least(0.0, 1.0)
    clip_high: float = at_least(0.0, default=0.0)
    clip_low: float = at_least(0.0, default=0.0)
    max_switches: int | None = at_least(0, LARGEST_HORIZON, default=None)
    relation: str = one_of(*CHANGES)
    calibration: str = one_of("tight", "corrected", "paper", default="tight")
    unbounded: bool
    private: bool = False
    regret_bound: float = at_least(0.0, default=0.0)
    regret_terms: dict[str, float] = field(default_factory=dict)
    expected_switches: float = at_least(0.0, default=0.0)

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if self.block > self.horizon:
            raise ValueError(f"block must be at most the horizon {self.horizon}; got {self.block}")
        if self.coupling == "scheduled" and self.forced_switch != 1.0:
            raise ValueError("coupling 'scheduled' has forced_switch 1")
        open_ended = self.forced_switch == 0.0 or self.max_switches is None
        if self.private and (open_ended or self.coupling == "maximal"):
            raise ValueError(
                "not private: forced_switch 0 (a stay would reveal the loss), max_switches None "
                "(every switch spends budget), coupling 'maximal'"
            )

    def check(self, problem: EuclideanProblem) -> None:
        """Raise `ValueError` unless the parameters were made for this domain and loss."""
        for name in self.agreed:
            given, needed = getattr(self, name), getattr(problem, name)
            if not math.isclose(given, needed, rel_tol=1e-9):
                raise ValueError(
                    f"parameters have {name} {given!r}, but domain and loss give {needed!r}"
                )
        if self.private:
            require_global_bounds(problem)
        if self.coupling == "maximal" and self.block != 1:
            raise ValueError("coupling 'maximal' has block 1")

    @property
    def noise_dominates(self) -> bool:
        """Whether one decision for all rounds is proved to be no worse than learning."""
        return self.private and self.horizon > 1 and self.max_switches == 0

    @property
    def constants(self) -> dict[str, Any]:
        """What every regret bound takes."""
        names = ("horizon", "dimension", "lipschitz", "radius", "diameter", "block", "unbounded")
        return {name: getattr(self, name) for name in names}

    @property
    def decisions(self) -> int:
        """Stay-or-switch decisions over the horizon: ceil(horizon / block) - 1."""
        return -(-self.horizon // self.block) - 1

    @property
    def log_stay(self) -> float:
        """Minus the log of the smallest product of a block's acceptance factors."""
        return self.block * (self.clip_high + self.clip_low)

    @property
    def mean_switches(self) -> float | None:
        """A bound on the expected switches where these are independent, else None."""
        return None

    @property
    def keep(self) -> Keep:
        """How a decision outlives a block."""
        if self.coupling == "density_ratio":
            return kinds.Window(self.forced_switch, self.clip_high, self.clip_low)
        return kinds.Maximal(self.forced_switch) if self.coupling == "maximal" else kinds.Always()


@dataclass(frozen=True, kw_only=True)
class ContinuousMultiplicativeWeightsParameters(_Shared):
    """Parameters of continuous multiplicative weights (P-COMW).

    Attributes
    ----------
    horizon, dimension : int
        Rounds T, and n of the set of decisions.
    lipschitz, radius, diameter : float
        G (loss/length), R and D (length).
    coupling : {"density_ratio", "dartboard", "anchored", "scheduled", "maximal"}
        How a decision may outlive a round; "maximal" only without privacy.
    block : int
        Rounds m per stay-or-switch decision.
    forced_switch : float
        p, probability that a decision switches whatever the losses; 1 for "scheduled".
    clip_high, clip_low : float
        Window of the log acceptance factor: it is lowered by `clip_high` and kept in
        [-clip_high - clip_low, 0]. "anchored": both are the largest scale a_max. Else 0.
    max_switches : int or None
        Switches after which the decision is frozen; None only without privacy.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    calibration : {"tight", "corrected", "paper"}
        How the parameters were found.
    unbounded : bool
        Whether decisions range over R^d, the domain being the comparator class.
    private : bool
        Whether a privacy budget was asked for.
    regret_bound, regret_terms, expected_switches
        Bound on the expected regret over the horizon (loss), oblivious streams, its terms, and a
        bound on the expected number of switches. Derived.
    inverse_temperature, regularization : float
        beta (1/loss) and lam (loss/length^2).
    factor_range : float
        "dartboard": public range of l - min l (loss); else 0.
    anchors : int
        "anchored": K; else 0.
    sampler : {"exact", "mcmc", "hit_and_run", "langevin", "proximal"}
        "mcmc" whenever a Markov chain may be used for some draw; a chain's name if it always is.
    sampler_tolerance : float
        Total variation assumed, or for "proximal" proved, of one draw; 0 for "exact".
    """

    kind: ClassVar[str] = "dpoco.continuous_multiplicative_weights_parameters"
    released: ClassVar[str] = (
        "decisions drawn from Gibbs laws of the losses so far, and all stay-or-switch bits"
    )
    reference: ClassVar[str] = (
        "Agarwal et al., P-COMW, corrected; docs/privacy/couplings.md, "
        "docs/privacy/gibbs_draws.md, docs/privacy/oco_regret.md"
    )

    inverse_temperature: float
    regularization: float
    factor_range: float = at_least(0.0, default=0.0)
    anchors: int = at_least(0, default=0)
    sampler: str = one_of("exact", "mcmc", *CHAINS, default="exact")
    sampler_tolerance: float = at_least(0.0, default=0.0)

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        chained = self.sampler != "exact"
        if chained != (self.sampler_tolerance > 0.0) or self.sampler_tolerance >= 1.0:
            raise ValueError("sampler_tolerance is 0 for exact draws and in (0, 1) for chains")
        if (self.coupling == "dartboard") != (self.factor_range > 0.0):
            raise ValueError("factor_range is positive for coupling 'dartboard' and 0 otherwise")
        if self.coupling == "dartboard" and self.unbounded:
            raise ValueError("coupling 'dartboard' needs bounded decisions")
        if (self.coupling == "anchored") != (self.anchors > 0):
            raise ValueError("anchors is positive for coupling 'anchored' and 0 otherwise")

    def check(self, problem: EuclideanProblem) -> None:
        """Raise `ValueError` also if the coupling does not fit domain and loss."""
        super().check(problem)
        known = problem.exact_normalizer if self.private else normalized(problem)
        if self.coupling in ("density_ratio", "maximal") and not known:
            raise ValueError(
                f"coupling {self.coupling!r} needs the normalising constant, known for linear "
                "losses on a ball, a box or R^d"
            )
        anchored = not self.unbounded and self.clip_high == self.clip_low > 0.0
        if self.coupling == "anchored" and not anchored:
            raise ValueError("coupling 'anchored' needs bounded decisions, and one positive width")
        least = problem.factor_range * (1.0 - 1e-9)
        if self.coupling == "dartboard" and self.factor_range < least:
            raise ValueError(f"factor_range must be at least {problem.factor_range!r}")
        if self.sampler == "exact" and not problem.linear_sampler:
            raise ValueError(NO_SAMPLER)
        if self.sampler == "proximal" and self.unbounded:
            raise ValueError("sampler 'proximal' needs bounded decisions")

    @property
    def ratios(self) -> tuple[float, float, int]:
        """(g, 0, 0): signal to noise g = G sqrt(beta/lam)."""
        return self.lipschitz * math.sqrt(self.inverse_temperature / self.regularization), 0.0, 0

    @property
    def noise_scale(self) -> float:
        """Scale sqrt(lam/beta), which plays sigma's part (loss/length)."""
        return self.lipschitz / self.ratios[0]

    @property
    def spread(self) -> float:
        """A bound on any draw's root mean square distance from the centre, over R^n."""
        return self.lipschitz * self.horizon / self.regularization + self.still_spread

    @property
    def still_spread(self) -> float:
        """The same of a draw without data."""
        return math.sqrt(self.dimension / (self.inverse_temperature * self.regularization))

    @property
    def log_stay(self) -> float:
        """Minus the log of the smallest product of a block's acceptance factors."""
        if self.coupling == "dartboard":
            return self.block * self.inverse_temperature * self.factor_range
        return super().log_stay

    @property
    def keep(self) -> Keep:
        """How a decision outlives a block."""
        if self.coupling == "dartboard":
            return kinds.Dartboard(self.forced_switch, self.factor_range)
        if self.coupling == "anchored":
            return kinds.Anchored(self.forced_switch, self.clip_high)
        return super().keep

    @property
    def mean_switches(self) -> float | None:
        """A bound on the expected switches of "dartboard", which are independent."""
        if self.coupling != "dartboard":
            return None
        worst = self.lipschitz * self.radius * self.horizon + self.regret().total
        return self.forced_switch * self.decisions + self.inverse_temperature * worst

    def regret(self, clip: float = 0.0, cap: float = 0.0) -> RegretBound:
        """Return the bound to which clipped factors and a cap on the switches add so much."""
        beta, lam = self.inverse_temperature, self.regularization
        return gibbs_regret(
            **self.constants, inverse_temperature=beta, regularization=lam, clip=clip, cap=cap
        )

    def claim(self, delta: float, corrected: bool) -> PublishedClaim:
        """Return what the published privacy theorem says, repaired or as printed."""
        return gibbs_claim(self.horizon, self.ratios[0], delta, corrected)

    def draw(self, problem: EuclideanProblem) -> kinds.GibbsDraw:
        """Return the law of a fresh decision."""
        body = math.inf if self.unbounded else problem.half_width
        return kinds.GibbsDraw(
            self.inverse_temperature, self.regularization, body, self.sampler_tolerance
        )

    def conditions(self, problem: EuclideanProblem) -> list[str]:
        """Return what a guarantee says of draws and regret."""
        said = ["Draws are exact (rejection samplers), and their running time depends on the data."]
        if self.sampler == "proximal":
            said = [
                f"Each draw is within total variation {self.sampler_tolerance:.2g} of its law. "
                "This is proved for losses within their bounds, and charged to delta."
            ]
        elif self.sampler != "exact":
            said = ["How far draws are from their law cannot be verified, and is charged to delta."]
        if self.coupling == "anchored":
            said.append(
                "The regret bound of coupling 'anchored' rests on a union bound over the rounds; "
                "its privacy does not."
            )
        if problem.unbounded and problem.family == "quadratic":
            said.append("The regret bound assumes decisions where the losses are G-Lipschitz.")
        return said

    def details(self, moved: float) -> dict[str, Any]:
        """Return what a guarantee says of draws; `moved` is how far neighbours' are apart."""
        names = ("inverse_temperature", "regularization", "sampler", "sampler_tolerance")
        return {"draw_mu": moved, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, kw_only=True)
class CoupledRegularizedLeaderParameters(_Shared):
    """Parameters of the coupled regularized leader (CTRL).

    Attributes
    ----------
    horizon, dimension, lipschitz, radius, diameter, coupling, block, forced_switch, clip_high, \
clip_low, max_switches, relation, calibration, unbounded, private, regret_bound, regret_terms, \
expected_switches
        As in `ContinuousMultiplicativeWeightsParameters`; couplings "density_ratio", "scheduled"
        and "maximal". With `noise_growth` and "density_ratio" the window of round t is the engine's
        own; clip_high and clip_low are then 0.
    smoothness : float
        beta_s, bound on the Hessians (loss/length^2).
    rank : int
        r, rank of one loss's Hessian.
    step_size : float
        eta (length^2/loss); infinite when strong convexity regularises instead.
    noise_scale : float
        sigma, standard deviation per coordinate of the linear perturbation (loss/length).
    noise_growth : bool
        Whether the variance before round t is sigma^2 (t - 1).
    strong_convexity : float
        Smallest eigenvalue of any loss's Hessian that the bound uses; 0 if none.
    barrier_weight : float
        Weight of the barrier (loss); 0 for none.
    """

    kind: ClassVar[str] = "dpoco.coupled_regularized_leader_parameters"
    released: ClassVar[str] = (
        "minimisers of the randomly tilted sum of the losses so far, and all stay-or-switch bits"
    )
    reference: ClassVar[str] = (
        "Agarwal et al., CTRL, corrected; docs/privacy/couplings.md, "
        "docs/privacy/objective_perturbation.md, docs/privacy/oco_regret.md"
    )

    agreed: ClassVar[tuple[str, ...]] = (*_AGREED, "smoothness", "rank")

    coupling: str = one_of(*LEADER_COUPLINGS)
    smoothness: float = at_least(0.0)
    rank: int = at_least(0)
    step_size: float = field(metadata={"infinite": True})
    noise_scale: float
    noise_growth: bool = False
    strong_convexity: float = at_least(0.0, default=0.0)
    barrier_weight: float = at_least(0.0, default=0.0)

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if self.rank > self.dimension or (self.rank == 0) != (self.smoothness == 0.0):
            raise ValueError("rank must be in [0, dimension], and 0 exactly if smoothness is 0")
        if self.noise_growth != (self.step_size == math.inf):
            raise ValueError("step_size is infinite exactly with noise_growth")
        if self.noise_growth and (self.strong_convexity == 0.0 or self.private):
            raise ValueError("noise_growth needs strong_convexity and no privacy")

    def check(self, problem: EuclideanProblem) -> None:
        """Raise `ValueError` also for curvature and barrier of another domain or loss."""
        super().check(problem)
        if self.strong_convexity > problem.strong_convexity:
            raise ValueError("strong_convexity exceeds what the loss declares")
        if self.noise_growth and problem.unbounded:
            raise ValueError("growing noise needs bounded decisions")
        weight = problem.barrier_weight(self.horizon)
        if not math.isclose(self.barrier_weight, weight, rel_tol=1e-9):
            raise ValueError(f"barrier_weight must be {weight!r}; got {self.barrier_weight!r}")

    @property
    def ratios(self) -> tuple[float, float, int]:
        """(g, b, r): g = G/sigma, b = eta beta_s (0 with growing noise), rank of one's Hessian."""
        curved = self.smoothness > 0.0 and not self.noise_growth
        b = self.step_size * self.smoothness if curved else 0.0
        return self.lipschitz / self.noise_scale, b, self.rank

    @property
    def spread(self) -> float:
        """A bound on any draw's root mean square distance from the centre, over R^n."""
        noise = self.noise_scale * math.sqrt(self.dimension)
        return self.step_size * (self.lipschitz * self.horizon + noise)

    @property
    def still_spread(self) -> float:
        """The same of a draw without data."""
        return self.step_size * self.noise_scale * math.sqrt(self.dimension)

    def regret(self, clip: float = 0.0, cap: float = 0.0) -> RegretBound:
        """Return the bound to which clipped factors and a cap on the switches add so much."""
        return leader_regret(
            **self.constants,
            step_size=self.step_size,
            noise_scale=self.noise_scale,
            barrier=self.barrier_weight > 0.0,
            clip=clip,
            cap=cap,
        )

    def claim(self, delta: float, corrected: bool) -> PublishedClaim:
        """Return what the published privacy theorem says, repaired or as printed."""
        g, b, rank = self.ratios
        # The repaired proof exchanges three losses: the lemma for rank 1 is about one.
        size = 1 if rank <= 1 and not corrected else self.dimension
        return leader_claim(self.horizon, g, b, size, delta, corrected)

    def draw(self, problem: EuclideanProblem) -> kinds.TiltedMinimum:
        """Return the law of a fresh decision."""
        return kinds.TiltedMinimum(self.noise_scale, self.step_size)

    def conditions(self, problem: EuclideanProblem) -> list[str]:
        """Return what a guarantee says of draws and regret."""
        said, b = [], self.ratios[1]
        if problem.family != "linear":
            said.append(
                "Each minimiser is exact up to a residual of 1e-9 noise scales, or to what "
                "rounding of the decision leaves close to the boundary, which no theorem covers."
            )
        if self.private and b > _LARGE_CURVATURE:
            said.append(f"Step size times smoothness is {b:.2g}: few Renyi orders are left.")
        if self.strong_convexity > 0.0:
            said.append(
                "ASSUMED: every loss is strongly convex with the declared modulus, unverified."
            )
        return said

    def details(self, moved: float) -> dict[str, Any]:
        """Return what a guarantee says of draws; `moved` is how far neighbours' are apart."""
        names = ("step_size", "noise_scale", "rank", "barrier_weight", "smoothness")
        b = math.inf if self.noise_growth else self.ratios[1]
        fields = {name: getattr(self, name) for name in names}
        return {"draw_sensitivity_ratio": moved, "step_times_smoothness": b, **fields}


CoupledParameters = ContinuousMultiplicativeWeightsParameters | CoupledRegularizedLeaderParameters


def normalized(problem: EuclideanProblem) -> bool:
    """Whether the engine knows ln Z: beyond what is proved private, for quadratics over R^d."""
    return problem.exact_normalizer or (problem.unbounded and problem.family == "quadratic")


def require_global_bounds(problem: EuclideanProblem) -> None:
    """Raise for private learning over R^d with losses whose bounds hold on the domain only."""
    if problem.unbounded and problem.family in ("quadratic", "custom"):
        raise ValueError(
            f"{problem.family} losses are not known to be Lipschitz on R^d: unbounded=True is not "
            "private"
        )


def mechanism(p: CoupledParameters, problem: EuclideanProblem) -> kinds.CoupledDraws:
    """Return what the engine of the parameters enforces and draws."""
    draw, smoothness, rank = p.draw(problem), problem.smoothness, problem.rank
    if isinstance(draw, kinds.GibbsDraw) and problem.family == "custom":
        # Draws need no smoothness, and nobody has to declare one that holds.
        smoothness, rank = math.inf, problem.dimension
    losses = kinds.SmoothLosses(
        problem.dimension,
        problem.lipschitz,
        smoothness,
        rank if smoothness > 0.0 else 0,
        # Over R^d the slope of a quadratic grows.
        enforced=problem.enforced and not (problem.unbounded and problem.family == "quadratic"),
    )
    return kinds.CoupledDraws(losses, draw, p.keep, p.horizon, p.block, p.max_switches)
