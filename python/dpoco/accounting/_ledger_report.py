"""The guarantee and the text of a ledger."""

from __future__ import annotations

import math

from dpoco.accounting._ledger_book import Book, Entry
from dpoco.accounting.explanation import neighbours
from dpoco.accounting.guarantee import Guarantee

__all__ = ["ledger_guarantee", "ledger_text"]

_PAGE = "docs/privacy/ledger.md"
_IN_WORDS = {
    "auto": "decided by the first charge",
    "basic": "epsilons and deltas add up",
    "gaussian": "squares of the GDP parameters add up",
    "renyi": "Renyi divergences of one order add up",
    "smallest bound": "the smallest bound of a plan that was fixed in advance",
}


def ledger_guarantee(book: Book, unit: str, currency: str) -> Guarantee:
    """Return the guarantee of a ledger."""
    entries = book.entries
    guarantees = [entry.claim.guarantee for entry in entries]
    epsilon = book.budget.epsilon if book.adaptive else book.fixed_epsilon()
    horizons = [g.horizon for g in guarantees if g is not None]
    labels = ", ".join(entry.label for entry in entries) or "nothing yet"
    fixed = (
        "charges may have been chosen in reaction to releases, but not to the data themselves"
        if book.adaptive
        else "all charges were fixed before the first release"
    )
    conditions = [
        fixed,
        "everything released from the data is charged to this ledger, before it is released",
        "the learners' noises are independent",
        "one change of the data changes at most one unit of what each learner sees",
        *dict.fromkeys(entry.condition for entry in entries if entry.condition),
    ]
    if any(entry.claim.same_unit for entry in entries):
        conditions.append(f"all charges speak about {unit}: promised by the caller")
    if book.view == "others":
        conditions.append("nobody who reacts to releases sees what the protected user is shown")
    conditions += dict.fromkeys(
        f"{entry.label}: {text}"
        for entry, g in zip(entries, guarantees, strict=True)
        if g is not None
        for text in g.conditions
    )
    return Guarantee(
        epsilon=epsilon,
        delta=book.budget.delta,
        change=book.change,
        view=book.view,
        unit=unit,
        horizon=max(horizons, default=1),
        mechanism=f"everything charged to a ledger ({labels})",
        certified=all(g is None or g.certified for g in guarantees),
        reference=f"{_IN_WORDS[currency]}; {_PAGE}",
        conditions=tuple(conditions),
    )


def ledger_text(book: Book, unit: str | None, currency: str) -> str:
    """Return the report of a ledger."""
    budget, entries = book.budget, book.entries
    lines = [
        f"Privacy ledger: epsilon = {budget.epsilon:.6g}, delta = {budget.delta:.6g} for "
        "everything charged",
        *neighbours(book.change, book.view, unit or "the unit of the first charge"),
        "              beyond what the budget allows",
        f"  Currency:   {currency}: {_IN_WORDS[currency]}"
        + (" (charges may react to releases)" if book.adaptive else ""),
        f"  Spent:      {book.spent():.2%}",
    ]
    left = book.remaining()
    if left is None:
        lines.append("  Left:       nothing")
    else:
        gaussian = currency in ("gaussian", "renyi")
        lines.append(
            f"  Left:       epsilon = {left.epsilon:.6g}, delta = {left.delta:.6g} for one more "
            + ("charge with Gaussian noise" if gaussian else "charge")
        )
    if book.adaptive and entries and math.isfinite(book.fixed_epsilon()):
        lines.append(
            f"  So far:     epsilon = {book.fixed_epsilon():.6g} at the same delta, had these "
            "charges been fixed in advance"
        )
    lines.append(f"  Charges:    {len(entries) or 'none'}")
    for number, entry in enumerate(entries, 1):
        lines.append(f"    {number}. {entry.label}: {_price(currency, entry)}")
    lines.append(f"  Proof:      {_PAGE}")
    return "\n".join(lines)


def _price(currency: str, entry: Entry) -> str:
    stated = f"epsilon = {entry.cost.epsilon:.6g} at delta = {entry.cost.delta:.3g}"
    known = [stated] if math.isfinite(entry.cost.epsilon) else []
    if currency in ("gaussian", "renyi"):
        name = "mu^2" if currency == "gaussian" else "divergence"
        known.append(f"{name} {entry.price.main:.4g}")
        if entry.price.side > 0.0:
            known.append(f"delta {entry.price.side:.3g} on the side")
    guarantee = entry.claim.guarantee
    if guarantee is not None and not guarantee.certified:
        known.append("NOT CERTIFIED")
    return ", ".join(known) or "an event"
