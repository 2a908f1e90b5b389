"""The one writer of a journal: how it takes over, begins, commits, and is refused."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dpoco.accounting.ledger import Ledger
from dpoco.errors import JournalFenced, RoundOrderError, StateError
from dpoco.journal._accounts import Accounts
from dpoco.journal._keys import KeyFile, KeyRing, fingerprint_of
from dpoco.journal._mark import Mark
from dpoco.journal._records import Head
from dpoco.journal._sqlite import SqliteStore
from dpoco.journal._store import Store

__all__ = ["Writer"]


class Writer:
    """Store, keys, mark and lock of a journal; see `Journal` for the arguments."""

    def __init__(
        self,
        store: str | os.PathLike[str] | Store,
        key: bytes | Sequence[bytes] | KeyFile | None,
        ledger: Ledger | None,
        mark: str | os.PathLike[str] | bool | None,
    ) -> None:
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._busy = False
        self._line: object | None = None  # the pipeline that has the journal for itself
        self._mark: Mark | None = None
        own = isinstance(store, (str, os.PathLike))
        self._store: Store = SqliteStore(store) if own else store  # type: ignore[arg-type,assignment]
        try:
            self._ring = KeyRing(_default_key(self._store.path) if key is None else key)
            place = _mark_path(self._store.path, mark)
            self._mark = None if place is None else Mark(place)
            self._accounts = Accounts(self._store)
            self._take_over(ledger)
        except BaseException:
            self._store.rollback()
            self._shut()
            raise

    def _take_over(self, ledger: Ledger | None) -> None:
        store = self._store
        store.begin()
        head = store.head()
        writer = secrets.token_bytes(16)
        if head is None:
            store.add_key(1, fingerprint_of(self._ring.newest()))
            head = Head(secrets.token_bytes(16), 0, writer, 0)
            if self._mark is not None:
                self._mark.check(head)  # of a journal that was here before: refused
            self._accounts.found(ledger)
        else:
            if self._mark is not None:
                self._mark.check(head)
            self._accounts.check_terms(ledger)
        self._head = replace(head, epoch=head.epoch + 1, writer=writer, sequence=head.sequence + 1)
        self._keys = store.keys()
        self._current_key()  # or raise: without it nothing can be written
        store.put_head(self._head)
        store.commit()
        self._advance_mark()

    @contextmanager
    def _guard(self, *, committed: bool = False) -> Iterator[None]:
        """Keep other threads out, and refuse in a forked child and after `close`.

        `committed`: and within a transaction or pipeline, where memory and store are ahead of what
        is durable.
        """
        self._check_process()
        with self._lock:
            if committed and (self._busy or self._line is not None):
                raise RoundOrderError("a transaction is open: what it did is not committed yet")
            self._store.check()
            yield

    def _check_process(self) -> None:
        if os.getpid() != self._owner:
            raise JournalFenced("this journal was inherited through fork: open it in this process")

    def _enter(self, line: object | None = None) -> None:
        """Begin a transaction as the one writer, or raise before anything is drawn."""
        self._check_process()
        self._lock.acquire()
        if self._busy or self._line is not line:
            self._lock.release()
            raise RoundOrderError("a transaction is open in this thread already, or a pipeline")
        self._busy = True
        try:
            self._store.check()
            self._store.begin()
            self._check_head()
        except BaseException:
            self._leave(failed=True)
            raise

    def _check_head(self) -> None:
        head, mine = self._store.head(), self._head
        if head is None or head.uid != mine.uid:
            raise StateError("the store holds another journal than the one that was opened")
        if (head.epoch, head.writer) != (mine.epoch, mine.writer):
            raise JournalFenced("another writer has opened the journal since")
        # One ahead: a commit that reported an error, and was durable nevertheless.
        if head.sequence not in (mine.sequence, mine.sequence + 1):
            raise StateError("the journal was set back while it was open")
        self._head = head

    def _commit(self) -> None:
        head = replace(self._head, sequence=self._head.sequence + 1)
        self._store.put_head(head)
        self._store.commit()
        self._head = head
        self._advance_mark()

    def _leave(self, *, failed: bool) -> None:
        try:
            try:
                self._store.rollback()  # what is left open: a transaction that only read
            finally:
                if failed:
                    self._accounts.forget()
        except (OSError, StateError):
            if not failed:
                raise
        finally:
            self._busy = False
            self._lock.release()

    def _advance_mark(self) -> None:
        # What is durable counts: a mark that cannot be written is only less watchful.
        if self._mark is not None:
            try:
                self._mark.advance(self._head)
            except OSError:
                return

    def _current_key(self) -> tuple[bytes, int]:
        number = max(self._keys)
        return self._key(number), number

    def _key(self, number: int) -> bytes:
        fingerprint = self._keys.get(number)
        key = None if fingerprint is None else self._ring.find(fingerprint)
        if key is None:
            raise StateError(
                "the journal was written under a key that was not given: is its key file missing?"
            )
        return key

    def _shut(self) -> None:
        try:
            self._store.close()
        finally:
            if self._mark is not None:
                self._mark.close()


def _default_key(path: Path | None) -> KeyFile:
    if path is None:
        raise ValueError("a store that is no file needs a key: bytes or a KeyFile")
    return KeyFile(path.with_name(path.name + ".key"))


def _mark_path(path: Path | None, mark: str | os.PathLike[str] | bool | None) -> Path | None:
    if mark is False or (mark is None and path is None):
        return None
    if mark is None or mark is True:
        if path is None:
            raise ValueError("a store that is no file needs the path of its mark")
        return path.with_name(path.name + ".mark")
    return Path(mark)
