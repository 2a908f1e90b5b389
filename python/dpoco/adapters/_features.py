"""Dictionaries of features to vectors whose length and order are public.

A set of features that grows with the data would reveal data: that a name occurs at all is private.
So the names are listed in advance, or hashed to a dimension that is fixed in advance; whether a
record has other names, or lacks some, changes nothing that anybody sees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import number, positive_int

__all__ = ["FeatureMap"]

FloatArray = NDArray[np.float64]

_LARGEST_DIMENSION = 2**24


class FeatureMap:
    """Vectors of listed features, or of hashed ones.

    Parameters
    ----------
    features : sequence of str, or int
        Public names, in the order of the vector: names that are not listed are ignored, listed ones
        that are missing count as 0. Or a number d: every name has a sign and one of d entries, from
        a fixed hash; a text counts as 1 under ``name=text``; what falls together is added up.

    Raises
    ------
    ValueError, TypeError
        For names that are no texts, repeated or missing.
    """

    def __init__(self, features: Sequence[str] | int) -> None:
        self._order: dict[str, int] | None = None
        if isinstance(features, (int, np.integer)):
            self.dimension = positive_int("features", features, maximum=_LARGEST_DIMENSION)
            return
        if isinstance(features, (str, bytes)) or not isinstance(features, Sequence):
            raise TypeError("features must be a sequence of names, or a number to hash them to")
        if not all(isinstance(name, str) for name in features):
            raise TypeError("names of features must be texts")
        self._order = {name: index for index, name in enumerate(features)}
        if not features or len(self._order) != len(features):
            raise ValueError("features must name at least one feature, and none twice")
        self.dimension = len(features)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The listed names, in order; None if names are hashed."""
        return None if self._order is None else tuple(self._order)

    def row(self, record: Mapping[Any, Any]) -> FloatArray:
        """Return the vector of a record, shape (d,).

        Parameters
        ----------
        record : mapping of names to numbers
            None counts as missing. The order does not matter, not even for rounding.

        Raises
        ------
        TypeError
            If a value is no number; the message names the type only.
        """
        row = np.zeros(self.dimension)
        if self._order is not None:
            for name, index in self._order.items():
                value = record.get(name)
                if value is not None:
                    row[index] = number("a feature", value)
            return row
        with np.errstate(all="ignore"):  # infinite values: the learner takes them for zero records
            for name, value in sorted(record.items(), key=_text):
                if value is None:
                    continue
                text = isinstance(value, str)
                index, sign = self._place(f"{_name(name)}={value}" if text else _name(name))
                row[index] += sign if text else sign * number("a feature", value)
        return row

    def rows(self, table: Any) -> FloatArray:
        """Return the vectors of a table's rows, shape (n, d), as `row` would.

        Parameters
        ----------
        table : pandas.DataFrame
            One column a feature.
        """
        records = (dict(zip(table.columns, row, strict=True)) for row in table.itertuples(False))
        rows = [self.row(record) for record in records]
        return np.stack(rows) if rows else np.zeros((0, self.dimension))

    def _place(self, token: str) -> tuple[int, float]:
        # No cache: it would grow with the data and keep names.
        digest = hashlib.blake2b(token.encode(), digest_size=8, person=b"dpoco features")
        value = int.from_bytes(digest.digest(), "little")
        return (value >> 1) % self.dimension, 1.0 if value & 1 else -1.0


def _name(name: Any) -> str:
    if not isinstance(name, (str, int)):
        raise TypeError(f"names of features must be texts or ints; got {type(name).__name__}")
    return str(name)


def _text(item: tuple[Any, Any]) -> str:
    return _name(item[0])
