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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dpoco._validation import choice, exponent, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting._records import plain_float, read_record
from dpoco.accounting.budget import Budget
from dpoco.accounting.generalized_gaussian import coordinate_variance
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.release import (
    DEFAULT_NUMERICS,
    calibrate_noise,
    check_numerics,
    check_scale,
    gdp_guarantee,
    noise_in_words,
    noise_order,
    norm_name,
    plain_numerics,
    sensitivity_of,
)
from dpoco.errors import StateError
from dpoco.privacy.neighbours import CHANGES

__all__ = ["ContinualSumParameters", "calibrate", "guarantee"]

_KIND, _VERSION = "dpoco.continual_sum_parameters", 2


@dataclass(frozen=True)
class ContinualSumParameters:
    """Everything calibration fixes for a `ContinualSum`.

    Attributes
    ----------
    dimension, horizon : int
        Length of the vectors and largest number of them.
    bound, norm : float
        Vectors are clipped to ||g||_norm <= bound.
    method : {"blt", "tree", "honaker", "toeplitz"}
        Factorisation.
    noise : {"gaussian", "generalized_gaussian"}
        Law of the draws.
    norm_order : float
        Order of the noise norm; 2 for Gaussian noise.
    noise_scale : float
        Scale of one draw; 0 means no privacy.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    sensitivity, column_norm, mu : float
        Derived, for information: a guarantee recomputes them.
    numerics : {"float", "lattice"}
        Arithmetic: doubles, or exact integers.
    """

    dimension: int
    horizon: int
    bound: float
    norm: float
    method: str
    noise: str
    norm_order: float
    noise_scale: float
    relation: str
    sensitivity: float
    column_norm: float
    mu: float
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        positive_int("dimension", self.dimension)
        positive_int("horizon", self.horizon)
        choice("method", self.method, continual_sum.METHODS)
        choice("relation", self.relation, CHANGES)
        exponent("norm", self.norm)
        noise_order(self.noise, self.norm_order, self.norm, self.dimension)
        for name in ("bound", "sensitivity", "column_norm"):
            positive_float(name, getattr(self, name))
        check_scale(self.noise_scale, self.mu)
        check_numerics(self.numerics, self.noise)

    def variance(self, t: int) -> float:
        """Return the variance of each coordinate of the noise in the sum of round t."""
        row = float(continual_sum.row_norm(self.method, t, self.horizon))
        draw = coordinate_variance(self.norm_order, self.dimension)
        grid = continual_sum.release_grid(self.noise_scale)
        return (self.noise_scale * row) ** 2 * draw + grid**2 / 12.0

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        body = {k: plain_float(v) if isinstance(v, float) else v for k, v in asdict(self).items()}
        return {"kind": _KIND, "version": _VERSION, **body}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ContinualSumParameters:
        """Return the parameters written by `to_dict`; `StateError` if they are not."""
        names = frozenset(field.name for field in fields(cls))
        body = read_record(
            record, kind=_KIND, version=_VERSION, fields=names, added={"numerics": "float"}
        )
        try:
            for name in ("norm", "mu"):
                body[name] = float(body[name])
            return cls(**body)
        except (TypeError, ValueError) as error:
            raise StateError("malformed continual sum parameters") from error


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
    numerics: str = DEFAULT_NUMERICS,
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
    n = continual_sum.resolve_horizon(horizon)
    if method == "auto":
        method = continual_sum.choose_method(n, noise)
    order = noise_order(noise, norm_order, norm, dimension)
    reach = sensitivity_of(
        noise=noise, order=order, q=norm, dimension=dimension, bound=bound, relation=relation
    )
    column = continual_sum.column_norm(method, n)
    arithmetic, scale, mu = plain_numerics(numerics, noise), 0.0, math.inf
    if budget is not None:
        arithmetic, scale, mu = calibrate_noise(
            reach, budget=budget, method=method, pushes=n, dimension=dimension, noise=noise,
            numerics=numerics,
        )  # fmt: skip
    return ContinualSumParameters(
        dimension=dimension,
        horizon=n,
        bound=bound,
        norm=norm,
        method=method,
        noise=noise,
        norm_order=order,
        noise_scale=scale,
        relation=relation,
        sensitivity=reach.value,
        column_norm=column,
        mu=mu,
        numerics=arithmetic,
    )


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
    if p.noise_scale == 0.0:
        return Guarantee.none(p.horizon, what)
    return gdp_guarantee(
        sensitivity_of(
            noise=p.noise, order=p.norm_order, q=p.norm, dimension=p.dimension, bound=p.bound,
            relation=p.relation,
        ),
        mechanism=what,
        method=p.method,
        noise=p.noise,
        noise_scale=p.noise_scale,
        dimension=p.dimension,
        pushes=p.horizon,
        horizon=p.horizon,
        relation=p.relation,
        calibration="tight",
        delta=1.0 / (10.0 * p.horizon) if budget is None else budget.delta,
        reference="adaptive Gaussian composition; docs/privacy/continual_sum.md",
        conditions=(
            f"every vector is clipped to {norm_name(p.norm)} norm {p.bound:g}, enforced",
        ),
        seeded=seeded,
        numerics=p.numerics,
    )  # fmt: skip
