"""The release journal: after a crash, learners repeat themselves instead of drawing new noise.

Every release is stored durably, with a keyed digest of its record, before anybody sees it; a round
that comes again gets its stored release, and is refused if its record is another one. Guide:
``docs/journal.md``; what is promised, and proved: ``docs/privacy/journal.md``.
"""

from __future__ import annotations

from dpoco.journal._executor import GroupCommitExecutor
from dpoco.journal._journal import Journal
from dpoco.journal._keys import KeyFile
from dpoco.journal._store import PostgresStore, SqliteStore, Store
from dpoco.journal._stream import Stream
from dpoco.journal._transaction import Transaction, Work

__all__ = ["GroupCommitExecutor", "Journal", "KeyFile", "PostgresStore", "SqliteStore", "Store",
           "Stream", "Transaction", "Work"]  # fmt: skip
