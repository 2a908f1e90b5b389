"""Accounting of `NoisySGD`.

Claim: every step releases the gradient of a record drawn uniformly with replacement, of l2 norm at
most L = c X, plus N(0, sigma^2 I). Replacing one record of n: the profile of
`dpoco.privacy.losses.sampled` with noise multiplier sigma / (2 L) and K steps. On a grid g,
gradients and noise are rounded to it, and 2 L + sqrt(d) g stands for 2 L.

Proof: ``docs/privacy/batch_baselines.md``, ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._experts.parameters import StoredParameters
from dpoco.accounting.batch_fits import (
    CALIBRATIONS,
    BatchDomain,
    batch_bounds,
    batch_guarantee,
    checked_budget,
    clipping,
    counted_variates,
    exact_scale,
    grid_of,
    require_published,
    resolved,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.sampled_gaussian import sampled_gaussian_multiplier
from dpoco.accounting.statement import stated_delta
from dpoco.accounting.truncation import reserve
from dpoco.privacy.losses.sampled import LARGEST_STEPS
from dpoco.privacy.mechanisms.batch_fits import SampledGaussian
from dpoco.privacy.neighbours import Neighbours

WHAT = "the model of noisy stochastic gradient descent"
# More steps than these no longer change the error much.
_MOST_STEPS = 10**7


@dataclass(frozen=True)
class NoisySGDParameters(StoredParameters):
    """Parameters of `NoisySGD`.

    Attributes
    ----------
    records : int
        n.
    steps : int
        K, each with a record drawn with probability 1/n.
    step_size : float
        Positive.
    derivative_bound : float
        Enforced bound on a record's derivative in the margin.
    noise_scale : float
        Standard deviation of a step's noise; 0 means no privacy.
    calibration : {"tight", "paper"}
        How the noise scale was found.
    numerics : {"float", "lattice"}
        Arithmetic of releases: doubles, whose rounding the guarantee leaves out, or exact integers.
    """

    _kind = "dpoco.noisy_sgd_parameters"
    _version = 2
    _added: ClassVar[dict[str, Any] | None] = {"numerics": "float"}

    records: int
    steps: int
    step_size: float
    derivative_bound: float
    noise_scale: float
    calibration: str = "tight"
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate."""
        for name in ("step_size", "derivative_bound", "noise_scale"):
            # As one double: bounds are products of what is clipped at.
            object.__setattr__(self, name, real_float(name, getattr(self, name)))
        choice("numerics", self.numerics, NUMERICS)
        if self.numerics == "lattice" and self.calibration != "tight":
            raise ValueError("numerics 'lattice' is for calibration 'tight'")
        choice("calibration", self.calibration, CALIBRATIONS)
        positive_int("records", self.records)
        positive_int("steps", self.steps, maximum=LARGEST_STEPS)
        positive_float("step_size", self.step_size)
        positive_float("derivative_bound", self.derivative_bound)
        if self.noise_scale != 0.0:
            positive_float("noise_scale", self.noise_scale)

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.noise_scale > 0.0


def default_steps(records: int) -> int:
    """Return n^2 as published, at most 10^7 or ten passes."""
    return min(records * records, max(_MOST_STEPS, 10 * records))


def calibrate(
    domain: BatchDomain,
    loss: Any,
    *,
    records: int,
    budget: Budget | None,
    calibration: str = "tight",
    steps: int | None = None,
    step_scale: float = 1.0,
    numerics: str = "auto",
) -> NoisySGDParameters:
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
        Exact composition, or sigma^2 = 8 L^2 ln(1/delta) / epsilon^2 and the published step size.
    steps : int, optional
        K; default n^2 ("paper"), for "tight" at most 10^7 or ten passes.
    step_scale : float
        Factor on the step size.
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
    scale = positive_float("step_scale", step_scale)
    budget = checked_budget(budget)
    if steps is None:
        steps = n * n if calibration == "paper" else default_steps(n)
    k = positive_int("steps", steps, maximum=LARGEST_STEPS)
    found = batch_bounds(domain, loss)
    lipschitz = found.derivative * found.feature_l2
    radius, d = float(domain.radius_from_center()), domain.dimension
    sigma, arithmetic = 0.0, resolved(numerics, calibration, False, [], d)
    if budget is not None:
        variates = float(k) * d
        if calibration == "tight":
            reach = 2.0 * lipschitz

            def factor_for(numerics: str) -> float:
                rest = reserve(budget, counted_variates(variates, numerics))
                return sampled_gaussian_multiplier(rest.epsilon, rest.delta, records=n, steps=k)

            factor = factor_for("float" if numerics == "float" else "lattice")
            release = (reach, factor, found.derivative * found.feature_l2, 1)
            arithmetic = resolved(numerics, calibration, True, [release], d)
            if arithmetic == "lattice":
                sigma = exact_scale(*release, d)
            else:
                sigma = reach * factor_for("float")
        else:
            sigma = lipschitz * math.sqrt(8.0 * math.log(1.0 / budget.delta)) / budget.epsilon
            published = SampledGaussian(n, k, d, lipschitz, sigma, 0.0).loss(Neighbours())
            assert published is not None
            require_published(published.delta(budget.epsilon), budget)
    if calibration == "paper":
        noise = 0.0
        if budget is not None:
            noise = math.sqrt(d * math.log(1.0 / budget.delta)) / budget.epsilon
        step_size = radius / (lipschitz * n * max(math.sqrt(n), noise))
    else:
        # Squared length of a step, and what passing over the same records again and again costs
        # (a sixteenth of the worst case, which is rarely met).
        cost = lipschitz**2 * (1.0 + k / (16.0 * n)) + d * sigma**2
        step_size = radius / math.sqrt(k * cost)
    return NoisySGDParameters(
        records=n,
        steps=k,
        step_size=max(scale * step_size, 1e-100),
        derivative_bound=found.derivative,
        noise_scale=sigma,
        calibration=calibration,
        numerics=arithmetic,
    )


def guarantee(
    domain: BatchDomain,
    loss: Any,
    parameters: NoisySGDParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, from noise scale and enforced bounds alone."""
    p = parameters
    found = batch_bounds(domain, loss)
    if not p.private:
        return Guarantee.none(1, WHAT, unit="one record")
    delta = stated_delta(budget, p.records)
    lipschitz = p.derivative_bound * found.feature_l2
    mechanism = mechanism_of(domain, loss, p)
    return batch_guarantee(
        mechanism,
        what=f"{WHAT} (dimension {domain.dimension}, {p.steps} steps)",
        records=p.records,
        delta=delta,
        calibration=p.calibration,
        seeded=seeded,
        sensitivity=mechanism.movement,
        noise_scale=p.noise_scale,
        bound=clipping(loss, domain, p.derivative_bound, found.derivative),
        claimed_epsilon=math.sqrt(8.0 * math.log(1.0 / delta)) * lipschitz / p.noise_scale
        if p.steps <= p.records**2
        else math.nan,
        details={
            "steps": float(p.steps),
            "noise multiplier": p.noise_scale / mechanism.movement,
        },
        numerics=p.numerics,
    )


def mechanism_of(domain: BatchDomain, loss: Any, parameters: NoisySGDParameters) -> SampledGaussian:
    """Return the steps through which data reach the model."""
    p = parameters
    bound = p.derivative_bound * batch_bounds(domain, loss).feature_l2
    exact = p.private and p.numerics == "lattice"
    grid = grid_of(p.noise_scale, bound) if exact else 0.0
    return SampledGaussian(p.records, p.steps, domain.dimension, bound, p.noise_scale, grid)
