"""A store in memory, and a driver that answers for PostgreSQL from an SQLite database."""

from __future__ import annotations

import sqlite3
import types

from dpoco.errors import StateError
from dpoco.journal._store import RELEASES


class MemoryStore:
    """Rows in a dictionary; `disk` outlives the store as a server would."""

    path = None

    def __init__(self, disk):
        self._disk = disk
        self._work = None

    def check(self):
        if self._disk is None:
            raise StateError("the journal is closed")

    def begin(self):
        if self._disk.get("busy"):
            raise StateError("the journal is locked by another process")
        self._disk["busy"] = self
        self._work = dict(self._disk.get("rows", {}))
        return "rows" not in self._disk

    def commit(self):
        self._disk["rows"], self._work, self._disk["busy"] = self._work, None, None

    def rollback(self):
        if self._work is not None:
            self._work, self._disk["busy"] = None, None

    def settle(self):
        assert self._work is None

    scrub = settle

    @property
    def _rows(self):
        return self._disk.get("rows", {}) if self._work is None else self._work

    def list_rows(self):
        return [(*place, row.seal) for place, row in self._rows.items() if place[0] < RELEASES]

    def read(self, kind, owner, number):
        return self._rows.get((kind, owner, number))

    def span(self, kind, owner, start, stop):
        found = sorted(row for row in self._rows.values() if row[:2] == (kind, owner))
        begin = max((row.number for row in found if row.number <= start), default=start)
        return [row for row in found if begin <= row.number < stop]

    def put(self, rows):
        self._work.update({row[:3]: row for row in rows})

    def add(self, rows):
        for row in rows:
            assert row[:3] not in self._work
            self._work[row[:3]] = row

    def drop(self, kind, owner, start, stop):
        for number in range(start, stop):
            self._work.pop((kind, owner, number), None)

    def keys_in_use(self):
        return {row.key for place, row in self._rows.items() if place[0] == RELEASES}

    def close(self):
        self.rollback()
        self._disk = None


def fake_psycopg(path):
    """A module with what PostgresStore uses of psycopg, on an SQLite file."""
    errors = types.SimpleNamespace(LockNotAvailable=type("LockNotAvailable", (Exception,), {}))
    module = types.ModuleType("psycopg")
    module.Error = sqlite3.Error
    module.OperationalError = type("OperationalError", (sqlite3.Error,), {})
    module.errors = errors
    module.statements = []

    class Cursor:
        def __init__(self, connection):
            self._connection, self.description, self._rows = connection, None, []

        def __enter__(self):
            return self

        def __exit__(self, *rest):
            pass

        def fetchall(self):
            return self._rows

        def execute(self, statement, parameters=()):
            module.statements.append(statement)
            module.left -= 1
            if module.left < 0:
                self._connection.close()
                raise module.OperationalError("server closed the connection unexpectedly")
            assert "?" not in statement
            assert statement.count("%s") == len(parameters)
            word = statement.split("(")[0]
            locks = word == "SELECT pg_advisory_xact_lock" or word.startswith("LOCK TABLE")
            if word == "SELECT set_config" or locks:
                return self
            if word.startswith("VACUUM FULL "):
                statement = "VACUUM"
            if word.startswith("BEGIN "):
                statement = "BEGIN IMMEDIATE"  # the lock of the table
            if word == "SELECT to_regclass":
                statement = "SELECT count(*) > 0 FROM sqlite_master WHERE name = %s"
            try:
                found = self._connection.execute(statement.replace("%s", "?"), parameters)
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise errors.LockNotAvailable from None
                raise
            self.description = found.description
            self._rows = found.fetchall() if found.description else []
            return self

        def executemany(self, statement, rows):
            for row in rows:
                self.execute(statement, row)

    class Connection:
        @property
        def closed(self):
            try:
                return self._own.total_changes < 0
            except sqlite3.ProgrammingError:  # closed by `close`, or when the server died
                return True

        def __init__(self):
            self._own = sqlite3.connect(path, isolation_level=None, timeout=0.05)

        def execute(self, statement, parameters=()):
            return Cursor(self._own).execute(statement, parameters)

        def cursor(self):
            return Cursor(self._own)

        def close(self):
            self._own.close()

    def connect(dsn, *, autocommit, connect_timeout):
        assert autocommit
        assert connect_timeout >= 2
        if module.left < 0:
            raise module.OperationalError("connection refused")
        return Connection()

    module.connect = connect
    module.left = 10**9  # statements until the server dies
    module.die_at = lambda statements: setattr(module, "left", statements)
    module.come_back = lambda: setattr(module, "left", 10**9)
    return module
