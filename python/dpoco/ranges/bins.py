"""Public grids of numbers: candidates of medians, and bins of differences from a median.

Both are the same for everybody and cover all doubles that ranges are found for. Values are placed
by exact operations (`frexp`, comparisons), so that every machine places them alike.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray

__all__ = [
    "ABSENT",
    "EDGES",
    "LARGEST",
    "Runs",
    "Thresholds",
    "candidate",
    "find_ends",
    "group_candidates",
    "isotonic",
    "places",
]  # fmt: skip

_LOWEST, _HIGHEST, _STEPS = -24, 40, 2**16  # candidates +-2^e (1 + i / steps), e < highest; 0
LARGEST = (_HIGHEST - _LOWEST) * _STEPS + 1  # place of the largest candidate, 2^40
ABSENT = LARGEST + 1  # behind all candidates
_HALF_OCTAVES = np.arange(2 * _LOWEST, 2 * _HIGHEST + 1)
# `sqrt` is rounded correctly everywhere, and `ldexp` is exact.
_POSITIVE = np.ldexp(np.where(_HALF_OCTAVES % 2, math.sqrt(2.0), 1.0), _HALF_OCTAVES // 2)
EDGES: FloatArray = np.concatenate([-_POSITIVE[::-1], _POSITIVE])
EDGES.setflags(write=False)
# The quantile that a range aims at; deviations of noise by which its ends are moved towards narrow,
# since a range that is too wide costs a learner more; and by which enough values must be present.
ALPHA, MARGIN, SURE = 0.1, 1.5, 3.0


def places(values: FloatArray) -> NDArray[np.int64]:
    """Return the places of the candidates next to values, of any shape; `ABSENT` if not finite."""
    finite = np.isfinite(values)
    # The mantissa is in [0.5, 1): numbers of one octave are evenly spaced.
    mantissa, exponent = np.frexp(np.where(finite, np.abs(values), 0.0))
    steps = np.rint((2.0 * mantissa - 1.0) * _STEPS).astype(np.int64)
    octave = exponent.astype(np.int64) - 1 - _LOWEST
    # A mantissa that rounds up to the end of its octave gets the first place of the next one.
    found = np.clip(1 + octave * _STEPS + steps, 0, LARGEST)
    found = np.where(mantissa == 0.0, 0, found)
    return np.where(finite, np.where(values < 0.0, -found, found), ABSENT)


def candidate(place: int) -> float:
    """Return the candidate of a place, a double, exactly.

    Parameters
    ----------
    place : int
        In -LARGEST..LARGEST; negative places are those of negative numbers.
    """
    if place == 0:
        return 0.0
    octave, step = divmod(abs(place) - 1, _STEPS)
    return math.copysign(math.ldexp(1.0 + step / _STEPS, octave + _LOWEST), place)


class Runs(NamedTuple):
    """Runs of candidates with the same score, as many whatever the values.

    Attributes
    ----------
    first, sizes : ndarray of int64, shape (2 n + 1,)
        Place of the first candidate of each run, and how many there are; 0 for an empty run.
    scores : ndarray of float64, shape (2 n + 1,)
        Minus half the difference between the numbers of values below and above.
    """

    first: NDArray[np.int64]
    sizes: NDArray[np.int64]
    scores: FloatArray


def group_candidates(values: NDArray[np.int64], largest: int = LARGEST) -> Runs:
    """Return the runs of the candidates -largest..largest, of values at these places, shape (n,).

    Values behind `largest` are absent. O(n log n), whatever the number of candidates.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        Places of values, as `places` returns them.
    largest : int
        Place of the largest candidate; smaller ones are for tests.
    """
    n = len(values)
    rising = np.sort(np.minimum(values, largest + 1))
    present = int(np.searchsorted(rising, largest + 1))
    ends = np.concatenate([[-largest - 1], rising, [largest + 1]])
    first, sizes = np.empty((2, 2 * n + 1), dtype=np.int64)
    scores = np.empty(2 * n + 1)
    # Between two values next to each other, and at each value that differs from the one before.
    below = np.minimum(np.arange(n + 1), present)
    first[0::2], sizes[0::2] = ends[:-1] + 1, np.maximum(np.diff(ends) - 1, 0)
    scores[0::2] = -0.5 * np.abs(2 * below - present)
    first[1::2] = rising
    sizes[1::2] = (rising <= largest) & (rising != ends[:-2])
    left, right = (np.searchsorted(rising, rising, side=side) for side in ("left", "right"))
    scores[1::2] = -0.5 * np.abs(left - (present - right))
    return Runs(first, sizes, scores)


def isotonic(sums: FloatArray) -> FloatArray:
    """Return the closest curve that does not fall, in least squares: pool adjacent violators.

    O(n). Sums without noise do not fall: the noise that makes them fall is averaged out.
    """
    level: list[float] = []
    count: list[int] = []
    for value in sums.tolist():
        level.append(value)
        count.append(1)
        while len(level) > 1 and level[-2] > level[-1]:
            high, m = level.pop(), count.pop()
            level[-1] = (level[-1] * count[-1] + high * m) / (count[-1] + m)
            count[-1] += m
    return np.repeat(level, count)


class Thresholds(NamedTuple):
    """Public numbers that decide over the ends of a range.

    Attributes
    ----------
    records : int
        Records that were counted, missing values included.
    low, high : ndarray of float64, shape (edges,)
        Most values up to an edge for it to be the lower end, and beyond it to be the upper end.
    fewest : float
        Values that must be present.
    """

    records: int
    low: FloatArray
    high: FloatArray
    fewest: float

    @classmethod
    def of(cls, records: int, up_to: FloatArray, beyond: FloatArray, last: float) -> Thresholds:
        """Return those for noise of these deviations, up to each edge, beyond it and in total."""
        aim = ALPHA * records
        return cls(records, aim + MARGIN * up_to, aim + MARGIN * beyond, 2.0 * aim + SURE * last)


def find_ends(
    sums: FloatArray, thresholds: Thresholds, edges: FloatArray = EDGES
) -> tuple[float, float] | None:
    """Return the ends of a range from noisy prefix sums of bins; None if too few are present.

    Parameters
    ----------
    sums : ndarray of shape (edges + 1,)
        Noisy numbers of values up to each edge, and of all.
    thresholds, edges
        Public numbers.

    Returns
    -------
    low, high : float
        Two of the edges, low < high.
    """
    fit = np.clip(isotonic(sums), 0.0, float(thresholds.records))
    total = fit[-1]
    if total < thresholds.fewest:
        return None
    below = np.flatnonzero(fit[:-1] <= thresholds.low)
    above = np.flatnonzero(total - fit[:-1] <= thresholds.high)
    low = int(below[-1]) if len(below) else 0
    high = int(above[0]) if len(above) else len(edges) - 1
    # Noise may let the ends meet; one edge more on either side is still a function of it alone.
    if high <= low:
        low, high = max(high - 1, 0), min(low + 1, len(edges) - 1)
    return float(edges[low]), float(edges[high])
