"""What samples show: their distance from a law, what chance allows, and how well learners learn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from tests.published import built

import dpoco
from dpoco.datasets import linear_regression_stream
from dpoco.domains import LpBall
from dpoco.losses import SquaredLoss
from dpoco.random import Source

ALARM = 1e-8


def distance(values, cdf) -> float:
    """Return the largest difference between the empirical and the given distribution function."""
    u = np.sort(cdf(np.asarray(values)))
    grid = np.arange(u.size + 1) / u.size
    return float(max(np.max(grid[1:] - u), np.max(u - grid[:-1])))


def bound(n: int, alarm: float = ALARM) -> float:
    """Return the distance that n samples of a law exceed with probability at most `alarm`.

    By the Dvoretzky-Kiefer-Wolfowitz inequality P(sup |F_n - F| > sqrt(ln(2/a) / 2n)) <= a for
    every law, so it is an exact statement, not an approximation.
    """
    return math.sqrt(math.log(2.0 / alarm) / (2 * n))


def replays(learner: Any, runs: int) -> Iterator[Any]:
    """Yield a learner in round 0 under the seeds 0, 1, ...: it is planned and certified once."""
    for seed in range(runs):
        learner._engine = learner._build_engine(Source.seeded(seed)._claim())
        yield learner


def mean_suboptimality(cls, rounds, d, p, seeds=10, **options) -> float:
    """Return (risk - least risk) / (risk of predicting zero - least risk) on fresh records."""
    options = {"budget": dpoco.Budget(1.0, 1.0 / rounds), **options}
    fits = hasattr(cls, "fit")
    found = []
    for seed in range(seeds):
        stream = linear_regression_stream(rounds + 10_000, d, p, seed)
        X, y = stream.features, stream.labels
        learner = (cls if fits else partial(built, cls))(
            LpBall(d, p, 2.0), SquaredLoss(1.0, 1.25), source=Source.seeded(seed),
            **({} if fits else {"horizon": rounds}), **options,
        )  # fmt: skip
        (learner.fit if fits else learner.run)(X[:rounds], y[:rounds])
        X, y = X[rounds:], y[rounds:]
        answers = learner.predict(X) if fits else X @ learner.last_decision
        risk = np.mean((answers - y) ** 2)
        found.append((risk - 0.05**2) / (np.mean(y**2) - 0.05**2))
    return float(np.mean(found))
