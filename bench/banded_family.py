"""Bands wider than the separation of a person's rounds, between `banded` and Toeplitz sums.

    python bench/banded_family.py

prints, for several n, k and b, the least root mean square noise at unit sensitivity of the sums
that the package offers and of bands of any width. Wide bands have columns of one length but for
weights of windows: coefficients do not increase and weights do not, so that the rounds 0, b, 2b,
... are the worst pattern (docs/privacy/participation.md). Needs three minutes of one core.
"""

from __future__ import annotations

import math

import numpy as np

from dpoco.accounting import continual_sum
from dpoco.privacy.neighbours import Neighbours

CASES = ((10, 100), (20, 50), (5, 100), (2, 500), (10, 10), (100, 10))
ROUNDS = 1000
POWERS = (0.4, 0.45, 0.5, 0.55, 0.6, 0.65)
WIDTHS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # in separations
TILTS = (0.0, 0.05, 0.15, 0.3)


def coefficients(power: float, band: int) -> np.ndarray:
    """Return the first coefficients of (1 - x)^-power."""
    i = np.arange(1, band)
    return np.cumprod([1.0, *((i - 1 + power) / i)])


def inverse(c: np.ndarray) -> np.ndarray:
    """Return the coefficients of 1/c, shape (ROUNDS,)."""
    found = np.zeros(ROUNDS)
    found[0] = 1.0
    for t in range(1, ROUNDS):
        lags = min(t, len(c) - 1)
        found[t] = -(c[1 : lags + 1] @ found[t - lags : t][::-1])
    return found


def errors(c: np.ndarray, weights: np.ndarray, rounds: int, apart: int) -> tuple[float, float]:
    """Return S times the noise, in root mean square and of the worst sum."""
    column, response = np.zeros(ROUNDS), inverse(c)
    for start in range(0, min(ROUNDS, rounds * apart), apart):
        size = min(len(c), ROUNDS - start)
        column[start : start + size] += weights[start] * c[:size]
    variance = np.zeros(ROUNDS)
    for draw in range(ROUNDS):
        moved = np.cumsum(response[: ROUNDS - draw] / weights[draw:])
        variance[draw:] += moved**2
    norm = float(np.linalg.norm(column))
    return norm * math.sqrt(variance.mean()), norm * math.sqrt(variance.max())


def wide(rounds: int, apart: int, widths: tuple[float, ...]) -> tuple[float, float, int, float]:
    """Return errors, band and power of the best band."""
    found = []
    for power in POWERS:
        for band in {min(ROUNDS, round(f * apart)) for f in widths}:
            for tilt in TILTS:
                left = np.maximum(rounds - np.arange(ROUNDS) // apart, 1.0)
                pair = errors(coefficients(power, band), left**tilt, rounds, apart)
                found.append((*pair, band, power))
    return min(found)


def main() -> None:
    """Print one line a case."""
    print("| k, b | Toeplitz | searched | `banded` | bands p > b |\n|---|---|---|---|---|")
    for rounds, apart in CASES:
        near = Neighbours(rounds=rounds, separation=apart)
        root, levels, *others = (
            continual_sum.mean_error(each, ROUNDS, near)
            for each in (
                "toeplitz",
                continual_sum.choose_buffers(ROUNDS, near),
                *continual_sum.bands(ROUNDS, near),
            )
        )
        best = wide(rounds, apart, WIDTHS[1:])
        print(
            f"| {rounds}, {apart} | {root:.2f} | {levels:.2f} | {min(others):.2f} "
            f"| {best[0]:.2f} ({best[2]}, {best[3]:g}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
