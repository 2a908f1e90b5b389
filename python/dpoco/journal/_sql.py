"""The store in SQL, for any database that SQLite's and PostgreSQL's common language reaches."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from dpoco.journal._records import Chunk, Head, StateRow, StreamRow

__all__ = ["FORMAT", "SqlStore", "schema"]

FORMAT = 1

_TABLES = (
    "journal (one {int} PRIMARY KEY CHECK (one = 1), uid {blob} NOT NULL, epoch {int} NOT NULL,"
    " writer {blob} NOT NULL, sequence {int} NOT NULL)",
    "texts (name TEXT PRIMARY KEY, text TEXT NOT NULL)",
    "keys (number {int} PRIMARY KEY, fingerprint {blob} NOT NULL)",
    "headers (id {id}, digest {blob} NOT NULL UNIQUE, text TEXT NOT NULL)",
    "streams (id {id}, name TEXT NOT NULL UNIQUE, uid {blob} NOT NULL UNIQUE,"
    " header {int} NOT NULL, origin TEXT NOT NULL, kept_from {int} NOT NULL)",
    "states (stream {int} PRIMARY KEY, round {int} NOT NULL, payload {blob} NOT NULL,"
    " pending {blob} NOT NULL, key {int} NOT NULL, seal {blob} NOT NULL)",
    "releases (stream {int} NOT NULL, first {int} NOT NULL, count {int} NOT NULL,"
    " key {int} NOT NULL, digests {blob} NOT NULL, releases {blob} NOT NULL,"
    " seal {blob} NOT NULL, PRIMARY KEY (stream, first))",
)


def schema(prefix: str, **types: str) -> list[str]:
    """Return the statements that make the tables; `types` are the database's int, blob and id."""
    return [f"CREATE TABLE {prefix}{table.format(**types)}" for table in _TABLES]


@lru_cache(maxsize=64)
def _upsert(table: str, key: str, columns: tuple[str, ...]) -> str:
    names = ", ".join([key, *columns])
    marks = ", ".join("?" * (1 + len(columns)))
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns)
    return (
        f"INSERT INTO {table} ({names}) VALUES ({marks}) "
        f"ON CONFLICT ({key}) DO UPDATE SET {changes}"
    )


class SqlStore:
    """Base of the stores in SQL.

    Subclasses connect, begin and end transactions, and run statements. Statements are written with
    ``?`` for parameters and a `prefix` before the names of tables.
    """

    prefix = ""

    @abstractmethod
    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""

    @abstractmethod
    def _run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for every row."""

    # -- the journal itself -----------------------------------------------------------------------

    def head(self) -> Head | None:
        """Return the row of the journal itself; None if there is none yet."""
        rows = self._run(f"SELECT uid, epoch, writer, sequence FROM {self.prefix}journal")
        if not rows:
            return None
        uid, epoch, writer, sequence = rows[0]
        return Head(bytes(uid), int(epoch), bytes(writer), int(sequence))

    def put_head(self, head: Head) -> None:
        """Write or replace it."""
        statement = _upsert(f"{self.prefix}journal", "one", ("uid", "epoch", "writer", "sequence"))
        self._run(statement, (1, head.uid, head.epoch, head.writer, head.sequence))

    def value(self, name: str) -> str | None:
        """Return the text stored under a name."""
        rows = self._run(f"SELECT text FROM {self.prefix}texts WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def put_value(self, name: str, text: str) -> None:
        """Write or replace it."""
        self._run(_upsert(f"{self.prefix}texts", "name", ("text",)), (name, text))

    def keys(self) -> dict[int, bytes]:
        """Return the fingerprints of the keys by number."""
        rows = self._run(f"SELECT number, fingerprint FROM {self.prefix}keys ORDER BY number")
        return {int(number): bytes(fingerprint) for number, fingerprint in rows}

    def add_key(self, number: int, fingerprint: bytes) -> None:
        """Add a key."""
        statement = f"INSERT INTO {self.prefix}keys (number, fingerprint) VALUES (?, ?)"
        self._run(statement, (number, fingerprint))

    def drop_key(self, number: int) -> None:
        """Remove a key."""
        self._run(f"DELETE FROM {self.prefix}keys WHERE number = ?", (number,))

    def keys_in_use(self) -> set[int]:
        """Return the numbers of keys of stored states and releases."""
        rows = self._run(
            f"SELECT DISTINCT key FROM {self.prefix}releases "
            f"UNION SELECT DISTINCT key FROM {self.prefix}states"
        )
        return {int(row[0]) for row in rows}

    # -- streams ----------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all streams, in the order of their opening."""
        return [
            str(row[0]) for row in self._run(f"SELECT name FROM {self.prefix}streams ORDER BY id")
        ]

    def stream(self, name: str) -> StreamRow | None:
        """Return the stream of that name."""
        rows = self._run(
            "SELECT s.id, s.name, s.uid, h.text, s.origin, s.kept_from "
            f"FROM {self.prefix}streams s JOIN {self.prefix}headers h ON h.id = s.header "
            "WHERE s.name = ?",
            (name,),
        )
        if not rows:
            return None
        number, name, uid, header, origin, kept = rows[0]
        return StreamRow(int(number), str(name), bytes(uid), str(header), str(origin), int(kept))

    def add_stream(self, row: StreamRow) -> int:
        """Add a stream and return its number; equal headers are stored once."""
        digest = hashlib.sha256(row.header.encode()).digest()
        find = f"SELECT id FROM {self.prefix}headers WHERE digest = ?"
        if not self._run(find, (digest,)):
            add = f"INSERT INTO {self.prefix}headers (digest, text) VALUES (?, ?)"
            self._run(add, (digest, row.header))
        header = int(self._run(find, (digest,))[0][0])
        self._run(
            f"INSERT INTO {self.prefix}streams (name, uid, header, origin, kept_from) "
            "VALUES (?, ?, ?, ?, ?)",
            (row.name, row.uid, header, row.origin, row.kept_from),
        )
        find = f"SELECT id FROM {self.prefix}streams WHERE name = ?"
        return int(self._run(find, (row.name,))[0][0])

    def put_kept_from(self, stream: int, kept_from: int) -> None:
        """Replace the first round kept of a stream."""
        statement = f"UPDATE {self.prefix}streams SET kept_from = ? WHERE id = ?"
        self._run(statement, (kept_from, stream))

    def state(self, stream: int) -> StateRow | None:
        """Return the state of a stream."""
        rows = self._run(
            f"SELECT round, payload, pending, key, seal FROM {self.prefix}states WHERE stream = ?",
            (stream,),
        )
        if not rows:
            return None
        turn, payload, pending, key, seal = rows[0]
        return StateRow(stream, int(turn), bytes(payload), bytes(pending), int(key), bytes(seal))

    def put_states(self, rows: Iterable[StateRow]) -> None:
        """Write or replace states."""
        statement = _upsert(
            f"{self.prefix}states", "stream", ("round", "payload", "pending", "key", "seal")
        )
        self._run_many(
            statement, [(r.stream, r.round, r.payload, r.pending, r.key, r.seal) for r in rows]
        )

    # -- releases ---------------------------------------------------------------------------------

    def chunks(self, stream: int, start: int, stop: int) -> list[Chunk]:
        """Return the chunks that hold any of the rounds start, ..., stop - 1, in order."""
        found = self._run(
            f"SELECT first, count, key, digests, releases, seal FROM {self.prefix}releases "
            f"WHERE stream = ? AND first < ? AND first >= COALESCE((SELECT MAX(first) FROM "
            f"{self.prefix}releases WHERE stream = ? AND first <= ?), 0) ORDER BY first",
            (stream, stop, stream, start),
        )
        chunks = [
            Chunk(stream, int(a), int(n), int(k), bytes(d), bytes(r), bytes(s))
            for a, n, k, d, r, s in found
        ]
        return [chunk for chunk in chunks if chunk.stop > start]

    def add_chunks(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks; a second one with the same first round violates the primary key."""
        self._run_many(
            f"INSERT INTO {self.prefix}releases (stream, first, count, key, digests, releases, "
            "seal) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(c.stream, c.first, c.count, c.key, c.digests, c.releases, c.seal) for c in chunks],
        )

    def drop_chunks(self, stream: int, start: int, stop: int) -> None:
        """Remove the chunks whose first round is one of start, ..., stop - 1."""
        self._run(
            f"DELETE FROM {self.prefix}releases WHERE stream = ? AND first >= ? AND first < ?",
            (stream, start, stop),
        )
