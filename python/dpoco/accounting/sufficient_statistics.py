"""Accounting of `SufficientStatistics`: all second moments of a data set, released once.

Claim: replacing one record (x, y), ||x||_2 <= X, |y| <= Y, moves the sum of (x x', a y x) by at
most D = sqrt(2) X^2 (1 + u/2) in Frobenius norm if u = (a Y / X)^2 <= 2, else by 2 X^2 sqrt(u).
With Gaussian noise of scale sigma on every entry, the sum is D/sigma-GDP, and so is every model
computed from it.

Proof: ``docs/privacy/sufficient_statistics.md``, ``docs/privacy/noisy_ftrl.md`` ("Quadratic
sensitivity"). Source: Vu and Slavkovic (2009); Wang, "Revisiting differentially private linear
regression" (2018), with exact accounting.
"""

from __future__ import annotations

from dataclasses import replace

from dpoco._validation import positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import second_moments
from dpoco.accounting.noisy_ftrl import best_vector_scale
from dpoco.accounting.plan import Plan
from dpoco.accounting.release import calibrate_noise, plain_sum
from dpoco.accounting.statement import stated_delta
from dpoco.domains import Domain
from dpoco.losses import Loss, SquaredLoss, check_undamped
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours

__all__ = ["FitPlan", "calibrate", "guarantee"]

# The sum has d (d + 3) / 2 entries.
LARGEST_DIMENSION = 4096


FitPlan = Plan[GaussianSum, None, None]


def guarantee(
    domain: Domain,
    loss: SquaredLoss,
    plan: FitPlan,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism.

    Parameters
    ----------
    domain, loss
        The problem.
    plan, budget, seeded
        See `dpoco.accounting.statement`.

    Raises
    ------
    ValueError, TypeError
        If the plan contradicts the domain or the loss.
    """
    check_problem(domain, loss)
    total, what = plan.mechanism, "the model of ridge regression on noisy second moments"
    moments, form = total.summand, (total.pushes, total.growth, total.order)
    assert isinstance(moments, SecondMoments)
    if moments != second_moments(domain, loss, moments.weight) or form != (1, None, 2.0):
        raise ValueError("the plan's sum is not that of one fit to this domain and loss")
    if total.scale == 0.0:
        return Guarantee.none(1, what, unit="one record")
    (low, high), declared = loss.label_range, loss.feature_bound_l2
    l2 = "" if declared is None else f" and ||x||_2 <= {declared:g}"
    clipped = (
        f"enforced by clipping: features to ||x||_{domain.dual_exponent:g} <= "
        f"{loss.feature_bound:g}{l2}, labels to [{low:g}, {high:g}]"
    )
    return Guarantee.about(
        total,
        Neighbours(),
        released=f"{what} (dimension {domain.dimension}, all second moments at once)",
        horizon=1,
        delta=stated_delta(budget, total.batch),
        reference="Gaussian release of second moments; docs/privacy/sufficient_statistics.md",
        seeded=seeded,
        unit="one record",
        conditions=(clipped,),
        details={"records": float(total.batch), "entries of the sum": float(moments.size)},
    )


def calibrate(domain: Domain, loss: SquaredLoss, *, records: int, budget: Budget | None) -> FitPlan:
    """Return the least noise for which one fit keeps to `budget`.

    Parameters
    ----------
    domain : Domain
        Of dimension up to 4096.
    loss : SquaredLoss
        With the public bounds of its data.
    records : int
        n.
    budget : Budget or None
        Budget of the fit; None adds no noise.

    Raises
    ------
    ValueError, TypeError
        For another loss, or for too many dimensions.
    CalibrationError
        If no noise scale keeps to the budget.
    """
    n = positive_int("records", records)
    check_problem(domain, loss)
    moments = second_moments(domain, loss, best_vector_scale(domain, loss, "replace"))
    # All n records are one push: each is in one sum, which is released once. Then all
    # factorisations are the identity, with one draw for one sum.
    plain = plain_sum(moments, "toeplitz", 1, batch=n)
    if budget is None:
        return Plan(plain, None, None)
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a dpoco.Budget or None; got {type(budget).__name__}")
    budget.require_delta()
    total, _ = calibrate_noise(plain, Neighbours(), budget=budget, numerics="float")
    # In doubles, the requested scale gives mu up to a rounding error.
    return Plan(replace(total, scale=total.scale * (1.0 + 2.0**-50)), None, None)


def check_problem(domain: Domain, loss: Loss) -> None:
    """Raise `ValueError` unless the loss only needs second moments of an admissible size."""
    if not isinstance(loss, SquaredLoss):
        raise ValueError(f"second moments are for a SquaredLoss; got {type(loss).__name__}")
    check_undamped(loss)
    if domain.dimension > LARGEST_DIMENSION:
        limit = f"the domain's dimension must be at most {LARGEST_DIMENSION}"
        raise ValueError(f"{limit} for second moments; got {domain.dimension}")
