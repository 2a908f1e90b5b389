"""Which question is asked in which round: public coins, and what the server may decide with.

Public coins are SplitMix64 in counter mode: integers only, the same in every language. They choose
what is asked; they are never noise, and nothing here can be used for it: noise comes from
`dpoco.random.Source`, whose key is not public.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.local._losses import SMALLEST_HALF_RANGE, loss_diameter, loss_ranges
from dpoco.local._queries import HadamardQuery, LossQuery, Query, ThresholdQuery, hadamard_size

__all__ = [
    "COIN_FAMILIES",
    "PublicCoins",
    "all_questions",
    "bisection",
    "hadamard",
    "loss",
    "mean_test",
    "pair_query",
    "public_seed",
    "questions_of",
    "scheffe",
]

FloatArray = NDArray[np.float64]

# Families of threshold queries that depend on public coins and K alone.
COIN_FAMILIES = ("bisection", "scheffe", "mean_test")
_LARGEST_ENUMERATION = 5000
# The stream that decides whether an adaptive query is replaced by a random pair.
_ADAPTIVE_SLOT = 1000


def _integer(name: str, value: Any, smallest: int, largest: int) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    number = int(value)
    if not smallest <= number <= largest:
        raise ValueError(f"{name} must be in [{smallest}, {largest}]; got {number}")
    return number


def public_seed(value: Any) -> int:
    """Return a public seed, an integer in [0, 2**64), or raise."""
    return _integer("public_seed", value, 0, 2**64 - 1)


class PublicCoins:
    """The stream of public random words of one question.

    Parameters
    ----------
    seed : int
        Public, in [0, 2**64).
    round : int
        At least 1, below 2**63.
    slot : int, default 0
        Which bit of the report, in [0, 2**32).

    Notes
    -----
    Word i = 1, 2, ... is ``mix(h + i G)`` with ``h = mix(seed ^ mix(round G + slot + 1))``, ``mix``
    the finaliser of SplitMix64 and G its increment, all modulo 2**64.
    """

    def __init__(self, seed: int, round: int, slot: int = 0) -> None:
        self._engine = _core.PublicCoins(
            public_seed(seed),
            _integer("round", round, 1, 2**63 - 1),
            _integer("slot", slot, 0, 2**32 - 1),
        )

    def word(self) -> int:
        """Return the next word, uniform in [0, 2**64)."""
        return self._engine.word()

    def below(self, n: int) -> int:
        """Return the next integer uniform in [0, n), 1 <= n < 2**64: exactly, by rejection."""
        return self._engine.below(_integer("n", n, 1, 2**64 - 1))

    def subset(self, n: int, size: int) -> tuple[int, ...]:
        """Return a uniform subset of 0..n-1, ascending, by a partial Fisher-Yates shuffle.

        Parameters
        ----------
        n : int
            At least 1.
        size : int
            In [0, n].
        """
        whole = _integer("n", n, 1, 2**31)
        count = _integer("size", size, 0, whole)
        members = self._engine.shuffled(whole, count)[:count]
        return tuple(sorted(members.tolist()))

    def pair(self, n: int) -> tuple[int, int]:
        """Return two different integers below n >= 2, in random order."""
        first = self.below(_integer("n", n, 2, 2**40))
        second = self.below(n - 1)
        return first, second + (second >= first)


def bisection(seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    """Compare the mean of a random half of the hypotheses with the mean of the others.

    Coefficients are 1/|A| on A, a uniformly random subset of floor(K/2) hypotheses, and
    -1/(K - |A|) off A. A single hypothesis is asked nothing: its coefficient is 0.
    """
    return _drawn("bisection", seed, round, slot, hypotheses)


def scheffe(seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    """Ask where one random hypothesis exceeds another."""
    return _drawn("scheffe", seed, round, slot, hypotheses)


def mean_test(seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    """Ask where one random hypothesis exceeds the mean of all."""
    return _drawn("mean_test", seed, round, slot, hypotheses)


def _drawn(family: str, seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    drawn = _core.local_threshold_questions(family, seed, round, 1, 1, hypotheses, slot)
    return ThresholdQuery.of_row(drawn[0])


def hadamard(seed: int, round: int, slot: int, labels: int) -> HadamardQuery:
    """Ask for a random row of the Hadamard matrix of the labels, never the constant one."""
    size = hadamard_size(labels)
    return HadamardQuery(1 + PublicCoins(seed, round, slot).below(size - 1))


def loss(
    seed: int,
    round: int,
    slot: int,
    hypotheses: int,
    mixing: float,
    ranges: tuple[FloatArray, FloatArray] | None = None,
) -> LossQuery:
    """Ask for the loss of one random hypothesis.

    `ranges` are exact mid-points and half ranges of all K losses; by default 0 and D/2.
    """
    index = PublicCoins(seed, round, slot).below(hypotheses)
    if ranges is None:
        half = max(0.5 * loss_diameter(hypotheses, mixing), SMALLEST_HALF_RANGE)
        return LossQuery(index, 0.0, half, mixing)
    return LossQuery(index, float(ranges[0][index]), float(ranges[1][index]), mixing)


def pair_query(hypotheses: int, first: int, second: int) -> ThresholdQuery:
    """Ask where hypothesis `first` exceeds hypothesis `second`."""
    coefficients = np.zeros(hypotheses)
    coefficients[first], coefficients[second] = 1.0, -1.0
    return ThresholdQuery(coefficients)


def _adaptive(
    seed: int, round: int, slot: int, matrix: FloatArray, weights: FloatArray
) -> ThresholdQuery:
    """Ask what splits the weights best; one time in ten, about a random pair instead.

    The coins of slot 1000 + slot: the first draw decides, the next ones choose the pair.
    """
    count = matrix.shape[0]
    if count == 1:
        return bisection(seed, round, slot, count)
    coins = PublicCoins(seed, round, _ADAPTIVE_SLOT + slot)
    if coins.below(10) == 0:
        return pair_query(count, *coins.pair(count))
    return ThresholdQuery(_core.local_adaptive_query(weights, matrix)[0])


def questions_of(
    family: str,
    seed: int,
    round: int,
    bits: int,
    matrix: FloatArray,
    *,
    weights: FloatArray | None,
    mixing: float,
    exact_range: bool,
) -> tuple[tuple[Query, ...], tuple[FloatArray, ...]]:
    """Return a round's queries of one family, and their means; `weights` for "adaptive" alone."""
    count, labels = matrix.shape
    ranges = loss_ranges(matrix, mixing) if family == "loss" and exact_range else None
    asked: list[Query] = []
    for slot in range(bits):
        if family == "adaptive":
            assert weights is not None
            asked.append(_adaptive(seed, round, slot, matrix, weights))
        elif family == "hadamard" and labels > 1:
            asked.append(hadamard(seed, round, slot, labels))
        elif family == "loss":
            asked.append(loss(seed, round, slot, count, mixing, ranges))
        else:  # of one label there is nothing to ask, whatever the question
            own = family if family in COIN_FAMILIES else "bisection"
            asked.append(_drawn(own, seed, round, slot, count))
    return tuple(asked), tuple(query.means(matrix) for query in asked)


def all_questions(family: str, count: int, labels: int) -> Iterator[Query] | None:
    """Return all questions of a family, each as likely as the others; None for too many."""
    if family == "bisection" and math.comb(count, count // 2) <= _LARGEST_ENUMERATION:
        return _bisections(count)
    if family == "scheffe" and count * (count - 1) <= _LARGEST_ENUMERATION:
        return (pair_query(count, *pair) for pair in permutations(range(count), 2))
    if family == "mean_test":
        return (ThresholdQuery(row) for row in np.eye(count) - 1.0 / count)
    if family == "hadamard" and hadamard_size(labels) <= _LARGEST_ENUMERATION:
        return (HadamardQuery(row) for row in range(1, hadamard_size(labels)))
    return None


def _bisections(count: int) -> Iterator[Query]:
    half = count // 2
    for members in combinations(range(count), half):
        coefficients = np.full(count, -1.0 / (count - half))
        coefficients[list(members)] = 1.0 / half
        yield ThresholdQuery(coefficients)
