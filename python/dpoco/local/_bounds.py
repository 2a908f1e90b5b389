"""Centred, mixed log-losses, bounds on the expected KL-risk, and the mixing with the least bound.

With ``p_j = (1 - lam) f_j + lam f`` (``f`` the mean of the hypotheses), the loss of hypothesis j on
label y is ``u_j(y) = -log p_j(y) - b(y)``, where ``b(y)`` is the mid-point between the largest and
the smallest ``-log p_j(y)`` over j. Subtracting ``b(y)``, which is common to all hypotheses,
changes no weight, and bounds ``|u_j(y)|`` by D/2, ``D = log(1 + (1 - lam) K / lam)``, for every
class of hypotheses and any number of labels. A label impossible under every hypothesis has ``u =
0``. Statements and proofs: ``docs/privacy/local_learning.md``.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray, real_in

T = TypeVar("T", bound=tuple[Any, ...])

# Smallest half range of a loss; smaller ones are rounding of equal losses.
SMALLEST_HALF_RANGE = 1e-12
_KEPT_BYTES = 2**27
# Cache of results from public arrays: key to array, result and bytes, least recently used first.
_store: OrderedDict[Hashable, tuple[Any, Any, int]] = OrderedDict()
_held = [0]
_lock = threading.Lock()
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def loss_diameter(hypotheses: int, mixing: float) -> float:
    """Return D = log(1 + (1 - mixing) K / mixing), which bounds differences of a label's losses.

    Parameters
    ----------
    hypotheses : int
        K.
    mixing : float
        Share of the mean of the hypotheses, in (0, 1].
    """
    # The library's logarithm has the same bits on all machines, so that devices and servers agree.
    lam = real_in("mixing", mixing, "(0, 1]")
    return float(_core.local_log(1.0 + (1.0 - lam) * hypotheses / lam))


def losses(matrix: FloatArray, mixing: float) -> FloatArray:
    """Return the centred mixed log-losses of all labels.

    `matrix` holds distributions in rows, shape (K, M); u_j(y), the same shape, is in [-D/2, D/2]
    nats, for a mixing lam in (0, 1].
    """
    lam = real_in("mixing", mixing, "(0, 1]")
    return _core.local_centred_losses(np.ascontiguousarray(matrix, float), lam)


def loss_ranges(matrix: FloatArray | int, mixing: float) -> tuple[FloatArray, FloatArray]:
    """Return mid-points and half ranges of every hypothesis' loss, shape (K,) each.

    ``(max + min) / 2`` and ``(max - min) / 2`` over labels that some hypothesis allows, in O(K M).
    For K hypotheses in any context these are 0 and D/2. A half range is at least 1e-12.

    Parameters
    ----------
    matrix : array of shape (K, M), or int
        The hypotheses in one context, or their number K for bounds that hold in all.
    mixing : float
        In (0, 1].
    """
    # A query divides by the half range, so it must not be 0.
    if isinstance(matrix, int):
        half = max(0.5 * loss_diameter(matrix, mixing), SMALLEST_HALF_RANGE)
        return np.zeros(matrix), np.full(matrix, half)
    lam = real_in("mixing", mixing, "(0, 1]")
    middle, half_range, _ = _core.local_loss_ranges(np.ascontiguousarray(matrix, float), lam)
    return middle, half_range


def reuse(matrix: FloatArray, settings: Hashable, build: Callable[[], T]) -> T:
    """Return the result of `build` for a public array, from the cache if possible.

    The key is the identity of the read-only array, which the cache keeps alive. Once arrays and
    tables together exceed 128 MB, the least recently used are dropped.

    Parameters
    ----------
    matrix : array
        Public array. Results of a writeable array are not cached.
    settings : hashable
        Other values on which the result depends.
    build : callable
        Returns a tuple; several threads may call it at a time.
    """
    key = (id(matrix), settings)
    with _lock:
        if key in _store:
            _store.move_to_end(key)
            found: T = _store[key][1]
            return found
    # The result is built without the lock, so that other threads need not wait. At worst two
    # threads build the same result.
    made = build()
    # A cached table of a writeable array could become wrong.
    if not matrix.flags.writeable:
        with _lock:
            # A view into a table of contexts needs no further memory.
            size = 0 if matrix.base is not None else matrix.nbytes
            size += sum(getattr(part, "nbytes", 0) for part in made) + 4096
            # Another thread may have been faster.
            if key not in _store:
                _store[key] = (matrix, made, size)
                _held[0] += size
            while len(_store) > 1 and _held[0] > _KEPT_BYTES:
                _held[0] -= _store.popitem(last=False)[1][2]
    return made


def six_digits(value: float) -> float:
    """Return `value` rounded to six digits, so that tuned constants are equal on all machines."""
    return float(f"{value:.6g}")


def mixing_cost(hypotheses: int, mixing: float) -> float:
    """Return ``-log(1 - mixing (1 - 1/K))``, the largest cost of the mixture in a round."""
    return -math.log1p(-mixing * (1.0 - 1.0 / hypotheses))


def trivial_bound(hypotheses: int, mixings: Callable[[int], float], rounds: int) -> float:
    """Return the sum of log(K / mixing_t), a bound for all predictions with that mixing.

    The mixing is constant or falls with the rounds; it is evaluated in O(log T) rounds.

    Parameters
    ----------
    hypotheses : int
        K.
    mixings : callable
        Takes a round, from 1 on; returns its mixing in [0, 1].
    rounds : int
        T.

    Returns
    -------
    float
        Nats; infinite without mixing.
    """

    def cost(lam: float) -> float:
        return math.log(hypotheses / lam) if lam else math.inf

    return _over_rounds(cost, mixings, rounds)


def _over_rounds(
    cost: Callable[[float], float], mixings: Callable[[int], float], rounds: int
) -> float:
    """Return an upper bound on the sum of ``cost(mixing_t)`` for a cost monotone in the mixing.

    Exact for a constant mixing or few rounds; otherwise each block counts with its larger end.
    """
    if mixings(1) == mixings(rounds):
        return rounds * cost(mixings(1))
    total, start = 0.0, 1
    while start <= rounds:
        # Blocks grow by 3 %, so that a sum over 10^12 rounds takes less than a thousand steps.
        length = max(1, start // 32)
        stop = min(rounds, start + length - 1)
        total += (stop - start + 1) * max(cost(mixings(start)), cost(mixings(stop)))
        start = stop + 1
    return total


def worst_case_rate(hypotheses: int, rounds: int, scale: float) -> float:
    """Return sqrt(2 log K / (T K B^2)) for estimates of scale B = C D / 2."""
    if hypotheses == 1 or scale <= 0.0:
        # With one hypothesis there is nothing to learn, and any rate will do.
        return 1.0
    # This rate minimises the leading terms of `hedge_bound`, log K / eta + eta T K B^2 / 2.
    return math.sqrt(2.0 * math.log(hypotheses) / (rounds * hypotheses)) / scale


def hedge_bound(
    hypotheses: int, rounds: int, inverse_contrast: float, mixing: float, eta: float | None = None
) -> float:
    """Return the bound of exponential weights on one coordinate per round, worst-case range.

    ``log K / eta + eta T K B^2 (e^x - 1 - x) / x^2 - T log(1 - mixing (1 - 1/K))`` nats with
    ``B = C D / 2``, C = coth(epsilon / 2) and ``x = eta K B``; `eta` is the worst-case rate by
    default. Holds for arbitrary labels (regret against the best mixed hypothesis) and hence for the
    KL-risk when one hypothesis is right.

    Parameters
    ----------
    hypotheses, rounds : int
        K and T.
    inverse_contrast : float
        C; infinite if reports carry no information, and the bound is then infinite.
    mixing : float
        In (0, 1].
    eta : float, optional
        Learning rate, positive.
    """
    if not math.isfinite(inverse_contrast):
        return math.inf
    scale = 0.5 * inverse_contrast * loss_diameter(hypotheses, mixing)
    rate = worst_case_rate(hypotheses, rounds, scale) if eta is None else eta
    x = rate * hypotheses * scale
    # exp overflows at 709.8, and such a bound is useless.
    if x > 700.0:
        return math.inf
    # For small x the difference loses digits; the series does not.
    curvature = (math.expm1(x) - x) / (x * x) if x > 1e-4 else 0.5 + x / 6.0 + x * x / 24.0
    gaps = rate * rounds * hypotheses * scale * scale * curvature
    return math.log(hypotheses) / rate + gaps + rounds * mixing_cost(hypotheses, mixing)


def adaptive_hedge_bound(
    hypotheses: int, rounds: int, inverse_contrast: float, mixing: float
) -> float:
    """Return the bound of AdaHedge on one coordinate per round, for the worst-case range.

    With ``D_0 = K B log K`` every estimate times the rate is at most 1, so that a mix gap is at
    most (e - 2) times the rate times the squared estimate; hence ``E D^2 <= D_0^2 + 2 (e - 2) T K
    B^2 log K + K B (E D - D_0)``, which bounds E D, and the regret is at most ``2 D - D_0``.

    Parameters
    ----------
    hypotheses, rounds, inverse_contrast, mixing
        As in `hedge_bound`.
    """
    if not math.isfinite(inverse_contrast):
        return math.inf
    largest = hypotheses * 0.5 * inverse_contrast * loss_diameter(hypotheses, mixing)  # K B
    start = largest * math.log(hypotheses)
    squares = 2.0 * (math.e - 2.0) * rounds * largest * largest / hypotheses
    constant = start * start + squares * math.log(hypotheses) - largest * start
    # The spread is the larger root of the quadratic inequality; E D is at least D_0.
    spread = 0.5 * (largest + math.sqrt(largest * largest + 4.0 * max(constant, 0.0)))
    return 2.0 * max(spread, start) - start + rounds * mixing_cost(hypotheses, mixing)


def endless_hedge_bound(
    hypotheses: int, rounds: int, inverse_contrast: float, mixings: Callable[[int], float]
) -> float:
    """Return the bound of AdaHedge if the mixing falls once per block 2^k ... 2^(k+1) - 1.

    With S the sum of mix gaps, ``E S^2 <= 2 (e - 2) K log K sum_t B_t^2 + K B_T E S``, B_t that of
    the mixing of round t; the regret is at most ``K B_T log K + 2 S``. O(log T).

    Parameters
    ----------
    hypotheses, rounds, inverse_contrast
        As in `hedge_bound`.
    mixings : callable
        Takes a round; the mixing is constant within a block, and falls from one block to the next.
    """
    if not math.isfinite(inverse_contrast):
        return math.inf
    squares = paid = last = 0.0
    start = 1
    while start <= rounds:
        stop = min(rounds, 2 * start - 1)
        mixing = mixings(start)
        last = 0.5 * inverse_contrast * loss_diameter(hypotheses, mixing)
        squares += (stop - start + 1) * last * last
        paid += (stop - start + 1) * mixing_cost(hypotheses, mixing)
        start = stop + 1
    largest, log_count = hypotheses * last, math.log(hypotheses)
    variance = 2.0 * (math.e - 2.0) * hypotheses * log_count * squares
    gaps = 0.5 * (largest + math.sqrt(largest * largest + 4.0 * variance))
    return largest * log_count + 2.0 * gaps + paid


def hedge_mixing(hypotheses: int, rounds: int, inverse_contrast: float) -> float:
    """Return the mixing in [1/T, 0.9] that minimises `hedge_bound`, to six digits.

    It searches by golden section in the logarithm, where the bound has one minimum. For one round
    it returns 1, since the prediction precedes all reports.
    """
    if hypotheses == 1 or not math.isfinite(inverse_contrast):
        return six_digits(max(1.0 / rounds, 1e-300)) if rounds > 1 else 1.0
    if rounds == 1:
        return 1.0

    def value(logarithm: float) -> float:
        return hedge_bound(hypotheses, rounds, inverse_contrast, math.exp(logarithm))

    low, high = math.log(1.0 / rounds), math.log(0.9)
    if high <= low:
        return 0.9
    inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_inner, at_outer = value(inner), value(outer)
    # Far below the six digits that are kept.
    while high - low > 1e-9:
        if at_inner <= at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - _GOLDEN * (high - low)
            at_inner = value(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + _GOLDEN * (high - low)
            at_outer = value(outer)
    return six_digits(math.exp(0.5 * (low + high)))


def tempered_bound(
    hypotheses: int,
    rounds: int,
    inverse_contrast: float,
    mixings: Callable[[int], float],
    temperature: float,
) -> float:
    """Return the bound of the tempered posterior on loss queries, if one hypothesis is right.

    ``2 C D sqrt(K T log K) + T (2 mixing D (1 - 1/K) - log(1 - mixing (1 - 1/K)))`` at temperature
    1/2; for temperatures a in (1/2, 1), log K becomes ``log K / (2 (1 - a))``. Infinite outside
    [1/2, 1). With a falling mixing, D is that of the last round.

    Parameters
    ----------
    hypotheses, rounds, inverse_contrast, mixings
        As in `endless_hedge_bound`.
    temperature : float
        Power a of the likelihood.
    """
    last = mixings(rounds)
    if not 0.5 <= temperature < 1.0 or not math.isfinite(inverse_contrast) or last <= 0.0:
        return math.inf
    widest = loss_diameter(hypotheses, last)
    spent = math.log(hypotheses) / (2.0 * (1.0 - temperature))
    learned = 2.0 * inverse_contrast * widest * math.sqrt(hypotheses * rounds * spent)
    share = 1.0 - 1.0 / hypotheses
    mixed = _over_rounds(
        lambda lam: 2.0 * lam * widest * share + mixing_cost(hypotheses, lam), mixings, rounds
    )
    return learned + mixed


def bayes_bound(
    hypotheses: int, rounds: int, strength: float, mixings: Callable[[int], float]
) -> float:
    """Return the bound of the posterior at temperature 1, if one hypothesis is right.

    ``L log L / (L - 1) * (sum TV + sum mixing_t)`` with L = K / mixing_T and
    ``sum TV <= s sqrt(T log K / 2)``, s the `strength` of the channel: ``TV(f_*, p_t)^2 <= s^2
    KL(g_*, g_t) / 2``, ``C sqrt(M)`` for Hadamard queries, 1/c for randomized response.

    Parameters
    ----------
    hypotheses, rounds, mixings
        As in `endless_hedge_bound`.
    strength : float
        s; infinite for channels without such an inequality, and the bound is then infinite.
    """
    last = mixings(rounds)
    if not math.isfinite(strength) or last <= 0.0:
        return math.inf
    ratio = hypotheses / last
    if ratio <= 1.0:
        return 0.0
    factor = ratio * math.log(ratio) / (ratio - 1.0)
    variation = strength * math.sqrt(rounds * math.log(hypotheses) / 2.0)
    # The total variation is at most 1 per round, for any channel.
    return factor * (min(variation, rounds) + _over_rounds(lambda lam: lam, mixings, rounds))
