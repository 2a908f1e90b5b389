"""Few steps of the sampled Gaussian mechanism, composed by fast Fourier transform.

Connect-the-dots discretisation (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022); transforms
by ``dp_accounting``, whose rounding is charged to delta. Good where losses are often exactly 0;
many steps are for `dpoco.accounting._batch.sampled_composition`.

Proof: ``docs/privacy/batch_baselines.md``, section "Numbers".
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEW_STEPS", "MOST_TRANSFORMED", "ROUNDING_PER_STEP", "transformed_delta"]

FloatArray = NDArray[np.float64]

FEW_STEPS = 2**14
MOST_TRANSFORMED = 2**20
# Powers of a transform carry a relative error of about one rounding per step.
ROUNDING_PER_STEP = 2.0**-49
_TRUNCATION = 1e-16
_TAILS = 1e-18
_CELLS_PER_DEVIATION = 8.0  # of one step's loss: inflates its variance by at most 0.4 %
_CELLS_IN_ALL = 1000.0  # per deviation of the sum's loss, at least
_MOST_CELLS = 2.0**20


def transformed_delta(epsilon: float, records: int, multiplier: float, steps: int) -> float:
    """Return an upper bound of delta at `epsilon` >= 0, at least 2^-49 for each step."""
    composed = float(_composed(records, multiplier, steps).get_delta_for_epsilon(epsilon))
    return max(composed, 0.0) + steps * ROUNDING_PER_STEP


def step_delta(epsilons: FloatArray, rate: float, mu: float) -> FloatArray:
    """Return the profile of one step at all `epsilons` >= 0."""
    from scipy.special import log_ndtr, ndtr

    # The Gaussian curve's own epsilon, log(1 + (e^epsilon - 1) / rate), without overflow.
    near = np.log1p(np.expm1(np.minimum(epsilons, 1.0)) / rate)
    far = epsilons - math.log(rate) + np.log1p((rate - 1.0) * np.exp(-np.maximum(epsilons, 1.0)))
    inner = np.where(epsilons <= 1.0, near, far)
    above = ndtr(0.5 * mu - inner / mu) - np.exp(inner + log_ndtr(-0.5 * mu - inner / mu))
    result: FloatArray = rate * np.maximum(above, 0.0)
    return result


def step_masses(width: float, half: int, rate: float, mu: float) -> tuple[FloatArray, float]:
    """Return the masses at losses -half, ..., half times `width`, and the one at infinity.

    Connect-the-dots (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022): the distribution whose
    profile is the step's at the grid and above it in between. It is symmetric, mass(-l) = e^-l
    mass(l), so only the right side is taken from differences of the profile: those of the left
    would round to a mass that a million steps can see.
    """
    losses = np.arange(1, half + 1) * width
    deltas = step_delta(np.concatenate([[0.0], losses]), rate, mu)
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    drops = -np.diff(deltas)
    right = drops / -math.expm1(-width)
    if width < 700.0:  # beyond, what is left out only adds
        right[:-1] -= drops[1:] / math.expm1(width)
    right = np.maximum(right, 0.0)
    left = np.exp(-losses) * right
    middle = max(0.0, 1.0 - float(np.sum(right + left)) - float(deltas[-1]))
    return np.concatenate([left[::-1], [middle], right]), float(deltas[-1])


@lru_cache(maxsize=8)
def _composed(records: int, multiplier: float, steps: int) -> Any:
    """Return the privacy loss distribution of all steps, as ``dp_accounting`` has it."""
    from dp_accounting.pld import pld_pmf

    rate, mu = 1.0 / records, 1.0 / multiplier
    # Beyond this loss a step has less mass than the tails may have in all.
    reach = 0.5 * mu * mu + mu * math.sqrt(2.0 * max(1.0, math.log(rate * steps / _TAILS)))
    largest = float(np.logaddexp(math.log1p(-rate), math.log(rate) + reach))
    deviation = min(largest, rate * math.sqrt(math.expm1(min(mu * mu, 600.0))))
    total = deviation * math.sqrt(steps)
    width = min(deviation / _CELLS_PER_DEVIATION, total / _CELLS_IN_ALL)
    # Wider cells are a worse bound, not a wrong one.
    width = max(width, (total * total + 16.0 * total) / _MOST_CELLS, 4.0 * largest / _MOST_CELLS)
    # A long grid keeps the package's search for the truncated range near the optimum.
    half = math.ceil(max(largest, total / 8.0) / width) + 1
    masses, beyond = step_masses(width, half, rate, mu)
    step = pld_pmf.DensePLDPmf(width, -half, masses, beyond, True)
    with np.errstate(all="ignore"):  # the package's search tries orders that overflow
        return step.self_compose(steps, tail_mass_truncation=_TRUNCATION)
