"""Hedge on losses sent with additive noise: all of them, or one drawn at random."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.local._bounds import mixing_cost
from dpoco.local._hedge import Hedge
from dpoco.local._losses import kept
from dpoco.local._settings import Settings
from dpoco.local._specs import RoundSpec
from dpoco.local._vector import NOISES, VectorRandomizer, clamped, vector_randomizer

__all__ = ["VectorHedge"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_ROWS = 4096


class VectorHedge(Hedge):
    """Hedge on channels "vector" and "laplace_coordinate", of all kinds.

    The estimates are what is reported, times the lattice step: unbiased, with the
    noise of every loss in it.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        assert settings.noise is not None
        self._noise = settings.noise
        self._single = settings.channel == "coordinate"

    @property
    def report_mechanism(self) -> str:
        """What a report is, in words."""
        return (
            "one loss with discrete Laplace noise"
            if self._single
            else "all losses with discrete noise"
        )

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
        return settings.round_spec(
            round,
            "vector",
            delta=randomizer.delta,
            index=index,
            noise=randomizer.law,
            parameters=(mixing, float(NOISES.index(randomizer.noise))),
        )

    def apply(self, spec: RoundSpec, matrix: FloatArray | None, values: IntArray) -> None:
        """Add the reports' estimates in the order of rows, clamped to what honest devices send."""
        assert matrix is not None
        count = self._settings.hypotheses
        randomizer = vector_randomizer(spec, matrix)
        share = self._shares[spec.round] if spec.index is not None else 1.0
        if self._rate == 0.0:
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
        if matrix is None:
            return False
        own = spec.round in kept and (spec.index is not None) == self._single
        if own and not self._settings.interactive:
            own = self.specify(spec.round, matrix).digest == spec.digest
        elif own:
            vector_randomizer(spec, matrix)
            own = spec.parameters[0] == self.mixing(spec.round)
        self._shares = kept
        return own

    @property
    def _chances(self) -> set[float]:
        return {1.0 / self._settings.hypotheses if self._single else 1.0}

    def risk_bound(self, rounds: int) -> float:
        """Return infinity: no bound is stated for these channels."""
        return math.inf
