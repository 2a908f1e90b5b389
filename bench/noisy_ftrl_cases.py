"""Rows of the table for `oco.NoisyFTRL`, and the NumPy loop they are measured against."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy_loops
from measurement import Row, compare, rate
from numpy.typing import NDArray

import dpoco
import dpoco.oco
from dpoco.accounting.continual_sum import blt_parameters

FloatArray = NDArray[np.float64]

BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
HORIZON = 10**9


class LinearLeader:
    """The leader on BLT sums of clipped gradients in the unit ball, as a NumPy user writes it."""

    def __init__(self, dimension: int, *, scale: float, step_size: float) -> None:
        blt = blt_parameters(HORIZON)
        self._sum = numpy_loops.BufferedToeplitz(
            dimension, decay=blt.decay, weights=blt.weights, scale=scale, bound=1.0
        )
        self._step_size = step_size
        self._theta = np.zeros(dimension)

    def run(self, gradients: FloatArray) -> FloatArray:
        """Linear losses need no decision for their gradients: all sums first, all rows at once."""
        decisions = np.empty_like(gradients)
        decisions[0] = self._theta
        points = self._sum.run(gradients)
        points *= -self._step_size
        points /= np.maximum(1.0, np.sqrt(np.einsum("ij,ij->i", points, points)))[:, None]
        decisions[1:] = points[:-1]
        self._theta = points[-1]
        return decisions


def leader(
    d: int, loss: dpoco.losses.Loss, *, budget: dpoco.Budget | None = BUDGET, **options: Any
) -> dpoco.oco.NoisyFTRL:
    return dpoco.oco.NoisyFTRL(
        dpoco.domains.LpBall(dimension=d),
        loss,
        horizon=HORIZON,
        budget=budget,
        sum_method="blt",
        **options,
    )


def records(rounds: int, d: int) -> FloatArray:
    """Rows of norm 0.5 to 1.5, so that a bound of 1 clips half of them."""
    generator = np.random.default_rng(d)
    rows = generator.standard_normal((rounds, d))
    rows *= (generator.uniform(0.5, 1.5, rounds) / np.linalg.norm(rows, axis=1))[:, None]
    return rows


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    check_competitor()
    linear = dpoco.losses.LinearLoss(gradient_bound=1.0)
    title = "NoisyFTRL: rounds per second of CPU time"
    for d, target in ((10, 3e6), (1000, None)):
        gradients = records((200_000 if d == 10 else 2000) // shrink, d)
        yield rate(
            title,
            f"run, linear losses, d = {d}",
            partial(leader(d, linear).run, gradients, record_decisions=False),
            units=len(gradients),
            repetitions=pairs,
            target=target,
        )
    features = records(100_000 // shrink, 10)
    labels = (features.sum(axis=1) > 0).astype(float)
    yield rate(
        title,
        "run, logistic loss, d = 10",
        partial(
            leader(10, dpoco.losses.LogisticLoss(1.0)).run, features, labels, record_decisions=False
        ),
        units=len(labels),
        repetitions=pairs,
        target=1e6,
    )
    squared = leader(10, dpoco.losses.SquaredLoss(1.0, 1.0), statistics="quadratic")
    yield rate(
        title,
        "run, quadratic statistics, d = 10",
        partial(squared.run, features, labels, record_decisions=False),
        units=len(labels),
        repetitions=pairs,
        target=None,
    )
    for d, factor in ((10, 10.0), (100, None), (1000, None)):
        gradients = records((20_000 if d == 10 else 2000) // shrink, d)
        ours = leader(d, linear)
        p = ours.plan
        yield compare(
            "NoisyFTRL.run on linear losses against a NumPy loop (ns per round)",
            f"d = {d}",
            partial(ours.run, gradients),
            partial(
                LinearLeader(d, scale=p.mechanism.scale, step_size=p.tuning.step_size).run,
                gradients,
            ),
            against="NumPy loop",
            units=len(gradients),
            pairs=pairs,
            instruction_set=dpoco.random.instruction_set(),
            target=factor,
        )


def check_competitor() -> None:
    """Raise if the NumPy loop decides something else than ours; without noise, so exactly."""
    gradients = records(300, 5)
    ours = leader(5, dpoco.losses.LinearLoss(gradient_bound=1.0), budget=None)
    theirs = LinearLeader(5, scale=0.0, step_size=ours.plan.tuning.step_size).run(gradients)
    np.testing.assert_allclose(theirs, ours.run(gradients).decisions, atol=1e-12)
