"""The embedded store: one SQLite file in write-ahead mode, every commit on disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpoco._validation import choice, real_float
from dpoco.errors import JournalFenced, StateError
from dpoco.journal._sql import FORMAT, SqlStore, schema

__all__ = ["SqliteStore"]

_APPLICATION = 0x64706F6A  # "dpoj"
_PAGE = 8192  # bytes: releases are long rows
_SYNCHRONOUS = {"disk": "FULL", "process": "NORMAL"}


class SqliteStore(SqlStore):
    """A journal in an SQLite file.

    Parameters
    ----------
    path : path-like
        The file; made, readable by the owner only, if there is none. On a local disk: SQLite's
        write-ahead log does not work over network file systems.
    durability : {"disk", "process"}, default "disk"
        What a commit waits for. "disk": the disk (``synchronous = FULL``); releases survive power
        cuts. "process": the operating system (``synchronous = NORMAL``); releases survive crashes
        of the process, but a power cut, or a crash of the system, may set the journal back by its
        last transactions: what that means is in ``docs/operations.md``, "Restore". Keyword-only,
        as below.
    timeout : float, default 5.0
        Seconds to wait for another connection's transaction.

    Raises
    ------
    StateError
        If the file is not a journal, is corrupt, is of a newer format, has two names, or is locked
        for longer than `timeout`.
    OSError
        If it cannot be read or written, or the disk is full.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, durability: str = "disk", timeout: float = 5.0
    ) -> None:
        self._timeout = real_float("timeout", timeout)
        self._synchronous = _SYNCHRONOUS[choice("durability", durability, _SYNCHRONOUS)]
        self._path = Path(path).resolve()  # a link must not lead to a second lock
        self._connection: sqlite3.Connection | None = None
        if not self._path.exists():
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        self._file = self._identity()
        with self._translated():
            self._connect()

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def _identity(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError:
            raise JournalFenced("the journal's file was removed while it was open") from None
        if found.st_nlink > 1:
            raise StateError("the journal's file has two names: each would have a log of its own")
        return found.st_dev, found.st_ino

    def _connect(self) -> None:
        self._connection = connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (application, version) == (0, 0) and tables == 0:
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            self._prepare(connection)
        elif application != _APPLICATION:
            raise StateError("the file is a database, but not a dpoco journal")
        elif version != FORMAT:
            raise StateError(f"the journal has format {version}, this library reads {FORMAT}")
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StateError("the file system does not support a write-ahead log")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA trusted_schema = OFF")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            id_type = "INTEGER PRIMARY KEY AUTOINCREMENT"
            for statement in schema("", int="INTEGER", blob="BLOB", id=id_type):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors into the library's; their texts never hold data."""
        try:
            yield
        except sqlite3.Error as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                raise StateError("the journal is locked by another process") from None
            if "full" in text or "disk I/O" in text or "unable to open" in text:
                raise OSError(f"the journal cannot be written: {text}") from None
            if "readonly" in text:
                raise OSError("the journal cannot be written: it is read-only") from None
            raise StateError(f"the journal is corrupt or no journal: {text}") from None

    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._translated():
            return self._open().execute(statement, parameters).fetchall()

    def _run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._translated():
            self._open().executemany(statement, rows)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StateError("the journal is closed")
        return self._connection

    def check(self) -> None:
        """Raise unless the file is still the one that was opened."""
        self._open()
        if self._identity() != self._file:
            raise JournalFenced("the journal's file was replaced while it was open")

    def begin(self) -> None:
        """Take the write lock."""
        self._run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Append to the write-ahead log and wait for the disk."""
        self._run("COMMIT")

    def rollback(self) -> None:
        """Forget what was written since `begin`."""
        if self._connection is not None and self._connection.in_transaction:
            self._run("ROLLBACK")

    def close(self) -> None:
        """Close the file; the log is merged into it if nobody else has it open."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with self._translated():
                connection.close()
