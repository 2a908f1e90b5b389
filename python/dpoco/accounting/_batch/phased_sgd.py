"""Accounting of `PhasedSGD`.

Claim: every record lies in one phase. Gradient steps of size eta <= 2 / smoothness on a convex
loss, followed by Euclidean projection, do not expand, so replacing a record moves the phase's
average iterate by at most 2 eta L, and by what `rounding` bounds. Noise of z times as much standard
deviation makes the model 1/z-GDP.

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
from dpoco.domains import Box, LpBall
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
        size, first = sizes[0], min(0.25 * scale * step, _limit(found))
        if rounding(domain, lipschitz, size, first) > 2.0 * lipschitz * first:
            raise CalibrationError(
                "the first phase's steps vanish in the rounding of the iterates: fewer records, "
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
        return Guarantee.none(1, WHAT, unit="one record")
    if max(p.step_sizes) > _limit(found) * (1.0 + 2.0**-50):
        raise ValueError(
            f"step sizes beyond 2 / smoothness = {_limit(found):.6g} may expand: no guarantee"
        )
    delta = stated_at(budget, p.records)
    lipschitz = p.derivative_bound * found.feature_l2
    reach = max(_reaches(domain, lipschitz, p))
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
    # The noise's grid, 2^-12 of its scale or less, is no finer than the doubles it is added to.
    least = 2.0**-38 * float(domain.max_norm(2.0)) if p.private else 0.0
    return [
        (size, step, max(p.noise_multiplier * reach, least))
        for size, step, reach in zip(
            phase_sizes(p.records, p.phases),
            p.step_sizes,
            _reaches(domain, lipschitz, p),
            strict=True,
        )
    ]


def rounding(domain: BatchDomain, lipschitz: float, size: int, step: float) -> float:
    """Return how far rounding may part two averages of `size` iterates, in l2.

    Each step of both walks is off by some units of the last place of its largest point, and so are
    their sums.
    """
    d = float(domain.dimension)
    # Boxes and Euclidean balls clip or scale. Other projections sort, add up or iterate.
    if type(domain) is Box or (type(domain) is LpBall and domain.p in (2.0, math.inf)):
        units = 4.0 * d + 64.0
    else:
        units = max(4.0 * d**1.5 + 64.0, 2.0**12)
    return 2.0 * size * units * 2.0**-52 * (float(domain.max_norm(2.0)) + step * lipschitz)


def _reaches(domain: BatchDomain, lipschitz: float, p: PhasedSGDParameters) -> list[float]:
    """Return how far a record may move each phase's average."""
    return [
        2.0 * lipschitz * step + rounding(domain, lipschitz, size, step)
        for size, step in zip(phase_sizes(p.records, p.phases), p.step_sizes, strict=True)
    ]


def _limit(found: BatchBounds) -> float:
    return 2.0 / found.smoothness_l2
