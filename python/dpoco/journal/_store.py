"""Where a journal keeps its rows: the interface that a database must offer, and two that do.

SQLite writes ahead, every commit on disk. PostgreSQL needs the extra ``postgres`` (psycopg 3).
"""

from __future__ import annotations

import math
import os
import re
import socket
import sqlite3
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from dpoco import _literals as literals
from dpoco._encryption import refuse_readable
from dpoco._files import synchronise
from dpoco._validation import choice, import_package, positive_float, real_in
from dpoco.errors import JournalFenced, StateError

Values = Sequence[int | str | bytes]  # parameters of a statement
Found = list[tuple[Any, ...]]  # rows of a result
RELEASES = 5  # the last kind: many rows, which are not listed


class Row(NamedTuple):
    """One row: its place, which is the primary key, and what is sealed there.

    Attributes
    ----------
    kind : int
        The kind of its contents, 0 to 5.
    owner, number : int
        Which of them, 0 to 2^63 - 1.
    key : int
        Number of the key of `seal`.
    seal : bytes
        Keyed digest of place and body, 16 bytes.
    body : bytes
        For the journal alone to read.
    """

    kind: int
    owner: int
    number: int
    key: int
    seal: bytes
    body: bytes


@runtime_checkable
class Store(Protocol):
    """Rows in durable transactions that exclude each other from `begin` on.

    A store must keep these promises, on which the proof in ``docs/privacy/journal.md`` relies:

    * between `begin` and `commit` or `rollback` no other connection writes or begins;
    * all data written before `commit` returned survive crashes and power cuts;
    * data written without a `commit` that returned are there as a whole or not at all.

    Reads outside of a transaction see the last commit. Only one thread at a time calls methods. A
    store that may break the second promise has a method ``sync()``, which waits for the disk; the
    journal calls it for data that must not be lost.
    """

    @property
    def path(self) -> Path | None:
        """File of the store, next to which the key and the mark are kept, or None."""

    def check(self) -> None:
        """Raise `JournalFenced` or `StateError` if another writer has taken over the store."""

    def begin(self) -> bool:
        """Begin a transaction that excludes other writers, or raise `StateError`.

        True if this transaction makes the store; only then may it be empty.
        """

    def commit(self) -> None:
        """Make everything written since `begin` durable."""

    def rollback(self) -> None:
        """Discard everything written since `begin`; do nothing without a `begin`."""

    def settle(self) -> None:
        """Return once no power cut can undo past commits; call it outside of transactions."""

    def scrub(self) -> None:
        """Rewrite the database without replaced or dropped rows; for use outside transactions."""

    def list_rows(self) -> list[tuple[int, int, int, bytes]]:
        """Return kind, owner, number and seal of all rows whose kind is below `RELEASES`."""

    def read(self, kind: int, owner: int, number: int) -> Row | None:
        """Return the row of a place."""

    def span(self, kind: int, owner: int, start: int, stop: int) -> list[Row]:
        """Return rows in order: those with start < number < stop, and the last one up to start."""

    def put(self, rows: Iterable[Row]) -> None:
        """Write or replace rows."""

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows; adding a second row at the same place must fail."""

    def drop(self, kind: int, owner: int, start: int, stop: int) -> None:
        """Remove the rows with start <= number < stop."""

    def keys_in_use(self) -> set[int]:
        """Return the numbers of keys of rows of the kind `RELEASES`."""

    def close(self) -> None:
        """Let go of the database."""


FORMAT = 2

_PLACE = "kind = ? AND owner = ? AND number"
_ROW = ", ".join(Row._fields)


class SqlStore:
    """Base of the stores in SQL.

    Subclasses connect, begin and end transactions, and run statements, in which ``?`` marks a
    parameter.
    """

    table = "sealed"

    @abstractmethod
    def _run(self, statement: str, parameters: Values = ()) -> Found:
        """Run one statement and return its rows."""

    @abstractmethod
    def _run_many(self, statement: str, rows: Iterable[Values]) -> None:
        """Run one statement for every row."""

    def _make(self, integer: str, blob: str) -> None:
        """Make the table, of columns of the database's types."""
        self._run(
            f"CREATE TABLE {self.table} (kind {integer} NOT NULL, owner {integer} NOT NULL, "
            f"number {integer} NOT NULL, key {integer} NOT NULL, seal {blob} NOT NULL, "
            f"body {blob} NOT NULL, PRIMARY KEY (kind, owner, number))"
        )

    def list_rows(self) -> list[tuple[int, int, int, bytes]]:
        """Return kind, owner, number and seal of all rows whose kind is below `RELEASES`."""
        return self._run(
            f"SELECT kind, owner, number, seal FROM {self.table} WHERE kind < {RELEASES}"
        )

    def read(self, kind: int, owner: int, number: int) -> Row | None:
        """Return the row of a place."""
        place = (kind, owner, number)
        found = self._run(f"SELECT {_ROW} FROM {self.table} WHERE {_PLACE} = ?", place)
        return Row(*found[0]) if found else None

    def span(self, kind: int, owner: int, start: int, stop: int) -> list[Row]:
        """Return rows in order: those with start < number < stop, and the last one up to start."""
        found = self._run(
            f"SELECT {_ROW} FROM {self.table} WHERE {_PLACE} < ? AND number >= COALESCE((SELECT "
            f"MAX(number) FROM {self.table} WHERE {_PLACE} <= ?), 0) ORDER BY number",
            (kind, owner, stop, kind, owner, start),
        )
        return [Row(*row) for row in found]

    def put(self, rows: Iterable[Row]) -> None:
        """Write or replace rows."""
        self._run_many(
            f"INSERT INTO {self.table} ({_ROW}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, "
            "owner, number) DO UPDATE SET key = excluded.key, seal = excluded.seal, "
            "body = excluded.body",
            rows,
        )

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows; a second row at the same place violates the primary key."""
        self._run_many(f"INSERT INTO {self.table} ({_ROW}) VALUES (?, ?, ?, ?, ?, ?)", rows)

    def drop(self, kind: int, owner: int, start: int, stop: int) -> None:
        """Remove the rows with start <= number < stop."""
        statement = f"DELETE FROM {self.table} WHERE {_PLACE} >= ? AND number < ?"
        self._run(statement, (kind, owner, start, stop))

    def keys_in_use(self) -> set[int]:
        """Return the numbers of keys of rows of the kind `RELEASES`."""
        found = self._run(f"SELECT DISTINCT key FROM {self.table} WHERE kind = {RELEASES}")
        return {row[0] for row in found}


_PAGE = 8192  # bytes: releases are long rows
_SYNCHRONOUS = {"disk": "FULL", "process": "NORMAL"}


class SqliteStore(SqlStore):
    """A journal in an SQLite file.

    Parameters
    ----------
    path : path-like
        The file. If there is none, it is made, readable only by its owner. Use a local disk:
        SQLite's write-ahead log does not work over network file systems.
    durability : {"disk", "process"}, default "disk"
        How long a commit waits. "disk": the disk (``synchronous = FULL``); releases survive power
        cuts. "process": the operating system (``synchronous = NORMAL``); releases survive crashes
        of the process. A power cut, or a crash of the system, may then set the journal back by its
        last transactions: ``docs/operations.md``, "Restore", explains the consequences. New streams
        and what they are charged wait for the disk in either case, so that none is lost. This and
        all following arguments are keyword-only.
    timeout : float, default 5.0
        Seconds to wait for another connection's transaction, at most 1e6.

    Raises
    ------
    StateError
        If the file is not a journal, is corrupt, has another format or two names, may be read by
        others than its owner, or is locked for longer than `timeout`.
    OSError
        If it cannot be read or written, or the disk is full.
    """

    APPLICATION_ID: ClassVar[int] = 0x64706F6A  # "dpoj", in the header of the file

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: literals.Durability = "disk",
        timeout: float = 5.0,
    ) -> None:
        self._timeout = real_in("timeout", timeout, "[0, 1e6]")
        self._synchronous = _SYNCHRONOUS[choice("durability", durability, _SYNCHRONOUS)]
        self._path = Path(path).resolve()  # a link must not lead to a second lock
        self._connection: sqlite3.Connection | None = None
        self._known = False  # whether the table certainly exists
        if not self._path.exists():
            # SQLite would create the file with the mode of the umask, which others can often read.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        self._file = self._identity()
        try:
            with self._translate_errors():
                self._connect()
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def _identity(self) -> tuple[int, int]:
        """Return device and number of the file; raise if it is gone, shared or has two names."""
        try:
            found = self._path.stat()
        except OSError:
            raise JournalFenced("the journal's file was removed while it was open") from None
        refuse_readable(self._path, found)
        # SQLite names its log after the path. A file with two names would have two logs, and a
        # writer under one name would not see the commits under the other.
        if found.st_nlink > 1:
            raise StateError("the journal's file has two names (hard links): remove one of them")
        return found.st_dev, found.st_ino

    def _connect(self) -> None:
        """Open the file, and refuse one that is no journal before anything is written to it."""
        for name in ("-wal", "-shm"):  # made with the mode of the journal itself
            log = self._path.with_name(self._path.name + name)
            if log.exists():
                refuse_readable(log, log.stat())
        # The journal begins transactions and orders its threads: the driver must do neither.
        self._connection = connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        # Otherwise an error about a damaged type would quote the value.
        connection.text_factory = bytes
        # The file may be damaged or forged, so its schema may call no functions with side effects,
        # and SQLite checks pages as it reads them.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        found = tuple(
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if not self._has_tables():
            # The transaction that makes the table also writes both numbers.
            if found != (0, 0):
                raise StateError("the journal is corrupt: it has no tables")
            # Set this before the change to a write-ahead log, which fixes the size of pages.
            connection.execute(f"PRAGMA page_size = {_PAGE}")
        elif found[0] != self.APPLICATION_ID:
            raise StateError("the file is a database, but not a dpoco journal")
        elif found[1] != FORMAT:
            raise StateError(f"the journal has format {found[1]}, this library reads {FORMAT}")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != b"wal":
            raise StateError("the file system does not support a write-ahead log")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")

    def _has_tables(self) -> bool:
        """Return whether the file has a table, whatever it is."""
        return self._run("SELECT count(*) FROM sqlite_master") != [(0,)]

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn SQLite's errors into the library's; their texts never hold data."""
        try:
            yield
        # A `UnicodeDecodeError` comes from a damaged text, which it quotes.
        except (sqlite3.Error, UnicodeDecodeError) as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                raise StateError("the journal is locked by another process") from None
            if "full" in text or "disk I/O" in text or "unable to open" in text:
                raise OSError(f"the journal cannot be written: {text}") from None
            if "readonly" in text and not os.access(self._path, os.W_OK):
                raise OSError("the journal cannot be written: it is read-only") from None
            raise StateError("the journal is corrupt, or the file is not a journal") from None

    def _run(self, statement: str, parameters: Values = ()) -> Found:
        with self._translate_errors():
            return self._open().execute(statement, parameters).fetchall()

    def _run_many(self, statement: str, rows: Iterable[Values]) -> None:
        with self._translate_errors():
            self._open().executemany(statement, rows)

    def _open(self) -> sqlite3.Connection:
        """Return the connection, or raise `StateError` once it is closed."""
        if self._connection is None:
            raise StateError("the journal is closed")
        return self._connection

    def check(self) -> None:
        """Raise unless the file is still the one that was opened."""
        self._open()
        if self._identity() != self._file:
            raise JournalFenced("the journal's file was replaced while it was open")

    def begin(self) -> bool:
        """Take the write lock; return True if the table was made."""
        # A deferred transaction would begin with a read. It would find the lock taken only at its
        # first write, after engines have moved.
        self._run("BEGIN IMMEDIATE")
        if self._known or self._has_tables():
            self._known = True
            return False
        # `_known` stays False, since a rollback would remove the table.
        self._make("INTEGER", "BLOB")
        self._run(f"PRAGMA application_id = {self.APPLICATION_ID}")
        self._run(f"PRAGMA user_version = {FORMAT}")
        return True

    def commit(self) -> None:
        """Append to the write-ahead log and wait for the disk."""
        self._run("COMMIT")

    def rollback(self) -> None:
        """Discard everything written since `begin`."""
        if self._connection is not None and self._connection.in_transaction:
            self._run("ROLLBACK")

    def settle(self) -> None:
        """Wait for the disk, which commits do not if ``durability="process"``."""
        self._checkpoint("PASSIVE")

    def sync(self) -> None:
        """Wait for the disk to have the log, while others read the database."""
        if self._synchronous == "FULL":
            return  # every commit has already waited
        # Open only the log: to open and close the database a second time would drop its locks.
        log = self._path.with_name(f"{self._path.name}-wal")
        synchronise(log)
        # The log may be new, so its name in the folder must be durable.
        synchronise(log.parent)

    def scrub(self) -> None:
        """Rewrite the file, and empty the log."""
        self._run("VACUUM")
        # The log may still contain the replaced pages.
        self._checkpoint("TRUNCATE")

    def _checkpoint(self, mode: str) -> None:
        """Move the log into the database and wait for the disk; raise if a reader is in the way."""
        busy, logged, settled = self._run(f"PRAGMA wal_checkpoint({mode})")[0]
        if busy or settled < logged:  # a reader of an older state keeps the log from being synced
            raise StateError("the journal is locked by another process")

    def close(self) -> None:
        """Close the file; the log is merged into it if no other process has it open."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with self._translate_errors():
                connection.close()


_GRACE = 1.0  # seconds that a server has to answer after all locks were given up


class PostgresStore(SqlStore):
    """A journal in tables of a PostgreSQL database.

    Parameters
    ----------
    dsn : str
        Connection string, as ``psycopg.connect`` takes it.
    prefix : str
        Prefix of the names of the tables, by default ``dpoco_``; each prefix is a journal. This and
        all following arguments are keyword-only.
    timeout : float, default 5.0
        Seconds to wait for another connection's transaction. A server that does not answer a
        statement for a second more, or a connection for as long and at least two seconds, counts
        as one that cannot be reached.

    Raises
    ------
    ImportError
        Without psycopg.
    StateError
        If the tables have another format.
    OSError
        If the server cannot be reached. The next use of the store connects again.

    Notes
    -----
    Transactions wait for the log on disk (``synchronous_commit = on``). A server that fails over to
    an asynchronous replica may lose the last commits: put the journal's `mark` on another machine.
    """

    path = None
    _connection: Any

    def __init__(self, dsn: str, *, prefix: str = "dpoco_", timeout: float = 5.0) -> None:
        # Statements contain the prefix as it is, so it must not need quotes.
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,30}", prefix):
            raise ValueError("prefix must be a short name in lower case")
        self.table = f"{prefix}sealed"
        self._old = f"{prefix}texts"  # table of the previous format
        self._dsn, self._timeout = dsn, positive_float("timeout", timeout)
        self._psycopg = import_package("psycopg", "PostgresStore", "postgres")
        self._connect()

    def _connect(self) -> None:
        """Connect, with limits on every wait for a lock."""
        self._begun = self._known = self._closed = False
        with self._translate_errors():
            # libpq takes whole seconds, and reads 0 as no limit.
            self._connection = self._psycopg.connect(
                self._dsn, autocommit=True, connect_timeout=max(2, math.ceil(self._timeout))
            )
            try:
                # Every wait for a lock ends after this time, with an error that names no data.
                with self._require_answers():
                    self._connection.execute(
                        "SELECT set_config('synchronous_commit', 'on', false), "
                        "set_config('lock_timeout', %s, false)",
                        (f"{math.ceil(1000 * self._timeout)}ms",),
                    )
            except BaseException:
                self._connection.close()
                raise

    @contextmanager
    def _require_answers(self) -> Iterator[None]:
        """Cut the connection if the server does not answer: the driver has no time limit."""
        connection = self._connection

        def cut() -> None:
            # Use a copy of the descriptor: the socket object closes the copy at the end, and the
            # driver's descriptor stays open.
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as stream:
                stream.shutdown(socket.SHUT_RDWR)  # the driver's own wait ends with an error

        timer = threading.Timer(self._timeout + _GRACE, cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _exists(self, table: str) -> bool:
        """Return whether the database has a table of this name."""
        return bool(self._run("SELECT to_regclass(?) IS NOT NULL", (table,))[0][0])

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn the driver's errors, whose texts may quote rows, into the library's."""
        try:
            yield
        except self._psycopg.errors.LockNotAvailable:
            raise StateError("the journal is locked by another process") from None
        except self._psycopg.OperationalError as error:
            raise OSError(f"the journal cannot be written ({type(error).__name__})") from None
        except self._psycopg.Error as error:
            raise StateError(f"the journal refuses a statement ({type(error).__name__})") from None

    def _run(self, statement: str, parameters: Values = ()) -> Found:
        with self._translate_errors(), self._require_answers():
            cursor = self._connection.execute(statement.replace("?", "%s"), parameters)
            return cursor.fetchall() if cursor.description else []

    def _run_many(self, statement: str, rows: Iterable[Values]) -> None:
        with self._translate_errors(), self._require_answers(), self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)

    def check(self) -> None:
        """Raise if the store was closed; connect again if its server went away."""
        if self._closed:
            raise StateError("the journal is closed")
        if self._connection.closed:
            # A new connection would write the rest of the transaction statement by statement,
            # while another writer may be writing.
            if self._begun:
                raise OSError("the journal cannot be written: the connection was lost")
            self._connect()

    def begin(self) -> bool:
        """Begin, and keep other writers out until the end; return True if the table was made."""
        # At a stricter level, a writer that waited for the locks below would see the tables as they
        # were before it waited.
        self._run("BEGIN ISOLATION LEVEL READ COMMITTED")
        self._begun = True
        made = False
        if not self._known:
            # Two processes may create the journal at once, before there is a table that they could
            # lock.
            lock = "SELECT pg_advisory_xact_lock(?, hashtext(?))"
            self._run(lock, (0x64706F6A, self.table))
            made = not self._exists(self.table)
            if made and self._exists(self._old):
                raise StateError("the journal has format 1, which this library does not read")
            if made:
                self._make("BIGINT", "BYTEA")
        # This mode excludes everything but plain reads.
        self._run(f"LOCK TABLE {self.table} IN EXCLUSIVE MODE")
        self._known = not made  # after a rollback there is none
        return made

    def commit(self) -> None:
        """Wait for the server's log on disk."""
        # Reset before the statement: however it ends, no transaction is left to roll back.
        self._begun = False
        self._run("COMMIT")

    def rollback(self) -> None:
        """Discard everything written since `begin`."""
        begun, self._begun = self._begun, False
        # A server that lost the connection has rolled back.
        if begun and not self._connection.closed:
            self._run("ROLLBACK")

    def settle(self) -> None:
        """Do nothing: every commit has already waited."""

    def scrub(self) -> None:
        """Have the server rewrite the table; its log and archives keep what they have.

        This may take longer than any other statement; the store waits for it.
        """
        with self._translate_errors():
            self._connection.execute(f"VACUUM FULL {self.table}")

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._connection.close()
