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
from typing import Any

from dpoco._validation import choice, exponent, positive_float, positive_int
from dpoco.accounting import continual_sum, release
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import norm_name
from dpoco.accounting.gaussian import coordinate_variance, noise_in_words
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.plan import Plan
from dpoco.accounting.statement import stated_delta
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["SumPlan", "calibrate", "guarantee", "variance"]

SumPlan = Plan[GaussianSum, None, None]


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
) -> SumPlan:
    """Return the plan with the least noise that meets `budget`; None adds no noise.

    Parameters
    ----------
    dimension : int
        d, at most 2^40.
    horizon : int or None
        Sums released; None means at most 10^9.
    budget : Budget or None
        Must have a positive delta.
    bound, norm : float
        C and q: vectors are clipped to ||g||_q <= C, q in [1, inf].
    method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}
        "auto" uses the sum with the least worst noise.
    noise : {"gaussian", "generalized_gaussian"}
        Law of the noise.
    norm_order : float, optional
        r of generalized Gaussian noise; default: the order with the least noise.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum; "lattice" with Gaussian noise only.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rounds.

    Raises
    ------
    ValueError
        For contradictory arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    # Gaussian noise, generalised or not, has no pure epsilon.
    if isinstance(budget, Budget):
        budget.require_delta()
    dimension = positive_int("dimension", dimension, maximum=2**40)
    bound, norm = positive_float("bound", bound), exponent("norm", norm)
    n = continual_sum.resolve_horizon(horizon)
    choice("relation", relation, CHANGES)
    near = release.planned_neighbours(relation, participation, n, budget)
    # Sums are published one by one, so the worst one decides, and not their mean.
    if method == "auto":
        chosen = continual_sum.choose_method(horizon, near)
    else:
        (chosen,) = release.candidate_methods(method, n, budget, near)
    # The enforced norm decides the best law: in l_q with q > 2, draws of order r may be smaller.
    order = release.noise_order(noise, norm_order, norm, dimension)
    summand = ClippedVector(dimension, norm, bound, math.inf)
    plain = release.plain_sum(summand, chosen, n, order=order)
    total = release.with_noise(plain, near, budget=budget, numerics=numerics, noise=noise)
    return Plan(total, None, None)


def guarantee(
    plan: SumPlan, *, relation: str = "replace", budget: Budget | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of a plan, computed from its mechanism.

    Parameters
    ----------
    plan, relation, budget, seeded
        See `dpoco.accounting.statement`.
    """
    total, vector = plan.mechanism, plan.mechanism.summand
    law = noise_in_words(total.order)
    method = continual_sum.method_name(total.factorisation)
    assert isinstance(vector, ClippedVector)
    return Guarantee.about(
        total,
        Neighbours(relation),
        released=f"all running sums of vectors in R^{vector.size} ({method} factorisation, {law})",
        horizon=total.pushes,
        delta=stated_delta(budget, total.pushes),
        reference="adaptive Gaussian composition; docs/privacy/continual_sum.md",
        seeded=seeded,
        conditions=(
            f"The program clips every vector to {norm_name(vector.norm)} norm {vector.bound:g}.",
        ),
    )


def variance(total: GaussianSum, push: Any) -> Any:
    """Return the exact variance of a coordinate's noise in the sums of these pushes, any shape."""
    row = continual_sum.row_norm(total.factorisation, push, total.pushes)
    draw = coordinate_variance(total.order, total.summand.size)
    grid = continual_sum.release_grid(total.scale)
    # The second term is the variance of rounding to the grid, uniform over a cell.
    return (total.scale * row) ** 2 * draw + grid**2 / 12.0
