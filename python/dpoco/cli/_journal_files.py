"""Files of journals: whether a file is one, and copies to read from."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dpoco._encryption import refuse_readable
from dpoco.cli._key import state_key
from dpoco.errors import JournalFenced, StateError
from dpoco.journal import Journal, SqliteStore

_SQLITE = b"SQLite format 3\0"


def is_journal(file: Path) -> bool | None:
    """Return whether a file is a journal; None if it is no database at all."""
    with file.open("rb") as opened:
        if opened.read(len(_SQLITE)) != _SQLITE:
            return None
    # Not from the file's header: the last commits may still be in the log next to it.
    try:
        with closing(_read_only(file)) as connection:
            (found,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error:
        return False
    return bool(found == SqliteStore.APPLICATION_ID)


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)


def copy_journal(file: Path, to: Path) -> None:
    """Copy a journal and its key, as of one moment, to files that only the owner reads."""
    key = Path(f"{file}.key")
    if key.exists():
        refuse_readable(key, key.stat())  # the copy's would be named by a place of the copy
    os.close(os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with (
        closing(_read_only(file)) as source,
        closing(sqlite3.connect(to)) as target,
    ):
        source.backup(target)
    with suppress(FileNotFoundError):
        shutil.copy(key, f"{to}.key")


@contextmanager
def opened_copy(file: Path) -> Iterator[Journal]:
    """Open a copy of a journal, so that nothing is written to it; `StateError` if it is damaged."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "journal"
        try:
            copy_journal(file, copy)
            with Journal(copy, mark=False, encryption=state_key()) as journal:
                yield journal
        except (sqlite3.Error, JournalFenced):
            raise StateError("the journal is damaged") from None
