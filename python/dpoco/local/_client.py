"""The device of one user: it answers rounds within a budget, and does not trust the server.

The device charges the ledger, on disk, before it draws noise. After a crash, a charged report may
be lost, but every report that was sent has been charged.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _literals as literals
from dpoco._files import lock, write_atomically
from dpoco._json import of_json
from dpoco._validation import (
    FloatArray,
    IntArray,
    choice,
    float_array,
    instance,
    positive_float,
    positive_int,
)
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.statement import client_guarantee
from dpoco.errors import BudgetExceeded, StateError
from dpoco.local._hypotheses import Hypotheses, Labels, Prediction
from dpoco.local._messages import Report, ReportBatch, RoundSpec
from dpoco.local._randomizers import draws
from dpoco.random import Source

_FIRST_LINE = b"dpoco ledger 2"
# Contents of the lock file, of constant length, so that they can be overwritten in place.
_LOCK_LINE = b"reports at least %020d\n"
_LOCK_SIZE = len(_LOCK_LINE % 0)
# Relative difference between a sum of decimal numbers like 0.1 and the sum of their doubles; at
# most this.
_ROUNDING = Fraction(1, 2**52)


class NotCopied:
    """Base of objects with a budget, which can be neither copied nor pickled."""

    # Reason for the refusal.
    _copies: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise TypeError(self._copies)


class Ledger(NotCopied):
    """Sum of the privacy spent and number of reports.

    Parameters
    ----------
    path : path-like or None
        File of the ledger. A lock file next to it also counts reports, so that a ledger restored
        from an older copy is refused. None keeps the ledger in memory only.
    protect : {"label", "label_and_context"}, default "label"
        What the reports of this client protect. This and the next argument are keyword-only.
    simulated : bool, default False
        Whether their noise is reproducible.

    Attributes
    ----------
    reports : int
        Number of reports that were paid for.
    epsilon : Fraction
        Exact sum of their epsilons.
    protect : str
        What all of them and those of this client protect.
    simulated : bool
        Whether the noise of any is reproducible.

    Raises
    ------
    StateError
        If the file is corrupt, was removed or is older than its lock, if another client has locked
        it, if it has another name (a hard link), or if it paid for reports that protect less than
        those of this client.
    """

    _copies = "a ledger cannot be copied or pickled: copies would spend one budget twice"

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        protect: str = "label",
        simulated: bool = False,
    ) -> None:
        self.reports = 0
        self.epsilon = Fraction(0)
        self.protect, self.simulated = protect, simulated
        self._owner = os.getpid()
        self._path: Path | None = None
        self._lock: int | None = None
        self._lock_path: Path | None = None
        if path is None:
            return
        # The path is resolved, since the first write would replace a link.
        self._path = Path(path).resolve()
        self._lock_path = self._path.with_name(self._path.name + ".lock")
        self._lock = _lock_file(self._lock_path)
        try:
            self._open()
        # The lock is also released after an interrupt; otherwise it would stay until this object is
        # collected.
        except BaseException:
            self.close()
            raise

    def charge(self, epsilon: float, epsilon_max: float, max_reports: int) -> None:
        """Charge the ledger on disk, or raise `BudgetExceeded` and change nothing.

        It raises `StateError` if the lock file was replaced, since another client may have locked
        the new file.

        Parameters
        ----------
        epsilon : float
            Epsilon of the next report.
        epsilon_max, max_reports
            The limits of all reports together.
        """
        self.check_process()
        self._check_lock()
        # Fractions add up exactly; rounded sums could allow one report too many.
        epsilon_after = self.epsilon + Fraction(epsilon)
        if self.reports >= max_reports:
            raise BudgetExceeded(f"all {max_reports} reports have been sent")
        if epsilon_after > Fraction(epsilon_max) * (1 + _ROUNDING):
            raise BudgetExceeded(
                f"the report asks for epsilon = {epsilon:g}; "
                f"{max(0.0, epsilon_max - float(self.epsilon)):g} remains"
            )
        # Memory is changed first: if the disk fails, the charge may have been written, so it
        # counts.
        self.reports += 1
        self.epsilon = epsilon_after
        if self._path is not None:
            # The ledger is written before the count: see `_count`.
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
        """Release the file, so that another client can open it."""
        if self._lock is not None:
            # This unlocks the file, unless a parent process still holds it.
            os.close(self._lock)
            self._lock = None

    def _open(self) -> None:
        """Read the file, or create it; raise for anything that may hide reports already sent."""
        assert self._path is not None
        assert self._lock is not None
        self._check_lock()
        counted = self._read_count()
        if self._path.exists():
            # Each name has a separate lock next to it, so two clients could spend one budget.
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
        # A crash between ledger and count has left the count behind; it is written now.
        if counted is None or counted < self.reports:
            self._count()

    def _check_lock(self) -> None:
        """Raise unless the lock's path still leads to the locked file, which has no other name."""
        if self._lock is None or self._lock_path is None:
            return
        # Other clients find the lock by its path, so the path must lead to the locked file.
        held = os.fstat(self._lock)
        try:
            named = self._lock_path.stat()
        except OSError:
            raise StateError("the ledger's lock was removed while it was held") from None
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino) or held.st_nlink > 1:
            raise StateError("the ledger's lock was replaced or linked while it was held")

    def _read_count(self) -> int | None:
        """Return the number of reports in the lock file; None for a lock that was never written."""
        assert self._lock is not None
        os.lseek(self._lock, 0, os.SEEK_SET)
        data = os.read(self._lock, _LOCK_SIZE + 1)
        if not data:
            return None
        # `_LOCK_LINE` ends with twenty digits and a line feed.
        digits = data[-21:-1]
        if not digits.isdigit() or data != _LOCK_LINE % int(digits):
            raise StateError("the ledger's lock is corrupt")
        return int(digits)

    def _count(self) -> None:
        """Write the number of reports to the lock file, after the ledger was written.

        After a crash in between, the ledger is ahead of the lock. If it were behind, it would look
        like an older copy.
        """
        assert self._lock is not None
        os.lseek(self._lock, 0, os.SEEK_SET)
        os.write(self._lock, _LOCK_LINE % self.reports)
        # The count must be on the disk before the report leaves the device.
        os.fsync(self._lock)

    def _write(self) -> None:
        """Replace the file on disk; a crash leaves the old file or the new one."""
        assert self._path is not None
        record = {
            "reports": self.reports,
            "epsilon": [self.epsilon.numerator, self.epsilon.denominator],
            # No channel has a delta any more.
            "delta": [0, 1],
            "protect": self.protect,
            "simulated": self.simulated,
        }
        body = _FIRST_LINE + b"\n" + json.dumps(record).encode() + b"\n"
        digest = hashlib.sha256(body).hexdigest().encode()
        write_atomically(self._path, body + digest + b"\n")

    def _read(self, data: bytes) -> None:
        """Read the contents that `_write` wrote, or raise `StateError`."""
        # The checksum detects accidents, but not edits by the owner
        # (docs/privacy/local_randomizers.md, "Not covered").
        head, _, digest = data.rpartition(b"\n")[0].rpartition(b"\n")
        body = head + b"\n"
        if not data.endswith(b"\n") or hashlib.sha256(body).hexdigest().encode() != digest:
            raise StateError("the ledger is corrupt: checksum differs")
        first, _, text = body.partition(b"\n")
        if first != _FIRST_LINE:
            raise StateError("the ledger is of another version")
        try:
            record: dict[str, Any] = of_json(text)
            reports = record["reports"]
            epsilon = _fraction(*record["epsilon"])
            protect, simulated = record["protect"], record["simulated"]
        # JSON may be too deep, have infinite numbers, or be no dictionary.
        except Exception:
            raise StateError("the ledger is corrupt") from None
        if type(reports) is not int or not 0 <= reports < 2**63 or epsilon < 0:
            raise StateError("the ledger is corrupt")
        if protect not in ("label", "label_and_context") or type(simulated) is not bool:
            raise StateError("the ledger is corrupt")
        self.reports, self.epsilon = reports, epsilon
        if reports == 0:
            return
        # A guarantee is about all reports that the ledger paid for, also about those of earlier
        # clients.
        if simulated and not self.simulated:
            raise StateError("the ledger paid for simulated reports, whose noise protects nothing")
        if protect == "label" != self.protect:
            raise StateError("the ledger paid for reports that protect the label only")
        self.simulated = self.simulated or simulated

    def __del__(self) -> None:
        # The attribute may be missing if the constructor raised.
        lock = getattr(self, "_lock", None)
        if lock is not None:
            self.close()


class Ledgers:
    """Privacy spent and number of reports of every user.

    Each sum is kept as two doubles, a large and a small part, with an error below 1e-30, so that a
    budget for ten reports of 0.1 allows ten. Sums are arrays, so that charging all users is one
    addition.

    Attributes
    ----------
    reports : array of shape (users,)
        Number of reports of each user.
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
        """Raise in a forked child, since two processes would spend budgets twice."""
        if os.getpid() != self._owner:
            raise StateError("this pool was inherited through fork: budgets would be spent twice")

    def affordable(
        self, members: IntArray | None, epsilon: float, epsilon_max: float, max_reports: int
    ) -> NDArray[np.bool_]:
        """Return which users can pay for one more report, shape of `members`.

        Parameters
        ----------
        members : array of int, or None
            Different users; None for all.
        epsilon, epsilon_max, max_reports
            As in `Ledger.charge`.
        """
        pick = slice(None) if members is None else members
        total, rest = _add(self._epsilon[pick], self._epsilon_rest[pick], epsilon)
        room = (epsilon_max - total) - rest >= -float(_ROUNDING) * epsilon_max
        return room & (self.reports[pick] < max_reports)

    def charge(
        self, members: IntArray | None, epsilon: float, epsilon_max: float, max_reports: int
    ) -> None:
        """Charge each member (None: all), or raise `BudgetExceeded` and change nothing."""
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
    # Renormalisation keeps the small part from overlapping with the large one.
    final = high + low
    return final, low - (final - high)


def _fraction(numerator: object, denominator: object) -> Fraction:
    """Return a fraction that is within the range of floats, or raise."""
    if type(numerator) is not int or type(denominator) is not int:
        raise TypeError("a fraction needs two integers")
    value = Fraction(numerator, denominator)
    # This raises `OverflowError` for a fraction beyond the range of doubles.
    float(value)
    return value


def _lock_file(path: Path) -> int:
    """Return the descriptor of the lock file, locked exclusively until it is closed."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    found = False
    try:
        with suppress(OSError):
            found = lock(handle)
    finally:
        if not found:
            os.close(handle)
    if not found:
        raise StateError("the ledger is in use by another client")
    return handle


# Tolerance for the sum of weights that were sent as float32; in double precision it is much
# smaller.
_TOLERANCE = 1e-6


class Devices(NotCopied):
    """Base of a device and of a pool of devices: hypotheses, limits per user, noise."""

    def __init__(
        self,
        hypotheses: Hypotheses,
        epsilon_max: float,
        max_reports: int,
        protect: str,
        simulation_seed: int | None,
    ) -> None:
        self._hypotheses = instance("hypotheses", hypotheses, Hypotheses, "Hypotheses")
        self._protect = choice("protect", protect, ("label", "label_and_context"))
        self._epsilon_max = positive_float("epsilon_max", epsilon_max)
        self._max_reports = positive_int("max_reports", max_reports)
        # The sources of noise and of nonces are independent of each other and of the public coins.
        if simulation_seed is None:
            self._source, self._nonces = Source(), Source()
        else:
            self._source = Source.seeded(simulation_seed)
            self._nonces = self._source.spawn()
        # No other thread may charge or draw between a charge and its draw.
        self._lock = threading.Lock()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for all reports of one user together, whether or not they are sent."""
        return client_guarantee(
            epsilon=self._epsilon_max,
            reports=self._max_reports,
            protect=self._protect,
            simulated=self._source.is_seeded,
        )

    def _check(self, given: object) -> RoundSpec:
        """Return the specification if these devices may answer it; ``ValueError`` otherwise.

        Bytes are parsed. An object is checked again, since it may have been changed.
        """
        if isinstance(given, (bytes, bytearray, memoryview)):
            given = RoundSpec.from_bytes(bytes(given))
        # A subclass could return other fields.
        if type(given) is not RoundSpec:
            raise TypeError(f"spec must be a RoundSpec; got {type(given).__name__}")
        # `replace` runs the checks of the constructor again.
        spec: RoundSpec = replace(given)
        hypotheses = self._hypotheses
        if (spec.hypotheses, spec.labels) != (hypotheses.count, hypotheses.labels):
            raise ValueError("the round is about another class of hypotheses")
        # Fingerprints are compared only if both sides have one, since functions cannot be compared.
        known = any(spec.fingerprint) and hypotheses.array is not None
        if known and spec.fingerprint != hypotheses.fingerprint:
            raise ValueError("the round is about other hypotheses than the device's")
        if self._protect == "label_and_context" and spec.channel != "coordinate":
            raise ValueError("only channel 'coordinate' protects contexts")
        return spec


class LocalClient(Devices):
    """One user's device.

    Parameters
    ----------
    hypotheses : Hypotheses
        The server's class of hypotheses, in the device's own copy, not one that came with the
        round. The device refuses rounds about other arrays; it cannot compare functions.
    epsilon_max : float
        Budget of all reports together.
    max_reports : int, default 1
        Largest number of reports that the device sends.
    protect : {"label", "label_and_context"}, default "label"
        With "label", **the server knows the context**: the report protects only the label. With
        "label_and_context" it protects both; the device then answers only channel "coordinate".
    ledger : path-like, optional
        File with the spent budget. It survives crashes and restarts, and only one client at a time
        can use it. By default the ledger is kept in this object.
    simulation_seed : int, optional
        Reproducible noise, for simulations; the reports say so, and the guarantee is void.

    Raises
    ------
    StateError
        If the ledger is corrupt, was removed, is older than its lock, has two names, is in use by
        another client, or paid for simulated reports or reports that protect less than `protect`.

    Notes
    -----
    Privacy does not depend on the server: the client checks specifications, uses their numbers only
    inside clamped functions, and charges the ledger, on disk, before it draws noise. The label
    influences only the distribution of the report, not its size and not whether it is sent. Proof:
    ``docs/privacy/local_randomizers.md``.

    Examples
    --------
    >>> from dpoco.local import DistributionLearner, Hypotheses, LocalClient
    >>> known = Hypotheses([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    >>> server = DistributionLearner(known, epsilon=1.0, horizon=100)
    >>> spec = server.round_spec()
    >>> report = LocalClient(known, epsilon_max=1.0).respond(spec, y=2)
    >>> server.update(spec, report)
    >>> server.reports
    1
    """

    _copies = "a client cannot be copied or pickled: copies would spend one budget twice"

    def __init__(
        self,
        hypotheses: Hypotheses,
        epsilon_max: float,
        max_reports: int = 1,
        protect: literals.Protect = "label",
        ledger: str | os.PathLike[str] | None = None,
        *,
        simulation_seed: int | None = None,
    ) -> None:
        super().__init__(hypotheses, epsilon_max, max_reports, protect, simulation_seed)
        self._ledger = Ledger(ledger, protect=protect, simulated=self._source.is_seeded)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for all reports of the ledger together, whether or not they are sent.

        If earlier clients had a larger budget and spent more than this one has, it is about what
        they spent.
        """
        epsilon, spent = self._epsilon_max, self._ledger.epsilon
        if spent > Fraction(epsilon) * (1 + _ROUNDING):
            epsilon = float(spent)
            epsilon = math.nextafter(epsilon, math.inf) if epsilon < spent else epsilon
        return client_guarantee(
            epsilon=epsilon,
            reports=max(self._max_reports, self._ledger.reports),
            protect=self._protect,
            simulated=self._source.is_seeded,
        )

    def respond(self, spec: RoundSpec | bytes, x: object = None, y: object = None) -> Report:
        """Return the private report on label `y`, and charge the ledger for it.

        Parameters
        ----------
        spec : RoundSpec or bytes
            The round to answer, as the server published it.
        x : object, optional
            The context; None for hypotheses without contexts.
        y : object
            The label. None, or anything that is not a label in [0, M), is "no event", which is
            protected as well.

        Returns
        -------
        Report
            The report; its size depends only on `spec`.

        Raises
        ------
        ValueError, TypeError
            For a specification that this device must not answer, or a public context that the
            hypotheses do not have. Nothing is drawn or spent.
        BudgetExceeded
            If the report would exceed the budget. Nothing is drawn or spent.
        StateError
            If the ledger's lock was removed or replaced. Nothing is drawn or spent.
        OSError
            If the ledger cannot be written. No report is drawn; the budget counts as spent.
        """
        with self._lock:
            self._ledger.check_process()
            spec = self._check(spec)
            private = self._protect == "label_and_context" and x is not None
            # The order follows docs/privacy/local_randomizers.md ("The ledger"): first all that can
            # fail, then the charge, then the noise.
            draw = draws(spec, self._hypotheses, [x] if private else x, [y], self._protect)
            self._ledger.charge(spec.epsilon, self._epsilon_max, self._max_reports)
            values = tuple(draw(self._source)[0].tolist())
            nonce = self._nonces.words(1).tobytes()
        return Report(spec.round, spec.digest, nonce, spec.channel, values, self._source.is_seeded)

    @property
    def spent(self) -> float:
        """Epsilon of all reports so far together."""
        return float(self._ledger.epsilon)

    @property
    def remaining(self) -> float:
        """Remaining epsilon; 0 once all reports were sent."""
        if self.reports_left == 0:
            return 0.0
        return max(0.0, self._epsilon_max - self.spent)

    @property
    def reports_left(self) -> int:
        """Number of reports that the device may still send."""
        return max(0, self._max_reports - self._ledger.reports)

    def close(self) -> None:
        """Release the ledger file; a client with a file answers no rounds afterwards."""
        self._ledger.close()

    def __enter__(self) -> LocalClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        simulated = ", simulated" if self._source.is_seeded else ""
        return (
            f"<LocalClient: epsilon {self.spent:g} of {self._epsilon_max:g} spent, "
            f"{self.reports_left} reports left, protects {self._protect}{simulated}>"
        )


class ClientPool(Devices):
    """The devices of many users, each with its own budget.

    It is for simulations, and for gateways that users trust with their labels, since a pool sees
    all labels.

    Parameters
    ----------
    hypotheses : Hypotheses
        The server's class of hypotheses.
    users : int
        Number of users, 0 ... users - 1.
    epsilon_max, max_reports, protect, simulation_seed
        Budget of each user, as for `LocalClient`.

    Notes
    -----
    Ledgers are kept in memory, 24 bytes per user, and end with the pool. Methods may be called from
    several threads; in a forked child they raise.
    """

    _copies = "a pool cannot be copied or pickled: copies would spend budgets twice"

    def __init__(
        self,
        hypotheses: Hypotheses,
        users: int,
        epsilon_max: float,
        max_reports: int = 1,
        protect: literals.Protect = "label",
        *,
        simulation_seed: int | None = None,
    ) -> None:
        super().__init__(hypotheses, epsilon_max, max_reports, protect, simulation_seed)
        self.users = positive_int("users", users, maximum=2**31)
        self._ledgers = Ledgers(self.users)

    def respond(
        self, spec: RoundSpec | bytes, x: Any, labels: Labels, users: ArrayLike | None = None
    ) -> ReportBatch:
        """Return one private report of each named user, and charge their ledgers.

        Parameters
        ----------
        spec : RoundSpec or bytes
            The round to answer.
        x : object
            The context that all share. With ``protect="label_and_context"``: a sequence of one
            context per user (or None for hypotheses without contexts).
        labels : sequence or integer array of shape (n,)
            One label per user; None, -1 or anything that is not a label is "no event". Arrays must
            be of integers or objects.
        users : integer array of shape (n,), optional
            Users who report, each at most once; by default all users, in order.

        Returns
        -------
        ReportBatch
            Row i is the report of ``users[i]``.

        Raises
        ------
        ValueError, TypeError
            As for `LocalClient.respond`, and for users unknown or named twice. Nothing changes.
        BudgetExceeded
            If one of the users does not have enough budget left; no user reports.
        """
        with self._lock:
            self._ledgers.check_process()
            spec = self._check(spec)
            members = self._members(users)
            count = self.users if members is None else members.size
            _check_labels(labels, spec.labels)
            if len(labels) != count:
                raise ValueError(f"there must be one label for each of {count} users")
            if self._protect == "label_and_context" and x is not None and len(x) != count:
                raise ValueError(f"there must be one context for each of {count} users")
            # The order is that of a single client: first all that can fail, then the charge, then
            # the noise.
            draw = draws(spec, self._hypotheses, x, labels, self._protect)
            self._ledgers.charge(members, spec.epsilon, self._epsilon_max, self._max_reports)
            values = draw(self._source)
            nonces = self._nonces.words(count) if count else np.zeros(0, dtype=np.uint64)
        return ReportBatch(
            spec.round, spec.digest, spec.channel, nonces, values, self._source.is_seeded
        )

    @property
    def spent(self) -> NDArray[np.float64]:
        """Epsilon of all reports so far, for each user, shape (users,)."""
        return self._ledgers.spent

    @property
    def reports(self) -> IntArray:
        """Number of reports so far, for each user, shape (users,)."""
        return self._ledgers.reports.copy()

    def _members(self, users: ArrayLike | None) -> IntArray | None:
        """Return the users who report, each once, or None for all; raise for unknown ones."""
        if users is None:
            return None
        try:
            members = np.asarray(users)
        # The text of the cause may quote the argument.
        except (TypeError, ValueError):
            raise TypeError("users must be a sequence of ints") from None
        if members.ndim != 1 or (members.dtype.kind not in "iu" and members.size):
            raise TypeError("users must be a sequence of ints")
        members = members.astype(np.int64)
        if members.size and not 0 <= int(members.min()) <= int(members.max()) < self.users:
            raise ValueError(f"users must be in [0, {self.users})")
        if np.unique(members).size != members.size:
            raise ValueError("a user is named twice")
        return members

    def __repr__(self) -> str:
        simulated = ", simulated" if self._source.is_seeded else ""
        return f"<ClientPool: {self.users} users, protects {self._protect}{simulated}>"


def _check_labels(labels: Labels, count: int | None) -> None:
    """Raise for an array whose type or shape, which are public, does not fit labels."""
    if count is None or not isinstance(labels, np.ndarray):
        return
    if labels.dtype.kind not in "iuO":
        raise TypeError(f"labels must be integers; got an array of {labels.dtype.name}")
    if labels.ndim != 1:
        raise ValueError(f"labels must have one dimension; got {labels.ndim}")


class DevicePredictor:
    """Computes predictions from broadcast weights and a context that stays on the device.

    Parameters
    ----------
    hypotheses : Hypotheses
        The device's own copy of the class.
    """

    def __init__(self, hypotheses: Hypotheses) -> None:
        self._hypotheses = instance("hypotheses", hypotheses, Hypotheses, "Hypotheses")

    def predict(self, weights: ArrayLike, x: object = None, mixing: float = 0.0) -> Prediction:
        """Return the prediction for the device's own context.

        Parameters
        ----------
        weights : array of shape (K,)
            The weights that the server published: nonnegative, with sum 1.
        x : object, optional
            The private context.
        mixing : float, default 0
            Share of the uniform mixture, in [0, 1], as published with the weights.

        Returns
        -------
        Prediction
            ``(1 - mixing) sum_j w_j f_j(x) + mixing mean_j f_j(x)``.

        Raises
        ------
        ValueError, TypeError
            For invalid weights, a mixing out of range, or a context that the hypotheses do not
            have.
        """
        # Weights sent as float32 sum to 1 only approximately, so they are divided by their sum.
        values = float_array("weights", weights, (self._hypotheses.count,))
        total = float(values.sum())
        if not (
            np.isfinite(values).all() and values.min() >= 0.0 and abs(total - 1.0) < _TOLERANCE
        ):
            raise ValueError("weights must be nonnegative and sum to 1")
        if self._hypotheses.kind == "likelihood":
            column = partial(self._hypotheses.column, x)
            return Prediction(values / total, mixing, column=column)
        return Prediction(values / total, mixing, matrix=self._hypotheses.matrix(x))

    def __repr__(self) -> str:
        return f"DevicePredictor({self._hypotheses!r})"
