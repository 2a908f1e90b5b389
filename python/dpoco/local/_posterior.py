"""Tempered Bayes on the messages: exact likelihoods of noisy reports, and their information.

Mutual information decides between channels. The Bhattacharyya coefficient BC of a report's laws
measures how well it distinguishes two hypotheses. Gaps ``1 - BC`` are computed from differences of
the laws, so small gaps have a small relative error; gaps within rounding error are 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray, IntArray
from dpoco.local._bounds import bayes_bound, tempered_bound
from dpoco.local._messages import Query, RoundSpec
from dpoco.local._randomizers import BitRandomizer, subset_randomizer
from dpoco.local._settings import Settings

# For more outcomes, the law of one label of the subset is used, which has less information.
_LARGEST_LISTED_LAW = 5000
_ROUNDING = 2.0**-52


class Posterior:
    """Weights proportional to the likelihood of all reports, to the power of a temperature.

    It is deterministic: the same specifications and reports give the same state. A report costs
    O(K), plus a cost once per specification: O(K M) for the means of its queries, or O(K d) per
    subset of d labels.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        assert isinstance(settings.learning_rate, float)
        self._temperature = settings.learning_rate
        self._engine = _core.LocalPosterior(settings.hypotheses, self._temperature)
        self._bits = BitRandomizer(settings.epsilon, settings.bits)
        # For the last context: the context, its statistics, and the information for uniform
        # weights.
        self._context: tuple[FloatArray, FloatArray, FloatArray] | None = None
        self._uniform: tuple[float, float] | None = None
        self._told: tuple[FloatArray, int, FloatArray] | None = None  # of the last subset
        self._means: tuple[bytes, NDArray[np.float64]] | None = None  # of the last specification

    @property
    def weights(self) -> FloatArray:
        """Tempered weights, shape (K,)."""
        return self._engine.weights(self._temperature)

    @property
    def reports(self) -> int:
        """Number of reports taken."""
        return int(self._engine.reports)

    def posterior(self) -> FloatArray:
        """Return the untempered posterior, shape (K,)."""
        return self._engine.weights(1.0)

    def mixing(self, round: int) -> float:
        """Return the given mixing, or by default 1/T, or 1/(t + 1) in an endless stream."""
        settings = self._settings
        if settings.mixing is not None:
            return settings.mixing
        return 1.0 / (round + 1) if settings.horizon is None else 1.0 / settings.horizon

    def specify(
        self, round: int, matrix: FloatArray | None, queries: tuple[Query, ...] | None = None
    ) -> RoundSpec:
        """Return the round's specification: bits of the query family, or a subset.

        Parameters
        ----------
        round : int
            From 1 on.
        matrix : array of shape (K, M)
            The hypotheses in the round's context.
        queries : tuple of Query, optional
            Queries to use instead of those of the round.
        """
        assert matrix is not None
        settings = self._settings
        weights = self.weights if settings.interactive else None
        if settings.channel == "subset" and settings.subset_size is not None:
            return settings.round_spec(round, "subset", subset_size=settings.subset_size)
        if queries is None:
            # Predictions may have mixing 0, but log losses need a positive one.
            queries = settings.questions(round, matrix, weights, self.mixing(round) or 1.0)
        means = [query.means(matrix) for query in queries]
        if settings.channel == "auto":
            size = self.choose_subset(matrix, weights, means)
            if size is not None:
                return settings.round_spec(round, "subset", subset_size=size)
        spec = settings.round_spec(round, "bit", queries=queries)
        # Reports to this specification need the means again, which cost O(K M).
        self._means = (spec.digest, np.array(means))
        return spec

    def choose_subset(
        self, matrix: FloatArray, weights: FloatArray | None, means: Sequence[FloatArray]
    ) -> int | None:
        """Return the size of the subset to ask for, or None for bits.

        Parameters
        ----------
        matrix : array of shape (K, M)
            The hypotheses in the round's context.
        weights : array of shape (K,), or None
            Weights on which the server may base its decision; None for uniform.
        means : sequence of arrays of shape (K,)
            Means of the round's queries, one array per bit.
        """
        count, size = matrix.shape[0], self._settings.subset_size
        if size is None or count == 1:
            return None
        used = np.full(count, 1.0 / count) if weights is None else weights
        contrast = self._bits.contrast
        best, chosen = sum(_core.local_bit_information(used, own, contrast) for own in means), None
        response, subset = self.informations(matrix, weights, size)
        # In case of a tie, bits are used, because their message is shorter.
        if response > best:
            best, chosen = response, 1
        if size >= 2 and subset > best:
            chosen = size
        return chosen

    def informations(
        self, matrix: FloatArray, weights: FloatArray | None, size: int
    ) -> tuple[float, float]:
        """Return the information, in nats, of randomized response and of subsets of `size`.

        For subsets, it is that of small signals. Values that only depend on the context are
        computed once, in O(K M); the mixture of other weights costs O(K M).
        """
        count, labels = matrix.shape
        epsilon = self._settings.epsilon
        c = contraction(labels, epsilon)
        # Compared by identity, because hypotheses return the same array for the same context.
        if self._context is None or matrix is not self._context[0]:
            squares = _core.local_row_statistics(matrix, None) if size >= 2 else np.empty(0)
            self._context = matrix, _core.local_row_statistics(matrix, c), squares
            self._uniform = None
        if weights is None and self._uniform is not None:
            return self._uniform
        _, entropies, squares = self._context
        used = np.full(count, 1.0 / count) if weights is None else weights
        response, subset = float(_core.local_response_information(used, matrix, entropies, c)), 0.0
        if size >= 2:
            spread = float(_core.local_weighted_spread(used, matrix, squares))
            subset = 0.5 * signal(labels, size, epsilon) * spread
        if weights is None:
            self._uniform = response, subset
        return response, subset

    def accepts(self, spec: RoundSpec, matrix: FloatArray | None) -> bool:
        """Return whether this rule may have asked a round that was read from a file."""
        settings = self._settings
        if not settings.interactive:  # questions do not depend on weights, so it can be asked again
            return self.specify(spec.round, matrix).digest == spec.digest
        if spec.channel == "bit":
            return len(spec.queries) == self._bits.bits
        chosen = settings.channel == "auto" and spec.channel == "subset"
        return chosen and spec.subset_size in (1, settings.subset_size)

    def apply(self, spec: RoundSpec, matrix: FloatArray | None, values: IntArray) -> None:
        """Multiply in the likelihoods of reports; their order only matters up to rounding.

        Parameters
        ----------
        spec : RoundSpec
            Specification of an open round.
        matrix : array of shape (K, M)
            The hypotheses in its context.
        values : array of shape (n, width)
            Bits or subsets, checked.
        """
        assert matrix is not None
        if spec.channel == "bit":
            means = self._find_means(spec, matrix)
            self._engine.add_bits(means, self._bits.contrast, values)
        else:
            self._engine.add_subsets(matrix, self._gain(spec), values)

    def information_parts(self, spec: RoundSpec, matrix: FloatArray) -> list[FloatArray]:
        """Return the information between hypotheses of each bit of a report, or of its subset."""
        if spec.subset_size is None:
            contrast, labels = self._bits.contrast, matrix.shape[1]
            means = self._find_means(spec, matrix)
            return [gap_information(bit_gap(own, contrast, labels)) for own in means]
        last = self._told
        if last is None or last[0] is not matrix or last[1] != spec.subset_size:
            gap = subset_gap(matrix, spec.subset_size, self._gain(spec))
            last = self._told = (matrix, spec.subset_size, gap_information(gap))
        return [last[2]]

    def _gain(self, spec: RoundSpec) -> float:
        """Return the likelihood ratio, minus 1, of subsets with and without the user's label."""
        assert spec.labels is not None
        return subset_randomizer(spec.labels, spec.subset_size, spec.epsilon).gain

    def _find_means(self, spec: RoundSpec, matrix: FloatArray) -> NDArray[np.float64]:
        """Return the means of a round's queries, shape (bits, K); the last ones are cached."""
        if self._means is None or self._means[0] != spec.digest:
            means = np.array([query.means(matrix) for query in spec.queries])
            self._means = (spec.digest, means)
        return self._means[1]

    def compiled_settings(self) -> dict[str, object] | None:
        """Return the settings for `play`; None if compiled code cannot play this rule."""
        settings = self._settings
        labels, size, epsilon = settings.labels, settings.subset_size, settings.epsilon
        if labels is None or settings.query == "loss":
            return None
        gains = {1: 0.0, size: 0.0}
        if size is not None:
            gains = {d: subset_randomizer(labels, d, epsilon).gain for d in {1, size}}
        fixed = settings.mixing is not None or settings.horizon is not None
        return {
            "mixing": self.mixing(1) if fixed else -1.0,
            "family": settings.query,
            "channel": settings.channel if labels > 1 else "bit",
            "interactive": settings.interactive,
            "bits": settings.bits,
            "subset_size": size or 0,
            "response_gain": gains[1],
            "subset_gain": gains[size],
            "contraction": contraction(labels, epsilon),
            "signal": signal(labels, size, epsilon) if size else 0.0,
        }

    def play(self, noise: _core.Source, *arrays: Any) -> dict[str, int]:
        """Play rounds of a simulation in compiled code."""
        return _core.local_simulate_posterior(self._engine, noise, *arrays)

    def risk_bound(self, rounds: int) -> float:
        """Return the a-priori bound if the channel has one; otherwise infinity."""
        settings = self._settings
        count = settings.hypotheses
        inverse = self._bits.inverse_contrast
        if settings.channel == "bit" and settings.query == "loss":
            return tempered_bound(count, rounds, inverse, self.mixing, self._temperature)
        # Tempered posteriors only have bounds on messages, except for loss queries (B2).
        if self._temperature != 1.0:
            return math.inf
        return bayes_bound(count, rounds, self.variation_strength(), self.mixing)

    def variation_strength(self) -> float:
        """Return s with ``TV(f_*, p)^2 <= s^2 KL(g_*, g) / 2`` for the channel, or inf."""
        settings = self._settings
        labels = settings.labels
        if labels is None or labels == 1:
            return math.inf
        if settings.channel == "bit" and settings.query == "hadamard":
            return self._bits.inverse_contrast * math.sqrt(labels)
        if settings.channel == "subset" and settings.subset_size == 1:
            return 1.0 / contraction(labels, settings.epsilon)
        return math.inf

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return log-likelihoods and the number of reports."""
        return {"engine": np.frombuffer(self._engine.state(), dtype=np.uint8)}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Continue from `state`."""
        self._engine.restore(np.asarray(arrays["engine"], dtype=np.uint8).tobytes())


def contraction(labels: int, epsilon: float) -> float:
    """Return c of randomized response, ``g = c f + (1 - c) / M``."""
    odds = _core.local_exp(epsilon) - 1.0
    return float(odds / (odds + labels))


def signal(labels: int, size: int, epsilon: float) -> float:
    """Return kappa: the information of a subset with a small signal is kappa/2 times the spread."""
    odds = _core.local_exp(epsilon) - 1.0
    share = size / labels
    gain = odds / (1.0 + odds * share)
    return float(gain * gain * size * (labels - size) / (labels * (labels - 1.0)))


def bit_gap(means: FloatArray, contrast: float, labels: int) -> FloatArray:
    """Return 1 - BC of one bit, for all pairs of the K query means, shape (K, K).

    `contrast` is c0 as sampled; means are sums over `labels` terms.
    """
    # We use (p - q)^2 / (sqrt p + sqrt q)^2 for both outcomes, which keeps its digits if the
    # contrast is small (docs/privacy/local_learning.md, B5).
    differences = _without_rounding(means[:, None] - means[None, :], labels)
    ones, zeros = np.sqrt(0.5 * (1.0 + contrast * means)), np.sqrt(0.5 * (1.0 - contrast * means))
    shares = np.add.outer(ones, ones) ** -2.0 + np.add.outer(zeros, zeros) ** -2.0
    return 0.125 * (contrast * differences) ** 2 * shares


def subset_gap(matrix: FloatArray, size: int, gain: float) -> FloatArray:
    """Return 1 - BC of a subset, or of one label drawn from it if there are too many subsets.

    The latter is a lower bound, because post-processing of a report has no more information.
    """
    labels = matrix.shape[1]
    if size > 1 and math.comb(labels, size) <= _LARGEST_LISTED_LAW:
        chosen = np.array(list(combinations(range(labels), size)))
        masses = matrix[:, chosen].sum(axis=2)
        # Rows that sum to 1 up to rounding have laws that also do.
        slope = gain / (chosen.shape[0] * (1.0 + gain * size / labels))
        base = slope / gain if gain else 1.0 / chosen.shape[0]
    else:
        # A uniform label of the subset is the user's label with probability inside / d.
        share = (1.0 + gain) * size / labels
        own = share / (share + (labels - size) / labels) / size
        base = (1.0 - own) / (labels - 1)
        masses, slope = matrix, own - base
    roots = np.sqrt(base + slope * masses)
    gap = np.empty((matrix.shape[0], matrix.shape[0]))
    for i, row in enumerate(masses):
        differences = slope * _without_rounding(masses - row, labels)
        gap[i] = 0.5 * ((differences / (roots + roots[i])) ** 2).sum(axis=1)
    return gap


def gap_information(gap: FloatArray) -> FloatArray:
    """Return ``-log BC`` of gaps ``1 - BC``, in nats; independent reports add up."""
    return 0.0 - np.log1p(-gap)  # gives 0 instead of -0


def _without_rounding(differences: FloatArray, labels: int) -> FloatArray:
    """Set differences to 0, in place, if a sum over so many labels may cause them by rounding."""
    # Otherwise, hypotheses that no question distinguishes would seem to need very many reports,
    # although no number of reports is enough.
    differences[np.abs(differences) <= labels * _ROUNDING] = 0.0
    return differences
