"""The high-water mark beside a journal: how far it had come, to notice that it was set back."""

from __future__ import annotations

import os
from pathlib import Path

from dpoco.errors import StateError
from dpoco.journal._records import Head

__all__ = ["Mark"]

_LINE = "dpoco journal mark 1 {uid} {epoch:020d} {sequence:020d}\n"


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
