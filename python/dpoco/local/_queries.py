"""Queries: the public questions behind one-bit reports, and which of them is asked in which round.

A query is a function phi from labels to [-1, 1]. The device evaluates it from the K numbers
F[:, y] of its label; the server evaluates it for all labels. Both get the same bits.
A wrong or hostile query costs accuracy and never privacy: whatever it says is clamped.

Public coins are SplitMix64 in counter mode: integers only, the same in every language. They choose
what is asked; they are never noise, and nothing here can be used for it: noise comes from
`dpoco.random.Source`, whose key is not public.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray, float_array, label_index, number, positive_int

_LARGEST_COUNT = 2**31 - 1
# Families of threshold queries that depend on public coins and K alone.
COIN_FAMILIES = ("bisection", "scheffe", "mean_test")
_LARGEST_ENUMERATION = 5000
# The stream that decides whether an adaptive query is replaced by a random pair.
_ADAPTIVE_SLOT = 1000
_HADAMARD, _LOSS = struct.Struct("<I"), struct.Struct("<Iddd")


class Query:
    """The public question behind one bit. Immutable; equal if the bytes are equal."""

    def phi(self, column: FloatArray, label: Any, labels: int | None) -> float:
        """Return the query's value at one label, in [-1, 1]; O(K).

        `column`, shape (K,), holds the likelihoods of the label under the hypotheses; `labels` is
        M, or None where labels form no finite set. No label, and what is none, has the value 0.
        """
        if labels == 1:  # nothing to ask
            return 0.0
        own = label_index(label, labels) if labels is not None else None if label is None else 0
        # Evaluated for no label as well, and chosen afterwards: both take the same time.
        rows = np.ascontiguousarray(column)[:, None]
        value = float(self.values_at(rows, np.array([own or 0], dtype=np.int64))[0])
        return 0.0 if own is None else value

    def values(self, matrix: FloatArray) -> FloatArray:
        """Return the values at all labels of a context, shape (M,), equal to those of `phi`.

        `matrix` holds the distributions, shape (K, M). O(K M).
        """
        if matrix.shape[1] == 1:
            return np.zeros(1)
        return self.values_at(matrix, np.arange(matrix.shape[1]))

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels, shape (n,), equal to those of `phi`.

        Column i of `columns`, shape (K, n), holds the likelihoods of ``labels[i]``. O(K n).
        """
        raise NotImplementedError

    def means(self, matrix: FloatArray) -> FloatArray:
        """Return the mean of the query under every hypothesis, shape (K,); O(K M)."""
        if matrix.shape[1] == 1:
            return np.zeros(matrix.shape[0])
        return _core.local_query_means(matrix, np.ascontiguousarray(self.values(matrix)))

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise ``ValueError`` unless the query fits K hypotheses and M labels."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return the query as bytes, read by `read_query`."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_bytes() == self.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_whole_query, (self.to_bytes(),))


@dataclass(frozen=True, eq=False)
class ThresholdQuery(Query):
    """+1 where ``sum_j c_j F[j, y] > 0``, else -1.

    Parameters
    ----------
    coefficients : array of shape (K,)
        c. The sum runs over j ascending; where it is not finite, the value is 0. Coefficients
        that are all 0 ask nothing: the value is 0 everywhere.
    """

    coefficients: FloatArray

    def __post_init__(self) -> None:
        """Keep a copy that cannot be changed."""
        values = float_array("coefficients", self.coefficients, (None,)).copy()
        values.flags.writeable = False
        object.__setattr__(self, "coefficients", values)

    def to_bytes(self) -> bytes:
        """Return the query as bytes."""
        return (
            struct.pack("<BI", 1, len(self.coefficients))
            + self.coefficients.astype("<f8").tobytes()
        )

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless there is one coefficient per hypothesis."""
        if self.coefficients.size != hypotheses:
            raise ValueError(f"a threshold query needs {hypotheses} coefficients")

    def means(self, matrix: FloatArray) -> FloatArray:
        """Return the mean of the query under every hypothesis, shape (K,). O(K M)."""
        if matrix.shape[1] == 1:
            return np.zeros(matrix.shape[0])
        return _core.local_threshold_means(matrix, self.coefficients)[1]

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels, shape (n,)."""
        return _core.local_threshold_values(self.coefficients, columns)


@dataclass(frozen=True, eq=False)
class HadamardQuery(Query):
    """(-1) to the number of common binary digits of `row` and the label.

    Parameters
    ----------
    row : int
        In [1, M'), M' the smallest power of two of at least M labels.
    """

    row: int

    def __post_init__(self) -> None:
        """Refuse the constant row."""
        object.__setattr__(self, "row", positive_int("row", self.row, maximum=_LARGEST_COUNT))

    def to_bytes(self) -> bytes:
        """Return the query as bytes."""
        return b"\2" + _HADAMARD.pack(self.row)

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless the row is a non-constant row of the labels' Hadamard matrix."""
        if labels is None:
            raise ValueError("a Hadamard query needs a finite number of labels")
        if self.row >= hadamard_size(labels):
            raise ValueError(f"the row of a Hadamard query must be below {hadamard_size(labels)}")

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels; `columns` is ignored."""
        common = labels.astype(np.uint64) & np.uint64(self.row)
        for shift in (32, 16, 8, 4, 2, 1):
            common ^= common >> np.uint64(shift)
        return 1.0 - 2.0 * (common & np.uint64(1)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LossQuery(Query):
    """The centred, mixed log-loss of one hypothesis, scaled to [-1, 1].

    Parameters
    ----------
    index : int
        J in [0, K).
    midpoint, half_range : float
        ``phi = (u_J - midpoint) / half_range``, clamped.
    mixing : float
        Share of the mean of the hypotheses in the losses, see ``dpoco.local._bounds``.

    Notes
    -----
    A label that is impossible under every hypothesis has the value 0.
    """

    index: int
    midpoint: float
    half_range: float
    mixing: float

    def __post_init__(self) -> None:
        """Keep plain numbers; they may be anything, for values are clamped."""
        place = positive_int("index", self.index, minimum=0, maximum=_LARGEST_COUNT)
        object.__setattr__(self, "index", place)
        for name in ("midpoint", "half_range", "mixing"):
            object.__setattr__(self, name, number(name, getattr(self, name)))

    def to_bytes(self) -> bytes:
        """Return the query as bytes."""
        return b"\3" + _LOSS.pack(self.index, self.midpoint, self.half_range, self.mixing)

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless the index belongs to a hypothesis."""
        if self.index >= hypotheses:
            raise ValueError(f"the index of a loss query must be below {hypotheses}")

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels, shape (n,)."""
        return _core.local_loss_values(
            self.index, self.midpoint, self.half_range, self.mixing, columns
        )


def hadamard_size(labels: int) -> int:
    """Return M', the smallest power of two of at least `labels`, and at least 2."""
    return 1 << max(1, (labels - 1).bit_length())


def read_query(data: bytes, offset: int) -> tuple[Query, int]:
    """Return the query that starts at `offset`, and its end; ``ValueError`` if there is none."""
    try:
        code, offset = data[offset], offset + 1
        if code == 1:
            (count,) = struct.unpack_from("<I", data, offset)
            end = offset + 4 + 8 * count
            if end <= len(data):
                return ThresholdQuery(np.frombuffer(data[offset + 4 : end], dtype="<f8")), end
        if code == 2:
            return HadamardQuery(*_HADAMARD.unpack_from(data, offset)), offset + _HADAMARD.size
        if code == 3:
            return LossQuery(*_LOSS.unpack_from(data, offset)), offset + _LOSS.size
    except (IndexError, struct.error):
        pass
    raise ValueError("malformed query")


def _whole_query(data: bytes) -> Query:
    return read_query(data, 0)[0]


class PublicCoins:
    """The public random words of one question.

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
            positive_int("public_seed", seed, minimum=0, maximum=2**64 - 1),
            positive_int("round", round, maximum=2**63 - 1),
            positive_int("slot", slot, minimum=0, maximum=2**32 - 1),
        )

    def word(self) -> int:
        """Return the next word, uniform in [0, 2**64)."""
        return self._engine.word()

    def below(self, n: int) -> int:
        """Return the next integer uniform in [0, n), 1 <= n < 2**64: exactly, by rejection."""
        return self._engine.below(positive_int("n", n, maximum=2**64 - 1))

    def pair(self, n: int) -> tuple[int, int]:
        """Return two different integers below n >= 2, in random order."""
        first = self.below(positive_int("n", n, minimum=2))
        second = self.below(n - 1)
        return first, second + (second >= first)


def threshold(family: str, seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    """Return a question drawn by public coins from one of `COIN_FAMILIES`.

    "bisection" compares the mean of A, a uniformly random half of the hypotheses (floor(K/2) of
    them), with the mean of the others: coefficients 1/|A| on A, -1/(K - |A|) off A. "scheffe" asks
    where one random hypothesis exceeds another, "mean_test" where one exceeds the mean of all. A
    single hypothesis is asked nothing: its coefficient is 0.
    """
    return ThresholdQuery(_core.local_threshold_question(family, seed, round, slot, hypotheses))


def hadamard(seed: int, round: int, slot: int, labels: int) -> HadamardQuery:
    """Ask for a random row of the Hadamard matrix of the labels, never the constant one."""
    size = hadamard_size(labels)
    return HadamardQuery(1 + PublicCoins(seed, round, slot).below(size - 1))


def loss(
    seed: int, round: int, slot: int, mixing: float, ranges: tuple[FloatArray, FloatArray]
) -> LossQuery:
    """Ask for the loss of one random hypothesis; `ranges` are those of all, shape (K,) each."""
    return loss_of(PublicCoins(seed, round, slot).below(ranges[0].size), mixing, ranges)


def loss_of(index: int, mixing: float, ranges: tuple[FloatArray, FloatArray]) -> LossQuery:
    """Ask for the loss of one hypothesis."""
    middle, half_range = ranges
    return LossQuery(index, float(middle[index]), float(half_range[index]), mixing)


def pair_query(hypotheses: int, first: int, second: int) -> ThresholdQuery:
    """Ask where hypothesis `first` exceeds hypothesis `second`."""
    coefficients = np.zeros(hypotheses)
    coefficients[first], coefficients[second] = 1.0, -1.0
    return ThresholdQuery(coefficients)


def adaptive(
    seed: int, round: int, slot: int, matrix: FloatArray, weights: FloatArray
) -> ThresholdQuery:
    """Ask what splits the weights best; one time in ten, about a random pair instead.

    The coins of slot 1000 + slot: the first draw decides, the next ones choose the pair.
    """
    count = matrix.shape[0]
    if count == 1:
        return threshold("bisection", seed, round, slot, count)
    coins = PublicCoins(seed, round, _ADAPTIVE_SLOT + slot)
    if coins.below(10) == 0:
        return pair_query(count, *coins.pair(count))
    return ThresholdQuery(_core.local_adaptive_query(weights, matrix)[0])


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
