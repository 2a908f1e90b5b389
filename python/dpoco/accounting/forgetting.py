"""Plans for learners that forget: damped sums of noisy increments, and the law of their noise.

A stream's noisy increments are g_t + z_t with z = C^-1 e, e white with the scale s. A damped sum
S_t = sum_l q^l (g_(t-l) + z_(t-l)) is post-processing of them: its noise has the coefficients
b = (1, q, q^2, ...) * c^-1 in e. Nothing here is part of a privacy proof; that is in the
factorisation C alone, which is damped so that its noise fits the memory that is wanted.

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

SHARES = (math.inf, 0.3, 0.1, 0.03, 0.01)  # half-lives, in horizons
RIDGES = (0.25, 0.5, 1.0, 2.0)  # in spectral edges of the noise
ADVISED = (0.03, 0.1, 0.3)  # half-lives, in horizons, where none is chosen from releases
MEMORY = 0.1  # half-life of comparisons, in horizons
ENDLESS = 100_000  # rounds that stand for the horizon of a stream without end
_LONGEST = 4096  # pushes until the noise of damped sums is taken as stationary


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
    """Tuning of a forgetting leader: candidates, and the law of their noise.

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


# C = I, as a sum with a buffer that does nothing: independent noise in every increment.
INDEPENDENT = Buffered((0.5,), (1e-12,))


def damp(factor: Buffered, kept: float) -> Buffered:
    """Return the factorisation whose i-th coefficient is kept^i times that of `factor`.

    Parameters
    ----------
    factor : Buffered
        Without levels.
    kept : float
        What a record counts one push later, in (0, 1].
    """
    return Buffered(
        # Coefficients kept^i c_i are those of a buffered sum again, which the kernel accounts for
        # like any other (docs/privacy/forgetting.md, "Damping").
        tuple(1.0 - kept * (1.0 - rate) for rate in factor.decay),
        tuple(kept * weight for weight in factor.weights),
    )


def damped_sum(
    pushes: int, near: Neighbours, batch: int, half_life: float, rounds: float
) -> Buffered:
    """Return the sum with buffers that fits memory with this half-life, for pushes so far apart.

    Parameters
    ----------
    pushes, batch : int
        Sums released, and rounds to a push where people are counted.
    near : Neighbours
        How often one person comes.
    half_life, rounds : float
        Rounds after which a record counts half, and rounds between two pushes.
    """
    factor = factorisation(plan_method("blt", pushes, near, batch), pushes)
    assert isinstance(factor, Buffered)
    return damp(factor, float(kept_share(half_life, np.asarray(rounds))))


def check_damped(sum_method: str | None, half_life: float | str | None, rounds: float) -> None:
    """Raise `ValueError` for another sum, or for batches that are longer than a half-life."""
    if sum_method not in (None, "auto", "blt"):
        raise ValueError(f"learners that forget sum by 'blt'; got sum_method={sum_method!r}")
    if isinstance(half_life, float) and rounds > half_life:
        raise ValueError(
            f"batches of {rounds:.0f} rounds are longer than half_life={half_life:g}: take a "
            "longer half-life or a smaller batch"
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


def view_noise(
    factor: Buffered, kept: FloatArray, width: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return, for s = 1, a view's deviations and covariances with the next increment.

    All views of a sum whose draws have one scale: what a learner that forgets, a monitor or an
    optimiser makes of the noisy increments.

    Parameters
    ----------
    factor : Buffered
        The factorisation, without levels.
    kept : ndarray, shape (m,)
        What the past counts behind each of the first m pushes: 1 in a total, 0 in an increment.
    width : int, optional
        Increments that the view has at most, with a total's `kept`.

    Returns
    -------
    deviations, covariances : ndarray, shape (m,)
        In O(m) where all of `kept` are equal, in O(m^2) otherwise.
    """
    m = len(kept)
    inverse = _inverse_coefficients(factor, m)
    # Equal shares make a Toeplitz sum: one filter takes the place of a row for every push.
    if (kept == kept[0]).all():
        coefficients = _damp_values(inverse[:m], float(kept[0]))
        if width is not None:
            coefficients[width:] -= coefficients[:-width].copy()
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


@lru_cache(maxsize=1)  # all views of a factorisation are asked for one after the other
def _inverse_coefficients(factor: Buffered, m: int) -> FloatArray:
    """Return c^-1_0, ..., c^-1_m, read-only; powers of a million steps take a quarter second."""
    rates, pulls = _decoder(factor)
    inverse = np.concatenate([[1.0], -(pulls @ rates[:, None] ** np.arange(m))])
    inverse.setflags(write=False)
    return inverse


def _damp_values(values: FloatArray, kept: float) -> FloatArray:
    """Return y_i = kept y_(i-1) + values_i."""
    if kept in (0.0, 1.0):
        return np.cumsum(values) if kept else values.copy()
    if len(values) > _LONGEST:  # the same sums; its import takes longer than fewer of them
        from scipy.signal import lfilter

        return np.asarray(lfilter([1.0], [1.0, -kept], values))
    return np.array([*accumulate(values.tolist(), lambda past, each: kept * past + each)])


def advise_half_lives(horizon: int | None) -> tuple[float, ...]:
    """Return half-lives for a truth that moves; the first that noise does not hide is best."""
    return tuple(max(1.0, share * planned_rounds(horizon)) for share in ADVISED)


def check_options(
    half_life: float | str | None, ridge: float | str | None, statistics: str
) -> tuple[float | str | None, float | str | None]:
    """Return the options of a learner that forgets.

    Raises
    ------
    ValueError, TypeError
        For statistics of gradients, or numbers that are not positive.
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
    """Return how batches grow: not at all if all half-lives are much shorter than the stream."""
    # The longest of batches that grow like a root would outlast what is remembered.
    fixed = isinstance(half_life, float)
    return None if fixed or horizon >= UNBOUNDED_HORIZON else "root"


def memory_rounds(half_life: float | str | None, horizon: int | None) -> float:
    """Return the half-life that the noise is planned for, and that comparisons have."""
    if isinstance(half_life, float):
        return half_life
    return MEMORY * planned_rounds(horizon)


def planned_rounds(horizon: int | None) -> float:
    """Return the rounds that half-lives are shares of."""
    return float(ENDLESS if _is_endless(horizon) else horizon or 1)


def _is_endless(horizon: int | None) -> bool:
    """Return whether a stream has no horizon, or one so long that it is planned without."""
    return horizon is None or horizon >= UNBOUNDED_HORIZON


def plan_batch(hidden: float, memory: float, horizon: int | None, growth: str | None) -> int:
    """Return the rounds of the first batch.

    `hidden`: rounds that weigh as much as the noise of one release. Growing batches begin with
    three tenths of them, at most a fiftieth of the horizon. Others have the geometric mean of them
    and of a tenth of the memory, between a hundredth and a fifth of it.
    """
    if growth is not None:
        first = min(0.3 * hidden, (horizon or math.inf) / 50.0)
    else:
        first = min(max(math.sqrt(hidden * memory / 10.0), memory / 100.0), memory / 5.0)
    longest = float(horizon) if horizon is not None else math.inf
    return int(max(1, min(round(first), longest)))


def batch_lengths(batch: int, growth: str | None, pushes: int) -> FloatArray:
    """Return the rounds of the first batches; all later ones are as long as the last."""
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
    """Return the candidates of a leader: all that noise does not hide, if there is a choice.

    Parameters
    ----------
    factor, scale
        The factorisation and the scale of a draw.
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
        Every half-life with every ridge; a single candidate where both are numbers.
    """
    half_lives: tuple[float, ...] = (math.inf,)
    if isinstance(half_life, float | int):
        half_lives = (float(half_life),)
    elif half_life == "auto":  # noise of the total grows without end
        shares = SHARES[1:] if _is_endless(horizon) else SHARES
        half_lives = tuple(share * planned_rounds(horizon) for share in shares)
    ridges: tuple[float, ...] = (1.0,)
    if isinstance(ridge, float | int):
        ridges = (float(ridge),)
    elif "auto" in (ridge, half_life):
        ridges = RIDGES
    views = [view_increments(factor, scale, each, lengths) for each in half_lives]
    if scale == 0.0:  # a ridge of next to nothing
        tiny = tuple(np.full(len(lengths), 1e-9 * length**2).tolist())
        views = [replace(view, deviations=tiny) for view in views]
    else:
        edge = math.sqrt(2.0 * dimension) * dimension / length**2
        # The first candidate stays whatever the noise: the others are compared with it.
        first, *others = views
        # Public numbers decide: a half-life of whose records noise hides all is left out
        # (docs/privacy/forgetting.md, "The choice").
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
    """Return the damped sum of this half-life, of increments with draws of this scale.

    `lengths` are the rounds of the batches of the first pushes; all later ones have the last.
    O(m) for m equal batches, else O(m^2), m at most 4096.
    """
    kept = kept_share(half_life, lengths)
    deviations, covariances = view_noise(factor, kept)
    return ForgettingView(
        half_life,
        tuple(kept.tolist()),
        tuple((scale * deviations).tolist()),
        tuple((scale * scale * covariances).tolist()),
    )
