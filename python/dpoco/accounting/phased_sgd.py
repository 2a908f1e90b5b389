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

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import batch_baselines as fits
from dpoco.accounting.budget import Budget
from dpoco.accounting.parameters import at_least
from dpoco.accounting.statement import require_published
from dpoco.accounting.truncation import charged_gaussian_delta, truncation_mass
from dpoco.domains import Box, Domain, LpBall
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, IteratePhase

__all__ = ["PhasedSGDParameters", "calibrate"]

guarantee, mechanism_of = fits.guarantee, fits.mechanism_of


def phase_sizes(records: int, phases: int | None = None) -> list[int]:
    """Return floor(n / 2^i), i = 1, 2, ..., as far as they are positive; [1] for one record."""
    count = max(1, records.bit_length() - 1) if phases is None else phases
    return [max(1, records >> i) for i in range(1, count + 1)]


@dataclass(frozen=True, kw_only=True)
class PhasedParameters(fits.BatchParameters):
    """Base of parameters of phases: phase i has floor(n / 2^i) records."""

    noise = "noise_multiplier"
    phases: int
    step_size: float
    noise_multiplier: float = at_least(0.0)

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        positive_int("phases", self.phases, maximum=len(phase_sizes(self.records)))


@dataclass(frozen=True, kw_only=True)
class PhasedSGDParameters(PhasedParameters):
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

    kind = "dpoco.phased_sgd_parameters"
    version = 1
    method = "phased stochastic gradient descent"

    largest_step: float

    @property
    def step_sizes(self) -> list[float]:
        """Step size of every phase."""
        sizes = [math.ldexp(self.step_size, -2 * i) for i in range(1, self.phases + 1)]
        return [max(min(size, self.largest_step), 1e-300) for size in sizes]

    def mechanism(self, domain: Domain, loss: Any) -> GaussianPhases:
        """Return the phases through which data reach the model."""
        found, d = fits.batch_bounds(domain, loss), domain.dimension
        # The noise's grid, 2^-12 of its scale or less, is no finer than the doubles it is added to.
        least = 2.0**-38 * float(domain.max_norm(2.0)) if self.private else 0.0
        phases = []
        for size, step in zip(phase_sizes(self.records, self.phases), self.step_sizes, strict=True):
            phase = _walk(domain, found, self.derivative_bound, size, step)
            scale = max(self.noise_multiplier * phase.movement(d), least)
            phases.append(replace(phase, scale=scale))
        return GaussianPhases(d, tuple(phases))

    def stated(
        self, domain: Domain, found: fits.BatchBounds, mechanism: GaussianPhases, delta: float
    ) -> dict[str, Any]:
        """Return further fields of the guarantee."""
        return {
            "released": f", {self.phases} phases",
            "bound": ", and projects iterates in l2",
            "paper_epsilon": 4.0 * math.sqrt(math.log(1.0 / delta)) * (1.0 / self.noise_multiplier),
            "details": {
                "phases": float(self.phases),
                "first step size": self.step_sizes[0],
                "last step size": self.step_sizes[-1],
                "largest step size that does not expand": 2.0 / found.smoothness_l2,
            },
        }


def calibrate(
    domain: Domain,
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
    choice("calibration", calibration, fits.CALIBRATIONS)
    n = positive_int("records", records)
    scale = positive_float("step_scale", step_scale)
    budget = fits.checked_budget(budget)
    found, sizes, d = fits.batch_bounds(domain, loss), phase_sizes(n), domain.dimension
    multiplier, strength = 0.0, math.inf
    if budget is not None:
        variates = float(len(sizes) * d)
        if calibration == "tight":
            strength = fits.gaussian_target(budget, "tight", variates)
            multiplier = 1.0 / strength
        else:
            strength = budget.epsilon / (2.0 * math.sqrt(math.log(1.0 / budget.delta)))
            multiplier = 2.0 / strength
            mass = truncation_mass(variates)
            require_published(charged_gaussian_delta(budget.epsilon, 0.5 * strength, mass), budget)
    lipschitz, limit = found.derivative * found.feature_l2, 2.0 / found.smoothness_l2
    step = domain.diameter(2.0) / lipschitz * min(4.0 / math.sqrt(n), strength / math.sqrt(d))
    if budget is not None:
        first = min(0.25 * scale * step, limit)
        vanishing = _walk(domain, found, found.derivative, sizes[0], first).rounding(d)
        if vanishing > 2.0 * lipschitz * first:
            raise CalibrationError(
                "the first phase's steps vanish in the rounding of the iterates: use fewer "
                "records, a larger step_scale or a domain nearer to 0"
            )
    return PhasedSGDParameters(
        records=n,
        phases=len(sizes),
        step_size=max(scale * step, 1e-90),
        largest_step=limit,
        derivative_bound=found.derivative,
        noise_multiplier=multiplier,
        calibration=calibration,
    )


def _walk(
    domain: Domain, found: fits.BatchBounds, derivative: float, size: int, step: float
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
