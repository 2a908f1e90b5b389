"""Accounting of `PhasedSGD`.

Claim: every record lies in one phase. Gradient steps of size eta <= 2 / smoothness on a convex
loss, followed by Euclidean projection, do not expand, so replacing a record moves the phase's
average iterate by at most 2 eta L. Noise of standard deviation z 2 eta L on it makes the model
1/z-GDP.

Proof: ``docs/privacy/batch_baselines.md``. Source: Feldman, Koren and Talwar, "Private stochastic
convex optimization: optimal rates in linear time" (2020).
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
    phase_sizes,
    require_published,
    stated_at,
)
from dpoco.accounting._batch.parameters import CALIBRATIONS, PhasedSGDParameters
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.truncation import charged_gaussian_delta, truncation_mass
from dpoco.errors import CalibrationError

WHAT = "the model of phased stochastic gradient descent"


def calibrate(
    domain: BatchDomain,
    loss: Any,
    *,
    records: int,
    budget: Budget | None,
    calibration: str = "tight",
    step_scale: float = 1.0,
) -> PhasedSGDParameters:
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
        Exact Gaussian accounting, or sigma_i = 4 L eta_i / rho with
        rho = epsilon / (2 sqrt(ln(1/delta))).
    step_scale : float
        Factor on the published step size.

    Raises
    ------
    CalibrationError
        If no noise scale keeps to the budget, or the published one does not.
    """
    choice("calibration", calibration, CALIBRATIONS)
    n = positive_int("records", records)
    scale = positive_float("step_scale", step_scale)
    budget = checked_budget(budget)
    found = batch_bounds(domain, loss)
    sizes, d = phase_sizes(n), domain.dimension
    multiplier, strength = 0.0, math.inf
    if budget is not None:
        variates = float(len(sizes) * d)
        if calibration == "tight":
            strength = gaussian_target(budget, "tight", variates)
            multiplier = 1.0 / strength
        else:
            strength = budget.epsilon / (2.0 * math.sqrt(math.log(1.0 / budget.delta)))
            multiplier = 2.0 / strength
            mass = truncation_mass(variates)
            require_published(charged_gaussian_delta(budget.epsilon, 0.5 * strength, mass), budget)
    lipschitz = found.derivative * found.feature_l2
    step = domain.diameter(2.0) / lipschitz * min(4.0 / math.sqrt(n), strength / math.sqrt(d))
    if budget is not None:
        # Iterates are averaged in double precision: steps must stand out of their rounding.
        last = 2.0 * min(scale * step * 4.0 ** -len(sizes), _limit(found)) * lipschitz
        if last < 2.0**-46 * sizes[-1] * float(domain.max_norm(2.0)):
            raise CalibrationError(
                "the last phase's steps vanish in the rounding of the iterates: fewer records, "
                "a larger step_scale or a domain nearer to 0"
            )
    return PhasedSGDParameters(
        records=n,
        phases=len(sizes),
        step_size=max(scale * step, 1e-90),
        largest_step=_limit(found),
        derivative_bound=found.derivative,
        noise_multiplier=multiplier,
        calibration=calibration,
    )


def guarantee(
    domain: BatchDomain,
    loss: Any,
    parameters: PhasedSGDParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, from noise multiplier and enforced bounds alone.

    Raises
    ------
    ValueError
        If steps could be large enough to expand: then nothing is known.
    """
    p = parameters
    found = batch_bounds(domain, loss)
    if not p.private:
        return Guarantee.none(1, WHAT)
    if max(p.step_sizes) > _limit(found) * (1.0 + 1e-9):
        raise ValueError(
            f"step sizes beyond 2 / smoothness = {_limit(found):.6g} may expand: no guarantee"
        )
    delta = stated_at(budget, p.records)
    reach = 2.0 * p.derivative_bound * found.feature_l2 * max(p.step_sizes)
    mu = 1.0 / p.noise_multiplier
    return batch_guarantee(
        what=f"{WHAT} (dimension {domain.dimension}, {p.phases} phases)",
        records=p.records,
        delta=delta,
        calibration=p.calibration,
        seeded=seeded,
        variates=float(p.phases * domain.dimension),
        sensitivity=reach,
        noise_scale=p.noise_multiplier * reach,
        bound=clipping(loss, domain, p.derivative_bound, found.derivative)
        + "; iterates projected in l2",
        claimed_epsilon=4.0 * math.sqrt(math.log(1.0 / delta)) * mu,
        mu=mu,
        details={
            "phases": float(p.phases),
            "first step size": p.step_sizes[0],
            "last step size": p.step_sizes[-1],
            "largest step size that does not expand": _limit(found),
        },
    )


def phases_of(
    domain: BatchDomain, loss: Any, parameters: PhasedSGDParameters
) -> list[tuple[int, float, float]]:
    """Return records, step size and noise scale of every phase."""
    p = parameters
    lipschitz = p.derivative_bound * batch_bounds(domain, loss).feature_l2
    return [
        (size, step, p.noise_multiplier * 2.0 * lipschitz * step)
        for size, step in zip(phase_sizes(p.records, p.phases), p.step_sizes, strict=True)
    ]


def _limit(found: BatchBounds) -> float:
    return 2.0 / found.smoothness_l2
