"""Streams from CSV, Parquet and NumPy files."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from dpoco._validation import MalformedError
from dpoco.datasets._coding import Coding
from dpoco.datasets._stream import PublicScaling, Stream
from dpoco.datasets._tables import (
    FileFormat,
    Source,
    Table,
    category_text,
    is_missing,
    is_whole,
    open_table,
)


def load_file(
    path: Source | Table | Sequence[Source],
    *,
    label: str,
    features: Sequence[str] | None = None,
    header: bool | None = None,
    scaling: PublicScaling | None = None,
    label_scaling: PublicScaling | None = None,
    task: str = "classification",
    fewest: int = 2,
    coding: Coding | None = None,
    file_format: FileFormat | None = None,
) -> Stream:
    """Read a stream from a table whose rows are rounds, in order of arrival.

    Parameters
    ----------
    path : path-like, io.StringIO, io.BytesIO, Table or a sequence of them
        CSV (``.csv``, ``.tsv``, ``.txt``, ``.data``, also compressed as ``.gz`` or ``.zip``, or
        text), ``.parquet`` (needs pyarrow) or ``.npz`` (every one-dimensional array is a column; a
        two-dimensional array ``X`` gives columns ``X0``, ``X1``, ...). A folder or a pattern
        (``"day-*.csv"``) stands for its files, ordered by the numbers in their names. Several files
        with the same columns follow one another. A CSV file is separated by commas, semicolons,
        tabs or bars, as its first rows are; after a semicolon 1,5 is also a number. yes, no, true
        and false are 1 and 0, in texts of every format; NA, null, ? and nothing are missing. A
        column without a name is called "column 1", by its number.
    label : str
        Name of the label's column.
    features : sequence of str, optional
        Names of the feature columns, in order; default all but the label's, and but those that hold
        nothing in the first thousand rows.
    header : bool, optional
        Whether the first row of a CSV file names the columns. False: they are named by number,
        "1", "2", ... None: it does, unless a cell is a number, a date or a time: such a row may be
        a record and is refused.
    scaling : PublicScaling, optional
        Public transformation of the features; default none.
    label_scaling : PublicScaling, optional
        Public transformation of the labels (its intercept is ignored); default none.
    task : {"classification", "regression"}
        Kind of the labels.
    fewest : int, default 2
        Rounds that there must be.
    coding : Coding, optional
        Categories of columns of text, constants for missing cells, the text of the event.
    file_format : FileFormat, optional
        Facts that a file's name and first rows do not show: encoding, separator, lines on top.

    Returns
    -------
    Stream
        Missing entries are NaN: learners take such a record as a zero record.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `header` is no bool.
    ValueError
        If the format is unknown, a file is malformed, there are fewer than `fewest` rounds, or a
        column is missing or not numeric. Messages contain names of columns and numbers of rows, and
        no cell below the header.
    ImportError
        If the format needs a package that is not installed.
    """
    table = open_table(path, header=header, file_format=file_format, fewest=fewest)
    return build_stream(table, label, features, scaling, label_scaling, task, coding)


def usual_features(table: Table, label: str) -> list[str]:
    """Return the columns to learn from by default: but the label's, all that hold something."""
    kinds, others = table.kinds(), [name for name in table.names if name != label]
    # Where nothing holds anything, the error about the columns is clearer than one about none.
    return [name for name in others if kinds[name] != "nothing"] or others


def build_stream(
    table: Table,
    label: str,
    features: Sequence[str] | None,
    scaling: PublicScaling | None,
    label_scaling: PublicScaling | None,
    task: str,
    coding: Coding | None = None,
) -> Stream:
    """Return the rows of a table as a stream; arguments and errors as of `load_file`."""
    table.check([label])
    features = usual_features(table, label) if features is None else features
    table.check(features)
    if label in features:
        raise ValueError(f"column {label!r} is the label and cannot be a feature")
    if not features:
        raise ValueError(f"{table.title} has no feature column besides the label")
    coding = coding or Coding()
    strangers = {*coding.categories, *coding.missing} - {*features, label}
    table.check(sorted(strangers))
    # A label that was made up would be learned from. Strangers are checked first: a column that is
    # not there is a slip, and gets the list of those that are.
    if strangers or label in coding.missing:
        raise ValueError(
            "categories are of features or of the label, constants of features alone: not of "
            f"{', '.join(sorted(strangers) or [label])}"
        )
    cells, labels, flags = coding.records(table, features, label)
    if label_scaling is not None:
        flags["label_out_of_range"] = label_scaling.outside(labels[:, None])[:, 0]
        labels = label_scaling.apply(labels[:, None])[:, 0]
    stream = Stream(
        name=table.title,
        features=cells,
        labels=labels,
        feature_names=tuple(coding.names(features)),
        task=task,
        description=f"Records of {table.title}, label {label!r}",
        source="file given by the user",
        label_transform=label_scaling,
        coding=coding,
        nonprivate_flags=flags,
    )
    return stream if scaling is None else stream.scaled(scaling)


def read_people(
    path: Source | Table | Sequence[Source],
    column: str,
    *,
    header: bool | None = None,
    file_format: FileFormat | None = None,
    alone: bool = False,
) -> list[str]:
    """Return whose record each row of a table is, as texts.

    Parameters
    ----------
    path, header, file_format
        As for `load_file`.
    column : str
        Where people are named, by texts or whole numbers. 7.0 is 7, in texts as well: gaps in a
        column of numbers make 7.0 of 7, and another file may have no gaps.
    alone : bool
        Whether a row that names no one is of a person who has no other row.

    Returns
    -------
    list of str
        A name for each row.

    Raises
    ------
    ValueError
        If a row names no one and not `alone`, or by another type; else as for `load_file`.
    """
    table = open_table(path, header=header, file_format=file_format)
    table.check([column])
    named = table.entries(column)
    if not all(
        isinstance(each, (str, int)) or is_missing(each) or is_whole(each) for each in named
    ):
        raise MalformedError(f"column {column!r} must hold texts or whole numbers")
    missing = [is_missing(each) for each in named]
    if any(missing) and not alone:
        raise MalformedError(
            f"column {column!r} has missing values: each row must name a person, unless a row "
            "without a name counts as a person who has no other row (alone=True, anonymous=true)"
        )
    # A name of chance is no one else's, in this file or another one.
    return [
        secrets.token_hex(16) if unnamed else person_name(each)
        for each, unnamed in zip(named, missing, strict=True)
    ]


def person_name(entry: object) -> str:
    """Return a name as it is told to learners, which count a person's records by it.

    Parameters
    ----------
    entry : str or number
        As a table has it.

    Returns
    -------
    str
        Without spaces around it; 7.0 is 7, in texts as well. 007 and 7 stay two names.
    """
    if is_whole(entry):
        return category_text(entry)
    # Two names of one person would count apart, and the guarantee would be of half of the records.
    # Other numbers stay as they are written: 007 and 7 may be two people's.
    text = str(entry).strip()
    return re.sub(r"^([+-]?\d+)\.0*$", r"\1", text)
