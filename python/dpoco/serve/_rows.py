"""Sealed rows of a service: tickets that wait, and tokens, in a database that outlives a kill."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from dpoco._encryption import EncryptionKey, refuse_readable
from dpoco._validation import Fields
from dpoco.errors import JournalFenced, StateError

Kind = Literal["ticket", "token"]
# A killed process loses nothing; a power cut may lose the last rewards, and never privacy.
# Deleted rows are overwritten, and a schema that was tampered with cannot call functions.
_PRAGMAS = (
    "journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON",
    "wal_autocheckpoint = 20000", "trusted_schema = OFF",
)  # fmt: skip


class Rows:
    """Records by kind and number; the database shows neither names, nor contexts, nor rewards.

    It shows how many rows of which kind there are, and when they change.

    Parameters
    ----------
    path : Path
        The database. If there is none, it is made, mode 0600.
    key : EncryptionKey
        Key of all rows.

    Raises
    ------
    StateError
        If others may read the file, it is damaged, or encrypted under another key.
    OSError
        If it cannot be read or written.
    """

    def __init__(self, path: Path, key: EncryptionKey) -> None:
        self._key = key
        self._owner: bytes | None = None
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        refuse_readable(path, path.stat())
        with _translate_errors():
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            for pragma in _PRAGMAS:
                self._base.execute(f"PRAGMA {pragma}")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS sealed (kind TEXT, number INTEGER, body BLOB, "
                "PRIMARY KEY (kind, number)) WITHOUT ROWID"
            )

    def take_over(self) -> None:
        """Become the one service that writes here.

        Another one raises `JournalFenced` from now on, at its next write. Commands that make tokens
        write at any time.

        Raises
        ------
        OSError
            If the database cannot be written.
        """
        owner = secrets.token_bytes(16)
        self._run_many("INSERT OR REPLACE INTO sealed VALUES ('owner', 0, ?)", [(owner,)])
        self._owner = owner

    def _check_owner(self) -> None:
        """Raise `JournalFenced` if another service has taken over since `take_over`."""
        if self._owner is not None:
            (found,) = self._base.execute("SELECT body FROM sealed WHERE kind = 'owner'").fetchone()
            if found != self._owner:
                raise JournalFenced("another process serves this folder")

    def all(self, kind: Kind) -> Iterator[tuple[int, Fields]]:
        """Yield number and record of all rows of a kind, by number.

        Raises
        ------
        StateError
            If a row was changed, or is encrypted under another key.
        """
        with _translate_errors():
            found = self._base.execute(
                "SELECT number, body FROM sealed WHERE kind = ? ORDER BY number", (kind,)
            ).fetchall()
        for number, body in found:
            yield number, json.loads(self._key.open(_context(kind, number), body))

    def put(self, kind: Kind, rows: Iterable[tuple[int, Fields]]) -> None:
        """Write or replace rows, all of them or none.

        Parameters
        ----------
        kind : {"ticket", "token"}
        rows : iterable of (int, dict)
            Numbers and JSON-able records.

        Raises
        ------
        JournalFenced
            If another service has taken over; nothing is written.
        OSError
            If the database is locked, full or read-only.
        """
        sealed = [
            # Each row is sealed with kind and number, so that no row can take another's place.
            (kind, n, b"".join(self._key.seal(_context(kind, n), json.dumps(record).encode())))
            for n, record in rows
        ]
        self._run_many("INSERT OR REPLACE INTO sealed VALUES (?, ?, ?)", sealed)

    def drop(self, kind: Kind, numbers: Iterable[int], *, trace: bool = True) -> None:
        """Delete rows, all of them or none; errors as of `put`.

        Parameters
        ----------
        kind : {"ticket", "token"}
        numbers : iterable of int
            Those that are not there are ignored.
        trace : bool
            Whether copies may stay in SQLite's log until it is reused.
        """
        gone = [(kind, number) for number in numbers]
        self._run_many("DELETE FROM sealed WHERE kind = ? AND number = ?", gone)
        if not trace:
            with _translate_errors():
                # The log still has the pages from before.
                self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def version(self) -> int:
        """A number that changes when another process has written."""
        with _translate_errors():
            (version,) = self._base.execute("PRAGMA data_version").fetchone()
        return int(version)

    def close(self) -> None:
        """Close the database."""
        self._base.close()

    def _run_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement for each row in one transaction, if this is still the owner."""
        with _translate_errors():
            # The write lock comes before the check of the owner, who cannot change in between.
            self._base.execute("BEGIN IMMEDIATE")
            try:
                self._check_owner()
                self._base.executemany(statement, rows)
                self._base.execute("COMMIT")
            except BaseException:
                self._base.execute("ROLLBACK")
                raise


@contextmanager
def open_rows(folder: Path, key: EncryptionKey) -> Iterator[Rows]:
    """Open the rows of a service's folder, and close them at the end; errors as of `Rows`."""
    rows = Rows(folder / "service.db", key)
    try:
        yield rows
    finally:
        rows.close()


def _context(kind: Kind, number: int) -> bytes:
    """Return the context that seals a row: the row opens under no other."""
    return b"dpoco serve %b %d" % (kind.encode(), number)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn SQLite's errors into the library's; their texts never hold data."""
    try:
        yield
    except sqlite3.OperationalError as error:  # locked, full, read-only
        raise OSError(f"the service's database cannot be used: {error}") from None
    except sqlite3.Error:
        raise StateError("the service's database is damaged, or the file is none") from None
