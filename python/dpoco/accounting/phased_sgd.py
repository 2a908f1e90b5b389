"""Accounting of `PhasedSGD`.

Claim: every record lies in one phase. Gradient steps of size eta <= 2 / smoothness on a convex
loss, followed by Euclidean projection, do not expand, so replacing a record moves the phase's
average iterate by at most 2 eta L, and by what rounding adds. Noise of z times as much standard
deviation makes the model 1/z-GDP.

Proof: ``docs/privacy/batch_baselines.md``. Source: Feldman, Koren and Talwar, "Private stochastic
convex optimization: optimal rates in linear time" (2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._experts.parameters import StoredParameters
from dpoco.accounting.batch_fits import (
    CALIBRATIONS,
    BatchBounds,
    BatchDomain,
    batch_bounds,
    batch_guarantee,
    check_phases,
    checked_budget,
    clipping,
    gaussian_target,
    phase_sizes,
    require_published,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.statement import stated_delta
from dpoco.accounting.truncation import charged_gaussian_delta, truncation_mass
from dpoco.domains import Box, LpBall
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, IteratePhase

WHAT = "the model of phased stochastic gradient descent"


@dataclass(frozen=True)
class PhasedSGDParameters(StoredParameters):
    """Parameters of `PhasedSGD`: phase i has floor(n / 2^i) records and step size 4^-i `step_size`.

    Attributes
    ----------
    records : int
        n.
    phases : int
        At most floor(log2 n), at least 1.
    step_size : float
        Positive.
    largest_step : float
        Step sizes are capped here: at most 2 / smoothness, or walks could drift apart.
    derivative_bound : float
        Enforced bound on a record's derivative in the margin.
    noise_multiplier : float
        Noise of a phase over 2 L times its step size; 0 means no privacy.
    calibration : {"tight", "paper"}
        How the noise was found.
    """

    _kind = "dpoco.phased_sgd_parameters"

    records: int
    phases: int
    step_size: float
    largest_step: float
    derivative_bound: float
    noise_multiplier: float
    calibration: str = "tight"

    def __post_init__(self) -> None:
        """Validate."""
        for name in ("step_size", "largest_step", "derivative_bound", "noise_multiplier"):
            # As one double: bounds are products of what is clipped at.
            object.__setattr__(self, name, real_float(name, getattr(self, name)))
        choice("calibration", self.calibration, CALIBRATIONS)
        check_phases(self.records, self.phases)
        for name in ("step_size", "largest_step", "derivative_bound"):
            positive_float(name, getattr(self, name))
        if self.noise_multiplier != 0.0:
            positive_float("noise_multiplier", self.noise_multiplier)

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.noise_multiplier > 0.0

    @property
    def step_sizes(self) -> list[float]:
        """Step size of every phase."""
        sizes = [math.ldexp(self.step_size, -2 * i) for i in range(1, self.phases + 1)]
        return [max(min(size, self.largest_step), 1e-300) for size in sizes]


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
        vanishing = _phase(domain, found, found.derivative, size, first).rounding(d)
        if vanishing > 2.0 * lipschitz * first:
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
    delta = stated_delta(budget, p.records)
    mechanism = mechanism_of(domain, loss, p)
    d = domain.dimension
    reach = max(each.movement(d) for each in mechanism.phases if isinstance(each, IteratePhase))
    mu = 1.0 / p.noise_multiplier
    return batch_guarantee(
        mechanism,
        what=f"{WHAT} (dimension {domain.dimension}, {p.phases} phases)",
        records=p.records,
        delta=delta,
        calibration=p.calibration,
        seeded=seeded,
        sensitivity=reach,
        noise_scale=p.noise_multiplier * reach,
        bound=clipping(loss, domain, p.derivative_bound, found.derivative)
        + "; iterates projected in l2",
        claimed_epsilon=4.0 * math.sqrt(math.log(1.0 / delta)) * mu,
        details={
            "phases": float(p.phases),
            "first step size": p.step_sizes[0],
            "last step size": p.step_sizes[-1],
            "largest step size that does not expand": _limit(found),
        },
    )


def mechanism_of(domain: BatchDomain, loss: Any, parameters: PhasedSGDParameters) -> GaussianPhases:
    """Return the phases through which data reach the model."""
    p, d = parameters, domain.dimension
    # The noise's grid, 2^-12 of its scale or less, is no finer than the doubles it is added to.
    least = 2.0**-38 * float(domain.max_norm(2.0)) if p.private else 0.0
    phases = []
    for size, step in zip(phase_sizes(p.records, p.phases), p.step_sizes, strict=True):
        phase = _phase(domain, batch_bounds(domain, loss), p.derivative_bound, size, step)
        scale = max(p.noise_multiplier * phase.movement(d), least)
        phases.append(replace(phase, scale=scale))
    return GaussianPhases(d, tuple(phases))


def _phase(
    domain: BatchDomain, found: BatchBounds, derivative: float, size: int, step: float
) -> IteratePhase:
    """Return a phase without noise."""
    # Boxes and Euclidean balls clip or scale. Other projections sort, add up or iterate.
    clips = type(domain) is Box or (type(domain) is LpBall and domain.p in (2.0, math.inf))
    return IteratePhase(
        records=size,
        lipschitz=derivative * found.feature_l2,
        smoothness=found.smoothness_l2,
        step=step,
        radius=float(domain.max_norm(2.0)),
        projection="clip" if clips else "search",
        scale=0.0,
    )


def _limit(found: BatchBounds) -> float:
    return 2.0 / found.smoothness_l2
