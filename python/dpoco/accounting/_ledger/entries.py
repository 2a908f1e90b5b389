"""The entries of a ledger: what was charged, and how it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpoco.accounting._certificate import contradicts_itself
from dpoco.accounting._ledger.costs import Cost, cost_of_guarantee
from dpoco.accounting._ledger.currencies import Spent
from dpoco.accounting._ledger.foreign_events import cost_of_event
from dpoco.accounting._records import of_version_1, read_record
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import StateError
from dpoco.privacy.neighbours import CHANGES, VIEWS

__all__ = ["Claim", "Entry", "claim_of"]

_KIND, _VERSION = "dpoco.ledger_entry", 2
_FIELDS = frozenset({"label", "change", "view", "unit", "same_unit", "guarantee", "cost"})


@dataclass(frozen=True)
class Claim:
    """What somebody wants to charge: a guarantee, or the cost of a ``dp_accounting`` event.

    Attributes
    ----------
    label : str
        What it is for.
    change, view, unit : str
        Of what is charged, as in `Guarantee`.
    same_unit : bool
        Whether the caller promises that this unit is the ledger's, in other words.
    guarantee : Guarantee or None
        None for an event.
    cost : Cost
        Under `change`.
    """

    label: str
    change: str
    view: str
    unit: str
    same_unit: bool
    guarantee: Guarantee | None
    cost: Cost

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry."""
        guarantee = None if self.guarantee is None else self.guarantee.to_dict()
        return {
            "kind": _KIND,
            "version": _VERSION,
            "label": self.label,
            "change": self.change,
            "view": self.view,
            "unit": self.unit,
            "same_unit": self.same_unit,
            "guarantee": guarantee,
            "cost": self.cost.to_dict() if guarantee is None else None,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Claim:
        """Return the claim written by `to_dict`; `StateError` if it is not one."""
        if isinstance(record, Mapping):
            record = of_version_1(record)
        body = read_record(record, kind=_KIND, version=_VERSION, fields=_FIELDS)
        texts = (body["label"], body["change"], body["view"], body["unit"])
        if not all(isinstance(text, str) for text in texts):
            raise StateError("malformed ledger entry")
        if not isinstance(body["same_unit"], bool):
            raise StateError("malformed ledger entry")
        if texts[1] not in CHANGES or texts[2] not in VIEWS:
            raise StateError("malformed ledger entry")
        if body["guarantee"] is None:
            return cls(*texts, body["same_unit"], None, Cost.from_dict(body["cost"]))
        guarantee = Guarantee.from_dict(body["guarantee"])
        if (guarantee.change, guarantee.view, guarantee.unit) != texts[1:]:
            raise StateError("malformed ledger entry")
        return cls(*texts, body["same_unit"], guarantee, cost_of_guarantee(guarantee))


@dataclass(frozen=True)
class Entry:
    """One admitted charge.

    Attributes
    ----------
    claim : Claim
        What was charged.
    cost : Cost
        Its cost for the ledger's change.
    price : Spent
        What it took of the ledger's sums.
    condition : str
        Under which its change and view count as the ledger's; may be empty.
    way : str
        How it was paid: by its "parts", or by its "point" (epsilon, delta).
    """

    claim: Claim
    cost: Cost
    price: Spent
    condition: str
    way: str = "parts"

    @property
    def label(self) -> str:
        """What the charge is for."""
        return self.claim.label


def claim_of(item: Any, label: str, change: str, view: str, unit: str, same_unit: bool) -> Claim:
    """Return the claim of a guarantee or of an event; `change` to `unit` are for events.

    Raises
    ------
    TypeError
        If `item` is neither.
    ValueError
        If a guarantee contradicts itself: once stored, it would not be read again.
    """
    if not isinstance(label, str) or not label.strip():
        raise ValueError("label must be a text that says what is charged")
    if isinstance(item, Guarantee):
        if contradicts_itself(item):
            raise ValueError("the guarantee's epsilon and its parameters contradict each other")
        meant = (item.change, item.view, item.unit)
        return Claim(label, *meant, same_unit, item, cost_of_guarantee(item))
    return Claim(label, change, view, unit, same_unit, None, cost_of_event(item))
