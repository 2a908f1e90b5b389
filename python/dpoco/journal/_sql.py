"""The store in SQL, for any database that SQLite's and PostgreSQL's common language reaches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from dpoco.journal._store import RELEASES, Row

__all__ = ["FORMAT", "SqlStore"]

FORMAT = 2

_PLACE = "kind = ? AND owner = ? AND number"
_ROW = ", ".join(Row._fields)


class SqlStore:
    """Base of the stores in SQL.

    Subclasses connect, begin and end transactions, and run statements. Statements are written with
    ``?`` for parameters.
    """

    table = "sealed"

    @abstractmethod
    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""

    @abstractmethod
    def _run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for every row."""

    def _make(self, integer: str, blob: str) -> None:
        """Make the table, of columns of the database's types."""
        self._run(
            f"CREATE TABLE {self.table} (kind {integer} NOT NULL, owner {integer} NOT NULL, "
            f"number {integer} NOT NULL, key {integer} NOT NULL, seal {blob} NOT NULL, "
            f"body {blob} NOT NULL, PRIMARY KEY (kind, owner, number))"
        )

    def listed(self) -> list[tuple[int, int, int, bytes]]:
        """Return kind, owner, number and seal of all rows whose kind is below `RELEASES`."""
        found: list[Any] = self._run(
            f"SELECT kind, owner, number, seal FROM {self.table} WHERE kind < {RELEASES}"
        )
        return found

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
        """Add rows; a second one at the same place violates the primary key."""
        self._run_many(f"INSERT INTO {self.table} ({_ROW}) VALUES (?, ?, ?, ?, ?, ?)", rows)

    def drop(self, kind: int, owner: int, start: int, stop: int) -> None:
        """Remove the rows with start <= number < stop."""
        statement = f"DELETE FROM {self.table} WHERE {_PLACE} >= ? AND number < ?"
        self._run(statement, (kind, owner, start, stop))

    def keys_in_use(self) -> set[int]:
        """Return the numbers of keys of rows of the kind `RELEASES`."""
        found = self._run(f"SELECT DISTINCT key FROM {self.table} WHERE kind = {RELEASES}")
        return {row[0] for row in found}
