"""Public grids of numbers: candidates for medians, and bins for differences from a median.

Both are the same for everybody and cover all doubles for which ranges are found. Values are placed
by exact operations (`frexp`, comparisons), so all machines place them equally.
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

_LOWEST, _HIGHEST, _STEPS = -24, 40, 2**16  # candidates 0 and +-2^e (1 + i / steps), e < highest
LARGEST = (_HIGHEST - _LOWEST) * _STEPS + 1  # place of the largest candidate, 2^40
ABSENT = LARGEST + 1  # after all candidates
_HALF_OCTAVES = np.arange(2 * _LOWEST, 2 * _HIGHEST + 1)
# `sqrt` is correctly rounded everywhere, and `ldexp` is exact.
_POSITIVE = np.ldexp(np.where(_HALF_OCTAVES % 2, math.sqrt(2.0), 1.0), _HALF_OCTAVES // 2)
EDGES: FloatArray = np.concatenate([-_POSITIVE[::-1], _POSITIVE])
EDGES.setflags(write=False)
# The quantile at which a range aims; the noise deviations by which its ends are moved inwards,
# because a range that is too wide costs a learner more; and those by which enough values must be
# present.
ALPHA, MARGIN, SURE = 0.1, 1.5, 3.0


def places(values: FloatArray) -> NDArray[np.int64]:
    """Return the places of the candidates next to values, any shape; `ABSENT` if not finite."""
    finite = np.isfinite(values)
    # The mantissa is in [0.5, 1), so numbers of one octave are evenly spaced.
    mantissa, exponent = np.frexp(np.where(finite, np.abs(values), 0.0))
    steps = np.rint((2.0 * mantissa - 1.0) * _STEPS).astype(np.int64)
    octave = exponent.astype(np.int64) - 1 - _LOWEST
    # A mantissa that rounds to the end of its octave gets the first place of the next octave.
    found = np.clip(1 + octave * _STEPS + steps, 0, LARGEST)
    found = np.where(mantissa == 0.0, 0, found)
    return np.where(finite, np.where(values < 0.0, -found, found), ABSENT)


def candidate(place: int) -> float:
    """Return the candidate at a place, an exact double.

    Parameters
    ----------
    place : int
        In -LARGEST..LARGEST; negative places are for negative numbers.
    """
    if place == 0:
        return 0.0
    octave, step = divmod(abs(place) - 1, _STEPS)
    return math.copysign(math.ldexp(1.0 + step / _STEPS, octave + _LOWEST), place)


class Runs(NamedTuple):
    """Runs of candidates with equal scores; their number does not depend on the values.

    Attributes
    ----------
    first, sizes : ndarray of int64, shape (2 n + 1,)
        Place of the first candidate of each run, and number of candidates; 0 for an empty run.
    scores : ndarray of float64, shape (2 n + 1,)
        Minus half the difference between the numbers of values below and above.
    """

    first: NDArray[np.int64]
    sizes: NDArray[np.int64]
    scores: FloatArray


def group_candidates(values: NDArray[np.int64], largest: int = LARGEST) -> Runs:
    """Return the runs of the candidates -largest..largest for values at these places, shape (n,).

    Values after `largest` are absent. O(n log n), for any number of candidates.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        Results of `places`.
    largest : int
        Place of the largest candidate; smaller ones are for tests.
    """
    n = len(values)
    rising = np.sort(np.minimum(values, largest + 1))
    present = int(np.searchsorted(rising, largest + 1))
    ends = np.concatenate([[-largest - 1], rising, [largest + 1]])
    first, sizes = np.empty((2, 2 * n + 1), dtype=np.int64)
    scores = np.empty(2 * n + 1)
    # Between adjacent values, and at each value that differs from the previous one.
    below = np.minimum(np.arange(n + 1), present)
    first[0::2], sizes[0::2] = ends[:-1] + 1, np.maximum(np.diff(ends) - 1, 0)
    scores[0::2] = -0.5 * np.abs(2 * below - present)
    first[1::2] = rising
    sizes[1::2] = (rising <= largest) & (rising != ends[:-2])
    left, right = (np.searchsorted(rising, rising, side=side) for side in ("left", "right"))
    scores[1::2] = -0.5 * np.abs(left - (present - right))
    return Runs(first, sizes, scores)


def isotonic(sums: FloatArray) -> FloatArray:
    """Return the closest non-decreasing curve, in least squares, by pooling adjacent violators.

    O(n). Sums without noise do not decrease, so this averages out noise that makes them decrease.
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
    """Public numbers that decide the ends of a range.

    Attributes
    ----------
    records : int
        Number of counted records, including missing values.
    low, high : ndarray of float64, shape (edges,)
        Largest number of values up to an edge for the lower end, and beyond it for the upper end.
    fewest : float
        Least number of values that must be present.
    """

    records: int
    low: FloatArray
    high: FloatArray
    fewest: float

    @classmethod
    def of(cls, records: int, up_to: FloatArray, beyond: FloatArray, last: float) -> Thresholds:
        """Return the thresholds for these noise deviations: up to an edge, beyond it, in total."""
        aim = ALPHA * records
        return cls(records, aim + MARGIN * up_to, aim + MARGIN * beyond, 2.0 * aim + SURE * last)


def find_ends(
    sums: FloatArray, thresholds: Thresholds, edges: FloatArray = EDGES
) -> tuple[float, float] | None:
    """Return the ends of a range from noisy prefix sums of bins; None if values are too few.

    Parameters
    ----------
    sums : ndarray of shape (edges + 1,)
        Noisy numbers of values up to each edge, and the noisy total.
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
    # Noise may make the ends meet. One more edge on each side is still a function of the noisy
    # sums.
    if high <= low:
        low, high = max(high - 1, 0), min(low + 1, len(edges) - 1)
    return float(edges[low]), float(edges[high])
