"""One budget for many learners on the same data; charges that exceed it are refused.

Claim: a ledger admits a charge only if its sums stay within the limits of its currency, and returns
a learner only after admitting its guarantee. Then all releases of the learners opened through it
are together (epsilon, delta)-private, whichever learners are opened, whatever their parameters,
however these choices react to earlier releases, and however the rounds of the learners interleave.

Proof: ``docs/privacy/ledger.md``, with sources (filters: Rogers et al., 2016; Feldman and Zrnic,
2021; Smith and Thakurta, 2022; interleaving: Lyu, 2022; Vadhan and Zhang, 2023; both: Haney et al.,
2023; data that react to releases: Henzinger, Safavi and Vadhan, 2024).
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from dpoco import _literals as literals
from dpoco._html import as_html
from dpoco._json import check_types, of_json, read_record
from dpoco._validation import Fields, Named, choice, real_float
from dpoco.accounting import conditions as say
from dpoco.accounting._certificate import contradicts_itself, upgrade_version_1
from dpoco.accounting._ledger_sums import (
    CURRENCIES,
    WAYS,
    Cost,
    Exact,
    Filter,
    Spent,
    fixed_epsilon,
    largest_fitting,
    make_filter,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.events import Event, event_loss
from dpoco.accounting.explanation import neighbours
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import BudgetExceeded, CalibrationError, StateError
from dpoco.privacy.losses.combined import least, with_tails
from dpoco.privacy.losses.loss import Pure
from dpoco.privacy.neighbours import CHANGES, VIEWS, Neighbours

__all__ = ["Entry", "Ledger"]

_KIND, _ENTRY, _VERSION = "dpoco.ledger", "dpoco.ledger_entry", 2
_OPTIONS = frozenset({"relation", "view", "unit", "currency", "adaptive", "side_share"})
_FIELDS = _OPTIONS | {"budget", "entries", "ways"}
_CLAIMED: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("label", "change", "view", "unit"), (str,)), "same_unit": (bool,)
}  # fmt: skip
_UNIT, _ANY_UNIT = "one round", "the unit of the first charge"
_NOTHING = Spent(0.0, 0.0)
_CLOSE = 1e-9  # relative tolerance for rounding of differences and between machines
_Opened = TypeVar("_Opened")

# What is added up in each currency, in words.
_AMOUNTS = {"basic": "epsilon", "gaussian": "mu^2", "renyi": "Renyi divergence"}
_ADDS_UP = {
    "auto": "decided by the first charge",
    "basic": "epsilons and deltas add up",
    "gaussian": "squares of the GDP parameters add up",
    "renyi": "Renyi divergences of one order add up",
    "smallest bound": "the smallest bound of a plan that was fixed in advance",
}
_REFUSED = (
    "{label!r} costs {amount} = {price.main:.6g} with delta = {price.side:.3g} on the side; left "
    "are {main:.6g} and {side:.3g}"
)
_REPORT = """\
Privacy ledger: epsilon = {budget.epsilon:.6g}, delta = {budget.delta:.6g} for everything charged
{neighbours}
              beyond what the budget allows
  Currency:   {currency}: {adds_up}{reacting}
  Spent:      {spent:.2%}
  Left:       {left}
{so_far}\
  Charges:    {number}
{charges}\
  Proof:      docs/privacy/ledger.md"""
_SO_FAR = (
    "  So far:     epsilon = {:.6g} at the same delta, had these charges been fixed in advance\n"
)


@dataclass(frozen=True)
class Entry:
    """One charge: a guarantee or a ``dp_accounting`` event.

    Attributes
    ----------
    label : str
        What the charge is for.
    change, view, unit : str
        Change, view and unit of the charge, as in `Guarantee`.
    same_unit : bool
        Whether the caller promises that this unit is the ledger's under another name.
    guarantee : Guarantee or None
        The guarantee; None for an event.
    charged : Cost
        Cost for the change `change`.
    cost : Cost
        Cost for the ledger's change.
    condition : str
        Condition under which change and view count as the ledger's; may be empty.
    price : Spent
        Amounts added to the ledger's sums.
    way : str
        Way of paying: by the "parts" of the loss, or by its "point" (epsilon, delta).
    """

    label: str
    change: str
    view: str
    unit: str
    same_unit: bool
    guarantee: Guarantee | None
    charged: Cost
    cost: Cost
    condition: str
    price: Spent = _NOTHING
    way: str = "parts"

    @property
    def certified(self) -> bool:
        """Whether the charge follows from a description, and no promise of the caller is needed."""
        found = self.guarantee
        return found is not None and found.certified and not self.same_unit

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary of the charge."""
        own = {name: getattr(self, name) for name in _CLAIMED}
        stored = None if self.guarantee is None else self.guarantee.to_dict()
        cost = self.charged.to_dict() if self.guarantee is None else None
        return {"kind": _ENTRY, "version": _VERSION, **own, "guarantee": stored, "cost": cost}

    def text(self, currency: str) -> str:
        """Return the charge and its price as text for a report."""
        point, price = f"epsilon = {self.cost.epsilon:.6g} at delta = {self.cost.delta:.3g}", ""
        if currency in ("gaussian", "renyi"):
            name = "mu^2" if currency == "gaussian" else "divergence"
            price = f"{name} {self.price.main:.4g}"
        side = f"delta {self.price.side:.3g} on the side"
        known = [point] * math.isfinite(self.cost.epsilon) + [price] * bool(price)
        known += [side] * bool(price and self.price.side > 0.0)
        doubt = "" if self.certified else ", NOT CERTIFIED"
        # A line feed in a label must not begin a line that looks like another charge or a verdict.
        return f"{' '.join(self.label.split())}: {', '.join(known) or 'an event'}{doubt}"


class Ledger:
    """A privacy budget for everything that is released from the same data.

    Parameters
    ----------
    budget : Budget
        Budget of all charges together.
    relation : {"replace", "zero_out"}
        The change of the data: see `Guarantee.change`. Guarantees for the other change are
        converted where this is proved, and refused elsewhere. A ledger about "replace" charges a
        guarantee about "zero_out" twice (epsilon 8 as 16), and `report` says so; a ledger about
        "zero_out" charges it once.
    view : {"everyone", "others", "server"}
        Who cannot tell streams apart: see `Guarantee.view`. Guarantees that protect against fewer
        observers are refused.
    unit : str, optional
        Unit of one change of the data; default: that of the first charge. All charges must be about
        the same unit of the same data.
    currency : {"auto", "basic", "gaussian", "renyi"}
        Currency in which charges add up. "basic": epsilons and deltas. "gaussian": mu^2, exact for
        Gaussian noise. "renyi": Renyi divergences of one order, best for selections and other
        noise. "auto": the currency in which the first charge takes the smallest share; "basic" if
        the budget's delta is 0.
    adaptive : bool
        False promises that all charges were fixed before the first release. The smallest of all
        composition bounds then counts, and no currency needs to be chosen.
    side_share : float
        Share of delta kept for truncated tails and for charges known only by (epsilon, delta); in
        [0, 1). Not used by "basic".

    Notes
    -----
    Methods may be called from several threads. A process forked from its owner can read the ledger,
    but can neither charge nor store it (`StateError`). A ledger in memory ends with its process:
    store it with `to_json` and `from_json`. Copies would fork the budget and are refused.

    Examples
    --------
    >>> from dpoco.accounting import Budget, sum_release
    >>> from dpoco.accounting.ledger import Ledger
    >>> ledger = Ledger(Budget(1.0, 1e-6))
    >>> half = Budget(0.5, 1e-6)
    >>> plan = sum_release.calibrate(3, horizon=100, budget=half)
    >>> entry = ledger.charge(sum_release.guarantee(plan, budget=half), "running sums")
    >>> f"{ledger.spent:.0%} spent, epsilon = {ledger.remaining.epsilon:.2f} left"
    '28% spent, epsilon = 0.84 left'
    """

    def __init__(
        self,
        budget: Budget,
        *,
        relation: literals.Relation = "replace",
        view: literals.View = "everyone",
        unit: str | None = None,
        currency: literals.Currency = "auto",
        adaptive: bool = True,
        side_share: float = 0.01,
    ) -> None:
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget; got {type(budget).__name__}")
        if not isinstance(adaptive, bool):
            raise TypeError("adaptive must be a bool")
        share = real_float("side_share", side_share)
        if not 0.0 <= share < 1.0:
            raise ValueError(f"side_share must be in [0, 1); got {share!r}")
        if not (unit is None or isinstance(unit, str)):
            raise TypeError(f"unit must be a text; got {type(unit).__name__}")
        choice("currency", currency, ("auto", *CURRENCIES))
        # The filters of the other currencies require a positive delta.
        if budget.delta == 0.0:
            if currency in ("gaussian", "renyi"):
                raise CalibrationError(f"the currency {currency!r} needs delta > 0")
            currency = "basic"
        Neighbours(relation, view)  # raises for an unknown relation or view
        self._budget, self._change, self._view, self._unit = budget, relation, view, unit
        self._currency: str = currency
        self._adaptive, self._side_share = adaptive, share
        if adaptive and currency in ("gaussian", "renyi"):
            self._filter(currency)  # raises if the currency has no limit for this budget
        self._entries: list[Entry] = []
        self._main, self._side = Exact(), Exact()  # sums of the prices
        self._lock = threading.RLock()
        self._owner = os.getpid()

    @property
    def budget(self) -> Budget:
        """Budget of all charges together."""
        return self._budget

    @property
    def relation(self) -> str:
        """The change of the data: see `Guarantee.change`."""
        return self._change

    @property
    def view(self) -> str:
        """Who cannot tell streams apart: see `Guarantee.view`."""
        return self._view

    @property
    def unit(self) -> str | None:
        """Unit of one change of the data; None before the first charge."""
        return self._unit

    @property
    def adaptive(self) -> bool:
        """Whether charges may depend on what was released."""
        return self._adaptive

    @property
    def currency(self) -> str:
        """Currency of the charges; "auto" before the first charge, "smallest bound" if fixed."""
        return self._currency if self._adaptive else "smallest bound"

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The admitted charges, in order."""
        with self._reading():
            return tuple(self._entries)

    @property
    def spent(self) -> float:
        """Share of the budget that is spent, in [0, 1], in the ledger's currency."""
        with self._reading():
            if not self._entries:
                return 0.0
            if not self._adaptive:
                return self._fixed_epsilon() / self._budget.epsilon
            return _share(self._total(), self._filter(self._currency))

    @property
    def remaining(self) -> Budget | None:
        """Budget for one more charge; None if nothing is left.

        In the currencies "gaussian" and "renyi", a mechanism with Gaussian noise that is calibrated
        to it by its exact curve is admitted. In "basic", any mechanism that states it is admitted;
        in a fixed plan, a purely private one (delta is 0). `open` finds the budget for other
        mechanisms.
        """
        with self._reading():
            if not self._entries:
                return self._budget
            if not self._adaptive:
                epsilon = self._budget.epsilon - self._fixed_epsilon()
                some = epsilon > _CLOSE * self._budget.epsilon
                return Budget._derived(epsilon, 0.0) if some else None
            rule, total = self._filter(self._currency), self._total()
            left = rule.limit.main - total.main
            # Do not offer a remainder of the size of rounding errors, because no charge would fit.
            if not left > _CLOSE * rule.limit.main:
                return None
            if self._currency == "basic":
                return Budget._derived(left, self._side_left())
            # The divergence of a mu-GDP mechanism is order * mu^2 / 2, which gives the remaining
            # mu^2.
            square = left if self._currency == "gaussian" else 2.0 * left / rule.order
            epsilon = gaussian_epsilon(math.sqrt(square) * (1.0 - _CLOSE), self._budget.delta)
            epsilon = min(epsilon, self._budget.epsilon)  # infinite for absurdly large budgets
            return Budget._derived(epsilon, self._budget.delta) if epsilon > 0.0 else None

    def charge(
        self,
        item: Guarantee | Event,
        label: str,
        *,
        relation: str | None = None,
        unit: str | None = None,
        same_unit: bool = False,
    ) -> Entry:
        """Admit a charge, or raise without spending anything.

        Parameters
        ----------
        item : Guarantee or dp_accounting.DpEvent
            Guarantee or event of the planned releases; an event is read under ``REPLACE_SPECIAL``.
        label : str
            What the charge is for.
        relation, unit : str, optional
            Change and unit of an event; default: the ledger's, as for its view. A guarantee states
            its own.
        same_unit : bool
            Promise that the guarantee's unit is the ledger's unit under another name, for example
            "one record" for "one round". It becomes a condition of the ledger's guarantee.

        Returns
        -------
        Entry
            The charge with its price in the ledger's currency.

        Raises
        ------
        BudgetExceeded
            If the remaining budget does not cover it. The ledger is unchanged.
        StateError
            In a process forked from the ledger's owner.
        ValueError
            If the guarantee is about another unit, or does not cover the ledger's neighbours.
        """
        with self._spending():
            return self._enter(*self._admission(item, label, relation, unit, same_unit))

    def affordable(self, item: Guarantee | Event, *, same_unit: bool = False) -> bool:
        """Return whether `charge` would admit this now.

        Parameters
        ----------
        item, same_unit
            See `charge`; the errors are the same except for `BudgetExceeded`.
        """
        with self._spending():
            try:
                self._admission(item, "a question", None, None, same_unit)
            except BudgetExceeded:
                return False
            return True

    def open(
        self,
        make: Callable[[Budget], _Opened],
        label: str,
        *,
        share: float = 1.0,
        same_unit: bool = False,
    ) -> _Opened:
        """Build, charge and return the learner with the largest budget that still fits.

        Parameters
        ----------
        make : callable
            Function from a budget to a new learner with that budget (anything with a `guarantee`).
            It is called up to 30 times with different budgets. All but one of the learners are
            dropped before they have released anything.
        label : str
            What the charge is for.
        share : float
            Largest share of the remaining budget to use, in (0, 1].
        same_unit : bool
            See `charge`.

        Returns
        -------
        object
            The learner, with its guarantee charged; within 0.1 % of the largest epsilon that fits.

        Raises
        ------
        BudgetExceeded
            If no learner fits. A `CalibrationError` of `make` counts as "does not fit".
        RuntimeError
            If `make` itself charged this ledger. That charge remains, and no learner is returned.
        """
        portion = real_float("share", share)
        if not 0.0 < portion <= 1.0:
            raise ValueError(f"share must be in (0, 1]; got {share!r}")
        with self._spending():
            basic, before = self._currency == "basic", len(self._entries)
            delta = self._side_left() * portion if basic else self._budget.delta

            def attempt(epsilon: float) -> tuple[_Opened, tuple[Entry, str]] | None:
                try:
                    # A caller's function may do anything, even charge this ledger, which is checked
                    # afterwards.
                    learner: Any = make(Budget(epsilon, delta))
                    asked = (learner.guarantee, label, None, None, same_unit, portion)
                    return learner, self._admission(*asked)
                except (BudgetExceeded, CalibrationError):
                    return None

            found = largest_fitting(attempt, self._budget.epsilon)
            if len(self._entries) != before:
                raise RuntimeError("make must not charge the ledger that it builds for")
            if found is None:
                raise BudgetExceeded(f"nothing fits into the rest of the budget for {label!r}")
            learner, admission = found
            self._enter(*admission)
            return learner

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of all charges; for an adaptive ledger, also of all future charges."""
        with self._reading():
            return self._sum_up(self._unit or _UNIT)

    def report(self) -> str:
        """Return the charges and the remaining budget, in several lines."""
        with self._reading():
            return self._text()

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary that `from_dict` restores."""
        with self._spending():
            return {
                "kind": _KIND,
                "version": _VERSION,
                "budget": self._budget.to_dict(),
                "relation": self._change,
                "view": self._view,
                "unit": self._unit,
                "currency": self._currency,
                "adaptive": self._adaptive,
                "side_share": self._side_share,
                "entries": [entry.to_dict() for entry in self._entries],
                "ways": [entry.way for entry in self._entries],
            }

    @classmethod
    def from_dict(cls, record: Named) -> Ledger:
        """Return the ledger written by `to_dict`; all charges are added up again.

        Raises
        ------
        StateError
            If it is not a ledger, if its numbers contradict each other, or if its charges exceed
            its budget.
        """
        if isinstance(record, Mapping):
            record = _upgrade_record(record)
        body = read_record(record, kind=_KIND, version=_VERSION, fields=_FIELDS)
        check_types(body, {"entries": (list,), "ways": (list,)})
        rows, ways = body["entries"], body["ways"]
        # The first charge decides the unit and the currency.
        open_ = body["unit"] is None or (body["adaptive"] and body["currency"] == "auto")
        if (rows and open_) or any(way not in WAYS for way in ways):
            raise StateError("malformed ledger record")
        try:
            ledger = cls(Budget.from_dict(body["budget"]), **{n: body[n] for n in _OPTIONS})
            for row, way in zip(rows, ways, strict=True):
                ledger._restore(row, way)
        except (TypeError, ValueError, CalibrationError, BudgetExceeded) as error:
            raise StateError("malformed ledger record") from error
        return ledger

    def to_json(self) -> str:
        """Return the ledger as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Return the ledger written by `to_json`; `StateError` for anything else."""
        return cls.from_dict(of_json(text))

    def __reduce__(self) -> NoReturn:
        """Raise, because a copy would spend the same budget a second time."""
        raise TypeError("a ledger cannot be copied: store it with to_json, and continue it once")

    def __repr__(self) -> str:
        """Return the ledger in one line."""
        return (
            f"<Ledger: {len(self.entries)} charges, {self.spent:.1%} of epsilon = "
            f"{self.budget.epsilon:.6g}, delta = {self.budget.delta:.6g} spent, "
            f"{self.relation} {self.unit or '?'}, seen by {self.view}, currency {self.currency}>"
        )

    def _repr_html_(self) -> str:
        """Return the report for notebooks."""
        return as_html(self.report())

    def __str__(self) -> str:
        """Return the report."""
        return self.report()

    def _spending(self) -> AbstractContextManager[object]:
        """Return the lock, or raise in a forked child: other processes would miss its charges."""
        if os.getpid() != self._owner:
            raise StateError(
                "this ledger was inherited through fork: two processes would spend one budget; "
                "charge it in the process that made it, or keep it in a dpoco.journal.Journal"
            )
        return self._lock

    def _reading(self) -> AbstractContextManager[object]:
        """Return the lock; in a forked child return none, because a lost thread may hold it."""
        return self._lock if os.getpid() == self._owner else nullcontext()

    # -- what is charged ---------------------------------------------------------------------------

    def _admission(
        self,
        item: Guarantee | Event,
        label: str,
        relation: str | None,
        unit: str | None,
        same_unit: bool,
        share: float = 1.0,
    ) -> tuple[Entry, str]:
        """Return the entry and currency of a charge within `share` of the remainder, or raise.

        `relation` and `unit` are for events.
        """
        change = self._change if relation is None else choice("relation", relation, CHANGES)
        if not isinstance(label, str) or not label.strip():
            raise ValueError("label must be a text that says what is charged")
        if isinstance(item, Guarantee):
            if contradicts_itself(item):  # a stored ledger with it could not be read
                raise ValueError("the guarantee's epsilon and its parameters contradict each other")
            return self._admit(self._entry(label, item, same_unit), share)
        words = unit if unit is not None else self._unit or _UNIT
        cost = Cost(event_loss(item))
        entry = self._convert(label, change, self._view, words, same_unit, None, cost)
        return self._admit(entry, share)

    def _entry(self, label: str, g: Guarantee, same_unit: bool) -> Entry:
        """Return the entry of a guarantee, not yet paid."""
        known = g.stated
        # At delta = 0, the stated epsilon is a pure epsilon if it has no charge for tails.
        if g.delta == 0.0 and g.loss.mass == 0.0:
            known = (*known, Pure(g.epsilon))
        cost = Cost(with_tails(least(*known), g.loss.mass), g.epsilon, g.delta)
        return self._convert(label, g.change, g.view, g.unit, same_unit, g, cost)

    def _convert(
        self, label: str, change: str, view: str, unit: str, same_unit: bool,
        guarantee: Guarantee | None, charged: Cost,
    ) -> Entry:  # fmt: skip
        """Return the entry with its cost for the ledger's change, and with the condition in words.

        Proof: docs/privacy/ledger.md, section "Change and view".
        """
        cost, conditions = charged, list[str]()
        if self._unit not in (None, unit) and not same_unit:
            raise ValueError(
                f"this ledger protects {self._unit!r}, the guarantee {unit!r}; "
                "same_unit=True promises that they are the same"
            )
        # Each view sees a function of what the next view sees. So a guarantee for a wider view
        # covers a ledger for a narrower one, but not the reverse.
        if VIEWS.index(view) < VIEWS.index(self._view):
            raise ValueError(
                f"a guarantee with view {view!r} does not cover a ledger with view "
                f"{self._view!r}: make the ledger with view={view!r}, which protects less"
            )
        if view != self._view:
            conditions.append(say.VIEW_COVERS.format(more=view, fewer=self._view))
        # Replacing a record takes two changes: to the empty record and from it to another.
        if self._change == "replace" and change == "zero_out":
            cost = cost.double()
            conditions.append(say.DOUBLED)
        # An empty round is a zero record, which is valid data: one change.
        elif self._change == "zero_out" and change == "replace":
            if view == "server":
                raise ValueError(
                    "a guarantee with view 'server' does not cover whether a user reports: "
                    "make the ledger with relation='replace'"
                )
            conditions.append(say.EMPTY_IS_ZERO)
        condition = "; ".join(conditions)
        return Entry(label, change, view, unit, same_unit, guarantee, charged, cost, condition)

    def _admit(self, entry: Entry, share: float = 1.0) -> tuple[Entry, str]:
        """Return a charge with its price and its currency, or raise."""
        # Seeded noise is charged like other noise; the sum is then not certified.
        if entry.guarantee is not None and not entry.guarantee.private:
            raise BudgetExceeded(f"{entry.label!r} promises no privacy at all")
        try:
            if self._adaptive:
                return self._choose_currency(entry, share)
            self._check_plan(entry, share)
            return entry, self._currency
        except BudgetExceeded as refusal:
            if not entry.condition:
                raise
            raise BudgetExceeded(f"{refusal}. {entry.condition}") from None

    def _choose_currency(self, entry: Entry, share: float) -> tuple[Entry, str]:
        """Return the charge in the currency in which it takes the smallest share."""
        open_ = self._currency == "auto"
        found: list[tuple[float, str, Spent, str]] = []
        refusals = []
        # The first charge precedes all releases, so it may decide the currency
        # (docs/privacy/ledger.md, after Theorem 3).
        for currency in CURRENCIES if open_ else (self._currency,):
            try:
                price, way = self._price(entry, currency, share)
                found.append((_share(price, self._filter(currency)), currency, price, way))
            except BudgetExceeded as refusal:
                refusals.append(refusal)
            except CalibrationError:
                if not open_:
                    raise
                # currencies without a limit for this budget; "basic" always has one
        if not found:
            raise refusals[0]
        _, currency, price, way = min(found)
        return replace(entry, price=price, way=way), currency

    def _price(self, entry: Entry, currency: str, share: float) -> tuple[Spent, str]:
        """Return the price of a charge and the way of paying it, or raise if it exceeds `share`."""
        rule, total = self._filter(currency), self._total()
        left = Spent((rule.limit.main - total.main) * share, (rule.limit.side - total.side) * share)
        # The remainder is a rounded difference, so the sums themselves decide.
        way = rule.choose(entry.cost, Spent(left.main * (1.0 + _CLOSE), left.side * (1.0 + _CLOSE)))
        price = rule.prices(entry.cost)[way]
        fits = _within(self._total(price), rule.limit)
        if fits and (share == 1.0 or _within(price, left)):
            return price, way
        main, side = max(0.0, left.main), max(0.0, left.side)
        raise BudgetExceeded(
            _REFUSED.format(label=entry.label, amount=_AMOUNTS[currency], price=price, main=main,
                            side=side)
        )  # fmt: skip

    def _check_plan(self, entry: Entry, share: float) -> None:
        """Raise `BudgetExceeded` if all charges together exceed the budget of a fixed plan."""
        delta, before = self._budget.delta, self._fixed_epsilon()
        epsilon = self._fixed_epsilon(entry)
        if not epsilon <= before + share * (self._budget.epsilon - before):
            raise BudgetExceeded(
                f"{entry.label!r} would raise the total to epsilon = {epsilon:.6g} at delta = "
                f"{delta:.6g}, above the budget's {self._budget.epsilon:.6g}"
            )

    def _enter(self, entry: Entry, currency: str) -> Entry:
        """Add an admitted charge to the sums; the first charge decides unit and currency."""
        self._entries.append(entry)
        self._main = self._main.plus(entry.price.main)
        self._side = self._side.plus(entry.price.side)
        self._currency = currency
        self._unit = entry.unit if self._unit is None else self._unit
        return entry

    def _restore(self, record: Named, way: str) -> None:
        """Enter a charge that was admitted earlier, paid in the same way.

        Raises
        ------
        BudgetExceeded
            If the sums then exceed their limits by more than rounding.
        """
        if isinstance(record, Mapping):
            record = upgrade_version_1(record)
        fields = frozenset({*_CLAIMED, "guarantee", "cost"})
        body = read_record(record, kind=_ENTRY, version=_VERSION, fields=fields)
        check_types(body, _CLAIMED)
        own = {name: body[name] for name in _CLAIMED}
        Neighbours(body["change"], body["view"])  # raises for an unknown change or view
        if body["guarantee"] is None:
            cost = Cost.from_dict(body["cost"])
            entry = self._convert(**own, guarantee=None, charged=cost)
        else:
            guarantee = Guarantee.from_dict(body["guarantee"])
            if any(getattr(guarantee, name) != own[name] for name in ("change", "view", "unit")):
                raise StateError("malformed ledger entry")
            entry = self._entry(own["label"], guarantee, own["same_unit"])
        if not self._adaptive or self._currency == "auto":
            self._enter(*self._admit(entry))
            return
        rule = self._filter(self._currency)
        price = rule.prices(entry.cost)[way]
        # Another machine may have rounded the prices differently.
        if not _within(self._total(price), rule.limit, 1.0 + _CLOSE):
            raise BudgetExceeded(
                f"{entry.label!r} exceeds the budget of the ledger it is stored in"
            )
        self._enter(replace(entry, price=price, way=way), self._currency)

    # -- sums over charges -------------------------------------------------------------------------

    def _filter(self, currency: str) -> Filter:
        """Return the limits of a currency for this budget."""
        return make_filter(currency, self._budget, self._side_share)

    def _total(self, more: Spent | None = None) -> Spent:
        """Return the sums over all entries and `more`."""
        extra = Spent(0.0, 0.0) if more is None else more
        return Spent(float(self._main.plus(extra.main)), float(self._side.plus(extra.side)))

    def _side_left(self) -> float:
        """Return the remaining separate delta; in "basic", the remaining delta."""
        return max(0.0, self._filter(self._currency).limit.side - self._total().side)

    def _fixed_epsilon(self, *more: Entry) -> float:
        """Return epsilon at the budget's delta as if all charges had been fixed in advance."""
        costs = [entry.cost for entry in (*self._entries, *more)]
        return fixed_epsilon(costs, self._budget.delta)

    # -- statements about all charges --------------------------------------------------------------

    def _sum_up(self, unit: str) -> Guarantee:
        """Return the guarantee of all charges: only epsilon and delta, without a mechanism."""
        entries = self._entries
        guarantees = [(entry.label, entry.guarantee) for entry in entries if entry.guarantee]
        labels = ", ".join(entry.label for entry in entries) or "nothing yet"
        conditions = [
            say.CHARGES_REACT if self._adaptive else say.CHARGES_FIXED,
            say.CHARGED_BEFORE,
            say.INDEPENDENT,
            say.ONE_UNIT_EACH,
            *dict.fromkeys(entry.condition for entry in entries if entry.condition),
            *[say.promise(f"all charges are about {unit}")] * any(e.same_unit for e in entries),
            *[say.UNSEEN] * (self._view == "others"),
            *dict.fromkeys(f"{label}: {text}" for label, g in guarantees for text in g.conditions),
            *[f"{e.label}: {say.promise(say.EVENT)}" for e in entries if e.guarantee is None],
        ]
        return Guarantee(
            # In an adaptive ledger, the spent sum does not prove an epsilon: if charges react to
            # releases, only the limits are proved (docs/privacy/ledger.md, "What the numbers of a
            # running ledger mean").
            epsilon=self._budget.epsilon if self._adaptive else self._fixed_epsilon(),
            delta=self._budget.delta,
            change=self._change,
            view=self._view,
            unit=unit,
            horizon=max((g.horizon for _, g in guarantees), default=1),
            mechanism=f"everything charged to a ledger ({labels})",
            seeded=any(g.seeded for _, g in guarantees),
            certified=all(entry.certified for entry in entries),
            reference=f"{_ADDS_UP[self.currency]}; docs/privacy/ledger.md",
            conditions=tuple(conditions),
        )

    def _text(self) -> str:
        """Return the report."""
        left, entries, so_far = self.remaining, self._entries, ""
        unit = " ".join((self._unit or _ANY_UNIT).split())
        for_one = "nothing"
        if left is not None:
            noise = " with Gaussian noise" if self.currency in ("gaussian", "renyi") else ""
            both = f"epsilon = {left.epsilon:.6g}, delta = {left.delta:.6g}"
            for_one = f"{both} for one more charge{noise}"
        if self._adaptive and entries and math.isfinite(fixed := self._fixed_epsilon()):
            so_far = _SO_FAR.format(fixed)
        charges = ""
        for number, entry in enumerate(entries, 1):
            charges += f"    {number}. {entry.text(self.currency)}\n"
            charges += f"       {entry.condition}\n" if entry.condition else ""
        return _REPORT.format(
            budget=self._budget,
            neighbours=neighbours(self._change, self._view, unit),
            currency=self.currency,
            adds_up=_ADDS_UP[self.currency],
            reacting=" (charges may react to releases)" if self._adaptive else "",
            spent=self.spent,
            left=for_one,
            so_far=so_far,
            number=len(entries) or "none",
            charges=charges,
        )


def _share(amount: Spent, rule: Filter) -> float:
    """Return the share of the limits that an amount uses."""
    main = amount.main / rule.limit.main
    if rule.currency == "basic" and rule.limit.side > 0.0:
        return max(main, amount.side / rule.limit.side)
    return main


def _within(amount: Spent, limit: Spent, factor: float = 1.0) -> bool:
    """Return whether both sums of an amount are within `factor` times the limits."""
    return amount.main <= limit.main * factor and amount.side <= limit.side * factor


def _upgrade_record(record: Named) -> Fields:
    """Split the single relation of an old record into what changes and who observes.

    A ledger for "joint" is read as one for replaced data.
    """
    body = upgrade_version_1(record)
    if "change" in body and record.get("version") == 1:
        change = body.pop("change")
        body["relation"] = "replace" if body["view"] == "others" else change
    return body
