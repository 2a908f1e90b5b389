"""One cell of Table 5.1: as printed; its data, learners and baselines, and how long they need."""

from __future__ import annotations

import csv
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from bench.reproduce.batch_methods import METHODS

from dpoco._validation import FloatArray
from dpoco.accounting import Budget
from dpoco.datasets import Stream, linear_regression_stream
from dpoco.domains import LpBall
from dpoco.errors import NoiseDominatesWarning, UnspentBudgetWarning
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.published import han_frank_wolfe
from dpoco.random import Source

RUNS = 10  # runs behind each printed mean
NOISE = 0.05  # standard deviation of the labels' noise

RADIUS = 2.0
LABEL_BOUND = 1.25  # |<x, theta>| <= 1, and five standard deviations of the label noise

# The rows of a cell: how the learner is built. "tight" keeps the sum that the pages were made with.
VARIANTS: dict[str, dict[str, Any]] = {
    "tight": {"sum_method": "blt"},
    "tight_tree": {"sum_method": "tree"},
    "corrected": {"published": "corrected"},
    "paper": {"published": "printed"},
    "noise_free": {"budget": None},
}


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """One line of Table 5.1: means and standard deviations over ten runs.

    Attributes
    ----------
    horizon, dimension : int
        T and d.
    p : float
        Geometry of the decision set, 1.5 or infinity.
    algorithm : {"OFW", "NoisySFW", "NoisySGD"}
        OFW is DP-TOFW.
    risk, risk_sd : float
        Mean squared error on the test set.
    suboptimality, suboptimality_sd : float
        Excess risk over that of the zero vector: 1 for predicting zero.
    seconds, seconds_sd : float
        Wall-clock time of a run.
    """

    horizon: int
    dimension: int
    p: float
    algorithm: str
    risk: float
    risk_sd: float
    suboptimality: float
    suboptimality_sd: float
    seconds: float
    seconds_sd: float

    @property
    def suboptimality_se(self) -> float:
        """Standard error of the mean of ten runs."""
        return self.suboptimality_sd / math.sqrt(RUNS)

    @property
    def signal(self) -> float:
        """E <x, theta>^2 of the row's problem, as its two error measures imply it.

        Risk is noise variance plus suboptimality times this; the paper's label noise is 0.05.
        """
        return (self.risk - NOISE**2) / self.suboptimality


@cache
def printed_table_5_1() -> tuple[PrintedCell, ...]:
    """Return the 47 printed rows of Table 5.1, in their order.

    NoisySGD at T = 10000, d = 5 is missing in the paper.
    """
    text = Path(__file__).with_name("table_5_1.csv").read_text(encoding="utf-8")
    return tuple(
        PrintedCell(int(horizon), int(dimension), float(p), algorithm, *map(float, numbers))
        for horizon, dimension, p, algorithm, *numbers in [*csv.reader(text.splitlines())][1:]
    )


@dataclass(frozen=True)
class Scores:
    """Measures of repeated runs, one entry a run: risk, suboptimality, seconds of CPU time."""

    risk: FloatArray
    suboptimality: FloatArray
    seconds: FloatArray


@dataclass(frozen=True, slots=True)
class Outcome:
    """Mean and standard deviation over runs, each with its own data.

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
        risk, excess = scores.risk, scores.suboptimality
        return cls(
            float(risk.mean()), _deviation(risk), float(excess.mean()), _deviation(excess),
            float(np.median(scores.seconds)), len(risk),
        )  # fmt: skip

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
        self.streams = [
            linear_regression_stream(horizon + test, dimension, p, seed, target=target)
            for seed in self.seeds
        ]

    @property
    def features(self) -> FloatArray:
        """Training records of all seeds, shape (runs, T, d)."""
        return np.stack([stream.features[: self.horizon] for stream in self.streams])

    @property
    def labels(self) -> FloatArray:
        """Training labels of all seeds, shape (runs, T)."""
        return np.stack([stream.labels[: self.horizon] for stream in self.streams])

    @property
    def signal(self) -> float:
        """E <x, theta>^2, estimated on the test sets without their noise."""
        return float(
            np.mean([((s.features[self.horizon :] @ _truth(s)) ** 2).mean() for s in self.streams])
        )

    def learner(self, seed: int, **options: Any) -> TreeFrankWolfe:
        """Return a learner for one run at the budget (1, 1/T), unless `options` say otherwise."""
        options = {"budget": self.budget, **options}
        if (whose := options.pop("published", None)) is not None:
            known = {name: options.pop(name) for name in ("step_scale",) if name in options}
            options["plan"] = han_frank_wolfe.tree_frank_wolfe(
                self.domain, self.loss, horizon=self.horizon, budget=options["budget"],
                corrected=whose == "corrected", **known,
            )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseDominatesWarning)  # the table says it
            warnings.simplefilter("ignore", UnspentBudgetWarning)  # as do its epsilons
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
        for stream, seed in zip(self.streams, self.seeds, strict=True):
            if rows and spent * (1.0 + 1.0 / len(rows)) > seconds:
                break
            start = time.process_time()
            theta = fit(stream, seed)
            took = time.process_time() - start
            spent += took
            rows.append((*self.score_one(stream, theta), took))
        return Scores(*np.array(rows).T)

    def score(self, decisions: FloatArray) -> Scores:
        """Score decisions made elsewhere, shape (runs, d)."""
        pairs = zip(self.streams, decisions, strict=True)
        rows = np.array([self.score_one(stream, theta) for stream, theta in pairs])
        return Scores(rows[:, 0], rows[:, 1], np.zeros(len(rows)))

    def score_one(self, stream: Stream, theta: FloatArray) -> tuple[float, float]:
        """Return risk and suboptimality of one decision."""
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


# ---- baselines -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """A batch method in one cell, at a budget of (1, 1/T), next to the printed result.

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
        """Whether the printed result has the same target; None if its numbers cannot show it."""
        if self.printed is None or self.printed.suboptimality < 0.05:
            return None  # the risk is label noise to the printed digits
        return abs(self.printed.signal / self.signal - 1.0) < 0.25


def baseline_rows(cell: Cell, printed: dict[str, PrintedCell], seconds: float) -> list[BaselineRow]:
    """Run the baselines of a cell, each on as many seeds as fit into `seconds`, at least one."""
    names = ("NoisySFW",) if cell.p < 2.0 else ("NoisySGD", "PhasedSGD")
    return [
        BaselineRow(
            cell.horizon, cell.dimension, cell.p, name, printed.get(name),
            _run(cell, name, seconds), cell.signal,
        )
        for name in names
    ]  # fmt: skip


def _run(cell: Cell, name: str, seconds: float) -> Outcome:
    def fit(stream: Stream, seed: int) -> FloatArray:
        x, y = stream.features[: cell.horizon], stream.labels[: cell.horizon]
        rng, clipped = np.random.default_rng(seed), np.clip(y, -LABEL_BOUND, LABEL_BOUND)
        return METHODS[name](x, clipped, cell.domain, LABEL_BOUND, cell.budget, rng)

    return Outcome.of(cell.measure(fit, seconds))


# ---- how long learning takes ---------------------------------------------------------------------

_STANDARD_ERRORS = 4.0  # 3e-5 a look, and about twenty looks
_FIRST, _LARGEST = 100.0, 200_000
_FACTOR = math.sqrt(2.0)
_TEST = 2000  # the excess over the truth's risk on the same test set hardly depends on it


@dataclass(frozen=True, slots=True)
class LearningHorizon:
    """The smallest horizon at which a cell's tight calibration learns at (1, 1/T).

    Attributes
    ----------
    p : float
        Geometry.
    dimension : int
        d.
    horizon : int or None
        The smallest T of a grid with ratio sqrt(2) from which on the mean suboptimality is four
        standard errors below 1, here and at the next T; None if it is none up to 200000.
    suboptimality, suboptimality_se : float
        At that T, or at the last one tried.
    standard_errors : float
        How many of them the mean lies below 1.
    before : int or None
        The T tried before it, if any.
    standard_errors_before : float or None
        Of that T: fewer than four.
    runs : int
        Repetitions, each on other data.
    """

    p: float
    dimension: int
    horizon: int | None
    suboptimality: float
    suboptimality_se: float
    standard_errors: float
    before: int | None
    standard_errors_before: float | None
    runs: int


def learning_horizon(
    dimension: int, p: float, seeds: Sequence[int], target: str
) -> LearningHorizon:
    """Search upwards for the first horizon at which learning is certain."""
    looks: list[tuple[int, Outcome, float]] = []
    learned, horizon = 0, round(_FIRST)
    while learned < 2 and horizon <= _LARGEST:
        outcome = Outcome.of(Cell(horizon, dimension, p, seeds, target, _TEST).play())
        errors = (1.0 - outcome.suboptimality) / outcome.suboptimality_se
        looks.append((horizon, outcome, errors))
        learned = learned + 1 if errors >= _STANDARD_ERRORS else 0
        horizon = round(_FIRST * _FACTOR ** len(looks))
    found = learned == 2
    horizon, outcome, errors = looks[-2 if found else -1]
    before = looks[-3] if found and len(looks) > 2 else None
    return LearningHorizon(
        p, dimension, horizon if found else None, outcome.suboptimality, outcome.suboptimality_se,
        errors, None if before is None else before[0], None if before is None else before[2],
        len(seeds),
    )  # fmt: skip
