"""Streams to learn from: bundled real ones, files, and simulated regressions.

A stream is a matrix of records in order of arrival, with one label each. All scaling uses public
constants that are declared in advance; nothing is ever estimated from the records.
"""

from __future__ import annotations

from dpoco.datasets._coding import Coding, Schema
from dpoco.datasets._files import load_file, person_name, read_people
from dpoco.datasets._large import chunks, from_river, linear_regression_chunks, recipe
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
from dpoco.datasets._tables import FileFormat, Table, open_table

__all__ = ["BUNDLED", "POLLSTERS", "STOCKS", "TARGETS", "Bundled", "Coding", "FileFormat",
           "PublicScaling", "Schema", "Stream", "Table", "available", "chunks", "from_river",
           "linear_regression_chunks", "linear_regression_stream", "load", "load_file",
           "load_losses", "load_phishing", "load_shuttle", "open_table", "person_name",
           "pollster_losses", "read_people", "recipe", "stock_losses"]  # fmt: skip
