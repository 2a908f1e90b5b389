"""The store in a PostgreSQL database; needs the extra ``postgres`` (psycopg 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpoco.errors import StateError
from dpoco.journal._sql import FORMAT, SqlStore, schema

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
        If the server cannot be reached.

    Notes
    -----
    Transactions wait for the log on disk (``synchronous_commit = on``). A server that fails over to
    an asynchronous replica may lose the last commits: give the journal a `mark` on another machine.
    """

    path = None

    def __init__(self, dsn: str, *, prefix: str = "dpoco_", timeout: float = 5.0) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,30}", prefix):
            raise ValueError("prefix must be a short name in lower case")
        self.prefix = prefix
        self._begun = False
        self._psycopg = _psycopg()
        with self._translated():
            self._connection: Any = self._psycopg.connect(dsn, autocommit=True)
            # Every pending lock is given up after this time, and the error names no data.
            self._connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false), "
                "set_config('lock_timeout', %s, false)",
                (f"{int(1000 * timeout)}ms",),
            )
        self._prepare()

    def _prepare(self) -> None:
        """Make the tables in one transaction, or check their format."""
        with self._translated(), self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (0x64706F6A,))
            if not self._exists():
                types = {
                    "int": "BIGINT",
                    "blob": "BYTEA",
                    "id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
                }
                for statement in schema(self.prefix, **types):
                    self._connection.execute(statement)
                self.put_value("format", str(FORMAT))
            elif self.value("format") != str(FORMAT):
                raise StateError(f"the tables are not a journal of format {FORMAT}")

    def _exists(self) -> bool:
        rows = self._run("SELECT to_regclass(?) IS NOT NULL", (f"{self.prefix}texts",))
        return bool(rows[0][0])

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
        """Raise if the connection was closed."""
        if self._connection.closed:
            raise StateError("the journal is closed, or its server has gone")

    def begin(self) -> None:
        """Begin, and keep other writers out until the end."""
        self._run("BEGIN")
        self._begun = True
        self._run(f"LOCK TABLE {self.prefix}journal IN EXCLUSIVE MODE")

    def commit(self) -> None:
        """Wait for the server's log on disk."""
        self._begun = False
        self._run("COMMIT")

    def rollback(self) -> None:
        """Forget what was written since `begin`."""
        if self._begun and not self._connection.closed:
            self._begun = False
            self._run("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ImportError("PostgresStore needs psycopg: pip install 'dpoco[postgres]'") from None
    return psycopg
