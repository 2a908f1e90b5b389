"""Predictions in closed form: mixtures of the hypotheses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core

__all__ = ["Prediction"]

FloatArray = NDArray[np.float64]


def label_index(y: Any, labels: int) -> int | None:
    """Return `y` as an index below `labels`, or None for anything that is no such label."""
    if isinstance(y, (bool, np.bool_)) or not isinstance(y, (int, np.integer)):
        return None
    index = int(y)
    return index if 0 <= index < labels else None


def label_indices(labels: Sequence[Any] | NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return labels as integers in [0, count), -1 for whatever is none."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu" and labels.ndim == 1:
        inside = (labels >= 0) & (labels < count)
        # Of 64 signed bits first: -1 has no place among narrow or unsigned integers.
        out = np.full(labels.shape, -1, dtype=np.int64)
        out[inside] = labels[inside]
        return out
    found = (label_index(y, count) for y in labels)
    return np.array([-1 if index is None else index for index in found], dtype=np.int64)


class Prediction:
    """The distribution ``(1 - mixing) sum_j w_j f_j + mixing * mean of the f_j``.

    Parameters
    ----------
    weights : array of shape (K,)
        Weights of the hypotheses, summing to 1.
    mixing : float
        Share of the uniform mixture, in [0, 1].
    matrix : array of shape (K, M), optional
        The hypotheses for the round's context; not copied.
    column : callable, optional
        Instead of `matrix`: label -> likelihoods of shape (K,), for labels without a finite set.

    Notes
    -----
    Nothing of size M is computed before `all`; `prob` costs O(K).
    """

    __slots__ = ("_coefficients", "_column", "_matrix", "_mixing", "_weights")

    def __init__(
        self,
        weights: FloatArray,
        mixing: float,
        *,
        matrix: FloatArray | None = None,
        column: Callable[[Any], FloatArray] | None = None,
    ) -> None:
        if (matrix is None) == (column is None):
            raise ValueError("exactly one of matrix and column must be given")
        if not 0.0 <= mixing <= 1.0:
            raise ValueError(f"mixing must be in [0, 1]; got {mixing!r}")
        held = np.array(weights, dtype=np.float64)
        if held.ndim != 1 or (matrix is not None and matrix.shape[0] != held.size):
            raise ValueError("weights must have one entry a hypothesis")
        held.flags.writeable = False
        if matrix is not None:
            matrix = np.require(matrix, dtype=np.float64, requirements=["C", "A"])
        self._weights = held
        self._mixing = float(mixing)
        self._matrix = matrix
        self._column = column
        self._coefficients = (1.0 - self._mixing) * held + self._mixing / held.size

    @property
    def weights(self) -> FloatArray:
        """Weights of the hypotheses, shape (K,), read-only."""
        return self._weights

    @property
    def mixing(self) -> float:
        """Share of the uniform mixture."""
        return self._mixing

    @property
    def labels(self) -> int | None:
        """Number of labels M; None where labels form no finite set."""
        return None if self._matrix is None else int(self._matrix.shape[1])

    def prob(self, y: Any) -> float:
        """Return the probability (or density) of label `y`; 0 for no label. O(K)."""
        if self._matrix is None:
            assert self._column is not None
            likelihoods = np.ascontiguousarray(self._column(y), dtype=np.float64)[:, None]
        else:
            index = label_index(y, self._matrix.shape[1])
            if index is None:
                return 0.0
            likelihoods = np.ascontiguousarray(self._matrix[:, index : index + 1])
        # The loop of `all`, on one label: the same bits.
        return float(_core.local_mixture(likelihoods, self._coefficients, self._mixing, None)[0])

    def all(self) -> FloatArray:
        """Return the probabilities of all labels, shape (M,). O(K M).

        Raises
        ------
        ValueError
            Where labels form no finite set.
        """
        if self._matrix is None:
            raise ValueError("labels form no finite set; ask for prob(y)")
        total: FloatArray = _core.local_mixture(
            self._matrix, self._coefficients, self._mixing, None
        )
        return total

    def log_loss(self, y: Any) -> float:
        """Return ``-log prob(y)`` in nats; infinity for a label of probability 0."""
        probability = self.prob(y)
        return math.inf if probability <= 0.0 else -math.log(probability)

    def __repr__(self) -> str:
        labels = "no finite set" if self.labels is None else str(self.labels)
        return f"Prediction(hypotheses={self._weights.size}, labels={labels})"
