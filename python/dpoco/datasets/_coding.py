"""Public declarations of how cells of columns become numbers and of the fields of a record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import Fields, FloatArray, IntArray, choice
from dpoco.datasets._tables import Table, category_text, is_missing, number_in


@dataclass(frozen=True)
class Coding:
    """How cells become numbers: public categories, constants for missing cells, the event's text.

    All of it must be known without the records, like the ranges of columns.

    Parameters
    ----------
    categories : mapping of str to sequence of str
        By column. Each category becomes a feature ``column=category``: 1 in its rows, 0 in others.
        A category that is not listed or is missing is 0 in all of them. The list of a label numbers
        its classes from 0; a label that is not listed is -1.
    missing : mapping of str to float
        By column of numbers: the value that replaces a missing cell. In other columns, a missing
        cell makes the record an empty one.
    positive : str, optional
        For a label: the text or number of the event (label 1); all others are label 0.

    Raises
    ------
    ValueError, TypeError
        If a list is a text, is empty or contains a category twice, or if a constant is not finite.
    """

    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    missing: Mapping[str, float] = field(default_factory=dict)
    positive: str | None = None

    def __post_init__(self) -> None:
        # The letters of a text would become categories.
        if any(isinstance(each, (str, bytes)) for each in self.categories.values()):
            raise TypeError("the categories of a column must be a list of texts")
        listed = {name: tuple(map(category_text, each)) for name, each in self.categories.items()}
        for name, each in listed.items():
            if not each or len(set(each)) < len(each) or "" in each:
                raise ValueError(f"the categories of {name!r} must be different texts")
            if name in self.missing:
                raise ValueError(f"column {name!r} has categories: it needs no constant for gaps")
        # A constant that is not finite would make the record empty, like the missing cell.
        if not all(map(math.isfinite, self.missing.values())):
            raise ValueError("a constant for missing cells must be finite")
        object.__setattr__(self, "categories", listed)
        object.__setattr__(self, "missing", {k: float(v) for k, v in self.missing.items()})

    def names(self, columns: Iterable[str]) -> list[str]:
        """Return the names of the features into which columns are converted."""
        lists = ([f"{name}={each}" for each in self.categories[name]] if name in self.categories
                 else [name] for name in columns)  # fmt: skip
        return [name for each in lists for name in each]

    def records(
        self, table: Table, columns: Sequence[str], label: str | None = None
    ) -> tuple[FloatArray, FloatArray, dict[str, NDArray[np.bool_]]]:
        """Return the rows of a table as numbers.

        Parameters
        ----------
        table : Table
            Must have all these columns.
        columns : sequence of str
            Columns to use as features, in this order.
        label : str, optional
            Column with the labels.

        Returns
        -------
        features : ndarray of float64, shape (T, d)
            NaN if a cell is missing and has no constant.
        labels : ndarray of float64, shape (T,)
            NaN if missing; of shape (0,) without a label.
        flags : dict of str to ndarray of bool, shape (T,)
            Rows with a category that is not listed, or with a constant in place of a missing cell.

        Raises
        ------
        ValueError
            If a column without categories is not numeric.
        """
        numeric = [name for name in columns if name not in self.categories]
        # Labels with codes are texts, which `select` would refuse.
        coded = self.positive is not None or label in self.categories
        if label is not None and not coded:
            # So the label is read in the same pass over the file as the features.
            numeric.append(label)
        numbers = dict(zip(numeric, table.select(numeric).T, strict=True)) if numeric else {}
        flags: dict[str, NDArray[np.bool_]] = {}
        parts: list[FloatArray] = []
        for name in columns:
            if name in self.categories:
                listed, what = self.categories[name], "unlisted_category"
                codes = codes_in(table.entries(name), listed)
                changed = codes < 0
                parts.append(np.equal.outer(codes, np.arange(len(listed))).astype(np.float64))
            else:
                values, what = numbers[name], "filled"
                changed = np.isnan(values) & (name in self.missing)
                parts.append(np.where(changed, self.missing.get(name, 0.0), values)[:, None])
            if name in self.categories or name in self.missing:
                flags[what] = changed | flags.get(what, False)
        if label is None:
            labels = np.empty(0)
        elif coded:
            labels = self._codes(table.entries(label), label)
        else:
            labels = numbers[label]
        return np.column_stack(parts), labels, flags

    def _codes(self, entries: list[object], label: str) -> FloatArray:
        """Return labels, shape (T,): 1 for the event, 0 for others, or positions in a list."""
        missing = np.array([is_missing(entry) for entry in entries])
        if label in self.categories:
            codes = codes_in(entries, self.categories[label])
            # A listed category may be a word, such as "none", that means a missing cell in other
            # columns.
            return np.where(missing & (codes < 0), np.nan, codes.astype(np.float64))
        wanted = self.positive or ""
        number = number_in(wanted)  # "yes" also matches true and 1
        known: dict[str, bool] = {}
        for entry in entries:
            text = str(entry)
            if text not in known:
                same = number is not None and number_in(text) == number
                known[text] = same or category_text(entry) == category_text(wanted)
        events = np.array([known[str(entry)] for entry in entries])
        # As above, the event may be such a word.
        return np.where(missing & ~events, np.nan, events.astype(np.float64))


def codes_in(entries: Iterable[object], listed: Sequence[str]) -> IntArray:
    """Return the positions of entries in a list, shape (T,); -1 for entries that are not in it."""
    places = {category: place for place, category in enumerate(listed)}
    # Cells repeat, so each text is only read once.
    known: dict[str, int] = {}
    codes = []
    for entry in entries:
        text = str(entry)
        if text not in known:
            known[text] = places.get(category_text(entry), -1)
        codes.append(known[text])
    return np.array(codes, dtype=np.int64)


@dataclass(frozen=True)
class Schema:
    """The public declaration of how a learner reads a row: names, ranges, codes and label.

    Attributes
    ----------
    features : tuple of str
        Names of the features in order, without the constant; ``column=category`` for categories.
    ranges : tuple of (float, float)
        Declared range of each feature, mapped to [-1, 1]; values outside saturate.
    intercept : bool
        Whether a constant feature of 1 is appended.
    task : {"classification", "regression"}
        Whether predictions are probabilities of the event, or numbers.
    label : str
        Name of the predicted column.
    label_range : (float, float) or None
        Declared range of the label, mapped to [-1, 1], or to [0, 1] for classification.
    coding : Coding
        Categories, constants for missing cells, and the text of the event.

    Raises
    ------
    ValueError, TypeError
        For an invalid field.
    """

    features: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    intercept: bool
    task: str
    label: str
    label_range: tuple[float, float] | None = None
    coding: Coding = field(default_factory=Coding)

    def __post_init__(self) -> None:
        # Schemas are also read from files of unknown origin, so everything is checked.
        names = (*self.features, self.label, *self.coding.categories, *self.coding.missing)
        if not all(isinstance(name, str) for name in names) or not self.features:
            raise ValueError("a schema needs features, whose names are texts")
        if len(set(self.features)) < len(self.features):
            raise ValueError("a feature is named twice")
        if len(self.ranges) != len(self.features):
            raise ValueError("features and ranges differ in length")
        for each in (*self.ranges, *([] if self.label_range is None else [self.label_range])):
            low, high = each
            if not (_is_finite(low) and _is_finite(high) and low < high):
                raise ValueError("a range must be two finite numbers, low < high")
        if not isinstance(self.intercept, bool):
            raise TypeError("intercept must be a bool")
        choice("task", self.task, ("classification", "regression"))
        positive = self.coding.positive
        if positive is not None and not isinstance(positive, str):
            raise TypeError("positive must be a text")
        if positive is not None and (self.task == "regression" or self.label_range is not None):
            raise ValueError(
                "a label with a positive value has no range, and a regression has no positive value"
            )
        if {*self.coding.categories, *self.coding.missing} - {*self.columns, self.label}:
            raise ValueError("categories and constants must be of feature columns")

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read from a table, in order, without the label."""
        # We do not split at "=", because names and categories may contain it.
        owners = {
            f"{name}={each}": name for name, own in self.coding.categories.items() for each in own
        }
        return list(dict.fromkeys(owners.get(name, name) for name in self.features))

    def difference(self, other: Schema) -> str | None:
        """Return in words in which declaration another schema differs; None if it does not."""
        if self.columns != other.columns:
            return f"columns: {', '.join(self.columns)}; not {', '.join(other.columns)}"
        for name in ("label", "task", "label_range", "intercept"):
            if getattr(self, name) != getattr(other, name):
                return (f"{name.replace('_', ' ')}: {getattr(self, name)}; "
                        f"not {getattr(other, name)}")  # fmt: skip
        # Ranges are compared only if categories agree, because other categories are other features.
        for name in ("positive", "categories", "ranges", "missing"):
            if name == "ranges":
                for each, own, its in zip(self.features, self.ranges, other.ranges, strict=True):
                    if own != its:
                        return (f"range of {each!r}: {own[0]:g} to {own[1]:g}; "
                                f"not {its[0]:g} to {its[1]:g}")  # fmt: skip
            elif getattr(self.coding, name) != getattr(other.coding, name):
                return f"{name}: {_words(self.coding, name)}; not {_words(other.coding, name)}"
        return None

    def to_dict(self) -> Fields:
        """Return the schema as a JSON-able dictionary."""
        return {
            "features": list(self.features), "ranges": [list(each) for each in self.ranges],
            "intercept": self.intercept, "task": self.task, "label": self.label,
            "label_range": None if self.label_range is None else list(self.label_range),
            "categories": {name: list(own) for name, own in self.coding.categories.items()},
            "missing": dict(self.coding.missing), "positive": self.coding.positive,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Schema:
        """Return the schema from a record of `to_dict`.

        Raises
        ------
        ValueError, TypeError, LookupError
            For an invalid record. Callers convert these into their own errors.
        """
        bounds = record["label_range"]
        made = cls(
            tuple(record["features"]), tuple((low, high) for low, high in record["ranges"]),
            record["intercept"], record["task"], record["label"],
            None if bounds is None else (bounds[0], bounds[1]),
            Coding(record["categories"], record["missing"], record["positive"]),
        )  # fmt: skip
        # Numbers given as texts or bools would be converted, and so differ from the record.
        if made.to_dict() != {name: record[name] for name in made.to_dict()}:
            raise ValueError("the schema has missing or unknown fields")
        return made


def _words(coding: Coding, name: str) -> str:
    """Return a field of a coding as text for a message."""
    value = getattr(coding, name)
    if not isinstance(value, Mapping):
        return "none" if value is None else str(value)
    each = (f"{k}={','.join(v) if isinstance(v, tuple) else f'{v:g}'}" for k, v in value.items())
    return ", ".join(each) or "none"


def _is_finite(value: object) -> bool:
    """Return whether a value is a finite number; a bool is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
