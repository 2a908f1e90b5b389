"""Accounting of one continual sum of bounded vectors, the base of every learner built on it.

Claim: all sums of at most n vectors g with ||g||_q <= C, released together, are mu-GDP with
mu = sqrt(kappa) D column_norm(n) / sigma for replacing one vector, where

* Gaussian noise: D = 2 C d^max(0, 1/2 - 1/q) in l2 and kappa = 1;
* generalized Gaussian noise of order r: D = 2 C in l_q and kappa = kappa(r).

Emptying one round instead of replacing it halves D.

Proof: ``docs/privacy/continual_sum.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpoco._validation import choice, exponent, positive_float, positive_int
from dpoco.accounting import continual_sum, release
from dpoco.accounting._words import noise_in_words, norm_name
from dpoco.accounting.budget import Budget
from dpoco.accounting.generalized_gaussian import coordinate_variance
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.statement import state, stated_delta
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["ContinualSumParameters", "calibrate", "guarantee", "mechanism_of"]


@dataclass(frozen=True, kw_only=True)
class ContinualSumParameters(release.SumParameters):
    """Everything calibration fixes for a `ContinualSum`.

    Attributes
    ----------
    dimension, horizon : int
        Length of the vectors and largest number of them.
    bound, norm : float
        Vectors are clipped to ||g||_norm <= bound.
    method : {"blt", "blt_normalised", "tree", "toeplitz"}
        Factorisation.
    noise : {"gaussian", "generalized_gaussian"}
        Law of the draws.
    norm_order : float
        Order of the noise norm; 2 for Gaussian noise.
    noise_scale : float
        Scale of one draw, the first; 0 means no privacy.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    sensitivity, column_norm, mu : float
        Derived, for information: a guarantee recomputes them.
    numerics : {"float", "lattice"}
        Arithmetic: doubles, or exact integers.
    """

    kind: ClassVar[str] = "dpoco.continual_sum_parameters"
    version: ClassVar[int] = 2

    dimension: int
    bound: float
    norm: float = at_least(1.0, infinite=True)
    method: str = one_of(*continual_sum.METHODS)
    noise: str = one_of(*continual_sum.NOISES)
    norm_order: float
    relation: str = one_of(*CHANGES)
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        release.noise_order(self.noise, self.norm_order, self.norm, self.dimension)
        release.check_numerics(self.numerics, self.noise)

    @property
    def sum_method(self) -> str:
        """The method, by the name that learners have for it."""
        return self.method

    @property
    def pushes(self) -> int:
        """Sums released: the horizon."""
        return self.horizon

    @property
    def max_error(self) -> float:
        """Noise of the noisiest sum, for leaves of sensitivity 1 and mu = 1."""
        return continual_sum.max_error(self.correlation, self.horizon)

    @property
    def lower_bound(self) -> float:
        """What `max_error` is at least, of any factorisation with independent Gaussian draws."""
        return continual_sum.lower_bound(self.horizon)

    def variance(self, t: int) -> float:
        """Return the variance of each coordinate of the noise in the sum of round t."""
        row = float(continual_sum.row_norm(self.correlation, t, self.horizon))
        draw = coordinate_variance(self.norm_order, self.dimension)
        grid = continual_sum.release_grid(self.noise_scale)
        return (self.noise_scale * row) ** 2 * draw + grid**2 / 12.0


def calibrate(
    dimension: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    bound: float = 1.0,
    norm: float = 2.0,
    method: str = "auto",
    noise: str = "gaussian",
    norm_order: float | None = None,
    relation: str = "replace",
    numerics: str = release.DEFAULT_NUMERICS,
    participation: release.Returning | None = None,
) -> ContinualSumParameters:
    """Return the parameters with the least noise that meets `budget`; None adds no noise.

    Raises
    ------
    ValueError
        For contradictory arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    dimension = positive_int("dimension", dimension, maximum=2**40)
    bound, norm = positive_float("bound", bound), exponent("norm", norm)
    n = continual_sum.resolve_horizon(horizon)
    choice("relation", relation, CHANGES)
    near = release.people_of(relation, participation, n, budget)
    if method == "auto":
        chosen = continual_sum.choose_method(horizon, noise, near)
    else:
        (chosen,) = release.candidate_methods(method, n, budget, near)
    order = release.noise_order(noise, norm_order, norm, dimension)
    plain = release.sum_of(
        ClippedVector(dimension, norm, bound, math.inf), chosen, n, near, order=order
    )
    return ContinualSumParameters(
        dimension=dimension,
        horizon=n,
        bound=bound,
        norm=norm,
        method=continual_sum.name_of(chosen),
        rates=release.sum_fields(chosen)["rates"],
        noise=noise,
        norm_order=order,
        relation=relation,
        **release.planned_noise(plain, near, budget=budget, numerics=numerics, noise=noise),
    )


def mechanism_of(parameters: ContinualSumParameters) -> GaussianSum:
    """Return the sum that is released: its bounds are what the engine clips to."""
    p = parameters
    summand = ClippedVector(p.dimension, p.norm, p.bound, math.inf)
    return release.released_sum(p, summand, p.horizon, order=p.norm_order)


def guarantee(
    parameters: ContinualSumParameters, *, budget: Budget | None = None, seeded: bool = False
) -> Guarantee:
    """Return what the parameters guarantee, recomputed from the noise scale and the bounds.

    Parameters
    ----------
    parameters : ContinualSumParameters
        Its derived fields are not trusted.
    budget : Budget, optional
        Its delta is the one epsilon is stated at; default 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.
    """
    p = parameters
    what = (
        f"all running sums of vectors in R^{p.dimension} "
        f"({p.method} factorisation, {noise_in_words(p.noise, p.norm_order)})"
    )
    return state(
        mechanism_of(p),
        Neighbours(p.relation),
        released=what,
        horizon=p.horizon,
        delta=stated_delta(budget, p.horizon),
        reference="adaptive Gaussian composition; docs/privacy/continual_sum.md",
        seeded=seeded,
        conditions=(f"The program clips every vector to {norm_name(p.norm)} norm {p.bound:g}.",),
    )
