"""Profiles of sums of a Gaussian, a two-point and many three-point privacy losses.

For a privacy loss L of P against Q, delta(epsilon) = E_P (1 - e^(epsilon - L))_+ and, with the
cumulant function K(z) = log E_P e^(zL),

    delta(epsilon) = 1/(2 pi i) * integral over c + iR of e^(K(z) - z epsilon) / (z (z + 1)) dz

for every c > 0. Two evaluations: the trapezoidal rule on that line through the saddle point, whose
discretisation error is positive and bounded by the Chernoff bound, and the sum over the lattice of
the three-point losses, whose law comes from one Fourier transform after an exponential tilt. Both
are exact to relative 1e-10; the cheaper one is taken.

Proof: ``docs/privacy/couplings.md``, section "Evaluation".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpoco.privacy.losses.loss import FloatArray
from dpoco.privacy.special import special_functions

__all__ = ["LossSum", "gaussian_delta_all", "log_delta"]

# Minus the log of the relative size of terms that may be dropped, with a margin for the estimates.
_NEGLIGIBLE = 38.0
# Twice this exponent is still far from the overflow of doubles at 709.
_LARGEST_EXPONENT = 300.0
_LOG_UNDERFLOW = -700.0


@dataclass(frozen=True)
class LossSum:
    """An independent sum of privacy losses, described under P.

    Attributes
    ----------
    mu : float
        Parameter of the Gaussian part, whose loss is N(mu^2/2, mu^2); at least 0.
    weights, losses : (float, float)
        Probabilities and values of the two-point part.
    trials : int
        Number of three-point parts, at least 1.
    rare : float
        Probability of the loss -step in one of them; +step has probability rare * e^step.
    step : float
        Above 0.
    """

    mu: float
    weights: tuple[float, float]
    losses: tuple[float, float]
    trials: int
    rare: float
    step: float

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """Return K(c) and its first two derivatives, for c >= 0."""
        share, _, log_total = self.tilted_pair(c)
        gap = self.losses[0] - self.losses[1]
        value = log_total + 0.5 * self.mu**2 * c * (c + 1.0)
        mean = self.losses[1] + share * gap + self.mu**2 * (c + 0.5)
        variance = share * (1.0 - share) * gap**2 + self.mu**2
        up, down, _, log_total = self.tilted_trial(c)
        value += self.trials * log_total
        mean += self.trials * self.step * (up - down)
        variance += self.trials * self.step**2 * (up + down - (up - down) ** 2)
        return value, mean, variance

    def tilted_pair(self, c: float) -> tuple[float, float, float]:
        """Return the two probabilities tilted by e^(c loss), and the log of their normaliser."""
        exponents = [c * loss for loss in self.losses]
        top = max(exponents)
        tilted = [w * math.exp(e - top) for w, e in zip(self.weights, exponents, strict=True)]
        total = tilted[0] + tilted[1]
        return tilted[0] / total, tilted[1] / total, top + math.log(total)

    def tilted_trial(self, c: float) -> tuple[float, float, float, float]:
        """Return the chances of +step, -step and 0 tilted by e^(c loss), and the log of the sum.

        The sum is 1 + rare (e^((c+1) step) - 1)(1 - e^(-c step)), which cancels nowhere.
        """
        excess = -self.rare * math.expm1((c + 1.0) * self.step) * math.expm1(-c * self.step)
        up = self.rare * math.exp((c + 1.0) * self.step) / (1.0 + excess)
        down = self.rare * math.exp(-c * self.step) / (1.0 + excess)
        return up, down, max(0.0, 1.0 - up - down), math.log1p(excess)


def log_delta(epsilon: float, loss: LossSum) -> float:
    """Return log delta(epsilon) of the sum for finite epsilon, or a bound on it below -700.

    Time O(100) to O(10^4) for the line, O(sqrt(trials)) for the lattice.
    """
    c, spread = _saddle_point(epsilon, loss)
    bound = _log_chernoff(epsilon, loss, c)
    if bound < _LOG_UNDERFLOW:
        return bound
    half_width = _lattice_half_width(c, loss)
    # On a line that does not pass through the saddle point, the terms would cancel.
    if loss.mu > 0.0 and (c + 1.0) * loss.step < 0.9 * _LARGEST_EXPONENT:
        period = _period(epsilon, loss, c, spread)
        nodes = math.sqrt(2.0 * _NEGLIGIBLE) / loss.mu * period / (2.0 * math.pi)
        if nodes < 5.0 * half_width + 500.0:
            return _line(epsilon, loss, c, 2.0 * math.pi / period, math.ceil(nodes))
    return _lattice(epsilon, loss, c, half_width)


def _saddle_point(epsilon: float, loss: LossSum) -> tuple[float, float]:
    """Return the minimiser c > 0 of K(c) - c epsilon - log(c (c + 1)) and the curvature there.

    The function is convex; every c is valid, so a rough minimiser is safe.
    """
    low, high = 0.0, max(_LARGEST_EXPONENT / loss.step - 1.0, 1e-3)
    ceiling = min(high, 1e12)
    c = min(1.0, 0.5 * ceiling)
    curvature = 1.0
    for _ in range(200):
        _, mean, variance = loss.cumulants(c)
        slope = mean - epsilon - 1.0 / c - 1.0 / (c + 1.0)
        curvature = variance + 1.0 / c**2 + 1.0 / (c + 1.0) ** 2
        if slope > 0.0:
            high = min(high, c)
        else:
            low = c
        # The minimiser lies above the ceiling. The ceiling is used, since every c is valid.
        if low >= ceiling:
            break
        following = c - slope / curvature
        if not low < following < high:
            following = min(4.0 * c, ceiling) if high >= ceiling else math.sqrt(low * high)
            if low == 0.0:
                following = 0.25 * c
        if abs(following - c) <= 1e-6 * c or following < 1e-12:
            break
        c = following
    return c, math.sqrt(curvature)


def _log_chernoff(epsilon: float, loss: LossSum, c: float) -> float:
    """Return a bound on log delta(epsilon): (1 - e^-x)_+ <= e^(cx) c^c / (1 + c)^(1 + c)."""
    value = loss.cumulants(c)[0] - c * epsilon
    return value - c * math.log1p(1.0 / c) - math.log1p(c)


def _period(epsilon: float, loss: LossSum, c: float, spread: float) -> float:
    """Return y = 2 pi / h, the alias distance at which the trapezoidal rule is exact enough.

    The rule returns the sum over all integers j of e^(c j y) delta(epsilon + j y). The terms
    with j != 0 are positive; Chernoff bounds on both sides make them negligible.
    """
    value = loss.cumulants(c)[0] - c * epsilon - math.log(c * (c + 1.0))
    log_size = value - math.log(spread) - 4.0 - _NEGLIGIBLE
    right = left = math.inf
    for k in (2.0, 4.0, 6.0, 8.0, 12.0):
        outer, inner = c + k / spread, c - k / spread
        if (outer + 1.0) * loss.step < 2.0 * _LARGEST_EXPONENT:
            right = min(right, (_log_chernoff(epsilon, loss, outer) - log_size) * spread / k)
        if inner > 0.0:
            left = min(left, (_log_chernoff(epsilon, loss, inner) - log_size) * spread / k)
    # On the left, delta <= 1 bounds a term by e^(-c y), so y >= -log_size / c suffices there.
    return max(right, min(left, -log_size / c), 1e-300)


def _line(epsilon: float, loss: LossSum, c: float, h: float, nodes: int) -> float:
    """Return log delta by the trapezoidal rule on c + iR with step h."""
    u: FloatArray = h * np.arange(nodes + 1, dtype=np.float64)
    # The modulus of the characteristic function of one tilted trial is sqrt(1 - 2x) <= e^-x with
    # this x, periodic in u.
    up, down, rest, log_total = loss.tilted_trial(c)
    x = rest * (up + down) * (1.0 - np.cos(loss.step * u))
    x += up * down * (1.0 - np.cos(2.0 * loss.step * u))
    # Nodes whose terms are below e^-38 of that at u = 0 are dropped.
    u = u[0.5 * loss.mu**2 * u * u + loss.trials * x <= _NEGLIGIBLE]
    top = loss.cumulants(c)[0]
    # log |e^(K(z) - K(c))| and its phase, term by term.
    log_size = -0.5 * loss.mu**2 * u * u
    phase = loss.mu**2 * (c + 0.5) * u - epsilon * u
    tilted = loss.tilted_pair(c)
    pair = sum(w * np.exp(1j * loss.losses[k] * u) for k, w in enumerate(tilted[:2]))
    first_real, first_imag = _expm1((c + 1.0) * loss.step, loss.step * u)
    second_real, second_imag = _expm1(-c * loss.step, -loss.step * u)
    real = -loss.rare * (first_real * second_real - first_imag * second_imag)
    imag = -loss.rare * (first_real * second_imag + first_imag * second_real)
    modulus = 0.5 * np.log1p(2.0 * real + real * real + imag * imag)
    log_size = log_size + loss.trials * (modulus - log_total)
    phase = phase + loss.trials * np.arctan2(imag, 1.0 + real)
    z = c + 1j * u
    terms = np.exp(log_size) * (pair * np.exp(1j * phase) / (z * (z + 1.0))).real
    total = float(terms[0] + 2.0 * terms[1:].sum()) * h / (2.0 * math.pi)
    return min(0.0, top - c * epsilon + math.log(total))


def _expm1(real: float, imag: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the parts of e^(real + i imag) - 1 without cancellation."""
    half = np.sin(0.5 * imag)
    grown = math.exp(real)
    return math.expm1(real) - 2.0 * grown * half * half, grown * np.sin(imag)


def _lattice_half_width(c: float, loss: LossSum) -> int:
    """Return the half width, around its tilted mean, of the range to sum the lattice law over."""
    up, down, rest, _ = loss.tilted_trial(c)
    # This is the variance, without cancellation.
    spread = math.sqrt(loss.trials * (rest * (up + down) + 4.0 * up * down))
    return min(2 * loss.trials, math.ceil(14.0 * spread) + 60)


def _lattice(epsilon: float, loss: LossSum, c: float, half_width: int) -> float:
    """Return log delta by summing over the lattice of the three-point losses."""
    up, down, rest, log_total = loss.tilted_trial(c)
    size = 1 << (2 * half_width).bit_length()
    centre = round(loss.trials * (up - down))
    angle = 2.0 * math.pi / size * np.arange(size // 2 + 1)
    # The real part has no cancellation near angle 0; the modulus is as in `_line`.
    half = np.sin(0.5 * angle)
    x = 2.0 * rest * (up + down) * half * half + 2.0 * up * down * np.sin(angle) ** 2
    real = rest + (up + down) * np.cos(angle)
    turn = loss.trials * np.arctan2((up - down) * np.sin(angle), real) - centre * angle
    with np.errstate(divide="ignore"):
        modulus = 0.5 * loss.trials * np.log1p(-np.minimum(2.0 * x, 1.0))
    # irfft returns sum over angles of spectrum e^(i k angle): the conjugate gives the law.
    law = np.fft.irfft(np.exp(modulus - 1j * turn), size)
    k = centre + np.arange(-size // 2, size // 2, dtype=np.float64)
    # The transform leaves rounding errors of either sign where chances are tiny.
    law = np.maximum(np.roll(law, size // 2), 0.0)
    keep = (np.abs(k) <= loss.trials) & (law > 0.0)
    law, scale = law[keep], loss.trials * log_total
    shifted: FloatArray = loss.step * k[keep]
    total = np.zeros_like(shifted)
    for weight, value in zip(loss.weights, loss.losses, strict=True):
        total += weight * gaussian_delta_all(epsilon - value - shifted, loss.mu)
    with np.errstate(divide="ignore"):
        log_terms = np.log(law) - c * shifted + np.log(total)
    top = float(log_terms.max())
    if top == -math.inf:
        return -math.inf
    return min(0.0, scale + top + math.log(float(np.exp(log_terms - top).sum())))


def gaussian_delta_all(epsilon: FloatArray, mu: float) -> FloatArray:
    """Return delta(epsilon; mu) of the Gaussian profile for an array of any real epsilon.

    For negative epsilon, delta(-e) = 1 - e^-e + e^-e delta(e). Relative error below 1e-10.
    """
    erfcx, ndtr = special_functions().erfcx, special_functions().ndtr
    if mu == 0.0:
        return np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0)
    size = np.abs(epsilon)
    a = 0.5 * mu - size / mu
    density = np.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
    root = math.sqrt(0.5)
    scale = math.sqrt(0.5 * math.pi)
    if mu < 1e-4:
        # The drop of the Mills ratio from -a to mu - a is the integral of 1 - t mills(t).
        drop = np.zeros_like(a)
        for node, weight in zip(*np.polynomial.legendre.leggauss(3), strict=True):
            t = 0.5 * mu * (1.0 + float(node)) - a
            drop += 0.5 * mu * float(weight) * (1.0 - scale * t * erfcx(root * t))
        delta = density * np.maximum(drop, 0.0)
    else:
        tail = scale * erfcx(root * (mu - a))
        near = scale * erfcx(root * np.maximum(-a, 0.0))
        delta = np.where(a > 0.0, ndtr(a) - density * tail, density * (near - tail))
    positive = np.clip(delta, 0.0, 1.0)
    shrunk = np.exp(-size)
    return np.where(epsilon >= 0.0, positive, shrunk * positive - np.expm1(-size))
