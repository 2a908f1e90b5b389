"""Accounting of `LocalizedMirrorDescent`.

Claim: every record lies in one phase, whose T steps each release the mean gradient of the phase's
n_i records, which a replaced record moves by at most 2 L / n_i in l2. With noise z 2 L / n_i on
each the model is sqrt(T)/z-GDP, hence T/(2 z^2)-zCDP. On a grid g of the sums of a slice's rounded
gradients, 2 L + sqrt(d) g stands for 2 L.

Proof: ``docs/privacy/batch_baselines.md``, ``docs/privacy/lattice.md``. Source: Asi, Feldman, Koren
and Talwar, "Private stochastic convex optimization: optimal rates in l1 geometry" (2021); other
constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import batch_baselines as fits
from dpoco.accounting.budget import Budget
from dpoco.accounting.generalized_gaussian import expected_norm_bound
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.phased_sgd import PhasedParameters, phase_sizes
from dpoco.domains import Domain
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, SummedPhase

__all__ = ["LocalizedMirrorDescentParameters", "calibrate"]

guarantee, mechanism_of = fits.guarantee, fits.mechanism_of
_MOST_STEPS = 10**6


@dataclass(frozen=True, kw_only=True)
class LocalizedMirrorDescentParameters(PhasedParameters):
    """Parameters of `LocalizedMirrorDescent`: phase i has floor(n / 2^i) records.

    Attributes
    ----------
    records : int
        n.
    phases : int
        At most floor(log2 n), at least 1.
    steps : int
        Mean gradients per phase.
    step_size : float
        eta: phase i is regularised with weight 1 / (4^-i eta n_i).
    derivative_bound : float
        Enforced bound on a record's derivative in the margin.
    noise_multiplier : float
        Noise of a mean gradient over 2 L / n_i and what rounding adds; 0 means no privacy.
    calibration : {"tight"}
        How the noise was found.
    numerics : {"float", "lattice"}
        Arithmetic of releases: doubles, whose rounding is not part of the guarantee, or exact
        integers.
    """

    kind = "dpoco.localized_mirror_descent_parameters"
    method = "localised mirror descent"

    steps: int = at_least(1, _MOST_STEPS)
    calibration: str = one_of("tight", default="tight")
    numerics: str = one_of(*NUMERICS, default="float")

    def mechanism(self, domain: Domain, loss: Any) -> GaussianPhases:
        """Return the phases, of several mean gradients each, through which data reach the model."""
        _check_ball(domain)
        d, multiplier = domain.dimension, self.noise_multiplier
        bound = self.derivative_bound * fits.batch_bounds(domain, loss).feature_l2
        phases = []
        for size in phase_sizes(self.records, self.phases):
            scale, grid = multiplier * 2.0 * bound / size, 0.0
            if self.private and self.numerics == "lattice":
                scale = fits.exact_scale(fits.Release(bound, multiplier, size), d)
                grid = fits.grid_of(scale * size, bound, size)
            phases.append(SummedPhase(size, bound, scale, grid, self.steps, 1))
        return GaussianPhases(d, tuple(phases))

    def stated(
        self, domain: Domain, found: fits.BatchBounds, mechanism: GaussianPhases, delta: float
    ) -> dict[str, Any]:
        """Return further fields of the guarantee."""
        return {
            "released": f", p = {domain.p:g}, {self.phases} phases of {self.steps} steps",
            "details": {"phases": float(self.phases), "steps per phase": float(self.steps)},
        }

    def regularisers(self, domain: Domain, loss: Any) -> list[tuple[float, float]]:
        """Return the regularisation and the radius of every phase."""
        lipschitz = self.derivative_bound * fits.batch_bounds(domain, loss).feature
        rows = []
        for i, size in enumerate(phase_sizes(self.records, self.phases), start=1):
            reach = math.ldexp(self.step_size, -2 * i) * size
            radius = min(domain.diameter(), 2.0 * lipschitz * (domain.p - 1.0) * reach)
            rows.append((1.0 / reach, max(radius, 1e-300)))
        return rows


def calibrate(
    domain: Domain,
    loss: Any,
    *,
    records: int,
    budget: Budget | None,
    calibration: str = "tight",
    steps: int = 100,
    step_scale: float = 1.0,
    numerics: str = "auto",
) -> LocalizedMirrorDescentParameters:
    """Return the least noise with which one fit keeps to `budget`.

    Parameters
    ----------
    domain, loss
        The problem: an l_p ball with 1 < p <= 2, and a generalised linear loss.
    records : int
        n.
    budget : Budget or None
        Target; None for no noise.
    calibration : {"tight"}
        The published constants do not converge; there is no other calibration.
    steps : int
        T, mirror steps per phase.
    step_scale : float
        Factor on the step size, which sets how far a phase may go.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of releases: exact integers, or doubles. "auto": integers if they cost next to
        nothing.

    Raises
    ------
    CalibrationError
        If no noise scale keeps to the budget.
    """
    choice("calibration", calibration, ("tight",))
    _check_ball(domain)
    n = positive_int("records", records)
    count = positive_int("steps", steps, maximum=_MOST_STEPS)
    scale = positive_float("step_scale", step_scale)
    budget = fits.checked_budget(budget)
    found, sizes, d = fits.batch_bounds(domain, loss), phase_sizes(n), domain.dimension
    multiplier, strength = 0.0, math.inf
    arithmetic = fits.resolved(numerics, "tight", None, d)
    if budget is not None:
        variates, slope = float(len(sizes) * count * d), found.derivative * found.feature_l2
        mu = fits.gaussian_target(budget, "tight", variates, exact=numerics != "float")
        multiplier = math.sqrt(count) / mu
        releases = [fits.Release(slope, multiplier, size) for size in sizes]
        arithmetic = fits.resolved(numerics, "tight", releases, d)
        if arithmetic == "float":
            mu = fits.gaussian_target(budget, "tight", variates)
            multiplier = math.sqrt(count) / mu
        # Size of the noise of a mean over n records, in l_q and in units of the gradient's bound.
        inflation = found.feature_l2 / found.feature
        strength = mu / (inflation * expected_norm_bound(2.0, domain.dual_exponent, d))
    lipschitz = found.derivative * found.feature
    step = domain.diameter() / lipschitz * min(4.0 / math.sqrt(n), strength)
    return LocalizedMirrorDescentParameters(
        records=n,
        phases=len(sizes),
        steps=count,
        step_size=max(scale * step, 1e-90),
        derivative_bound=found.derivative,
        noise_multiplier=multiplier,
        numerics=arithmetic,
    )


def _check_ball(domain: Domain) -> None:
    """Raise `ValueError` unless mirror steps have a closed form."""
    if not (hasattr(domain, "radius") and 1.0 < domain.p <= 2.0):
        raise ValueError("localised mirror descent needs an l_p ball with 1 < p <= 2")
