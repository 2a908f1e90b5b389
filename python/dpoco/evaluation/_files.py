"""Traces and reports in files: JSON lines always, Parquet where pyarrow is installed.

A file holds a header and a table. The header names the schema and its version, says that the
contents are not private, and carries a digest of the table, which is checked on loading.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._state import write_atomically
from dpoco._validation import reading

__all__ = ["NOTICE", "read_table", "write_table"]

Column = NDArray[Any]
Table = dict[str, Column]

NOTICE = "NOT PRIVATE: computed from raw records, for evaluation only"
_KEY = b"dpoco"
_TYPES = {"float64": np.float64, "int64": np.int64, "bool": np.bool_}


def write_table(path: str | os.PathLike[str], header: dict[str, Any], table: Table) -> None:
    """Write a header and columns of equal length; the suffix tells the format."""
    target = Path(path)
    kind = _kind(target)
    head = {
        **header,
        "private": False,
        "notice": NOTICE,
        "columns": {name: _type_of(column) for name, column in table.items()},
        "rows": len(next(iter(table.values()), ())),
        "sha256": _digest(table),
    }
    write_atomically(target, (_to_lines if kind == "jsonl" else _to_parquet)(head, table))


def read_table(path: str | os.PathLike[str], schemas: tuple[str, ...]) -> tuple[Any, Table]:
    """Return header and columns of a file of one of the schemas.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not one, is of another version, or is damaged.
    """
    source = Path(path)
    kind = _kind(source)
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {source}")
    read: Callable[[Path], tuple[Any, Any]] = _from_lines if kind == "jsonl" else _from_parquet
    header, table = read(source)
    _check_schema(source, header, schemas)
    try:
        columns = header["columns"]
        named: Table = {name: np.asarray(table[name], _TYPES[columns[name]]) for name in columns}
        whole = (
            set(table) == set(columns)
            and all(column.shape == (header["rows"],) for column in named.values())
            and _digest(named) == header["sha256"]
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ValueError(f"{source.name} is damaged: its table is not the one that was saved")
    for column in named.values():
        column.flags.writeable = False
    return header, named


def _check_schema(source: Path, header: Any, schemas: tuple[str, ...]) -> None:
    found = header.get("schema") if isinstance(header, dict) else None
    if found in schemas:
        return
    families = {schema.rpartition("/")[0] for schema in schemas}
    if isinstance(found, str) and found.rpartition("/")[0] in families:
        raise ValueError(f"{source.name} is of another version than this library reads")
    raise ValueError(f"{source.name} holds none of: {', '.join(schemas)}")


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return "parquet"
    if suffix in (".jsonl", ".ndjson"):
        return "jsonl"
    raise ValueError(f"{path.name}: the format must be .jsonl or .parquet")


def _type_of(column: Column) -> str:
    name = column.dtype.name
    if name not in _TYPES:
        raise TypeError(f"a column must be float64, int64 or bool; got {name}")
    return name


def _digest(table: Table) -> str:
    hashed = hashlib.sha256()
    for name in sorted(table):
        column = table[name]
        hashed.update(f"{name}:{column.dtype.name}:{len(column)};".encode())
        hashed.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes())
    return hashed.hexdigest()


def _to_lines(header: dict[str, Any], table: Table) -> bytes:
    lines = [json.dumps(header, allow_nan=False)]
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    lines += [json.dumps(row) for row in rows]  # NaN stays NaN: Python's own spelling
    return ("\n".join(lines) + "\n").encode()


def _from_lines(path: Path) -> tuple[Any, Any]:
    with reading(path, "a file of JSON lines that this library wrote"):
        with path.open(encoding="utf-8") as file:
            header = json.loads(file.readline())
            rows = [json.loads(line) for line in file]
        names = list(header["columns"])
        if any(len(row) != len(names) for row in rows):
            return header, {}
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        return header, dict(zip(names, columns, strict=True))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            'Parquet files need pyarrow: pip install "dpoco[data]"; .jsonl needs nothing',
            name="pyarrow",
        ) from None
    return pa, pq


def _to_parquet(header: dict[str, Any], table: Table) -> bytes:
    pa, pq = _pyarrow()
    content = pa.table(table).replace_schema_metadata(
        {_KEY: json.dumps(header, allow_nan=False).encode()}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(content, sink, compression="zstd")
    return bytes(sink.getvalue())


def _from_parquet(path: Path) -> tuple[Any, Any]:
    _, pq = _pyarrow()
    with reading(path, "a Parquet file that this library wrote"):
        content = pq.read_table(path)
        header = json.loads((content.schema.metadata or {})[_KEY])
        return header, {name: content.column(name).to_numpy() for name in content.column_names}
