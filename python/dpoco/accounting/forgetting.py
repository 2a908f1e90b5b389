"""Plans for learners that forget: damped sums of noisy increments, and the law of their noise.

The noisy increments of a stream are g_t + z_t with z = C^-1 e, where e is white noise of scale s. A
damped sum S_t = sum_l q^l (g_(t-l) + z_(t-l)) is post-processing of the increments: its noise has
the coefficients b = (1, q, q^2, ...) * c^-1 in e. Nothing here is part of a privacy proof, which
only involves the factorisation C. C is damped so that its noise fits the desired memory.

Derivations: ``docs/privacy/forgetting.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, islice

import numpy as np

from dpoco._validation import FloatArray, choice, positive_float
from dpoco.accounting.continual_sum import UNBOUNDED_HORIZON, factorisation, plan_method
from dpoco.privacy.mechanisms.factorisations import Buffered, decoder_rate
from dpoco.privacy.mechanisms.gaussian_sum import batch_starts
from dpoco.privacy.neighbours import Neighbours

__all__ = ["INDEPENDENT", "Forgetting", "ForgettingView", "advise_half_lives", "batch_lengths",
           "check_options", "damp", "growth_of_batches", "kept_share", "memory_rounds",
           "plan_batch", "plan_candidates", "view_noise"]  # fmt: skip

SHARES = (math.inf, 0.3, 0.1, 0.03, 0.01)  # half-lives, in units of the horizon
RIDGES = (0.25, 0.5, 1.0, 2.0)  # ridges, in spectral edges of the noise
ADVISED = (0.03, 0.1, 0.3)  # half-lives, in units of the horizon, if none is chosen from releases
MEMORY = 0.1  # half-life of comparisons, in units of the horizon
ENDLESS = 100_000  # rounds that replace the horizon of an endless stream
_LONGEST = 4096  # pushes after which the noise of damped sums counts as stationary


@dataclass(frozen=True)
class ForgettingView:
    """A damped sum of increments, and its noise after every push.

    All tuples have an entry for every push; the last one also holds for all later ones.

    Attributes
    ----------
    half_life : float
        Rounds after which a record counts half; infinite for the total.
    kept : tuple of float
        Factor on the past at each push.
    deviations : tuple of float
        Standard deviation of the noise of a coordinate.
    covariances : tuple of float
        Covariance of this noise with that of the next increment.
    """

    half_life: float
    kept: tuple[float, ...]
    deviations: tuple[float, ...]
    covariances: tuple[float, ...]


@dataclass(frozen=True)
class Forgetting:
    """Tuning of a forgetting leader: candidates, and the law of their noise.

    Attributes
    ----------
    views : tuple of ForgettingView
        Damped sums. Candidates are compared with one that uses the first.
    ridges : tuple of float
        Ridges for every view, in spectral edges sqrt(2d) deviations of its noise.
    reference : int
        Index of the ridge, with the first view, that candidates are compared with.
    variance : float
        Variance of a coordinate of an increment's noise.
    rates, weights : tuple of float
        The covariance with the increment j pushes later is sum_i weights_i rates_i^(j - 1).
    memory : tuple of float
        Factor on past comparisons at each push.
    """

    views: tuple[ForgettingView, ...]
    ridges: tuple[float, ...]
    reference: int
    variance: float
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    memory: tuple[float, ...]


# C = I, written as a sum whose buffer has no effect: independent noise in every increment.
INDEPENDENT = Buffered((0.5,), (1e-12,))


def damp(factor: Buffered, kept: float) -> Buffered:
    """Return the factorisation whose i-th coefficient is kept^i times that of `factor`.

    Parameters
    ----------
    factor : Buffered
        A factorisation without levels.
    kept : float
        Factor on a record after one more push, in (0, 1].
    """
    return Buffered(
        # The coefficients kept^i c_i also belong to a buffered sum, which the kernel accounts for
        # like any other (docs/privacy/forgetting.md, "Damping").
        tuple(1.0 - kept * (1.0 - rate) for rate in factor.decay),
        tuple(kept * weight for weight in factor.weights),
    )


def damped_sum(
    pushes: int, near: Neighbours, batch: int, half_life: float, rounds: float
) -> Buffered:
    """Return the buffered sum for this half-life and this distance of pushes.

    Parameters
    ----------
    pushes, batch : int
        Number of released sums, and rounds per push for counting people.
    near : Neighbours
        How often one person comes.
    half_life, rounds : float
        Rounds after which a record counts half, and rounds between two pushes.
    """
    factor = factorisation(plan_method("blt", pushes, near, batch), pushes)
    assert isinstance(factor, Buffered)
    return damp(factor, float(kept_share(half_life, np.asarray(rounds))))


def check_damped(sum_method: str | None, half_life: float | str | None, rounds: float) -> None:
    """Raise `ValueError` for another sum, or for batches longer than a half-life."""
    if sum_method not in (None, "auto", "blt"):
        raise ValueError(f"learners that forget sum by 'blt'; got sum_method={sum_method!r}")
    if isinstance(half_life, float) and rounds > half_life:
        raise ValueError(
            f"batches of {rounds:.0f} rounds are longer than half_life={half_life:g}: take a "
            "longer half-life or a smaller batch"
        )


def kept_share(half_life: float, rounds: FloatArray) -> FloatArray:
    """Return the weight of a record after so many rounds."""
    return np.exp2(-np.asarray(rounds, dtype=np.float64) / half_life)


@lru_cache(maxsize=64)
def _decoder(factor: Buffered) -> tuple[FloatArray, FloatArray]:
    """Return (x, v) with c^-1_i = -sum_j v_j x_j^(i-1) for i >= 1; c^-1_0 is 1."""
    found = [decoder_rate(j, factor.decay, factor.weights) for j in range(len(factor.decay))]
    rates = np.array([s + shift for s, (shift, _) in zip(factor.decay, found, strict=True)])
    return 1.0 - rates, np.array([1.0 / pull for _, pull in found])


def increment_covariances(factor: Buffered) -> tuple[float, FloatArray, FloatArray]:
    """Return the variance of z_t for s = 1, and (rates, weights) of its covariances.

    They are those of an endless stream; at its beginning, variances are a little smaller.
    """
    rates, pulls = _decoder(factor)
    # 1/c at the rates is 1 - sum_j v_j x / (1 - x_j x).
    own = 1.0 - (pulls * rates[:, None] / (1.0 - rates * rates[:, None])).sum(axis=1)
    square = 1.0 + float((np.outer(pulls, pulls) / (1.0 - np.outer(rates, rates))).sum())
    return square, rates, -pulls * own


def view_noise(
    factor: Buffered, kept: FloatArray, width: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return, for s = 1, a view's deviations and covariances with the next increment.

    This covers all views of a sum whose draws have one scale: those of a learner that forgets, of a
    monitor, or of an optimiser.

    Parameters
    ----------
    factor : Buffered
        A factorisation without levels.
    kept : ndarray, shape (m,)
        Factor on the past at each of the first m pushes: 1 in a total, 0 in an increment.
    width : int, optional
        Largest number of increments in the view, with the `kept` of a total.

    Returns
    -------
    deviations, covariances : ndarray, shape (m,)
        In O(m) if all of `kept` are equal, otherwise in O(m^2).
    """
    m = len(kept)
    inverse = _inverse_coefficients(factor, m)
    # Equal factors give a Toeplitz sum: one filter replaces a row for every push.
    if (kept == kept[0]).all():
        coefficients = _damp_values(inverse[:m], float(kept[0]))
        if width is not None:
            coefficients[width:] -= coefficients[:-width].copy()
        squares, products = np.square(coefficients), coefficients * inverse[1:]
        return np.sqrt(np.cumsum(squares)), np.cumsum(products)
    deviations, covariances = np.empty(m), np.empty(m)
    row = np.zeros(m)  # coefficients of the draws in the sum, from the first draw on
    for t in range(m):
        row[:t] *= kept[t]
        row[: t + 1] += inverse[t::-1]
        deviations[t] = math.sqrt(row[: t + 1] @ row[: t + 1])
        covariances[t] = row[: t + 1] @ inverse[t + 1 : 0 : -1]
    return deviations, covariances


@lru_cache(maxsize=1)  # all views of a factorisation are computed one after the other
def _inverse_coefficients(factor: Buffered, m: int) -> FloatArray:
    """Return c^-1_0, ..., c^-1_m, read-only; powers of a million steps take 0.25 s."""
    rates, pulls = _decoder(factor)
    inverse = np.concatenate([[1.0], -(pulls @ rates[:, None] ** np.arange(m))])
    inverse.setflags(write=False)
    return inverse


def _damp_values(values: FloatArray, kept: float) -> FloatArray:
    """Return y_i = kept y_(i-1) + values_i."""
    if kept in (0.0, 1.0):
        return np.cumsum(values) if kept else values.copy()
    if len(values) > _LONGEST:  # the same sums; importing SciPy takes longer than computing fewer
        from scipy.signal import lfilter

        return np.asarray(lfilter([1.0], [1.0, -kept], values))
    return np.array([*accumulate(values.tolist(), lambda past, each: kept * past + each)])


def advise_half_lives(horizon: int | None) -> tuple[float, ...]:
    """Return half-lives for a drifting truth; the first that noise does not hide is best."""
    return tuple(max(1.0, share * planned_rounds(horizon)) for share in ADVISED)


def check_options(
    half_life: float | str | None, ridge: float | str | None, statistics: str
) -> tuple[float | str | None, float | str | None]:
    """Return the options of a learner that forgets.

    Raises
    ------
    ValueError, TypeError
        For statistics of gradients, or for numbers that are not positive.
    """
    if statistics != "quadratic":
        raise ValueError("half_life and ridge are options of statistics='quadratic'")
    return _number_or_auto("half_life", half_life), _number_or_auto("ridge", ridge)


def _number_or_auto(name: str, value: float | str | None) -> float | str | None:
    """Return None, "auto" or a positive float, or raise naming the argument."""
    if isinstance(value, str):
        return choice(name, value, ("auto",))
    return None if value is None else positive_float(name, value)


def growth_of_batches(half_life: float | str | None, horizon: int) -> str | None:
    """Return the growth of batches; None if all half-lives are much shorter than the stream."""
    # The longest of batches that grow like a root would exceed the memory.
    fixed = isinstance(half_life, float)
    return None if fixed or horizon >= UNBOUNDED_HORIZON else "root"


def memory_rounds(half_life: float | str | None, horizon: int | None) -> float:
    """Return the half-life for which the noise is planned, which comparisons also have."""
    if isinstance(half_life, float):
        return half_life
    return MEMORY * planned_rounds(horizon)


def planned_rounds(horizon: int | None) -> float:
    """Return the number of rounds of which half-lives are fractions."""
    return float(ENDLESS if _is_endless(horizon) else horizon or 1)


def _is_endless(horizon: int | None) -> bool:
    """Return whether a stream has no horizon, or is so long that it is planned without one."""
    return horizon is None or horizon >= UNBOUNDED_HORIZON


def plan_batch(hidden: float, memory: float, horizon: int | None, growth: str | None) -> int:
    """Return the number of rounds of the first batch.

    `hidden` is the number of rounds that weigh as much as the noise of one release. Growing batches
    begin with 0.3 `hidden` rounds, at most 1/50 of the horizon. Other batches have the geometric
    mean of `hidden` and a tenth of `memory`, limited to between 1/100 and 1/5 of `memory`.
    """
    if growth is not None:
        first = min(0.3 * hidden, (horizon or math.inf) / 50.0)
    else:
        first = min(max(math.sqrt(hidden * memory / 10.0), memory / 100.0), memory / 5.0)
    longest = float(horizon) if horizon is not None else math.inf
    return int(max(1, min(round(first), longest)))


def batch_lengths(batch: int, growth: str | None, pushes: int) -> FloatArray:
    """Return the numbers of rounds of the first batches; later batches are as long as the last."""
    m = min(pushes, _LONGEST)
    if growth is None:
        return np.full(m, float(batch))
    return np.diff(np.array([*islice(batch_starts(batch, growth), m + 1)], dtype=np.float64))


def plan_candidates(
    factor: Buffered,
    scale: float,
    *,
    half_life: float | str | None,
    ridge: float | str | None,
    lengths: FloatArray,
    horizon: int | None,
    dimension: int,
    length: float,
) -> Forgetting:
    """Return the candidates of a leader: if there is a choice, all that noise does not hide.

    Parameters
    ----------
    factor, scale
        The factorisation, and the scale of a draw.
    half_life, ridge : float, "auto" or None
        See `dpoco.oco.NoisyFTRL`.
    lengths : ndarray
        See `batch_lengths`.
    horizon : int or None
        Rounds; None for a stream without end.
    dimension, length : int and float
        d, and the bound on the l2 norm of features.

    Returns
    -------
    Forgetting
        Every half-life with every ridge; a single candidate if both are numbers.
    """
    half_lives: tuple[float, ...] = (math.inf,)
    if isinstance(half_life, float | int):
        half_lives = (float(half_life),)
    elif half_life == "auto":  # without forgetting, the noise of the total grows without bound
        shares = SHARES[1:] if _is_endless(horizon) else SHARES
        half_lives = tuple(share * planned_rounds(horizon) for share in shares)
    ridges: tuple[float, ...] = (1.0,)
    if isinstance(ridge, float | int):
        ridges = (float(ridge),)
    elif "auto" in (ridge, half_life):
        ridges = RIDGES
    views = [view_increments(factor, scale, each, lengths) for each in half_lives]
    if scale == 0.0:  # a negligible ridge
        tiny = tuple(np.full(len(lengths), 1e-9 * length**2).tolist())
        views = [replace(view, deviations=tiny) for view in views]
    else:
        edge = math.sqrt(2.0 * dimension) * dimension / length**2
        # The first candidate always remains, because the others are compared with it.
        first, *others = views
        # We decide by public numbers: a half-life is left out if noise hides all records that it
        # remembers (docs/privacy/forgetting.md, "The choice").
        seen = (v for v in others if edge * v.deviations[-1] <= v.half_life / math.log(2.0))
        views = [first, *seen]
    square, rates, weights = increment_covariances(factor)
    return Forgetting(
        views=tuple(views),
        ridges=ridges,
        reference=ridges.index(1.0) if 1.0 in ridges else 0,
        variance=scale * scale * square,
        rates=tuple(rates.tolist()),
        weights=tuple((scale * scale * weights).tolist()),
        memory=tuple(kept_share(memory_rounds(half_life, horizon), lengths).tolist()),
    )


def view_increments(
    factor: Buffered, scale: float, half_life: float, lengths: FloatArray
) -> ForgettingView:
    """Return the damped sum with this half-life, of increments with this scale of draws.

    `lengths` are the rounds of the first batches; all later batches are as long as the last one.
    O(m) for m equal batches, otherwise O(m^2), with m at most 4096.
    """
    kept = kept_share(half_life, lengths)
    deviations, covariances = view_noise(factor, kept)
    return ForgettingView(
        half_life,
        tuple(kept.tolist()),
        tuple((scale * deviations).tolist()),
        tuple((scale * scale * covariances).tolist()),
    )
