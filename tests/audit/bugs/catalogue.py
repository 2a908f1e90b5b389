"""All planted bugs, and the table of who notices which."""

from __future__ import annotations

from . import (
    accounting,
    coupled,
    draws,
    experts,
    leaders,
    local,
    published,
    selections,
    state,
    sums,
)
from .kit import Bug

__all__ = ["BUGS", "FAMILIES", "table"]

FAMILIES: dict[str, list[Bug]] = {
    "sums": sums.BUGS,
    "leaders on sums": leaders.BUGS,
    "selections and thresholds": selections.BUGS,
    "experts": experts.BUGS,
    "lazy learners and bandits": coupled.BUGS,
    "devices": local.BUGS,
    "accounting": accounting.BUGS,
    "printed": published.BUGS,
    "draws": draws.BUGS,
    "states, messages, ledgers": state.BUGS,
}
BUGS = [bug for family in FAMILIES.values() for bug in family]


def table() -> str:
    """Return the catalogue as a table in Markdown."""
    rows = ["| bug | what went wrong | planted by | noticed by |", "|---|---|---|---|"]
    for family, bugs in FAMILIES.items():
        rows.append(f"| **{family}** | | | |")
        for bug in bugs:
            checks = ", ".join(check.__name__ for check in bug.checks)
            rows.append(f"| {bug.name} | {bug.story} | {bug.how} | {checks} |")
    return "\n".join(rows)
