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
from typing import Any, ClassVar

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero, count_of
from dpoco.accounting.batch_fits import (
    CALIBRATIONS,
    BatchBounds,
    BatchDomain,
    batch_bounds,
    batch_guarantee,
    checked_budget,
    clipping,
    exact_scale,
    gaussian_target,
    grid_of,
    resolved,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.release import check_scale
from dpoco.accounting.statement import stated_delta
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, SummedPhase

WHAT = "the model of noisy batch Frank-Wolfe"


@dataclass(frozen=True)
class NoisyFrankWolfeParameters(StoredParameters):
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
        Arithmetic of releases: doubles, whose rounding the guarantee leaves out, or exact integers.
    """

    _kind = "dpoco.noisy_frank_wolfe_parameters"
    _version = 2
    _added: ClassVar[dict[str, Any] | None] = {"numerics": "float"}

    records: int
    first_batch: int
    batch: int
    steps: int
    step_size: float
    derivative_bound: float
    difference_bound: float
    first_scale: float
    later_scale: float
    mu: float
    calibration: str = "tight"
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate."""
        for name in (
            "step_size",
            "derivative_bound",
            "difference_bound",
            "first_scale",
            "later_scale",
        ):
            # As one double: bounds are products of what is clipped at.
            object.__setattr__(self, name, real_float(name, getattr(self, name)))
        choice("numerics", self.numerics, NUMERICS)
        if self.numerics == "lattice" and self.calibration != "tight":
            raise ValueError("numerics 'lattice' is for calibration 'tight'")
        choice("calibration", self.calibration, CALIBRATIONS)
        for name in ("records", "first_batch", "steps"):
            positive_int(name, getattr(self, name))
        count_of("batch", self.batch)
        if self.steps > 1 and self.batch < 1:
            raise ValueError("batch must be at least 1")
        if self.first_batch + (self.steps - 1) * self.batch > self.records:
            raise ValueError("the batches need more records than there are")
        if positive_float("step_size", self.step_size) > 1.0:
            raise ValueError(f"step_size must be at most 1; got {self.step_size!r}")
        positive_float("derivative_bound", self.derivative_bound)
        positive_float("difference_bound", self.difference_bound)
        check_scale(self.first_scale, self.mu)
        if (self.first_scale > 0.0) != (at_least_zero("later_scale", self.later_scale) > 0.0):
            raise ValueError("first_scale and later_scale are both positive or both 0")

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.first_scale > 0.0


def calibrate(
    domain: BatchDomain,
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
        Arithmetic of releases: exact integers, or doubles. "auto": integers where they cost next
        to nothing.

    Raises
    ------
    CalibrationError
        If no noise scale keeps to the budget, or the published one does not.
    """
    choice("calibration", calibration, CALIBRATIONS)
    n = positive_int("records", records)
    budget = checked_budget(budget)
    found = batch_bounds(domain, loss)
    root = math.isqrt(n)
    first, batch = max(1, n // 2), root // 2
    steps = root if batch else 1
    if step_scale is None:
        step_scale = 1.0 if budget is None else 0.1
    step_size = positive_float("step_scale", step_scale) * math.log(max(n, 2)) / math.sqrt(4.0 * n)
    step_size = min(1.0, max(step_size, 1e-100))
    difference = min(found.curvature * step_size * found.reach, 2.0 * found.derivative)
    difference = max(difference, 1e-100)
    scales, mu, d = (0.0, 0.0), math.inf, domain.dimension
    arithmetic = resolved(numerics, calibration, False, [], d)
    if budget is not None:
        variates = float(steps * d)
        sums = _sums(found, found.derivative, difference, first, max(batch, 1))
        mu = gaussian_target(
            budget, calibration, variates, "lattice" if numerics != "float" else "float"
        )
        releases = [(moved, 1.0 / mu, largest, count) for moved, largest, count in sums]
        arithmetic = resolved(numerics, calibration, True, releases, d)
        if arithmetic == "lattice":
            first_release, later_release = releases
            scales = (exact_scale(*first_release, d), exact_scale(*later_release, d))
        else:
            mu = gaussian_target(budget, calibration, variates)
            reach = _movements(found, found.derivative, difference, first, max(batch, 1))
            scales = (reach[0] / mu, reach[1] / mu)
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


def guarantee(
    domain: BatchDomain,
    loss: Any,
    parameters: NoisyFrankWolfeParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, from noise scales and enforced bounds alone."""
    p = parameters
    found = batch_bounds(domain, loss)
    if not p.private:
        return Guarantee.none(1, WHAT, unit="one record")
    delta = stated_delta(budget, p.records)
    mechanism = mechanism_of(domain, loss, p)
    first, *later = (phase.mu(domain.dimension) for phase in mechanism.phases)
    mu = max(first, *later, 0.0)
    return batch_guarantee(
        mechanism,
        what=f"{WHAT} (dimension {domain.dimension}, p = {domain.p:g}, {p.steps} steps)",
        records=p.records,
        delta=delta,
        calibration=p.calibration,
        seeded=seeded,
        sensitivity=first * p.first_scale,
        noise_scale=p.first_scale,
        bound=clipping(loss, domain, p.derivative_bound, found.derivative),
        claimed_epsilon=mu * math.sqrt(2.0 * math.log(1.0 / delta)),
        details={
            "first batch": float(p.first_batch),
            "later batches": float(p.batch),
            "steps": float(p.steps),
            "later noise scale": p.later_scale,
            "later sensitivity": later[0] * p.later_scale
            if later
            else 2.0 * p.difference_bound * found.feature_l2,
        },
        numerics=p.numerics,
    )


def mechanism_of(
    domain: BatchDomain, loss: Any, parameters: NoisyFrankWolfeParameters
) -> GaussianPhases:
    """Return the means through which data reach the model: the first, and all later ones."""
    p, found = parameters, batch_bounds(domain, loss)
    exact = p.private and p.numerics == "lattice"
    rows = [
        (p.first_batch, p.derivative_bound * found.feature_l2, p.first_scale, 1),
        (p.batch, p.difference_bound * found.feature_l2, p.later_scale, p.steps - 1),
    ]
    phases = tuple(
        # The scale of the sum, as the compiled class multiplies it.
        SummedPhase(n, bound, scale, grid_of(scale * n, bound, n) if exact else 0.0, 1, copies)
        for n, bound, scale, copies in rows
        if copies > 0
    )
    return GaussianPhases(domain.dimension, phases)


def _sums(
    found: BatchBounds, derivative: float, difference: float, first: int, batch: int
) -> list[tuple[float, float, int]]:
    """Return movement, largest entry and number of vectors of both sums."""
    sizes = (derivative * found.feature_l2, difference * found.feature_l2)
    return [(2.0 * size, size, n) for size, n in zip(sizes, (first, batch), strict=True)]


def _movements(
    found: BatchBounds, derivative: float, difference: float, first: int, batch: int
) -> tuple[float, float]:
    """Return how far a replaced record moves the first and a later release."""
    return (
        2.0 * derivative * found.feature_l2 / first,
        2.0 * difference * found.feature_l2 / batch,
    )
