"""The published learners of distributions from local reports: their reports and learning rules.

Algorithms 1 (all losses) and 2 (one loss at random) of Sima, Wu, Milenkovic and Szpankowski,
"Online distribution learning with local private constraints" (2024), with their constants.
``docs/privacy/local_errata.md`` lists the corrections, and shows how little these learners learn.

Label y has ``n_y = ceil(M max_j F[j, y])`` of N cells, so that no cell has probability above 1/M.
Then ``v_j = log(M pbar_j)`` with ``pbar_j = (1 - 1/T) F[j, y] / n_y + 1 / (T N)`` is at most 0 and
at least ``-log(T N / M)``. With probability 1/T, and always for a missing label or one that no
hypothesis allows, a label drawn with probability n_y / N is sent instead. Values are integers, and
so is the Laplace noise: ``docs/privacy/local_vector_channels.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpoco import noise
from dpoco._validation import (
    FloatArray,
    IntArray,
    choice,
    label_index,
    positive_float,
    positive_int,
    real_in,
)
from dpoco.local import Hypotheses, PublicCoins
from dpoco.random import Source

__all__ = ["PublishedChannel", "PublishedDistributionLearner"]

SENSITIVITIES = ("round", "worst_case", "exact", "printed")
# If rounding has increased a product M max_j F[j, y] above an integer, it counts as that integer.
_ROUNDING = 1e-9
# Comparing all pairs of labels takes O(M^2) for each hypothesis.
_MOST_PAIRED_LABELS = 4096
_DIGITS = 20


def lattice_step(reach: float) -> float:
    """Return g = 2^(ceil(log2 reach) - 20): a million steps or more to values of size `reach`."""
    mantissa, exponent = math.frexp(reach)
    return math.ldexp(1.0, (exponent if mantissa > 0.5 else exponent - 1) - _DIGITS)


def cells(matrix: FloatArray) -> IntArray:
    """Return n_y = ceil(M max_j F[j, y]), shape (M,), up to rounding of the products."""
    products = matrix.shape[1] * matrix.max(axis=0)
    nearest = np.rint(products)
    close = (nearest >= 1.0) & (np.abs(products - nearest) <= _ROUNDING * nearest)
    counts: IntArray = np.where(close, nearest, np.ceil(products)).astype(np.int64)
    return counts


def printed_scale_factor(hypotheses: int, epsilon: float, delta: float) -> float:
    """Return the published Laplace scale of all K losses, for width 1 of each.

    It is ``(2 sqrt(2 K log(1/delta)) + sqrt(K epsilon)) / epsilon``, more than composition needs.
    """
    root = math.sqrt(-2.0 * hypotheses * math.log(delta))
    return (2.0 * root + math.sqrt(hypotheses * epsilon)) / epsilon


def printed_width(hypotheses: int, horizon: int) -> float:
    """Return log(K T), the published width of clipped log-likelihoods: not an upper bound."""
    return math.log(hypotheses * horizon)


def worst_case_width(hypotheses: int, labels: int, horizon: int) -> float:
    """Return ``log(1 + (T - 1)(min(K, M) + 1))``: no class has a larger width."""
    return math.log1p((horizon - 1) * (min(hypotheses, labels) + 1))


class PublishedChannel:
    """The report of a device in the published algorithms, for one array of hypotheses.

    Parameters
    ----------
    matrix : array of shape (K, M)
        The public hypotheses.
    horizon : int
        T >= 2.
    epsilon, delta : float
        As in the published scale; a delta of 0 means one loss (Algorithm 2).
    sensitivity : {"round", "worst_case", "exact", "printed"}
        Width of the values to which the noise is scaled: ``log(1 + (T - 1) N / M)`` of this array,
        the largest such value for any array, the width of this array's values, or the published
        log(KT), which may be too small.

    Attributes
    ----------
    counts : int array of shape (M,)
        Cells of each label.
    background : array of shape (M,)
        Uniform distribution over the cells, n_y / N.
    width, b, shift, c : float
        Width, scale of the noise, c' and c = 1 / (width + 2 c'): a report r represents the
        normalised loss ``-c (r - c')``.
    step : float
        Lattice step.
    table : int array of shape (K, M)
        Values in lattice steps.
    spread : int
        Largest difference of two attainable integers of one row.
    scale : Fraction
        Scale of the noise, in lattice steps.
    """

    def __init__(
        self,
        matrix: FloatArray,
        horizon: int,
        epsilon: float,
        delta: float = 0.0,
        sensitivity: str = "round",
    ) -> None:
        count, labels = matrix.shape
        self.horizon, self._delta = horizon, delta
        self.counts = cells(matrix)
        total = int(self.counts.sum())
        self.background: FloatArray = self.counts / total
        self._edges = np.cumsum(self.counts)
        lowest = -math.log(horizon * total / labels)
        honest = math.log1p((horizon - 1) * total / labels)
        # A label that no hypothesis allows has no cell and is never sent, so its share is unused.
        shares = (1.0 - 1.0 / horizon) * matrix / np.maximum(self.counts, 1)
        values: FloatArray = np.log(labels * (shares + 1.0 / (horizon * total)))
        owned = values[:, self.counts > 0]
        self.width = {
            "round": honest,
            "worst_case": worst_case_width(count, labels, horizon),
            "exact": float((owned.max(axis=1) - owned.min(axis=1)).max()),
            "printed": printed_width(count, horizon),
        }[choice("sensitivity", sensitivity, SENSITIVITIES)]
        # If all hypotheses are equal, the width is 0.
        self.step = lattice_step(max(self.width, 1e-12))
        low, high = (round(edge / self.step) for edge in (lowest, lowest + honest))
        self.table = np.clip(np.rint(values / self.step).astype(np.int64), low, high)
        self.table[:, self.counts == 0] = low
        owned_steps = self.table[:, self.counts > 0]
        self.spread = int((owned_steps.max(axis=1) - owned_steps.min(axis=1)).max())
        span = {"round": high - low, "exact": self.spread}.get(sensitivity)
        if span is None:
            span = math.ceil(self.width / self.step)
            if sensitivity == "worst_case":
                span = max(span, self.spread)  # the ends of the range may round apart
        if delta > 0.0:
            factor = printed_scale_factor(count, epsilon, delta)
            # The factor exceeds the rounding error of the product.
            self.scale = Fraction(factor * span * (1.0 + 2.0**-49))
        else:
            factor = 1.0 / epsilon
            # Ten reports of 0.1 must fit into a budget of 1, however doubles round.
            self.scale = Fraction(span) / Fraction(epsilon * (1.0 - 2.0**-50))
        self.b = factor * self.width
        self.shift = self.b * (2.0 * math.log(horizon) + math.log(count))
        self.c = 1.0 / (self.width + 2.0 * self.shift)

    @cached_property
    def true_epsilon(self) -> float:
        """Epsilon of a report (at the given delta for all losses), from the integers as sent.

        For one loss and up to 4096 labels it is exact up to rounding, and accounts for the random
        replacement of labels. Otherwise it is an upper bound without the replacement. O(K M^2).
        """
        if self.spread == 0:
            return 0.0
        each = float(self.spread / self.scale)
        if self._delta > 0.0:
            return _compose(self.table.shape[0], each, self._delta)
        if self.counts.size > _MOST_PAIRED_LABELS:
            return each
        return min(each, max(self._mixed_ratio(row) for row in self.table[:, self.counts > 0]))

    def _mixed_ratio(self, values: IntArray) -> float:
        """Return the largest log-ratio of two reports' probabilities, for one loss."""
        # Between neighbouring values all laws are a e^(z/s) + b e^(-z/s), so ratios are monotone,
        # and it is enough to compare at the values themselves.
        shares = self.background[self.counts > 0]
        scale, found = float(self.scale), 0.0
        for z in np.unique(values):
            plain = np.exp(-np.abs(values - z) / scale)
            mixture = float(shares @ plain) / self.horizon
            mixed = (1.0 - 1.0 / self.horizon) * plain + mixture
            found = max(found, float(np.log(mixed.max() / mixed.min())))
        return found

    def respond(self, index: int | None, label: Any, source: Source) -> tuple[int, ...]:
        """Return the report: the value of loss `index`, or of all, plus noise, in lattice steps.

        The number of words drawn does not depend on the label.
        """
        # Both draws are made for every label, whether they are used or not.
        replaced = _below(self.horizon, source) == 0
        place = _below(int(self._edges[-1]), source)
        other = int(np.searchsorted(self._edges, place, side="right"))
        own = label_index(label, self.counts.size)
        if own is None or replaced or self.counts[own] == 0:
            own = other
        rows = slice(None) if index is None else slice(index, index + 1)
        sent = self.table[rows, own]
        if self.scale:
            sent = sent + noise.discrete_laplace(source, sent.size, scale=self.scale)
        return tuple(sent.tolist())

    def normalise(self, values: IntArray) -> FloatArray:
        """Return the losses ``-c (r - c')`` of reports, as published: mostly in [0, 1]."""
        return -self.c * (values.astype(np.float64) * self.step - self.shift)


def _below(n: int, source: Source) -> int:
    """Return an exactly uniform integer below n; rejects with probability below n 2^-64."""
    # Lemire's method rejects these products, which would make some integers more likely.
    least = 2**64 % n
    while True:
        product = int(source.words(1)[0]) * n
        if product % 2**64 >= least:
            return product >> 64


def _compose(count: int, each: float, delta: float) -> float:
    """Return epsilon of `count` reports with `each`: the smaller of sum and published bound."""
    root = math.sqrt(-2.0 * count * math.log(delta))
    return min(count * each, 0.5 * count * each * each + each * root)


class PublishedDistributionLearner:
    """Exponential weights on normalised noisy log-likelihoods, devices and server in one object.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K known distributions over M labels, with or without contexts.
    epsilon : float
        As in the published scale; the cost of a report is `true_epsilon`.
    horizon : int
        T >= 2.
    delta : float, default 0
        0 for Algorithm 2, with one loss drawn by public coins; above 0 for Algorithm 1, with all
        losses.
    sensitivity : {"round", "worst_case", "exact", "printed"}
        Width to which the noise is scaled, see `PublishedChannel`.
    learning_rate : float or "printed", optional
        Default: that of the proof. The printed rate of Algorithm 1 is larger by sqrt(K).
    public_seed : int, default 0
        Seed of the coins that draw the loss.

    Notes
    -----
    One process sees all labels, so it is for comparisons and not for use.
    """

    def __init__(
        self,
        hypotheses: Hypotheses,
        epsilon: float,
        horizon: int,
        *,
        delta: float = 0.0,
        sensitivity: str = "round",
        learning_rate: float | str | None = None,
        public_seed: int = 0,
    ) -> None:
        self._hypotheses, self._seed = hypotheses, public_seed
        self._epsilon = positive_float("epsilon", epsilon)
        self._horizon = positive_int("horizon", horizon, minimum=2)
        self._delta = real_in("delta", delta, "[0, 1)")
        self._sensitivity = choice("sensitivity", sensitivity, SENSITIVITIES)
        count = hypotheses.count
        factor = 1 if delta > 0.0 and learning_rate is None else count
        self._rate = math.sqrt(2.0 * factor * math.log(count) / horizon)
        if learning_rate not in (None, "printed"):
            self._rate = positive_float("learning_rate", learning_rate)
        self._proved = learning_rate is None
        self._losses = np.zeros(count)
        self._round = 1
        self._last: tuple[ArrayLike | None, PublishedChannel] | None = None

    def channel(self, x: ArrayLike | None = None) -> PublishedChannel:
        """Return the channel of devices in context `x`."""
        matrix = self._hypotheses.matrix(x)
        # The last channel is cached, because contexts repeat and a channel costs O(K M).
        if self._last is None or self._last[0] is not matrix:
            made = PublishedChannel(
                matrix, self._horizon, self._epsilon, self._delta, self._sensitivity
            )
            self._last = (matrix, made)
        return self._last[1]

    @property
    def index(self) -> int | None:
        """J of the current round; None if all losses are sent."""
        if self._delta > 0.0:
            return None
        index: int = PublicCoins(self._seed, self._round).below(self._hypotheses.count)
        return index

    def observe(self, label: Any, source: Source, x: ArrayLike | None = None) -> None:
        """Play a round: draw the report on a label (anything else is "no event"), and learn."""
        channel, index = self.channel(x), self.index
        # With one hypothesis there is nothing to learn, so nothing is sent.
        if self._hypotheses.count > 1:
            report = np.array(channel.respond(index, label, source))
            rows = slice(None) if index is None else slice(index, index + 1)
            self._losses[rows] += channel.normalise(report)
        self._round += 1

    @property
    def weights(self) -> FloatArray:
        """Weights of the hypotheses, shape (K,)."""
        # Subtracting the least value cancels, and weights neither overflow nor all underflow.
        powers: FloatArray = np.exp(-self._rate * (self._losses - self._losses.min()))
        weights: FloatArray = powers / powers.sum()
        return weights

    def predict(self, x: ArrayLike | None = None) -> FloatArray:
        """Return ``(1 - 1/T) sum_j w_j f_j[y] + n_y / (T N)``, shape (M,): the cells' mixture."""
        mixture = self.weights @ self._hypotheses.matrix(x)
        background = self.channel(x).background
        prediction: FloatArray = (1.0 - 1.0 / self._horizon) * mixture + background / self._horizon
        return prediction

    @property
    def true_epsilon(self) -> float:
        """Epsilon of a report in any round: the nominal one unless the width is the printed one.

        For the printed width, it is that of the array of hypotheses; with contexts, an upper bound
        for any array.
        """
        count, labels = self._hypotheses.count, self._hypotheses.labels
        if self._sensitivity != "printed" or count == 1 or labels is None:
            return self._epsilon
        if self._hypotheses.kind == "array":
            return max(self._epsilon, self.channel().true_epsilon)
        ratio = worst_case_width(count, labels, self._horizon)
        ratio /= printed_width(count, self._horizon)
        if self._delta == 0.0:
            return max(self._epsilon, self._epsilon * ratio)
        factor = printed_scale_factor(count, self._epsilon, self._delta)
        return max(self._epsilon, _compose(count, ratio / factor, self._delta))

    def risk_bound(self) -> float:
        """Return the published bound on the expected KL-risk of T rounds, in nats.

        It is ``sqrt(2 K T log K) / c + 4 log((K + 1) T)`` (for all losses, without K in the root),
        which covers the normalisation, clipping, and the event that some noise leaves its range.
        Infinite for another rate, and for a width that is not fixed.
        """
        count, horizon = self._hypotheses.count, self._horizon
        fixed = self._hypotheses.kind == "array" and self._sensitivity != "printed"
        if not (fixed and self._proved):
            return math.inf
        factor = count if self._delta == 0.0 else 1
        root = math.sqrt(2.0 * factor * horizon * math.log(count))
        return root / self.channel().c + 4.0 * math.log((count + 1) * horizon)
