"""The published learners: exponential weights on normalised noisy log-likelihoods.

Algorithms 1 (all losses, `PaperWMA`) and 2 (one loss at random, `PaperExp3`) of Sima, Wu,
Milenkovic and Szpankowski, "Online distribution learning with local private constraints" (2024),
with their constants; what had to be mended is listed in ``docs/privacy/local_errata.md``. They are
here for comparison: at usual sizes they learn next to nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.errors import StateError
from dpoco.local._coins import PublicCoins
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._paper_channel import SENSITIVITIES, PaperChannel, channel_of
from dpoco.local._prediction import Prediction
from dpoco.local._rules import Settings
from dpoco.local._specs import RoundSpec

__all__ = ["PaperExp3", "PaperWMA", "rule_of"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_ROWS = 4096


class _PaperRule:
    """What the two algorithms share. Follows `Rule`; O(K) a report."""

    _channel: str

    def __init__(self, settings: Settings, hypotheses: Hypotheses) -> None:
        if settings.horizon is None or settings.horizon < 2:
            raise ValueError("the paper's learners need a horizon of at least 2")
        self._settings = settings
        self._hypotheses = hypotheses
        self._horizon = settings.horizon
        self._engine = _core.LocalHedge(settings.hypotheses, self._rate(settings.options["eta"]))
        self.report_epsilon = self._report_epsilon()
        if settings.options["sensitivity"] == "printed":
            warnings.warn(
                "sensitivity='printed': log(KT) is no upper bound on the width of the losses; for "
                f"a nominal epsilon = {settings.epsilon:.6g} reports are private with "
                f"epsilon = {self.report_epsilon:.6g}",
                UserWarning,
                stacklevel=5,
            )

    def _rate(self, eta: Any) -> float:
        raise NotImplementedError

    def _report_epsilon(self) -> float:
        """Return epsilon of a report in any round: the true one where the array is known."""
        settings = self._settings
        if settings.options["sensitivity"] != "printed" or settings.hypotheses == 1:
            return settings.epsilon
        if self._hypotheses.kind == "array":
            true = self._of(self._hypotheses.matrix()).true_epsilon
        else:
            assert settings.labels is not None
            true = PaperChannel.printed_bound(
                settings.hypotheses,
                settings.labels,
                self._horizon,
                settings.epsilon,
                settings.delta,
                self._channel == "paper_wma",
            )
        # A device whose logarithms round otherwise finds it larger by a step of the lattice.
        return max(settings.epsilon, true * (1.0 + 2.0**-17))

    @property
    def paper_epsilon(self) -> float | None:
        """What the published constants claim, where that is not true."""
        printed = self._settings.options["sensitivity"] == "printed"
        return self._settings.epsilon if printed else None

    @property
    def weights(self) -> FloatArray:
        """Current weights, shape (K,)."""
        weights: FloatArray = self._engine.weights()
        return weights

    def mixing(self, round: int) -> float:
        """Return 1/T: the share of the cells' uniform distribution."""
        return 1.0 / self._horizon

    def _of(self, matrix: FloatArray) -> PaperChannel:
        settings = self._settings
        return channel_of(
            matrix,
            self._horizon,
            settings.epsilon,
            settings.delta,
            settings.options["sensitivity"],
            self._channel == "paper_wma",
        )

    def specify(self, round: int, matrix: FloatArray | None) -> RoundSpec:
        """Return the round's specification."""
        assert matrix is not None
        settings = self._settings
        return RoundSpec(
            round=round,
            channel=self._channel,
            epsilon=self.report_epsilon,
            delta=settings.delta,
            hypotheses=settings.hypotheses,
            labels=settings.labels,
            fingerprint=settings.fingerprint,
            index=self._index(round),
            noise="laplace",
            parameters=(
                float(self._horizon),
                settings.epsilon,
                float(SENSITIVITIES.index(settings.options["sensitivity"])),
            ),
        )

    def _index(self, round: int) -> int | None:
        return None

    def apply(self, spec: RoundSpec, matrix: FloatArray | None, values: IntArray) -> None:
        """Add the normalised losses of the reports, in the order of rows."""
        assert matrix is not None
        count = self._settings.hypotheses
        if count == 1:
            return
        channel = self._of(matrix)
        for start in range(0, values.shape[0], _ROWS):
            chunk = channel.normalised(values[start : start + _ROWS], spec.index)
            if spec.index is not None:
                rows = np.zeros((chunk.shape[0], count))
                rows[:, spec.index] = chunk[:, 0]
                chunk = rows
            self._engine.add(np.ascontiguousarray(chunk))

    def predict(self, round: int, matrix: FloatArray) -> Prediction:
        """Return ``(1 - 1/T) sum_j w_j f_j[y] + n_y / (T N)``: the cells' mixture, in sum."""
        channel = self._of(matrix)
        return Prediction(
            self.weights, self.mixing(round), matrix=matrix, background=channel.background
        )

    def risk_bound(self, rounds: int) -> float:
        """Return the published bound in expectation, with its constants as they come out.

        ``sqrt(2 K T log K) / c + 4 log((K + 1) T)`` (WMA: without K in the root): the
        normalisation, clipping, and the event that some noise leaves its range. Infinite for
        another rate, beyond the horizon, and for a width that is not fixed.
        """
        settings = self._settings
        count, horizon = settings.hypotheses, self._horizon
        if rounds > horizon or settings.options["eta"] not in (None, "proof"):
            return math.inf
        if self._hypotheses.kind != "array" or settings.options["sensitivity"] == "printed":
            return math.inf
        width = 1.0 / self._of(self._hypotheses.matrix()).c
        factor = count if self._channel == "paper_exp3" else 1
        root = math.sqrt(2.0 * factor * horizon * math.log(count))
        return width * root + 4.0 * math.log((count + 1) * horizon)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the cumulative losses."""
        return {"engine": np.frombuffer(self._engine.state(), dtype=np.uint8)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `state`."""
        engine = _core.LocalHedge(
            self._settings.hypotheses, self._rate(self._settings.options["eta"])
        )
        try:
            engine.restore(np.asarray(arrays["engine"], dtype=np.uint8).tobytes())
        except StateError as error:
            raise ValueError(str(error)) from None
        self._engine = engine


class PaperExp3(_PaperRule):
    """Algorithm 2: one loss, drawn by public coins, with Laplace noise; pure."""

    _channel = "paper_exp3"

    def __init__(self, settings: Settings, hypotheses: Hypotheses) -> None:
        if settings.delta > 0.0:
            raise ValueError("learner 'paper_exp3' is pure: it takes no delta")
        super().__init__(settings, hypotheses)

    def _rate(self, eta: Any) -> float:
        count = self._settings.hypotheses
        if eta in (None, "proof", "printed"):
            return math.sqrt(2.0 * count * math.log(count) / self._horizon) if count > 1 else 1.0
        return _given(eta)

    def _index(self, round: int) -> int | None:
        return PublicCoins(self._settings.public_seed, round, 0).below(self._settings.hypotheses)


class PaperWMA(_PaperRule):
    """Algorithm 1: all losses with Laplace noise; (epsilon, delta)."""

    _channel = "paper_wma"

    def __init__(self, settings: Settings, hypotheses: Hypotheses) -> None:
        if settings.delta == 0.0:
            raise ValueError("learner 'paper_wma' needs a positive delta")
        super().__init__(settings, hypotheses)

    def _rate(self, eta: Any) -> float:
        count = self._settings.hypotheses
        if count == 1:
            return 1.0
        if eta in (None, "proof"):
            return math.sqrt(2.0 * math.log(count) / self._horizon)
        if eta == "printed":
            return math.sqrt(2.0 * count * math.log(count) / self._horizon)
        return _given(eta)


def _given(eta: Any) -> float:
    if isinstance(eta, str):
        raise ValueError("eta must be None, 'proof', 'printed' or a positive number")
    return float(eta)


def rule_of(learner: str, settings: Settings, hypotheses: Hypotheses) -> PaperExp3 | PaperWMA:
    """Return the rule of one of the paper's learners."""
    if learner == "paper_exp3":
        return PaperExp3(settings, hypotheses)
    return PaperWMA(settings, hypotheses)
