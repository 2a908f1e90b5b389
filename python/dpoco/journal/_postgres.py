"""The store in a PostgreSQL database; needs the extra ``postgres`` (psycopg 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpoco.errors import StateError
from dpoco.journal._sql import SqlStore

__all__ = ["PostgresStore"]


class PostgresStore(SqlStore):
    """A journal in tables of a PostgreSQL database.

    Parameters
    ----------
    dsn : str
        Connection string, as ``psycopg.connect`` takes it.
    prefix : str, default "dpoco_"
        What the names of the tables begin with: one journal for each prefix. Keyword-only, as
        below.
    timeout : float, default 5.0
        Seconds to wait for another connection's transaction.

    Raises
    ------
    ImportError
        Without psycopg.
    StateError
        If the tables are of another format.
    OSError
        If the server cannot be reached. A store whose server went away connects again on next use.

    Notes
    -----
    Transactions wait for the log on disk (``synchronous_commit = on``). A server that fails over to
    an asynchronous replica may lose the last commits: give the journal a `mark` on another machine.
    """

    path = None

    def __init__(self, dsn: str, *, prefix: str = "dpoco_", timeout: float = 5.0) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,30}", prefix):
            raise ValueError("prefix must be a short name in lower case")
        self.table = f"{prefix}sealed"
        self._old = f"{prefix}texts"  # of the format before
        self._dsn, self._timeout = dsn, timeout
        self._psycopg = _psycopg()
        self._connect()

    def _connect(self) -> None:
        self._begun = self._known = self._closed = False
        with self._translated():
            self._connection: Any = self._psycopg.connect(self._dsn, autocommit=True)
            # Every pending lock is given up after this time, and the error names no data.
            self._connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false), "
                "set_config('lock_timeout', %s, false)",
                (f"{int(1000 * self._timeout)}ms",),
            )

    def _exists(self, table: str) -> bool:
        return bool(self._run("SELECT to_regclass(?) IS NOT NULL", (table,))[0][0])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's errors, whose texts may quote rows, into the library's."""
        try:
            yield
        except self._psycopg.errors.LockNotAvailable:
            raise StateError("the journal is locked by another process") from None
        except self._psycopg.OperationalError as error:
            raise OSError(f"the journal cannot be written ({type(error).__name__})") from None
        except self._psycopg.Error as error:
            raise StateError(f"the journal refuses a statement ({type(error).__name__})") from None

    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._translated():
            cursor = self._connection.execute(statement.replace("?", "%s"), parameters)
            return cursor.fetchall() if cursor.description else []

    def _run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)

    def check(self) -> None:
        """Raise if the store was closed; connect again if its server went away."""
        if self._closed:
            raise StateError("the journal is closed")
        if self._connection.closed:
            self._connect()

    def begin(self) -> bool:
        """Begin, and keep other writers out until the end; True if the table is made."""
        self._run("BEGIN")
        self._begun = True
        made = False
        if not self._known:
            self._run("SELECT pg_advisory_xact_lock(?)", (0x64706F6A,))
            made = not self._exists(self.table)
            if made and self._exists(self._old):
                raise StateError("the journal has format 1, which this library does not read")
            if made:
                self._make("BIGINT", "BYTEA")
        self._run(f"LOCK TABLE {self.table} IN EXCLUSIVE MODE")
        self._known = not made  # after a rollback there is none
        return made

    def commit(self) -> None:
        """Wait for the server's log on disk."""
        self._begun = False
        self._run("COMMIT")

    def rollback(self) -> None:
        """Forget what was written since `begin`."""
        if self._begun and not self._connection.closed:
            self._begun = False
            self._run("ROLLBACK")

    def settle(self) -> None:
        """Nothing: every commit has waited."""

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._connection.close()


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ImportError("PostgresStore needs psycopg: pip install 'dpoco[postgres]'") from None
    return psycopg
