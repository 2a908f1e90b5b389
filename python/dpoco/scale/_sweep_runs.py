"""What a sweep plays: a learner on a stream, chosen by the cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco._validation import choice
from dpoco.accounting import Budget
from dpoco.learners import LEARNERS, learner_named
from dpoco.scale._sweep_cells import Cell

__all__ = ["SWEPT", "BuiltInRun", "StreamRun"]

# Of experts, and of linear regression on the Euclidean ball.
SWEPT = tuple(e.name for e in LEARNERS if e.plays == "experts" or e.ball == 2.0)
_GOOD, _BAD = 0.35, 0.65  # mean losses of the best expert and of the others


@dataclass(frozen=True)
class StreamRun:
    """Play a learner on a stream: a function for `sweep`.

    A cell with a value named ``horizon`` plays that many rounds, or the whole stream if it is
    shorter. The result: ``rounds``, ``average_loss``, ``switches``; and ``average_regret`` against
    the best expert in hindsight, or the stream's true parameter if it has one.

    Parameters
    ----------
    make : callable
        ``make(cell)`` returns an unstarted learner with ``source=cell.source()``.
    stream : Stream, array_like, tuple of array_like, or callable
        What ``learner.run`` takes: a `dpoco.datasets.Stream`, features and labels, or losses;
        or ``stream(cell)`` returning one of them, drawn from ``cell.generator()``.
    """

    make: Callable[[Cell], Any]
    stream: Any

    def __call__(self, cell: Cell) -> dict[str, Any]:
        """Play the cell and return its numbers.

        Raises
        ------
        ValueError
            If the learner's noise is not the cell's: it would not be reproducible.
        """
        from dpoco.experts._expert_learner import ExpertLearner

        given = self.stream(cell) if callable(self.stream) else self.stream
        features, labels, target = _parts(given)
        learner = self.make(cell)
        if not learner._is_seeded:
            raise ValueError("make(cell) must build the learner with source=cell.source()")
        rounds = len(features)
        if "horizon" in cell.values:
            rounds = min(rounds, int(cell["horizon"]))
        features = features[:rounds]
        if isinstance(learner, ExpertLearner):
            if labels is not None:
                raise TypeError("learners of experts take no labels")
            trace: Any = learner.run(features)
            target = int(np.argmin(features.sum(axis=0)))
        else:
            labels = None if labels is None else labels[:rounds]
            trace = learner.run(features, labels, record_decisions=False)
        result = {
            "rounds": rounds,
            "average_loss": trace.average_loss,
            "switches": len(trace.switches),
        }
        if target is not None:
            excess = trace.losses - trace.comparator_losses(target)
            result["average_regret"] = float(excess.mean())
        return result


def _parts(stream: Any) -> tuple[Any, Any, Any]:
    """Return features (or losses), labels or None, and the true parameter or None."""
    if hasattr(stream, "features") and hasattr(stream, "labels"):
        return stream.features, stream.labels, getattr(stream, "target", None)
    if isinstance(stream, tuple) and len(stream) == 2:
        return np.asarray(stream[0], dtype=float), np.asarray(stream[1], dtype=float), None
    return np.asarray(stream, dtype=float), None, None


@dataclass(frozen=True)
class BuiltInRun:
    """A named learner in a simulated world: what ``dpoco sweep NAME`` plays.

    Cells have ``epsilon``, ``delta`` (None: 1/(10 horizon)), ``horizon`` and ``dimension``
    (coordinates, or experts). Linear regression on the Euclidean unit ball with squared loss, or
    independent losses 0 and 1 of experts of which one is better.
    """

    learner: str

    def __post_init__(self) -> None:
        choice("learner", self.learner, SWEPT)

    @property
    def sweep_name(self) -> str:
        """What the records call this function."""
        return f"dpoco sweep {self.learner}"

    def __call__(self, cell: Cell) -> dict[str, Any]:
        """Play the cell."""
        experts = learner_named(self.learner).plays == "experts"
        stream = _expert_losses if experts else _regression
        return StreamRun(self._make, stream)(cell)

    def _make(self, cell: Cell) -> Any:
        from dpoco import domains, losses

        known = learner_named(self.learner)
        horizon, dimension = cell["horizon"], cell["dimension"]
        settings: dict[str, Any] = {
            "horizon": horizon,
            "budget": Budget._over(cell["epsilon"], cell["delta"], horizon),
            "source": cell.source(),
        }
        if known.plays == "experts":
            return known.load()(dimension, **settings)
        domain = domains.LpBall(dimension=dimension, p=2.0, radius=1.0)
        loss = losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
        return known.load()(domain, loss, **settings)


def _regression(cell: Cell) -> Any:
    from dpoco.datasets import linear_regression_stream

    seed = int(cell.generator().integers(2**63))
    return linear_regression_stream(cell["horizon"], cell["dimension"], 2.0, seed)


def _expert_losses(cell: Cell) -> Any:
    generator = cell.generator()
    means = np.full(cell["dimension"], _BAD)
    means[generator.integers(cell["dimension"])] = _GOOD
    return (generator.random((cell["horizon"], cell["dimension"])) < means).astype(float)
