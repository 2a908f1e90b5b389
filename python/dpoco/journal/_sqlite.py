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
from dpoco.journal._keys import refuse_readable
from dpoco.journal._sql import FORMAT, SqlStore

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
        If the file is not a journal, is corrupt, is of another format, has two names, may be read
        by others than its owner, or is locked for longer than `timeout`.
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
        self._known = False  # that the table is there
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
        refuse_readable(self._path, found)
        if found.st_nlink > 1:
            raise StateError("the journal's file has two names: each would have a log of its own")
        return found.st_dev, found.st_ino

    def _connect(self) -> None:
        for name in ("-wal", "-shm"):  # made with the mode of the journal itself
            beside = self._path.with_name(self._path.name + name)
            if beside.exists():
                refuse_readable(beside, beside.stat())
        self._connection = connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = bytes  # a damaged type must not end in an error that quotes it
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        found = tuple(
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if not self._made():
            if found != (0, 0):
                raise StateError("the journal is corrupt: it has no tables")
            connection.execute(f"PRAGMA page_size = {_PAGE}")
        elif found[0] != _APPLICATION:
            raise StateError("the file is a database, but not a dpoco journal")
        elif found[1] != FORMAT:
            raise StateError(f"the journal has format {found[1]}, this library reads {FORMAT}")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != b"wal":
            raise StateError("the file system does not support a write-ahead log")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")

    def _made(self) -> bool:
        return self._run("SELECT count(*) FROM sqlite_master") != [(0,)]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors into the library's; their texts never hold data."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # or of a text that quotes damage
            text = str(error)
            if "locked" in text or "busy" in text:
                raise StateError("the journal is locked by another process") from None
            if "full" in text or "disk I/O" in text or "unable to open" in text:
                raise OSError(f"the journal cannot be written: {text}") from None
            if "readonly" in text and not os.access(self._path, os.W_OK):
                raise OSError("the journal cannot be written: it is read-only") from None
            raise StateError("the journal is corrupt, or the file is no journal") from None

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

    def begin(self) -> bool:
        """Take the write lock; True if the table is made."""
        self._run("BEGIN IMMEDIATE")
        if self._known or self._made():
            self._known = True
            return False
        self._make("INTEGER", "BLOB")
        self._run(f"PRAGMA application_id = {_APPLICATION}")
        self._run(f"PRAGMA user_version = {FORMAT}")
        return True

    def commit(self) -> None:
        """Append to the write-ahead log and wait for the disk."""
        self._run("COMMIT")

    def rollback(self) -> None:
        """Forget what was written since `begin`."""
        if self._connection is not None and self._connection.in_transaction:
            self._run("ROLLBACK")

    def settle(self) -> None:
        """Wait for the disk, which commits do not if ``durability="process"``."""
        busy, logged, settled = self._run("PRAGMA wal_checkpoint")[0]
        if busy or settled < logged:  # a reader of an older state keeps the log from being synced
            raise StateError("the journal is locked by another process")

    def close(self) -> None:
        """Close the file; the log is merged into it if nobody else has it open."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with self._translated():
                connection.close()
