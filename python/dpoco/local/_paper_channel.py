"""The published channel: labels split into cells, clipped log-likelihoods, Laplace noise.

Label y owns ``n_y = ceil(M max_j F[j, y])`` of N cells, so that no cell has probability above 1/M;
``v_j = log(M pbar_j)`` with ``pbar_j = (1 - 1/T) F[j, y] / n_y + 1 / (T N)`` is then at most 0 and
at least ``-log(T N / M)``. With probability 1/T, and always where no hypothesis allows the label
or there is none, the device takes a label drawn with probability n_y / N instead.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._discrete_noise import LARGEST, SMALLEST
from dpoco.accounting import local_vector
from dpoco.local._lattice import clamped, kept, lattice_step, on_lattice
from dpoco.local._prediction import label_index
from dpoco.local._vector import noisy, within
from dpoco.random import Source

__all__ = ["SENSITIVITIES", "PaperChannel", "cells", "channel_of"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SENSITIVITIES = ("round", "worst_case", "exact", "printed")
# A product M max_j F[j, y] that rounding has lifted above an integer is that integer.
_ROUNDING = 1e-9
_MOST_PAIRED_LABELS = 4096


def cells(matrix: FloatArray) -> IntArray:
    """Return n_y = ceil(M max_j F[j, y]), shape (M,); up to rounding of the products."""
    products = matrix.shape[1] * matrix.max(axis=0)
    nearest = np.rint(products)
    close = (nearest >= 1.0) & (np.abs(products - nearest) <= _ROUNDING * nearest)
    counts: IntArray = np.where(close, nearest, np.ceil(products)).astype(np.int64)
    return counts


class PaperChannel:
    """The channel for one array of hypotheses.

    Parameters
    ----------
    matrix : array of shape (K, M)
        The public hypotheses.
    horizon : int
        T >= 2.
    epsilon, delta : float
        As in the published scale; delta is 0 for one loss.
    sensitivity : {"round", "worst_case", "exact", "printed"}
        Width of the values that noise is scaled to: ``log(1 + (T - 1) N / M)`` of this array,
        its largest value for any array, the width of this array's values, or the published
        log(KT), which may be too small.
    vector : bool
        All losses (with delta) rather than one.

    Attributes
    ----------
    counts : int array of shape (M,)
        Cells of each label.
    cell_count : int
        N.
    width, b, shift, c : float
        Width, scale of the noise, c' and c = 1 / (width + 2 c'): a report r stands for the
        normalised loss ``-c (r - c')``.
    step : float
        Lattice step.
    table : int array of shape (K, M)
        Values in lattice steps.
    scale : Fraction
        Of the noise, in lattice steps.
    """

    def __init__(
        self,
        matrix: FloatArray,
        horizon: int,
        epsilon: float,
        delta: float,
        sensitivity: str,
        vector: bool,
    ) -> None:
        count, labels = matrix.shape
        self.horizon, self.vector = horizon, vector
        self._epsilon, self._delta = epsilon, delta
        self.counts = cells(matrix)
        self.cell_count = int(self.counts.sum())
        self._edges = np.cumsum(self.counts)
        lowest = -math.log(horizon * self.cell_count / labels)
        honest = math.log1p((horizon - 1) * self.cell_count / labels)
        shares = (1.0 - 1.0 / horizon) * matrix / np.maximum(self.counts, 1)
        values: FloatArray = np.log(labels * (shares + 1.0 / (horizon * self.cell_count)))
        if sensitivity == "worst_case":
            self.width = local_vector.worst_case_width(count, labels, horizon)
        elif sensitivity == "printed":
            self.width = local_vector.printed_width(count, horizon)
        elif sensitivity == "exact":
            owned = values[:, self.counts > 0]
            self.width = float((owned.max(axis=1) - owned.min(axis=1)).max())
        else:
            self.width = honest
        self.step = lattice_step(max(self.width, 1e-12))
        low, high = (round(edge / self.step) for edge in (lowest, lowest + honest))
        self.table = np.clip(on_lattice(values, self.step), low, high)
        self.table[:, self.counts == 0] = low
        self.table.flags.writeable = False
        self.spread = self._spread()
        span = {"round": high - low, "exact": self.spread}.get(sensitivity)
        if span is None:
            span = math.ceil(self.width / self.step)
            if sensitivity == "worst_case":
                span = max(span, self.spread)  # ends of the range may round apart
        self.scale = self._scale(span)
        if self.scale and not SMALLEST <= self.scale <= LARGEST:
            raise ValueError("epsilon is too small for this channel")
        logs = 2.0 * math.log(horizon) + math.log(count)
        self.b = self._factor(count) * self.width
        self.shift = self.b * logs
        self.c = 1.0 / (self.width + 2.0 * self.shift)

    def _spread(self) -> int:
        """Return the largest difference of two attainable integers of one row."""
        owned = self.table[:, self.counts > 0]
        return int((owned.max(axis=1) - owned.min(axis=1)).max())

    def _factor(self, count: int) -> float:
        if not self.vector:
            return 1.0 / self._epsilon
        return local_vector.printed_scale_factor(count, self._epsilon, self._delta)

    def _scale(self, span: int) -> Fraction:
        if span == 0:
            return Fraction(0)
        if not self.vector:
            return Fraction(span) / Fraction(within(self._epsilon))
        factor = self._factor(self.table.shape[0])
        scale = factor * span * (1.0 + 2.0**-49)
        if not math.isfinite(scale):
            raise ValueError("epsilon or delta is too small for this channel")
        return Fraction(scale)

    @property
    def background(self) -> FloatArray:
        """The cells' uniform distribution as one over labels: n_y / N, shape (M,)."""
        shares: FloatArray = self.counts.astype(np.float64) / self.cell_count
        return shares

    @cached_property
    def true_epsilon(self) -> float:
        """Epsilon of a report (at the given delta for all losses), from the integers as sent.

        For one loss it is exact up to rounding, the random replacement of labels included, for up
        to 4096 labels; else an upper bound without it. O(K M^2).
        """
        if self.spread == 0:
            return 0.0
        each = float(self.spread / self.scale)
        if self.vector:
            return composed(self.table.shape[0], each, self._delta)
        if self.counts.size > _MOST_PAIRED_LABELS:
            return each
        return min(each, max(self._mixed_ratio(row) for row in self.table[:, self.counts > 0]))

    def _mixed_ratio(self, values: IntArray) -> float:
        """Return the largest log-ratio of two reports' probabilities, for one loss."""
        # Between neighbouring values all laws are a e^(z/s) + b e^(-z/s), so that ratios are
        # monotone: it is enough to look at the values themselves.
        shares = self.background[self.counts > 0]
        scale = float(self.scale)
        found = 0.0
        for z in np.unique(values):
            plain = np.exp(-np.abs(values - z) / scale)
            mixed: FloatArray = (1.0 - 1.0 / self.horizon) * plain + float(
                shares @ plain
            ) / self.horizon
            found = max(found, float(np.log(mixed.max() / mixed.min())))
        return found

    def costs_at_most(self, epsilon: float) -> bool:
        """Return whether a report has at most this epsilon (at the given delta)."""
        if not self.vector and self.spread <= self.scale * Fraction(epsilon):  # exact
            return True
        return self.true_epsilon <= epsilon

    @staticmethod
    def printed_bound(
        hypotheses: int, labels: int, horizon: int, epsilon: float, delta: float, vector: bool
    ) -> float:
        """Return an upper bound on epsilon with the printed width, for any array."""
        ratio = local_vector.worst_case_width(hypotheses, labels, horizon)
        ratio /= local_vector.printed_width(hypotheses, horizon)
        if not vector:
            return epsilon * ratio
        factor = local_vector.printed_scale_factor(hypotheses, epsilon, delta)
        return composed(hypotheses, ratio / factor, delta)

    def respond(self, index: int | None, label: Any, source: Source) -> tuple[int, ...]:
        """Return the report: the value of loss `index`, or of all, plus noise, in lattice steps.

        The number of words drawn does not depend on the label.
        """
        replaced = _below(self.horizon, source) == 0
        other = int(np.searchsorted(self._edges, _below(self.cell_count, source), side="right"))
        own = label_index(label, self.counts.size)
        if own is None or replaced or self.counts[own] == 0:
            own = other
        rows = slice(None) if index is None else slice(index, index + 1)
        return noisy(self.table[rows, own], "laplace", self.scale, source)

    def normalised(self, values: IntArray, index: int | None = None) -> FloatArray:
        """Return the losses ``-c (r - c')`` of reports, as published: mostly in [0, 1].

        `index` is that of the one loss asked for. Reports that no honest device sends are clamped.
        """
        rows = slice(None) if index is None else slice(index, index + 1)
        inside = clamped(values, self.table[rows], self.scale)
        losses: FloatArray = -self.c * (inside.astype(np.float64) * self.step - self.shift)
        return losses


def _below(n: int, source: Source) -> int:
    """Return a uniform integer below n: exactly, by rejection with probability below n 2^-64."""
    least = 2**64 % n
    while True:
        product = int(source.words(1)[0]) * n
        if product % 2**64 >= least:
            return product >> 64


def composed(count: int, each: float, delta: float) -> float:
    """Return epsilon of `count` reports with `each`: the smaller of the sum and the published."""
    root = math.sqrt(-2.0 * count * math.log(delta))
    return min(count * each, 0.5 * count * each * each + each * root)


def channel_of(
    matrix: FloatArray,
    horizon: int,
    epsilon: float,
    delta: float,
    sensitivity: str,
    vector: bool,
) -> PaperChannel:
    """Return the channel of an array of hypotheses, at best as it was built before."""
    settings = (horizon, epsilon, delta, sensitivity, vector)
    return kept(matrix, ("paper", *settings), lambda: PaperChannel(matrix, *settings))
