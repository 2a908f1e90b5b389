"""Accounting of `NoisyFrankWolfe`.

Claim: every record lies in one batch, and replacing it moves that batch's mean gradient by at most
2 c X / n_0 (first batch), or its mean difference of gradients by at most 2 s X / b, in l2, with
|derivative| <= c, |difference| <= s and ||x||_2 <= X enforced. The model is max(mu_0, mu_1)-GDP,
each the ratio of that movement to the noise: nothing composes. On a grid the movements are those of
exact sums of rounded vectors.

Proof: ``docs/privacy/batch_baselines.md``, ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpoco._validation import SMALLEST_SCALE, choice, positive_float, positive_int
from dpoco.accounting import batch_baselines as fits
from dpoco.accounting.budget import Budget
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.release import check_scale
from dpoco.domains import Domain
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, SummedPhase

__all__ = ["NoisyFrankWolfeParameters", "calibrate"]

guarantee, mechanism_of = fits.guarantee, fits.mechanism_of


@dataclass(frozen=True, kw_only=True)
class NoisyFrankWolfeParameters(fits.BatchParameters):
    """Parameters of `NoisyFrankWolfe`.

    Attributes
    ----------
    records : int
        n.
    first_batch, batch : int
        Records of the first gradient estimate and of each later one.
    steps : int
        Linear minimisations, the first included.
    step_size : float
        In (0, 1].
    derivative_bound, difference_bound : float
        Enforced bounds on a record's derivative in the margin, and on its change between two
        consecutive decisions.
    first_scale, later_scale : float
        Standard deviations of the noise of the first and of the later mean gradients; 0 means no
        privacy.
    mu : float
        GDP parameter, infinite without noise. Derived: the guarantee recomputes it.
    calibration : {"tight", "paper"}
        How the noise scales were found.
    numerics : {"float", "lattice"}
        Arithmetic of releases: doubles, whose rounding is not part of the guarantee, or exact
        integers.
    """

    kind = "dpoco.noisy_frank_wolfe_parameters"
    method = "noisy batch Frank-Wolfe"
    noise = "first_scale"

    first_batch: int
    batch: int = at_least(0)
    steps: int
    step_size: float = at_least(SMALLEST_SCALE, 1.0)
    difference_bound: float
    first_scale: float = at_least(0.0)
    later_scale: float = at_least(0.0)
    mu: float = at_least(0.0, infinite=True)
    numerics: str = one_of(*NUMERICS, default="float")

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if self.steps > 1 and self.batch < 1:
            raise ValueError("batch must be at least 1")
        if self.first_batch + (self.steps - 1) * self.batch > self.records:
            raise ValueError("the batches need more records than there are")
        check_scale(self.first_scale, self.mu)
        if (self.first_scale > 0.0) != (self.later_scale > 0.0):
            raise ValueError("first_scale and later_scale are both positive or both 0")

    def mechanism(self, domain: Domain, loss: Any) -> GaussianPhases:
        """Return the means through which data reach the model: the first, and all later ones."""
        length = fits.batch_bounds(domain, loss).feature_l2
        rows = [
            (self.first_batch, self.derivative_bound * length, self.first_scale, 1),
            (self.batch, self.difference_bound * length, self.later_scale, self.steps - 1),
        ]
        phases = []
        for n, bound, scale, copies in rows[: self.steps]:
            exact = self.private and self.numerics == "lattice"
            # The scale of the sum, as the compiled class multiplies it.
            grid = fits.grid_of(scale * n, bound, n) if exact else 0.0
            phases.append(SummedPhase(n, bound, scale, grid, 1, copies))
        return GaussianPhases(domain.dimension, tuple(phases))

    def stated(
        self, domain: Domain, found: fits.BatchBounds, mechanism: GaussianPhases, delta: float
    ) -> dict[str, Any]:
        """Return further fields of the guarantee."""
        first, *later = (phase.mu(domain.dimension) for phase in mechanism.phases)
        unused = 2.0 * self.difference_bound * found.feature_l2
        return {
            "released": f", p = {domain.p:g}, {self.steps} steps",
            "paper_epsilon": max(first, *later, 0.0) * math.sqrt(2.0 * math.log(1.0 / delta)),
            "details": {
                "first batch": float(self.first_batch),
                "later batches": float(self.batch),
                "steps": float(self.steps),
                "later noise scale": self.later_scale,
                "later sensitivity": later[0] * self.later_scale if later else unused,
            },
        }


def calibrate(
    domain: Domain,
    loss: Any,
    *,
    records: int,
    budget: Budget | None,
    calibration: str = "tight",
    step_scale: float | None = None,
    numerics: str = "auto",
) -> NoisyFrankWolfeParameters:
    """Return the least noise with which one fit keeps to `budget`.

    Parameters
    ----------
    domain, loss
        The problem; a generalised linear loss.
    records : int
        n.
    budget : Budget or None
        Target; None for no noise.
    calibration : {"tight", "paper"}
        Exact Gaussian accounting, or sigma = s sqrt(2 ln(1/delta)) / epsilon.
    step_scale : float, optional
        Factor on the published step size ln(n) / (2 sqrt(n)), which is capped at 1. Default 0.1,
        without noise 1.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of releases: exact integers, or doubles. "auto": integers if they cost next to
        nothing.

    Raises
    ------
    CalibrationError
        If no noise scale keeps to the budget, or the published one does not.
    """
    choice("calibration", calibration, fits.CALIBRATIONS)
    n = positive_int("records", records)
    budget = fits.checked_budget(budget)
    found, d = fits.batch_bounds(domain, loss), domain.dimension
    root = math.isqrt(n)
    first, batch = max(1, n // 2), root // 2
    steps = root if batch else 1
    if step_scale is None:
        step_scale = 1.0 if budget is None else 0.1
    step_size = positive_float("step_scale", step_scale) * math.log(max(n, 2)) / math.sqrt(4.0 * n)
    step_size = min(1.0, max(step_size, 1e-100))
    difference = min(found.curvature * step_size * found.reach, 2.0 * found.derivative)
    difference = max(difference, 1e-100)
    scales, mu, arithmetic = [0.0, 0.0], math.inf, fits.resolved(numerics, calibration, None, d)
    if budget is not None:
        variates = float(steps * d)
        mu = fits.gaussian_target(budget, calibration, variates, exact=numerics != "float")
        sums = ((found.derivative, first), (difference, max(batch, 1)))
        releases = [
            fits.Release(slope * found.feature_l2, 1.0 / mu, count) for slope, count in sums
        ]
        arithmetic = fits.resolved(numerics, calibration, releases, d)
        if arithmetic == "lattice":
            scales = [fits.exact_scale(each, d) for each in releases]
        else:
            mu = fits.gaussian_target(budget, calibration, variates)
            scales = [2.0 * each.bound / each.size / mu for each in releases]
    return NoisyFrankWolfeParameters(
        records=n,
        first_batch=first,
        batch=batch,
        steps=steps,
        step_size=step_size,
        derivative_bound=found.derivative,
        difference_bound=difference,
        first_scale=scales[0],
        later_scale=scales[1],
        mu=mu,
        calibration=calibration,
        numerics=arithmetic,
    )
