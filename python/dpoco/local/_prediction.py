"""Predictions in closed form: a mixture of the hypotheses and a public background."""

from __future__ import annotations

import math
from collections.abc import Callable
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


class Prediction:
    """The distribution ``(1 - mixing) sum_j w_j f_j + mixing * background``.

    Parameters
    ----------
    weights : array of shape (K,)
        Weights of the hypotheses, summing to 1.
    mixing : float
        Share of the background, in [0, 1].
    matrix : array of shape (K, M), optional
        The hypotheses for the round's context; not copied.
    column : callable, optional
        Instead of `matrix`: label -> likelihoods of shape (K,), for labels without a finite set.
    background : array of shape (M,), optional
        A distribution over labels; by default the uniform mixture of the hypotheses.

    Notes
    -----
    Nothing of size M is computed before `all`; `prob` costs O(K).
    """

    __slots__ = ("_background", "_coefficients", "_column", "_matrix", "_mixing", "_weights")

    def __init__(
        self,
        weights: FloatArray,
        mixing: float,
        *,
        matrix: FloatArray | None = None,
        column: Callable[[Any], FloatArray] | None = None,
        background: FloatArray | None = None,
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
        if background is not None:
            background = np.require(background, dtype=np.float64, requirements=["C", "A"])
            if matrix is None or background.shape != matrix.shape[1:]:
                raise ValueError("background must have one entry a label")
        self._weights = held
        self._mixing = float(mixing)
        self._matrix = matrix
        self._column = column
        self._background = background
        share = 0.0 if background is not None else self._mixing / held.size
        self._coefficients = (1.0 - self._mixing) * held + share

    @property
    def weights(self) -> FloatArray:
        """Weights of the hypotheses, shape (K,), read-only."""
        return self._weights

    @property
    def mixing(self) -> float:
        """Share of the background."""
        return self._mixing

    @property
    def labels(self) -> int | None:
        """Number of labels M; None where labels form no finite set."""
        return None if self._matrix is None else int(self._matrix.shape[1])

    def prob(self, y: Any) -> float:
        """Return the probability (or density) of label `y`; 0 for no label. O(K)."""
        rest: FloatArray | None = None
        if self._matrix is None:
            assert self._column is not None
            likelihoods = np.ascontiguousarray(self._column(y), dtype=np.float64)[:, None]
        else:
            index = label_index(y, self._matrix.shape[1])
            if index is None:
                return 0.0
            likelihoods = np.ascontiguousarray(self._matrix[:, index : index + 1])
            if self._background is not None:
                rest = self._background[index : index + 1]
        # The loop of `all`, on one label: the same bits.
        return float(_core.local_mixture(likelihoods, self._coefficients, self._mixing, rest)[0])

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
            self._matrix, self._coefficients, self._mixing, self._background
        )
        return total

    def log_loss(self, y: Any) -> float:
        """Return ``-log prob(y)`` in nats; infinity for a label of probability 0."""
        probability = self.prob(y)
        return math.inf if probability <= 0.0 else -math.log(probability)

    def __repr__(self) -> str:
        # Weights depend on reports, which are private already; still only the shape is shown.
        labels = "no finite set" if self.labels is None else str(self.labels)
        return f"Prediction(hypotheses={self._weights.size}, labels={labels})"
