"""Tempered Bayes on the messages: the exact likelihood of every noisy report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.errors import StateError
from dpoco.local._bounds import bayes_bound, tempered_bound
from dpoco.local._channel import ChannelChoice, contraction, queries_of, query_means
from dpoco.local._prediction import Prediction
from dpoco.local._queries import Query
from dpoco.local._randomizers import BitRandomizer, SubsetRandomizer
from dpoco.local._rules import Settings
from dpoco.local._specs import RoundSpec

__all__ = ["Posterior", "negative_log_affinity"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Above it, the law of a subset is replaced by that of one of its labels: less information.
_LARGEST_LISTED_LAW = 5000
LARGEST_INFORMATION = 512


class Posterior:
    """Weights proportional to the likelihood of all reports, to the power of a temperature.

    Follows `Rule`. A report costs O(K) besides what its specification costs once: O(K M) for the
    means of its queries; O(K d) a subset of d labels.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._temperature = float(settings.options["temperature"])
        self._engine = _core.LocalPosterior(settings.hypotheses, self._temperature)
        self._bits = BitRandomizer(settings.epsilon, settings.bits)
        self._choice = ChannelChoice(
            settings.epsilon, settings.options["message_bits"], settings.options["subset_size"]
        )
        self._subset: dict[int, float] = {}  # size -> gain
        self._means: tuple[bytes, NDArray[np.float64]] | None = None  # of the last specification
        self._information: FloatArray | None = None
        if settings.options["track_information"]:
            self._information = np.zeros((settings.hypotheses, settings.hypotheses))

    # -- rounds -----------------------------------------------------------------------------------

    @property
    def weights(self) -> FloatArray:
        """Tempered weights, shape (K,)."""
        weights: FloatArray = self._engine.weights(self._temperature)
        return weights

    @property
    def log_likelihoods(self) -> FloatArray:
        """Log-likelihood of all reports under each hypothesis, the largest being 0."""
        logs: FloatArray = self._engine.log_likelihoods()
        return logs

    def posterior(self) -> FloatArray:
        """Return the untempered posterior, shape (K,)."""
        weights: FloatArray = self._engine.weights(1.0)
        return weights

    def mixing(self, round: int) -> float:
        """Return 1/T, or 1/(t + 1) in round t of an endless stream, unless it was given."""
        settings = self._settings
        if settings.mixing is not None:
            return settings.mixing
        return 1.0 / (round + 1) if settings.horizon is None else 1.0 / settings.horizon

    def specify(self, round: int, matrix: FloatArray | None) -> RoundSpec:
        """Return the round's specification: bits of the query family, or a subset."""
        assert matrix is not None
        settings = self._settings
        weights = self.weights if settings.interactive else None
        queries: tuple[Query, ...] = ()
        means: tuple[FloatArray, ...] = ()
        size: int | None = None
        if settings.channel == "subset" and matrix.shape[1] >= 2:
            size = self.subset_size(matrix.shape[1])
        else:
            queries, means = queries_of(
                settings.query,
                settings.public_seed,
                round,
                self._bits.bits,
                matrix,
                weights=weights if weights is not None else np.empty(0),
                mixing=self.mixing(round) or 1.0,
                exact_range=settings.range == "exact",
            )
            if settings.channel == "auto":
                size = self._choice.choose(matrix, weights, means, self._bits.contrast)
        spec = RoundSpec(
            round=round,
            channel="bit" if size is None else "subset",
            epsilon=settings.epsilon,
            hypotheses=settings.hypotheses,
            labels=settings.labels,
            queries=queries if size is None else (),
            subset_size=size,
        )
        if size is None:
            self._means = (spec.digest, np.array(means))
        return spec

    def subset_size(self, labels: int) -> int | None:
        """Return the size of the subsets that are asked for; None if there are none."""
        settings = self._settings
        if settings.channel == "bit" or labels < 2:
            return None
        given: int | None = settings.options["subset_size"]
        if settings.channel == "auto":
            return self._choice.size(labels)
        return SubsetRandomizer(labels, given, settings.epsilon).size

    def apply(self, spec: RoundSpec, matrix: FloatArray | None, values: IntArray) -> None:
        """Multiply in the likelihoods of reports; the order does not matter up to rounding."""
        assert matrix is not None
        if spec.channel == "bit":
            means = self._means_of(spec, matrix)
            self._engine.add_bits(means, self._bits.contrast, values)
            if self._information is not None:
                affinity = _bits_affinity(means, self._bits.contrast)
                self._information += values.shape[0] * affinity
            return
        size = spec.subset_size
        assert size is not None
        assert spec.labels is not None
        if size not in self._subset:
            self._subset[size] = SubsetRandomizer(spec.labels, size, spec.epsilon).gain
        gain = self._subset[size]
        self._engine.add_subsets(matrix, gain, values)
        if self._information is not None:
            affinity = _subset_affinity(matrix, size, gain)
            self._information += values.shape[0] * affinity

    def _means_of(self, spec: RoundSpec, matrix: FloatArray) -> NDArray[np.float64]:
        if self._means is None or self._means[0] != spec.digest:
            means = np.array([query_means(query, matrix) for query in spec.queries])
            self._means = (spec.digest, means)
        return self._means[1]

    def predict(self, round: int, matrix: FloatArray) -> Prediction:
        """Return ``(1 - mixing) sum_j w_j f_j + mixing * mean of the f_j``."""
        return Prediction(self.weights, self.mixing(round), matrix=matrix)

    # -- what is known ----------------------------------------------------------------------------

    def risk_bound(self, rounds: int) -> float:
        """Return the a-priori bound where the channel has one; else infinity."""
        settings = self._settings
        count, labels = settings.hypotheses, settings.labels
        inverse = self._bits.inverse_contrast
        if settings.channel == "bit" and settings.query == "loss":
            return tempered_bound(count, rounds, inverse, self.mixing, self._temperature)
        if self._temperature != 1.0 or labels is None:
            return math.inf
        if settings.channel == "bit" and settings.query == "hadamard" and labels > 1:
            return bayes_bound(count, rounds, inverse * math.sqrt(labels), self.mixing)
        if settings.channel == "subset" and settings.options["subset_size"] == 1:
            return bayes_bound(
                count, rounds, 1.0 / contraction(labels, settings.epsilon), self.mixing
            )
        return math.inf

    def information(self) -> FloatArray:
        """Return the accumulated ``-log`` Bhattacharyya coefficients, shape (K, K)."""
        if self._information is None:
            raise ValueError("information is not tracked; construct with track_information=True")
        return self._information.copy()

    # -- state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Return log-likelihoods and the number of reports; the information matrix if tracked."""
        arrays: dict[str, NDArray[Any]] = {
            "engine": np.frombuffer(self._engine.state(), dtype=np.uint8)
        }
        if self._information is not None:
            arrays["information"] = self._information.copy()
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `state`."""
        engine = _core.LocalPosterior(self._settings.hypotheses, self._temperature)
        try:
            engine.restore(np.asarray(arrays["engine"], dtype=np.uint8).tobytes())
        except StateError as error:
            raise ValueError(str(error)) from None
        if self._information is not None:
            information = np.array(arrays["information"], dtype=np.float64)
            if information.shape != self._information.shape or not (information >= 0.0).all():
                raise ValueError("state holds an impossible information matrix")
            self._information = information
        self._engine = engine
        self._means = None


def _bits_affinity(means: FloatArray, contrast: float) -> FloatArray:
    """Return -log BC of all bits of a report, for all pairs, shape (K, K)."""
    total = np.zeros((means.shape[1], means.shape[1]))
    for own in means:
        ones, zeros = 0.5 * (1.0 + contrast * own), 0.5 * (1.0 - contrast * own)
        total += negative_log_affinity(np.stack([ones, zeros], axis=1))
    return total


def negative_log_affinity(laws: FloatArray) -> FloatArray:
    """Return ``-log sum_z sqrt(g_i(z) g_j(z))`` for laws in rows, shape (K, K), floored at 0."""
    roots = np.sqrt(laws)
    products = roots @ roots.T
    scale = np.sqrt(np.diagonal(products))
    # Rows that sum to 1 only up to rounding must not count as information.
    products = np.minimum(products / np.outer(scale, scale), 1.0)
    negative: FloatArray = -np.log(products)
    np.fill_diagonal(negative, 0.0)
    return np.maximum(negative, 0.0)


def _subset_affinity(matrix: FloatArray, size: int, gain: float) -> FloatArray:
    """Return -log BC of a subset; where subsets are too many to list, of one label drawn from it.

    The latter is a lower bound: what is made of a report tells no more than the report.
    """
    labels = matrix.shape[1]
    if size == 1 or math.comb(labels, size) > _LARGEST_LISTED_LAW:
        # A uniform label of the subset is the label's own with probability inside / d.
        share = (1.0 + gain) * size / labels
        inside = share / (share + (labels - size) / labels)
        own = inside / size
        other = (1.0 - own) / (labels - 1)
        return negative_log_affinity(other + (own - other) * matrix)
    chosen = np.array(list(combinations(range(labels), size)))
    likelihoods = 1.0 + gain * matrix[:, chosen].sum(axis=2)
    return negative_log_affinity(likelihoods / likelihoods.sum(axis=1, keepdims=True))
