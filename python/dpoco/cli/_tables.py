"""Files of records: how they are read, and the declarations of their columns."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpoco import datasets
from dpoco._validation import Fields, FloatArray, MalformedError
from dpoco.accounting import Guarantee
from dpoco.cli._settings import Settings, column_pairs, parse_range, read_list
from dpoco.cli._shell import Note
from dpoco.datasets import Coding, FileFormat, PublicScaling, Schema, Stream, Table
from dpoco.errors import StateError


def open_table(asked: Settings, fewest: int = 2) -> Table:
    """Return the table named in the settings."""
    # A pipe can be read once, but a table is read several times. The input is read as bytes,
    # because the declared encoding is that of the table and not of the terminal.
    source: Any = io.BytesIO(sys.stdin.buffer.read()) if asked.data == "-" else asked.data
    form = FileFormat(asked.format, asked.separator, asked.decimal, asked.encoding,
                      asked.skip_lines)  # fmt: skip
    table = datasets.open_table(source, header=asked.header, file_format=form, fewest=fewest)
    # Checked before asking for anything, because columns without rows would all seem empty.
    if not any(table.head()):
        raise ValueError(f"{table.title} has 0 rows of data; at least {fewest} are needed")
    return table


@dataclass(frozen=True)
class Declaration:
    """The parsed options about columns."""

    label: str | None
    positive: str | None
    features: list[str] | None
    person: str | None
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    general: tuple[float, float] | None = None
    label_range: tuple[float, float] | None = None
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # "" means all columns of numbers
    released: bool = False  # whether a model will be published, which names its columns

    @classmethod
    def of(cls, asked: Settings) -> Declaration:
        """Return the declarations; `ValueError` names the typed option."""
        ranges: dict[str, tuple[float, float]] = {}
        general = None
        for text in asked.range or ():
            column, mark, rest = text.rpartition("=")
            interval = parse_range("--range", rest)
            if mark:
                ranges[_column("--range", column)] = interval
            else:
                general = interval
        label_range = ranges.pop(asked.label or "", None)
        if asked.positive is not None and label_range is not None:
            raise ValueError("--positive and a --range of the label exclude each other")
        columns = None if asked.features is None else read_list(asked.features)
        return cls(
            asked.label, asked.positive, columns, asked.person, ranges, general, label_range,
            {column: tuple(read_list(rest))
             for column, rest in column_pairs("categories", asked.categories, "COLUMN=A,B,...")},
            dict(column_pairs("missing", asked.missing, "[COLUMN=]VALUE", bare=True)),
            asked.decision is not None or asked.checkpoint is not None,
        )  # fmt: skip

    def with_saved(self, saved: Schema) -> Declaration:
        """Return the declaration, with a saved learner's values for undeclared ones."""
        columns, coding = saved.columns, saved.coding
        known = dict(zip(saved.features, saved.ranges, strict=True))
        own = {name: known[name] for name in columns if name in known}
        # A range for all columns replaces every saved range.
        ranged = {*self.ranges} if self.general is None else {*own}
        return replace(
            self,
            label=self.label or saved.label or None,
            positive=self.positive if self.positive or self.label_range else coding.positive,
            features=columns if self.features is None else self.features,
            ranges={**{k: v for k, v in own.items() if k not in ranged}, **self.ranges},
            # A label has a range or an event, so giving one of them drops the other saved one.
            label_range=self.label_range
            if self.label_range or self.positive
            else saved.label_range,
            categories=self.categories or {k: tuple(v) for k, v in coding.categories.items()},
            missing=self.missing or {name: repr(value) for name, value in coding.missing.items()},
        )


@dataclass(frozen=True)
class Saved:
    """How a saved learner read its records, and the options with which it began."""

    schema: Schema
    person: str | None
    command: Fields
    search: Guarantee | None = None

    @classmethod
    def of(cls, learner: Any) -> Saved | None:
        """Return this from a learner's state; None if the command line did not write the state."""
        record = learner._described
        if record is None:
            return None
        # A state may come from elsewhere, so any fault in it gives the same error.
        try:
            search = record.get("search")
            return cls(Schema.from_dict(record["schema"]), record["person"],
                       dict(record["command"]),
                       None if search is None else Guarantee.from_dict(search))  # fmt: skip
        except (LookupError, TypeError, ValueError, AttributeError):
            raise StateError("state is corrupt: it describes no records") from None

    def check_names(self, declared: Declaration) -> None:
        """Raise `ValueError` if options name columns that are not the learner's."""
        own = self.schema
        pairs = (
            ("person", self.person, declared.person),
            ("columns", ", ".join(own.columns), ", ".join(declared.features or ())),
            ("label", own.label or declared.label, declared.label),
        )
        for what, saved, given in pairs:
            if saved != given:
                raise self._error(f"{what}: {saved or 'none'}; not {given or 'none'}")

    def check(self, schema: Schema) -> None:
        """Raise `ValueError` if records are read differently than by the learner."""
        difference = self.schema.difference(schema)
        if difference is not None:
            raise self._error(difference)

    def _error(self, difference: str) -> ValueError:
        return ValueError(
            f"the saved learner learned from other records, {difference}: repeat the options that "
            "it began with, or leave them out"
        )


def read_saved(learner: object, trusted: bool) -> Saved | None:
    """Return how a saved learner read its records; None if that is missing and it is trusted."""
    saved = Saved.of(learner)
    if saved is None and not trusted:
        raise ValueError(
            "the state does not say which columns it learned from: add --trust-columns (of dpoco "
            "run: --set trust-columns=true) if they are "
            "the same ones in the same order, with the same ranges"
        )
    return saved


def _column(option: str, name: str) -> str:
    if not name.strip():
        raise ValueError(f"{option}: name a column in front of =")
    return name.strip()


def feature_columns(table: Table, declared: Declaration, kinds: Mapping[str, str]) -> list[str]:
    """Return the feature columns: the named ones, or all that are not empty.

    Raises
    ------
    ValueError
        If a named column is missing, or is empty without a constant, or if columns of a model would
        be left out because of their records.
    """
    listed = {*declared.categories} - {declared.label}  # its list contains classes
    named = {*declared.ranges, *declared.missing, *listed} - {""}
    table.check([name for name in (declared.label, declared.person) if name is not None])
    given = declared.features
    if given is None:
        others = [name for name in table.names if name not in (declared.label, declared.person)]
        left = [name for name in others if kinds[name] == "nothing" and name not in named]
        given = [name for name in others if name not in left]
        if left and given and declared.released:
            # A model without a column would reveal that nobody has a value there.
            raise ValueError(
                f"nothing in the first thousand rows of {', '.join(left)}: name the columns of a "
                "model yourself (--features A,B,...), for a choice by the records would show in it"
            )
        if left and given:
            warnings.warn(
                f"left out, for its first thousand rows hold nothing: {', '.join(left)}",
                Note, stacklevel=1,
            )  # fmt: skip
    table.check([*given, *named])
    if declared.label in given:
        raise ValueError(f"column {declared.label!r} is the label and cannot be a feature")
    if declared.person is not None and declared.person in (declared.label, *given):
        raise ValueError("--person must name a column that nothing is learned from")
    if not given:
        raise ValueError(f"{table.title} has no column to learn from")
    strangers = named - {*given}
    if strangers:
        raise ValueError(
            f"a range, categories or a constant are of {', '.join(map(repr, sorted(strangers)))}, "
            f"which is no feature column; these are {', '.join(given)}"
        )
    covered = {*declared.missing, *declared.categories}
    empty = [name for name in given if kinds[name] == "nothing" and not {name, ""} & covered]
    if empty:
        raise ValueError(
            f"nothing in the first thousand rows of {', '.join(empty)}: leave the column out "
            "(--features), or say what stands for its missing cells (--set missing=COLUMN=VALUE)"
        )
    return given


def unknown_columns(
    declared: Declaration, columns: Sequence[str], kinds: Mapping[str, str]
) -> list[str]:
    """Return the columns of numbers whose ranges are unknown."""
    # Yes and no are 1 and 0, like a category's feature, so their range is not secret.
    return [
        name for name in columns
        if kinds[name] in ("numbers", "0 or 1", "nothing") and declared.general is None
        and name not in declared.ranges and name not in declared.categories
    ]  # fmt: skip


def ask(
    table: Table, declared: Declaration, columns: Sequence[str], kinds: Mapping[str, str],
    loss: str, unsearched: str = "",
) -> None:  # fmt: skip
    """Ask for everything that is missing at once; `ValueError` lists the columns.

    Names and kinds of columns are read from the files, but never their ranges. `unsearched` says
    why ranges cannot be searched.
    """
    # The message asks for everything at once, so that users need not run the command five times.
    texts = [each for each in columns if kinds[each] == "text" and each not in declared.categories]
    # A column of numbers with a few stray texts is a mistake in the file, not a list of categories.
    for name in texts:
        _check_cells(table, name)
    numbers = unknown_columns(declared, columns, kinds)
    missing = []
    if declared.label is None:
        missing.append("--label COLUMN, what is to be predicted")
    else:
        missing += _about_label(declared, kinds[declared.label], loss)
    if texts:
        missing.append(
            f"--set categories=COLUMN=A,B,... for {', '.join(texts)}: public lists, from "
            f"knowledge; or --features A,B,... without the columns of text: {', '.join(texts)}"
        )
    if numbers:
        missing.append(
            f"--range COLUMN=LOW:HIGH for {', '.join(numbers)} (or --range LOW:HIGH for all): "
            f"public ranges, from knowledge, never from the records{unsearched}"
        )
    if missing:
        shown = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        raise ValueError(f"the columns are {shown}. Still needed: {'; '.join(missing)}")


def _about_label(declared: Declaration, kind: str, loss: str) -> list[str]:
    """Return what must be declared about the label."""
    label, ranged = declared.label, declared.label_range is not None
    if kind == "nothing":
        return [f"a --label that holds something: the first thousand rows of {label} do not"]
    if label in declared.categories:
        return [f"--positive VALUE for {label}, one class against all others, instead of its list"]
    if loss != "logistic":
        text = [f"a --label of numbers: {label} holds text"] if kind == "text" else []
        return text or ([] if ranged else [f"--range {label}=LOW:HIGH, the public range of the "
                                           "label"])  # fmt: skip
    if declared.positive is not None or (ranged and kind != "text"):
        return []
    if kind == "text":
        return [
            f"--positive VALUE, the text in {label} that is the event; all others are its opposite "
            "(for more than two classes: a run for each class)"
        ]
    if kind == "numbers":
        return [
            f"what the numbers in {label} are: a quantity (regression: --loss squared --range "
            f"{label}=LOW:HIGH), the code of an event (--positive VALUE, all others are its "
            f"opposite), or a share or a probability (--range {label}=LOW:HIGH, mapped to [0, 1])"
        ]
    return []


def _check_cells(table: Table, name: str) -> None:
    """Raise if a column has numbers except in a few cells, and name the first of these cells."""
    if not table.begins_with_numbers(name):
        return
    try:
        table.select([name])
    except MalformedError as error:
        raise ValueError(
            f"{error}; correct the cell, list categories (--set categories={name}=A,B,...), or "
            "leave the column out (--features)"
        ) from None


def load_stream(
    table: Table, declared: Declaration, columns: Sequence[str], kinds: Mapping[str, str],
    task: str, loss: str, intercept: bool,
) -> Stream:  # fmt: skip
    """Return the rows of a table as a stream, coded and scaled as declared."""
    if declared.label is None:
        raise ValueError("still needed: --label COLUMN")
    given = declared.general or (-1.0, 1.0)
    ranges = {
        name: declared.ranges.get(
            name, (0.0, 1.0) if kinds[name] == "yes or no" and declared.general is None else given
        )
        for name in columns
    }
    constants = {}
    for name in columns:
        text = declared.missing.get(name, declared.missing.get(""))
        if text is not None and name not in declared.categories:
            constants[name] = _constant(text, ranges[name])
    useless = {*declared.missing} & {*declared.categories}
    if useless:
        raise ValueError(
            f"missing {min(useless)}: a column with categories needs no constant, because a "
            "missing category is 0 in all of them"
        )
    coding = Coding(declared.categories, constants, declared.positive)
    scaled = declared.label_range
    scaling = None if scaled is None else PublicScaling(*scaled, intercept=False)
    stream = datasets.load_file(
        table, label=declared.label, features=columns, label_scaling=scaling, task=task,
        coding=coding,
    )  # fmt: skip
    # A misspelt event is not an error, because on another day it may just not have happened.
    if declared.positive is not None and not np.any(stream.labels == 1.0):
        warnings.warn(
            f"no {declared.label} of {table.title} is {declared.positive!r}", Note, stacklevel=1
        )
    if scaled is not None and loss == "logistic":  # from [-1, 1] to [0, 1]
        stream = replace(stream, labels=(stream.labels + 1.0) / 2.0)
    owners = {f"{name}={each}": name for name, own in coding.categories.items() for each in own}
    # A missing category is 0, the middle of its range, and does not lengthen a record.
    pairs = [ranges[name] if name not in owners else (-1.0, 1.0) for name in stream.feature_names]
    low, high = zip(*pairs, strict=True)
    return stream.scaled(PublicScaling(low, high, intercept=intercept))


def check_binary(labels: FloatArray, title: str, name: str) -> None:
    """Raise if an undeclared label, which began with 0 and 1, has other values later."""
    odd = np.isfinite(labels) & (labels != 0.0) & (labels != 1.0)
    if odd.any():
        raise ValueError(
            f"{title}, record {int(np.argmax(odd)) + 1}: the label {name!r} is neither 0 nor 1, "
            f"nor yes or no. Say what its numbers are: a quantity (--loss squared --range {name}="
            f"LOW:HIGH), a code (--positive VALUE), or a share (--range {name}=LOW:HIGH)"
        )


def _constant(text: str, interval: tuple[float, float]) -> float:
    if text == "middle":
        return interval[0] / 2.0 + interval[1] / 2.0
    with suppress(ValueError):
        return float(text)
    raise ValueError(f"missing must be a number or middle; got {text!r}")
