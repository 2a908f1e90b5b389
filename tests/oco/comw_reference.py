"""Continuous multiplicative weights on a grid of one dimension, and its couplings in NumPy.

Independent of the compiled engine: laws and normalisers by summation over a grid, the law of the
kept point by exact propagation through the stay/switch decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tests.coupled_engines import all_weights

from dpoco import _core

FloatArray = NDArray[np.float64]
KEY = bytes(range(32))

DEFAULTS = {
    "rounds": 1,
    "block": 1,
    "forced_switch": 0.05,
    "max_switches": None,
    "coupling": "dartboard",
    "inverse_temperature": 1.0,
    "regularization": 1.0,
    "exact_only": True,
    "sampler_tolerance": 1e-12,
    "clip_high": 0.0,
    "clip_low": 0.0,
    "factor_range": 0.0,
    "anchors": 0,
    "lipschitz": np.inf,
    "clip_error": 0.0,
    "smoothness": np.inf,
    "key": KEY,
    "stream": 0,
}


def interval(half: float = 1.0, d: int = 1) -> _core.Box:
    return _core.Box(np.full(d, -half), np.full(d, half))


def ball(d: int, radius: float = 1.0) -> _core.LpBall:
    return _core.LpBall(d, 2.0, radius)


def linear(d: int = 1, bound: float = 1.0, *, unbounded: bool = False) -> dict[str, object]:
    clipper = _core.RecordClipper(d, bound, 2.0, np.inf)
    return {"kind": "linear", "unbounded": unbounded, "clipper": clipper}


def glm(
    kind: str, d: int = 1, bound: float = 1.0, *, unbounded: bool = False, threshold: float = 0.5
) -> dict[str, object]:
    low = 0.0 if kind == "logistic" else -1.0
    return {
        "kind": "glm",
        "unbounded": unbounded,
        "clipper": _core.RecordClipper(d, bound, 2.0, np.inf),
        "glm": _core.GlmLoss(kind, 1.0, threshold, low, 1.0),
    }


def quadratic(d: int, *, unbounded: bool = True) -> dict[str, object]:
    return {
        "kind": "quadratic", "unbounded": unbounded, "lipschitz": 1e9, "smoothness": 1e9,
        "radius": np.inf,
    }  # fmt: skip


def anchored(rounds: int, **settings: object) -> dict[str, object]:
    """Settings of an anchored run, some of them replaced."""
    own: dict[str, object] = {
        "coupling": "anchored", "rounds": rounds, "inverse_temperature": 0.01,
        "regularization": 40.0, "anchors": 4, "lipschitz": 1.0, "clip_error": 1e-6,
        "clip_high": 0.3, "clip_low": 0.3,
    }  # fmt: skip
    return {**own, **settings}


def engines(
    domain: _core.Domain, losses: dict[str, object], **settings: object
) -> Callable[[int], _core.ContinuousMultiplicativeWeights]:
    """Return what makes the engine of a stream."""
    own = {**DEFAULTS, **settings}
    assert set(own) == set(DEFAULTS), settings
    make = all_weights(domain, losses, own)
    return lambda stream: make({"key": own["key"], "stream": stream})


def engine(
    domain: _core.Domain, losses: dict[str, object], **settings: object
) -> _core.ContinuousMultiplicativeWeights:
    return engines(domain, losses, **settings)(settings.get("stream", 0))


@dataclass
class Play:
    decisions: FloatArray
    losses: FloatArray
    changed: NDArray[np.uint8]


def play(
    learner: _core.ContinuousMultiplicativeWeights, x: FloatArray, y: FloatArray | None = None
) -> Play:
    rounds, d = x.shape
    out = Play(np.empty((rounds, d)), np.empty(rounds), np.empty(rounds, dtype=np.uint8))
    learner.run(x, y, out.losses, out.decisions, out.changed)
    return out


# ---- the grid ------------------------------------------------------------------------------------


@dataclass
class Grid:
    """Gibbs laws of losses (rounds, cells), at the midpoints of equal cells of [-half, half]."""

    beta: float
    lam: float
    losses: FloatArray
    points: FloatArray

    @classmethod
    def of(
        cls,
        loss: Callable[[int, FloatArray], FloatArray],
        rounds: int,
        *,
        beta: float,
        lam: float,
        half: float = 1.0,
        cells: int = 4000,
    ) -> Grid:
        points = half * ((np.arange(cells) + 0.5) * (2.0 / cells) - 1.0)
        return cls(beta, lam, np.array([loss(t, points) for t in range(rounds)]), points)

    def exponents(self) -> FloatArray:
        """-beta (F_{t-1} + lam x^2 / 2) for t = 1..rounds + 1."""
        sums = np.vstack([np.zeros_like(self.points), np.cumsum(self.losses, axis=0)])
        return -self.beta * (sums + 0.5 * self.lam * self.points**2)

    def laws(self) -> FloatArray:
        """Probabilities of the cells under mu_1..mu_{rounds + 1}."""
        exponents = self.exponents()
        weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def log_ratios(self) -> FloatArray:
        """ln(mu_{t+1} / mu_t) for t = 1..rounds."""
        laws = self.laws()
        changes = np.log((laws[:-1] * np.exp(-self.beta * self.losses)).sum(axis=1))
        return -self.beta * self.losses - changes[:, None]

    def log_factors(self, coupling: str, *, clip: float = 0.0) -> FloatArray:
        """Of every round and cell; `anchored` has no such table."""
        if coupling == "density_ratio":
            return np.clip(self.log_ratios() - clip, -2.0 * clip, 0.0)
        if coupling == "dartboard":
            return -self.beta * (self.losses - self.losses.min(axis=1, keepdims=True))
        if coupling == "maximal":
            return np.minimum(self.log_ratios(), 0.0)
        return np.zeros_like(self.losses)


@dataclass
class Propagation:
    """The law of the point of round t + 1 in laws[t]; the hazards of the decisions.

    For mean and variance the switches of different decisions are taken to be independent: true for
    `dartboard` and for `density_ratio` where nothing is clipped.
    """

    laws: FloatArray
    hazards: FloatArray

    @property
    def mean(self) -> float:
        return float(self.hazards.sum())

    @property
    def variance(self) -> float:
        return float((self.hazards * (1.0 - self.hazards)).sum())


def propagate(
    grid: Grid, log_factors: FloatArray, *, forced: float, block: int = 1, fresh: str = "gibbs"
) -> Propagation:
    """The exact law of the kept point when a switch draws from the current Gibbs law.

    fresh "excess": from the excess of the new law over the old one.
    """
    rounds = len(grid.losses)
    targets = grid.laws()
    law = targets[0]
    laws, hazards = [law], []
    stay = np.zeros_like(law)
    for t in range(1, rounds):  # after round t; none after the last
        stay = stay + log_factors[t - 1]
        if t % block == 0:
            kept = law * (1.0 - forced) * np.exp(stay)
            hazard = 1.0 - kept.sum()
            drawn = targets[t]
            if fresh == "excess":
                drawn = np.maximum(targets[t] - targets[t - 1], 0.0)
                drawn = drawn / drawn.sum()
            law = kept + hazard * drawn
            hazards.append(hazard)
            stay = np.zeros_like(law)
        laws.append(law)
    return Propagation(np.array(laws), np.array(hazards))


def distance(samples: FloatArray, law: FloatArray, points: FloatArray) -> float:
    """Kolmogorov-Smirnov distance between samples and a law on cells, taken at the cells' edges."""
    width = points[1] - points[0]
    edges = points + 0.5 * width
    empirical = np.searchsorted(np.sort(samples), edges, side="right") / len(samples)
    return float(np.abs(empirical - np.cumsum(law)).max())


def huber(z: FloatArray, width: float = 0.5) -> FloatArray:
    return np.where(np.abs(z) <= width, 0.5 * z**2, width * (np.abs(z) - 0.5 * width))
