"""Files that nobody else may change meanwhile: atomic writes, encryption, and locks.

A lock lasts until its descriptor is closed, also that of a child that was forked meanwhile.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpoco._encryption import EncryptionKey, decrypt, given_key
from dpoco.errors import StateError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# This context is authenticated with the ciphertext, so that the head of a journal cannot replace a
# state.
_CONTEXT = b"state"
_POSIX = os.name == "posix"


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `OSError` now if `write_atomically` could not write `path` later."""
    target = Path(path)
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise OSError(f"cannot write {str(target)!r}")


def read_state(path: str | os.PathLike[str], key: EncryptionKey | None) -> bytes:
    """Return the data that `write_atomically` was given, with the same key or none.

    Raises
    ------
    StateError
        If the file is encrypted and no key or another one is given, or plain and a key is given.
    OSError
        If it cannot be read.
    """
    data, checked = Path(path).read_bytes(), given_key("key", key)
    return decrypt(data, _CONTEXT, checked, "state", "dpoco.encrypt_file")


def write_atomically(
    path: str | os.PathLike[str], data: bytes, key: EncryptionKey | None = None
) -> None:
    """Write `data` so that a crash leaves the old file or the new one, readable by its owner only.

    With a key, the file is encrypted as a state. The call waits for the disk. It replaces a link by
    a file.

    Raises
    ------
    OSError
        If the folder cannot be written to, or the disk is full; the old file is unchanged.
    """
    target = Path(path)
    handle, unfinished = _open_unfinished(target)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if key is None else key.seal(_CONTEXT, data))
            file.flush()
            # The data must reach the disk before the rename: after a power cut the name must not
            # point to an empty file.
            os.fsync(file.fileno())
            if _POSIX:  # while it is locked
                unfinished.replace(target)
        # These systems cannot rename an open file.
        if not _POSIX:
            unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    # The rename must also survive a power cut.
    synchronise(target.parent)


@contextmanager
def sole_user(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes that call this from a state, which they would continue with its noise.

    A locked file ``<path>.lock`` lies next to the state meanwhile. Where files have no locks,
    nothing keeps others out.

    Raises
    ------
    StateError
        If another process has the state.
    OSError
        If the folder cannot be written to.
    """
    if not _POSIX:
        yield
        return
    own = os.path.realpath(path) + ".lock"
    while (handle := _hold(own)) is None:
        pass
    if handle < 0:
        raise StateError(f"{path} is in use by another process: wait for its end")
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(own)
        os.close(handle)


def _hold(path: str) -> int | None:
    """Return the descriptor of a locked file; -1 if another process has it, None to try again."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    found: int | None = None
    try:
        if not lock(handle, required=False):
            found = -1
        else:
            # The process before may have removed the file between our opening and our locking it.
            with suppress(FileNotFoundError):
                found = handle if os.path.samestat(os.fstat(handle), os.stat(path)) else None
    finally:
        if found != handle:
            os.close(handle)
    return found


_MARK = ".unfinished"


def _open_unfinished(target: Path) -> tuple[int, Path]:
    """Make an empty file next to `target` that only its owner can read, and lock it.

    Files of interrupted saves, which no process locks, are removed, since they would pile up.
    """
    prefix = f".{target.name}."
    if _POSIX:
        for entry in os.scandir(target.parent):
            if entry.name.startswith(prefix) and entry.name.endswith(_MARK):
                # Another process may remove it.
                with suppress(OSError):
                    _remove_unlocked(entry.path)
    while True:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=_MARK)  # 0600
        if not _POSIX or (lock(handle, required=False) and os.path.exists(name)):
            return handle, Path(name)
        # Another save took this file for one of an interrupted save, and removed it.
        os.close(handle)


def _remove_unlocked(name: str) -> None:
    """Remove a file that no process writes to, unless it cannot be locked."""
    # Others may write to this folder, and a link of theirs must not lead to another file.
    handle = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if lock(handle):
            os.unlink(name)
    finally:
        os.close(handle)


def lock(handle: int, *, required: bool = True) -> bool:
    """Lock a file or folder until its descriptor is closed; False if another process has it.

    Parameters
    ----------
    handle : int
        An open descriptor.
    required : bool
        Whether to raise where files have no locks, as on some network drives.

    Raises
    ------
    OSError
        If it cannot be locked, and the lock is required.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            # `flock` is used instead of `lockf`, since a process loses POSIX locks when it closes
            # any descriptor of the file.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        if required:
            raise
    return True


def unlock(handle: int) -> None:
    """Give a POSIX lock back, also for children that were forked meanwhile."""
    fcntl.flock(handle, fcntl.LOCK_UN)


def synchronise(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, if the system offers this."""
    if not _POSIX:
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
