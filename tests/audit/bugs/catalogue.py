"""All planted bugs; README.md tells of each what went wrong."""

from __future__ import annotations

from . import (
    around,
    coupled,
    experts,
    leaders,
    local,
    published,
    selections,
    sums,
)
from .kit import Bug

__all__ = ["BUGS", "FAMILIES"]

FAMILIES: dict[str, list[Bug]] = {
    "sums": sums.BUGS,
    "leaders on sums": leaders.BUGS,
    "selections and thresholds": selections.BUGS,
    "experts": experts.BUGS,
    "lazy learners and bandits": coupled.BUGS,
    "devices": local.BUGS,
    "printed": published.BUGS,
    "around the noise": around.BUGS,
}
BUGS = [bug for family in FAMILIES.values() for bug in family]
