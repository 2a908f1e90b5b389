"""The book of a ledger: what was charged, what the sums over it admit, and what is left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpoco.accounting._certificate import contradicts_itself
from dpoco.accounting._ledger_sums import (
    CURRENCIES,
    Cost,
    Exact,
    Filter,
    FixedPlan,
    Spent,
    cost_of_guarantee,
    filter_of,
)
from dpoco.accounting._records import of_version_1, read_record
from dpoco.accounting.budget import Budget
from dpoco.accounting.events import cost_of_event
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import BudgetExceeded, CalibrationError, StateError
from dpoco.privacy.neighbours import CHANGES, VIEWS

__all__ = ["Admission", "Book", "Claim", "Entry", "claim_of"]

_KIND, _VERSION = "dpoco.ledger_entry", 2
_FIELDS = frozenset({"label", "change", "view", "unit", "same_unit", "guarantee", "cost"})
_UNITS = {"basic": "epsilon", "gaussian": "mu^2", "renyi": "Renyi divergence"}
_CLOSE = 1e-9  # roundings, of differences and between machines


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


class Admission(NamedTuple):
    """A charge that the book would accept, and the currency that it would be entered in."""

    entry: Entry
    currency: str


class Book:
    """Entries and the sums over them; not safe for threads, and never looks at data.

    Attributes
    ----------
    unit : str or None
        None until the first charge decides it.
    currency : str
        "auto" until the first charge decides it.
    """

    def __init__(
        self,
        budget: Budget,
        change: str,
        view: str,
        unit: str | None,
        currency: str,
        adaptive: bool,
        side_share: float,
    ) -> None:
        self.budget, self.change, self.view, self.unit = budget, change, view, unit
        self.currency, self.adaptive, self.side_share = currency, adaptive, side_share
        self.entries: list[Entry] = []
        self._main, self._side = Exact(), Exact()  # of the prices
        self._plan: FixedPlan | None = FixedPlan()

    def admission(self, claim: Claim, share: float = 1.0) -> Admission:
        """Return how the claim would be entered within `share` of what is left, or raise."""
        cost, condition = self._cost(claim)
        if claim.guarantee is not None and not claim.guarantee.private:
            raise BudgetExceeded(f"{claim.label!r} promises no privacy at all")
        if not self.adaptive:
            return self._admission_to_plan(Entry(claim, cost, Spent(0.0, 0.0), condition), share)
        if self.currency != "auto":
            price, way = self._price(claim.label, cost, self.currency, share)
            return Admission(Entry(claim, cost, price, condition, way), self.currency)
        # The first charge decides: the currency of which it takes the smallest share.
        found: list[tuple[float, str, Spent, str]] = []
        refusals = []
        for currency in CURRENCIES:
            try:
                price, way = self._price(claim.label, cost, currency, share)
                found.append((_share(price, self._filter(currency)), currency, price, way))
            except BudgetExceeded as refusal:
                refusals.append(refusal)
            except CalibrationError:
                continue  # a currency without a limit for this budget; "basic" always has one
        if not found:
            raise refusals[0]
        _, currency, price, way = min(found)
        return Admission(Entry(claim, cost, price, condition, way), currency)

    def restore(self, claim: Claim, way: str) -> None:
        """Enter a charge that was admitted before, paid in the same way.

        Raises
        ------
        BudgetExceeded
            If the sums then exceed their limits by more than rounding.
        """
        if not self.adaptive or self.currency == "auto":
            self.enter(self.admission(claim))
            return
        cost, condition = self._cost(claim)
        rule = self._filter(self.currency)
        price = rule.prices(cost)[way]
        after = self.total(price)
        if not _within(after, rule.limit, 1.0 + _CLOSE):
            raise BudgetExceeded(
                f"{claim.label!r} exceeds the budget of the ledger it is stored in"
            )
        self.enter(Admission(Entry(claim, cost, price, condition, way), self.currency))

    def _cost(self, claim: Claim) -> tuple[Cost, str]:
        """Return what the claim costs for the ledger's change, and the condition in words.

        Proof: docs/privacy/ledger.md, section "Change and view".
        """
        cost, conditions = claim.cost, []
        if self.unit not in (None, claim.unit) and not claim.same_unit:
            raise ValueError(
                f"this ledger protects {self.unit!r}, the guarantee {claim.unit!r}; "
                "same_unit=True promises that they are the same"
            )
        if VIEWS.index(claim.view) < VIEWS.index(self.view):
            raise ValueError(
                f"a guarantee with view {claim.view!r} says nothing in a ledger with view "
                f"{self.view!r}: make the ledger with view={claim.view!r}, which protects less"
            )
        if claim.view != self.view:
            conditions.append(f"what {claim.view} cannot tell, {self.view} cannot tell")
        if self.change == "replace" and claim.change == "zero_out":
            cost = cost.doubled()
            conditions.append("a replaced round counts as one emptied and filled again")
        elif self.change == "zero_out" and claim.change == "replace":
            if claim.view == "server":
                raise ValueError(
                    "a guarantee with view 'server' says nothing about whether a user reports: "
                    "make the ledger with relation='replace'"
                )
            conditions.append("an empty round is processed as a zero record")
        return cost, "; ".join(conditions)

    def _price(self, label: str, cost: Cost, currency: str, share: float) -> tuple[Spent, str]:
        """Return what the charge takes of the sums and how it is paid, or raise if it is much."""
        rule, total = self._filter(currency), self.total()
        left = Spent((rule.limit.main - total.main) * share, (rule.limit.side - total.side) * share)
        # What is left is a difference, and rounded; the sums themselves decide.
        way = rule.choose(cost, Spent(left.main * (1.0 + _CLOSE), left.side * (1.0 + _CLOSE)))
        price = rule.prices(cost)[way]
        fits = _within(self.total(price), rule.limit)
        if fits and (share == 1.0 or _within(price, left)):
            return price, way
        raise BudgetExceeded(
            f"{label!r} costs {_UNITS[currency]} = {price.main:.6g} with delta = "
            f"{price.side:.3g} on the side; left are {max(0.0, left.main):.6g} and "
            f"{max(0.0, left.side):.3g}"
        )

    def enter(self, admission: Admission) -> Entry:
        """Add the entry, and return it."""
        entry = admission.entry
        self.entries.append(entry)
        self._main = self._main.plus(entry.price.main)
        self._side = self._side.plus(entry.price.side)
        self._plan = None if self.adaptive or self._plan is None else self._plan.plus(entry.cost)
        self.currency = admission.currency
        if self.unit is None:
            self.unit = entry.claim.unit
        return entry

    def total(self, more: Spent | None = None) -> Spent:
        """Return the sums over all entries, and over `more`."""
        if more is None:
            return Spent(float(self._main), float(self._side))
        return Spent(float(self._main.plus(more.main)), float(self._side.plus(more.side)))

    def fixed_epsilon(self) -> float:
        """Return epsilon at the budget's delta, had all charges been fixed in advance."""
        return self._fixed().epsilon(self.budget.delta)

    def _fixed(self) -> FixedPlan:
        """Return all charges as a plan; an adaptive ledger adds them up when it is asked."""
        if self._plan is None:
            self._plan = FixedPlan()
            for entry in self.entries:
                self._plan = self._plan.plus(entry.cost)
        return self._plan

    def spent(self) -> float:
        """Return the share of the budget that is spent, in [0, 1]."""
        if not self.entries:
            return 0.0
        if not self.adaptive:
            return self.fixed_epsilon() / self.budget.epsilon
        return _share(self.total(), self._filter(self.currency))

    def remaining(self) -> Budget | None:
        """Return what one more charge may spend; None if that is nothing."""
        if not self.entries:
            return self.budget
        if not self.adaptive:
            epsilon = self.budget.epsilon - self.fixed_epsilon()
            return Budget._derived(epsilon, 0.0) if epsilon > 0.0 else None
        rule, total = self._filter(self.currency), self.total()
        left = rule.limit.main - total.main
        if not left > 0.0:
            return None
        if self.currency == "basic":
            return Budget._derived(left, self.side_left())
        square = left if self.currency == "gaussian" else 2.0 * left / rule.order
        epsilon = gaussian_epsilon(math.sqrt(square) * (1.0 - _CLOSE), self.budget.delta)
        epsilon = min(epsilon, self.budget.epsilon)  # infinite for budgets beyond all reason
        return Budget._derived(epsilon, self.budget.delta) if epsilon > 0.0 else None

    def side_left(self) -> float:
        """Return what is left of delta on the side; all of the budget's in "basic"."""
        return max(0.0, self._filter(self.currency).limit.side - self.total().side)

    def _admission_to_plan(self, entry: Entry, share: float) -> Admission:
        delta, before = self.budget.delta, self.fixed_epsilon()
        epsilon = self._fixed().plus(entry.cost).epsilon(delta)
        if not epsilon <= before + share * (self.budget.epsilon - before):
            raise BudgetExceeded(
                f"{entry.label!r} would lift the whole to epsilon = {epsilon:.6g} at delta = "
                f"{delta:.6g}, over the budget's {self.budget.epsilon:.6g}"
            )
        return Admission(entry, self.currency)

    def _filter(self, currency: str) -> Filter:
        return filter_of(currency, self.budget, self.side_share)


def _share(amount: Spent, rule: Filter) -> float:
    """Return the share of the limits that an amount takes."""
    main = amount.main / rule.limit.main
    if rule.currency == "basic" and rule.limit.side > 0.0:
        return max(main, amount.side / rule.limit.side)
    return main


def _within(amount: Spent, limit: Spent, factor: float = 1.0) -> bool:
    return amount.main <= limit.main * factor and amount.side <= limit.side * factor
