"""The public hypothesis class: known maps from a context to a distribution over labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int
from dpoco.local._prediction import label_index, label_indices

__all__ = ["Hypotheses"]

FloatArray = NDArray[np.float64]

_LARGEST_COUNT = 2**31 - 1
# A row that sums to 1 in float32, and rows of a hundred thousand labels, stay inside.
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

    Raises
    ------
    ValueError
        For rows that are no distributions (not finite, negative, or a sum further than 1e-6 from
        1): the message names the row. For shapes that contradict each other.
    TypeError
        For sources of another kind.

    Notes
    -----
    Arrays are converted once to read-only float64, O(K M) memory (O(C K M) for a table); an array
    that is read-only, contiguous and owns its float64 data is not copied. A callable is asked once
    a context; its last answer is kept. Hypotheses are public: nothing in them is protected.
    """

    def __init__(
        self, source: Any, hypotheses: int | None = None, labels: int | None = None
    ) -> None:
        count = _optional("hypotheses", hypotheses)
        width = _optional("labels", labels)
        self._table: FloatArray | None = None
        self._function: Callable[..., Any] | None = None
        self._views: list[FloatArray] = []
        self._last: tuple[Any, FloatArray] | None = None
        if isinstance(source, Hypotheses):
            raise TypeError("source must be an array or a callable; got Hypotheses")
        if callable(source):
            if count is None:
                raise ValueError("hypotheses must be given with a callable")
            self._function = source
            self._kind = "likelihood" if width is None else "callable"
            self._count, self._labels = count, width
            return
        table = _owned_array(source)
        if table.ndim not in (2, 3) or 0 in table.shape:
            raise ValueError(
                f"hypotheses must have shape (K, M) or (contexts, K, M), none zero; "
                f"got {table.shape}"
            )
        for name, given, have in (
            ("hypotheses", count, table.shape[-2]),
            ("labels", width, table.shape[-1]),
        ):
            if given is not None and given != have:
                raise ValueError(f"{name}={given} contradicts the array, which has {have}")
        for context in range(table.shape[0]) if table.ndim == 3 else (None,):
            _check_rows(table if context is None else table[context], context)
        self._kind = "array" if table.ndim == 2 else "table"
        self._count, self._labels = int(table.shape[-2]), int(table.shape[-1])
        self._table = table
        # The same object for the same context: what is computed from it can be kept.
        if table.ndim == 3:
            self._views = list(table)

    @property
    def count(self) -> int:
        """Number of hypotheses K."""
        return self._count

    @property
    def labels(self) -> int | None:
        """Number of labels M; None for likelihoods."""
        return self._labels

    @property
    def kind(self) -> str:
        """``"array"``, ``"table"``, ``"callable"`` or ``"likelihood"``."""
        return self._kind

    @property
    def contexts(self) -> int | None:
        """Number of contexts of a table; 1 for an array; None for callables."""
        if self._table is None:
            return None
        return 1 if self._kind == "array" else int(self._table.shape[0])

    @property
    def array(self) -> FloatArray | None:
        """The array behind, shape (K, M) or (C, K, M), read-only; None for callables."""
        return self._table

    def matrix(self, x: Any = None) -> FloatArray:
        """Return the distributions for context `x`.

        Parameters
        ----------
        x : object, optional
            None for an array; an integer in [0, C) for a table; whatever the callable takes.

        Returns
        -------
        array of shape (K, M)
            Read-only, C-contiguous float64; row j is f_j(x). Not copied for arrays and tables.

        Raises
        ------
        ValueError
            For a context out of range, for likelihoods, and for a callable's answer that is no
            array of distributions (the message names the row).
        TypeError
            For a context of the wrong kind.
        """
        if self._kind == "array":
            if x is not None:
                raise ValueError("these hypotheses have no context; x must be None")
            assert self._table is not None
            return self._table
        if self._kind == "table":
            return self._views[self._context(x)]
        if self._kind == "likelihood":
            raise ValueError("likelihoods have no array: labels form no finite set")
        return self._answer(x)

    def column(self, x: Any, y: Any) -> FloatArray:
        """Return the K likelihoods of one label, shape (K,), as a device needs them.

        Zeros where `y` is None, outside [0, M) or not an integer. A likelihood that is negative or
        not finite counts as zero: what a device sends must not depend on such a failure. O(K) for
        arrays.
        """
        if self._kind == "likelihood":
            if y is None:
                return np.zeros(self._count)
            assert self._function is not None
            return self._likelihoods(self._function(x, y))
        matrix = self.matrix(x)
        index = label_index(y, matrix.shape[1])
        if index is None:
            return np.zeros(self._count)
        return np.ascontiguousarray(matrix[:, index])

    def columns(self, x: Any, labels: Any) -> FloatArray:
        """Return the likelihoods of many labels under one context, shape (n, K).

        Parameters
        ----------
        x : object
            One context.
        labels : sequence or integer array of shape (n,)
            Labels outside [0, M) give rows of zeros; so do None and what is no integer.
        """
        if self._kind == "likelihood":
            return np.array([self.column(x, y) for y in labels]).reshape(-1, self._count)
        matrix = self.matrix(x)
        indices = label_indices(labels, matrix.shape[1])
        taken = np.ascontiguousarray(matrix[:, np.maximum(indices, 0)].T)
        taken[indices < 0] = 0.0
        return taken

    @cached_property
    def fingerprint(self) -> bytes:
        """Digest of what is public about the class, 16 bytes.

        Kind, K, M and, for arrays, every number; a callable's inside cannot be seen.
        """
        digest = hashlib.blake2b(digest_size=16, person=b"dpoco.hypotheses"[:16])
        shape = (self._count, -1 if self._labels is None else self._labels, self.contexts or 0)
        digest.update(repr((self._kind, *shape)).encode())
        if self._table is not None:
            digest.update(np.ascontiguousarray(self._table, dtype="<f8").data)
        return digest.digest()

    @property
    def public_fingerprint(self) -> bytes:
        """`fingerprint` for arrays and tables; 16 zeros for callables, whose inside is not seen."""
        return bytes(16) if self._table is None else self.fingerprint

    def to_dict(self) -> dict[str, Any]:
        """Return what can be said about the class without its numbers."""
        return {
            "kind": self._kind,
            "hypotheses": self._count,
            "labels": self._labels,
            "contexts": self.contexts,
            "fingerprint": self.fingerprint.hex(),
        }

    def __repr__(self) -> str:
        labels = "" if self._labels is None else f", labels={self._labels}"
        contexts = f", contexts={self.contexts}" if self._kind == "table" else ""
        return f"Hypotheses({self._kind}, hypotheses={self._count}{labels}{contexts})"

    def _context(self, x: Any) -> int:
        assert self._table is not None
        if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, np.integer)):
            raise TypeError(f"context must be an int; got {type(x).__name__}")
        if not 0 <= x < self._table.shape[0]:
            raise ValueError(f"context must be in [0, {self._table.shape[0]})")
        return int(x)

    def _answer(self, x: Any) -> FloatArray:
        key = _context_key(x)
        last = self._last  # read once: another thread may replace it
        if key is not None and last is not None and last[0] == key:
            return last[1]
        assert self._function is not None
        answer = _owned_array(self._function(x))
        if answer.shape != (self._count, self._labels):
            raise ValueError(
                f"the callable must return shape ({self._count}, {self._labels}); "
                f"got {answer.shape}"
            )
        _check_rows(answer, None)
        if key is not None:
            self._last = (key, answer)
        return answer

    def _likelihoods(self, answer: Any) -> FloatArray:
        values = np.asarray(answer, dtype=np.float64)
        if values.shape != (self._count,):
            raise ValueError(f"the callable must return shape ({self._count},); got {values.shape}")
        usable = np.isfinite(values) & (values > 0.0)
        return np.where(usable, values, 0.0)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_last"] = None  # may hold a private context
        return state


def _optional(name: str, value: Any) -> int | None:
    return None if value is None else positive_int(name, value, maximum=_LARGEST_COUNT)


def _owned_array(source: Any) -> FloatArray:
    """Return `source` as a read-only C-contiguous float64 array nobody else can change."""
    if (
        type(source) is np.ndarray
        and source.dtype == np.float64
        and source.flags.c_contiguous
        and source.flags.aligned
        and source.flags.owndata
        and not source.flags.writeable
    ):
        return source
    if isinstance(source, np.ma.MaskedArray):
        raise TypeError("hypotheses must be an array of real numbers; got a masked array")
    try:
        given = np.asarray(source)
    except (TypeError, ValueError):
        raise TypeError(
            f"hypotheses must be an array of real numbers; got {type(source).__name__}"
        ) from None
    if given.dtype.kind not in "fiub":
        raise TypeError(f"hypotheses must have a real dtype; got {given.dtype.type.__name__}")
    owned = np.array(given, dtype=np.float64, order="C", copy=True)
    owned.flags.writeable = False
    return owned


def _check_rows(matrix: FloatArray, context: int | None) -> None:
    """Raise unless every row is a distribution; name the row, never what is in it."""
    where = "" if context is None else f" of context {context}"
    with np.errstate(all="ignore"):
        sums = matrix.sum(axis=1)
        smallest = matrix.min(axis=1)
    for faulty, text in (
        (~np.isfinite(sums) | np.isnan(smallest), "holds a number that is not finite"),
        (smallest < 0.0, "holds a negative number"),
        (~(np.abs(sums - 1.0) <= _SUM_TOLERANCE), "does not sum to 1 within 1e-6"),
    ):
        if faulty.any():
            raise ValueError(f"row {int(np.argmax(faulty))}{where} {text}: no distribution")


_ATOMS = (int, float, str, bytes, bool, type(None), np.integer, np.floating)


def _context_key(x: Any) -> Any:
    """Return what identifies a context, or None where it could change behind our back."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "fiub":
        return ("array", x.shape, x.dtype.str, x.tobytes())
    if isinstance(x, tuple):
        parts = tuple(_context_key(part) for part in x)
        return None if None in parts else ("tuple", parts)
    if isinstance(x, _ATOMS):
        return (type(x).__name__, x)
    return None
