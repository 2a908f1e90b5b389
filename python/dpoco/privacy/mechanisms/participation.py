"""Sensitivity of correlated sums to all rounds of one person.

A person comes in at most k rounds, any two of them at least b rounds apart, in a pattern that may
react to releases. S(k, b) is the largest l2 norm that |C| makes of such a pattern. Claim: with
coefficients that do not increase, no pattern has more than 1, 1 + b, 1 + 2b, ...; in a tree no node
holds more of a person's rounds than its length allows. If a push adds up a batch of rounds, only a
lower bound of a round's place among the pushes is known.

Proof: ``docs/privacy/participation.md``. Source: Choquette-Choo, Dvijotham, Pillutla, Ganesh,
Steinke and Thakurta (2023) for equally spaced rounds; closed form, trees and batches are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["arms_column", "banded_column", "blt_column", "coefficients_column", "geometric",
           "most_rounds", "normalised_column", "spaced_column", "tree_column"]  # fmt: skip

FloatArray = NDArray[np.float64]

_UP = 1.0 + 2.0**-40  # more than the rounding of any of these bounds
_EACH = 2.0**-50  # margin per round where rounds are added one by one
# Largest numbers of a person's rounds for which pairs are added lag by lag (`_PAIRED`, `_ADDED`);
# largest number of rounds that 64 bits count.
_PAIRED, _ADDED, _COUNTED = 10**6, 10**4, 2**62


def most_rounds(rounds: int, separation: int, length: int) -> int:
    """Return the largest number of `length` rounds that can belong to one person."""
    return min(rounds, -(-length // separation))


def arms_column(
    column: Callable[[int, int], float], rounds: int, separation: int, arms: int, forced: int
) -> float:
    """Return a bound on S for the stacked sums of several arms.

    Each of a person's `forced` rounds moves one arm, while the clocks of the other arms stop, so
    the rounds may be neighbours there. The bound counts them together, from both ends of a range.
    """
    # Theorem 6 of docs/privacy/participation.md. If `low` to `high` rounds are forced, the two ends
    # of this range bound both terms, so the number of steps is logarithmic.
    most = min(rounds, -(-arms * forced // separation))
    found, ratio, low = column(rounds, separation), 0.0, 1
    while low <= most:
        high = min(most, max(low, low * 9 // 8))
        if low <= forced:
            ratio = max(ratio, column(min(high, forced), 1) ** 2 / low)
        free = column(rounds - low, separation) if rounds > low else 0.0
        found = max(found, math.sqrt(high * ratio) + free)
        low = high + 1
    return min(found, rounds * column(1, 1)) * _UP  # no round moves more than a column


def tree_column(pushes: int, batch: int, rounds: int, separation: int) -> float:
    """Return a bound on S for dyadic nodes; a sum of squares is largest in crowded nodes."""
    k = most_rounds(rounds, separation, pushes * batch)
    total = 0
    # Squares are convex, so the worst pattern fills nodes with as many of a person's rounds as
    # fit, and has the rest in one more node ("The worst pattern", trees).
    for level in range(pushes.bit_length()):
        nodes, most = pushes >> level, min(k, -(-(batch << level) // separation))
        full = min(k // most, nodes)
        rest = min(k - full * most, most) if full < nodes else 0
        total += full * most * most + rest * rest
    return math.sqrt(total)


@lru_cache(maxsize=256)
def blt_column(
    decay: tuple[float, ...], weights: tuple[float, ...], pushes: int, batch: int,
    rounds: int, separation: int,
) -> float:  # fmt: skip
    """Return S, or a bound on it, for c_0 = 1 and c_i = sum_j weights_j (1 - decay_j)^(i-1).

    The weights must add up to at most 1. The result is exact, in O(log k), if `batch` divides
    `separation`; otherwise it takes O(k) up to a million rounds.
    """
    s, w = np.array(decay), np.array(weights)
    k = most_rounds(rounds, separation, pushes * batch)
    # If `batch` divides `separation`, the place of a round is known and the closed form is exact.
    # Otherwise pairs give a sharper bound, at a cost of O(k).
    if separation % batch and k <= _PAIRED and pushes * batch < _COUNTED:
        return _pair_bound(s, w, pushes, k, separation, batch) * max(_UP, 1.0 + k * _EACH)
    return float(_bound_batches(partial(spaced_column, s, w, pushes), batch, k, separation)) * _UP


def normalised_column(
    decay: tuple[float, ...], weights: tuple[float, ...], norms: Callable[[FloatArray], FloatArray],
    pushes: int, batch: int, rounds: int, separation: int,
) -> float:  # fmt: skip
    """Return a bound on S for these coefficients, with columns divided by their norms or more.

    `norms` maps numbers of pushes to the norms of such columns. The weights must add up to w <= 1
    with w^2 <= sum_j weights_j (1 - decay_j); then coefficients fall and their ratios grow. O(k).
    """
    s, w, n = np.array(decay), np.array(weights), pushes
    cross, joint, log_r = np.outer(w, w), _joint(s), np.log1p(-s)

    def pattern_norm(k: int, b: int) -> float:
        k = most_rounds(k, b, n)
        between = cross * geometric(joint, b - 1.0)
        behind = cross * geometric(joint, float(n - 1 - (k - 1) * b))
        total, past = 0.0, np.zeros_like(s)  # share of the person's earlier rounds in each buffer
        shares = 1.0 / norms(n - b * np.arange(k, dtype=np.float64))
        for place, share in enumerate(shares.tolist()):
            held = share + np.exp(log_r) * past
            after = behind if place == k - 1 else between
            total += (share + float(w @ past)) ** 2 + float(held @ after @ held)
            past = np.exp((b - 1.0) * log_r) * held
        return math.sqrt(total)

    k = most_rounds(rounds, separation, n * batch)
    return float(_bound_batches(pattern_norm, batch, k, separation)) * max(_UP, 1.0 + k * _EACH)


def banded_column(
    weights: FloatArray, band: int, pushes: int, batch: int, rounds: int, separation: int
) -> float:
    """Return S, or a bound on it, for columns of `band` rows with the norms of their windows.

    The `weights`, one for every `band` pushes, must not increase. The result is exact if `batch`
    divides `separation` and rounds are at least a band apart, because the columns then share no
    row. O(k).
    """

    def pattern_norm(k: int, b: int) -> float:
        k = most_rounds(k, b, pushes)
        ways = min(k, -(-band // b))  # rounds of a person that are `ways` apart share no row
        places = np.arange(-(-k // ways), dtype=np.int64) * (ways * b) // band
        return ways * float(np.linalg.norm(weights[places]))

    k = most_rounds(rounds, separation, pushes * batch)
    return float(_bound_batches(pattern_norm, batch, k, separation)) * _UP


def coefficients_column(
    coefficients: FloatArray, batch: int, rounds: int, separation: int
) -> float:
    """Return S, or a bound on it, for one coefficient per push that do not increase; O(n k)."""
    n = len(coefficients)
    k = most_rounds(rounds, separation, n * batch)
    # The choice is that of `blt_column`; pairs cost O(n k) here, so the limit is lower.
    if separation % batch == 0 or k > _ADDED or n * batch >= _COUNTED:
        norm = partial(_columns_norm, coefficients)
        return float(_bound_batches(norm, batch, k, separation)) * _UP
    places = np.arange(k, dtype=np.int64) * separation // batch
    total, products, before = 0.0, coefficients, -1
    for lag in range(k):  # lag between two rounds of a person; the later is at its place or after
        apart = int(places[lag])
        if apart != before:
            products = np.cumsum(coefficients[: n - apart] * coefficients[apart:])
            before = apart
        pairs = float(products[n - places[lag:] - 1].sum())
        total += pairs if lag == 0 else 2.0 * pairs
    return math.sqrt(total) * _UP


def _bound_batches(spaced: Callable[[int, int], Any], batch: int, k: int, separation: int) -> Any:
    """Return a bound on S from that of pushes; exact if `batch` divides `separation`."""
    # If a batch holds several rounds of a person, every crowd-th of them is in a separate push, and
    # the norms at most add up.
    crowd = min(k, -(-batch // separation))  # rounds of a person in one batch
    return crowd * spaced(-(-k // crowd), max(1, separation // batch))


def _columns_norm(coefficients: FloatArray, k: int, b: int) -> float:
    """Return the norm of the sum of the columns of pushes 0, b, ..., (k - 1) b."""
    n = len(coefficients)
    column = np.zeros(n)
    for place in range(0, min(n, k * b), b):
        column[place:] += coefficients[: n - place]
    return float(np.linalg.norm(column))


def geometric(x: FloatArray, terms: NDArray[Any] | float) -> FloatArray:
    """Return the sum of (1 - x)^i over i < terms, for x in (0, 1]."""
    return np.asarray(-np.expm1(terms * np.log1p(-np.minimum(x, 1.0 - 2.0**-53))) / x)


def spaced_column(s: FloatArray, w: FloatArray, n: int, k: int, b: int) -> FloatArray:
    """Return the norm of |C| on rounds 1, 1 + b, ..., 1 + (k - 1) b of n, without cancellation.

    Rates and weights may have any shape; their last axis is that of the buffers. O(log k).
    """
    k = most_rounds(k, b, n)
    log_r = np.log1p(-s)
    # With T(q) = sum_{l < q} r^(b l), by doubling: sums of T(q) and T(q) T(q)' over 1 <= q < k.
    t, one, step = np.zeros_like(s), np.ones_like(s), np.exp(b * log_r)
    sums, squares, done = np.zeros_like(s), _outer(t, t), 0
    for bit in f"{k - 1:b}":
        power = np.exp(float(b * done) * log_r)  # a product of powers would add up their errors
        moved = power * sums
        cross = _outer(t, moved)
        squares = (1.0 + _outer(power, power)) * squares + done * _outer(t, t)
        squares = squares + cross + np.swapaxes(cross, -1, -2)
        sums, t, done = sums + done * t + moved, t + power * t, 2 * done
        if bit == "1":
            t = one + step * t
            sums, squares, done = sums + t, squares + _outer(t, t), done + 1
    last = one + step * t
    v, both = w * np.exp((b - 1.0) * log_r), _joint(s)
    behind = geometric(both, float(n - 1 - (k - 1) * b)) * _outer(last, last)
    rest = _outer(v, v) * squares + _outer(w, w) * (geometric(both, b - 1.0) * squares + behind)
    return np.asarray(np.sqrt(k + 2.0 * (v * sums).sum(-1) + rest.sum((-2, -1))))


def _pair_bound(s: FloatArray, w: FloatArray, n: int, k: int, b: int, batch: int) -> float:
    """Return the root of the sum of all products of columns, at their earliest places."""
    places = np.arange(k, dtype=np.int64) * b // batch
    joint, left = _joint(s), n - 1.0 - places
    tails = np.zeros((k, len(s)))  # of the later one's column, by its place
    for i, j in np.ndindex(joint.shape):
        tails[:, j] += w[i] * w[j] * geometric(joint[i, j], left)
    tails = np.cumsum(tails[::-1], axis=0)[::-1]
    powers = np.exp(places[:, None] * np.log1p(-s)[None, :])
    first = np.where(places == 0, 1.0, (w / (1.0 - s) * powers).sum(axis=1))  # c at the distance
    pairs = (k - np.arange(k)) * first + (tails * powers).sum(axis=1)
    return math.sqrt(2.0 * math.fsum(pairs) - float(pairs[0]))


def _joint(s: FloatArray) -> FloatArray:
    """Return the rates of products of two powers, capped below 1."""
    # The cap keeps log1p finite in `geometric`, and makes sums larger.
    both = s[..., :, None] + s[..., None, :] - _outer(s, s)
    return np.asarray(np.minimum(both, np.nextafter(1.0, 0.0)))


def _outer(one: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(one[..., :, None] * other[..., None, :])
