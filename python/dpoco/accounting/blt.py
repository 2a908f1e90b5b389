"""Buffered linear Toeplitz (BLT) noise: shipped parameters and exact norms.

The encoder C is lower-triangular Toeplitz with c_0 = 1, c_i = sum_j omega_j (1 - s_j)^(i-1); the
decoder B = A C^{-1} (A: prefix sums) has coefficients b_t = b_0 + sum_j gamma_j (1 - g_j)^t.

Claim: for n leaves of sensitivity D the released sums with noise scale sigma are mu-GDP,
mu = D column_norm(n) / sigma. Only the column norm at the actual horizon enters: any parameters are
safe, the table below only decides the accuracy.

Proof: ``docs/privacy/continual_sum.md``. Source: Dvijotham, McMahan, Pillutla, Steinke and
Thakurta, "Efficient and near-optimal noise generation for streaming differential privacy" (2024);
the parameters are our own numerical optimisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import positive_int
from dpoco.privacy.mechanisms.factorisations import SHIPPED

__all__ = ["HORIZONS", "BLTParameters", "blt_parameters", "shipped_horizon"]

FloatArray = NDArray[np.float64]

HORIZONS = tuple(SHIPPED)


@dataclass(frozen=True, eq=False)
class BLTParameters:
    """Decay rates, weights and exact norms of one BLT factorisation.

    Attributes
    ----------
    horizon : int
        Horizon the parameters were optimised for (they are valid for every horizon).
    decay, weights : ndarray, shape (buffers,)
        s_j in (0, 1) increasing and omega_j > 0 of the encoder.
    g, gamma : ndarray, shape (buffers,)
        Decay rates, in (0, 1), and weights of the decoder.
    b0 : float
        Constant term of the decoder's coefficients (their limit).
    """

    horizon: int
    decay: FloatArray
    weights: FloatArray
    g: FloatArray
    gamma: FloatArray
    b0: float

    def row_norm(self, t: ArrayLike) -> Any:
        """Return the l2 norm of row t of the decoder; float for a scalar, else an array.

        It increases with t: row t holds the first t coefficients.

        Parameters
        ----------
        t : int or array_like of int
            Rounds, at least 1.
        """
        rounds = np.asarray(t, dtype=np.float64)
        pairs = list(zip(self.gamma, self.g, strict=True))
        squared = rounds * self.b0**2 + _quadratic(self.gamma, self.g, rounds)
        squared = squared + 2.0 * self.b0 * sum(w * _geometric(x, rounds) for w, x in pairs)
        norm = np.sqrt(squared)
        return float(norm) if rounds.ndim == 0 else norm

    def mean_square_row(self, n: int) -> float:
        """Return the mean of row_norm(t)^2 over t = 1..n, in closed form."""
        n = positive_int("n", n)
        pairs = list(zip(self.gamma, self.g, strict=True))
        total = 0.5 * n * (n + 1.0) * self.b0**2
        total += 2.0 * self.b0 * sum(w * _geometric_sum(x, n) for w, x in pairs)
        total += sum(v * w * _geometric_sum(x + y - x * y, n) for v, x in pairs for w, y in pairs)
        return float(total) / n

    def encoder(self, n: int) -> FloatArray:
        """Return the coefficients c_0..c_{n-1}, shape (n,)."""
        powers = np.power.outer(1.0 - self.decay, np.arange(positive_int("n", n) - 1))
        return np.concatenate([[1.0], self.weights @ powers])

    def decoder(self, n: int) -> FloatArray:
        """Return the coefficients b_0..b_{n-1}, shape (n,)."""
        powers = np.power.outer(1.0 - self.g, np.arange(positive_int("n", n)))
        return np.asarray(self.b0 + self.gamma @ powers, dtype=np.float64)


def shipped_horizon(pushes: int) -> int:
    """Return the smallest tabulated horizon that covers `pushes`, or the largest there is."""
    pushes = positive_int("horizon", pushes)
    return next((key for key in HORIZONS if key >= pushes), HORIZONS[-1])


def blt_parameters(horizon: int) -> BLTParameters:
    """Return the shipped parameters for `horizon` pushes: see `shipped_horizon`."""
    return _build(shipped_horizon(horizon))


@cache
def _build(key: int) -> BLTParameters:
    decay, weights = SHIPPED[key].decay, SHIPPED[key].weights
    g = [_decoder_rate(j, decay, weights) for j in range(len(decay))]
    rates = np.array([rate for rate, _ in g])
    # gamma_j = (u_j . sqrt(omega))^2 / g_j for the unit eigenvector u_j prop. to
    # sqrt(omega_i) / (s_i - g_j), which simplifies by the secular equation.
    gamma = np.array([1.0 / (rate * spread) for rate, spread in g])
    s, omega = np.array(decay), np.array(weights)
    for array in (s, omega, rates, gamma):
        array.setflags(write=False)
    return BLTParameters(key, s, omega, rates, gamma, b0=1.0 - math.fsum(gamma))


def _decoder_rate(
    j: int, decay: tuple[float, ...], weights: tuple[float, ...]
) -> tuple[float, float]:
    """Return the j-th eigenvalue g of diag(s) + sqrt(w) sqrt(w)^T and sum_i w_i / (s_i - g)^2.

    The eigenvalues interlace the s_i; solving the secular equation for g - s_j keeps full relative
    accuracy for the smallest of them, which a dense eigensolver would lose.
    """
    gaps = [s - decay[j] for s in decay]
    terms = list(zip(weights, gaps, strict=True))
    low, high = 0.0, gaps[j + 1] if j + 1 < len(decay) else math.fsum(weights)
    while True:
        shift = 0.5 * (low + high)
        if not low < shift < high:
            break
        if 1.0 + math.fsum(w / (gap - shift) for w, gap in terms) < 0.0:
            low = shift
        else:
            high = shift
    return decay[j] + shift, math.fsum(w / (gap - shift) ** 2 for w, gap in terms)


def _geometric(x: float, m: Any) -> Any:
    """Return sum_{t < m} (1 - x)^t for x in (0, 1), any shape of m."""
    return -np.expm1(m * math.log1p(-x)) / x


def _geometric_sum(x: float, n: int) -> float:
    """Return sum_{t=1..n} of _geometric(x, t)."""
    return float((n - (1.0 - x) * _geometric(x, float(n))) / x)


def _quadratic(weights: FloatArray, rates: FloatArray, m: Any) -> Any:
    """Return sum_ij w_i w_j sum_{t < m} ((1 - x_i)(1 - x_j))^t, any shape of m."""
    m = np.asarray(m, dtype=np.float64)
    total = np.zeros_like(m)
    for i, x in enumerate(rates):
        for j in range(i + 1):
            y = rates[j]
            term = weights[i] * weights[j] * _geometric(float(x + y - x * y), m)
            total = total + (term if i == j else 2.0 * term)
    return total
