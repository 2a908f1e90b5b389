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
Fourier transforms for few steps and the composition without secrecy. Each is an upper bound, its
rounding included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dpoco.privacy.losses.gaussian import Gaussian, gaussian_delta
from dpoco.privacy.losses.loss import FloatArray, Loss, check_epsilon, divergences_of, renyi_delta
from dpoco.privacy.losses.sampled_step import LARGEST_MU, step_divergences
from dpoco.privacy.losses.sampled_sum import least_composed_delta

__all__ = ["FEW_STEPS", "LARGEST_STEPS", "MOST_TRANSFORMED", "ROUNDING_PER_STEP", "Sampled",
           "transformed_delta"]  # fmt: skip

LARGEST_STEPS = 10**13
# Below this the loss of a step may exceed what exp can represent; secrecy hides nothing there.
_LEAST_MULTIPLIER = 0.04
# More noise is accounted for as this much: its squares would underflow.
_LARGEST_MULTIPLIER = 1e9
# What is unknown of a Fourier sum may be this share of it before others are asked.
_UNKNOWN = 2e-3
FEW_STEPS = 2**14
MOST_TRANSFORMED = 2**20
# Powers of a transform carry a relative error of about one rounding per step.
ROUNDING_PER_STEP = 2.0**-49
_TRUNCATION = 1e-17  # of the sum's mass above the window, about; what it is is charged
_TAILS = 1e-18
_CELLS_PER_DEVIATION = 8.0  # of one step's loss: inflates its variance by at most 0.4 %
_CELLS_IN_ALL = 1000.0  # per deviation of the sum's loss, at least
_MOST_CELLS = 2.0**20


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
        self.require(records=1, steps=1)
        if self.steps > LARGEST_STEPS:
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


# -- few steps -------------------------------------------------------------------------------------
#
# Connect-the-dots discretisation of one step's loss, and the power of its transform. A sum that
# leaves the window of the transform comes in again at the other side, which only adds; what leaves
# it above is charged in full, by Chernoff's bound, and so is the rounding of the transforms. Good
# where losses are often exactly 0. Proof: the page, section "Numbers".


def transformed_delta(epsilon: float, records: int, multiplier: float, steps: int) -> float:
    """Return an upper bound of delta at `epsilon` >= 0, at least 2^-49 for each step."""
    losses, law, beyond = _composed(records, multiplier, steps)
    above = losses > epsilon
    composed = float(np.sum(law[above] * -np.expm1(epsilon - losses[above])))
    return min(1.0, composed + beyond + steps * ROUNDING_PER_STEP)


def step_delta(epsilons: FloatArray, rate: float, mu: float) -> FloatArray:
    """Return the profile of one step at all `epsilons` >= 0."""
    from scipy.special import log_ndtr, ndtr

    # The Gaussian curve's own epsilon, log(1 + (e^epsilon - 1) / rate), without overflow.
    near = np.log1p(np.expm1(np.minimum(epsilons, 1.0)) / rate)
    far = epsilons - math.log(rate) + np.log1p((rate - 1.0) * np.exp(-np.maximum(epsilons, 1.0)))
    inner = np.where(epsilons <= 1.0, near, far)
    above = ndtr(0.5 * mu - inner / mu) - np.exp(inner + log_ndtr(-0.5 * mu - inner / mu))
    return np.asarray(rate * np.maximum(above, 0.0))


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
def _composed(records: int, multiplier: float, steps: int) -> tuple[FloatArray, FloatArray, float]:
    """Return the losses of all steps together, their masses, and a bound on what is above them."""
    rate, mu = 1.0 / records, 1.0 / multiplier
    # Beyond this loss a step has less mass than the tails may have in all.
    reach = 0.5 * mu * mu + mu * math.sqrt(2.0 * max(1.0, math.log(rate * steps / _TAILS)))
    largest = float(np.logaddexp(math.log1p(-rate), math.log(rate) + reach))
    deviation = min(largest, rate * math.sqrt(math.expm1(min(mu * mu, 600.0))))
    total = deviation * math.sqrt(steps)
    width = min(deviation / _CELLS_PER_DEVIATION, total / _CELLS_IN_ALL)
    # Wider cells are a worse bound, not a wrong one.
    width = max(width, (total * total + 16.0 * total) / _MOST_CELLS, 4.0 * largest / _MOST_CELLS)
    half = math.ceil(largest / width) + 1
    masses, infinite = step_masses(width, half, rate, mu)
    losses: FloatArray = np.asarray(np.arange(-half, half + 1) * width, dtype=np.float64)
    lowest = -_tail(-losses[::-1], masses[::-1], steps)[0]
    highest, outside = _tail(losses, masses, steps)
    first = max(math.floor(lowest / width), -half * steps)
    last = min(math.ceil(highest / width), half * steps)
    size = 1 << max(last - first, 2 * half + 1).bit_length()
    window = np.zeros(size)
    window[: 2 * half + 1] = masses
    law = np.fft.irfft(np.fft.rfft(window) ** steps, size)
    # Entry k holds the sums -half steps + k and all that are a multiple of the size apart.
    law = np.roll(np.maximum(law, 0.0), -((first + half * steps) % size))
    beyond = -math.expm1(steps * math.log1p(-infinite)) + outside
    return np.asarray((first + np.arange(size)) * width), law, beyond * (1.0 + 2.0**-40)


def _tail(losses: FloatArray, masses: FloatArray, steps: int) -> tuple[float, float]:
    """Return a value that the sum of `steps` losses hardly exceeds, and a bound on the chance.

    P(S > v) <= E exp(t (S - v)) for every t > 0; the best of some t counts.
    """
    best = steps * float(losses[-1]), 0.0
    spread = math.sqrt(float(np.sum(masses * losses * losses))) + 1e-300
    for t in 2.0 ** np.arange(-10.0, 8.0) / spread / math.sqrt(steps):
        if t * losses[-1] > 600.0:
            break
        log_moment = steps * math.log(float(np.sum(masses * np.exp(t * losses))))
        value = (log_moment - math.log(_TRUNCATION)) / t
        if value < best[0]:
            # Twice the chance: more than the roundings of the moment, raised to the steps.
            best = value, 2.0 * _TRUNCATION
    return best
