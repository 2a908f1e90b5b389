"""Which question is asked, over which channel: from public data only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.local import _families as families
from dpoco.local._losses import loss_ranges
from dpoco.local._queries import Query, ThresholdQuery
from dpoco.local._randomizers import best_subset_size

__all__ = [
    "MAX_MESSAGE_BITS",
    "ChannelChoice",
    "bit_information",
    "contraction",
    "query_means",
    "response_information",
    "subset_information",
]

FloatArray = NDArray[np.float64]

# Subsets over more labels, or longer on the wire, are not chosen automatically.
LARGEST_SUBSET_LABELS = 4096
MAX_MESSAGE_BITS = 4096


def query_means(query: Query, matrix: FloatArray) -> FloatArray:
    """Return the query's mean under every hypothesis, shape (K,); the same bits everywhere."""
    if matrix.shape[1] == 1:
        return np.zeros(matrix.shape[0])
    if isinstance(query, ThresholdQuery):
        means: FloatArray = _core.local_threshold_means(matrix, query.coefficients)[1]
        return means
    phi = np.ascontiguousarray(query.values(matrix))
    result: FloatArray = _core.local_query_means(matrix, phi)
    return result


def bit_information(weights: FloatArray, means: FloatArray, contrast: float) -> float:
    """Return the mutual information of one bit and the hypothesis, in nats."""
    return float(_core.local_bit_information(weights, means, contrast))


def contraction(labels: int, epsilon: float) -> float:
    """Return c of randomized response, ``g = c f + (1 - c) / M``."""
    odds = _core.local_exp(epsilon) - 1.0
    return float(odds / (odds + labels))


def response_information(weights: FloatArray, matrix: FloatArray, epsilon: float) -> float:
    """Return the mutual information of randomized response and the hypothesis, in nats."""
    c = contraction(matrix.shape[1], epsilon)
    entropies = _core.local_row_statistics(matrix, c)
    return float(_core.local_response_information(weights, matrix, entropies, c))


def signal(labels: int, size: int, epsilon: float) -> float:
    """Return kappa: the small-signal information of a subset is kappa/2 times the spread."""
    odds = _core.local_exp(epsilon) - 1.0
    share = size / labels
    gain = odds / (1.0 + odds * share)
    return float(gain * gain * size * (labels - size) / (labels * (labels - 1.0)))


def subset_information(weights: FloatArray, matrix: FloatArray, epsilon: float, size: int) -> float:
    """Return the small-signal information of subset selection, in nats."""
    squares = _core.local_row_statistics(matrix, None)
    spread = _core.local_weighted_spread(weights, matrix, squares)
    return 0.5 * signal(matrix.shape[1], size, epsilon) * float(spread)


class ChannelChoice:
    """Chooses the channel of a round; what depends on the context alone is computed once.

    Parameters
    ----------
    epsilon : float
        Of a whole report.
    message_bits : int
        Largest length of a subset on the wire, d log2 M.
    size : int, optional
        Size of subsets; by default the most informative.
    """

    def __init__(
        self, epsilon: float, message_bits: int = MAX_MESSAGE_BITS, size: int | None = None
    ) -> None:
        self._epsilon = epsilon
        self._message_bits = message_bits
        self._size = size
        self._matrix: FloatArray | None = None
        self._entropies: FloatArray = np.empty(0)
        self._squares: FloatArray = np.empty(0)  # only where subsets of several labels count
        self._uniform: tuple[float, float] | None = None

    def size(self, labels: int) -> int | None:
        """Return d* where subsets are among the choices, else None."""
        if not 2 <= labels <= LARGEST_SUBSET_LABELS:
            return None
        size = self._size or best_subset_size(labels, self._epsilon)
        return size if size * math.log2(labels) <= self._message_bits else None

    def choose(
        self,
        matrix: FloatArray,
        weights: FloatArray | None,
        means: Sequence[FloatArray],
        contrast: float,
    ) -> int | None:
        """Return the size of the subset to ask for, or None for bits.

        Parameters
        ----------
        matrix : array of shape (K, M)
            The hypotheses in this context.
        weights : array of shape (K,), optional
            What the server may decide with; by default uniform.
        means : sequence of arrays of shape (K,)
            Means of the round's queries, one a bit.
        contrast : float
            c0 of each bit.
        """
        count, labels = matrix.shape
        size = self.size(labels)
        if size is None or count == 1:
            return None
        used = np.full(count, 1.0 / count) if weights is None else weights
        bits = sum(bit_information(used, own, contrast) for own in means)
        response, subset = self._informations(matrix, used, weights is None, size)
        best, chosen = bits, None
        if response > best:
            best, chosen = response, 1
        if size >= 2 and subset > best:
            chosen = size
        return chosen

    def _informations(
        self, matrix: FloatArray, weights: FloatArray, uniform: bool, size: int
    ) -> tuple[float, float]:
        c = contraction(matrix.shape[1], self._epsilon)
        if matrix is not self._matrix:
            self._matrix, self._uniform = matrix, None
            self._entropies = _core.local_row_statistics(matrix, c)
            if size >= 2:
                self._squares = _core.local_row_statistics(matrix, None)
        if uniform and self._uniform is not None:
            return self._uniform
        response = float(_core.local_response_information(weights, matrix, self._entropies, c))
        subset = 0.0
        if size >= 2:
            spread = float(_core.local_weighted_spread(weights, matrix, self._squares))
            subset = 0.5 * signal(matrix.shape[1], size, self._epsilon) * spread
        if uniform:
            self._uniform = (response, subset)
        return response, subset


def queries_of(
    family: str,
    seed: int,
    round: int,
    bits: int,
    matrix: FloatArray,
    *,
    weights: FloatArray,
    mixing: float,
    exact_range: bool,
) -> tuple[tuple[Query, ...], tuple[FloatArray, ...]]:
    """Return a round's queries of one family, and their means; `weights` only for "adaptive"."""
    count, labels = matrix.shape
    asked: list[Query] = []
    ranges: tuple[FloatArray, FloatArray] | tuple[None, None] = (None, None)
    if family == "loss" and exact_range:
        ranges = loss_ranges(matrix, mixing)
    for slot in range(bits):
        query: Query
        if family == "adaptive":
            query = _adaptive(seed, round, slot, matrix, weights)
        elif family == "hadamard" and labels > 1:
            query = families.hadamard(seed, round, slot, labels)
        elif family == "loss":
            query = families.loss(seed, round, slot, count, mixing, *ranges)
        else:
            own: Any = {
                "bisection": families.bisection,
                "hadamard": families.bisection,  # one label: nothing to ask
                "scheffe": families.scheffe,
                "mean_test": families.mean_test,
            }[family]
            query = own(seed, round, slot, count)
        asked.append(query)
    return tuple(asked), tuple(query_means(query, matrix) for query in asked)


def _adaptive(
    seed: int, round: int, slot: int, matrix: FloatArray, weights: FloatArray
) -> ThresholdQuery:
    count = matrix.shape[0]
    if count == 1:
        return families.bisection(seed, round, slot, count)
    pair = families.adaptive_pair(seed, round, slot, count)
    if pair is not None:
        return families.pair_query(count, *pair)
    return ThresholdQuery(_core.local_adaptive_query(weights, matrix)[0])
