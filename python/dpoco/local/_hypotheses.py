"""The public hypotheses, maps from a context to a distribution over labels, and their mixtures."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core
from dpoco._validation import (
    FloatArray,
    IntArray,
    float_array,
    is_missing,
    label_index,
    positive_int,
    real_in,
    without_mask,
)

# One label per user; other values mean "no event".
Labels = Sequence[object] | IntArray

_LARGEST_COUNT = 2**31 - 1
# Rows normalised in float32, and rows of a hundred thousand labels, are within this tolerance.
_SUM_TOLERANCE = 1e-6


class Hypotheses:
    """K known conditional distributions over M labels.

    Parameters
    ----------
    source : array_like or callable
        One of

        - an array of shape (K, M): rows are distributions, no context;
        - an array of shape (C, K, M): one such array for each integer context in [0, C);
        - a callable ``x -> (K, M)``: any context; `hypotheses` and `labels` must be given;
        - a callable ``(x, y) -> (K,)`` of likelihoods, where `labels` is None: labels may then be
          continuous or unbounded (densities with respect to one measure). Only the ``hedge``
          learner under private contexts takes these.
    hypotheses : int, optional
        K; required for callables, checked for arrays.
    labels : int, optional
        M; required for the callable ``x -> (K, M)``, checked for arrays.

    Attributes
    ----------
    kind : {"array", "table", "callable", "likelihood"}
        Kind of `source`.
    count : int
        K.
    labels : int or None
        M; None for likelihoods.
    contexts : int or None
        C of a table, 1 of an array, None for callables.
    array : array of shape (K, M) or (C, K, M), or None
        The array, read-only; None for callables.

    Raises
    ------
    ValueError
        For rows that are not distributions (not finite, negative, or a sum further than 1e-6 from
        1); the message names the row. For shapes that contradict each other.
    TypeError
        For sources of another kind.

    Notes
    -----
    Arrays are converted once to read-only float64, O(K M) memory (O(C K M) for a table). An array
    that is read-only, contiguous and owns its float64 data is not copied. A callable is called once
    per context, and its last answer is cached. Hypotheses are public; privacy does not protect
    them.
    """

    def __init__(
        self,
        source: ArrayLike | Callable[..., ArrayLike],
        hypotheses: int | None = None,
        labels: int | None = None,
    ) -> None:
        given = {"hypotheses": hypotheses, "labels": labels}
        for name, value in given.items():
            if value is not None:
                given[name] = positive_int(name, value, maximum=_LARGEST_COUNT)
        self.array: FloatArray | None = None
        self.contexts: int | None = None
        self._function: Callable[..., Any] | None = None
        self._last: tuple[object, FloatArray] | None = None
        if isinstance(source, Hypotheses):
            raise TypeError("source must be an array or a callable; got Hypotheses")
        if callable(source):
            if given["hypotheses"] is None:
                raise ValueError("hypotheses must be given with a callable")
            self._function = source
            self.kind = "likelihood" if labels is None else "callable"
            self.count, self.labels = given["hypotheses"], given["labels"]
            return
        array = _owned_array(source)
        if array.ndim not in (2, 3) or 0 in array.shape:
            raise ValueError(
                f"hypotheses must have shape (K, M) or (contexts, K, M), none zero; "
                f"got {array.shape}"
            )
        self.kind = "array" if array.ndim == 2 else "table"
        self.count, self.labels = array.shape[-2:]
        for (name, value), have in zip(given.items(), array.shape[-2:], strict=True):
            if value not in (None, have):
                raise ValueError(f"{name}={value} contradicts the array, which has {have}")
        # Each context always has the same array object, so that results can be cached.
        self._views = [array] if array.ndim == 2 else list(array)
        for context, view in enumerate(self._views):
            _check_rows(view, "" if array.ndim == 2 else f" of context {context}")
        self.array, self.contexts = array, len(self._views)

    def matrix(self, x: object = None) -> FloatArray:
        """Return the distributions for context `x`.

        Parameters
        ----------
        x : object, optional
            None for an array; an integer in [0, C) for a table; any argument of a callable.

        Returns
        -------
        array of shape (K, M)
            Read-only, C-contiguous float64; row j is f_j(x). Not copied for arrays and tables.

        Raises
        ------
        ValueError, TypeError
            For a context out of range or of the wrong kind, for likelihoods, and for a callable
            that does not return distributions (the message names the row).
        """
        if self.kind == "likelihood":
            raise ValueError("likelihoods have no array: labels form no finite set")
        if self.kind == "callable":
            return self._answer(x)
        if self.kind == "table":
            return self._views[self._context(x)]
        if x is not None:
            raise ValueError("these hypotheses have no context; x must be None")
        return self._views[0]

    def column(self, x: object, y: object) -> FloatArray:
        """Return the K likelihoods of one label, shape (K,), as a device needs them.

        All are zero if `y` is missing, outside [0, M) or not an integer. A likelihood that is
        negative or not finite counts as zero, since the report must not depend on such a failure.
        O(K) for arrays.
        """
        if self.kind == "likelihood":
            # The user's function need not handle missing labels.
            if is_missing(y):
                return np.zeros(self.count)
            assert self._function is not None
            values = np.asarray(self._function(x, y), dtype=np.float64)
            if values.shape != (self.count,):
                raise ValueError(
                    f"the callable must return shape ({self.count},); got {values.shape}"
                )
            return np.where(np.isfinite(values) & (values > 0.0), values, 0.0)
        matrix = self.matrix(x)
        index = label_index(y, matrix.shape[1])
        if index is None:
            return np.zeros(self.count)
        return np.ascontiguousarray(matrix[:, index])

    def columns(self, x: object, labels: Labels) -> FloatArray:
        """Return the likelihoods of n labels under one context, shape (n, K).

        Labels outside [0, M), None and values that are not integers give rows of zeros.

        Parameters
        ----------
        x : object
            One context for all labels, as in `matrix`.
        labels : sequence or integer array of shape (n,)
            Private labels; only the result depends on them.
        """
        if self.kind == "likelihood":
            return np.array([self.column(x, y) for y in labels]).reshape(-1, self.count)
        matrix = self.matrix(x)
        indices = label_indices(labels, matrix.shape[1])
        # An index of -1 would take the last column; such rows are set to 0 below.
        taken = np.ascontiguousarray(matrix[:, np.maximum(indices, 0)].T)
        taken[indices < 0] = 0.0
        return taken

    @cached_property
    def fingerprint(self) -> bytes:
        """Digest of the public facts about the class, 16 bytes.

        It covers kind, K, M and, for arrays, every number, but not the answers of a callable.
        """
        # BLAKE2b takes at most 16 bytes of a name.
        digest = hashlib.blake2b(digest_size=16, person=b"dpoco.hypotheses"[:16])
        shape = (self.count, -1 if self.labels is None else self.labels, self.contexts or 0)
        digest.update(repr((self.kind, *shape)).encode())
        if self.array is not None:
            # Bytes are little-endian on every machine, so that server and device agree.
            digest.update(np.ascontiguousarray(self.array, dtype="<f8").data)
        return digest.digest()

    @property
    def public_fingerprint(self) -> bytes:
        """`fingerprint` for arrays and tables; 16 zeros for callables, which have none."""
        # Devices do not compare a fingerprint of zeros.
        return bytes(16) if self.array is None else self.fingerprint

    def to_dict(self) -> dict[str, object]:
        """Return a description of the class without its numbers."""
        return {
            "kind": self.kind,
            "hypotheses": self.count,
            "labels": self.labels,
            "contexts": self.contexts,
            "fingerprint": self.fingerprint.hex(),
        }

    def __repr__(self) -> str:
        labels = "" if self.labels is None else f", labels={self.labels}"
        contexts = f", contexts={self.contexts}" if self.kind == "table" else ""
        return f"Hypotheses({self.kind}, hypotheses={self.count}{labels}{contexts})"

    def _context(self, x: object) -> int:
        """Return a table's context as an index; raise without quoting it in the message."""
        assert self.contexts is not None
        if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, np.integer)):
            raise TypeError(f"context must be an int; got {type(x).__name__}")
        if not 0 <= x < self.contexts:
            raise ValueError(f"context must be in [0, {self.contexts})")
        return int(x)

    def _answer(self, x: object) -> FloatArray:
        """Return the callable's answer for a context, checked; the last answer is cached."""
        key = _context_key(x)
        # The attribute is read once, since another thread may replace it.
        last = self._last
        if key is not None and last is not None and last[0] == key:
            return last[1]
        assert self._function is not None
        answer = _owned_array(self._function(x))
        if answer.shape != (self.count, self.labels):
            raise ValueError(
                f"the callable must return shape ({self.count}, {self.labels}); got {answer.shape}"
            )
        _check_rows(answer)
        if key is not None:
            self._last = (key, answer)
        return answer

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        # The cached answer may be for a private context.
        state["_last"] = None
        return state


def _owned_array(source: ArrayLike) -> FloatArray:
    """Return `source` as a read-only C-contiguous float64 array that nobody can change."""
    # A writeable array, and a view of another array, are copied, since hypotheses and their
    # fingerprint must not change.
    if (
        type(source) is np.ndarray
        and source.dtype == np.float64
        and source.flags.c_contiguous
        and source.flags.aligned
        and source.flags.owndata
        and not source.flags.writeable
    ):
        return source
    try:
        shape = np.shape(source)
    except (TypeError, ValueError):
        raise TypeError(
            f"hypotheses must be an array of real numbers; got {type(source).__name__}"
        ) from None
    owned = float_array("hypotheses", source, shape).copy()
    owned.flags.writeable = False
    return owned


def _check_rows(matrix: FloatArray, where: str = "") -> None:
    """Raise unless every row is a distribution; the message names the row, but not its values."""
    with np.errstate(all="ignore"):
        sums = matrix.sum(axis=1)
        smallest = matrix.min(axis=1)
    # NaN is checked first, since a row with NaN has neither a sum nor a sign.
    for faulty, text in (
        (~np.isfinite(sums) | np.isnan(smallest), "holds a number that is not finite"),
        (smallest < 0.0, "holds a negative number"),
        (~(np.abs(sums - 1.0) <= _SUM_TOLERANCE), "does not sum to 1 within 1e-6"),
    ):
        if faulty.any():
            raise ValueError(f"row {int(np.argmax(faulty))}{where} {text}: no distribution")


_ATOMS = (int, float, str, bytes, bool, type(None), np.integer, np.floating)


def _context_key(x: object) -> object:
    """Return a key for a context, or None for a context that may be mutable."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "fiub":
        return ("array", x.shape, x.dtype.str, x.tobytes())
    if isinstance(x, tuple):
        parts = tuple(_context_key(part) for part in x)
        return None if None in parts else ("tuple", parts)
    if isinstance(x, _ATOMS):
        # 1, 1.0 and True are equal as keys, but a callable may distinguish them.
        return (type(x).__name__, x)
    return None


def label_indices(labels: Labels, count: int) -> NDArray[np.int64]:
    """Return labels as integers in [0, count); -1 for all other values."""
    labels = without_mask(labels)
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu" and labels.ndim == 1:
        inside = (labels >= 0) & (labels < count)
        # The result has 64 signed bits, since narrow or unsigned integers may not represent -1.
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
        Instead of `matrix`, for labels that form no finite set: label -> likelihoods of shape (K,).

    Notes
    -----
    Nothing of size M is computed before `all`; `prob` costs O(K).

    Raises
    ------
    ValueError
        For a mixing out of range, weights of another shape, or unless exactly one of `matrix` and
        `column` is given.
    """

    def __init__(
        self,
        weights: FloatArray,
        mixing: float,
        *,
        matrix: FloatArray | None = None,
        column: Callable[[object], FloatArray] | None = None,
    ) -> None:
        if (matrix is None) == (column is None):
            raise ValueError("exactly one of matrix and column must be given")
        held = np.array(weights, dtype=np.float64)
        if held.ndim != 1 or (matrix is not None and matrix.shape[0] != held.size):
            raise ValueError("weights must have one entry a hypothesis")
        held.flags.writeable = False
        self.weights = held
        self.mixing = real_in("mixing", mixing, "[0, 1]")
        self._matrix, self._column = matrix, column
        if matrix is not None:
            self._matrix = np.require(matrix, dtype=np.float64, requirements=["C", "A"])
        self._coefficients = (1.0 - self.mixing) * held + self.mixing / held.size

    @property
    def labels(self) -> int | None:
        """Number of labels M; None if the labels are not a finite set."""
        return None if self._matrix is None else int(self._matrix.shape[1])

    def prob(self, y: object) -> float:
        """Return the probability (or density) of label `y`; 0 for anything else. O(K)."""
        if self._matrix is None:
            assert self._column is not None
            likelihoods = self._column(y)
        else:
            index = label_index(y, self._matrix.shape[1])
            if index is None:
                return 0.0
            likelihoods = self._matrix[:, index]
        # This runs the loop of `all` on one label, which gives the same bits.
        return float(self._mixture(np.array(likelihoods, dtype=np.float64)[:, None])[0])

    def all(self) -> FloatArray:
        """Return the probabilities of all labels, shape (M,), O(K M).

        ``ValueError`` if labels form no finite set.
        """
        if self._matrix is None:
            raise ValueError("labels form no finite set; ask for prob(y)")
        return self._mixture(self._matrix)

    def _mixture(self, matrix: FloatArray) -> FloatArray:
        """Return the mixture of n labels, shape (n,), with the same bits on every machine."""
        return _core.local_mixture(matrix, self._coefficients)

    def log_loss(self, y: object) -> float:
        """Return ``-log prob(y)`` in nats; infinity for a label of probability 0."""
        probability = self.prob(y)
        return math.inf if probability <= 0.0 else -math.log(probability)

    def __repr__(self) -> str:
        labels = "no finite set" if self.labels is None else str(self.labels)
        return f"Prediction(hypotheses={self.weights.size}, labels={labels})"
