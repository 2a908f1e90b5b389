"""One cell of Table 5.1: its data, and learners run on them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting import Budget
from dpoco.datasets import Stream, linear_regression_stream
from dpoco.domains import LpBall
from dpoco.errors import NoiseDominatesWarning
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.random import Source

__all__ = ["LABEL_BOUND", "RADIUS", "VARIANTS", "Cell", "Outcome", "Scores"]

FloatArray = NDArray[np.float64]

RADIUS = 2.0
LABEL_BOUND = 1.25  # |<x, theta>| <= 1, and five standard deviations of the label noise

# The rows of a cell: how the learner is built. "tight" chooses its sum itself.
VARIANTS: dict[str, dict[str, Any]] = {
    "tight": {},
    "tight_tree": {"sum_method": "tree"},
    "corrected": {"calibration": "corrected"},
    "paper": {"calibration": "paper"},
    "noise_free": {"budget": None},
}


@dataclass(frozen=True)
class Scores:
    """Measures of repeated runs, one entry a run: risk, suboptimality, seconds of CPU time."""

    risk: FloatArray
    suboptimality: FloatArray
    seconds: FloatArray


@dataclass(frozen=True, slots=True)
class Outcome:
    """Mean and standard deviation over runs, each on data of its own.

    Attributes
    ----------
    risk, risk_sd : float
        Mean squared error on the test set.
    suboptimality, suboptimality_sd : float
        Excess risk over that of the zero vector.
    seconds : float
        Median CPU time of a run.
    runs : int
        Number of runs.
    """

    risk: float
    risk_sd: float
    suboptimality: float
    suboptimality_sd: float
    seconds: float
    runs: int

    @classmethod
    def of(cls, scores: Scores) -> Outcome:
        """Return the summary of runs."""
        return cls(
            float(scores.risk.mean()),
            _deviation(scores.risk),
            float(scores.suboptimality.mean()),
            _deviation(scores.suboptimality),
            float(np.median(scores.seconds)),
            len(scores.risk),
        )

    @property
    def suboptimality_se(self) -> float:
        """Standard error of the mean suboptimality."""
        return self.suboptimality_sd / math.sqrt(self.runs)


class Cell:
    """The data of one cell: a stream to learn from and a test set, for every seed."""

    def __init__(
        self, horizon: int, dimension: int, p: float, seeds: Sequence[int], target: str, test: int
    ) -> None:
        self.horizon, self.dimension, self.p, self.seeds = horizon, dimension, p, tuple(seeds)
        self.budget = Budget._derived(1.0, 1.0 / horizon)
        self.domain = LpBall(dimension, p, RADIUS)
        self.loss = SquaredLoss(feature_bound=1.0, label_bound=LABEL_BOUND)
        self._streams = [
            linear_regression_stream(horizon + test, dimension, p, seed, target=target)
            for seed in self.seeds
        ]

    @property
    def features(self) -> FloatArray:
        """Training records of all seeds, shape (runs, T, d)."""
        return np.stack([stream.features[: self.horizon] for stream in self._streams])

    @property
    def labels(self) -> FloatArray:
        """Training labels of all seeds, shape (runs, T)."""
        return np.stack([stream.labels[: self.horizon] for stream in self._streams])

    @property
    def signal(self) -> float:
        """E <x, theta>^2, estimated on the test sets without their noise."""
        return float(
            np.mean([((s.features[self.horizon :] @ _truth(s)) ** 2).mean() for s in self._streams])
        )

    def learner(self, seed: int, **options: Any) -> TreeFrankWolfe:
        """Return a learner for one run at the budget (1, 1/T), unless `options` say otherwise."""
        options = {"budget": self.budget, **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseDominatesWarning)  # the table says it
            return TreeFrankWolfe(
                self.domain, self.loss, horizon=self.horizon, source=Source.seeded(seed), **options
            )

    def play(self, **options: Any) -> Scores:
        """Run the tree learner once on every seed's stream."""

        def fit(stream: Stream, seed: int) -> FloatArray:
            learner = self.learner(seed, **options)
            head = slice(self.horizon)
            learner.run(stream.features[head], stream.labels[head], record_decisions=False)
            return learner.last_decision

        return self.measure(fit)

    def measure(
        self, fit: Callable[[Stream, int], FloatArray], seconds: float = math.inf
    ) -> Scores:
        """Score what `fit` makes of each seed's stream; at least one, then as time allows."""
        rows: list[tuple[float, float, float]] = []
        spent = 0.0
        for stream, seed in zip(self._streams, self.seeds, strict=True):
            if rows and spent * (1.0 + 1.0 / len(rows)) > seconds:
                break
            start = time.process_time()
            theta = fit(stream, seed)
            took = time.process_time() - start
            spent += took
            rows.append((*self._scores(stream, theta), took))
        return Scores(*np.array(rows).T)

    def score(self, decisions: FloatArray) -> Scores:
        """Score decisions made elsewhere, shape (runs, d)."""
        pairs = zip(self._streams, decisions, strict=True)
        rows = np.array([self._scores(stream, theta) for stream, theta in pairs])
        return Scores(rows[:, 0], rows[:, 1], np.zeros(len(rows)))

    def _scores(self, stream: Stream, theta: FloatArray) -> tuple[float, float]:
        features, labels = stream.features[self.horizon :], stream.labels[self.horizon :]
        risk = float(((features @ theta - labels) ** 2).mean())
        best = float(((features @ _truth(stream) - labels) ** 2).mean())
        zero = float((labels**2).mean())
        return risk, (risk - best) / (zero - best)


def _truth(stream: Stream) -> FloatArray:
    assert stream.target is not None  # simulated streams have one
    return stream.target


def _deviation(values: FloatArray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0
