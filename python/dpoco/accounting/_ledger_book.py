"""The book of a ledger: what was charged, what the sums over it admit, and what is left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
from dpoco.accounting._records import check_types, of_version_1, read_record
from dpoco.accounting._words import DOUBLED, INDEPENDENT, PROMISED, UNSEEN
from dpoco.accounting.budget import Budget
from dpoco.accounting.events import cost_of_event
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import BudgetExceeded, CalibrationError, StateError
from dpoco.privacy.neighbours import VIEWS, Neighbours

__all__ = ["Book", "Claim", "Entry", "claim_of"]

_KIND, _VERSION = "dpoco.ledger_entry", 2
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("label", "change", "view", "unit"), (str,)), "same_unit": (bool,)
}  # fmt: skip
_FIELDS = frozenset({*_TYPES, "guarantee", "cost"})
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
        own = {name: getattr(self, name) for name in _TYPES}
        guarantee, cost = self.guarantee, None if self.guarantee else self.cost.to_dict()
        stored = None if guarantee is None else guarantee.to_dict()
        return {"kind": _KIND, "version": _VERSION, **own, "guarantee": stored, "cost": cost}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Claim:
        """Return the claim written by `to_dict`; `StateError` or `ValueError` if it is not one."""
        if isinstance(record, Mapping):
            record = of_version_1(record)
        body = read_record(record, kind=_KIND, version=_VERSION, fields=_FIELDS)
        check_types(body, _TYPES)
        own = {name: body[name] for name in _TYPES}
        Neighbours(body["change"], body["view"])  # raises for what is none
        if body["guarantee"] is None:
            return cls(**own, guarantee=None, cost=Cost.from_dict(body["cost"]))
        guarantee = Guarantee.from_dict(body["guarantee"])
        if any(getattr(guarantee, name) != own[name] for name in ("change", "view", "unit")):
            raise StateError("malformed ledger entry")
        return cls(**own, guarantee=guarantee, cost=cost_of_guarantee(guarantee))


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


@dataclass
class Book:
    """Entries and the sums over them; not safe for threads, and never looks at data.

    `unit` is None, and `currency` "auto", until the first charge decides them; the rest as of
    `dpoco.accounting.ledger.Ledger`.
    """

    budget: Budget
    change: str
    view: str
    unit: str | None
    currency: str
    adaptive: bool
    side_share: float
    entries: list[Entry] = field(default_factory=list)
    _main: Exact = field(default_factory=Exact)  # of the prices
    _side: Exact = field(default_factory=Exact)
    _plan: FixedPlan | None = field(default_factory=FixedPlan)

    def admission(self, claim: Claim, share: float = 1.0) -> tuple[Entry, str]:
        """Return the entry that the claim would be within `share` of what is left, or raise.

        And the currency that it would be entered in.
        """
        cost, condition = self._cost(claim)
        if claim.guarantee is not None and not claim.guarantee.private:
            raise BudgetExceeded(f"{claim.label!r} promises no privacy at all")
        try:
            return self._admitted(claim, cost, condition, share)
        except BudgetExceeded as refusal:
            if not condition:
                raise
            raise BudgetExceeded(f"{refusal}. {condition}") from None

    def _admitted(
        self, claim: Claim, cost: Cost, condition: str, share: float
    ) -> tuple[Entry, str]:
        """Return what `admission` does, for a claim of this cost."""
        if not self.adaptive:
            entry = Entry(claim, cost, Spent(0.0, 0.0), condition)
            self._check_plan(entry, share)
            return entry, self.currency
        # The first charge decides: the currency of which it takes the smallest share.
        open_ = self.currency == "auto"
        found: list[tuple[float, str, Spent, str]] = []
        refusals = []
        for currency in CURRENCIES if open_ else (self.currency,):
            try:
                price, way = self._price(claim.label, cost, currency, share)
                found.append((_share(price, self._filter(currency)), currency, price, way))
            except BudgetExceeded as refusal:
                refusals.append(refusal)
            except CalibrationError:
                if not open_:
                    raise
                # a currency without a limit for this budget; "basic" always has one
        if not found:
            raise refusals[0]
        _, currency, price, way = min(found)
        return Entry(claim, cost, price, condition, way), currency

    def restore(self, claim: Claim, way: str) -> None:
        """Enter a charge that was admitted before, paid in the same way.

        Raises
        ------
        BudgetExceeded
            If the sums then exceed their limits by more than rounding.
        """
        if not self.adaptive or self.currency == "auto":
            self.enter(*self.admission(claim))
            return
        cost, condition = self._cost(claim)
        rule = self._filter(self.currency)
        price = rule.prices(cost)[way]
        after = self.total(price)
        if not _within(after, rule.limit, 1.0 + _CLOSE):
            raise BudgetExceeded(
                f"{claim.label!r} exceeds the budget of the ledger it is stored in"
            )
        self.enter(Entry(claim, cost, price, condition, way), self.currency)

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
                f"a guarantee with view {claim.view!r} does not cover a ledger with view "
                f"{self.view!r}: make the ledger with view={claim.view!r}, which protects less"
            )
        if claim.view != self.view:
            conditions.append(f"What {claim.view} cannot tell, {self.view} cannot tell.")
        if self.change == "replace" and claim.change == "zero_out":
            cost = cost.doubled()
            conditions.append(DOUBLED)
        elif self.change == "zero_out" and claim.change == "replace":
            if claim.view == "server":
                raise ValueError(
                    "a guarantee with view 'server' does not cover whether a user reports: "
                    "make the ledger with relation='replace'"
                )
            conditions.append("The learner treats an empty round as a zero record.")
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

    def enter(self, entry: Entry, currency: str) -> Entry:
        """Add the entry, and return it."""
        self.entries.append(entry)
        self._main = self._main.plus(entry.price.main)
        self._side = self._side.plus(entry.price.side)
        self._plan = None if self.adaptive or self._plan is None else self._plan.plus(entry.cost)
        self.currency = currency
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
        """Return what one more charge may spend; None if that is nothing but roundings."""
        if not self.entries:
            return self.budget
        if not self.adaptive:
            epsilon = self.budget.epsilon - self.fixed_epsilon()
            some = epsilon > _CLOSE * self.budget.epsilon
            return Budget._derived(epsilon, 0.0) if some else None
        rule, total = self._filter(self.currency), self.total()
        left = rule.limit.main - total.main
        if not left > _CLOSE * rule.limit.main:
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

    def _check_plan(self, entry: Entry, share: float) -> None:
        delta, before = self.budget.delta, self.fixed_epsilon()
        epsilon = self._fixed().plus(entry.cost).epsilon(delta)
        if not epsilon <= before + share * (self.budget.epsilon - before):
            raise BudgetExceeded(
                f"{entry.label!r} would raise the total to epsilon = {epsilon:.6g} at delta = "
                f"{delta:.6g}, above the budget's {self.budget.epsilon:.6g}"
            )

    def guarantee(self, unit: str, way: str) -> Guarantee:
        """Return what holds for all entries together; `way` says how they add up."""
        entries = self.entries
        guarantees = [entry.claim.guarantee for entry in entries]
        epsilon = self.budget.epsilon if self.adaptive else self.fixed_epsilon()
        horizons = [g.horizon for g in guarantees if g is not None]
        labels = ", ".join(entry.label for entry in entries) or "nothing yet"
        fixed = (
            "Charges may depend on releases, but not on the data themselves."
            if self.adaptive
            else "The operator fixed all charges before the first release."
        )
        conditions = [
            fixed,
            "The operator charges everything to this ledger that is released from the data, before "
            "it is released.",
            INDEPENDENT,
            "One change of the data changes at most one unit of what each learner sees.",
            *dict.fromkeys(entry.condition for entry in entries if entry.condition),
        ]
        if any(entry.claim.same_unit for entry in entries):
            conditions.append(f"{PROMISED}all charges are about {unit}.")
        if self.view == "others":
            conditions.append(UNSEEN)
        conditions += dict.fromkeys(
            f"{entry.label}: {text}"
            for entry, g in zip(entries, guarantees, strict=True)
            if g is not None
            for text in g.conditions
        )
        return Guarantee(
            epsilon=epsilon,
            delta=self.budget.delta,
            change=self.change,
            view=self.view,
            unit=unit,
            horizon=max(horizons, default=1),
            mechanism=f"everything charged to a ledger ({labels})",
            seeded=any(g is not None and g.seeded for g in guarantees),
            certified=all(g is None or g.certified for g in guarantees),
            reference=f"{way}; docs/privacy/ledger.md",
            conditions=tuple(conditions),
        )

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
