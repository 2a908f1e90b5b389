"""Numerical composition that shares nothing with the library: a bracket of the true curve.

The law of one step's privacy loss is cut into cells. Moved to the upper ends of their cells the
masses compose to an upper bound of delta(epsilon), moved to the lower ends to a lower bound; the
composition is a power of a discrete Fourier transform, exact to 1e-13.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


class Bracket:
    """Two curves around the true one, in one direction (P against Q)."""

    def __init__(self, below, above):
        self._below, self._above = below, above

    def low(self, epsilon):
        return max(0.0, self._below(epsilon) - 1e-13)

    def high(self, epsilon):
        return min(1.0, self._above(epsilon) + 1e-13)

    def epsilon_of(self, delta):
        """The epsilon at which the lower curve comes down to `delta`, from below."""
        low, high = 0.0, 64.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.low(middle) > delta else (low, middle)
        return low


def curve_of(start, width, masses, lost):
    """delta(epsilon) of masses at start, start + width, ... and of mass at infinity."""
    first = max(0, math.floor(-start / width))  # losses below 0 do not matter for epsilon >= 0
    masses = masses[first:]
    losses = start + width * (first + np.arange(masses.size))
    tail = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    other = np.append(np.cumsum((masses * np.exp(-losses))[::-1])[::-1], 0.0)

    def curve(epsilon):
        at = int(np.searchsorted(losses, epsilon, side="right"))
        return float(tail[at] - math.exp(min(epsilon, 700.0)) * other[at]) + lost

    return curve


def composed(cdf, count, lowest, highest):
    """The bracket of `count` steps whose loss under P has the law `cdf` on [lowest, highest]."""
    coarse = np.linspace(lowest, highest, 4001)
    mass = np.diff(np.concatenate([[0.0], cdf(coarse)]))
    mean = float(mass @ coarse)
    spread = math.sqrt(max(float(mass @ (coarse - mean) ** 2), 1e-30))
    # Cells so small that all roundings together are a small share of the sum's deviation.
    fineness = max(100.0, 10000.0 / count)
    width = spread * math.sqrt(count) / (fineness * count)
    first, last = math.floor(lowest / width), math.ceil(highest / width)
    edges = width * np.arange(first - 1, last + 1)
    cells = np.diff(cdf(edges))  # (edge[i], edge[i + 1]]
    outside = max(0.0, 1.0 - float(cdf(edges[-1:])[0]))
    cells[0] += float(cdf(edges[:1])[0])  # moved up: an upper bound
    reach = max(highest - lowest, 14.0 * spread * math.sqrt(count))
    size = 1 << math.ceil(math.log2(2.2 * reach / width + 64))
    center = round(count * mean / width)
    curves = []
    for shift in (-1, 0):  # lower and upper ends of the cells (first - 1 + i, first + i]
        at = np.arange(cells.size) + first + shift
        wrapped = np.bincount(at % size, weights=cells, minlength=size)
        power = np.fft.irfft(np.fft.rfft(wrapped) ** count, size)
        start = center - size // 2
        masses = np.maximum(np.roll(power, -(start % size)), 0.0)
        lost = count * outside if shift == 0 else 0.0
        curves.append(curve_of(start * width, width, masses, lost))
    return Bracket(*curves)


def normal_cdf(x):
    from scipy.special import ndtr

    return ndtr(x)


@lru_cache(maxsize=32)
def gaussian(mu, count):
    """Noise N(0, 1), means mu apart."""
    middle, reach = 0.5 * mu * mu, 8.5 * mu
    return composed(lambda x: normal_cdf((x - middle) / mu), count, middle - reach, middle + reach)


@lru_cache(maxsize=32)
def laplace(shift, count):
    """Noise of density exp(-|z|) / 2, means `shift` apart; the loss has atoms at +-shift."""

    def cdf(x):
        # Loss |z - shift| - |z| of z ~ Laplace(0): decreasing in z, so P(loss <= x) = P(z >= z(x)).
        z = 0.5 * (shift - np.clip(x, -shift, shift))
        inside = 0.5 * np.exp(-z)
        return np.where(x >= shift, 1.0, np.where(x < -shift, 0.0, inside))

    return composed(cdf, count, -shift, shift)


def two_outcomes(top, reach, count):
    """delta of `count` draws whose loss is `top` or `top - reach`: enumeration, any epsilon."""
    from scipy.special import gammaln

    up = -math.expm1(top - reach) / -math.expm1(-reach)  # under P: sum of Q = 1
    k = np.arange(count + 1.0)  # draws at the top
    choices = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
    masses = np.exp(choices + k * math.log(up) + (count - k) * math.log1p(-up))
    losses = count * (top - reach) + k * reach
    return lambda epsilon: float(masses @ np.maximum(0.0, -np.expm1(epsilon - losses)))


def randomised_responses(epsilon, count, at):
    """Exact delta of `count` responses at `at`, in 50 digits: enumeration of the number kept."""
    from mpmath import binomial, mp, mpf

    with mp.workdps(50):
        keep = 1 / (1 + mp.exp(-mpf(epsilon)))
        total = mpf(0)
        for kept in range(count + 1):
            weight = binomial(count, kept) * keep**kept * (1 - keep) ** (count - kept)
            loss = (2 * kept - count) * mpf(epsilon)
            if loss > at:
                total += weight * (1 - mp.exp(mpf(at) - loss))
        return float(total)
