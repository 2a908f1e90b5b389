"""Accounting of `SufficientStatistics`: all second moments of a data set, released once.

Claim: replacing one record (x, y), ||x||_2 <= X, |y| <= Y, moves the sum of (x x', a y x) by at
most D = sqrt(2) X^2 (1 + u/2) in Frobenius norm for u = (a Y / X)^2 <= 2, else 2 X^2 sqrt(u): with
Gaussian noise of scale sigma on every entry it is D/sigma-GDP, and so is every model that is
computed from it.

Proof: ``docs/privacy/batch_baselines.md``, ``docs/privacy/noisy_ftrl.md`` ("Quadratic
sensitivity"). Source: Vu and Slavkovic (2009); Wang, "Revisiting differentially private linear
regression" (2018), with exact accounting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import choice, positive_int
from dpoco.accounting import batch_baselines as fits
from dpoco.accounting.budget import Budget
from dpoco.accounting.leaf_bounds import second_moments
from dpoco.accounting.noisy_ftrl import best_vector_scale
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.release import calibrate_noise, sum_of
from dpoco.domains import Domain
from dpoco.losses import SquaredLoss
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours

__all__ = ["SufficientStatisticsParameters", "calibrate"]

guarantee, mechanism_of = fits.guarantee, fits.mechanism_of

CALIBRATIONS = ("tight",)
LARGEST_DIMENSION = 4096


@dataclass(frozen=True, kw_only=True)
class SufficientStatisticsParameters(fits.BatchParameters):
    """Parameters of `SufficientStatistics`.

    Attributes
    ----------
    records : int
        n.
    weight : float
        a in the sum of (x x', a y x) (feature / label).
    noise_scale : float
        Standard deviation of every entry's noise [feature^2]; 0 means no privacy.
    derivative_bound : float
        Largest derivative in the margin of a clipped record. Derived; nothing rests on it.
    calibration : {"tight"}
        How the noise was found.
    """

    kind = "dpoco.sufficient_statistics_parameters"
    version = 1
    added = None
    method = "ridge regression on noisy second moments"
    reference = "Gaussian release of second moments; docs/privacy/batch_baselines.md"
    clips_derivatives = False
    noise = "noise_scale"

    weight: float
    noise_scale: float = at_least(0.0)
    calibration: str = one_of(*CALIBRATIONS, default="tight")

    def mechanism(self, domain: Domain, loss: Any) -> GaussianSum:
        """Return the one sum through which data reach the model."""
        bounds = _moments(domain, loss, self.weight)
        return sum_of(
            bounds, "toeplitz", 1, Neighbours(), scale=self.noise_scale, batch=self.records
        )

    def stated(
        self, domain: Domain, found: fits.BatchBounds, mechanism: GaussianSum, delta: float
    ) -> dict[str, Any]:
        """Return further fields of the guarantee."""
        return {
            "released": ", all second moments at once",
            "details": {"entries of the sum": float(mechanism.summand.size)},
        }


def calibrate(
    domain: Domain,
    loss: Any,
    *,
    records: int,
    budget: Budget | None,
    calibration: str = "tight",
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
    calibration : {"tight"}
        Exact Gaussian accounting.

    Raises
    ------
    ValueError, TypeError
        For another loss, or too many dimensions.
    CalibrationError
        If no noise scale keeps to the budget.
    """
    choice("calibration", calibration, CALIBRATIONS)
    n = positive_int("records", records)
    found = fits.batch_bounds(domain, loss)
    _check_loss(loss)
    if domain.dimension > LARGEST_DIMENSION:
        limit = f"the domain's dimension must be at most {LARGEST_DIMENSION}"
        raise ValueError(f"{limit} for second moments; got {domain.dimension}")
    plain = SufficientStatisticsParameters(
        records=n,
        derivative_bound=found.derivative,
        weight=best_vector_scale(domain, loss, "replace"),
        noise_scale=0.0,
    )
    budget = fits.checked_budget(budget)
    if budget is None:
        return plain
    total, _ = calibrate_noise(
        plain.mechanism(domain, loss), Neighbours(), budget=budget, numerics="float"
    )
    # In doubles the scale that is asked for gives mu up to a rounding.
    return replace(plain, noise_scale=total.scale * (1.0 + 2.0**-50))


def _check_loss(loss: Any) -> None:
    """Raise `ValueError` unless all that a loss needs of records is their second moments."""
    if not isinstance(loss, SquaredLoss):
        raise ValueError(f"second moments are for a SquaredLoss; got {type(loss).__name__}")


def _moments(domain: Domain, loss: Any, weight: float) -> SecondMoments:
    """Return what a clipped record adds."""
    _check_loss(loss)
    return second_moments(domain, loss, weight)
