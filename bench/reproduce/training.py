"""Figures 5.2 and 5.3 of Han et al., rerun: suboptimality while methods learn.

Figure 5.2 is about scalings of the learning rate: DP-TOFW, NoisySFW and localised mirror descent
for p = 1.5, DP-TOFW and NoisySGD for p = inf, with 2000 records in ten dimensions. Figure 5.3 has
DP-TOFW and NoisySFW over CPU time, each with its best scaling. All are private at (1, 1/T):
DP-TOFW with exact accounting, the batch methods as `bench.reproduce.batch_methods` say.

What a curve shows of a batch method was never released: these methods publish their end only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bench.reproduce.batch_methods import METHODS
from bench.reproduce.cell import LABEL_BOUND, Cell
from bench.reproduce.table import Columns, Progress, markdown_table

from dpoco._validation import FloatArray, positive_int
from dpoco.datasets import Stream
from dpoco.evaluation.reports import Report

SCALES = (0.03, 0.1, 0.3, 1.0, 3.0)
ONLINE = "DP-TOFW"
# Method and geometry of a panel.
PANELS = (
    ("NoisySFW", 1.5), (ONLINE, 1.5), ("NoisySGD", float("inf")), (ONLINE, float("inf")),
    ("LocalMD", 1.5),
)  # fmt: skip
SIZES = ((1000, 5), (2000, 10))  # of Figure 5.3
_POINTS = 40  # of a curve
_DESCENT_RUNS = 3  # of NoisySGD, which takes a million steps
_TEST = 10_000


@dataclass(frozen=True, slots=True)
class TrainingCurve:
    """Suboptimality of one method over its course, mean over runs.

    Attributes
    ----------
    method : {"DP-TOFW", "NoisySFW", "NoisySGD", "LocalMD"}
        Who learns.
    p : float
        Geometry.
    horizon, dimension : int
        T and d.
    scale : float
        Factor on the learning rate.
    fractions, seconds : tuple of float
        Parts of the course, in (0, 1], and the CPU time up to them, median over runs.
    mean, deviation : tuple of float
        Suboptimality: 1 for predicting zero. Its standard deviation over runs.
    runs : int
        Of which the curve is the mean.
    """

    method: str
    p: float
    horizon: int
    dimension: int
    scale: float
    fractions: tuple[float, ...]
    seconds: tuple[float, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    runs: int

    @property
    def end(self) -> float:
        """Suboptimality of what the method publishes last."""
        return self.mean[-1]


@dataclass(frozen=True)
class Training(Report):
    """Curves of `figure_5_2` or `figure_5_3`, with the settings that they follow from."""

    schema: ClassVar[str] = "dpoco.training-curves/1"

    curves: tuple[TrainingCurve, ...]
    settings: dict[str, Any]

    def best(self, method: str, p: float) -> TrainingCurve:
        """Return the curve of the scaling with the least suboptimality in the end."""
        own = [each for each in self.curves if (each.method, each.p) == (method, p)]
        return min(own, key=lambda each: each.end)

    def _about(self) -> str:
        return f"of {len(self.curves)} training curves"

    def format_markdown(self) -> str:
        """Return where every curve ends."""
        columns: Columns = {
            "p": lambda c: f"{c.p:g}",
            "d": lambda c: str(c.dimension),
            "T": lambda c: str(c.horizon),
            "method": lambda c: c.method,
            "learning rate x": lambda c: f"{c.scale:g}",
            "at a tenth": lambda c: _format(np.interp(0.1, c.fractions, c.mean)),
            "half-way": lambda c: _format(np.interp(0.5, c.fractions, c.mean)),
            "in the end": lambda c: f"{_format(c.end)} ± {_format(c.deviation[-1])}",
            "runs": lambda c: str(c.runs),
            "CPU seconds": lambda c: f"{c.seconds[-1]:.2g}",
        }
        return markdown_table(columns, self.curves)


def _format(value: float) -> str:
    return f"{value:.2g}"


def figure_5_2(
    *,
    horizon: int = 2000,
    dimension: int = 10,
    scales: Sequence[float] = SCALES,
    seeds: int = 10,
    first_seed: int = 0,
    progress: Progress | None = None,
) -> Training:
    """Return training curves for several scalings of the learning rate.

    Parameters
    ----------
    horizon, dimension : int
        T and d.
    scales : sequence of float
        Factors on each method's default learning rate; on step sizes s / (k + s) of DP-TOFW, on s.
    seeds, first_seed : int
        Runs, at least 2, and the seed of the first.
    progress : callable, optional
        Called as ``progress(phase, done, total)``, in curves.
    """
    asked = [(*panel, horizon, dimension, scale) for panel in PANELS for scale in scales]
    return _train(asked, seeds, first_seed, progress)


def figure_5_3(
    *,
    sizes: Sequence[tuple[int, int]] = SIZES,
    scales: Sequence[float] = SCALES,
    seeds: int = 10,
    first_seed: int = 0,
    progress: Progress | None = None,
) -> Training:
    """Return the curves of the best scalings of DP-TOFW and NoisySFW for p = 1.5, by size.

    Parameters
    ----------
    sizes : sequence of (int, int)
        T and d of the panels.
    scales, seeds, first_seed, progress
        As of `figure_5_2`.
    """
    found: list[TrainingCurve] = []
    for horizon, dimension in sizes:
        methods = ("NoisySFW", ONLINE)
        asked = [(each, 1.5, horizon, dimension, s) for each in methods for s in scales]
        tried = _train(asked, seeds, first_seed, progress)
        found += [tried.best(each, 1.5) for each in methods]
    return Training(tuple(found), {"seeds": seeds, "first_seed": first_seed, "epsilon": 1.0})


def _train(
    asked: Sequence[tuple[str, float, int, int, float]],
    seeds: int,
    first_seed: int,
    progress: Progress | None,
) -> Training:
    runs = range(first_seed, first_seed + positive_int("seeds", seeds, minimum=2))
    cells: dict[tuple[float, int, int], Cell] = {}
    curves = []
    for done, (method, p, horizon, dimension, scale) in enumerate(asked):
        if progress is not None:
            progress("training curves", done, len(asked))
        key = p, horizon, dimension
        if key not in cells:
            cells[key] = Cell(horizon, dimension, p, list(runs), "dense", _TEST)
        curves.append(_curve(cells[key], method, scale))
    return Training(tuple(curves), {"seeds": seeds, "first_seed": first_seed, "epsilon": 1.0})


def _curve(cell: Cell, method: str, scale: float) -> TrainingCurve:
    """Play every seed's stream and score what there is at the same parts of the course."""
    runs = [*zip(cell.streams, cell.seeds, strict=True)]
    runs = runs[:_DESCENT_RUNS] if method == "NoisySGD" else runs
    play = _online if method == ONLINE else _batch
    paths = [play(cell, stream, seed, method, scale) for stream, seed in runs]
    fractions = np.arange(1, _POINTS + 1) / _POINTS
    excess, seconds = np.empty((len(paths), _POINTS)), np.empty((len(paths), _POINTS))
    for row, ((stream, _), (points, times)) in enumerate(zip(runs, paths, strict=True)):
        at = np.ceil(fractions * len(points)).astype(int) - 1
        seconds[row] = np.asarray(times)[at]
        excess[row] = [cell.score_one(stream, points[i])[1] for i in at]
    return TrainingCurve(
        method, cell.p, cell.horizon, cell.dimension, scale,
        fractions=tuple(fractions.tolist()),
        seconds=tuple(np.median(seconds, axis=0).tolist()),
        mean=tuple(excess.mean(axis=0).tolist()),
        deviation=tuple(excess.std(axis=0, ddof=1).tolist()),
        runs=len(runs),
    )  # fmt: skip


Path = tuple[list[FloatArray], list[float]]


def _online(cell: Cell, stream: Stream, seed: int, _: str, scale: float) -> Path:
    learner, start = cell.learner(seed, step_scale=scale), time.process_time()
    points, times = [], []
    for part in np.array_split(np.arange(cell.horizon), _POINTS):
        rows = slice(part[0], part[-1] + 1)
        learner.run(stream.features[rows], stream.labels[rows], record_decisions=False)
        times.append(time.process_time() - start)
        points.append(learner.last_decision)
    return points, times


def _batch(cell: Cell, stream: Stream, seed: int, method: str, scale: float) -> Path:
    points: list[FloatArray] = []
    times: list[float] = []
    start = time.process_time()

    def record(theta: FloatArray) -> None:
        times.append(time.process_time() - start)
        points.append(np.array(theta))

    head = slice(cell.horizon)
    labels = np.clip(stream.labels[head], -LABEL_BOUND, LABEL_BOUND)
    rng = np.random.default_rng(seed)
    METHODS[method](
        stream.features[head], labels, cell.domain, LABEL_BOUND, cell.budget, rng,
        scale=scale, record=record,
    )  # fmt: skip
    return points, times
