"""Euclidean constants, and ratios, regret and texts computed from plans of coupled learners.

Proofs of the ratios, spreads and regret: ``docs/privacy/oco_regret.md``.

The proofs of P-COMW and CTRL are in l2: losses are G-Lipschitz and beta_s-smooth in l2, one loss's
Hessian has rank at most r, and decisions lie within R of a centre. The library states its bounds in
the domain's own norm; this module converts them. With q the dual exponent, ||v||_2 <= d^max(0, 1/2
- 1/q) ||v||_q and ||v||_p <= d^max(0, 1/2 - 1/q) ||v||_2. Hence, with e = max(0, 1/2 - 1/q), a loss
that is L-Lipschitz (gradient in l_q) is L d^e-Lipschitz in l2, and one that is beta-smooth from l_p
to l_q is beta d^(2e)-smooth in l2.

A simplex is parametrised by an orthonormal basis of its hyperplane. This gives n = d - 1
coordinates, preserves lengths, and does not lengthen gradients.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from dpoco._validation import LARGEST_SCALE, Fields, positive_int
from dpoco.accounting.claims import PublishedClaim, gibbs_claim, leader_claim
from dpoco.accounting.leaf_bounds import record_length
from dpoco.accounting.plan import Plan
from dpoco.accounting.regret_bounds import LazyProblem, RegretBound, gibbs_regret, leader_regret
from dpoco.domains import Box, Domain, LpBall, Polytope, Simplex
from dpoco.losses import CustomLoss, LinearLoss, Loss, MarginLoss, QuadraticLoss, check_undamped
from dpoco.privacy.mechanisms.coupled_draws import (
    Anchored,
    CoupledDraws,
    Dartboard,
    GibbsDraw,
    Maximal,
    SmoothLosses,
    TiltedMinimum,
    Window,
)
from dpoco.privacy.records import Description, limits

__all__ = ["CoupledPlan", "CoupledRun", "EuclideanProblem", "GibbsRun", "TiltedRun",
           "euclidean_problem", "open_gibbs", "open_plan", "open_tilted"]  # fmt: skip

# If a derivative bound still grows between these margins, we consider it unbounded over the reals.
_FAR, _FARTHER = 1e50, LARGEST_SCALE


@dataclass(frozen=True, slots=True)
class EuclideanProblem:
    """Constants that the regret and privacy proofs use.

    Attributes
    ----------
    dimension : int
        Dimension n of the set of decisions: d, or d - 1 for a simplex.
    lipschitz : float
        G, l2 Lipschitz constant of every loss (loss per length).
    smoothness : float
        beta_s, largest eigenvalue of any loss's Hessian (loss per squared length).
    rank : int
        r, rank of one loss's Hessian: 0 linear, 1 generalised linear, else n.
    strong_convexity : float
        Smallest eigenvalue of any loss's Hessian; 0 unless declared.
    radius, diameter : float
        R and D (length) of the domain, which is only the comparator class if `unbounded`.
    unbounded : bool
        Whether decisions range over all of R^n.
    family : {"linear", "glm", "quadratic", "custom"}
        Structure of the losses.
    shape : {"ball", "box", "simplex", "lp_ball", "polytope"}
        Structure of the domain. "ball" is Euclidean; "box" includes the ball of l_inf.
    exponent : float
        p of an "lp_ball"; the domain's own exponent otherwise.
    constraints : int
        Number of inequalities of a "polytope"; 0 otherwise.
    half_width : float
        Half the side of a cube around the centre inside a "ball" or "box" (length); 0 otherwise.
    """

    dimension: int
    lipschitz: float
    smoothness: float
    rank: int
    strong_convexity: float
    radius: float
    diameter: float
    unbounded: bool
    family: str
    shape: str
    exponent: float
    constraints: int = 0
    half_width: float = 0.0

    @property
    def enforced(self) -> bool:
        """Whether the learner enforces G and beta_s by clipping, or the user declares them."""
        return self.family != "custom"

    @property
    def exact_normalizer(self) -> bool:
        """Whether ln Z of successive Gibbs laws has a closed form."""
        return self.family == "linear" and (self.unbounded or self.shape in ("ball", "box"))

    @property
    def linear_sampler(self) -> bool:
        """Whether Gibbs laws of linear losses can be drawn exactly on the domain."""
        return self.unbounded or self.shape in ("ball", "box", "simplex")

    @property
    def factor_range(self) -> float:
        """Public bound on l - min l: G D, or 2 G R if the minimum is only bounded roughly."""
        if self.family in ("linear", "glm"):
            return self.lipschitz * self.diameter
        return 2.0 * self.lipschitz * self.radius

    def lazy(self, horizon: int, block: int) -> LazyProblem:
        """Return the problem's constants for regret bounds, for `horizon` rounds in blocks."""
        return LazyProblem(
            horizon=horizon, dimension=self.dimension, lipschitz=self.lipschitz,
            radius=self.radius, diameter=self.diameter, block=block, unbounded=self.unbounded,
        )  # fmt: skip

    def barrier_weight(self, horizon: int) -> float:
        """Return the weight (loss) for which the barrier is at most G D on the shrunk domain.

        It is 0 if no barrier is used: for linear losses, and for decisions in R^d.

        Parameters
        ----------
        horizon : int
            T; the domain is shrunk by the factor 1 - 1/T. Below three rounds, T = 3 is used.

        Raises
        ------
        ValueError
            For an l_p ball with p < 2.
        """
        # The minimiser of a linear sum is a projection, so no barrier is needed to keep it inside.
        if self.unbounded or self.family == "linear":
            return 0.0
        # For one round, the shrunk domain would be a point and the weight infinite.
        t = float(max(positive_int("horizon", horizon), 3))
        # Each supremum is that of the barrier on the domain shrunk by the factor 1 - 1 / t.
        if self.shape == "lp_ball":
            if self.exponent < 2.0:
                raise ValueError(
                    "an l_p ball with p < 2 has no smooth barrier: use p >= 2, a Box or a Simplex"
                )
            supremum = -math.log(-math.expm1(self.exponent * math.log1p(-1.0 / t)))
        else:
            once = math.log(t * t / (2.0 * t - 1.0))
            supremum = {
                "ball": once,
                "box": self.dimension * once,
                "simplex": (self.dimension + 1) * math.log(t),
                "polytope": self.constraints * math.log(t),
            }[self.shape]
        return self.lipschitz * self.diameter / supremum


def euclidean_problem(domain: Domain, loss: Loss, unbounded: bool = False) -> EuclideanProblem:
    """Return the l2 constants of `domain` and `loss`.

    Parameters
    ----------
    domain, loss
        A domain and a loss of this library.
    unbounded : bool
        Whether decisions range over R^d, so that the domain is only the comparator class.

    Returns
    -------
    EuclideanProblem
        In units of loss and of length of the domain.

    Raises
    ------
    TypeError
        If the loss is of an unknown family, or if `unbounded` is not a bool.
    ValueError
        If the domain has empty interior, or a bound is infinite over all reals (squared loss).
    """
    if not isinstance(unbounded, bool):
        raise TypeError(f"unbounded must be a bool; got {type(unbounded).__name__}")
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
    shape = _shape(domain)
    # We treat the simplex as a set in its hyperplane, but R^d has one more coordinate.
    if unbounded and shape == "simplex":
        raise ValueError("unbounded decisions need a full-dimensional domain, not a Simplex")
    n = domain.intrinsic_dimension
    family, lipschitz, smoothness, rank = _bounds(domain, loss, unbounded, n)
    return EuclideanProblem(
        dimension=n,
        lipschitz=lipschitz,
        smoothness=smoothness,
        rank=rank,
        strong_convexity=loss.strong_convexity if isinstance(loss, QuadraticLoss) else 0.0,
        radius=float(domain.radius_from_center()),
        diameter=float(domain.diameter(2.0)),
        unbounded=unbounded,
        family=family,
        shape=shape,
        exponent=float(domain.p),
        constraints=domain.constraints if isinstance(domain, Polytope) else 0,
        half_width=_half_width(domain, shape),
    )


def _half_width(domain: Domain, shape: str) -> float:
    """Return half the side of a cube around the centre inside a ball or box; 0 elsewhere."""
    if isinstance(domain, Box):
        return 0.5 * float((domain.upper - domain.lower).min())
    if not isinstance(domain, LpBall) or shape == "lp_ball":
        return 0.0
    width = float(domain.radius)
    # This is half the side of the largest cube inside a Euclidean ball.
    return width / math.sqrt(domain.dimension) if shape == "ball" else width


def _shape(domain: Domain) -> str:
    """Return the structure of a domain, as `EuclideanProblem` names it, or raise."""
    if isinstance(domain, Simplex):
        if domain.dimension < 2:
            raise ValueError("a Simplex of dimension 1 is a single point: nothing to learn")
        return "simplex"
    if isinstance(domain, Box):
        if not (domain.lower < domain.upper).all():
            raise ValueError("the box must have a non-empty interior: lower < upper everywhere")
        return "box"
    if isinstance(domain, LpBall):
        # An interval is a ball of every norm. As a box, it has all couplings and samplers.
        if domain.p == math.inf or domain.dimension == 1:
            return "box"
        return "ball" if domain.p == 2.0 else "lp_ball"
    if isinstance(domain, Polytope):
        return "polytope"
    raise TypeError(
        f"domain must be an LpBall, Box, Simplex or Polytope; got {type(domain).__name__}"
    )


def _bounds(domain: Domain, loss: Loss, unbounded: bool, n: int) -> tuple[str, float, float, int]:
    """Return the family of a loss, its G and beta_s in l2, and the rank of one Hessian."""
    # Declared bounds are in the dual norm, and ||v||_2 <= d^(1/2 - 1/q) ||v||_q for q > 2. In the
    # smoothness, distances of decisions give the same factor again.
    stretch = math.pow(domain.dimension, max(0.0, 0.5 - 1.0 / domain.dual_exponent))
    if isinstance(loss, LinearLoss):
        return "linear", record_length(domain, loss), 0.0, 0
    if isinstance(loss, MarginLoss):
        check_undamped(loss)
        length = record_length(domain, loss)
        margin = _FARTHER if unbounded else loss.margin_bound(domain)
        slope, curvature = loss.derivative_bound(margin), loss.curvature_bound(margin)
        if unbounded and slope > loss.derivative_bound(_FAR):
            raise ValueError(
                f"{type(loss).__name__} has unbounded slope over R^d: unbounded=True needs a "
                "globally Lipschitz loss (linear, logistic, Huber)"
            )
        return "glm", slope * length, curvature * length**2, 1
    if isinstance(loss, CustomLoss):
        lipschitz, smoothness = loss.lipschitz_bound, loss.smoothness_bound
        # The Hessian of a caller's loss is unknown, so it may have full rank.
        return "custom", lipschitz * stretch, smoothness * stretch**2, n if smoothness else 0
    if isinstance(loss, QuadraticLoss):
        return "quadratic", loss.lipschitz_bound, loss.smoothness_bound, n
    raise TypeError(f"loss must be a dpoco loss; got {type(loss).__name__}")


COUPLINGS = ("density_ratio", "dartboard", "anchored", "scheduled", "maximal")
LEADER_COUPLINGS = ("density_ratio", "scheduled", "maximal")
# The conditions warn if b = eta beta_s is larger than this.
_LARGE_CURVATURE = 0.1
_OTHER_PLAN = "plan must be a plan for coupled decisions"
# Chains that are used for all draws. "mcmc" is a chain that is used if exact draws would be slow.
CHAINS = ("hit_and_run", "langevin", "proximal")
NO_SAMPLER = "no exact sampler on a polytope, or on an l_p ball with p other than 2"


@dataclass(frozen=True)
class GibbsTuning(Description):
    """How the draws of continuous multiplicative weights (P-COMW) are made.

    Attributes
    ----------
    anchors : int
        K, released points that the coupling "anchored" averages over; else 0.
    sampler : {"exact", "mcmc", "hit_and_run", "langevin", "proximal"}
        "mcmc" if a Markov chain may be used for some draw; the name of a chain if it is always
        used.
    """

    kind = "gibbs_tuning"
    anchors: int = limits(zero=True)
    sampler: str = limits()

    def __post_init__(self) -> None:
        """Raise for other samplers."""
        super().__post_init__()
        self.check_choice("sampler", ("exact", "mcmc", *CHAINS))


@dataclass(frozen=True)
class TiltedTuning(Description):
    """Terms that the coupled regularized leader (CTRL) minimises besides the tilted losses.

    Attributes
    ----------
    barrier_weight : float
        Weight of the barrier (loss); 0 means no barrier.
    strong_convexity : float
        Smallest eigenvalue of any loss's Hessian, as used in the bound; 0 if none.
    unbounded : bool
        Whether decisions range over R^d, so that the domain is only the comparator class.
    """

    kind = "tilted_tuning"
    barrier_weight: float = limits(zero=True)
    strong_convexity: float = limits(zero=True)
    unbounded: bool = limits()


@dataclass(frozen=True)
class CoupledForecast(Description):
    """Forecast of coupled decisions.

    Attributes
    ----------
    noise_dominates : bool
        Whether playing one decision in all rounds is proved to be no worse than learning.
    regret_bound, expected_switches : float
        Bounds on the expected regret over the horizon (loss), for streams fixed in advance, and on
        the expected number of switches.
    """

    kind = "coupled_forecast"
    noise_dominates: bool
    regret_bound: float = limits(zero=True)
    expected_switches: float = limits(zero=True)


CoupledPlan = Plan[CoupledDraws, Any, CoupledForecast]
GibbsPlan = Plan[CoupledDraws, GibbsTuning, CoupledForecast]
TiltedPlan = Plan[CoupledDraws, TiltedTuning, CoupledForecast]


def has_normalizer(problem: EuclideanProblem) -> bool:
    """Return whether the engine knows ln Z. It does for quadratics over R^d, without a proof."""
    return problem.exact_normalizer or (problem.unbounded and problem.family == "quadratic")


def require_global_bounds(problem: EuclideanProblem) -> None:
    """Raise for private learning over R^d if the losses' bounds hold on the domain only."""
    if problem.unbounded and problem.family in ("quadratic", "custom"):
        raise ValueError(
            f"{problem.family} losses are not known to be Lipschitz on R^d: unbounded=True is not "
            "private"
        )


@dataclass(frozen=True)
class CoupledRun(ABC):
    """Coupled decisions on a problem.

    Attributes
    ----------
    problem : EuclideanProblem
        Constants of domain and loss.
    mechanism : CoupledDraws
        The mechanism that the engine enforces and draws.
    tuning : GibbsTuning or TiltedTuning
        Other parameters of the engine.
    released, reference : str
        Class attributes: description of the releases, and the pages of the proof.
    """

    problem: EuclideanProblem
    mechanism: CoupledDraws
    tuning: Any

    released: ClassVar[str]
    reference: ClassVar[str]

    @classmethod
    def bound_losses(cls, problem: EuclideanProblem) -> SmoothLosses:
        """Return the bounds on losses that a learner with this problem enforces."""
        return SmoothLosses(
            problem.dimension,
            problem.lipschitz,
            problem.smoothness,
            problem.rank if problem.smoothness > 0.0 else 0,
            # Over R^d, the slope of a quadratic is unbounded.
            enforced=problem.enforced and not (problem.unbounded and problem.family == "quadratic"),
        )

    def check(self) -> None:
        """Raise `ValueError` unless mechanism and tuning belong to a learner of the problem."""
        stated, needed = self.mechanism.losses, self.bound_losses(self.problem)
        for name in ("dimension", "lipschitz", "smoothness", "rank", "enforced"):
            own, due = getattr(stated, name), getattr(needed, name)
            # Plans come from files. On another machine, the last digits of powers may differ.
            if not math.isclose(own, due, rel_tol=1e-9):
                raise ValueError(f"the plan has {name} {own!r}, but domain and loss give {due!r}")
        if self.private:
            require_global_bounds(self.problem)
        if isinstance(self.mechanism.keep, Maximal) and self.mechanism.block != 1:
            raise ValueError("coupling 'maximal' has block 1")

    @property
    def private(self) -> bool:
        """Whether a cap bounds the switches, which spend budget, and stays reveal no losses."""
        m = self.mechanism
        return m.cap is not None and m.keep.forced > 0.0 and not isinstance(m.keep, Maximal)

    @property
    def lazy(self) -> LazyProblem:
        """Arguments of all regret bounds."""
        return self.problem.lazy(self.mechanism.rounds, self.mechanism.block)

    @property
    def log_stay(self) -> float:
        """Minus the log of the smallest product of the acceptance factors of a block."""
        m = self.mechanism
        # "maximal" has no window; its switching probability is a total variation, see `hazard`.
        if isinstance(m.keep, Dartboard) and isinstance(m.draw, GibbsDraw):
            return m.block * m.draw.inverse_temperature * m.keep.span
        return 0.0 if isinstance(m.keep, Maximal) else m.block * m.keep.log_floor(m.draw)

    @property
    def mean_switches(self) -> float | None:
        """Bound on the expected switches of "dartboard", which are independent; otherwise None."""
        q, m = self.problem, self.mechanism
        if not isinstance(m.keep, Dartboard) or not isinstance(m.draw, GibbsDraw):
            return None
        # docs/privacy/oco_regret.md, "Switches and the cap": hazards telescope, and by Jensen's
        # inequality their sum is at most beta times the excess of the losses above their minima.
        worst = q.lipschitz * q.radius * m.rounds + self.regret().total
        return m.keep.forced * m.decisions + m.draw.inverse_temperature * worst

    @property
    @abstractmethod
    def ratios(self) -> tuple[float, float, int]:
        """(g, b, r): signal to noise, step size times smoothness, rank of one loss's Hessian."""

    @property
    @abstractmethod
    def mean_distance(self) -> float:
        """Bound on the root mean square distance of any draw from the centre, over R^n."""

    @property
    @abstractmethod
    def still_distance(self) -> float:
        """The same bound for a draw without data."""

    @abstractmethod
    def regret(self, clip: float = 0.0, cap: float = 0.0) -> RegretBound:
        """Return the regret bound, including costs of clipped factors and of a cap on switches."""

    @abstractmethod
    def claim(self, delta: float, corrected: bool) -> PublishedClaim:
        """Return the claim of the published privacy theorem, repaired or as printed."""

    @abstractmethod
    def draw_conditions(self) -> list[str]:
        """Return the conditions of a guarantee on draws and regret."""

    @abstractmethod
    def draw_details(self, moved: float) -> Fields:
        """Return a guarantee's details on draws; `moved` is the distance between neighbours."""


@dataclass(frozen=True)
class GibbsRun(CoupledRun):
    """Continuous multiplicative weights (P-COMW) on a problem: draws from Gibbs laws."""

    tuning: GibbsTuning

    released: ClassVar[str] = (
        "decisions drawn from Gibbs laws of the losses so far, and all stay-or-switch bits"
    )
    reference: ClassVar[str] = (
        "Agarwal et al., P-COMW, corrected; docs/privacy/couplings.md, "
        "docs/privacy/gibbs_draws.md, docs/privacy/oco_regret.md"
    )

    @classmethod
    def bound_losses(cls, problem: EuclideanProblem) -> SmoothLosses:
        """Return the bounds on losses that a learner with this problem enforces."""
        bounds = super().bound_losses(problem)
        if problem.family != "custom":
            return bounds
        # Draws need no smoothness, so the loss need not declare a valid one.
        lipschitz = bounds.lipschitz
        return SmoothLosses(problem.dimension, lipschitz, math.inf, problem.dimension, False)

    @property
    def draw(self) -> GibbsDraw:
        """Law of a fresh decision."""
        assert isinstance(self.mechanism.draw, GibbsDraw)
        return self.mechanism.draw

    def check(self) -> None:
        """Also raise `ValueError` if the coupling or the sampler does not fit domain and loss."""
        super().check()
        q, keep, tolerance = self.problem, self.mechanism.keep, self.draw.tolerance
        body = math.inf if q.unbounded else q.half_width
        if not math.isclose(self.draw.half_width, body, rel_tol=1e-9):
            raise ValueError(
                f"the plan has half_width {self.draw.half_width!r}, but the domain gives {body!r}"
            )
        known = q.exact_normalizer if self.private else has_normalizer(q)
        if isinstance(keep, Window | Maximal) and not known:
            raise ValueError(
                f"coupling {keep.kind!r} needs the normalising constant, known for linear "
                "losses on a ball, a box or R^d"
            )
        if isinstance(keep, Dartboard | Anchored) and q.unbounded:
            raise ValueError(f"coupling {keep.kind!r} needs bounded decisions")
        if isinstance(keep, Anchored) != (self.tuning.anchors > 0):
            raise ValueError("anchors is positive for coupling 'anchored' and 0 otherwise")
        # A shorter span would clamp the factors of admissible losses, which the regret bound does
        # not account for.
        if isinstance(keep, Dartboard) and keep.span < q.factor_range * (1.0 - 1e-9):
            raise ValueError(f"span of 'dartboard' must be at least {q.factor_range!r}")
        chained = self.tuning.sampler != "exact"
        if chained != (tolerance > 0.0) or tolerance >= 1.0:
            raise ValueError("tolerance is 0 for exact draws and in (0, 1) for chains")
        if not chained and not q.linear_sampler:
            raise ValueError(NO_SAMPLER)
        if self.tuning.sampler == "proximal" and q.unbounded:
            raise ValueError("sampler 'proximal' needs bounded decisions")

    @property
    def ratios(self) -> tuple[float, float, int]:
        """(g, 0, 0): signal to noise g = G sqrt(beta/lam)."""
        beta, lam = self.draw.inverse_temperature, self.draw.regularization
        return self.problem.lipschitz * math.sqrt(beta / lam), 0.0, 0

    @property
    def mean_distance(self) -> float:
        """Bound on the root mean square distance of any draw from the centre, over R^n."""
        pull = self.problem.lipschitz * self.mechanism.rounds / self.draw.regularization
        return pull + self.still_distance

    @property
    def still_distance(self) -> float:
        """The same bound for a draw without data."""
        beta, lam = self.draw.inverse_temperature, self.draw.regularization
        return math.sqrt(self.problem.dimension / (beta * lam))

    def regret(self, clip: float = 0.0, cap: float = 0.0) -> RegretBound:
        """Return the regret bound, including costs of clipped factors and of a cap on switches."""
        beta, lam = self.draw.inverse_temperature, self.draw.regularization
        return gibbs_regret(
            self.lazy, inverse_temperature=beta, regularization=lam, clip=clip, cap=cap
        )

    def claim(self, delta: float, corrected: bool) -> PublishedClaim:
        """Return the claim of the published privacy theorem, repaired or as printed."""
        return gibbs_claim(self.mechanism.rounds, self.ratios[0], delta, corrected)

    def draw_conditions(self) -> list[str]:
        """Return the conditions of a guarantee on draws and regret."""
        said = ["Draws are exact (rejection samplers), and their running time depends on the data."]
        if self.tuning.sampler == "proximal":
            said = [
                f"Each draw is within total variation {self.draw.tolerance:.2g} of its law. "
                "This is proved for losses within their bounds, and charged to delta."
            ]
        elif self.tuning.sampler != "exact":
            said = ["How far draws are from their law cannot be verified, and is charged to delta."]
        if isinstance(self.mechanism.keep, Anchored):
            said.append(
                "The regret bound of coupling 'anchored' rests on a union bound over the rounds; "
                "its privacy does not."
            )
        if self.problem.unbounded and self.problem.family == "quadratic":
            said.append("The regret bound assumes decisions where the losses are G-Lipschitz.")
        return said

    def draw_details(self, moved: float) -> Fields:
        """Return a guarantee's details on draws; `moved` is the distance between neighbours."""
        return {
            "draw_mu": moved,
            "inverse_temperature": self.draw.inverse_temperature,
            "regularization": self.draw.regularization,
            "sampler": self.tuning.sampler,
            "sampler_tolerance": self.draw.tolerance,
        }


@dataclass(frozen=True)
class TiltedRun(CoupledRun):
    """The coupled regularized leader (CTRL) on a problem: minimisers of tilted losses.

    If the noise grows (an infinite step), the variance before round t is sigma^2 (t - 1), and the
    engine computes the window of "density_ratio" for each round.
    """

    tuning: TiltedTuning

    released: ClassVar[str] = (
        "minimisers of the randomly tilted sum of the losses so far, and all stay-or-switch bits"
    )
    reference: ClassVar[str] = (
        "Agarwal et al., CTRL, corrected; docs/privacy/couplings.md, "
        "docs/privacy/objective_perturbation.md, docs/privacy/oco_regret.md"
    )

    @property
    def draw(self) -> TiltedMinimum:
        """Law of a fresh decision."""
        assert isinstance(self.mechanism.draw, TiltedMinimum)
        return self.mechanism.draw

    @property
    def grows(self) -> bool:
        """Whether the noise grows with the rounds."""
        return self.draw.step == math.inf

    def check(self) -> None:
        """Also raise `ValueError` for the curvature or barrier of another domain or loss."""
        super().check()
        q, own = self.problem, self.tuning
        # Curvature that the loss does not declare would make the bound on switches too small.
        if own.strong_convexity > q.strong_convexity:
            raise ValueError("strong_convexity exceeds what the loss declares")
        if self.grows and (own.strong_convexity == 0.0 or self.private or q.unbounded):
            raise ValueError(
                "an infinite step needs strong_convexity, bounded decisions and no privacy"
            )
        weight = q.barrier_weight(self.mechanism.rounds)
        if not math.isclose(own.barrier_weight, weight, rel_tol=1e-9):
            raise ValueError(f"barrier_weight must be {weight!r}; got {own.barrier_weight!r}")

    @property
    def ratios(self) -> tuple[float, float, int]:
        """(g, b, r): g = G/sigma, b = eta beta_s (0 with growing noise), rank of one Hessian."""
        q = self.problem
        b = 0.0 if self.grows or q.smoothness == 0.0 else self.draw.step * q.smoothness
        return q.lipschitz / self.draw.noise, b, q.rank

    @property
    def mean_distance(self) -> float:
        """Bound on the root mean square distance of any draw from the centre, over R^n."""
        noise = self.draw.noise * math.sqrt(self.problem.dimension)
        return self.draw.step * (self.problem.lipschitz * self.mechanism.rounds + noise)

    @property
    def still_distance(self) -> float:
        """The same bound for a draw without data."""
        return self.draw.step * self.draw.noise * math.sqrt(self.problem.dimension)

    def regret(self, clip: float = 0.0, cap: float = 0.0) -> RegretBound:
        """Return the regret bound, including costs of clipped factors and of a cap on switches."""
        return leader_regret(
            self.lazy,
            step_size=self.draw.step,
            noise_scale=self.draw.noise,
            barrier=self.tuning.barrier_weight > 0.0,
            clip=clip,
            cap=cap,
        )

    def claim(self, delta: float, corrected: bool) -> PublishedClaim:
        """Return the claim of the published privacy theorem, repaired or as printed."""
        g, b, rank = self.ratios
        # The repaired proof exchanges three losses, but the lemma for rank 1 is about one.
        size = 1 if rank <= 1 and not corrected else self.problem.dimension
        return leader_claim(self.mechanism.rounds, g, b, size, delta, corrected)

    def draw_conditions(self) -> list[str]:
        """Return the conditions of a guarantee on draws and regret."""
        said, b = [], self.ratios[1]
        if self.problem.family != "linear":
            said.append(
                "Each minimiser is exact up to a residual of 1e-9 noise scales, or to what "
                "rounding of the decision leaves close to the boundary, which no theorem covers."
            )
        if self.private and b > _LARGE_CURVATURE:
            said.append(f"Step size times smoothness is {b:.2g}: few Renyi orders are left.")
        if self.tuning.strong_convexity > 0.0:
            said.append(
                "ASSUMED: every loss is strongly convex with the declared modulus, unverified."
            )
        return said

    def draw_details(self, moved: float) -> Fields:
        """Return a guarantee's details on draws; `moved` is the distance between neighbours."""
        return {
            "draw_sensitivity_ratio": moved,
            "step_times_smoothness": math.inf if self.grows else self.ratios[1],
            "step_size": self.draw.step,
            "noise_scale": self.draw.noise,
            "rank": self.problem.rank,
            "barrier_weight": self.tuning.barrier_weight,
            "smoothness": self.problem.smoothness,
        }


def open_gibbs(domain: Domain, loss: Loss, plan: CoupledPlan) -> GibbsRun:
    """Return the run of a plan of P-COMW; for errors see `open_plan`."""
    draw, tuning = getattr(plan.mechanism, "draw", None), plan.tuning
    if not isinstance(draw, GibbsDraw) or not isinstance(tuning, GibbsTuning):
        raise TypeError(_OTHER_PLAN)
    problem = euclidean_problem(domain, loss, draw.half_width == math.inf)
    run = GibbsRun(problem, plan.mechanism, tuning)
    run.check()
    return run


def open_tilted(domain: Domain, loss: Loss, plan: CoupledPlan) -> TiltedRun:
    """Return the run of a plan of CTRL; for errors see `open_plan`."""
    draw, tuning = getattr(plan.mechanism, "draw", None), plan.tuning
    if not isinstance(draw, TiltedMinimum) or not isinstance(tuning, TiltedTuning):
        raise TypeError(_OTHER_PLAN)
    run = TiltedRun(euclidean_problem(domain, loss, tuning.unbounded), plan.mechanism, tuning)
    run.check()
    return run


def open_plan(domain: Domain, loss: Loss, plan: CoupledPlan) -> GibbsRun | TiltedRun:
    """Return the run of a plan on a domain and a loss.

    Raises
    ------
    TypeError
        If the plan belongs to another learner.
    ValueError
        If it contradicts the domain or the loss, or if its coupling does not fit them.
    """
    found = open_gibbs if isinstance(plan.tuning, GibbsTuning) else open_tilted
    return found(domain, loss, plan)
