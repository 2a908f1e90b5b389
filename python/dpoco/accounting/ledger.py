"""One budget for many learners on the same data: charges are refused before they are spent.

Claim: a ledger admits a charge only if its sums stay within the limits of its currency, and hands
out a learner only after its guarantee was admitted. Everything that the learners opened through it
release is then together (epsilon, delta)-private, whichever learners are opened, with whichever
parameters, in reaction to whatever was released before, and however their rounds interleave.

Proof: ``docs/privacy/ledger.md``, with sources (filters: Rogers et al., 2016; Feldman and Zrnic,
2021; Smith and Thakurta, 2022; interleaving: Lyu, 2022; Vadhan and Zhang, 2023; both: Haney et al.,
2023; data that react to releases: Henzinger, Safavi and Vadhan, 2024).
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn, TypeVar

from dpoco import _literals as literals
from dpoco._validation import choice, real_float
from dpoco.accounting._ledger_book import Book, Claim, Entry, claim_of
from dpoco.accounting._ledger_sums import CURRENCIES, WAYS, filter_of, largest_fitting
from dpoco.accounting._records import check_types, of_json, of_version_1, read_record
from dpoco.accounting.budget import Budget
from dpoco.accounting.explanation import IN_WORDS, as_html, ledger_text
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import BudgetExceeded, CalibrationError, StateError
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["Entry", "Ledger"]

_KIND, _VERSION = "dpoco.ledger", 2
_OPTIONS = frozenset({"relation", "view", "unit", "currency", "adaptive", "side_share"})
_FIELDS = _OPTIONS | {"budget", "entries", "ways"}
_UNIT = "one round"
_Opened = TypeVar("_Opened")


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
        if budget.delta == 0.0:
            if currency in ("gaussian", "renyi"):
                raise CalibrationError(f"the currency {currency!r} needs delta > 0")
            currency = "basic"
        Neighbours(relation, view)  # raises for what is none
        if adaptive and currency in ("gaussian", "renyi"):
            filter_of(currency, budget, share)  # raises if it has no limit for this budget
        self._book = Book(budget, relation, view, unit, currency, adaptive, share)
        self._lock = threading.RLock()
        self._owner = os.getpid()

    @property
    def budget(self) -> Budget:
        """Budget of all charges together."""
        return self._book.budget

    @property
    def relation(self) -> str:
        """The change of the data: see `Guarantee.change`."""
        return self._book.change

    @property
    def view(self) -> str:
        """Who cannot tell streams apart: see `Guarantee.view`."""
        return self._book.view

    @property
    def unit(self) -> str | None:
        """Unit of one change of the data; None before the first charge."""
        return self._book.unit

    @property
    def adaptive(self) -> bool:
        """Whether charges may depend on what was released."""
        return self._book.adaptive

    @property
    def currency(self) -> str:
        """Currency of the charges; "auto" before the first charge, "smallest bound" if fixed."""
        return self._book.currency if self.adaptive else "smallest bound"

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The admitted charges, in order."""
        with self._reading():
            return tuple(self._book.entries)

    @property
    def spent(self) -> float:
        """Share of the budget that is spent, in [0, 1], in the ledger's currency."""
        with self._reading():
            return self._book.spent()

    @property
    def remaining(self) -> Budget | None:
        """Budget for one more charge; None if nothing is left.

        In the currencies "gaussian" and "renyi", a mechanism with Gaussian noise that is calibrated
        to it by its exact curve is admitted. In "basic", any mechanism that states it is admitted;
        in a fixed plan, a purely private one (delta is 0). `open` finds the budget for other
        mechanisms.
        """
        with self._reading():
            return self._book.remaining()

    def charge(
        self,
        item: Guarantee | Any,
        label: str,
        *,
        relation: str | None = None,
        unit: str | None = None,
        same_unit: bool = False,
    ) -> Entry:
        """Admit a charge, or raise before anything is spent.

        Parameters
        ----------
        item : Guarantee or dp_accounting.DpEvent
            Guarantee or event of what is to be released; an event is read under
            ``REPLACE_SPECIAL``.
        label : str
            What the charge is for.
        relation, unit : str, optional
            Change of an event; default: the ledger's, like its view. A guarantee states its own.
        same_unit : bool
            Promise that the guarantee's unit is the ledger's unit in other words, for example "one
            record" for "one round". It becomes a condition of the whole.

        Raises
        ------
        BudgetExceeded
            If the remaining budget does not pay for it; the ledger is unchanged.
        StateError
            In a process forked from the ledger's.
        ValueError
            If the guarantee is about another unit, or does not cover what the ledger protects.
        """
        with self._spending():
            return self._book.enter(*self._admission(item, label, relation, unit, same_unit))

    def affordable(self, item: Guarantee | Any, *, same_unit: bool = False) -> bool:
        """Return whether `charge` would admit it now."""
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
        """Build, charge and return the learner with the largest budget that the remainder pays for.

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
            As for `charge`.

        Returns
        -------
        object
            The learner, with its guarantee charged; within 0.1 % of the largest epsilon that fits.

        Raises
        ------
        BudgetExceeded
            If none fits. A `CalibrationError` of `make` counts as "does not fit".
        RuntimeError
            If `make` itself charged this ledger, which reduces what is left. That charge stays, and
            no learner is handed out.
        """
        portion = real_float("share", share)
        if not 0.0 < portion <= 1.0:
            raise ValueError(f"share must be in (0, 1]; got {share!r}")
        with self._spending():
            basic, before = self._book.currency == "basic", len(self._book.entries)
            delta = self._book.side_left() * portion if basic else self.budget.delta

            def attempt(epsilon: float) -> tuple[_Opened, tuple[Entry, str]] | None:
                try:
                    learner: Any = make(Budget(epsilon, delta))
                    asked = (learner.guarantee, label, None, None, same_unit, portion)
                    return learner, self._admission(*asked)
                except (BudgetExceeded, CalibrationError):
                    return None

            found = largest_fitting(attempt, self.budget.epsilon)
            if len(self._book.entries) != before:
                raise RuntimeError("make must not charge the ledger that it builds for")
            if found is None:
                raise BudgetExceeded(f"nothing fits into the rest of the budget for {label!r}")
            learner, admission = found
            self._book.enter(*admission)
            return learner

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all charges; for an adaptive ledger also of all future ones."""
        with self._reading():
            return self._book.guarantee(self.unit or _UNIT, IN_WORDS[self.currency])

    def report(self) -> str:
        """Return what was charged and what is left, in several lines."""
        with self._reading():
            return ledger_text(self._book, self.unit, self.currency)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dictionary that `from_dict` restores."""
        with self._spending():
            return {
                "kind": _KIND,
                "version": _VERSION,
                "budget": self.budget.to_dict(),
                "relation": self.relation,
                "view": self.view,
                "unit": self.unit,
                "currency": self._book.currency,
                "adaptive": self.adaptive,
                "side_share": self._book.side_share,
                "entries": [entry.claim.to_dict() for entry in self._book.entries],
                "ways": [entry.way for entry in self._book.entries],
            }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Ledger:
        """Return the ledger written by `to_dict`, with every charge added up again.

        Raises
        ------
        StateError
            If it is not a ledger, if its numbers contradict each other, or if its charges exceed
            its budget.
        """
        if isinstance(record, Mapping):
            record = _of_version_1(record)
        body = read_record(record, kind=_KIND, version=_VERSION, fields=_FIELDS)
        check_types(body, {"entries": (list,), "ways": (list,)})
        rows, ways = body["entries"], body["ways"]
        # The first charge decides unit and currency.
        open_ = body["unit"] is None or (body["adaptive"] and body["currency"] == "auto")
        if (rows and open_) or any(way not in WAYS for way in ways):
            raise StateError("malformed ledger record")
        try:
            ledger = cls(Budget.from_dict(body["budget"]), **{n: body[n] for n in _OPTIONS})
            for row, way in zip(rows, ways, strict=True):
                ledger._book.restore(Claim.from_dict(row), way)
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
        """Raise: a copy would spend the same budget a second time."""
        raise TypeError("a ledger cannot be copied: store it with to_json, and continue it once")

    def __repr__(self) -> str:
        """Return one line."""
        return (
            f"<Ledger: {len(self.entries)} charges, {self.spent:.1%} of epsilon = "
            f"{self.budget.epsilon:.6g}, delta = {self.budget.delta:.6g} spent, "
            f"{self.relation} {self.unit or '?'}, seen by {self.view}, currency {self.currency}>"
        )

    def _repr_html_(self) -> str:
        return as_html(self.report())

    def __str__(self) -> str:
        """Return the report."""
        return self.report()

    def _spending(self) -> AbstractContextManager[Any]:
        """Return the lock, or raise in a forked child, whose charges nobody else would see."""
        if os.getpid() != self._owner:
            raise StateError(
                "this ledger was inherited through fork: two processes would spend one budget; "
                "charge it in the process that made it, or keep it in a dpoco.journal.Journal"
            )
        return self._lock

    def _reading(self) -> AbstractContextManager[Any]:
        """Return the lock; none in a forked child, where a thread that is gone may hold it."""
        return self._lock if os.getpid() == self._owner else nullcontext()

    def _admission(
        self,
        item: Any,
        label: str,
        relation: str | None,
        unit: str | None,
        same_unit: bool,
        share: float = 1.0,
    ) -> tuple[Entry, str]:
        change = self.relation if relation is None else choice("relation", relation, CHANGES)
        words = unit if unit is not None else self.unit or _UNIT
        claim = claim_of(item, label, change, self.view, words, same_unit)
        return self._book.admission(claim, share)


def _of_version_1(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record whose one relation said both what changes and who looks, as two.

    A ledger for "joint" promised it of replaced data.
    """
    body = of_version_1(record)
    if "change" in body and record.get("version") == 1:
        change = body.pop("change")
        body["relation"] = "replace" if body["view"] == "others" else change
    return body
