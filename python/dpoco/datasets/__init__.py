"""Streams to learn from: bundled real ones, files, and simulated regressions.

A stream is a matrix of records in the order they arrive, with one label each. All scaling uses
public constants declared in advance; nothing is ever estimated from the records.
"""

from __future__ import annotations

from collections.abc import Callable

from dpoco.datasets._bundled import (
    POLLSTERS,
    STOCKS,
    bundled_file,
    load_phishing,
    load_shuttle,
    pollster_losses,
    stock_losses,
)
from dpoco.datasets._files import column_names, load_file, read_columns
from dpoco.datasets._stream import PublicScaling, Stream, linear_regression_stream

__all__ = [
    "POLLSTERS",
    "STOCKS",
    "PublicScaling",
    "Stream",
    "available",
    "bundled_file",
    "column_names",
    "linear_regression_stream",
    "load",
    "load_file",
    "load_phishing",
    "load_shuttle",
    "pollster_losses",
    "read_columns",
    "stock_losses",
]

_LOADERS: dict[str, Callable[[], Stream]] = {
    "phishing": load_phishing,
    "shuttle": load_shuttle,
}


def available() -> tuple[str, ...]:
    """Names of the real streams that `load` knows, none of which needs a download."""
    return tuple(sorted(_LOADERS))


def load(name: str) -> Stream:
    """Load a stream by name.

    Parameters
    ----------
    name : str
        One of `available()`.

    Returns
    -------
    Stream
        Scaled with the public constants its description states.

    Raises
    ------
    ValueError
        For an unknown name.
    ImportError
        If the package that bundles the stream is missing.
    """
    if name not in _LOADERS:
        raise ValueError(f"name must be one of {list(available())}; got {name!r}")
    return _LOADERS[name]()
