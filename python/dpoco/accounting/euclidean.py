"""Euclidean constants of a domain and a loss, as the continuous learners need them.

The proofs of P-COMW and CTRL live in l2: losses are G-Lipschitz and beta_s-smooth in l2, one
loss's Hessian has rank at most r, and decisions lie within R of a centre. The library states its
bounds in the domain's own norm; this module converts them. With q the dual exponent,
||v||_2 <= d^max(0, 1/2 - 1/q) ||v||_q and ||v||_p <= d^max(0, 1/2 - 1/q) ||v||_2, hence a loss that
is L-Lipschitz (gradient in l_q) is L d^e-Lipschitz in l2 with e = max(0, 1/2 - 1/q), and one that
is beta-smooth from l_p to l_q is beta d^(2e)-smooth in l2.

A simplex is parametrised by an orthonormal basis of its hyperplane: n = d - 1 coordinates, equal
lengths, gradients no longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpoco._validation import LARGEST_SCALE, positive_int
from dpoco.accounting.leaf_bounds import record_length
from dpoco.domains import Box, Domain, LpBall, Polytope, Simplex
from dpoco.losses import CustomLoss, LinearLoss, Loss, MarginLoss, QuadraticLoss, check_undamped

__all__ = ["EuclideanProblem", "euclidean_problem"]

# A derivative bound that still grows between these margins is unbounded over the reals.
_FAR, _FARTHER = 1e50, LARGEST_SCALE


@dataclass(frozen=True, slots=True)
class EuclideanProblem:
    """What the regret and privacy proofs may use.

    Attributes
    ----------
    dimension : int
        n, of the set of decisions: d, or d - 1 for a simplex.
    lipschitz : float
        G, l2 Lipschitz constant of every loss (loss per length).
    smoothness : float
        beta_s, largest eigenvalue of any loss's Hessian (loss per squared length).
    rank : int
        r, rank of one loss's Hessian: 0 linear, 1 generalised linear, else n.
    strong_convexity : float
        Smallest eigenvalue of any loss's Hessian; 0 unless declared.
    radius, diameter : float
        R and D (length) of the domain; it is only the comparator class when `unbounded`.
    unbounded : bool
        Whether decisions range over all of R^n.
    family : {"linear", "glm", "quadratic", "custom"}
        Structure of the losses.
    shape : {"ball", "box", "simplex", "lp_ball", "polytope"}
        Structure of the domain; "ball" is Euclidean, "box" includes the ball of l_inf.
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
        """Whether the learner makes G and beta_s true by clipping; else the user declares them."""
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
        """Public range of l - min l: G D, or 2 G R with a crude minimum."""
        if self.family in ("linear", "glm"):
            return self.lipschitz * self.diameter
        return 2.0 * self.lipschitz * self.radius

    def barrier_weight(self, horizon: int) -> float:
        """Return the weight at which the barrier is at most G D on the shrunk domain (loss).

        0 where no barrier is used: linear losses, and decisions in R^d.

        Raises
        ------
        ValueError
            For an l_p ball with p < 2.
        """
        if self.unbounded or self.family == "linear":
            return 0.0
        t = float(max(positive_int("horizon", horizon), 3))
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
        Whether decisions range over R^d, with the domain the comparator class only.

    Raises
    ------
    TypeError
        If the loss is of no known family, or `unbounded` is not a bool.
    ValueError
        If the domain has empty interior, or a bound is infinite over all reals (squared loss).
    """
    if not isinstance(unbounded, bool):
        raise TypeError(f"unbounded must be a bool; got {type(unbounded).__name__}")
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
    shape = _shape(domain)
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


def _half_width(domain: Any, shape: str) -> float:
    if isinstance(domain, Box):
        return 0.5 * float((domain.upper - domain.lower).min())
    if shape == "ball":
        return float(domain.radius) / math.sqrt(domain.dimension)
    return float(domain.radius) if shape == "box" else 0.0


def _shape(domain: Domain) -> str:
    if isinstance(domain, Simplex):
        if domain.dimension < 2:
            raise ValueError("a Simplex of dimension 1 is a single point: nothing to learn")
        return "simplex"
    if isinstance(domain, Box):
        if not (domain.lower < domain.upper).all():
            raise ValueError("the box must have a non-empty interior: lower < upper everywhere")
        return "box"
    if isinstance(domain, LpBall):
        if domain.p == math.inf or domain.dimension == 1:
            return "box"
        return "ball" if domain.p == 2.0 else "lp_ball"
    if isinstance(domain, Polytope):
        return "polytope"
    raise TypeError(
        f"domain must be an LpBall, Box, Simplex or Polytope; got {type(domain).__name__}"
    )


def _bounds(domain: Domain, loss: Any, unbounded: bool, n: int) -> tuple[str, float, float, int]:
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
        return "custom", lipschitz * stretch, smoothness * stretch**2, n if smoothness else 0
    if isinstance(loss, QuadraticLoss):
        return "quadratic", loss.lipschitz_bound, loss.smoothness_bound, n
    raise TypeError(f"loss must be a dpoco loss; got {type(loss).__name__}")
