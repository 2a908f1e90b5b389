"""Records of other libraries to numbers: dictionaries of features to vectors, labels to 0 and 1.

A set of features that grew with the data would reveal data, since it is private whether a name
occurs at all. So the names are listed in advance, or hashed to a dimension that is fixed in
advance. Nobody sees whether a record has other names, or lacks some, or has a label that is none
of the two declared ones. The type of a label is seen: types are part of the schema, which is
public.
"""

from __future__ import annotations

import hashlib
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _literals as literals
from dpoco._clipping import Flags
from dpoco._validation import FloatArray, choice, is_missing, number, positive_int
from dpoco.datasets import PublicScaling
from dpoco.learning.participation import Person

Record = Mapping[Any, Any]  # values by the names of features
_LARGEST_DIMENSION = 2**24


def public_scaling(ranges: ArrayLike) -> PublicScaling:
    """Return the scaling of declared ranges, (low, high) or one such pair a column."""
    try:
        pairs = np.atleast_1d(np.asarray(ranges, dtype=np.float64))
    except (TypeError, ValueError):
        pairs = np.empty(0)
    if pairs.shape not in ((2,), (len(pairs), 2)) or not len(pairs):
        raise ValueError("ranges must be a pair (low, high), or one such pair for each feature")
    return PublicScaling(pairs[..., 0], pairs[..., 1], intercept=False)


def scale_rows(scaling: PublicScaling, norm: literals.Norm, rows: FloatArray) -> FloatArray:
    """Return rows of declared ranges, shape (n, d), scaled into the ball of radius 1 of a norm."""
    long = math.sqrt(rows.shape[1]) if choice("norm", norm, ("l2", "max")) == "l2" else 1.0
    return scaling.apply(rows) / long


class FeatureMap:
    """Vectors of listed features, or of hashed ones.

    Parameters
    ----------
    features : sequence of str, or int
        Public names, in the order of the vector: names that are not listed are ignored, listed ones
        that are missing count as `absent`. Or a number d: every name has a sign and one of d
        entries, from a fixed hash; a text counts as 1 under ``name=text``; what falls together is
        added up.
    person : str, optional
        Name of the entry that says whose record it is; this entry is not a feature.
    absent : float
        The value of listed names that are missing.

    Raises
    ------
    ValueError, TypeError
        If names are not texts, are repeated, or are missing.
    """

    def __init__(
        self, features: Sequence[str] | int, person: str | None = None, absent: float = 0.0
    ) -> None:
        self._order: dict[str, int] | None = None
        self._person, self._absent = person, absent
        if isinstance(features, (int, np.integer)):
            self.dimension = positive_int("features", features, maximum=_LARGEST_DIMENSION)
            return
        if isinstance(features, (str, bytes)) or not isinstance(features, Sequence):
            raise TypeError(
                'features must be a sequence of names such as ("age",), or a number to hash them to'
            )
        if not all(isinstance(name, str) for name in features):
            raise TypeError("names of features must be texts")
        self._order = {name: index for index, name in enumerate(features)}
        if person in self._order:
            raise ValueError("person must not be one of the features")
        if not features or len(self._order) != len(features):
            raise ValueError("features must name at least one feature, and none twice")
        self.dimension = len(features)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The listed names, in order; None if names are hashed."""
        return None if self._order is None else tuple(self._order)

    def row(self, record: Record) -> FloatArray:
        """Return the vector of a record, shape (d,).

        Parameters
        ----------
        record : mapping of names to numbers
            None counts as a name that is missing; NaN, NaT and pandas's NA make the record an
            empty one. The order does not matter, not even for rounding.

        Raises
        ------
        TypeError
            If a value is no number; the message names the type only.
        """
        if not isinstance(record, Mapping):
            raise TypeError(
                f"a record must be a mapping of names to numbers; got {type(record).__name__}"
            )
        row = np.zeros(self.dimension)
        if self._order is not None:
            # Only the listed names are looked at, so that the order and number of others cannot
            # matter.
            row[:] = self._absent
            for name, index in self._order.items():
                value = record.get(name)
                if value is not None:
                    row[index] = number("a feature", value)
            return row
        # Sorted, since sums in doubles depend on the order in which a record lists its names.
        with np.errstate(all="ignore"):  # infinite values: the learner takes them for zero records
            own = self._person
            named = [(_name(name), value) for name, value in record.items() if name != own]
            for name, value in sorted(named, key=itemgetter(0)):
                if value is None:
                    continue
                text = isinstance(value, str)
                index, sign = self._place(f"{name}={value}" if text else name)
                row[index] += sign if text else sign * number("a feature", value)
        return row

    def rows(self, table: Iterable[Record]) -> FloatArray:
        """Return the vectors of many records, shape (n, d), as `row` would.

        Parameters
        ----------
        table : pandas.DataFrame or iterable of mappings
            A table has one column for each feature.
        """
        rows = [self.row(record) for record in _records(table)]
        return np.stack(rows) if rows else np.zeros((0, self.dimension))

    def nonprivate_flags(self, table: Iterable[Record]) -> Flags:
        """Return which listed names are missing and whether others are there. **Not private**."""
        if self._order is None:
            return {}
        records, known = list(_records(table)), self._order
        n = len(records)
        lacking = [[record.get(name) is None for name in known] for record in records]
        listed = {*known, self._person}
        other = [any(name not in listed for name in record) for record in records]
        return {
            "missing_features": np.array(lacking, dtype=bool).reshape(n, self.dimension),
            "unlisted_features": np.array(other, dtype=bool),
        }

    def find_person(self, record: Record) -> Person:
        """Return whose record it is; None if people are not looked at."""
        if self._person is None:
            return None
        if record.get(self._person) is None:
            raise ValueError("a record does not name its person: `person` names the entry")
        person: Person = record[self._person]
        return person

    def persons(self, table: Iterable[Record]) -> list[Person] | None:
        """Return whose many records are, as `find_person` would."""
        if self._person is None:
            return None
        return [self.find_person(record) for record in _records(table)]

    def _place(self, token: str) -> tuple[int, float]:
        """Return the entry of a name, or of a name and its text, and the sign there."""
        # There is no cache: it would grow with the data and keep names. Half a pair of surrogates,
        # which JSON may hold, is hashed as well: exceptions must not depend on a value.
        token_bytes = token.encode("utf-8", "surrogatepass")
        # The name keeps this hash apart from all others.
        digest = hashlib.blake2b(token_bytes, digest_size=8, person=b"dpoco features")
        value = int.from_bytes(digest.digest(), "little")
        return (value >> 1) % self.dimension, 1.0 if value & 1 else -1.0


def _name(name: object) -> str:
    """Return a feature's name as it is hashed; `TypeError` for one that is no text or int."""
    if not isinstance(name, (str, int)):
        raise TypeError(f"names of features must be texts or ints; got {type(name).__name__}")
    return str(name)


class LabelMap:
    """0, 1, ... for public labels, NaN, which makes a record an empty one, for others.

    Labels must be of the classes' kind: bools, numbers (ints and floats, of Python and NumPy),
    texts, or else one type. Classes 0 and 1, and False and True, take bools and numbers alike:
    these are equal in Python. None, NaN and the like are labels that are missing.

    Parameters
    ----------
    classes : sequence of labels

    Raises
    ------
    ValueError, TypeError
        If they are less than two, equal, missing, or of different kinds.
    """

    def __init__(self, classes: Sequence[object]) -> None:
        # Compared one by one and not by a set, since labels need not be hashable.
        equal = any(one == other for one, other in combinations(classes, 2))
        if isinstance(classes, (str, bytes)) or len(classes) < 2 or equal:
            raise ValueError("classes must be two different labels, or more")
        if any(map(is_missing, classes)):
            raise ValueError("None, NaN and similar values are missing labels, not classes")
        self._classes = tuple(classes)
        self._kinds = {_label_kind(label) for label in classes}
        if self._kinds <= {"a bool", "a number"} and all(label in (0, 1) for label in classes):
            self._kinds = {"a bool", "a number"}
        elif len(self._kinds) > 1:
            raise TypeError(f"classes must be of one type; got {' and '.join(sorted(self._kinds))}")

    def value(self, label: object) -> float:
        """Return 0 for the first class, 1 for the second, ..., NaN for others; check the type."""
        if is_missing(label):
            return math.nan
        if _label_kind(label) not in self._kinds:
            expected = " or ".join(sorted(self._kinds))
            raise TypeError(f"a label must be {expected}, as classes are; got {_label_kind(label)}")
        places = (place for place, known in enumerate(self._classes) if label == known)
        return float(next(places, math.nan))

    def values(self, labels: Iterable[object]) -> FloatArray:
        """Return the values of many labels, shape (n,)."""
        return np.array([self.value(label) for label in labels], dtype=np.float64)

    def nonprivate_flags(self, labels: Sequence[object]) -> Flags:
        """Return which labels are missing, and which are none of the classes. **Not private**."""
        missing = np.array([is_missing(label) for label in labels], dtype=bool)
        unknown = np.isnan(self.values(labels)) & ~missing
        return {"label_missing": missing, "unknown_label": unknown}


def _records(table: Any) -> Iterable[Record]:
    """Return the rows of a DataFrame, or what else holds records, as mappings by name."""
    if not hasattr(table, "itertuples"):
        return table  # type: ignore[no-any-return]
    # A dictionary would keep the last of two columns, and silently learn from that one.
    if not table.columns.is_unique:
        raise ValueError("the table has two columns of one name")
    return (dict(zip(table.columns, row, strict=True)) for row in table.itertuples(False))


def _label_kind(label: object) -> str:
    """Return the kind of a label, which is schema, as a message says it."""
    if isinstance(label, (bool, np.bool_)):
        return "a bool"
    if isinstance(label, (numbers.Real, Decimal)):
        return "a number"
    return "a text" if isinstance(label, str) else f"of type {type(label).__name__}"
