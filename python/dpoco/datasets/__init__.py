"""Streams to learn from: bundled real ones, files, and simulated regressions.

A stream is a matrix of records in the order they arrive, with one label each. All scaling uses
public constants declared in advance; nothing is ever estimated from the records.
"""

from __future__ import annotations

from dpoco.datasets._files import column_kinds, column_names, load_file, read_columns, read_people
from dpoco.datasets._stream import (
    BUNDLED,
    POLLSTERS,
    STOCKS,
    TARGETS,
    Bundled,
    PublicScaling,
    Stream,
    available,
    linear_regression_stream,
    load,
    load_losses,
    load_phishing,
    load_shuttle,
    pollster_losses,
    stock_losses,
)

__all__ = ["BUNDLED", "POLLSTERS", "STOCKS", "TARGETS", "Bundled", "PublicScaling",
           "Stream", "available", "column_kinds", "column_names", "linear_regression_stream",
           "load", "load_file", "load_losses", "load_phishing", "load_shuttle",
           "pollster_losses", "read_columns", "read_people", "stock_losses"]  # fmt: skip
