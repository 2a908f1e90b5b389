"""The statistics: which cells a record changes, and estimates from noisy cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from dpoco._validation import LARGEST_SCALE, SMALLEST_SCALE, FloatArray, real_float

# A count is clearly above 0 if it exceeds this many deviations, the normal .975 quantile. Below,
# Fieller's set of level .95 is not an interval (docs/privacy/statistics.md, "Error bars").
CLEAR = 1.959963984540054
Bounds = Callable[[float], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Estimates:
    """The numbers of one statistic in one view, for all groups.

    Attributes
    ----------
    labels : tuple of str
        Name of each number of a group: the bin, the category or the quantile; "" for a single
        number.
    values : ndarray, shape (groups, labels)
        NaN if the noise hides the value.
    deviations : ndarray, shape (groups, labels)
        Standard deviations of the noise: exact for counts and sums; to first order for means,
        shares and quantiles.
    bounds : callable
        Takes a number of deviations z and returns lower and upper ends, of the same shape.
    whole : bool
        Whether values count records, so that they may be rounded to nonnegative integers.
    """

    labels: tuple[str, ...]
    values: FloatArray
    deviations: FloatArray
    bounds: Bounds
    whole: bool = False


def shortest(number: float) -> str:
    """Return a number as a label, with six digits, or with all digits if six are not exact."""
    text = f"{number:g}"
    # Different bins must have different labels, and a view is found again by its name.
    return text if float(text) == number else repr(float(number))


def linear(
    labels: tuple[str, ...], values: FloatArray, deviation: float, *, whole: bool = False
) -> Estimates:
    """Return estimates with the same noise deviation for each number: counts and sums.

    Parameters
    ----------
    labels : tuple of str
        Names of a group's numbers.
    values : ndarray, shape (groups, labels)
        Noisy numbers.
    deviation : float
        Standard deviation of the normal noise of each number.
    whole : bool
        Whether the numbers count records.
    """

    def bounds(z: float) -> tuple[FloatArray, FloatArray]:
        return values - z * deviation, values + z * deviation

    return Estimates(labels, values, np.full_like(values, deviation), bounds, whole)


def ratio(
    top: FloatArray,
    bottom: FloatArray,
    variances: tuple[float, float, float],
    low: float,
    high: float,
    shift: float = 0.0,
) -> Estimates:
    """Return shift + top / bottom, kept within [low, high], with Fieller's sets.

    Parameters
    ----------
    top, bottom : ndarray, shape (groups, 1)
        Noisy numbers; `bottom` is a count.
    variances : (float, float, float)
        Variances of the noise of `top` and of `bottom`, and their covariance.
    low, high : float
        Range of the value. If Fieller's set is unbounded, the result is [low, high].
    shift : float
        Added to the ratio.
    """
    of_top, of_bottom, joint = variances
    # Below this, a quotient would mostly show the noise of the count. The range may be published,
    # because it is known without data.
    known = bottom > CLEAR * np.sqrt(of_bottom)
    quotient = np.where(known, top, np.nan) / np.where(known, bottom, 1.0)
    spread = of_top - 2.0 * quotient * joint + quotient**2 * of_bottom
    deviations = np.sqrt(np.maximum(spread, 0.0)) / np.where(known, bottom, 1.0)

    def bounds(z: float) -> tuple[FloatArray, FloatArray]:
        a = bottom**2 - z * z * of_bottom
        b = top * bottom - z * z * joint
        c = top**2 - z * z * of_top
        bounded = (a > 0.0) & (bottom > 0.0)
        root = np.sqrt(np.maximum(b * b - a * c, 0.0))
        divisor = np.where(bounded, a, 1.0)
        least = np.where(bounded, (b - root) / divisor + shift, low)
        most = np.where(bounded, (b + root) / divisor + shift, high)
        return np.clip(least, low, high), np.clip(most, low, high)

    return Estimates(("",), np.clip(quotient + shift, low, high), deviations, bounds)


def quantiles(
    probabilities: tuple[float, ...], edges: FloatArray, counts: FloatArray, deviation: float
) -> Estimates:
    """Return quantiles from noisy counts of bins, linear within a bin.

    Parameters
    ----------
    probabilities : tuple of float
        In (0, 1).
    edges : ndarray, shape (bins + 1,)
        Ends of the bins.
    counts : ndarray, shape (groups, bins)
        Noisy counts.
    deviation : float
        Standard deviation of the noise of each count; the noises are independent.
    """
    found = [_quantile(q, edges, counts, deviation) for q in probabilities]

    def bounds(z: float) -> tuple[FloatArray, FloatArray]:
        ends = [_quantile_set(q, edges, counts, deviation, z) for q in probabilities]
        return (np.stack([low for low, _ in ends], -1), np.stack([high for _, high in ends], -1))

    low, high = bounds(1.0)
    values = np.stack(found, -1)
    # Half the width of the set at one deviation represents the error to first order.
    deviations = np.where(np.isnan(values), np.nan, 0.5 * (high - low))
    return Estimates(tuple(map(shortest, probabilities)), values, deviations, bounds)


def _quantile(q: float, edges: FloatArray, counts: FloatArray, deviation: float) -> FloatArray:
    """Return the quantile of the isotonic cumulative counts, shape (groups,)."""
    groups, bins = counts.shape
    sums = np.concatenate([np.zeros((groups, 1)), np.cumsum(counts, axis=1)], axis=1)
    # Midway between the largest monotone curve below and the smallest one above.
    above = np.maximum.accumulate(sums, axis=1)
    below = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
    curve = 0.5 * (above + below)
    values = np.full(groups, np.nan)
    for group in range(groups):
        # The count of all records has the noise of all bins.
        if sums[group, -1] > CLEAR * deviation * np.sqrt(bins):
            own = curve[group] - curve[group, 0]
            values[group] = np.interp(q * own[-1], own, edges)
    return values


def _quantile_set(
    q: float, edges: FloatArray, counts: FloatArray, deviation: float, z: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the set of x that a test at level z does not reject as the quantile.

    At the fraction f of bin k, the noise of (records below x) - q (all records) has the variance
    deviation^2 (k (1 - q)^2 + (f - q)^2 + (bins - 1 - k) q^2). The test rejects if this number is
    more than z deviations from 0, which is a quadratic inequality in f.
    """
    bins = counts.shape[1]
    k = np.arange(bins, dtype=np.float64)
    total = counts.sum(axis=1, keepdims=True)
    start = np.cumsum(counts, axis=1) - counts - q * total
    unit = (z * deviation) ** 2
    rest = k * (1.0 - q) ** 2 + (bins - 1.0 - k) * q**2
    # a f^2 + 2 b f + c <= 0
    a = counts**2 - unit
    b = start * counts + unit * q
    c = start**2 - unit * (rest + q * q)
    inside = b * b - a * c
    root = np.sqrt(np.maximum(inside, 0.0))
    safe = np.where(a == 0.0, 1.0, a)
    one, other = (-b - root) / safe, (-b + root) / safe
    # The ends of the set can only be ends of a bin, or roots inside a bin.
    fractions = np.stack([np.zeros_like(a), np.ones_like(a), one, other])
    within = (fractions >= 0.0) & (fractions <= 1.0)
    value = a * fractions**2 + 2.0 * b * fractions + c
    kept = within & (value <= 1e-9 * (np.abs(c) + np.abs(b) + np.abs(a) + unit))
    # At a root the value is 0, apart from rounding errors.
    kept[2:] |= within[2:] & (inside >= 0.0)
    x = edges[:-1] + fractions * np.diff(edges)
    least = np.where(kept, x, np.inf).min(axis=(0, 2))
    most = np.where(kept, x, -np.inf).max(axis=(0, 2))
    empty = least > most  # nothing is accepted, so the whole range is returned
    return np.where(empty, edges[0], least), np.where(empty, edges[-1], most)


OTHER = "other"  # label of all values that are not public
Name = str | int | bool


@dataclass(frozen=True)
class Block:
    """Cells of which a record changes at most one per group, by at most `share`.

    Attributes
    ----------
    entry : {"one", "present", "value", "bin", "code"}
        A record's addition to its cell: always the unit; the unit if its number is finite; the unit
        times its scaled number; or the unit in the cell of its bin or code.
    cells : int
        Number of cells of a group.
    share : float
        Largest change; the squares over a statistic's blocks sum to 1.
    scale : tuple of float
        For "value": lowest and highest number, and the number subtracted before dividing.
    edges : tuple of float
        For "bin": edges of the bins.
    """

    entry: Literal["one", "present", "value", "bin", "code"]
    cells: int = 1
    share: float = 1.0
    scale: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class NoisyBlock:
    """Noisy cells of a block in records, shape (groups, cells), with their deviation."""

    cells: FloatArray
    deviation: float


@dataclass(frozen=True)
class Statistic:
    """Base of the statistics."""

    kind: ClassVar[str]
    reads: ClassVar[bool] = True  # whether it reads a column
    column: str | None = field(default=None, kw_only=True)

    @property
    def names(self) -> tuple[Name, ...] | None:
        """Public values of a column of categories; None for a column of numbers, or no column."""
        return None

    def blocks(self) -> tuple[Block, ...]:
        """Return the cells of a group."""
        raise NotImplementedError

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the numbers of noisy `blocks`."""
        raise NotImplementedError

    def least_records(self, deviation: float) -> float:
        """Return how many records of a group make the statistic accurate to about 10 %.

        For counts and sums: 10 % of the count, or of the largest sum. For means and shares: a tenth
        of the half-width of their range. For quantiles: a tenth in probability.

        Parameters
        ----------
        deviation : float
            Noise of a block with share 1, in records.
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
    """Number of records."""

    kind = "count"
    reads = False  # records are counted whatever they contain

    def blocks(self) -> tuple[Block, ...]:
        """Return one cell."""
        return (Block("one"),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the count."""
        return linear(("",), blocks[0].cells, blocks[0].deviation, whole=True)


@dataclass(frozen=True)
class _Ranged(Statistic):
    """Base of statistics of numbers in a public range, to which numbers are silently clipped."""

    low: float
    high: float

    def __post_init__(self) -> None:
        """Raise for ranges that are missing, reversed or infinite."""
        for name in ("low", "high"):
            object.__setattr__(self, name, real_float(name, getattr(self, name)))
        largest = max(abs(self.low), abs(self.high))
        # Squares of widths are divided by counts. Within these sizes nothing overflows.
        if not (self.low < self.high and largest <= LARGEST_SCALE):
            raise ValueError(
                f"low must be below high, both within {LARGEST_SCALE:g}; "
                f"got {self.low!r}, {self.high!r}"
            )
        if self.high - self.low < SMALLEST_SCALE:
            raise ValueError(
                f"high must be at least {SMALLEST_SCALE:g} above low; got {self.low!r}, "
                f"{self.high!r}"
            )


@dataclass(frozen=True)
class Sum(_Ranged):
    """Sum of a column of numbers.

    Parameters
    ----------
    low, high : float
        Public range of a number. Numbers outside are silently clipped; missing ones add nothing.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.
    """

    kind = "sum"

    @property
    def _largest(self) -> float:
        """Largest absolute value of a number: the unit of the cell."""
        return max(abs(self.low), abs(self.high))

    def blocks(self) -> tuple[Block, ...]:
        """Return one cell, in units of the largest number."""
        return (Block("value", scale=(self.low, self.high, 0.0, self._largest)),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the sum."""
        return linear(("",), blocks[0].cells * self._largest, blocks[0].deviation * self._largest)


# The squares of the shares of a mean's two blocks sum to 1.
_HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class Mean(_Ranged):
    """Mean of a column of numbers, over the records that have one.

    Parameters
    ----------
    low, high : float
        Public range of a number, to which numbers are silently clipped.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.

    Notes
    -----
    The mean is unknown (NaN, None) unless the noisy count of numbers is clearly above 0.
    """

    kind = "mean"

    @property
    def _middle(self) -> float:
        """Middle of the range. Subtracting it halves the largest addition of a number."""
        return self.low + 0.5 * (self.high - self.low)

    @property
    def _width(self) -> float:
        """Half the width of the range: the unit of the cell of sums."""
        return 0.5 * (self.high - self.low)

    def blocks(self) -> tuple[Block, ...]:
        """Return a cell for the sum of scaled numbers, and one that counts them."""
        scale = (self.low, self.high, self._middle, self._width)
        return Block("value", share=_HALF, scale=scale), Block("present", share=_HALF)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the quotient of the two cells."""
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
        Column of truth values, or of numbers 1 (yes) and 0 (no); all other values count as missing.
        Default: the name of the statistic. Keyword-only.
    """

    kind = "share"

    def blocks(self) -> tuple[Block, ...]:
        """Return a cell for no and one for yes."""
        return (Block("code", 2),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return yes / (yes + no)."""
        cells, variance = blocks[0].cells, blocks[0].deviation ** 2
        total = cells.sum(axis=1, keepdims=True)
        # Yes is a part of the total, so their covariance is the variance of yes.
        return ratio(cells[:, 1:], total, (variance, 2.0 * variance, variance), 0.0, 1.0)


@dataclass(frozen=True)
class Histogram(Statistic):
    """Counts of a column of numbers by bins [edge, next edge).

    Parameters
    ----------
    edges : sequence of float
        Public, finite and increasing. Two more bins count numbers below the first edge, and numbers
        from the last edge on.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.
    """

    kind = "histogram"
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise for edges out of order."""
        object.__setattr__(self, "edges", increasing(self.edges, 1))

    def blocks(self) -> tuple[Block, ...]:
        """Return one cell per bin."""
        return (Block("bin", len(self.edges) + 1, edges=self.edges),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the counts."""
        edges = [shortest(edge) for edge in self.edges]
        between = tuple(f"[{a}, {b})" for a, b in pairwise(edges))
        labels = (f"< {edges[0]}", *between, f">= {edges[-1]}")
        return linear(labels, blocks[0].cells, blocks[0].deviation, whole=True)


@dataclass(frozen=True)
class Categories(Statistic):
    """Counts of a column by public values, and of all other values together.

    Parameters
    ----------
    values : sequence of str, int or bool
        Public values. Records without a value are not counted.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.
    """

    kind = "categories"
    values: tuple[Name, ...]

    def __post_init__(self) -> None:
        """Raise for values that are equal or are not names."""
        object.__setattr__(self, "values", public_values("values", self.values))

    @property
    def names(self) -> tuple[Name, ...]:
        """The public values."""
        return self.values

    def blocks(self) -> tuple[Block, ...]:
        """Return one cell per value, and one for all other values."""
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
        Public, finite and increasing, at least three. Numbers outside are counted in the first or
        last bin.
    column : str, optional
        Name of the column; default: the name of the statistic. Keyword-only.
    """

    kind = "quantiles"
    probabilities: tuple[float, ...]
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise for invalid probabilities, and for edges out of order."""
        given = self.probabilities
        several = (given,) if isinstance(given, (int, float)) else tuple(given)
        asked = tuple(real_float("probabilities", q) for q in several)
        if not asked or not all(0.0 < q < 1.0 for q in asked):
            raise ValueError(f"probabilities must be in (0, 1); got {list(asked)}")
        object.__setattr__(self, "probabilities", asked)
        object.__setattr__(self, "edges", increasing(self.edges, 3))

    def blocks(self) -> tuple[Block, ...]:
        """Return one cell per bin."""
        return (Block("bin", len(self.edges) - 1, edges=self.edges[1:-1]),)

    def estimates(self, blocks: Sequence[NoisyBlock]) -> Estimates:
        """Return the quantiles of the cumulative counts."""
        edges = np.array(self.edges)
        return quantiles(self.probabilities, edges, blocks[0].cells, blocks[0].deviation)

    def least_records(self, deviation: float) -> float:
        """See `Statistic.least_records`; the noise of counts up to a quantile adds up over bins."""
        bins = len(self.edges) - 1
        spread = max(math.sqrt(bins * q * (1.0 - q)) for q in self.probabilities)
        return 10.0 * deviation * max(spread, 1.0)


def increasing(edges: Sequence[float], least: int) -> tuple[float, ...]:
    """Return edges as floats, or raise `ValueError` unless they are finite and increase.

    Parameters
    ----------
    edges : sequence of float
        Edges in order.
    least : int
        Smallest number of edges.
    """
    found = tuple(real_float("edges", edge) for edge in edges)
    finite = all(math.isfinite(edge) for edge in found)
    if len(found) < least or not finite or any(b <= a for a, b in pairwise(found)):
        raise ValueError(f"edges must be finite and increasing, at least {least}")
    return found


def public_values(name: str, values: Sequence[Name]) -> tuple[Name, ...]:
    """Return public values of a column, or raise unless they are distinct names.

    Raises
    ------
    TypeError
        For a single text, and for values other than texts, integers or truth values.
    ValueError
        If two are equal, or one is the name of all other values.
    """
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} must be a sequence of values; got a single text")
    found = tuple(values)
    if not found or not all(isinstance(value, (str, int)) for value in found):
        raise TypeError(f"{name} must be texts, integers or truth values, at least one")
    # Labels are texts. If two were equal, a number could not be selected by its label.
    labels = {*map(str, found), OTHER}
    if len(labels) <= len(found):
        raise ValueError(f"{name} must differ, as texts too, and none may be {OTHER!r}")
    return found
