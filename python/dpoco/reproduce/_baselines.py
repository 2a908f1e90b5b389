"""The table's batch baselines, by the library's own private implementations."""

from __future__ import annotations

from dataclasses import dataclass

from dpoco.datasets import Stream
from dpoco.learners import learner_named
from dpoco.random import Source
from dpoco.reproduce._cell import Cell, FloatArray, Outcome
from dpoco.reproduce._printed import PrintedCell

__all__ = ["BaselineRow", "baseline_rows"]


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """A batch method in one cell, at exactly (1, 1/T), beside print.

    Attributes
    ----------
    horizon, dimension : int
        T and d.
    p : float
        Geometry.
    algorithm : {"NoisySFW", "NoisySGD", "PhasedSGD"}
        Method; the paper has no PhasedSGD.
    printed : PrintedCell or None
        The printed row, if there is one.
    outcome : Outcome
        Measured here.
    signal : float
        E <x, theta>^2 of the data here; ``printed.signal`` tells another problem from this one.
    """

    horizon: int
    dimension: int
    p: float
    algorithm: str
    printed: PrintedCell | None
    outcome: Outcome
    signal: float

    @property
    def same_problem(self) -> bool | None:
        """Whether print is about the same target; None where its numbers cannot tell."""
        if self.printed is None or self.printed.suboptimality < 0.05:
            return None  # the risk is label noise to the printed digits
        return abs(self.printed.signal / self.signal - 1.0) < 0.25


def baseline_rows(cell: Cell, printed: dict[str, PrintedCell], seconds: float) -> list[BaselineRow]:
    """Run the baselines of a cell, each on as many seeds as fit into `seconds`, at least one."""
    names = ("NoisySFW",) if cell.p < 2.0 else ("NoisySGD", "PhasedSGD")
    return [
        BaselineRow(
            cell.horizon,
            cell.dimension,
            cell.p,
            name,
            printed.get(name),
            _run(cell, name, seconds),
            cell.signal,
        )
        for name in names
    ]


def _run(cell: Cell, name: str, seconds: float) -> Outcome:
    method = learner_named(name).load()
    parameters = method(
        cell.domain, cell.loss, budget=cell.budget, records=cell.horizon
    ).parameters  # calibrated once

    def fit(stream: Stream, seed: int) -> FloatArray:
        head = slice(cell.horizon)
        learner = method(
            cell.domain, cell.loss, budget=None, parameters=parameters, source=Source.seeded(seed)
        )
        theta: FloatArray = learner.fit(stream.features[head], stream.labels[head]).theta
        return theta

    return Outcome.of(cell.measure(fit, seconds))
