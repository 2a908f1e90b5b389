"""The release journal: after a crash, learners repeat their releases with the same noise.

Every release is stored durably, with a keyed digest of its record, before anybody sees it. If a
round is sent again, it gets its stored release; with another record it is refused. Guide:
``docs/journal.md``; guarantee and proof: ``docs/privacy/journal.md``.
"""

from __future__ import annotations

from dpoco.journal._executor import GroupCommitExecutor
from dpoco.journal._journal import Journal
from dpoco.journal._keys import KeyFile
from dpoco.journal._monitored import MonitorStream
from dpoco.journal._store import PostgresStore, SqliteStore, Store
from dpoco.journal._stream import Stream
from dpoco.journal._transaction import Transaction, Work

__all__ = ["GroupCommitExecutor", "Journal", "KeyFile", "MonitorStream", "PostgresStore",
           "SqliteStore", "Store", "Stream", "Transaction", "Work"]  # fmt: skip
