"""How much noise moves decisions, as learners state it, against many runs on one stream."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from tests.samples import replays

import dpoco
from dpoco.accounting.forgetting import batch_lengths
from dpoco.accounting.noisy_newton import STEP_SHARE
from dpoco.domains import LpBall
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.oco import NoisyFTRL, NoisyNewton
from dpoco.privacy.mechanisms.factorisations import SquareRoot
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings(
    "ignore::dpoco.NoiseDominatesWarning", "ignore::dpoco.LargeDeltaWarning"
)
D, SMALL = 3, 5e-7
BUDGET = dpoco.Budget(2.0, 1e-6)


def source(seed):
    return None if seed is None else Source.seeded(seed)


def leader(seed=1, *, loss=None, **options):
    given = {"horizon": 50, "budget": BUDGET, "step_size": 1e-3, **options}
    return NoisyFTRL(LpBall(D, 2.0, 10.0), loss or LinearLoss(1.0), source=source(seed), **given)


@pytest.mark.parametrize(
    "options",
    [{}, {"batch": 4}, {"sum_method": "tree"}, {"sum_method": "toeplitz"}, {"numerics": "float"},
     {"horizon": None}],
)  # fmt: skip
def test_a_leader_states_the_exact_law_for_linear_losses(options):
    rows = np.random.default_rng(1).uniform(-0.5, 0.5, (37, D))
    runs = 300
    used = len(rows) // options.get("batch", 1) * options.get("batch", 1)
    exact = -1e-3 * rows[:used].sum(axis=0)
    gaps = np.empty((runs, D))
    for seed, learner in enumerate(replays(leader(**options), runs)):
        learner.run(rows)
        gaps[seed] = learner.last_decision - exact
    stated = learner.covariance
    assert np.array_equal(stated, stated[0, 0] * np.eye(D))
    within = scipy.stats.chi2(runs * D).ppf([SMALL, 1.0 - SMALL])
    total = float(np.square(gaps).sum() / stated[0, 0])
    assert within[0] < total < within[1]
    for wrong in (1.7, 1.0 / 1.7):  # a deviation that is 30 % off
        assert not within[0] < wrong * total < within[1]


def test_covariances_follow_the_rounds_and_states():
    rows = np.random.default_rng(2).uniform(-0.5, 0.5, (50, D))
    learner = leader(batch=5)
    assert not learner.covariance.any()  # nothing was released
    seen = set()
    for t, row in enumerate(rows):
        learner.decide()
        assert learner.covariance.any() == (t >= 5)
        seen.add(float(learner.covariance[0, 0]))
        learner.observe(row)
    assert len(seen) == 10  # one for each batch; the last batch decides nothing
    again = dpoco.oco.NoisyFTRL._from_bytes(learner._to_bytes())
    assert np.array_equal(again.covariance, learner.covariance)
    plain = leader(budget=None)
    plain.run(rows)
    assert not plain.covariance.any()


def test_quadratic_statistics_state_none():
    loss = SquaredLoss(1.0, 1.0, feature_bound_l2=1.0)
    learner = leader(loss=loss, statistics="quadratic", step_size=None, horizon=1000)
    assert learner.covariance is None
    assert leader(loss=loss, horizon=1000).covariance.shape == (D, D)


def newton(seed=1, **options):
    given = {"horizon": 3000, "budget": dpoco.Budget(8.0, 1e-6), "shrinkage": 0.0, **options}
    return NoisyNewton(LpBall(2, 2.0, 20.0), LogisticLoss(1.0), source=source(seed), **given)


def logistic(rounds, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rounds, 2)) * [1.0, 0.4]
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return rows, (rng.random(rounds) < 1.0 / (1.0 + np.exp(-rows @ [2.0, -1.0]))).astype(float)


def lengths(decisions, stated):
    """Return the mean squared length of gaps in units of what is stated; 1 where it is exact."""
    gaps = decisions - decisions.mean(axis=0)
    white = np.einsum("ni,nij,nj->n", gaps, np.linalg.inv(stated), gaps)
    return float(white.mean()) / gaps.shape[1]


def left_by_steps(plan):
    """Return which part of the stated variance steps leave, for curvature that comes evenly.

    The metric grows by a share of the curvature, so what is left of noise after n of N rounds is
    (n / N)^(1 / share - 1) of it. For sums by square roots.
    """
    total = plan.mechanism
    assert isinstance(total.factorisation, SquareRoot)
    ends = np.cumsum(batch_lengths(total.batch, total.growth, total.pushes))
    root = np.cumprod([1.0, *(1.0 - 0.5 / np.arange(1, total.pushes))])
    sums = scipy.linalg.toeplitz(root, np.zeros(total.pushes))
    left = (ends / ends[-1]) ** (1.0 / STEP_SHARE - 1.0)
    row = left @ np.diff(sums, axis=0, prepend=0.0)
    return float(row @ row / (sums[-1] @ sums[-1]))


@pytest.mark.parametrize("options", [{}, {"half_life": 600.0}, {"shrinkage": 1.0}])
def test_newton_steps_move_as_is_stated_to_first_order(options):
    runs, new = 150, newton(**options)
    stream = logistic(3000, 1)
    decisions, stated = np.empty((runs, 2)), np.empty((runs, 2, 2))
    for seed, learner in enumerate(replays(new, runs)):
        learner.run(*stream)
        decisions[seed], stated[seed] = learner.last_decision, learner.covariance
    seen = lengths(decisions, stated)
    # The mean of 300 squares of normals is off by a factor of 1.5 with a chance below 1e-6; a tenth
    # is for terms of second order.
    least = 1.0 / 3.0 if "half_life" in options else left_by_steps(new.plan)
    low, high = least / 1.6, (1.0 if "half_life" in options else least) * 1.6
    assert low < seen < high
    for wrong in (4.0, 0.25):  # deviations twice as large, or half
        assert not low < wrong * seen < high


def test_newton_steps_state_nothing_before_a_release_and_keep_to_states():
    learner, (rows, labels) = newton(), logistic(400, 2)
    assert not learner.covariance.any()
    learner.run(rows, labels)
    stated = learner.covariance
    assert np.array_equal(stated, stated.T)
    assert np.linalg.eigvalsh(stated)[0] > 0.0
    again = NoisyNewton._from_bytes(learner._to_bytes())
    assert np.array_equal(again.covariance, stated)
    plain = newton(budget=None)
    plain.run(rows, labels)
    assert not plain.covariance.any()


@pytest.mark.parametrize("make", [leader, newton])
def test_models_bring_the_covariance(tmp_path, make):
    loss = {"loss": LogisticLoss(1.0)} if make is leader else {}
    learner = make(None, horizon=2000, **loss)
    d = learner.domain.dimension
    learner.run(np.full((100, d), 0.1), np.ones(100))
    schema = dpoco.datasets.Schema(
        features=("a", "b", "c")[:d], ranges=((-1.0, 1.0),) * d, intercept=False,
        task="classification", label="y",
    )  # fmt: skip
    model = dpoco.Model.of_schema(learner, schema)
    assert np.array_equal(model.covariance, learner.covariance)
    model.save(tmp_path / "model.json")
    assert dpoco.Model.load(tmp_path / "model.json") == model
