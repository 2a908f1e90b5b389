"""Plans for learners that forget: damped sums of noisy increments, and what is known of their noise.

A stream's noisy increments are g_t + z_t with z = C^-1 e, e white with the scale s. A damped sum
S_t = sum_l q^l (g_(t-l) + z_(t-l)) is post-processing of them: its noise has the coefficients
b = (1, q, q^2, ...) * c^-1 in e. Nothing here is part of a privacy proof; that is in the
factorisation C alone, which is damped so that its noise fits the memory that is wanted.

Derivations: ``docs/privacy/forgetting.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from dpoco.privacy.mechanisms.factorisations import Buffered, decoder_rate

__all__ = ["Forgetting", "ForgettingView", "damp", "plan_batch", "plan_views"]

FloatArray = NDArray[np.float64]

SHARES = (math.inf, 0.3, 0.1, 0.03, 0.01)  # half-lives, in horizons
RIDGES = (0.25, 0.5, 1.0, 2.0)  # in spectral edges of the noise
MEMORY = 0.1  # half-life of comparisons, in horizons
ENDLESS = 100_000  # rounds that stand for the horizon of a stream without end
_LONGEST = 4096  # pushes until noise of damped sums is taken as stationary


@dataclass(frozen=True)
class ForgettingView:
    """A damped sum of increments, and its noise behind every push.

    All tuples have an entry for every push; the last one also holds for all later ones.

    Attributes
    ----------
    half_life : float
        Rounds after which a record counts half; infinite for the total.
    kept : tuple of float
        What the past counts behind the push.
    deviations : tuple of float
        Standard deviation of a coordinate's noise.
    covariances : tuple of float
        Covariance of that noise with the next increment's.
    """

    half_life: float
    kept: tuple[float, ...]
    deviations: tuple[float, ...]
    covariances: tuple[float, ...]


@dataclass(frozen=True)
class Forgetting:
    """What a forgetting leader is tuned by: candidates, and the law of their noise.

    Attributes
    ----------
    views : tuple of ForgettingView
        Damped sums; candidates are compared with one of the first.
    ridges : tuple of float
        Ridges of every view, in spectral edges of its noise, sqrt(2d) deviations.
    reference : int
        The ridge of the first view that candidates are compared with.
    variance : float
        Of a coordinate of an increment's noise.
    rates, weights : tuple of float
        The covariance with the increment j pushes later is sum_i weights_i rates_i^(j - 1).
    memory : tuple of float
        What a comparison counts behind one more push.
    """

    views: tuple[ForgettingView, ...]
    ridges: tuple[float, ...]
    reference: int
    variance: float
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    memory: tuple[float, ...]


def damp(factor: Buffered, kept: float) -> Buffered:
    """Return the factorisation whose i-th coefficient is kept^i times that of `factor`."""
    return Buffered(
        tuple(1.0 - kept * (1.0 - rate) for rate in factor.decay),
        tuple(kept * weight for weight in factor.weights),
    )


def kept_share(half_life: float, rounds: FloatArray) -> FloatArray:
    """Return what a record still counts so many rounds later."""
    return np.exp2(-np.asarray(rounds, dtype=np.float64) / half_life)


@lru_cache(maxsize=64)
def _decoder(factor: Buffered) -> tuple[FloatArray, FloatArray]:
    """Return (x, v) with c^-1_i = -sum_j v_j x_j^(i-1) for i >= 1; c^-1_0 is 1."""
    found = [decoder_rate(j, factor.decay, factor.weights) for j in range(len(factor.decay))]
    rates = np.array([s + shift for s, (shift, _) in zip(factor.decay, found, strict=True)])
    return 1.0 - rates, np.array([1.0 / pull for _, pull in found])


def increment_covariances(factor: Buffered) -> tuple[float, FloatArray, FloatArray]:
    """Return the variance of z_t for s = 1, and (rates, weights) of its covariances.

    Those of an endless stream: before, variances are a little smaller.
    """
    rates, pulls = _decoder(factor)
    # 1/c at the rates: 1 - sum_j v_j x / (1 - x_j x).
    own = 1.0 - (pulls * rates[:, None] / (1.0 - rates * rates[:, None])).sum(axis=1)
    square = 1.0 + float((np.outer(pulls, pulls) / (1.0 - np.outer(rates, rates))).sum())
    return square, rates, -pulls * own


def view_noise(factor: Buffered, kept: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, for s = 1, a damped sum's deviations and covariances with the next increment.

    `kept`, shape (m,): what the past counts behind each of the first m pushes. Shapes (m,); time
    O(m) where all are equal, O(m^2) otherwise.
    """
    m = len(kept)
    rates, pulls = _decoder(factor)
    inverse = np.concatenate([[1.0], -(pulls @ rates[:, None] ** np.arange(m))])  # c^-1_0..c^-1_m
    if (kept == kept[0]).all():
        coefficients = lfilter([1.0], [1.0, -kept[0]], inverse[:m])
        squares, products = np.square(coefficients), coefficients * inverse[1:]
        return np.sqrt(np.cumsum(squares)), np.cumsum(products)
    deviations, covariances = np.empty(m), np.empty(m)
    row = np.zeros(m)  # the sum's coefficients of the draws, from the first draw on
    for t in range(m):
        row[:t] *= kept[t]
        row[: t + 1] += inverse[t::-1]
        deviations[t] = math.sqrt(row[: t + 1] @ row[: t + 1])
        covariances[t] = row[: t + 1] @ inverse[t + 1 : 0 : -1]
    return deviations, covariances


def plan_batch(hidden: float, memory: float, horizon: int | None) -> int:
    """Return the rounds of a batch: between a thousandth and a fiftieth of the memory.

    Short batches react soon and start soon, long ones have less noise. `hidden`: rounds whose
    records weigh as much as the noise of one release. The geometric mean of this and of a hundredth
    of `memory` was within 15 % of the best batch on turning, jumping and constant streams at
    epsilon .1, 1 and 8.
    """
    wanted = math.sqrt(max(hidden, 1.0) * memory / 100.0)
    longest = memory / 50.0 if horizon is None else min(memory, float(horizon)) / 50.0
    return max(1, round(min(max(wanted, memory / 1000.0), longest)))


def plan_views(
    factor: Buffered,
    scale: float,
    half_lives: tuple[float, ...],
    ridges: tuple[float, ...],
    *,
    lengths: FloatArray,
    memory: float,
) -> Forgetting:
    """Return the tuning of a forgetting leader on increments with this noise.

    Parameters
    ----------
    factor : Buffered
        The factorisation of the sum.
    scale : float
        s, of one draw.
    half_lives : tuple of float
        In rounds; the first one is the reference of comparisons.
    ridges : tuple of float
        In spectral edges; 1 is the reference if it is among them.
    lengths : ndarray, shape (m,)
        Rounds of the batches of the first pushes; all later ones have the last length.
    memory : float
        Half-life of comparisons, rounds.
    """
    views = []
    for half_life in half_lives:
        kept = kept_share(half_life, lengths)
        deviations, covariances = view_noise(factor, kept)
        views.append(
            ForgettingView(
                half_life,
                tuple(kept.tolist()),
                tuple((scale * deviations).tolist()),
                tuple((scale * scale * covariances).tolist()),
            )
        )
    square, rates, weights = increment_covariances(factor)
    return Forgetting(
        views=tuple(views),
        ridges=ridges,
        reference=ridges.index(1.0) if 1.0 in ridges else 0,
        variance=scale * scale * square,
        rates=tuple(rates.tolist()),
        weights=tuple((scale * scale * weights).tolist()),
        memory=tuple(kept_share(memory, lengths).tolist()),
    )
