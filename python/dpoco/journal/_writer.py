"""The one writer of a journal: how it takes over, begins, commits, and is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.ledger import Ledger
from dpoco.errors import JournalFenced, RoundOrderError, StateError
from dpoco.journal._keys import KeyFile, KeyRing, refuse_readable
from dpoco.journal._releases import Head
from dpoco.journal._rows import Rows
from dpoco.journal._sql import SqliteStore
from dpoco.journal._store import Store

_LEDGER = "ledger"
_LINE = "dpoco journal mark 1 {uid} {epoch:020d} {sequence:020d}\n"


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
            ring = KeyRing(_default_key(self._store.path) if key is None else key)
            place = _mark_path(self._store.path, mark)
            self._mark = None if place is None else Mark(place)
            self._rows = Rows(self._store, ring)
            self._accounts = Accounts(self._rows)
            self._take_over(ledger)
        except BaseException:
            self._store.rollback()
            self._shut()
            raise

    def _take_over(self, ledger: Ledger | None) -> None:
        rows = self._rows
        new = rows.take(self._store.begin())
        if self._mark is not None:
            self._mark.check(rows.head)  # also of a journal that was here before: refused
        if new:
            rows.begin_keys()
            self._accounts.found(ledger)
        else:
            self._accounts.check_terms(ledger)
        self._commit()

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
            if not self._busy and not self._rows.certain:
                try:
                    self._store.begin()
                    self._rows.refresh()
                finally:
                    self._store.rollback()
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
            self._rows.refresh()
        except BaseException:
            self._leave(failed=True)
            raise

    def _commit(self) -> None:
        self._rows.commit()
        if self._mark is not None:
            # What is durable counts: a mark that cannot be written is only less watchful.
            with suppress(OSError):
                self._mark.advance(self._rows.head)

    def _leave(self, *, failed: bool) -> None:
        try:
            try:
                self._store.rollback()  # what is left open: a transaction that only read
            finally:
                if failed:
                    self._rows.forget()
                    self._accounts.forget()
        except (OSError, StateError):
            if not failed:
                raise
        finally:
            self._busy = False
            self._lock.release()

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


class Mark:
    """A small file that counts the transactions of a journal, written after each of them.

    It never runs ahead of the journal, so a crash raises no false alarm. It is handed to the
    operating system but not waited for: a power cut may set it back by some seconds, and only
    makes it less watchful.

    Parameters
    ----------
    path : Path
        The file; best on another disk than the journal's backups cover.
    """

    def __init__(self, path: Path) -> None:
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            refuse_readable(path, os.fstat(self._handle))
        except StateError:
            self.close()
            raise

    def check(self, head: Head) -> None:
        """Raise `StateError` if the mark is of another journal, or knows of later transactions."""
        size = len(_LINE.format(uid=head.uid.hex(), epoch=0, sequence=0))
        data = os.pread(self._open(), size + 1, 0)
        if not data:
            return
        words = data.split()
        try:
            uid, epoch, sequence = words[4].decode(), int(words[5]), int(words[6])
            good = data == _LINE.format(uid=uid, epoch=epoch, sequence=sequence).encode()
        except (IndexError, ValueError):
            good = False
        if not good:
            raise StateError("the journal's mark is corrupt")
        if uid != head.uid.hex():
            raise StateError("the mark belongs to another journal: was this one replaced?")
        if sequence > head.sequence or epoch > head.epoch:
            raise StateError(
                "the journal is older than its mark: it was restored from an old copy, and rounds "
                "released since would be released again; see docs/operations.md"
            )

    def advance(self, head: Head) -> None:
        """Write how far the journal has come."""
        text = _LINE.format(uid=head.uid.hex(), epoch=head.epoch, sequence=head.sequence)
        os.pwrite(self._open(), text.encode(), 0)

    def _open(self) -> int:
        if self._handle is None:
            raise StateError("the journal is closed")
        return self._handle

    def close(self) -> None:
        """Flush and close."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


class Accounts:
    """What was charged, in the store; a copy in memory is kept as long as nothing fails."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._ledger: Ledger | None = None
        self._read = False

    def found(self, ledger: Ledger | None) -> None:
        """Store the ledger of a new journal."""
        if ledger is not None:
            self._rows.put_value(_LEDGER, ledger.to_json())

    def check_terms(self, given: Ledger | None) -> None:
        """Raise `StateError` unless the ledger given, if any, has the terms of the stored one."""
        if given is None:
            return
        stored = self._current()
        if stored is None:
            raise StateError("the journal was made without a ledger")
        theirs, ours = given.to_dict(), stored.to_dict()
        names = ("budget", "relation", "view", "adaptive", "side_share")
        same = all(theirs[name] == ours[name] for name in names)
        for name, unsaid in (("unit", None), ("currency", "auto")):
            same = same and theirs[name] in (unsaid, ours[name])
        if not same:
            raise StateError("the journal was made with a ledger of other terms")

    @property
    def limited(self) -> bool:
        """Whether there is a ledger."""
        return self._current() is not None

    def charge(self, guarantee: Guarantee, label: str, *, same_unit: bool = False) -> None:
        """Charge and store, within a transaction; raises `BudgetExceeded` before anything else."""
        ledger = self._current()
        if ledger is not None:
            ledger.charge(guarantee, label, same_unit=same_unit)
            self._rows.put_value(_LEDGER, ledger.to_json())

    def charge_again(self, guarantee: Guarantee, label: str) -> None:
        """Charge what was charged before; what was promised about its unit holds again."""
        ledger = self._current()
        self.charge(guarantee, label, same_unit=ledger.unit != guarantee.unit)

    def snapshot(self) -> Ledger | None:
        """Return a copy of the stored ledger."""
        text = self._rows.value(_LEDGER)
        return None if text is None else Ledger.from_json(text)

    def forget(self) -> None:
        """Read again what is stored, after a transaction that failed."""
        self._ledger, self._read = None, False

    def _current(self) -> Any:
        if not self._read:
            self._ledger, self._read = self.snapshot(), True
        return self._ledger
