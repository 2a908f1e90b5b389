"""Queries: the public questions behind one-bit reports.

A query is a function phi from labels to [-1, 1]. The device evaluates it from the K numbers
F[:, y] of its own label; the server evaluates it for all labels. Both get the same bits.
A wrong or hostile query costs accuracy and never privacy: whatever it says is clamped.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import float_array, number, positive_int
from dpoco.local._prediction import label_index

__all__ = ["HadamardQuery", "LossQuery", "Query", "ThresholdQuery", "hadamard_size", "read_query"]

FloatArray = NDArray[np.float64]

_LARGEST_COUNT = 2**31 - 1


class Query:
    """The public question behind one bit. Immutable; equal where the bytes are."""

    __slots__ = ("_bytes",)
    _code: ClassVar[int]
    _bytes: bytes

    def phi(self, column: FloatArray, label: Any, labels: int | None) -> float:
        """Return the query's value at one label, in [-1, 1].

        Parameters
        ----------
        column : array of shape (K,)
            Likelihoods of the label under the hypotheses.
        label : object
            The label; None, and what is no label in [0, labels), have the value 0.
        labels : int or None
            M; None where labels form no finite set.

        Notes
        -----
        O(K). With a single label there is nothing to ask: 0.
        """
        if labels == 1:
            return 0.0
        own = label_index(label, labels) if labels is not None else None if label is None else 0
        # Evaluated for no label, too, and chosen afterwards: both take the same time.
        rows = np.ascontiguousarray(column)[:, None]
        value = float(self.values_at(rows, np.array([own or 0], dtype=np.int64))[0])
        return 0.0 if own is None else value

    def values(self, matrix: FloatArray) -> FloatArray:
        """Return the values at all labels of a context, shape (M,), bit for bit those of `phi`.

        `matrix` holds the distributions, shape (K, M). O(K M).
        """
        if matrix.shape[1] == 1:
            return np.zeros(1)
        return self._values(matrix)

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels, shape (n,), bit for bit those of `phi`.

        Column i of `columns`, shape (K, n), holds the likelihoods of ``labels[i]``. O(K n).
        """
        return self._values(columns)

    def means(self, matrix: FloatArray) -> FloatArray:
        """Return the mean of the query under every hypothesis, shape (K,); O(K M)."""
        if matrix.shape[1] == 1:
            return np.zeros(matrix.shape[0])
        means: FloatArray = _core.local_query_means(
            matrix, np.ascontiguousarray(self.values(matrix))
        )
        return means

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise ``ValueError`` unless the query fits K hypotheses and M labels."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return the query as bytes, read by `read_query`."""
        return self._bytes

    def _values(self, matrix: FloatArray) -> FloatArray:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._bytes == self._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("queries cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_whole_query, (self._bytes,))


class ThresholdQuery(Query):
    """+1 where ``sum_j c_j F[j, y] > 0``, else -1.

    Parameters
    ----------
    coefficients : array of shape (K,)
        c. The sum runs over j ascending; where it is not finite, the value is 0. Coefficients
        that are all 0 ask nothing: the value is 0 everywhere.
    """

    __slots__ = ("coefficients",)
    _code = 1
    coefficients: FloatArray

    def __init__(self, coefficients: Any) -> None:
        self._set(float_array("coefficients", coefficients, (None,)).copy())

    @classmethod
    def of_row(cls, values: FloatArray) -> ThresholdQuery:
        """Return the query with finite coefficients that nobody else holds: nothing is checked."""
        query = cls.__new__(cls)
        query._set(values)
        return query

    def _set(self, values: FloatArray) -> None:
        values.flags.writeable = False
        head = struct.pack("<BI", self._code, values.size)
        object.__setattr__(self, "coefficients", values)
        object.__setattr__(self, "_bytes", head + values.astype("<f8").tobytes())

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless there is one coefficient a hypothesis."""
        if self.coefficients.size != hypotheses:
            raise ValueError(f"a threshold query needs {hypotheses} coefficients")

    def means(self, matrix: FloatArray) -> FloatArray:
        """Return the mean of the query under every hypothesis, shape (K,). O(K M)."""
        if matrix.shape[1] == 1:
            return np.zeros(matrix.shape[0])
        return _core.local_threshold_means(matrix, self.coefficients)[1]

    def _values(self, matrix: FloatArray) -> FloatArray:
        return _core.local_threshold_values(self.coefficients, matrix)

    def __repr__(self) -> str:
        return f"ThresholdQuery(hypotheses={self.coefficients.size})"


class HadamardQuery(Query):
    """(-1) to the number of common binary digits of `row` and the label.

    Parameters
    ----------
    row : int
        In [1, M'), M' the smallest power of two of at least M labels.
    """

    __slots__ = ("row",)
    _code = 2
    row: int

    def __init__(self, row: int) -> None:
        object.__setattr__(self, "row", positive_int("row", row, maximum=_LARGEST_COUNT))
        object.__setattr__(self, "_bytes", struct.pack("<BI", self._code, self.row))

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless the row is one of the labels' Hadamard matrix, and not the constant one."""
        if labels is None:
            raise ValueError("a Hadamard query needs a finite number of labels")
        if self.row >= hadamard_size(labels):
            raise ValueError(f"the row of a Hadamard query must be below {hadamard_size(labels)}")

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels, shape (n,); `columns` does not matter."""
        common = labels.astype(np.uint64) & np.uint64(self.row)
        for shift in (32, 16, 8, 4, 2, 1):
            common ^= common >> np.uint64(shift)
        signs: FloatArray = 1.0 - 2.0 * (common & np.uint64(1)).astype(np.float64)
        return signs

    def _values(self, matrix: FloatArray) -> FloatArray:
        return self.values_at(matrix, np.arange(matrix.shape[1]))

    def __repr__(self) -> str:
        return f"HadamardQuery(row={self.row})"


class LossQuery(Query):
    """The centred, mixed log-loss of one hypothesis, scaled to [-1, 1].

    Parameters
    ----------
    index : int
        J in [0, K).
    midpoint, half_range : float
        ``phi = (u_J - midpoint) / half_range``, clamped.
    mixing : float
        Share of the mean of the hypotheses in the losses, see ``dpoco.local._losses``.

    Notes
    -----
    A label that is impossible under every hypothesis has the value 0.
    """

    __slots__ = ("half_range", "index", "midpoint", "mixing")
    _code = 3
    index: int
    midpoint: float
    half_range: float
    mixing: float

    def __init__(self, index: int, midpoint: float, half_range: float, mixing: float) -> None:
        place = positive_int("index + 1", index + 1, maximum=_LARGEST_COUNT) - 1
        object.__setattr__(self, "index", place)
        for name, value in (
            ("midpoint", midpoint), ("half_range", half_range), ("mixing", mixing),
        ):  # fmt: skip
            object.__setattr__(self, name, number(name, value))
        packed = struct.pack(
            "<BIddd", self._code, self.index, self.midpoint, self.half_range, self.mixing
        )
        object.__setattr__(self, "_bytes", packed)

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless the index is that of a hypothesis."""
        if self.index >= hypotheses:
            raise ValueError(f"the index of a loss query must be below {hypotheses}")

    def _values(self, matrix: FloatArray) -> FloatArray:
        return _core.local_loss_values(
            self.index, self.midpoint, self.half_range, self.mixing, matrix
        )

    def __repr__(self) -> str:
        return f"LossQuery(index={self.index})"


def hadamard_size(labels: int) -> int:
    """Return M', the smallest power of two of at least `labels`, and at least 2."""
    return 1 << max(1, (labels - 1).bit_length())


def read_query(data: bytes, offset: int) -> tuple[Query, int]:
    """Return the query that starts at `offset`, and its end; ``ValueError`` if there is none."""
    try:
        (code,) = struct.unpack_from("<B", data, offset)
        if code == ThresholdQuery._code:
            (count,) = struct.unpack_from("<I", data, offset + 1)
            start, end = offset + 5, offset + 5 + 8 * count
            if end > len(data):
                raise ValueError("malformed query")
            values = np.frombuffer(data, dtype="<f8", count=count, offset=start)
            return ThresholdQuery(values.astype(np.float64)), end
        if code == HadamardQuery._code:
            (row,) = struct.unpack_from("<I", data, offset + 1)
            return HadamardQuery(row), offset + 5
        if code == LossQuery._code:
            fields = struct.unpack_from("<Iddd", data, offset + 1)
            return LossQuery(*fields), offset + 1 + struct.calcsize("<Iddd")
    except struct.error:
        pass
    raise ValueError("malformed query")


def _whole_query(data: bytes) -> Query:
    return read_query(data, 0)[0]
