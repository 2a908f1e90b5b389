"""A store in memory, and a driver that answers for PostgreSQL from an SQLite database."""

from __future__ import annotations

import copy
import sqlite3
import types
from contextlib import contextmanager
from dataclasses import replace

from dpoco.errors import StateError


class MemoryStore:
    """Rows in dictionaries; `disk` outlives the store as a server would."""

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
        self._disk["busy"] = True
        self._work = copy.deepcopy(self._disk.get("rows", {}))

    def commit(self):
        self._disk["rows"], self._work, self._disk["busy"] = self._work, None, False

    def rollback(self):
        if self._work is not None:
            self._work, self._disk["busy"] = None, False

    def _table(self, name):
        rows = self._disk.get("rows", {}) if self._work is None else self._work
        return rows.setdefault(name, {})

    def head(self):
        return self._table("head").get(1)

    def put_head(self, head):
        self._table("head")[1] = head

    def value(self, name):
        return self._table("texts").get(name)

    def put_value(self, name, text):
        self._table("texts")[name] = text

    def keys(self):
        return dict(self._table("keys"))

    def add_key(self, number, fingerprint):
        self._table("keys")[number] = fingerprint

    def drop_key(self, number):
        del self._table("keys")[number]

    def keys_in_use(self):
        return {row.key for name in ("states", "chunks") for row in self._table(name).values()}

    def names(self):
        return list(self._table("streams"))

    def stream(self, name):
        return self._table("streams").get(name)

    def add_stream(self, row):
        number = len(self._table("streams")) + 1
        self._table("streams")[row.name] = replace(row, id=number)
        return number

    def put_kept_from(self, stream, kept_from):
        table = self._table("streams")
        for name, row in table.items():
            if row.id == stream:
                table[name] = replace(row, kept_from=kept_from)

    def state(self, stream):
        return self._table("states").get(stream)

    def put_states(self, rows):
        self._table("states").update({row.stream: row for row in rows})

    def chunks(self, stream, start, stop):
        found = [c for (s, _), c in sorted(self._table("chunks").items()) if s == stream]
        return [c for c in found if c.first < stop and c.stop > start]

    def add_chunks(self, chunks):
        for chunk in chunks:
            assert (chunk.stream, chunk.first) not in self._table("chunks")
            self._table("chunks")[chunk.stream, chunk.first] = chunk

    def drop_chunks(self, stream, start, stop):
        table = self._table("chunks")
        for key in [key for key in table if key[0] == stream and start <= key[1] < stop]:
            del table[key]

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
            assert "?" not in statement
            assert statement.count("%s") == len(parameters)
            word = statement.split("(")[0]
            if word in ("SELECT set_config", "SELECT pg_advisory_xact_lock"):
                return self
            if word == "SELECT to_regclass":
                statement = "SELECT count(*) > 0 FROM sqlite_master WHERE name = %s"
            if statement.startswith("LOCK TABLE"):
                statement = "UPDATE dpoco_journal SET epoch = epoch"  # takes the write lock
            statement = statement.replace(
                "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "INTEGER PRIMARY KEY"
            )
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
        closed = False

        def __init__(self):
            self._own = sqlite3.connect(path, isolation_level=None, timeout=0.05)

        def execute(self, statement, parameters=()):
            return Cursor(self._own).execute(statement, parameters)

        def cursor(self):
            return Cursor(self._own)

        @contextmanager
        def transaction(self):
            self._own.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._own.execute("ROLLBACK")
                raise
            self._own.execute("COMMIT")

        def close(self):
            self._own.close()
            self.closed = True

    def connect(dsn, *, autocommit):
        assert autocommit
        return Connection()

    module.connect = connect
    return module
