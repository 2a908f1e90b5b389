"""The ledger of a journal: charged in the transaction that stores what it is charged for."""

from __future__ import annotations

from typing import Any

from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.ledger import Ledger
from dpoco.errors import StateError
from dpoco.journal._store import Store

__all__ = ["Accounts"]

_LEDGER = "ledger"


class Accounts:
    """What was charged, in the store; a copy in memory is kept as long as nothing fails."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ledger: Ledger | None = None
        self._read = False

    def found(self, ledger: Ledger | None) -> None:
        """Store the ledger of a new journal."""
        if ledger is not None:
            self._store.put_value(_LEDGER, ledger.to_json())

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
            self._store.put_value(_LEDGER, ledger.to_json())

    def charge_again(self, guarantee: Guarantee, label: str) -> None:
        """Charge what was charged before; what was promised about its unit holds again."""
        ledger = self._current()
        self.charge(guarantee, label, same_unit=ledger.unit != guarantee.unit)

    def snapshot(self) -> Ledger | None:
        """Return a copy of the stored ledger."""
        text = self._store.value(_LEDGER)
        return None if text is None else Ledger.from_json(text)

    def forget(self) -> None:
        """Read again what is stored, after a transaction that failed."""
        self._ledger, self._read = None, False

    def _current(self) -> Any:
        if not self._read:
            self._ledger, self._read = self.snapshot(), True
        return self._ledger
