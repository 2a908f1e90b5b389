"""The statistics: what a record adds to which cells, and what is read off noisy cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from dpoco._validation import FloatArray, real_float
from dpoco.statistics._estimates import Estimates, linear, quantiles, ratio

__all__ = ["Block", "Categories", "Count", "Histogram", "Mean", "NoisyBlock", "Quantiles", "Share",
           "Statistic", "Sum", "from_dict"]  # fmt: skip

OTHER = "other"
Name = str | int | bool


@dataclass(frozen=True)
class Block:
    """Cells of which a record changes at most one a group, by at most `share`.

    Attributes
    ----------
    entry : {"one", "present", "value", "bin", "code"}
        What a record adds to its cell: the unit always, if its number is finite, the unit times
        its scaled number, or the unit in the cell of its bin or code.
    cells : int
        Cells of a group.
    share : float
        Largest change, where the squares of a statistic's blocks add up to 1.
    scale : tuple of float
        Of "value": lowest and highest number, and what is subtracted before dividing.
    edges : tuple of float
        Of "bin".
    """

    entry: Literal["one", "present", "value", "bin", "code"]
    cells: int = 1
    share: float = 1.0
    scale: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class NoisyBlock:
    """Noisy cells of a block in records, shape (groups, cells), and their deviation."""

    cells: FloatArray
    deviation: float


@dataclass(frozen=True)
class Statistic:
    """Base of the statistics."""

    kind: ClassVar[str]
    column: str | None = field(default=None, kw_only=True)

    @property
    def names(self) -> tuple[Name, ...] | None:
        """Public values of a column of categories; None for a column of numbers, or for none."""
        return None

    @property
    def reads(self) -> bool:
        """Whether the statistic reads a column."""
        return True

    def blocks(self) -> tuple[Block, ...]:
        """Return the cells of a group."""
        raise NotImplementedError

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the numbers of noisy `blocks`."""
        raise NotImplementedError

    def least_records(self, deviation: float) -> float:
        """Return from how many records of a group on the statistic is within about 10 %.

        Of counts and sums: 10 % of the count, or of the largest sum. Of means and shares: a tenth
        of the half-width of their range. Of quantiles: a tenth in probability.

        Parameters
        ----------
        deviation : float
            Noise of a block of share 1, in records.
        """
        return 10.0 * deviation / min(block.share for block in self.blocks())

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dictionary that `from_dict` restores."""
        return {"kind": self.kind, **asdict(self)}


def from_dict(record: dict[str, Any]) -> Statistic:
    """Return the statistic written by `Statistic.to_dict`."""
    kinds = {cls.kind: cls for cls in (Count, Sum, Mean, Share, Histogram, Categories, Quantiles)}
    fields = {name: value for name, value in record.items() if name != "kind"}
    return kinds[record["kind"]](**fields)


@dataclass(frozen=True)
class Count(Statistic):
    """How many records there are."""

    kind = "count"

    @property
    def reads(self) -> bool:
        """False: records are counted whatever they hold."""
        return False

    def blocks(self) -> tuple[Block, ...]:
        """Return one cell."""
        return (Block("one"),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the count."""
        return linear(("",), blocks[0].cells, blocks[0].deviation, whole=True)


@dataclass(frozen=True)
class _Ranged(Statistic):
    """Base of statistics of numbers in a public range, to which numbers are clipped silently."""

    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse ranges that are missing, reversed or infinite."""
        for name in ("low", "high"):
            object.__setattr__(self, name, real_float(name, getattr(self, name)))
        if not (math.isfinite(self.high - self.low) and self.low < self.high):
            raise ValueError(
                f"low must be below high, both finite; got {self.low!r}, {self.high!r}"
            )


@dataclass(frozen=True)
class Sum(_Ranged):
    """Sum of a column of numbers.

    Parameters
    ----------
    low, high : float
        Public range of a number. Numbers beyond are clipped silently; missing ones add nothing.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.
    """

    kind = "sum"

    @property
    def _largest(self) -> float:
        return max(abs(self.low), abs(self.high))

    def blocks(self) -> tuple[Block, ...]:
        """Return one cell, in units of the largest number."""
        return (Block("value", scale=(self.low, self.high, 0.0, self._largest)),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the sum."""
        return linear(("",), blocks[0].cells * self._largest, blocks[0].deviation * self._largest)


_HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class Mean(_Ranged):
    """Mean of a column of numbers, over the records that have one.

    Parameters
    ----------
    low, high : float
        Public range of a number, to which numbers are clipped silently.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.

    Notes
    -----
    The mean is unknown (NaN, None) unless the noisy count of numbers is clearly above 0.
    """

    kind = "mean"

    @property
    def _middle(self) -> float:
        return self.low + 0.5 * (self.high - self.low)

    @property
    def _width(self) -> float:
        return 0.5 * (self.high - self.low)

    def blocks(self) -> tuple[Block, ...]:
        """Return a cell for the sum of scaled numbers, and one that counts them."""
        scale = (self.low, self.high, self._middle, self._width)
        return Block("value", share=_HALF, scale=scale), Block("present", share=_HALF)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the quotient of both cells."""
        sums, counts = blocks
        variances = ((self._width * sums.deviation) ** 2, counts.deviation**2, 0.0)
        return ratio(
            self._width * sums.cells, counts.cells, variances, self.low, self.high, self._middle
        )


@dataclass(frozen=True)
class Share(Statistic):
    """Share of records that say yes, among those that say yes or no.

    Parameters
    ----------
    column : str, optional
        Column of truth values, or of numbers 1 (yes) and 0 (no); all other values count as
        missing. Default: the name of the statistic. Keyword-only.
    """

    kind = "share"

    def blocks(self) -> tuple[Block, ...]:
        """Return a cell for no and one for yes."""
        return (Block("code", 2),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return yes / (yes + no)."""
        cells, variance = blocks[0].cells, blocks[0].deviation ** 2
        total = cells.sum(axis=1, keepdims=True)
        return ratio(cells[:, 1:], total, (variance, 2.0 * variance, variance), 0.0, 1.0)


@dataclass(frozen=True)
class Histogram(Statistic):
    """Counts of a column of numbers by bins [edge, next edge).

    Parameters
    ----------
    edges : sequence of float
        Public, finite and increasing. Two further bins count numbers below the first edge, and from
        the last edge on.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.
    """

    kind = "histogram"
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse edges out of order."""
        object.__setattr__(self, "edges", increasing(self.edges, 1))

    def blocks(self) -> tuple[Block, ...]:
        """Return a cell a bin."""
        return (Block("bin", len(self.edges) + 1, edges=self.edges),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the counts."""
        between = tuple(f"[{a:g}, {b:g})" for a, b in pairwise(self.edges))
        labels = (f"< {self.edges[0]:g}", *between, f">= {self.edges[-1]:g}")
        return linear(labels, blocks[0].cells, blocks[0].deviation, whole=True)


@dataclass(frozen=True)
class Categories(Statistic):
    """Counts of a column by public values, and of everything else.

    Parameters
    ----------
    values : sequence of str, int or bool
        Public values. Records without a value count nowhere.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.
    """

    kind = "categories"
    values: tuple[Name, ...]

    def __post_init__(self) -> None:
        """Refuse values that are no names, or equal."""
        object.__setattr__(self, "values", public_values("values", self.values))

    @property
    def names(self) -> tuple[Name, ...]:
        """The public values."""
        return self.values

    def blocks(self) -> tuple[Block, ...]:
        """Return a cell a value, and one for everything else."""
        return (Block("code", len(self.values) + 1),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the counts."""
        labels = (*map(str, self.values), OTHER)
        return linear(labels, blocks[0].cells, blocks[0].deviation, whole=True)


@dataclass(frozen=True)
class Quantiles(Statistic):
    """Quantiles of a column of numbers, linear within public bins.

    Parameters
    ----------
    probabilities : float or sequence of float
        In (0, 1): 0.5 is the median.
    edges : sequence of float
        Public, finite and increasing, at least three. Numbers beyond are counted in the first or
        last bin.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.
    """

    kind = "quantiles"
    probabilities: tuple[float, ...]
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse probabilities that are none, and edges out of order."""
        given = self.probabilities
        several = (given,) if isinstance(given, (int, float)) else tuple(given)
        asked = tuple(real_float("probabilities", q) for q in several)
        if not asked or not all(0.0 < q < 1.0 for q in asked):
            raise ValueError(f"probabilities must be in (0, 1); got {list(asked)}")
        object.__setattr__(self, "probabilities", asked)
        object.__setattr__(self, "edges", increasing(self.edges, 3))

    def blocks(self) -> tuple[Block, ...]:
        """Return a cell a bin."""
        return (Block("bin", len(self.edges) - 1, edges=self.edges[1:-1]),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the quantiles of the cumulative counts."""
        edges = np.array(self.edges)
        return quantiles(self.probabilities, edges, blocks[0].cells, blocks[0].deviation)

    def least_records(self, deviation: float) -> float:
        """As `Statistic.least_records`: the noise of counts up to a quantile adds up over bins."""
        bins = len(self.edges) - 1
        spread = max(math.sqrt(bins * q * (1.0 - q)) for q in self.probabilities)
        return 10.0 * deviation * max(spread, 1.0)


def increasing(edges: Sequence[float], least: int) -> tuple[float, ...]:
    """Return edges as floats, or raise `ValueError` unless they are finite and increase."""
    found = tuple(real_float("edges", edge) for edge in edges)
    finite = all(math.isfinite(edge) for edge in found)
    if len(found) < least or not finite or any(b <= a for a, b in pairwise(found)):
        raise ValueError(f"edges must be finite and increasing, at least {least}")
    return found


def public_values(name: str, values: Sequence[Name]) -> tuple[Name, ...]:
    """Return public values of a column, or raise unless they are distinct names."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} must be a sequence of values; got a single text")
    found = tuple(values)
    if not found or not all(isinstance(value, (str, int)) for value in found):
        raise TypeError(f"{name} must be texts, integers or truth values, at least one")
    if len(set(found)) < len(found):
        raise ValueError(f"{name} must differ")
    return found
