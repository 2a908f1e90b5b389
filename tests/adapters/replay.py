"""Replay audit of a training: how much of its budget one changed example uses.

Two runs on neighbouring data get the same noisy gradients, those of the first run. Their models
are then equal at all times, and the sums of gradients that reach the engine differ by what the
changed example adds. The distance of these sums, correlated as the noise is and divided by its
scale, is the mu that this pair of data sets uses: a lower bound on that of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpoco._validation import FloatArray
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum

__all__ = ["used_mu"]


def used_mu(make: Callable[[], Any], batches: Iterable[Any], neighbouring: Iterable[Any]) -> float:
    """Return the mu that two neighbouring streams of batches use.

    Parameters
    ----------
    make : callable
        Returns a new `PrivateTraining`, always with the same parameters.
    batches, neighbouring : iterable
        What its `step` takes; they differ in the data of one person.

    Returns
    -------
    float
        At most ``guarantee.mu`` if the training keeps its promises on these streams.
    """
    first = _Recorded(make(), None)
    for batch in batches:
        first.training.step(batch)
    second = _Recorded(make(), first.released)
    for batch in neighbouring:
        second.training.step(batch)
    if len(first.sums) != len(second.sums):
        raise ValueError("neighbouring streams must have the same number of steps")
    gaps = np.array([a - b for a, b in zip(first.sums, second.sums, strict=True)])
    total: GaussianSum = first.training.noise.mechanism
    return float(np.linalg.norm(_rows(total, gaps))) / float(total.scale)


class _Recorded:
    """A training of which sums of gradients are recorded, and noisy ones may be given."""

    def __init__(self, training: Any, given: list[FloatArray] | None) -> None:
        self.training, self.sums = training, list[FloatArray]()
        self.released = list[FloatArray]()
        release = training.noise.release

        def record(total: FloatArray) -> FloatArray:
            self.sums.append(total.copy())
            noisy = release(total) if given is None else given[len(self.sums) - 1]
            self.released.append(noisy.copy())
            return noisy.copy()

        training.noise.release = record


def _rows(total: GaussianSum, gaps: FloatArray) -> FloatArray:
    """Return what the factorisation makes of differences, shape (steps, d)."""
    factor, steps = total.factorisation, len(gaps)
    assert isinstance(factor, Buffered | Banded)
    scaled = gaps
    if isinstance(factor, Banded):
        column = np.zeros(max(steps, factor.band))
        column[: factor.band] = factor.coefficients
        scaled = gaps / np.array(factor.levels)[:steps, None]
    else:
        powers = np.power.outer(1.0 - np.array(factor.decay), np.arange(max(steps - 1, 0)))
        column = np.concatenate([[1.0], np.array(factor.weights) @ powers])
    if isinstance(factor, Normalised):
        lengths = np.diff(factor.ends, prepend=0)
        scaled = gaps / np.repeat(factor.levels, lengths)[:steps, None]
    rows = np.zeros_like(gaps)
    for t in np.flatnonzero(np.any(gaps != 0.0, axis=1)):
        rows[t:] += column[: steps - t, None] * scaled[t]
    return rows
