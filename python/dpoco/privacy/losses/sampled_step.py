"""One step of the sampled Gaussian mechanism as finitely many losses that dominate it.

With y = 1 + (exp(x) - 1) / n and X of law N(-mu^2/2, mu^2), the step's profile is that of a pair of
laws whose loss is log y with density y phi(x), and -log y with density phi(x), x > 0, and else 0.
Moving the mass of phi between two grid points to its ends, such that both its size and the mean of
exp(x) stay, can only raise a hockey-stick divergence or a moment, as these are convex in y.

Proof: ``docs/privacy/batch_baselines.md``, section "Numbers".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpoco.privacy.losses.loss import ORDERS, FloatArray

__all__ = ["SampledStep", "sampled_step", "step_divergences"]

LARGEST_MU = 8.0
_CELLS = 64.0  # per deviation of X, near 0: inflates the loss's variance by about 1e-4
_BULK = 3.0  # deviations from where cells widen in proportion
# Logarithms of the inverse mass that all steps may have beyond the grid, which is charged to delta:
# a grid that reaches far bounds how much it may be tilted.
REACHES = (36.0, 45.0, 60.0, 80.0, 140.0)
# Inflates masses to cover their rounding: symmetric pairs taken from the loss 0, a worse law.
_MASS_ROUNDING = 2.0**-40
_POINTS_AT_ONCE = 2**19
_MULTIPLIED_AT_ONCE = 2**17


@dataclass(frozen=True)
class SampledStep:
    """Losses l_j > 0, the masses of -l_j, the mass of an infinite loss, and the end of the grid.

    The mass of l_j is exp(l_j) times that of -l_j; the loss 0 has the rest.
    """

    losses: FloatArray
    masses: FloatArray
    beyond: float
    top: float  # where the grid of X / mu ends

    @property
    def largest_tilt(self) -> float:
        """Largest real argument at which moments do not overflow."""
        return 600.0 / float(self.losses[-1]) - 1.0

    def moment_excess(self, s: FloatArray) -> FloatArray:
        """Return E exp(s L) - 1 for real s >= 0, with the relative accuracy of a sum of m terms.

        As exp(l) (exp(s l) - 1) + exp(-s l) - 1 = (1 - exp(-s l)) (exp((s + 1) l) - 1).
        """
        rows = max(1, _POINTS_AT_ONCE // len(self.losses))
        parts = []
        for first in range(0, len(s), rows):
            at = np.multiply.outer(s[first : first + rows], self.losses)
            parts.append((-np.expm1(-at) * np.expm1(at + self.losses)) @ self.masses)
        return np.concatenate(parts)

    def moments_on_line(
        self, theta: float, spacing: float, count: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E exp(s L) - 1 at s = theta + i k spacing, k < count: real, imaginary, rounding.

        With w = exp(i k spacing l) - 1, what depends on k is the sum of m exp((1 + theta) l) w and
        m exp(-theta l) conj(w). A w is v + v' + v v' of a fine and a coarse angle, so that sums for
        all k are matrix products: O(m sqrt(count)) sines, O(m count) multiplications.
        """
        up = self.masses * np.exp((1.0 + theta) * self.losses)
        down = self.masses * np.exp(-theta * self.losses)
        far = (1.0 + 2.0 * theta) * self.losses
        odd = np.where(far < 1.0, down * np.expm1(np.minimum(far, 1.0)), up - down)
        even = up + down
        block = math.isqrt(count - 1) + 1
        fine = np.multiply.outer(spacing * np.arange(block), self.losses)
        coarse = np.multiply.outer(spacing * np.arange(0, count, block), self.losses)
        c, s = -2.0 * np.square(np.sin(0.5 * fine)), np.sin(fine)
        c_far, s_far = -2.0 * np.square(np.sin(0.5 * coarse)), np.sin(coarse)
        real = _sums(c_far * even, c * even) + _products(c_far * even, c)
        real -= _products(s_far * even, s)
        imaginary = _sums(s_far * odd, s * odd) + _products(s_far * odd, c)
        imaginary += _products(c_far * odd, s)
        still = float(self.moment_excess(np.array([theta]))[0])
        real += still
        t = np.asarray(spacing * np.arange(count), dtype=np.float64)
        rounding = self._rounding(t, even, odd, still, (1.0 + theta) * float(self.losses[-1]))
        return real.ravel()[:count], imaginary.ravel()[:count], rounding

    def _rounding(
        self, t: FloatArray, even: FloatArray, odd: FloatArray, still: float, largest: float
    ) -> FloatArray:
        """Return a bound on the rounding of moments at frequencies t.

        Of angles y = t l, what is added up is at most min(y^2, 9) and min(3 y, 6) times the
        weights, each off by some units, an exponential by as many as its argument is large, and
        their sum by one for each term. Angles are off by units of themselves.
        """
        units = len(self.losses) + 64.0 + largest
        near_even, far_even = _sums_up_to(self.losses, even * self.losses**2, even, 3.0, t)
        near_odd, far_odd = _sums_up_to(self.losses, odd * self.losses, odd, 2.0, t)
        added = still + t * t * near_even + 9.0 * far_even + 3.0 * t * near_odd + 6.0 * far_odd
        turned = (even + odd) * self.losses
        return 2.0**-52 * (
            units * added + 2.0 * t * _sums_up_to(self.losses, turned, turned, 2.0, t)[1]
        )


def _sums(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the sum of every row of `a` plus that of every row of `b`."""
    return np.asarray(np.add.outer(a.sum(axis=1), b.sum(axis=1)))


def _products(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a b', some rows at a time.

    Few enough that the library starts no threads: on a busy machine to wait for them takes far
    longer than a product.
    """
    rows = max(1, _MULTIPLIED_AT_ONCE // b.size)
    parts = [a[first : first + rows] @ b.T for first in range(0, len(a), rows)]
    return np.concatenate(parts)


def _sums_up_to(
    losses: FloatArray, near: FloatArray, far: FloatArray, angle: float, t: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of `near` over losses of at most angle / t, and of `far` over the others."""
    with np.errstate(divide="ignore"):
        j = np.searchsorted(losses, angle / t, side="right")
    zero = np.zeros(1)
    below = np.concatenate([zero, np.cumsum(near)])
    above = np.concatenate([np.cumsum(far[::-1])[::-1], zero])
    return below[j], above[j]


@lru_cache(maxsize=64)
def sampled_step(records: int, mu: float, steps: int, reach: float = REACHES[-1]) -> SampledStep:
    """Return the grid of a step that is taken `steps` times, for mu <= 8.

    Parameters
    ----------
    records : int
        n, at least 2.
    mu : float
        Largest distance of two vectors over the noise's standard deviation.
    steps : int
        K, which says how far out a step's mass counts.
    reach : float
        Logarithm of the inverse mass that all steps may have beyond the grid.
    """
    from scipy.special import ndtr

    rate = 1.0 / records
    top = 0.5 * mu + math.sqrt(2.0 * (reach + max(0.0, math.log(steps * rate))))
    cells = math.ceil(_CELLS * _BULK * math.asinh(top / _BULK))
    grid = _BULK * np.sinh(np.arange(cells + 1) / (_CELLS * _BULK))
    # Gauss-Legendre with 8 points a cell: the error is far below rounding, and no term is negative.
    points, weights = np.polynomial.legendre.leggauss(8)
    half = 0.5 * np.diff(grid)[:, None]
    inside = half * (points + 1.0)
    at = grid[:-1, None] + inside + 0.5 * mu
    density = np.exp(-0.5 * at * at) * (weights * half / math.sqrt(2.0 * math.pi))
    share = np.expm1(mu * inside) / np.expm1(2.0 * mu * half)
    masses = np.zeros(cells + 1)
    masses[1:] += np.sum(density * share, axis=1)
    masses[:-1] += np.sum(density * (1.0 - share), axis=1)
    last = float(grid[-1])
    masses[-1] += float(ndtr(-0.5 * mu - last))
    x = mu * grid[1:]
    losses = np.where(
        x < 1.0,
        np.log1p(rate * np.expm1(np.minimum(x, 1.0))),
        np.logaddexp(math.log1p(-rate), math.log(rate) + x),
    )
    beyond = rate * float(ndtr(0.5 * mu - last))
    return SampledStep(losses, masses[1:] * (1.0 + _MASS_ROUNDING), beyond, last)


def step_divergences(records: int, mu: float, order: FloatArray = ORDERS) -> FloatArray:
    """Return bounds on a step's Renyi divergences, either way, of orders > 1.

    Beyond the grid y is at most a constant times exp(x), whose moments are those of a Gaussian.
    None exceeds the divergence without the secrecy of the index.
    """
    from scipy.special import log_ndtr

    result: FloatArray = 0.5 * order * mu * mu
    if records > 1 and mu <= LARGEST_MU:
        tilt = order - 1.0
        step = sampled_step(records, mu, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            inner = np.asarray(step.moment_excess(tilt), dtype=np.float64)
            # y exp(-x) falls: no more than at the last grid point.
            shrinking = order * (float(step.losses[-1]) - mu * step.top)
            outer = np.exp(tilt * result + shrinking + log_ndtr((order - 0.5) * mu - step.top))
            found = np.log1p(inner + outer) / tilt * (1.0 + 2.0**-30)
        result = np.fmin(result, found)  # NaN where moments overflow
    return result
