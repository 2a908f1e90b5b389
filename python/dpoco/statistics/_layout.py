"""The layout of all statistics in one vector: blocks, groups, weights, and reading the results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from dpoco import _core
from dpoco._validation import FloatArray, positive_float
from dpoco.privacy.mechanisms.bounds import IntervalTotals
from dpoco.statistics._statistics import (
    OTHER,
    Block,
    Estimates,
    Name,
    NoisyBlock,
    Statistic,
    public_values,
)

Groups = tuple[tuple[str, tuple[Name, ...]], ...]


@dataclass(frozen=True)
class Column:
    """A column that statistics read.

    Attributes
    ----------
    name : str
        Its name in records.
    values : tuple or None
        Public values of a column of categories; None for numbers.
    """

    name: str
    values: tuple[Name, ...] | None = None


@dataclass(frozen=True)
class Layout:
    """The positions of statistics in the summed vector: each block for all groups in turn.

    Attributes
    ----------
    statistics : tuple of (str, Statistic)
        Statistics by name.
    weights : tuple of float
        Weight of each statistic; a statistic of twice the weight has half the noise.
    by : tuple of (str, tuple)
        Columns for grouping records, with their public values.
    grid : float
        Spacing to which contributions of records are rounded.
    """

    statistics: tuple[tuple[str, Statistic], ...]
    weights: tuple[float, ...]
    by: Groups = ()
    # Only used without noise, because noise on a lattice has its own grid.
    grid: float = 2.0**-20

    @classmethod
    def of(
        cls,
        statistics: Mapping[str, Statistic],
        weights: Mapping[str, float] | None,
        by: Mapping[str, Sequence[Name]] | None,
    ) -> Layout:
        """Return the layout for a monitor's arguments, or raise for invalid ones.

        Parameters
        ----------
        statistics, weights, by
            See `Monitor`.

        Raises
        ------
        TypeError, ValueError
            For names that are not texts, weights of unknown statistics, and invalid groups.
        """
        if not isinstance(statistics, Mapping) or not statistics:
            raise TypeError(
                "statistics must map at least one name to a statistic, such as {'visits': Count()}"
            )
        for name, statistic in statistics.items():
            if not isinstance(name, str) or not name or not isinstance(statistic, Statistic):
                raise TypeError(
                    f"statistics[{name!r}] must be a statistic with its arguments, such as Count() "
                    "or Mean(0.0, 500.0)"
                )
        if not isinstance(by or {}, Mapping):
            raise TypeError("by must map columns to their public values: {'country': ['DE', 'FR']}")
        given = dict(weights or {})
        unknown = [name for name in given if name not in statistics]
        if unknown:
            raise ValueError(f"weights are for statistics; {unknown[0]!r} is none")
        shares = [positive_float("weights", given.get(name, 1.0)) for name in statistics]
        # The squares of the units sum to 1, so a record has norm 1 (docs/privacy/statistics.md).
        length = math.sqrt(math.fsum(share**2 for share in shares))
        groups = tuple((name, public_values("by", values)) for name, values in (by or {}).items())
        found = cls(tuple(statistics.items()), tuple(x / length for x in shares), groups)
        # Values of several columns are joined by commas, but values may contain commas.
        if len(set(found.groups)) < len(found.groups):
            raise ValueError("by: two groups have the same label; take values without commas")
        return found

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Labels of the groups; a single "" without `by`."""
        if not self.by:
            return ("",)
        # The last group contains all values that are not public, so that no record is left out.
        values = ((*map(str, values), OTHER) for _, values in self.by)
        return tuple(", ".join(each) for each in product(*values))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Columns that statistics read, without duplicates."""
        read = (Column(s.column or name, s.names) for name, s in self.statistics if s.reads)
        return tuple(dict.fromkeys(read))

    @cached_property
    def blocks(self) -> tuple[tuple[Block, float, int], ...]:
        """Blocks in order, each with the unit that a record adds and the index of its column."""
        found = []
        for (name, statistic), weight in zip(self.statistics, self.weights, strict=True):
            own = Column(statistic.column or name, statistic.names)
            # For a statistic that reads no column, the index is not used.
            at = self.columns.index(own) if statistic.reads else 0
            found += [(block, weight * block.share, at) for block in statistic.blocks()]
        return tuple(found)

    def summand(self, records: int) -> IntervalTotals:
        """Return the description of an interval's total, for `records` records of one person."""
        groups = len(self.groups)
        cells = tuple(block.cells * groups for block, _, _ in self.blocks)
        return IntervalTotals(cells, tuple(unit for _, unit, _ in self.blocks), records)

    def make_tally(self, summand: IntervalTotals) -> _core.Tally:
        """Return the object that adds records to integers, with the units of a description."""
        rows = [
            (block.entry, at, block.cells, unit / self.grid, list(block.scale), list(block.edges))
            for (block, _, at), unit in zip(self.blocks, summand.units, strict=True)
        ]
        return _core.Tally(rows, len(self.groups))

    def estimates(self, vector: FloatArray, deviation: float) -> dict[str, Estimates]:
        """Return the estimates of all statistics from a noisy vector with one deviation.

        Parameters
        ----------
        vector : ndarray of float64
            All cells of one view, shape (size,), in units of the sum.
        deviation : float
            Standard deviation of the noise of each cell.

        Returns
        -------
        dict of str to Estimates
            Estimates by name of the statistic; arrays of shape (groups, labels). O(size).
        """
        groups, at, noisy = len(self.groups), 0, []
        for block, unit, _ in self.blocks:
            cells = vector[at : at + groups * block.cells].reshape(groups, block.cells)
            if block.entry != "value":  # all records add the same rounded amount
                unit = round(unit / self.grid) * self.grid
            noisy.append(NoisyBlock(cells / unit, deviation / unit))
            at += groups * block.cells
        found, first = {}, 0
        for name, statistic in self.statistics:
            last = first + len(statistic.blocks())
            found[name] = statistic.estimates(noisy[first:last])
            first = last
        return found
