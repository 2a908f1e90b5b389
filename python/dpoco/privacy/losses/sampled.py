"""Gaussian releases of one record of n, drawn uniformly with replacement, many times over.

Claim: let every step draw an index uniformly among n records, whatever was drawn before, and
release that record's vector plus N(0, sigma^2 I); vectors of any two records, of either of two
neighbouring data sets, are at most D apart in l2 (D = 2 L for gradients of length L). With q = 1/n
and mu = D/sigma, every step's hockey-stick divergences, in either direction and given the past, are
at most

    delta(e) = q gaussian_delta(log(1 + (exp(e) - 1) / q), mu)      for e >= 0,
    delta(e) = 1 - exp(e) + exp(e) delta(-e)                        for e < 0,

and so K steps have at most the K-fold composition of that profile: removing is the worse direction
to the right of 0, adding to the left, and both count in every step. They are sqrt(K) mu-GDP, too.

Proof: ``docs/privacy/batch_baselines.md``. Sources: Balle, Barthe and Gaboardi, "Privacy
amplification by subsampling" (2018); Zhu, Dong and Wang, "Optimal accounting of differential
privacy via characteristic function" (2022); Mironov, "Renyi differential privacy" (2017).
Numerics: the least of a Fourier sum (`sampled_sum`), Renyi divergences (`sampled_step`), fast
Fourier transforms for few steps (`sampled_few`) and the composition without secrecy. Each is an
upper bound, its rounding included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dpoco.privacy.losses.gaussian import Gaussian, gaussian_delta
from dpoco.privacy.losses.loss import FloatArray, Loss, check_epsilon, divergences_of, renyi_delta
from dpoco.privacy.losses.sampled_few import (
    FEW_STEPS,
    MOST_TRANSFORMED,
    ROUNDING_PER_STEP,
    transformed_delta,
)
from dpoco.privacy.losses.sampled_step import LARGEST_MU, step_divergences
from dpoco.privacy.losses.sampled_sum import least_composed_delta

__all__ = ["LARGEST_STEPS", "Sampled"]

LARGEST_STEPS = 10**13
# Below this the loss of a step may exceed what exp can represent; secrecy hides nothing there.
_LEAST_MULTIPLIER = 0.04
# More noise is accounted for as this much: its squares would underflow.
_LARGEST_MULTIPLIER = 1e9
# What is unknown of a Fourier sum may be this share of it before others are asked.
_UNKNOWN = 2e-3


@dataclass(frozen=True)
class Sampled(Loss):
    """`steps` releases, each of one of `records`, with noise of `multiplier` times the distance.

    Delta is tight to about 2 % down to 1e-20 if steps are many, far above 2^-49 a step if they are
    few; to orders of magnitude only below 1e-60. Where another bound becomes the least, it may
    rise with epsilon: by less than 0.1 %, or a factor of 3 at deltas below 1e-11.
    """

    kind = "sampled_gaussian"
    records: int
    multiplier: float
    steps: int
    mu: float = field(init=False, repr=False, compare=False)
    rho: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is no composition of samples."""
        if type(self.records) is not int or self.records < 1:
            raise ValueError(f"records must be an int of at least 1; got {self.records!r}")
        if type(self.steps) is not int or not 1 <= self.steps <= LARGEST_STEPS:
            raise ValueError(f"steps must be in [1, {LARGEST_STEPS}]; got {self.steps!r}")
        if not 1e-100 <= self.multiplier <= 1e100:
            raise ValueError(f"multiplier must be in [1e-100, 1e100]; got {self.multiplier!r}")
        mu = math.sqrt(self.steps) / self.multiplier
        object.__setattr__(self, "mu", mu)
        object.__setattr__(self, "rho", 0.5 * mu * mu)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the sum of the steps' divergences: tight to a fraction of a percent."""
        factor = min(self.multiplier, _LARGEST_MULTIPLIER)
        each = step_divergences(self.records, 1.0 / factor, orders)
        return np.asarray(self.steps * each)

    def delta(self, epsilon: float) -> float:
        """Return the least of the bounds that hold."""
        check_epsilon(epsilon)
        return _delta(self, float(epsilon))

    def epsilon(self, delta: float) -> float:
        """Return an epsilon; below 1e-299, where deltas underflow, that without secrecy."""
        if 0.0 < delta < 1e-299:
            return Gaussian(self.mu).epsilon(delta)
        return super().epsilon(delta)

    def __str__(self) -> str:
        """Return the loss in words."""
        return (
            f"{self.steps} Gaussian releases with noise multiplier {self.multiplier:.6g}, "
            f"each of one record of {self.records}, drawn with replacement"
        )


@lru_cache(maxsize=4096)
def _delta(loss: Sampled, epsilon: float) -> float:
    n, factor, k = loss.records, loss.multiplier, loss.steps
    best = gaussian_delta(epsilon, loss.mu)
    if n == 1 or epsilon == math.inf or factor < _LEAST_MULTIPLIER or best == 0.0:
        return best
    factor = min(factor, _LARGEST_MULTIPLIER)
    mu, rounding, unknown = 1.0 / factor, k * ROUNDING_PER_STEP, math.inf
    best = min(best, renyi_delta(divergences_of(loss), epsilon))
    # Transforms first where they are quick; a sum where their rounding, or its own, would show.
    if k <= FEW_STEPS and rounding < best:
        best = min(best, transformed_delta(epsilon, n, factor, k))
    if mu <= LARGEST_MU and (k > FEW_STEPS or rounding > _UNKNOWN * best):
        bound, unknown = least_composed_delta(epsilon, n, mu, k, best)
        best = min(best, bound)
    fits = FEW_STEPS < k <= MOST_TRANSFORMED and rounding < best
    if fits and unknown > max(_UNKNOWN * best, rounding):
        best = min(best, transformed_delta(epsilon, n, factor, k))
    return best
