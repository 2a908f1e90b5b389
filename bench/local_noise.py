"""Noise of pure local reports and of reports with a delta: the table of local_vector_channels.md.

Run ``python bench/local_noise.py``. Each entry is the mean squared error of a loss estimated from
one report by the channel with a delta, over that of one bit about one loss at random, which is
pure. Both estimate values of one range; averages of n reports have 1/n of both errors.
"""

from __future__ import annotations

import math

from dpoco.accounting.gaussian import gaussian_mu
from dpoco.local import BitRandomizer
from dpoco.reproduce import printed_scale_factor

HYPOTHESES = (2, 8, 64, 1024)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
DELTAS = (1e-2, 1e-4, 1e-6, 1e-9)
_DIGITS = 2**20  # lattice steps in a range, at least half as many


def pure_error(hypotheses: int, epsilon: float) -> float:
    """Return the largest error for values in [-1, 1], with the contrast as sampled: K C^2."""
    return hypotheses * BitRandomizer(epsilon).inverse_contrast ** 2


def laplace_error(scale: float) -> float:
    """Return the variance of discrete Laplace noise of this scale, on 2^20 steps for [-1, 1]."""
    step = 2.0 / _DIGITS
    return step**2 / (2.0 * math.sinh(0.5 * step / scale) ** 2)


def printed_error(hypotheses: int, epsilon: float, delta: float) -> float:
    """Return the error of Theorem 4's channel, of Laplace noise on all losses, as printed."""
    return laplace_error(2.0 * printed_scale_factor(hypotheses, epsilon, delta))


def composed_error(hypotheses: int, epsilon: float, delta: float) -> float:
    """Return that of the same noise, with the scale that zCDP composition needs."""
    log = math.log(1.0 / delta)
    each = math.sqrt(2.0 / hypotheses) * epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))
    return laplace_error(2.0 / each)


def gaussian_error(hypotheses: int, epsilon: float, delta: float) -> float:
    """Return that of Gaussian noise on all losses, calibrated exactly, for the worst class."""
    return 4.0 * hypotheses / gaussian_mu(epsilon, delta) ** 2


CHANNELS = {"printed": printed_error, "composed": composed_error, "Gaussian": gaussian_error}


def table() -> str:
    """Return the ratios for K = 8; they depend on K in the rounding of the noise only."""
    rows = ["| epsilon | " + " | ".join(f"delta = {delta:g}" for delta in DELTAS) + " |"]
    rows.append("|---" * (len(DELTAS) + 1) + "|")
    for epsilon in EPSILONS:
        cells = [f"{epsilon:g}"]
        for delta in DELTAS:
            errors = (error(8, epsilon, delta) for error in CHANNELS.values())
            cells.append(" / ".join(f"{each / pure_error(8, epsilon):.3g}" for each in errors))
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
