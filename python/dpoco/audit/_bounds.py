"""Confidence bounds without assumptions: of a distribution, and of the mean of bounded values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["deviation", "distance_to_uniform", "dkw", "fewest_trials", "mean_at_least"]

FloatArray = NDArray[np.float64]

# Trials whose uniform bound is wider than this show nothing.
_WIDEST = 0.25


def dkw(count: int, error: float) -> float:
    """Return how far an empirical distribution may be off anywhere, both sides.

    Dvoretzky, Kiefer and Wolfowitz with Massart's constant: exceeded with probability at most
    `error`.
    """
    return math.sqrt(math.log(2.0 / error) / (2.0 * count))


def fewest_trials(error: float) -> int:
    """Return how many trials make that at most 1/4."""
    return math.ceil(math.log(2.0 / error) / (2.0 * _WIDEST**2))


def deviation(values: FloatArray, top: float, error: float) -> float:
    """Return how far the mean of values in [0, top] may be from its expectation, both sides.

    Empirical Bernstein (Maurer and Pontil, 2009) or Hoeffding, the smaller; exceeded with
    probability at most `error`.
    """
    return min(_bernstein(values, top, error / 4.0), _hoeffding(values, top, error / 4.0))


def mean_at_least(values: FloatArray, top: float, error: float) -> float:
    """Return a lower bound on the expectation of values in [0, top], by the same."""
    width = min(_bernstein(values, top, error / 2.0), _hoeffding(values, top, error / 2.0))
    return float(values.mean()) - width


def _bernstein(values: FloatArray, top: float, error: float) -> float:
    n = len(values)
    log = math.log(2.0 / error)
    return math.sqrt(2.0 * float(values.var(ddof=1)) * log / n) + 7.0 * top * log / (3.0 * (n - 1))


def _hoeffding(values: FloatArray, top: float, error: float) -> float:
    return top * math.sqrt(math.log(1.0 / error) / (2.0 * len(values)))


def distance_to_uniform(values: FloatArray) -> float:
    """Return the largest distance of an empirical distribution from the uniform one on [0, 1]."""
    ordered = np.sort(values)
    grid = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.max(grid[1:] - ordered), np.max(ordered - grid[:-1])))
