"""All planted bugs; README.md tells of each what went wrong."""

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
    statistics,
    sums,
)
from .kit import Bug

__all__ = ["BUGS", "FAMILIES"]

FAMILIES: dict[str, list[Bug]] = {
    "sums": sums.BUGS,
    "statistics of intervals": statistics.BUGS,
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
