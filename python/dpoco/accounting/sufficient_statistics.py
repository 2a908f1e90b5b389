"""Accounting of `SufficientStatistics`: all second moments of a data set, released once.

Claim: replacing one record (x, y), ||x||_2 <= X, |y| <= Y, moves the sum of (x x', a y x) by at
most D = sqrt(2) X^2 (1 + u/2) in Frobenius norm for u = (a Y / X)^2 <= 2, else 2 X^2 sqrt(u): with
Gaussian noise of scale sigma on every entry it is D/sigma-GDP, and so is every model that is
computed from it.

Proof: ``docs/privacy/sufficient_statistics.md``, ``docs/privacy/noisy_ftrl.md`` ("Quadratic
sensitivity"). Source: Vu and Slavkovic (2009); Wang, "Revisiting differentially private linear
regression" (2018), with exact accounting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import second_moments
from dpoco.accounting.noisy_ftrl import best_vector_scale
from dpoco.accounting.parameters import Parameters, at_least
from dpoco.accounting.release import calibrate_noise, sum_of
from dpoco.accounting.statement import stated_delta
from dpoco.domains import Domain
from dpoco.losses import SquaredLoss, check_undamped
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours

__all__ = ["SufficientStatisticsParameters", "calibrate", "guarantee", "mechanism_of"]

LARGEST_DIMENSION = 4096


@dataclass(frozen=True, kw_only=True)
class SufficientStatisticsParameters(Parameters):
    """Parameters of `SufficientStatistics`.

    Attributes
    ----------
    records : int
        n.
    weight : float
        a in the sum of (x x', a y x) (feature / label).
    noise_scale : float
        Standard deviation of every entry's noise [feature^2]; 0 means no privacy.
    """

    kind = "dpoco.sufficient_statistics_parameters"
    version = 1
    added = None

    records: int
    weight: float
    noise_scale: float = at_least(0.0)


def mechanism_of(
    domain: Domain, loss: SquaredLoss, parameters: SufficientStatisticsParameters
) -> GaussianSum:
    """Return the one sum through which data reach the model."""
    bounds = second_moments(domain, loss, parameters.weight)
    scale, records = parameters.noise_scale, parameters.records
    return sum_of(bounds, "toeplitz", 1, Neighbours(), scale=scale, batch=records)


def guarantee(
    domain: Domain,
    loss: SquaredLoss,
    parameters: SufficientStatisticsParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from the noise scale and enforced bounds.

    Parameters
    ----------
    domain, loss
        The problem.
    parameters : SufficientStatisticsParameters
        Calibrated or the user's own.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 n).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError, TypeError
        If the parameters contradict the domain or the loss.
    """
    check_problem(domain, loss)
    p, what = parameters, "the model of ridge regression on noisy second moments"
    if p.noise_scale == 0.0:
        return Guarantee.none(1, what, unit="one record")
    mechanism = mechanism_of(domain, loss, p)
    (low, high), declared = loss.label_range, loss.feature_bound_l2
    l2 = "" if declared is None else f" and ||x||_2 <= {declared:g}"
    clipped = (
        f"enforced by clipping: features to ||x||_{domain.dual_exponent:g} <= "
        f"{loss.feature_bound:g}{l2}, labels to [{low:g}, {high:g}]"
    )
    return Guarantee.about(
        mechanism,
        Neighbours(),
        released=f"{what} (dimension {domain.dimension}, all second moments at once)",
        horizon=1,
        delta=stated_delta(budget, p.records),
        reference="Gaussian release of second moments; docs/privacy/sufficient_statistics.md",
        seeded=seeded,
        unit="one record",
        conditions=(clipped,),
        details={"records": float(p.records), "entries of the sum": float(mechanism.summand.size)},
    )


def calibrate(
    domain: Domain, loss: SquaredLoss, *, records: int, budget: Budget | None
) -> SufficientStatisticsParameters:
    """Return the least noise with which one fit keeps to `budget`.

    Parameters
    ----------
    domain : Domain
        Of dimension up to 4096.
    loss : SquaredLoss
        With the public bounds of its data.
    records : int
        n.
    budget : Budget or None
        Target; None for no noise.

    Raises
    ------
    ValueError, TypeError
        For another loss, or too many dimensions.
    CalibrationError
        If no noise scale keeps to the budget.
    """
    n = positive_int("records", records)
    check_problem(domain, loss)
    plain = SufficientStatisticsParameters(
        records=n, weight=best_vector_scale(domain, loss, "replace"), noise_scale=0.0
    )
    if budget is None:
        return plain
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a dpoco.Budget or None; got {type(budget).__name__}")
    budget.require_delta()
    total, _ = calibrate_noise(
        mechanism_of(domain, loss, plain), Neighbours(), budget=budget, numerics="float"
    )
    # In doubles the scale that is asked for gives mu up to a rounding.
    return replace(plain, noise_scale=total.scale * (1.0 + 2.0**-50))


def check_problem(domain: Domain, loss: Any) -> None:
    """Raise `ValueError` unless second moments, of a size that fits, are all that a loss needs."""
    if not isinstance(loss, SquaredLoss):
        raise ValueError(f"second moments are for a SquaredLoss; got {type(loss).__name__}")
    check_undamped(loss)
    if domain.dimension > LARGEST_DIMENSION:
        limit = f"the domain's dimension must be at most {LARGEST_DIMENSION}"
        raise ValueError(f"{limit} for second moments; got {domain.dimension}")
