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
from functools import lru_cache
from typing import Any

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import batch_baselines as fits
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_mu, rounded_up
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.statement import require_published
from dpoco.accounting.truncation import reserve
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.sampled import LARGEST_STEPS, MOST_TRANSFORMED, ROUNDING_PER_STEP, Sampled
from dpoco.privacy.mechanisms.batch_fits import SampledGaussian
from dpoco.privacy.neighbours import Neighbours

__all__ = ["NoisySGDParameters", "calibrate", "sampled_gaussian_multiplier"]

guarantee, mechanism_of = fits.guarantee, fits.mechanism_of
# More steps than these no longer change the error much.
_MOST_STEPS = 10**7
# What is unknown of a Fourier sum, and how much a bound moves with the last bits of its arguments.
_UNKNOWN, _JITTER = 2e-3, 1e-6


@dataclass(frozen=True, kw_only=True)
class NoisySGDParameters(fits.BatchParameters):
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
        Arithmetic of releases: doubles, whose rounding is not part of the guarantee, or exact
        integers.
    """

    kind = "dpoco.noisy_sgd_parameters"
    method = "noisy stochastic gradient descent"
    noise = "noise_scale"

    steps: int = at_least(1, LARGEST_STEPS)
    step_size: float
    noise_scale: float = at_least(0.0)
    numerics: str = one_of(*NUMERICS, default="float")

    def mechanism(self, domain: Domain, loss: Any) -> SampledGaussian:
        """Return the steps through which data reach the model."""
        bound = self.derivative_bound * fits.batch_bounds(domain, loss).feature_l2
        exact = self.private and self.numerics == "lattice"
        grid = fits.grid_of(self.noise_scale, bound) if exact else 0.0
        d = domain.dimension
        return SampledGaussian(self.records, self.steps, d, bound, self.noise_scale, grid)

    def stated(
        self, domain: Domain, found: fits.BatchBounds, mechanism: SampledGaussian, delta: float
    ) -> dict[str, Any]:
        """Return further fields of the guarantee."""
        paper = math.sqrt(8.0 * math.log(1.0 / delta)) * mechanism.bound / self.noise_scale
        return {
            "released": f", {self.steps} steps",
            "paper_epsilon": paper if self.steps <= self.records**2 else None,
            "details": {
                "steps": float(self.steps),
                "noise multiplier": self.noise_scale / mechanism.movement,
            },
        }


def calibrate(
    domain: Domain,
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
        Arithmetic of releases: exact integers, or doubles. "auto": integers if they cost next to
        nothing.

    Raises
    ------
    CalibrationError
        If no noise scale keeps to the budget, or the published one does not.
    """
    choice("calibration", calibration, fits.CALIBRATIONS)
    n = positive_int("records", records)
    scale = positive_float("step_scale", step_scale)
    budget = fits.checked_budget(budget)
    if steps is None:
        steps = n * n if calibration == "paper" else min(n * n, max(_MOST_STEPS, 10 * n))
    k = positive_int("steps", steps, maximum=LARGEST_STEPS)
    found, d = fits.batch_bounds(domain, loss), domain.dimension
    lipschitz = found.derivative * found.feature_l2
    sigma, arithmetic = 0.0, fits.resolved(numerics, calibration, None, d)
    if budget is not None and calibration == "tight":
        given: Budget = budget

        def release(exact: bool) -> fits.Release:
            rest = reserve(given, fits.counted_variates(float(k) * d, exact))
            factor = sampled_gaussian_multiplier(rest.epsilon, rest.delta, records=n, steps=k)
            return fits.Release(lipschitz, factor)

        found_release = release(numerics != "float")
        arithmetic = fits.resolved(numerics, calibration, [found_release], d)
        if arithmetic == "lattice":
            sigma = fits.exact_scale(found_release, d)
        else:
            sigma = 2.0 * lipschitz * release(exact=False).multiplier
    elif budget is not None:
        sigma = lipschitz * math.sqrt(8.0 * math.log(1.0 / budget.delta)) / budget.epsilon
        published = SampledGaussian(n, k, d, lipschitz, sigma, 0.0).loss(Neighbours())
        assert published is not None
        require_published(published.delta(budget.epsilon), budget)
    radius = float(domain.radius_from_center())
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


@lru_cache(maxsize=64)
def sampled_gaussian_multiplier(epsilon: float, delta: float, *, records: int, steps: int) -> float:
    """Return the smallest noise multiplier with delta at `epsilon`, to relative 1e-4, rounded up.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        Strictly between 0 and 1.
    records, steps : int
        n and K of `Sampled`.

    Raises
    ------
    CalibrationError
        If there is none in the range of double precision.
    """
    from scipy.optimize import brentq

    n, k, target = records, steps, gaussian_mu(epsilon, delta)
    least = math.sqrt(k) / target  # enough without the secrecy of the index
    if n == 1:
        return least

    # A bound jitters with the last bits of its arguments: who evaluates it again, at a multiplier
    # or epsilon computed another way, must find it below delta, too.
    rounding = k * ROUNDING_PER_STEP / delta
    transformed = k <= MOST_TRANSFORMED and rounding < 1.0
    jitter = _JITTER + (min(rounding, _UNKNOWN) if transformed else 0.0)

    def excess(log_multiplier: float) -> float:
        value = Sampled(n, math.exp(log_multiplier), k).delta(epsilon)
        return math.log(max(value, 1e-300)) - math.log(delta) + jitter

    # In the limit of many steps the loss is that of a Gaussian with mu^2 = K q^2 (exp(1/z^2) - 1).
    guess = -0.5 * math.log(math.log1p((target * n) ** 2 / k))
    high = min(guess, math.log(least))
    low, step = high, 0.05
    while excess(high) > 0.0:
        low, high = high, min(high + step, math.log(least))
        step *= 2.0
        if high == low:
            break
    step = 0.05
    while excess(low) <= 0.0:
        high, low = low, low - step
        step *= 2.0
        if step > 100.0:
            raise CalibrationError("no noise scale fits these steps")
    root = float(brentq(excess, low, high, xtol=1e-5)) if low < high else high
    margin = 2e-5
    while excess(root) > 0.0:
        root, margin = min(root + margin, high), 2.0 * margin
        if root == high:
            break
    return min(rounded_up(math.exp(root)), least)
