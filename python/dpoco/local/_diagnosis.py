"""What questions can tell about hypotheses, whatever the answers were."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpoco._divergences import total_variations
from dpoco._validation import real_float
from dpoco.local._affinity import LARGEST_INFORMATION, bit_gap, information_of, subset_gap
from dpoco.local._channel import query_means
from dpoco.local._randomizers import BitRandomizer, SubsetRandomizer
from dpoco.local._specs import RoundSpec

__all__ = ["error_bound", "information", "undecidable"]

FloatArray = NDArray[np.float64]


def information(asked: Iterable[tuple[RoundSpec, int]], matrix: FloatArray) -> FloatArray:
    """Return the sum of ``-log BC`` of questions, each answered so many times, shape (K, K)."""
    count, labels = matrix.shape
    if count > LARGEST_INFORMATION:
        raise ValueError(f"information() takes at most {LARGEST_INFORMATION} hypotheses")
    total = np.zeros((count, count))
    subsets: dict[int, FloatArray] = {}
    for spec, times in asked:
        size = spec.subset_size
        if size is None:
            contrast = BitRandomizer(spec.epsilon, spec.width).contrast
            for query in spec.queries:
                gap = bit_gap(query_means(query, matrix), contrast, labels)
                total += times * information_of(gap)
            continue
        if size not in subsets:
            gain = SubsetRandomizer(labels, size, spec.epsilon).gain
            subsets[size] = information_of(subset_gap(matrix, size, gain))
        total += times * subsets[size]
    return total


def error_bound(known: FloatArray, matrix: FloatArray, alpha: float) -> float:
    """Return ``max_i sum_{j: TV(i, j) > alpha} exp(-known_ij)``, at most 1."""
    apart = total_variations(matrix) > real_float("alpha", alpha)
    return min(1.0, float(np.where(apart, np.exp(-known), 0.0).sum(axis=1).max()))


def undecidable(
    known: FloatArray, matrix: FloatArray, alpha: float, beta: float
) -> NDArray[np.intp]:
    """Return pairs further than alpha apart with less information than log((K - 1) / beta)."""
    near, level = real_float("alpha", alpha), real_float("beta", beta)
    if not 0.0 < level < 1.0:
        raise ValueError(f"beta must be in (0, 1); got {level!r}")
    apart = np.triu(total_variations(matrix) > near, 1)
    short = known < math.log(max(known.shape[0] - 1, 1) / level)
    first, second = np.nonzero(apart & short)
    order = np.argsort(known[first, second], kind="stable")
    return np.stack([first[order], second[order]], axis=1)
