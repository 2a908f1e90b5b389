"""Rows of the table for the batch baselines, and the Python loop they are measured against."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from measurement import Row, compare, rate
from numpy.typing import NDArray

import dpoco
from dpoco import frank_wolfe as fw

FloatArray = NDArray[np.float64]

BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-4)


class SgdLoop:
    """Noisy SGD on squared losses in a box, a step at a time, as published code has it."""

    def __init__(self, features: FloatArray, labels: FloatArray, *, steps: int, step_size: float,
                 scale: float, bound: float, radius: float) -> None:  # fmt: skip
        self._features, self._labels, self._steps = features, labels, steps
        self._step_size, self._scale, self._bound, self._radius = step_size, scale, bound, radius
        self._generator = np.random.default_rng(1)

    def run(self) -> FloatArray:
        n, d = self._features.shape
        theta, total = np.zeros(d), np.zeros(d)
        for _ in range(self._steps):
            i = self._generator.integers(n)
            x = self._features[i]
            slope = min(max(2.0 * (x @ theta - self._labels[i]), -self._bound), self._bound)
            noisy = slope * x + self._scale * self._generator.standard_normal(d)
            theta = np.clip(theta - self._step_size * noisy, -self._radius, self._radius)
            total += theta
        return total / self._steps


def problem(n: int, d: int) -> tuple[FloatArray, FloatArray]:
    stream = dpoco.datasets.linear_regression_stream(n, d, float("inf"), seed=d)
    return stream.features, stream.labels


def noisy_sgd(n: int, d: int, steps: int) -> tuple[fw.NoisySGD, FloatArray, FloatArray]:
    features, labels = problem(n, d)
    ball = dpoco.domains.LpBall(d, float("inf"), 2.0)
    loss = dpoco.losses.SquaredLoss(1.0, 1.25)
    learner = fw.NoisySGD(ball, loss, budget=BUDGET, records=n, steps=steps)
    return learner, features, labels


def fit(learner: fw.NoisySGD, features: FloatArray, labels: FloatArray) -> None:
    """Fit again, as no user may: calibration is not part of the measurement."""
    engine = learner._engine(features, labels)
    engine.advance(engine.units)
    engine.result()


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    check_competitor()
    for d, target in ((5, 100.0), (20, None)):
        n, steps = 2000, 50_000 // shrink
        learner, features, labels = noisy_sgd(n, d, steps)
        p = learner.parameters
        loop = SgdLoop(features, labels, steps=steps, step_size=p.step_size, scale=p.noise_scale,
                       bound=p.derivative_bound, radius=2.0)  # fmt: skip
        yield compare(
            "NoisySGD.fit against a Python loop over steps (ns per step)",
            f"n = {n}, d = {d}",
            partial(fit, learner, features, labels),
            loop.run,
            against="Python loop",
            units=steps,
            pairs=pairs,
            instruction_set=dpoco.random.instruction_set(),
            target=target,
        )
    learner, features, labels = noisy_sgd(2000, 5, 4_000_000 // shrink)
    yield rate(
        "Batch baselines: gradients per second of CPU time",
        "NoisySGD, d = 5",
        partial(fit, learner, features, labels),
        units=learner.parameters.steps,
        repetitions=pairs,
        target=None,
        unit="steps/s",
    )


def check_competitor() -> None:
    """Raise if the loop learns something else than ours; without noise, up to the draws."""
    learner, features, labels = noisy_sgd(500, 5, 20_000)
    engine = fw.NoisySGD(learner.domain, learner.loss, budget=None, steps=20_000)
    ours = engine.fit(features, labels).theta
    p = engine.parameters
    theirs = SgdLoop(features, labels, steps=p.steps, step_size=p.step_size, scale=0.0,
                     bound=p.derivative_bound, radius=2.0).run()  # fmt: skip
    np.testing.assert_allclose(theirs, ours, atol=0.1)
