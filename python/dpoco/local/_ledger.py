"""What a device has spent: exact sums, in memory or in a file that survives crashes.

The ledger is charged, and on disk, before any noise is drawn: a crash may lose a report that was
paid for, and never forgets one that was sent.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from dpoco._state import write_atomically
from dpoco.errors import BudgetExceeded, StateError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Ledger"]

_FIRST_LINE = b"dpoco ledger 1"
# Sums of numbers like 0.1 miss the sum of their doubles by less than this, relatively.
ROUNDING = Fraction(1, 2**52)


class Ledger:
    """Sum of the privacy spent and number of reports.

    Parameters
    ----------
    path : path-like or None
        File that holds the ledger; a lock lies beside it. None keeps it in memory only.

    Raises
    ------
    StateError
        If the file is corrupt or was removed, or another client holds it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.reports = 0
        self.epsilon = Fraction(0)
        self.delta = Fraction(0)
        self._owner = os.getpid()
        self._path: Path | None = None
        self._lock: int | None = None
        if path is None:
            return
        # A link would be replaced by the first write.
        self._path = Path(path).resolve()
        self._lock = _locked(self._path.with_name(self._path.name + ".lock"))
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def charge(
        self,
        epsilon: float,
        delta: float,
        *,
        epsilon_max: float,
        delta_max: float,
        max_reports: int,
    ) -> None:
        """Spend, durably, or raise `BudgetExceeded` and change nothing."""
        self.check_process()
        epsilon_after = self.epsilon + Fraction(epsilon)
        delta_after = self.delta + Fraction(delta)
        if self.reports >= max_reports:
            raise BudgetExceeded(f"all {max_reports} reports have been sent")
        if epsilon_after > Fraction(epsilon_max) * (1 + ROUNDING):
            raise BudgetExceeded(
                f"the report asks for epsilon = {epsilon:g}; "
                f"{max(0.0, epsilon_max - float(self.epsilon)):g} remains"
            )
        if delta_after > Fraction(delta_max) * (1 + ROUNDING):
            raise BudgetExceeded(
                f"the report asks for delta = {delta:g}; "
                f"{max(0.0, delta_max - float(self.delta)):g} remains"
            )
        # In memory first: should the disk fail, what may have been written counts.
        self.reports += 1
        self.epsilon, self.delta = epsilon_after, delta_after
        if self._path is not None:
            self._write()

    def check_process(self) -> None:
        """Raise in a forked child: two processes would spend one budget twice."""
        if os.getpid() != self._owner:
            raise StateError(
                "this client was inherited through fork: two processes would spend one budget"
            )
        if self._path is not None and self._lock is None:
            raise StateError("the ledger is closed")

    def close(self) -> None:
        """Let another client have the file."""
        if self._lock is not None:
            os.close(self._lock)  # which unlocks, unless a parent process holds it still
            self._lock = None

    def _open(self) -> None:
        assert self._path is not None
        assert self._lock is not None
        if self._path.exists():
            self._read(self._path.read_bytes())
        elif os.fstat(self._lock).st_size > 0:
            raise StateError(
                "the ledger file is missing, though it existed: what was spent is lost"
            )
        else:
            self._write()
        if os.fstat(self._lock).st_size == 0:
            os.write(self._lock, b"a ledger exists\n")
            os.fsync(self._lock)

    def _write(self) -> None:
        assert self._path is not None
        record = {
            "reports": self.reports,
            "epsilon": [self.epsilon.numerator, self.epsilon.denominator],
            "delta": [self.delta.numerator, self.delta.denominator],
        }
        body = _FIRST_LINE + b"\n" + json.dumps(record).encode() + b"\n"
        digest = hashlib.sha256(body).hexdigest().encode()
        write_atomically(self._path, body + digest + b"\n")

    def _read(self, data: bytes) -> None:
        head, _, digest = data.rpartition(b"\n")[0].rpartition(b"\n")
        body = head + b"\n"
        if not data.endswith(b"\n") or hashlib.sha256(body).hexdigest().encode() != digest:
            raise StateError("the ledger is corrupt: checksum differs")
        try:
            first, text = body.splitlines()
            record: dict[str, Any] = json.loads(text)
            reports = record["reports"]
            epsilon, delta = (Fraction(*record[name]) for name in ("epsilon", "delta"))
        except (ValueError, TypeError, KeyError, ZeroDivisionError):
            raise StateError("the ledger is corrupt") from None
        if first != _FIRST_LINE:
            raise StateError("the ledger is of another version")
        if type(reports) is not int or reports < 0 or min(epsilon, delta) < 0:
            raise StateError("the ledger is corrupt")
        self.reports, self.epsilon, self.delta = reports, epsilon, delta

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger cannot be copied or pickled: copies would spend one budget twice")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()

    def __del__(self) -> None:
        lock = getattr(self, "_lock", None)
        if lock is not None:
            self.close()


def _locked(path: Path) -> int:
    """Return the descriptor of the lock file, held exclusively; released when it is closed."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StateError("the ledger is in use by another client") from None
    except BaseException:
        os.close(handle)
        raise
    return handle
