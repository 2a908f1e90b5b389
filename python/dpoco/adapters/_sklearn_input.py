"""Checks of scikit-learn's input whose messages contain no data.

``sklearn.utils.check_array`` prints one-dimensional and complex arrays, and texts that it cannot
convert. Here, messages name shapes and types.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from dpoco._validation import float_array

__all__ = ["column", "matrix", "targets_of"]

FloatArray = NDArray[np.float64]


def matrix(estimator: Any, X: Any, *, reset: bool) -> FloatArray:
    """Return records as doubles, shape (n, d), n and d at least 1; non-finite ones pass.

    Sets ``n_features_in_`` and ``feature_names_in_`` if `reset`, else compares with them.
    """
    if hasattr(X, "tocsr"):
        raise TypeError("sparse data are not supported: the learners take dense records")
    array = _array("X", X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: (-1, 1) for "
            "one feature, (1, -1) for one record"
        )
    for count, what in zip(array.shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape={array.shape}) while a minimum of 1 is required."
            )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    try:
        return float_array("X", array, (None, None))
    except TypeError:
        raise TypeError("each argument must be no string or object, but a real number") from None


def column(y: Any, rows: int) -> NDArray[Any]:
    """Return targets as an array of shape (n,)."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    flat = _array("y", y)
    if flat.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must be real")
    if flat.ndim == 2 and flat.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: its shape should be (n,)",
            DataConversionWarning,
            stacklevel=3,
        )
        flat = flat[:, 0]
    if flat.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {flat.shape} instead")
    if flat.shape[0] != rows:
        raise ValueError(f"X has {rows} records, y has {flat.shape[0]}: they must be as many")
    return flat


def targets_of(y: Any, rows: int) -> FloatArray:
    """Return real targets as doubles; non-finite ones pass."""
    return float_array("y", column(y, rows), (rows,))


def _array(name: str, value: Any) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an array without a mask")
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        # The cause's text may quote the data.
        raise ValueError(f"{name} must be an array; got {type(value).__name__}") from None
