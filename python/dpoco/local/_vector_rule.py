"""Hedge on losses sent with additive noise: all of them, or one drawn at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import choice
from dpoco.local._bounds import mixing_cost
from dpoco.local._hedge import Hedge
from dpoco.local._lattice import clamped, kept
from dpoco.local._rules import Settings
from dpoco.local._specs import RoundSpec
from dpoco.local._vector import NOISES, VectorRandomizer
from dpoco.local._vector_device import randomizer_of

__all__ = ["VectorHedge"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_ROWS = 4096


class VectorHedge(Hedge):
    """Hedge with channel "vector", or channel "coordinate" with ``noise="laplace"``.

    Follows `Rule`. The estimates are what is reported, times the lattice step: unbiased, with the
    noise of every loss in it.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        if settings.protect != "label":
            raise ValueError("additive noise needs protect='label': its range is the context's")
        self._single = settings.channel == "coordinate"
        noise = settings.options["noise"]
        allowed = ("laplace",) if self._single else ("auto", *NOISES)
        self._noise = choice("noise", "auto" if noise is None else noise, allowed)
        if self._noise in NOISES[1:] and settings.delta == 0.0:
            raise ValueError(f"noise={self._noise!r} needs a positive delta")
        if settings.delta > 0.0 and self._noise == "laplace":
            raise ValueError("noise='laplace' is pure: it takes no delta")

    @property
    def report_mechanism(self) -> str:
        """What a report is, in words."""
        if self._single:
            return "one loss with discrete Laplace noise"
        return "all losses with discrete noise"

    @property
    def report_delta(self) -> float:
        """Delta of a report: that of the settings where any noise may use it."""
        return self._settings.delta

    def specify(self, round: int, matrix: FloatArray | None) -> RoundSpec:
        """Return the round's specification."""
        assert matrix is not None
        settings = self._settings
        mixing = self.mixing(round)
        index, share = None, 1.0
        if self._single:
            index, share = self._draw(round, self._range(matrix, mixing)[1])
        self._remember(round, share)
        design = ("design", settings.epsilon, settings.delta, mixing, self._noise, index)
        randomizer = kept(
            matrix,
            design,
            lambda: VectorRandomizer(
                matrix,
                settings.epsilon,
                mixing,
                delta=settings.delta,
                noise=self._noise,
                index=index,
            ),
        )
        return RoundSpec(
            round=round,
            channel="vector",
            epsilon=settings.epsilon,
            delta=randomizer.delta,
            hypotheses=settings.hypotheses,
            labels=settings.labels,
            fingerprint=settings.fingerprint,
            index=index,
            noise=randomizer.law,
            parameters=(mixing, float(NOISES.index(randomizer.noise))),
        )

    def apply(self, spec: RoundSpec, matrix: FloatArray | None, values: IntArray) -> None:
        """Add the reports' estimates in the order of rows, clamped to what honest devices send."""
        assert matrix is not None
        count = self._settings.hypotheses
        randomizer = randomizer_of(spec, matrix)
        share = self._shares[spec.round] if spec.index is not None else 1.0
        if self._rate == 0.0 and self._settings.options["cautious"]:
            spread = (randomizer.reach + 4.0 * randomizer.standard_deviation) / share
            self._engine.raise_start(spread * float(_core.local_log(float(count))))
        for start in range(0, values.shape[0], _ROWS):
            sent = clamped(values[start : start + _ROWS], randomizer.table, randomizer.scale)
            rows = sent * (randomizer.step / share)
            if spec.index is not None:
                full = np.zeros((rows.shape[0], count))
                full[:, spec.index] = rows[:, 0]
                rows = full
            self._engine.add(np.ascontiguousarray(rows))
        self._cost += values.shape[0] * mixing_cost(count, spec.parameters[0])

    def accepts(self, spec: RoundSpec, matrix: FloatArray | None) -> bool:
        """Return whether a round read from a file is one that this rule may have asked."""
        kept = self._shares.copy()
        own = matrix is not None and spec.round in kept and (spec.index is not None) == self._single
        if own and not self._settings.interactive:
            own = self.specify(spec.round, matrix).digest == spec.digest
        elif own:
            randomizer_of(spec, matrix)
            own = spec.parameters[0] == self.mixing(spec.round)
        self._shares = kept
        return own

    @property
    def _chances(self) -> set[float]:
        return {1.0 / self._settings.hypotheses if self._single else 1.0}

    def risk_bound(self, rounds: int) -> float:
        """Return infinity: no bound is stated for these channels."""
        return math.inf

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of hedge: these channels add none."""
        return super().state()
