"""Likelihoods of answers that share one threshold's noise, by quadrature over that noise."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._likelihood_base import Scorer, Scores, spread
from dpoco.random import Source

__all__ = ["ThresholdAnswers", "answer_chances", "log_ratio"]

FloatArray = NDArray[np.float64]

# Of the threshold's noise: how far out it is followed, in scales, and panels of the quadrature.
_REACH = 45.0
_PANEL = 4.0


def answer_chances(
    excesses: FloatArray, answers: NDArray[np.bool_], scales: tuple[float, float], noise: str
) -> FloatArray:
    """Return the logarithm of the probability of the first 1, 2, ... answers, shape (T,).

    Query t raises an alarm iff ``excesses[t] + nu_t >= rho``, rho one variate of scale
    ``scales[0]`` for all queries and nu_t one of ``scales[1]`` for each: exponential or Laplace. By
    Gauss-Legendre quadrature over rho between the kinks, to about 1e-12.
    """
    from scipy.special import logsumexp

    nodes, weights = _nodes(excesses, scales, noise)
    with np.errstate(divide="ignore"):
        logs = np.log(weights) + _log_density(nodes / scales[0], noise) - np.log(scales[0])
        away = (nodes[None, :] - excesses[:, None]) / scales[1]
        tails = _log_tail(away, noise)
        silences = np.log(-np.expm1(np.minimum(tails, 0.0)))
    factors = np.where(answers[:, None], tails, silences)
    out: FloatArray = logsumexp(logs + np.cumsum(factors, axis=0), axis=1)
    return out


def _nodes(
    excesses: FloatArray, scales: tuple[float, float], noise: str
) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights from the lowest to the highest threshold that matters."""
    reach = _REACH * max(scales)
    low = 0.0 if noise == "exponential" else min(0.0, float(excesses.min())) - reach
    high = max(0.0, float(excesses.max())) + reach
    kinks = np.unique(np.concatenate([[low, 0.0, high], np.clip(excesses, low, high)]))
    step = _PANEL * min(scales)
    edges = np.unique(
        np.concatenate(
            [np.linspace(a, b, int(np.ceil((b - a) / step)) + 1) for a, b in pairwise(kinks)]
        )
    )
    points, weights = np.polynomial.legendre.leggauss(16)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    return (middle[:, None] + half[:, None] * points).ravel(), (half[:, None] * weights).ravel()


def _log_density(x: FloatArray, noise: str) -> FloatArray:
    if noise == "exponential":
        one_sided: FloatArray = np.where(x >= 0.0, -x, -np.inf)
        return one_sided
    density: FloatArray = -np.abs(x) - np.log(2.0)
    return density


def _log_tail(x: FloatArray, noise: str) -> FloatArray:
    """Return ln P(nu >= x)."""
    if noise == "exponential":
        return -np.maximum(x, 0.0)
    above = -np.maximum(x, 0.0) - np.log(2.0)
    return np.where(x >= 0.0, above, np.log1p(-0.5 * np.exp(np.minimum(x, 0.0))))


def log_ratio(own: float, other: float) -> float:
    """Return the privacy loss of a transcript; infinite if only the own stream can give it."""
    if not np.isfinite(other):
        return float("inf")
    return own - other


class ThresholdAnswers(Scorer):
    """AboveThreshold: all answers of a run."""

    everywhere = True

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        super().__init__(learner, stream, neighbour)
        p = learner.parameters
        values = [np.where(np.isfinite(w), w, 0.0) for w in (s.parts[0] for s in self.streams)]
        moved = values[1] - values[0]
        if max(moved.max(), 0.0) - min(moved.min(), 0.0) > p.spread * (1.0 + 1e-12):
            raise ValueError(
                "no neighbours: queries are moved up and down by more than `spread` in all, which "
                "is the caller's promise"
            )
        self._excesses = [own - p.margin for own in values]
        self._scales = p.threshold_noise_scale, p.query_noise_scale
        self._known: dict[tuple[bool, ...], tuple[FloatArray, FloatArray]] = {}

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        answers = []
        for value in self.streams[world].parts[0]:
            if learner.alarms_left == 0:
                break
            answers.append(bool(learner.test(float(value))))
        return tuple(answers)

    def _laws(self, answers: tuple[bool, ...]) -> tuple[FloatArray, FloatArray]:
        """Return the log-chances of all beginnings of the answers on both streams."""
        if answers not in self._known:
            asked = np.array(answers)
            ours, theirs = (
                answer_chances(own[: len(asked)], asked, self._scales, "exponential")
                for own in self._excesses
            )
            self._known[answers] = ours, theirs
        return self._known[answers]

    def score(self, runs: list[Any], world: int) -> Scores:
        rounds = len(self._excesses[0])
        jitter = Source.seeded(world).uniform(len(runs) * rounds).reshape(len(runs), rounds)
        uniforms = jitter.copy()
        losses = np.empty(len(runs))
        for i, answers in enumerate(runs):
            laws = self._laws(answers)
            losses[i] = log_ratio(laws[world][-1], laws[1 - world][-1])
            asked = np.array(answers, dtype=np.int64)
            chance = np.exp(np.diff(laws[world], prepend=0.0))
            silent = np.clip(np.where(asked == 0, chance, 1.0 - chance), 0.0, 1.0)
            cells = np.stack([silent, 1.0 - silent], axis=1)
            uniforms[i, : len(asked)] = spread(cells, asked, jitter[i, : len(asked)])
        return Scores(losses, uniforms)
