"""Mechanism descriptions: what engines enforce and draw, with one file per kind."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dpoco.privacy.records import read

if TYPE_CHECKING:
    from dpoco.privacy.mechanisms.base import Mechanism

__all__ = ["kinds", "read_mechanism"]


@cache
def kinds() -> tuple[type[Mechanism], ...]:
    """Return all kinds but `Parts`. They are imported on first use, so importing dpoco is fast."""
    from dpoco.privacy.mechanisms.base import Declared, Nothing, Open
    from dpoco.privacy.mechanisms.batch_release import BatchRelease
    from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws
    from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
    from dpoco.privacy.mechanisms.local_report import LocalReport
    from dpoco.privacy.mechanisms.range_search import RangeSearch
    from dpoco.privacy.mechanisms.selections import Selections, ThresholdTests
    from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws

    return (Declared, Nothing, Open, BatchRelease, Selections,
            ThresholdTests, LocalReport, TrackerDraws, CoupledDraws, GaussianSum,
            RangeSearch)  # fmt: skip


def read_mechanism(record: Any) -> Mechanism:
    """Return the mechanism that `dpoco.privacy.records.written` wrote.

    Raises
    ------
    TypeError, ValueError
        If it is anything else.
    """
    from dpoco.privacy.mechanisms.base import Parts

    if isinstance(record, dict) and record.get("kind") == Parts.kind:
        # The parts may be of any kind, for which `read` has no type. So they are read one by one
        # here, equally strictly.
        own = {"kind", "how", "parts", "lemma", "forced"}
        if {*record, "forced"} != own or type(record["parts"]) is not list:
            raise ValueError("parts have the fields how, parts, lemma and forced, and no others")
        parts = tuple(read_mechanism(part) for part in record["parts"])
        return Parts(record["how"], parts, record["lemma"], record.get("forced"))
    return read(record, kinds())
