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
from typing import Any

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting._batch.bounds import (
    BatchBounds,
    BatchDomain,
    batch_bounds,
    batch_guarantee,
    checked_budget,
    clipping,
    gaussian_target,
    stated_at,
)
from dpoco.accounting._batch.exact import charged_movement, exact_scale, grid_of, resolved
from dpoco.accounting._batch.parameters import CALIBRATIONS, NoisyFrankWolfeParameters
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee

WHAT = "the model of noisy batch Frank-Wolfe"


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
    delta = stated_at(budget, p.records)
    movements = _movements(
        found, p.derivative_bound, p.difference_bound, p.first_batch, max(p.batch, 1)
    )
    if p.numerics == "lattice":
        movements = _charged(domain, found, p)
    mu = movements[0] / p.first_scale
    if p.steps > 1:
        mu = max(mu, movements[1] / p.later_scale)
    return batch_guarantee(
        what=f"{WHAT} (dimension {domain.dimension}, p = {domain.p:g}, {p.steps} steps)",
        records=p.records,
        delta=delta,
        calibration=p.calibration,
        seeded=seeded,
        variates=float(p.steps * domain.dimension),
        sensitivity=movements[0],
        noise_scale=p.first_scale,
        bound=clipping(loss, domain, p.derivative_bound, found.derivative),
        claimed_epsilon=mu * math.sqrt(2.0 * math.log(1.0 / delta)),
        mu=mu,
        details={
            "first batch": float(p.first_batch),
            "later batches": float(p.batch),
            "steps": float(p.steps),
            "later noise scale": p.later_scale,
            "later sensitivity": movements[1],
        },
        numerics=p.numerics,
    )


def grids(
    domain: BatchDomain, loss: Any, parameters: NoisyFrankWolfeParameters
) -> tuple[float, float]:
    """Return the grids of the first batch's sum and of later ones; 0 for doubles or no noise."""
    p = parameters
    if p.numerics == "float" or not p.private:
        return 0.0, 0.0
    first, later = _scaled_sums(batch_bounds(domain, loss), p)
    return grid_of(*first[1:]), grid_of(*later[1:]) if p.steps > 1 else 0.0


def _charged(
    domain: BatchDomain, found: BatchBounds, p: NoisyFrankWolfeParameters
) -> tuple[float, float]:
    """Return how far a record moves the means, rounding included."""
    first, later = _scaled_sums(found, p)
    moved = charged_movement(*first, domain.dimension) / p.first_batch
    if p.steps == 1:
        return moved, later[0]
    return moved, charged_movement(*later, domain.dimension) / p.batch


def _scaled_sums(
    found: BatchBounds, p: NoisyFrankWolfeParameters
) -> list[tuple[float, float, float, int]]:
    """Return movement, noise scale, largest entry and number of vectors of both sums."""
    sums = _sums(found, p.derivative_bound, p.difference_bound, p.first_batch, max(p.batch, 1))
    scales = (p.first_scale, p.later_scale)
    # As the compiled class multiplies them.
    return [
        (moved, scale * count, largest, count)
        for scale, (moved, largest, count) in zip(scales, sums, strict=True)
    ]


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
