"""What many users have spent, in arrays: the ledgers of a pool."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from dpoco.errors import BudgetExceeded, StateError
from dpoco.local._ledger import ROUNDING

__all__ = ["Ledgers"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
