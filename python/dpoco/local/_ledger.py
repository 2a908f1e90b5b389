"""The budget that a device has spent: exact sums, in memory or in a file that survives crashes.

The ledger is charged, and on disk, before any noise is drawn: a crash may lose a report that was
paid for, but never forgets one that was sent.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpoco._json import of_json
from dpoco._validation import FloatArray, IntArray
from dpoco.errors import BudgetExceeded, StateError
from dpoco.learning.state import write_atomically

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


_FIRST_LINE = b"dpoco ledger 1"
# What the lock file says: of constant length, so that it is overwritten in place.
_LOCK_LINE = b"reports at least %020d\n"
_LOCK_SIZE = len(_LOCK_LINE % 0)
# Sums of numbers like 0.1 miss the sum of their doubles by less than this, relatively.
_ROUNDING = Fraction(1, 2**52)


class NotCopied:
    """Base of objects that hold a budget; they can be neither copied nor pickled."""

    _copies: ClassVar[str]  # why not

    def __reduce__(self) -> NoReturn:
        raise TypeError(self._copies)


class Ledger(NotCopied):
    """Sum of the privacy spent and number of reports.

    Parameters
    ----------
    path : path-like or None
        File that holds the ledger; a lock lies next to it, which counts reports as well: a ledger
        restored from an older copy is refused. None keeps it in memory only.

    `StateError` if the file is corrupt, was removed or is older than its lock, if another client
    holds it, or if it has another name (a hard link).
    """

    _copies = "a ledger cannot be copied or pickled: copies would spend one budget twice"

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.reports = 0
        self.epsilon = Fraction(0)
        self._owner = os.getpid()
        self._path: Path | None = None
        self._lock: int | None = None
        self._lock_path: Path | None = None
        if path is None:
            return
        # A link would be replaced by the first write.
        self._path = Path(path).resolve()
        self._lock_path = self._path.with_name(self._path.name + ".lock")
        self._lock = _lock_file(self._lock_path)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def charge(self, epsilon: float, epsilon_max: float, max_reports: int) -> None:
        """Spend, durably, or raise `BudgetExceeded` and change nothing.

        Also `StateError` if the lock is not the file any more that is locked: another client may
        hold its successor.
        """
        self.check_process()
        self._check_lock()
        epsilon_after = self.epsilon + Fraction(epsilon)
        if self.reports >= max_reports:
            raise BudgetExceeded(f"all {max_reports} reports have been sent")
        if epsilon_after > Fraction(epsilon_max) * (1 + _ROUNDING):
            raise BudgetExceeded(
                f"the report asks for epsilon = {epsilon:g}; "
                f"{max(0.0, epsilon_max - float(self.epsilon)):g} remains"
            )
        # In memory first: should the disk fail, what may have been written counts.
        self.reports += 1
        self.epsilon = epsilon_after
        if self._path is not None:
            self._write()
            self._count()

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
        self._check_lock()
        counted = self._read_count()
        if self._path.exists():
            if self._path.is_file() and self._path.stat().st_nlink > 1:
                raise StateError("the ledger file has two names (hard links): remove one of them")
            self._read(self._path.read_bytes())
        elif counted is not None:
            raise StateError(
                "the ledger file is missing, though it existed: the spent budget is no longer known"
            )
        else:
            self._write()
        if self.reports < (counted or 0):
            raise StateError(
                "the ledger is older than its lock: it was restored from an old copy, and reports "
                "were sent since"
            )
        if counted is None or counted < self.reports:
            self._count()

    def _check_lock(self) -> None:
        """Raise unless the lock's name still is that of the file held, and its only one."""
        if self._lock is None or self._lock_path is None:
            return
        held = os.fstat(self._lock)
        try:
            named = self._lock_path.stat()
        except OSError:
            raise StateError("the ledger's lock was removed while it was held") from None
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino) or held.st_nlink > 1:
            raise StateError("the ledger's lock was replaced or linked while it was held")

    def _read_count(self) -> int | None:
        """Return how many reports the lock knows of; None for a lock that was never written."""
        assert self._lock is not None
        os.lseek(self._lock, 0, os.SEEK_SET)
        data = os.read(self._lock, _LOCK_SIZE + 1)
        if not data:
            return None
        digits = data[-21:-1]
        if not digits.isdigit() or data != _LOCK_LINE % int(digits):
            raise StateError("the ledger's lock is corrupt")
        return int(digits)

    def _count(self) -> None:
        """Tell the lock the number of reports: after the ledger, which may be ahead but not behind.

        A crash in between must not make the ledger look restored.
        """
        assert self._lock is not None
        os.lseek(self._lock, 0, os.SEEK_SET)
        os.write(self._lock, _LOCK_LINE % self.reports)
        os.fsync(self._lock)

    def _write(self) -> None:
        assert self._path is not None
        record = {
            "reports": self.reports,
            "epsilon": [self.epsilon.numerator, self.epsilon.denominator],
            "delta": [0, 1],  # reports with a delta are not made any more
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
            record: dict[str, Any] = of_json(text)
            reports = record["reports"]
            epsilon = _fraction(*record["epsilon"])
        except Exception:  # whatever odd JSON makes of it: too deep, infinite, no dictionary
            raise StateError("the ledger is corrupt") from None
        if first != _FIRST_LINE:
            raise StateError("the ledger is of another version")
        if type(reports) is not int or not 0 <= reports < 2**63 or epsilon < 0:
            raise StateError("the ledger is corrupt")
        self.reports, self.epsilon = reports, epsilon

    def __del__(self) -> None:
        lock = getattr(self, "_lock", None)
        if lock is not None:
            self.close()


class Ledgers:
    """Privacy spent and number of reports of every user.

    Sums are kept as two doubles, large and small part: any number of reports adds up exactly to
    within 1e-30, so that a budget for ten reports of 0.1 has room for ten.
    """

    def __init__(self, users: int) -> None:
        self.reports: IntArray = np.zeros(users, dtype=np.int64)
        self._epsilon = np.zeros(users)
        self._epsilon_rest = np.zeros(users)
        self._owner = os.getpid()

    @property
    def spent(self) -> FloatArray:
        """Epsilon of each user, shape (users,)."""
        return self._epsilon + self._epsilon_rest

    def check_process(self) -> None:
        """Raise in a forked child: two processes would spend budgets twice."""
        if os.getpid() != self._owner:
            raise StateError("this pool was inherited through fork: budgets would be spent twice")

    def affordable(
        self, members: IntArray | None, epsilon: float, epsilon_max: float, max_reports: int
    ) -> NDArray[np.bool_]:
        """Return who has room for one more report."""
        pick = slice(None) if members is None else members
        total, rest = _add(self._epsilon[pick], self._epsilon_rest[pick], epsilon)
        room = (epsilon_max - total) - rest >= -float(_ROUNDING) * epsilon_max
        return room & (self.reports[pick] < max_reports)

    def charge(
        self, members: IntArray | None, epsilon: float, epsilon_max: float, max_reports: int
    ) -> None:
        """Spend for each member (None: all), or raise `BudgetExceeded` and change nothing."""
        pick = slice(None) if members is None else members
        fits = self.affordable(members, epsilon, epsilon_max, max_reports)
        if not fits.all():
            raise BudgetExceeded(f"{int((~fits).sum())} of {fits.size} users have no budget left")
        self.reports[pick] += 1
        self._epsilon[pick], self._epsilon_rest[pick] = _add(
            self._epsilon[pick], self._epsilon_rest[pick], epsilon
        )


def _add(total: FloatArray, rest: FloatArray, value: float) -> tuple[FloatArray, FloatArray]:
    """Return the sum of a double-double and a double (Knuth's two-sum, renormalised)."""
    high = total + value
    other = high - total
    low = (total - (high - other)) + (value - other) + rest
    final = high + low
    return final, low - (final - high)


def _fraction(numerator: Any, denominator: Any) -> Fraction:
    """Return a fraction that a float can stand for, or raise."""
    if type(numerator) is not int or type(denominator) is not int:
        raise TypeError("a fraction needs two integers")
    value = Fraction(numerator, denominator)
    float(value)
    return value


def _lock_file(path: Path) -> int:
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
