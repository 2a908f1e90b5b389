"""Rows about `PolyhedralFrankWolfe`: private selections and whole rounds in many dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from measurement import Row, compare, rate
from numpy.typing import NDArray

import dpoco
from dpoco.frank_wolfe import PolyhedralFrankWolfe

FloatArray = NDArray[np.float64]
BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
TARGETS = {"gumbel": 5.0, "laplace": 3.0}


class NumpyLearner:
    """DP-POFW in vectorised NumPy on the l_1 ball of radius 1, squared loss, batches of one."""

    def __init__(
        self, dimension: int, *, scale: float, exponent: float, bound: float, selector: str
    ) -> None:
        self.generator = np.random.default_rng(1)
        self.scale, self.exponent, self.bound = scale, exponent, bound
        self.choose: Callable[[FloatArray, float], int] = {
            "gumbel": self.by_softmax,
            "laplace": self.by_laplace,
            "none": lambda scores, _: int(np.argmin(scores)),
        }[selector]
        self.theta = np.zeros(dimension)
        self.previous = self.theta
        self.total = np.zeros(dimension)
        self.step = 1

    def by_softmax(self, scores: FloatArray, scale: float) -> int:
        # Faster than rng.choice(p=...) and than adding rng.gumbel noise.
        weights = np.cumsum(np.exp((scores.min() - scores) / scale))
        place = np.searchsorted(weights, self.generator.random() * weights[-1])
        return int(min(place, len(scores) - 1))

    def by_laplace(self, scores: FloatArray, scale: float) -> int:
        return int(np.argmin(scores + self.generator.laplace(scale=scale, size=len(scores))))

    def run(self, features: FloatArray, labels: FloatArray) -> FloatArray:
        for row, label in zip(features, labels, strict=True):
            k, d = self.step, len(row)
            x = row * min(1.0, 1.0 / np.abs(row).max())
            slope = 2.0 * (self.theta @ x - label), 2.0 * (self.previous @ x - label)
            self.total += np.clip(k * slope[0] - (k - 1) * slope[1], -self.bound, self.bound) * x
            direction = self.total / k
            scores = np.concatenate([direction, -direction])
            chosen = self.choose(scores, self.scale * k**-self.exponent)
            self.previous, self.theta = self.theta, self.theta * (k / (k + 1.0))
            self.theta[chosen % d] += (1.0 if chosen < d else -1.0) / (k + 1.0)
            self.step += 1
        return self.theta


def learner(
    d: int, selector: str, *, horizon: int, batch: int | str = 1, private: bool = True
) -> PolyhedralFrankWolfe:
    return PolyhedralFrankWolfe(
        dpoco.domains.LpBall(d, 1.0),
        dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
        horizon=horizon,
        budget=BUDGET if private else None,
        selector=selector,
        batch=batch,
    )


def twin(ours: PolyhedralFrankWolfe, selector: str) -> NumpyLearner:
    own = ours.plan.mechanism
    return NumpyLearner(
        ours.domain.dimension, scale=own.scale, exponent=own.exponent, bound=own.scores.slope,
        selector=selector,
    )  # fmt: skip


def records(rounds: int, d: int) -> tuple[FloatArray, FloatArray]:
    generator = np.random.default_rng(d)
    return generator.uniform(-1.2, 1.2, (rounds, d)), generator.uniform(-1.0, 1.0, rounds)


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    check_competitors()
    d, rounds = 10**5, max(2, 20 // shrink)
    features, labels = records(rounds, d)
    for selector, target in TARGETS.items():
        ours = learner(d, selector, horizon=10**6)
        yield compare(
            "PolyhedralFrankWolfe.run against a NumPy loop, an update a round (ns per round)",
            f"{selector}, d = {d:,}",
            partial(ours.run, features, labels, record_decisions=False),
            partial(twin(ours, selector).run, features, labels),
            against="vectorised NumPy",
            units=rounds,
            pairs=pairs,
            instruction_set=dpoco.random.instruction_set(),
            target=target,
        )
    for d, batch, count in ((50, 1, 20_000), (50, 500, 100_000), (10**5, 100, 200)):
        count = max(2, count // shrink)
        features, labels = records(count, d)
        ours = learner(d, "gumbel", horizon=10**8, batch=batch)
        yield rate(
            "PolyhedralFrankWolfe: rounds per second of CPU time",
            f"run, d = {d:,}, {batch} rounds per update",
            partial(ours.run, features, labels, record_decisions=False),
            units=count,
            repetitions=pairs,
            target=None,
        )


def check_competitors() -> None:
    """Raise unless, without noise, the competitor's decision is ours."""
    features, labels = records(40, 6)
    ours = learner(6, "gumbel", horizon=40, private=False)
    theirs = twin(ours, "none").run(features, labels)
    ours.run(features, labels)
    np.testing.assert_allclose(theirs, ours.last_decision, atol=1e-12)
    scores = np.array([0.3, -0.2, 0.1])
    rival = twin(ours, "gumbel")
    counts = np.bincount([rival.by_softmax(scores, 0.5) for _ in range(4000)], minlength=3)
    weights = np.exp(-scores / 0.5)
    np.testing.assert_allclose(counts / 4000, weights / weights.sum(), atol=0.06)
