"""Tempered Bayes on the messages: the exact likelihood of every noisy report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.local._bounds import bayes_bound, tempered_bound
from dpoco.local._information import (
    ChannelChoice,
    bit_gap,
    contraction,
    information_of,
    subset_gap,
)
from dpoco.local._queries import Query, questions_of
from dpoco.local._randomizers import BitRandomizer, subset_randomizer
from dpoco.local._settings import Settings
from dpoco.local._specs import RoundSpec

__all__ = ["Posterior"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Posterior:
    """Weights proportional to the likelihood of all reports, to the power of a temperature.

    Deterministic: the same specifications and reports give the same state. A report costs O(K)
    besides what its specification costs once: O(K M) for the means of its queries; O(K d) a subset
    of d labels.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        assert isinstance(settings.learning_rate, float)
        self._temperature = settings.learning_rate
        self._engine = _core.LocalPosterior(settings.hypotheses, self._temperature)
        self._bits = BitRandomizer(settings.epsilon, settings.bits)
        self._choice = ChannelChoice(settings.epsilon, settings.subset_size)
        self._told: tuple[FloatArray, int, FloatArray] | None = None  # of the last subset
        self._means: tuple[bytes, NDArray[np.float64]] | None = None  # of the last specification
        self._information: FloatArray | None = None
        if settings.track_information:
            self._information = np.zeros((settings.hypotheses, settings.hypotheses))

    @property
    def weights(self) -> FloatArray:
        """Tempered weights, shape (K,)."""
        weights: FloatArray = self._engine.weights(self._temperature)
        return weights

    @property
    def reports(self) -> int:
        """Number of reports taken."""
        return int(self._engine.reports)

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

    def specify(
        self, round: int, matrix: FloatArray | None, queries: tuple[Query, ...] | None = None
    ) -> RoundSpec:
        """Return the round's specification: bits of the query family, or a subset.

        `queries` stand for those of the round.
        """
        assert matrix is not None
        settings = self._settings
        weights = self.weights if settings.interactive else None
        if settings.channel == "subset" and settings.subset_size is not None:
            return settings.round_spec(round, "subset", subset_size=settings.subset_size)
        if queries is None:
            queries = questions_of(settings, round, matrix, weights, self.mixing(round) or 1.0)
        means = [query.means(matrix) for query in queries]
        if settings.channel == "auto":
            size = self._choice.choose(matrix, weights, means, self._bits.contrast)
            if size is not None:
                return settings.round_spec(round, "subset", subset_size=size)
        spec = settings.round_spec(round, "bit", queries=queries)
        self._means = (spec.digest, np.array(means))
        return spec

    def accepts(self, spec: RoundSpec, matrix: FloatArray | None) -> bool:
        """Return whether a round read from a file is one that is asked here."""
        settings = self._settings
        if not settings.interactive:  # weights do not shape questions: it can be asked again
            return self.specify(spec.round, matrix).digest == spec.digest
        if spec.channel == "bit":
            return len(spec.queries) == self._bits.bits
        chosen = settings.channel == "auto" and spec.channel == "subset"
        return chosen and spec.subset_size in (1, settings.subset_size)

    def apply(self, spec: RoundSpec, matrix: FloatArray | None, values: IntArray) -> None:
        """Multiply in the likelihoods of reports; the order does not matter up to rounding."""
        assert matrix is not None
        if spec.channel == "bit":
            means = self._means_of(spec, matrix)
            self._engine.add_bits(means, self._bits.contrast, values)
        else:
            self._engine.add_subsets(matrix, self._gain(spec), values)
        if self._information is not None:
            for told in self.told(spec, matrix):
                self._information += values.shape[0] * told

    def told(self, spec: RoundSpec, matrix: FloatArray) -> list[FloatArray]:
        """Return the information between hypotheses of each bit of a report, or of its subset."""
        if spec.subset_size is None:
            contrast, labels = self._bits.contrast, matrix.shape[1]
            means = self._means_of(spec, matrix)
            return [information_of(bit_gap(own, contrast, labels)) for own in means]
        last = self._told
        if last is None or last[0] is not matrix or last[1] != spec.subset_size:
            gap = subset_gap(matrix, spec.subset_size, self._gain(spec))
            last = self._told = (matrix, spec.subset_size, information_of(gap))
        return [last[2]]

    def _gain(self, spec: RoundSpec) -> float:
        assert spec.labels is not None
        return subset_randomizer(spec.labels, spec.subset_size, spec.epsilon).gain

    def _means_of(self, spec: RoundSpec, matrix: FloatArray) -> NDArray[np.float64]:
        if self._means is None or self._means[0] != spec.digest:
            means = np.array([query.means(matrix) for query in spec.queries])
            self._means = (spec.digest, means)
        return self._means[1]

    def risk_bound(self, rounds: int) -> float:
        """Return the a-priori bound where the channel has one; else infinity."""
        settings = self._settings
        count = settings.hypotheses
        inverse = self._bits.inverse_contrast
        if settings.channel == "bit" and settings.query == "loss":
            return tempered_bound(count, rounds, inverse, self.mixing, self._temperature)
        if self._temperature != 1.0:
            return math.inf
        return bayes_bound(count, rounds, self.variation_strength(), self.mixing)

    def variation_strength(self) -> float:
        """Return s with ``TV(f_*, p)^2 <= s^2 KL(g_*, g) / 2`` for the channel; inf for none."""
        settings = self._settings
        labels = settings.labels
        if labels is None or labels == 1:
            return math.inf
        if settings.channel == "bit" and settings.query == "hadamard":
            return self._bits.inverse_contrast * math.sqrt(labels)
        if settings.channel == "subset" and settings.subset_size == 1:
            return 1.0 / contraction(labels, settings.epsilon)
        return math.inf

    def information(self) -> FloatArray:
        """Return the accumulated ``-log`` Bhattacharyya coefficients, shape (K, K)."""
        if self._information is None:
            raise ValueError("information is not tracked; construct with track_information=True")
        return self._information.copy()

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
        self._engine.restore(np.asarray(arrays["engine"], dtype=np.uint8).tobytes())
        if self._information is not None:
            information = np.array(arrays["information"], dtype=np.float64)
            if (
                information.shape != self._information.shape
                or not ((information >= 0.0) & np.isfinite(information)).all()
            ):
                raise ValueError("state holds an impossible information matrix")
            self._information = information
