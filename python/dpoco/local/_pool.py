"""Many users in one process: the same answers as of single devices, at the speed of arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int
from dpoco.errors import BudgetExceeded, StateError
from dpoco.local._client import Devices, draws
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._ledger import ROUNDING
from dpoco.local._reports import ReportBatch
from dpoco.local._specs import RoundSpec

__all__ = ["ClientPool", "Ledgers"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class ClientPool(Devices):
    """The devices of many users, each with a budget of its own.

    For simulations, and for gateways that users trust with their labels: a pool sees them all.

    Parameters
    ----------
    hypotheses : Hypotheses
        The class the server learns over.
    users : int
        Number of users, 0 ... users - 1.
    epsilon_max, max_reports, protect, delta_max, simulation_seed
        Of each user, as for `LocalClient`.

    Notes
    -----
    Budgets are kept in memory, 40 bytes a user: they end with the pool.
    """

    _copies = "a pool cannot be copied or pickled: copies would spend budgets twice"

    def __init__(
        self,
        hypotheses: Hypotheses,
        users: int,
        epsilon_max: float,
        max_reports: int = 1,
        protect: str = "label",
        *,
        delta_max: float = 0.0,
        simulation_seed: int | None = None,
    ) -> None:
        super().__init__(hypotheses, epsilon_max, max_reports, protect, delta_max, simulation_seed)
        self._users = positive_int("users", users, maximum=2**31)
        self._ledgers = Ledgers(self._users)

    def respond(
        self, spec: RoundSpec | bytes, x: Any, labels: Any, users: Any = None
    ) -> ReportBatch:
        """Return one private report of each user named, and charge their ledgers.

        Parameters
        ----------
        spec : RoundSpec or bytes
            The round to answer.
        x : object
            The context all share; with ``protect="label_and_context"`` a sequence of one context a
            user (or None for hypotheses without contexts).
        labels : sequence or integer array of shape (n,)
            One label a user; None, -1 or anything that is no label is "no event". Arrays must be
            of integers or objects.
        users : integer array of shape (n,), optional
            Who reports, each at most once; by default all users, in order.

        Returns
        -------
        ReportBatch
            Row i is the report of ``users[i]``.

        Raises
        ------
        ValueError, TypeError
            As `LocalClient.respond`, and for users unknown or named twice. Nothing changed.
        BudgetExceeded
            If one of the users has not enough budget left: nobody has reported.
        """
        with self._lock:
            self._ledgers.check_process()
            spec = self._checked(spec)
            members = self._members(users)
            count = self._users if members is None else members.size
            _check_labels(labels, spec.labels)
            if len(labels) != count:
                raise ValueError(f"there must be one label for each of {count} users")
            if self._protect == "label_and_context" and x is not None and len(x) != count:
                raise ValueError(f"there must be one context for each of {count} users")
            draw = draws(spec, self._hypotheses, x, labels, self._protect)
            self._ledgers.charge(
                members,
                spec.epsilon,
                spec.delta,
                epsilon_max=self._epsilon_max,
                delta_max=self._delta_max,
                max_reports=self._max_reports,
            )
            values = draw(self._source)
            nonces = self._nonces.words(count) if count else np.zeros(0, dtype=np.uint64)
        return ReportBatch(
            spec.round, spec.digest, spec.channel, nonces, values, self._source.is_seeded
        )

    @property
    def users(self) -> int:
        """Number of users."""
        return self._users

    @property
    def spent(self) -> FloatArray:
        """Epsilon of all reports so far, of each user, shape (users,)."""
        return self._ledgers.spent

    @property
    def reports(self) -> IntArray:
        """Number of reports so far, of each user, shape (users,)."""
        return self._ledgers.reports.copy()

    def can_answer(self, epsilon: float) -> NDArray[np.bool_]:
        """Return which users have budget for a report with `epsilon`, shape (users,)."""
        return self._ledgers.affordable(None, epsilon, self._epsilon_max, self._max_reports)

    def _members(self, users: Any) -> IntArray | None:
        if users is None:
            return None
        try:
            members = np.asarray(users)
        except (TypeError, ValueError):  # the cause's text may quote the argument
            raise TypeError("users must be a sequence of ints") from None
        if members.ndim != 1 or (members.dtype.kind not in "iu" and members.size):
            raise TypeError("users must be a sequence of ints")
        members = members.astype(np.int64)
        if members.size and not 0 <= int(members.min()) <= int(members.max()) < self._users:
            raise ValueError(f"users must be in [0, {self._users})")
        if np.unique(members).size != members.size:
            raise ValueError("a user is named twice")
        return members

    def __repr__(self) -> str:
        simulated = ", simulated" if self._source.is_seeded else ""
        return f"<ClientPool: {self._users} users, protects {self._protect}{simulated}>"


def _check_labels(labels: Any, count: int | None) -> None:
    """Raise for an array that can hold no labels of a finite set: type and shape are public."""
    if count is None or not isinstance(labels, np.ndarray):
        return
    if labels.dtype.kind not in "iuO":
        raise TypeError(f"labels must be integers; got an array of {labels.dtype.name}")
    if labels.ndim != 1:
        raise ValueError(f"labels must have one dimension; got {labels.ndim}")


class Ledgers:
    """Privacy spent and number of reports of every user.

    Sums are kept as two doubles, large and small part: any number of reports adds up exactly to
    within 1e-30, so that a budget for ten reports of 0.1 has room for ten.
    """

    def __init__(self, users: int) -> None:
        self.reports: IntArray = np.zeros(users, dtype=np.int64)
        self._epsilon = np.zeros(users)
        self._epsilon_rest = np.zeros(users)
        self._delta = np.zeros(users)
        self._delta_rest = np.zeros(users)
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
        room = (epsilon_max - total) - rest >= -float(ROUNDING) * epsilon_max
        fits: NDArray[np.bool_] = room & (self.reports[pick] < max_reports)
        return fits

    def charge(
        self,
        members: IntArray | None,
        epsilon: float,
        delta: float,
        *,
        epsilon_max: float,
        delta_max: float,
        max_reports: int,
    ) -> None:
        """Spend for each member (None: all), or raise `BudgetExceeded` and change nothing."""
        pick = slice(None) if members is None else members
        fits = self.affordable(members, epsilon, epsilon_max, max_reports)
        if not fits.all():
            raise BudgetExceeded(f"{int((~fits).sum())} of {fits.size} users have no budget left")
        deltas, rests = _add(self._delta[pick], self._delta_rest[pick], delta)
        if ((delta_max - deltas) - rests < -float(ROUNDING) * delta_max).any():
            raise BudgetExceeded(f"the reports ask for delta = {delta:g}, beyond delta_max")
        self.reports[pick] += 1
        self._epsilon[pick], self._epsilon_rest[pick] = _add(
            self._epsilon[pick], self._epsilon_rest[pick], epsilon
        )
        self._delta[pick], self._delta_rest[pick] = deltas, rests


def _add(total: FloatArray, rest: FloatArray, value: float) -> tuple[FloatArray, FloatArray]:
    """Return the sum of a double-double and a double (Knuth's two-sum, renormalised)."""
    high = total + value
    other = high - total
    low = (total - (high - other)) + (value - other) + rest
    final = high + low
    return final, low - (final - high)
