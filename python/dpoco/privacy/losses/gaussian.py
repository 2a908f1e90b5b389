"""The exact loss of Gaussian noise (Gaussian differential privacy, GDP).

Claim: releasing ``f(S) + N(0, sigma^2 I)`` with l2 sensitivity D is mu-GDP with mu = D / sigma, and
mu-GDP is equivalent to (epsilon, delta(epsilon))-privacy for every epsilon >= 0 with

    delta(epsilon; mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

Proof: ``docs/privacy/gaussian.md``. Sources: Balle and Wang, "Improving the Gaussian mechanism for
differential privacy: analytical calibration and optimal denoising" (2018); Dong, Roth and Su,
"Gaussian differential privacy" (2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpoco.privacy.losses.loss import SMALLEST_DELTA, Loss, charge, check_delta, check_epsilon
from dpoco.privacy.special import special_functions

__all__ = ["Gaussian", "gaussian_delta", "log_gaussian_delta", "turning_point"]

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
# Margins added to log delta, larger than its error; the second covers the argument's rounding.
_MARGIN, _ARGUMENT = 2.0**-40, 2.0**-51


@dataclass(frozen=True)
class Gaussian(Loss):
    """Neighbouring streams are at most as easy to tell apart as N(0, 1) and N(mu, 1)."""

    kind = "gdp"
    mu: float = field()
    rho: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that are not bounds; order * mu^2 / 2 bounds every divergence."""
        self.require("mu")
        object.__setattr__(self, "rho", 0.5 * self.mu * self.mu)

    def delta(self, epsilon: float) -> float:
        """Return the exact curve, rounded up."""
        return gaussian_delta(epsilon, self.mu)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon; infinite from mu = 1e8 on, where doubles do not resolve it."""
        check_delta(delta)
        return math.inf if self.mu >= 1e8 else super().epsilon(delta)

    def delta_with_tails(self, epsilon: float, mass: float) -> float:
        """Return the curve of a law within `mass`, at the best e <= epsilon (in closed form)."""
        # At mu = 0 the curve is 0 everywhere and e = 0 has the least charge; at mu = infinity, and
        # from mass 1/2 on, the answer is 1.
        if not 0.0 < self.mu < math.inf or mass >= 0.5:
            return min(1.0, self.delta(epsilon) + charge(0.0, mass))
        # A bound at e holds at every epsilon above e (docs/privacy/noise.md, "Curve and
        # calibration").
        at = min(epsilon, turning_point(self.mu, mass))
        return min(1.0, self.delta(at) + charge(at, mass))


def turning_point(mu: float, mass: float) -> float:
    """Return the epsilon >= 0 at which delta(epsilon; mu) + (1 + e^epsilon) mass is lowest.

    The sum decreases up to the epsilon with Phi(-mu/2 - epsilon/mu) = mass and increases beyond.
    """
    return max(0.0, -mu * (float(special_functions().ndtri(mass)) + 0.5 * mu))


def _mills(x: float) -> float:
    """Return Phi(-x) / phi(x), the Mills ratio of the normal law."""
    return math.sqrt(math.pi / 2.0) * float(special_functions().erfcx(x / math.sqrt(2.0)))


def _mills_drop(x: float, width: float) -> float:
    """Return mills(x) - mills(x + width) as the integral of -mills' = 1 - t mills(t)."""
    t = x + 0.5 * width * (1.0 + _NODES)
    if x > 30.0:
        # 1 - t mills(t) cancels; its asymptotic series is exact to 1e-16 here.
        y = 1.0 / (t * t)
        series = np.ones_like(t)
        for k in range(9, 0, -1):
            series = 1.0 - (2 * k + 1) * y * series
        slope = y * series
    else:
        slope = 1.0 - t * math.sqrt(math.pi / 2.0) * special_functions().erfcx(t / math.sqrt(2.0))
    return 0.5 * width * float(_WEIGHTS @ slope)


def log_gaussian_delta(epsilon: float, mu: float) -> float:
    """Return log delta(epsilon; mu), rounded up, for finite epsilon >= 0 and mu > 0.

    Since e^epsilon phi(-mu/2 - epsilon/mu) = phi(mu/2 - epsilon/mu), delta is the normal density
    times a difference of Mills ratios; written so, no branch subtracts nearly equal numbers.
    """
    # Three forms of one formula: each is used where it subtracts no nearly equal numbers
    # (docs/privacy/gaussian.md, "Numerical evaluation").
    a = 0.5 * mu - epsilon / mu
    up = _MARGIN + _ARGUMENT * (1.0 + abs(a)) * (mu + epsilon / mu)
    if mu <= max(1.0, -0.25 * a):
        drop = _mills_drop(-a, mu)
    elif a <= 0.0:
        drop = _mills(-a) - _mills(mu - a)
    else:
        density = math.exp(-0.5 * a * a - _LOG_SQRT_2PI)
        return math.log(float(special_functions().ndtr(a)) - density * _mills(mu - a)) + up
    return -0.5 * a * a - _LOG_SQRT_2PI + math.log(drop) + up


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta such that mu-GDP implies (epsilon, delta)-privacy.

    Parameters
    ----------
    epsilon : float
        At least 0; may be infinite (then delta is 0).
    mu : float
        At least 0; may be infinite (then delta is 1).

    Returns
    -------
    float
        In [0, 1], never below the truth; for mu < 1000 above it by a relative 1e-10 at most, down
        to 1e-300.
    """
    check_epsilon(epsilon)
    if not mu >= 0.0:
        raise ValueError(f"mu must be at least 0; got {mu!r}")
    if mu == 0.0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    if 0.5 * mu - epsilon / mu < -40.0:  # below exp(-800)
        return SMALLEST_DELTA
    return min(1.0, math.exp(min(0.0, log_gaussian_delta(epsilon, mu))) + SMALLEST_DELTA)
