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
        must have the same columns and are read one after another. The separator of a CSV file
        (comma, semicolon, tab or bar) is found from its first rows; with semicolons, 1,5 is also a
        number. In all formats, the texts yes, no, true and false are 1 and 0; NA, null, ? and empty
        texts are missing. A column without a name is called "column 1", by its number.
    label : str
        Name of the label column.
    features : sequence of str, optional
        Names of the feature columns, in order. Default: all columns except the label and those that
        are empty in the first thousand rows.
    header : bool, optional
        Whether the first row of a CSV file names the columns. False: columns are named by number,
        "1", "2", ... None: it does, unless a cell is a number, a date or a time; such a row may be
        a record and is refused.
    scaling : PublicScaling, optional
        Public transformation of the features; default none.
    label_scaling : PublicScaling, optional
        Public transformation of the labels (its intercept is ignored); default none.
    task : {"classification", "regression"}
        Kind of the labels.
    fewest : int, default 2
        Least number of rounds.
    coding : Coding, optional
        Categories of text columns, constants for missing cells, the text of the event.
    file_format : FileFormat, optional
        Facts that the name and the first rows of a file do not show: encoding, separator, lines on
        top.

    Returns
    -------
    Stream
        Missing entries are NaN: learners treat such a record as a zero record.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `header` is not a bool.
    ValueError
        If the format is unknown, a file is malformed, there are fewer than `fewest` rounds, or a
        column is missing or not numeric. Messages contain names of columns and numbers of rows, but
        no cell below the header.
    ImportError
        If the format needs a package that is not installed.
    """
    table = open_table(path, header=header, file_format=file_format, fewest=fewest)
    return build_stream(table, label, features, scaling, label_scaling, task, coding)


def usual_features(table: Table, label: str) -> list[str]:
    """Return the default feature columns: all except the label that are not empty."""
    kinds, others = table.kinds(), [name for name in table.names if name != label]
    # If all columns are empty, the error about the columns is clearer than one about no columns.
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
    """Return the rows of a table as a stream; for arguments and errors see `load_file`."""
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
    # The learner would learn from a made-up label. Unknown columns are checked first: a missing
    # column is probably a typing error, and the message lists the existing columns.
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
    """Return the owner of each row of a table, as texts.

    Parameters
    ----------
    path, header, file_format
        See `load_file`.
    column : str
        Column with names of people, as texts or whole numbers. 7.0 equals 7, also in texts: missing
        cells in a column of numbers turn 7 into 7.0, and another file may have no missing cells.
    alone : bool
        Whether a row without a name belongs to a person who has no other row.

    Returns
    -------
    list of str
        A name for each row.

    Raises
    ------
    ValueError
        If a row has no name (unless `alone`) or a name of another type; otherwise see `load_file`.
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
    # A random name belongs to nobody else, in this file or another one.
    return [
        secrets.token_hex(16) if unnamed else person_name(each)
        for each, unnamed in zip(named, missing, strict=True)
    ]


def person_name(entry: object) -> str:
    """Return a name in the form in which learners count a person's records.

    Parameters
    ----------
    entry : str or number
        Entry of a table.

    Returns
    -------
    str
        Without surrounding spaces; 7.0 becomes 7, also in texts. 007 and 7 are different names.
    """
    if is_whole(entry):
        return category_text(entry)
    # Two names of one person would be counted separately, and the guarantee would cover half of the
    # records. Other numbers are unchanged, because 007 and 7 may be two people.
    text = str(entry).strip()
    return re.sub(r"^([+-]?\d+)\.0*$", r"\1", text)
