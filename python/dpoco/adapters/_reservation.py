"""Rounds whose noise may have been used, in a small file that outlives a crash.

A round is reserved, durably, before its noise is released. After a crash all reserved rounds are
skipped: their noise is never released again, whatever was released of it. The file holds counts
only, no data and no noise. Rounds to come are reserved while others are played, so that a step
hardly waits for the disk.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dpoco.errors import StateError
from dpoco.learning.state import synchronise

__all__ = ["Reservation"]

_SLOT = struct.Struct("<Q16s")
_SLOTS = 2  # written in turn: a torn write leaves the other


class Reservation:
    """A locked file with the number of rounds that are reserved.

    Parameters
    ----------
    path : path-like
        The file; a new training makes it, and refuses one that exists.
    secret : bytes
        32 bytes that a checkpoint holds, under which counts are authenticated.
    ahead : int
        Rounds that are reserved and not played, at most: as many are skipped after a crash. With 1
        every round waits for the disk.
    new : bool
        Whether the training is new.

    Raises
    ------
    StateError
        If the file is in use, exists and should not, or is not of this training.
    """

    _handle = -1
    _coming: Future[int] | None = None
    _writer: ThreadPoolExecutor | None = None

    def __init__(self, path: str | os.PathLike[str], secret: bytes, ahead: int, new: bool) -> None:
        self._secret, self._ahead, self._slot = secret, ahead, 0
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | (os.O_CREAT | os.O_EXCL if new else 0)
        try:
            self._handle = os.open(path, flags, 0o600)
        except FileExistsError:
            raise StateError(
                f"{Path(path).name} reserves rounds of another training: load its checkpoint, or "
                "name another file for a new training, which costs its own budget"
            ) from None
        except FileNotFoundError:
            raise StateError(
                f"{Path(path).name} is missing: only this file tells which noise was released"
            ) from None
        try:
            self._lock(path)
            if new:
                self.rounds = self._write(0)
                synchronise(Path(path).absolute().parent)
            else:
                self.rounds = self._read(path)
        except BaseException:
            self.close()
            raise

    def _lock(self, path: str | os.PathLike[str]) -> None:
        if os.name != "posix":
            return
        import fcntl

        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                f"another process continues the training of {Path(path).name}"
            ) from None

    def _digest(self, rounds: int) -> bytes:
        return hashlib.blake2b(
            rounds.to_bytes(8, "little"), key=self._secret, digest_size=16
        ).digest()

    def _read(self, path: str | os.PathLike[str]) -> int:
        data = os.pread(self._handle, _SLOTS * _SLOT.size, 0)
        slots = (data[i * _SLOT.size : (i + 1) * _SLOT.size] for i in range(_SLOTS))
        stated: Iterator[tuple[int, bytes]] = (
            _SLOT.unpack(slot) for slot in slots if len(slot) == _SLOT.size
        )
        known = [n for n, mark in stated if hmac.compare_digest(mark, self._digest(n))]
        if not known:
            raise StateError(f"{Path(path).name} is not the reservation file of this training")
        return max(known)

    def _write(self, rounds: int) -> int:
        entry = _SLOT.pack(rounds, self._digest(rounds))
        os.pwrite(self._handle, entry, self._slot * _SLOT.size)
        os.fsync(self._handle)
        self._slot = (self._slot + 1) % _SLOTS
        return rounds

    def reserve(self, round_: int) -> None:
        """Return once `round_` is reserved on the disk, and let a thread reserve the next ones."""
        if self._coming is not None and (self._coming.done() or round_ > self.rounds):
            coming, self._coming = self._coming, None
            self.rounds = coming.result()
        half = self._ahead // 2
        if round_ > self.rounds:
            self.rounds = self._write(round_ - 1 + max(half, 1))
        if half > 0 and self._coming is None and self.rounds + half < round_ + self._ahead:
            if self._writer is None:
                self._writer = ThreadPoolExecutor(1, "dpoco-reservations")
            self._coming = self._writer.submit(self._write, self.rounds + half)

    def close(self) -> None:
        """Give the file free for another process."""
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    __del__ = close
