"""Monitors: the records of one person in an interval, and the sums that are released of intervals.

A round is an interval; what its record is, ``_interval_records`` says.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpoco._validation import FloatArray
from dpoco.audit._interval_records import present
from dpoco.audit._sums import Vectors
from dpoco.statistics import Block, Layout


class Intervals(Vectors):
    """Totals of intervals; the running sums of them are released.

    What a record adds is computed here from the statistics' definitions, not by the engine.
    """

    astray = "what is released is not the sum of what records add by definition"

    @property
    def _layout(self) -> Layout:
        layout: Layout = self.learner._layout
        return layout

    @property
    def sensitivity(self) -> float:
        """How far one person moves an interval's total: every entry of a record is rounded."""
        most, m = super().sensitivity, self.mechanism
        sides = 1.0 if self.relation == "replace" else 0.5
        rounding: float = sides * m.summand.records * math.sqrt(m.summand.size) * m.grid
        return most + rounding

    def is_empty(self, record: tuple[Any, ...]) -> bool:
        return len(present(record[0])) == 0

    def check_records(self, old: Any, new: Any) -> None:
        if self.relation != "zero_out":
            return
        changed = ~np.all((old[0] == new[0]) | (np.isnan(old[0]) & np.isnan(new[0])), axis=1)
        if np.any((old[0][changed, 0] > 0.0) & (new[0][changed, 0] > 0.0)):
            raise ValueError(
                "no neighbours under relation 'zero_out': records may be there or not, not differ"
            )

    def replaces(self, old: Any, new: Any) -> bool:
        return self.is_empty(old) or self.is_empty(new) or super().replaces(old, new)

    def leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        layout = self._layout
        total = np.zeros(self.mechanism.summand.size)
        for row in present(record[0]):
            numbers, codes = row[1 : 1 + len(layout.columns)], row[1 + len(layout.columns) :]
            group = 0
            for (_, public), code in zip(layout.by, codes, strict=True):
                known = code in range(len(public))
                group = group * (len(public) + 1) + (int(code) if known else len(public))
            start = 0
            units = self.mechanism.summand.units
            for (block, _, at), unit in zip(layout.blocks, units, strict=True):
                x = float(numbers[at]) if block.entry != "one" else 0.0
                values = layout.columns[at].values if block.entry == "code" else None
                cell, share = _entry(block, values, x)
                if cell is not None:
                    total[start + group * block.cells + cell] += self._round(unit * share)
                start += block.cells * len(layout.groups)
        return total

    def _round(self, number: float) -> float:
        grid = self.grid or self._layout.grid
        return float(np.rint(number / grid)) * grid


def _entry(block: Block, values: Any, x: float) -> tuple[int | None, float]:
    """Return the cell of a group that a record changes, if any, and by how many units."""
    if block.entry == "one":
        return 0, 1.0
    if values is not None:  # all but NaN stand for a value, public or not
        known = int(x) if x in range(len(values)) else len(values)
        return (None if math.isnan(x) else known), 1.0
    if not math.isfinite(x):
        return None, 0.0
    if block.entry == "present":
        return 0, 1.0
    if block.entry == "value":
        low, high, middle, half = block.scale
        return 0, min(max((min(max(x, low), high) - middle) / half, -1.0), 1.0)
    if block.entry == "bin":
        return sum(edge <= x for edge in block.edges), 1.0
    return (int(x) if x in range(block.cells) else None), 1.0
