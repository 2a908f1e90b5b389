"""The charges of a journal: its ledger, groups of streams that see disjoint data, and forks.

Claim: take streams such that the record of each person is in only one of them; which one may be
chosen in reaction to everything released. Together they have the guarantee of
`dpoco.accounting.pools.pool_guarantee`: for draws with fresh noise the guarantee of one learner,
for couplings the one with the tails of all streams, for other streams with a purely private
epsilon that epsilon, and for the rest the sum of the deltas of all streams.

Proof: ``docs/privacy/pools.md`` and ``docs/privacy/journal.md``, section "Groups".

A fork has two continuations, accounted as two charges.

Claim: everything that learners with fresh noise release consists of draws. Given all earlier
draws, each draw costs no more than its share of the guarantee. A record that both continuations
see is in the draws before the fork and in both sets of draws after it: together it costs no more
than in two runs. Other learners keep noise across rounds (a noisy threshold, the state of a
coupling); for them this is not proved here.

Proof: ``docs/privacy/journal.md``, section "Forks".
"""

from __future__ import annotations

import json
from typing import Any

from dpoco._validation import positive_int
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.pools import pool_guarantee, read_noise
from dpoco.errors import StateError
from dpoco.journal._rows import Rows
from dpoco.learning.state import Stateful
from dpoco.random import Source

_LEDGER = "ledger"
_LARGEST_GROUP = 2**31


class Accounts:
    """The charges in the store; the copy in memory is valid as long as no write fails."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._ledger: Ledger | None = None
        self._read = False

    def begin(self, given: Ledger | None, *, new: bool) -> None:
        """Store the ledger of a new journal; raise `StateError` if an old one has other terms."""
        if given is None:
            return
        if new:
            self._rows.put_value(_LEDGER, given.to_json())
            return
        stored = self._current()
        if stored is None:
            raise StateError("the journal was made without a ledger")
        theirs, ours = given.to_dict(), stored.to_dict()
        names = ("budget", "relation", "view", "adaptive", "side_share")
        same = all(theirs[name] == ours[name] for name in names)
        # A ledger takes its unit and currency from its first charge, so an uncharged ledger has
        # neither.
        for name, unsaid in (("unit", None), ("currency", "auto")):
            same = same and theirs[name] in (unsaid, ours[name])
        if not same:
            raise StateError(
                "the journal was made with another ledger (its budget or rules differ)"
            )

    def charge(self, guarantee: Guarantee, label: str, *, same_unit: bool = False) -> None:
        """Charge and store, within a transaction; raise `BudgetExceeded` before any change.

        Parameters
        ----------
        guarantee : Guarantee
            Of all that the stream will ever release.
        label : str
            Name of the entry in the ledger.
        same_unit : bool
            As of `Ledger.charge`.
        """
        ledger = self._current()
        if ledger is not None:
            ledger.charge(guarantee, label, same_unit=same_unit)
            self._rows.put_value(_LEDGER, ledger.to_json())

    def charge_again(self, guarantee: Guarantee, label: str) -> None:
        """Charge what was charged before; what was promised about its unit holds again."""
        ledger = self._current()
        if ledger is None:
            raise StateError("a fork is a second charge, but the journal has no ledger to pay it")
        self.charge(guarantee, label, same_unit=ledger.unit != guarantee.unit)

    def join(self, group: str, size: int | None, learner: Any, *, same_unit: bool) -> None:
        """Enter a learner in a group, within a transaction; its first one is charged for all.

        Parameters
        ----------
        group : str
            Name of the group.
        size : int or None
            Largest number of streams; None if the group has one already.
        learner : learner or mechanism
            Of the new stream; all of a group have one guarantee.
        same_unit : bool
            As of `Ledger.charge`.

        Raises
        ------
        CalibrationError
            If the learner's delta does not pay for a group of that size at any epsilon.
        StateError
            If the group is full.
        TypeError, ValueError
            If the group is new and has no size, if it has another one, or other learners.
        """
        place = f"group {group}"
        alike = {
            "kind": learner._kind,
            "guarantee": json.dumps(learner.guarantee.to_dict(), sort_keys=True),
        }
        text = self._rows.value(place)
        if text is None:
            if size is None:
                raise TypeError(
                    "a new group needs group_size, the largest number of streams it will ever have"
                )
            # For all streams that may ever come: whether one is opened may depend on releases.
            whole = pool_guarantee(learner.guarantee, keys=size, noise=read_noise(learner))
            self.charge(whole, place, same_unit=same_unit)
            self._rows.put_value(place, json.dumps({**alike, "size": size, "streams": 1}))
            return
        try:
            record = json.loads(text)
            most, streams = int(record["size"]), int(record["streams"])
            other = record["kind"], Guarantee.from_json(record["guarantee"])
        except (KeyError, TypeError, ValueError, StateError):
            raise StateError("the journal is corrupt: not a group") from None
        if size not in (None, most):
            raise ValueError(f"the group {group!r} was made for {most} streams")
        if other[0] != learner._kind or not _same(other[1], learner.guarantee):
            raise ValueError(
                f"the group {group!r} is charged for another guarantee: its streams must be alike"
            )
        if streams >= most:
            raise StateError(
                f"the group {group!r} is full: it is charged for {most} streams, and ended streams "
                "also count"
            )
        self._rows.put_value(place, json.dumps({**record, "streams": streams + 1}))

    def snapshot(self) -> Ledger | None:
        """Return a copy of the stored ledger."""
        text = self._rows.value(_LEDGER)
        return None if text is None else Ledger.from_json(text)

    def forget(self) -> None:
        """Read again what is stored, after a transaction that failed."""
        self._ledger, self._read = None, False

    def _current(self) -> Ledger | None:
        """Return the ledger in memory, which is read once and changed by charges alone."""
        if not self._read:
            self._ledger, self._read = self.snapshot(), True
        return self._ledger


def _same(one: Guarantee, other: Guarantee) -> bool:
    """Return whether two guarantees say the same, whatever words records of them have."""
    names = ("epsilon", "delta", "neighbours", "unit", "horizon", "description", "seeded")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def checked_size(group: str | None, size: int | None) -> int | None:
    """Return the size that a caller gives a group, or raise for what is none."""
    if group is None and size is not None:
        raise TypeError("group_size needs group")
    if not (group is None or isinstance(group, str)):
        raise TypeError(f"group must be a text; got {type(group).__name__}")
    return None if size is None else positive_int("group_size", size, maximum=_LARGEST_GROUP)


def check_forkable(learner: Stateful) -> None:
    """Raise `TypeError` for a learner whose two continuations no proof covers."""
    if learner._noise != "fresh":
        raise TypeError(
            f"a {learner._kind} cannot be forked: it keeps noise across rounds, and no proof here "
            "covers two continuations of it"
        )


def renew(learner: Stateful) -> None:
    """Give a learner a new key: all noise from here on is fresh, what was drawn stays."""
    claim = Source()._claim()
    learner._engine.rekey(claim["key"], claim["stream"])
