"""The file of a sweep: append-only JSON lines, one record a cell, that survives an interrupt.

A record is one line, written whole and synced before the next. What a crash can leave is a torn
last line; it is cut off when the sweep goes on, and its cell is done again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpoco.errors import StateError
from dpoco.scale._sweep_cells import Cell, decoded, encoded, line_of

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["KIND", "SweepFile", "read_records"]

KIND = "dpoco.sweep/1"
_FIELDS = {"kind", "configuration", "values", "seed", "noise"}
# Bytes every record starts with, since names are sorted; anything else was not written by us.
_START = b'{"configuration":'
# A lock of Windows covers bytes; this one is past every byte that is written.
_LOCKED_BYTE = 2**62


def read_records(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the intact records and the bytes they take; the rest of the file is a torn line.

    Raises
    ------
    StateError
        If anything but a last line without an end is no record.
    OSError
        If the file cannot be read.
    """
    records: list[dict[str, Any]] = []
    intact = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                if not line.startswith(_START[: len(line)]):
                    raise StateError(f"line {number} of the file is not the record of a sweep")
                break
            records.append(_record(line, number))
            intact += len(line)
    return records, intact


def _record(line: bytes, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line, object_hook=decoded)
    except (ValueError, RecursionError):
        record = None
    if (
        not isinstance(record, dict)
        or record.get("kind") != KIND
        or not record.keys() >= _FIELDS
        or ("result" in record) == ("error" in record)
        or not isinstance(record["values"], dict)
        or not isinstance(record["configuration"], dict)
        or type(record["seed"]) is not int
    ):
        raise StateError(f"line {number} of the file is not the record of a sweep")
    return record


class SweepFile:
    """The open file of one sweep, locked against others; a context manager.

    Parameters
    ----------
    path : Path
        Created if absent.
    configuration : mapping
        What every record of the file must agree with.

    Raises
    ------
    StateError
        If the file is of another sweep, foreign, damaged or in use.
    OSError
        If it cannot be written.
    """

    def __init__(self, path: Path, configuration: Mapping[str, Any]) -> None:
        self._configuration = dict(configuration)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            self._lock()
            records, intact = read_records(path)
            for number, record in enumerate(records, start=1):
                self._check(record, number)
            os.ftruncate(self._file, intact)
            os.lseek(self._file, intact, os.SEEK_SET)
        except BaseException:
            os.close(self._file)
            raise
        self._root = int(configuration["root"])
        self.done = {
            Cell(record["values"], record["seed"], self._root).key: record
            for record in records
            if "result" in record
        }

    def _lock(self) -> None:
        try:
            if sys.platform == "win32":
                os.lseek(self._file, _LOCKED_BYTE, os.SEEK_SET)
                msvcrt.locking(self._file, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateError("the file is in use by another sweep") from None

    def _check(self, record: Mapping[str, Any], number: int) -> None:
        said = encoded("configuration", record["configuration"])
        if said == self._configuration:
            return
        names = sorted(
            name
            for name in {*self._configuration, *said}
            if said.get(name) != self._configuration.get(name)
        )
        raise StateError(
            f"line {number} of the file is of another sweep: {', '.join(names)} changed; "
            "continue it as it was, or choose another output"
        )

    def append(self, cell: Cell, outcome: Mapping[str, Any]) -> dict[str, Any]:
        """Write one record so that it survives a power cut, and return it as read back."""
        line = line_of(
            {
                "kind": KIND,
                "configuration": self._configuration,
                "values": json.loads(cell.key)["values"],
                "seed": cell.seed,
                "noise": "seeded: guarantee void",
                **outcome,
            }
        )
        rest = memoryview(line.encode() + b"\n")
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)
        record: dict[str, Any] = json.loads(line, object_hook=decoded)
        return record

    def __enter__(self) -> SweepFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
