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
from typing import Any, ClassVar

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._experts.parameters import StoredParameters
from dpoco.accounting.batch_fits import (
    BatchDomain,
    batch_bounds,
    batch_guarantee,
    check_phases,
    checked_budget,
    clipping,
    exact_scale,
    gaussian_target,
    grid_of,
    phase_sizes,
    resolved,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.generalized_gaussian import expected_norm_bound
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.statement import stated_delta
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, SummedPhase

WHAT = "the model of localised mirror descent"
_STEPS = 100


@dataclass(frozen=True)
class LocalizedMirrorDescentParameters(StoredParameters):
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
        Arithmetic of releases: doubles, whose rounding the guarantee leaves out, or exact integers.
    """

    _kind = "dpoco.localized_mirror_descent_parameters"
    _version = 2
    _added: ClassVar[dict[str, Any] | None] = {"numerics": "float"}

    records: int
    phases: int
    steps: int
    step_size: float
    derivative_bound: float
    noise_multiplier: float
    calibration: str = "tight"
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate."""
        for name in ("step_size", "derivative_bound", "noise_multiplier"):
            # As one double: bounds are products of what is clipped at.
            object.__setattr__(self, name, real_float(name, getattr(self, name)))
        choice("numerics", self.numerics, NUMERICS)
        choice("calibration", self.calibration, ("tight",))
        check_phases(self.records, self.phases)
        positive_int("steps", self.steps, maximum=10**6)
        positive_float("step_size", self.step_size)
        positive_float("derivative_bound", self.derivative_bound)
        if self.noise_multiplier != 0.0:
            positive_float("noise_multiplier", self.noise_multiplier)

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.noise_multiplier > 0.0


def calibrate(
    domain: BatchDomain,
    loss: Any,
    *,
    records: int,
    budget: Budget | None,
    calibration: str = "tight",
    steps: int = _STEPS,
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
        Arithmetic of releases: exact integers, or doubles. "auto": integers where they cost next
        to nothing.

    Raises
    ------
    CalibrationError
        If no noise scale keeps to the budget.
    """
    choice("calibration", calibration, ("tight",))
    check_ball(domain)
    n = positive_int("records", records)
    count = positive_int("steps", steps, maximum=10**6)
    scale = positive_float("step_scale", step_scale)
    budget = checked_budget(budget)
    found = batch_bounds(domain, loss)
    sizes, d = phase_sizes(n), domain.dimension
    multiplier, strength = 0.0, math.inf
    arithmetic = resolved(numerics, "tight", False, [], d)
    if budget is not None:
        variates = float(len(sizes) * count * d)
        slope = found.derivative * found.feature_l2
        mu = gaussian_target(
            budget, "tight", variates, "float" if numerics == "float" else "lattice"
        )
        multiplier = math.sqrt(count) / mu
        releases = [(2.0 * slope, multiplier, slope, size) for size in sizes]
        arithmetic = resolved(numerics, "tight", True, releases, d)
        if arithmetic == "float":
            mu = gaussian_target(budget, "tight", variates)
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
        calibration=calibration,
        numerics=arithmetic,
    )


def guarantee(
    domain: BatchDomain,
    loss: Any,
    parameters: LocalizedMirrorDescentParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, from noise multiplier and enforced bounds alone."""
    p = parameters
    check_ball(domain)
    found = batch_bounds(domain, loss)
    if not p.private:
        return Guarantee.none(1, WHAT, unit="one record")
    delta = stated_delta(budget, p.records)
    mechanism = mechanism_of(domain, loss, p)
    noise_scale = mechanism.phases[0].scale
    reach = noise_scale / p.noise_multiplier
    return batch_guarantee(
        mechanism,
        what=f"{WHAT} (dimension {domain.dimension}, p = {domain.p:g}, {p.phases} phases of "
        f"{p.steps} steps)",
        records=p.records,
        delta=delta,
        calibration=p.calibration,
        seeded=seeded,
        sensitivity=reach,
        noise_scale=noise_scale,
        bound=clipping(loss, domain, p.derivative_bound, found.derivative),
        claimed_epsilon=math.nan,
        details={"phases": float(p.phases), "steps per phase": float(p.steps)},
        numerics=p.numerics,
    )


def mechanism_of(
    domain: BatchDomain, loss: Any, parameters: LocalizedMirrorDescentParameters
) -> GaussianPhases:
    """Return the phases, of several mean gradients each, through which data reach the model."""
    p, d = parameters, domain.dimension
    bound = p.derivative_bound * batch_bounds(domain, loss).feature_l2
    exact = p.private and p.numerics == "lattice"
    phases = []
    for size in phase_sizes(p.records, p.phases):
        scale, grid = p.noise_multiplier * 2.0 * bound / size, 0.0
        if exact:
            scale = exact_scale(2.0 * bound, p.noise_multiplier, bound, size, d)
            grid = grid_of(scale * size, bound, size)
        phases.append(SummedPhase(size, bound, scale, grid, p.steps, 1))
    return GaussianPhases(d, tuple(phases))


def regularisers(
    domain: BatchDomain, loss: Any, parameters: LocalizedMirrorDescentParameters
) -> list[tuple[float, float]]:
    """Return the regularisation and the radius of every phase."""
    p = parameters
    lipschitz = p.derivative_bound * batch_bounds(domain, loss).feature
    rows = []
    for i, size in enumerate(phase_sizes(p.records, p.phases), start=1):
        reach = math.ldexp(p.step_size, -2 * i) * size
        radius = min(domain.diameter(), 2.0 * lipschitz * (domain.p - 1.0) * reach)
        rows.append((1.0 / reach, max(radius, 1e-300)))
    return rows


def check_ball(domain: BatchDomain) -> None:
    """Raise `ValueError` unless mirror steps have a closed form."""
    if not (hasattr(domain, "radius") and 1.0 < domain.p <= 2.0):
        raise ValueError("localised mirror descent needs an l_p ball with 1 < p <= 2")
