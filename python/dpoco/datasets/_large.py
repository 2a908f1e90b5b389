"""Streams larger than memory, read or simulated in parts, and recipes for public files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from dpoco._validation import Fields, choose_name, import_package, positive_int
from dpoco.datasets import _files, _tables
from dpoco.datasets._coding import Coding
from dpoco.datasets._stream import PublicScaling, Stream, linear_regression_stream, river_dataset
from dpoco.datasets._tables import FileFormat, Table

_ROWS = 65_536


def chunks(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    label: str,
    features: Sequence[str] | None = None,
    header: bool | None = None,
    scaling: PublicScaling | None = None,
    label_scaling: PublicScaling | None = None,
    task: str = "classification",
    coding: Coding | None = None,
    file_format: FileFormat | None = None,
    rows: int = _ROWS,
) -> Iterator[Stream]:
    """Read a stream in parts, so that files may be larger than memory.

    Parameters
    ----------
    path : path-like or a sequence of them
        CSV or Parquet files, a folder or a pattern, see `load_file`. Cells of a CSV file must not
        contain line breaks.
    label, features, header, scaling, label_scaling, task, coding, file_format
        See `load_file`.
    rows : int, default 65536
        Largest number of rounds of a part.

    Yields
    ------
    Stream
        The next rounds, in order; no part has rounds from two files. Memory is O(rows), or that of
        a row group for Parquet.

    Raises
    ------
    FileNotFoundError, TypeError, ValueError, ImportError
        See `load_file`. They are raised immediately, except for errors that only the rows show.
    """
    # Not in the generator below, so that errors come with the call and not with the first part.
    count, form = positive_int("rows", rows), file_format or FileFormat()
    sources = [each for each in _tables.files(path) if isinstance(each, Path)]
    # The rows of an archive of arrays cannot be read in parts.
    for each in sources:
        if _tables.find_format(each, form) == "npz":
            raise ValueError(f"{each.name}: only .csv and .parquet files are read in parts")
    # All files are opened once, so that a file with other columns is refused now and not hours
    # later.
    table = _tables.open_table(sources, header=header, file_format=form)
    table.check([label, *(features or ())])
    features = _files.usual_features(table, label) if features is None else features
    return (
        _files.build_stream(part, label, features, scaling, label_scaling, task, coding)
        for source in sources
        for part in _parts(source, header, form, count)
    )


def _parts(source: Path, header: bool | None, form: FileFormat, rows: int) -> Iterator[Table]:
    """Yield the table of each part."""
    table = _tables.open_one(source, header, form)
    if _tables.find_format(source, form) == "parquet":
        parquet = import_package("pyarrow.parquet", "a Parquet file", "files").ParquetFile
        with parquet(source, pre_buffer=False) as file:  # otherwise it would keep the whole file
            for batch in file.iter_batches(batch_size=rows):
                yield replace(
                    table,
                    select=partial(_tables.arrow_columns, batch, table.title),
                    entries=partial(_tables.arrow_entries, batch),
                )
        return
    skipped, mark = _tables.layout(source, form)
    # Parts begin at the table, so no lines above it are to be skipped.
    inside = replace(form, kind="csv", separator=mark, skip_lines=0)
    with _tables.open_text(source, form.encoding) as file:
        for _ in range(skipped):
            next(file, None)
        # The reader treats each part as a separate file, with the names of the columns on top.
        head, start = next(file, "") if header is not False else "", 0
        while lines := list(islice(file, rows)):
            text = io.StringIO(head + "".join(lines))
            text.name = source.name
            if any(map(str.strip, lines)):  # skip parts with empty lines only
                yield _tables.open_one(text, header, inside, before=skipped + start)
            start += len(lines)


def linear_regression_chunks(
    rounds: int,
    dimension: int,
    p: float = 2.0,
    seed: int | None = None,
    *,
    noise: float = 0.05,
    rows: int = _ROWS,
) -> Iterator[Stream]:
    """Simulate `linear_regression_stream` in parts, for streams of any length.

    Parameters
    ----------
    rounds, dimension, p, seed, noise
        See `linear_regression_stream`; the parameter is dense. Each part has separate draws, so the
        records depend on `rows`.
    rows : int, default 65536
        Largest number of rounds of a part.

    Yields
    ------
    Stream
        The next rounds. All parts have the same `target`, which is the best decision on average,
        with squared loss noise^2. Memory is O(rows dimension).

    Raises
    ------
    ValueError, TypeError
        For bad arguments; raised immediately.
    """
    count, most = positive_int("rounds", rounds), positive_int("rows", rows)
    # A dense target is equal for every seed, so all parts have the same true parameter.
    target = linear_regression_stream(1, dimension, p, 0, noise=noise).target
    assert target is not None
    # Spawned seeds are independent; NumPy does not promise this for consecutive numbers.
    seeds = np.random.SeedSequence(seed)
    return (
        linear_regression_stream(
            min(most, count - start), dimension, p, seeds.spawn(1)[0], noise=noise, target=target
        )
        for start in range(0, count, most)
    )


_PLACES = {"longitude": (-74.05, -73.75), "latitude": (40.6, 40.9)}
_Ranges = dict[str, tuple[float, float]]
# By class of river.datasets: label, public ranges of the features, and the range of a regression's
# label. Ranges follow from the meaning of the columns; values outside saturate. See
# docs/guide/large_streams.md.
_RECIPES: dict[str, tuple[str, _Ranges, tuple[float, float] | None]] = {
    "Bikes": ("bikes", {
        "clouds": (0.0, 100.0), "humidity": (0.0, 100.0), "pressure": (950.0, 1050.0),
        "temperature": (-10.0, 40.0), "wind": (0.0, 30.0),
    }, (0.0, 60.0)),
    "CreditCard": (
        "Class", {f"V{i}": (-5.0, 5.0) for i in range(1, 29)} | {"Amount": (0.0, 1000.0)}, None
    ),
    "CriteoAds": ("click", {f"I{i}": (0.0, 100.0) for i in range(1, 14)}, None),
    "HTTP": ("service", dict.fromkeys(("duration", "src_bytes", "dst_bytes"), (-2.5, 22.5)), None),
    "Higgs": ("1", {str(i): (-3.0, 5.0) for i in range(2, 30)}, None),
    "MovieLens100K": ("rating", {"age": (0.0, 100.0), "timestamp": (8.7e17, 9.0e17)}, (1.0, 5.0)),
    "Taxis": ("trip_duration", {
        f"{end}_{side}": reach for end in ("pickup", "dropoff") for side, reach in _PLACES.items()
    } | {"passenger_count": (0.0, 8.0)}, (0.0, 3600.0)),
}  # fmt: skip


def recipe(name: str) -> Fields:
    """Return how to read a public data set as a stream: arguments for `load_file` and `chunks`.

    Parameters
    ----------
    name : {"Bikes", "CreditCard", "CriteoAds", "HTTP", "Higgs", "MovieLens100K", "Taxis"}
        Class in ``river.datasets``.

    Returns
    -------
    dict
        Label, feature columns, public scalings, task, and whether the file has column names.
    """
    label, ranges, labels = _RECIPES[choose_name("data set", name, tuple(_RECIPES))]
    low, high = zip(*ranges.values(), strict=True)
    return {
        "label": label, "features": list(ranges), "scaling": PublicScaling(low, high),
        "label_scaling": None if labels is None else PublicScaling(*labels, intercept=False),
        "task": "classification" if labels is None else "regression",
        "header": name != "Higgs",
    }  # fmt: skip


def from_river(name: str, path: str | os.PathLike[str] | None = None) -> Stream:
    """Load a public data set of river by its `recipe`, from your file or by downloading it.

    Parameters
    ----------
    name : str
        See `recipe`.
    path : path-like, optional
        A copy in the layout of river's file. None: river's own file, downloaded if it is missing.

    Returns
    -------
    Stream
        Features in [-1, 1], and a constant column; labels in [0, 1], or in [-1, 1] for regressions.

    Raises
    ------
    ValueError
        For an unknown name, or a file in another layout.
    ImportError
        Without `path`, if river or the data set is missing.
    OSError
        If the file cannot be read or downloaded.

    Notes
    -----
    O(T) memory. If that is too much, read the file in parts: ``chunks(path, **recipe(name))``.
    """
    options = recipe(name)
    if path is None:
        data = river_dataset(name, name, "a newer river")
        data.download(verbose=False)
        path = data.path
    return _files.load_file(path, **options)
