"""The predicted step of the noisy leader: the least of its formula, and less regret."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

import dpoco
from dpoco.accounting import continual_sum, noisy_ftrl
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

BUDGET = dpoco.Budget(1.0, 1e-6)
T = 3000


def sigmoid(margin):
    return 1.0 / (1.0 + math.exp(-margin))


# Domain, loss; then, in Euclidean norms, radius, slope, curvature along the noise, its directions.
CASES = {
    "logistic": (LpBall(5, 2.0, 3.0), LogisticLoss(2.0), 3.0, 2.0 * sigmoid(6.0), 0.25 * 4.0, 1),
    "squared": (LpBall(4), SquaredLoss(1.0, 1.0), 1.0, 4.0, 2.0, 1),
    "huber": (LpBall(4), HuberLoss(1.0, 1.0, threshold=0.5), 1.0, 0.5, 1.0, 1),
    "box": (
        Box([-1.0, -1.0], [1.0, 1.0]),
        LogisticLoss(1.0),
        math.sqrt(2.0),
        sigmoid(1.0),
        0.25,
        1,
    ),
    "custom": (LpBall(6), CustomLoss(1.5, 0.7), 1.0, 1.5, 0.7 * 6, 6),
    "custom, p = 1": (LpBall(6, 1.0), CustomLoss(1.5, 0.7), 1.0, math.sqrt(6) * 1.5, 0.7 * 36, 6),
}


def predicted(case, parameters, eta, batch=1):
    """Return the prediction, with sums over all rounds."""
    _, _, radius, slope, curvature, directions = CASES[case]
    turns = np.arange(1, T // batch)
    rows = continual_sum.row_norm(parameters.mechanism.factorisation, turns, T // batch)
    rows = parameters.mechanism.scale * rows
    s = np.repeat(rows, batch)
    mean = math.sqrt(np.mean(np.square(s)))
    chi = math.sqrt(2.0 / math.pi) if directions == 1 else math.sqrt(directions)
    n = CASES[case][0].intrinsic_dimension
    # Where a step along a block's mean gradient descends, records cost what single ones cost.
    together = 1 if eta * curvature / directions * batch <= 1.0 else batch
    stability = 0.5 * eta * (slope**2 * together * T + n * rows[-1] ** 2)
    noise = s.size * min(0.5 * curvature * (eta * mean) ** 2, slope * chi * eta * mean)
    return 0.5 * radius**2 / eta + stability + noise


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("case", CASES)
def test_the_step_is_the_least_of_the_prediction(case, batch):
    domain, loss, *_ = CASES[case]
    options = {"horizon": T, "budget": BUDGET, "batch": batch, "sum_method": "blt"}
    p = noisy_ftrl.calibrate(domain, loss, step_size="predicted", **options)
    found = predicted(case, p, p.tuning.step_size, batch)
    grid = np.geomspace(1e-3 * p.tuning.step_size, 1e3 * p.tuning.step_size, 121)
    start = min(grid, key=lambda eta: predicted(case, p, eta, batch))
    least = scipy.optimize.minimize_scalar(
        lambda x: predicted(case, p, math.exp(x), batch),
        bounds=(math.log(start) - 0.2, math.log(start) + 0.2),
        method="bounded",
    ).fun
    # Means over sums and over rounds differ by the last sum, which decides nothing.
    assert least * (1.0 - 1e-9) <= found <= least * 1.002
    for wrong in (0.5, 2.0):
        assert predicted(case, p, wrong * p.tuning.step_size, batch) > least * 1.002


@pytest.mark.parametrize("case", CASES)
def test_noise_and_privacy_are_those_of_the_default(case):
    domain, loss, *_ = CASES[case]
    plain = NoisyFTRL(domain, loss, horizon=T, budget=BUDGET)
    longer = NoisyFTRL(domain, loss, horizon=T, budget=BUDGET, step_size="predicted")
    assert longer.plan.mechanism == plain.plan.mechanism
    assert longer.guarantee.epsilon == plain.guarantee.epsilon
    assert longer.plan.tuning.step_size > plain.plan.tuning.step_size
    # The bound is the proved one, for this step.
    given = NoisyFTRL(
        domain, loss, horizon=T, budget=BUDGET, step_size=longer.plan.tuning.step_size,
        sum_method=longer._plan_arguments(longer.plan)["sum_method"],
    )  # fmt: skip
    assert given.plan == longer.plan
    assert longer.guarantee.regret_bound == given.guarantee.regret_bound
    assert longer.guarantee.regret_bound >= plain.guarantee.regret_bound


def test_where_nothing_is_to_be_predicted():
    logistic, ball = LogisticLoss(1.0), LpBall(3)
    for budget, horizon in ((None, T), (BUDGET, 1)):
        both = [
            noisy_ftrl.calibrate(ball, logistic, horizon=horizon, budget=budget, step_size=step)
            for step in (None, "predicted")
        ]
        assert both[0] == both[1]
    point = noisy_ftrl.calibrate(
        Simplex(1), logistic, horizon=T, budget=BUDGET, step_size="predicted"
    )
    assert point.tuning.step_size == 1.0
    with pytest.raises(ValueError, match="no step size"):
        noisy_ftrl.calibrate(
            ball, SquaredLoss(1.0, 1.0), horizon=T, budget=BUDGET, step_size="predicted",
            statistics="quadratic",
        )  # fmt: skip
    with pytest.raises(ValueError, match="step_size"):
        noisy_ftrl.calibrate(ball, logistic, horizon=T, budget=BUDGET, step_size="longest")


def test_linear_losses_have_the_step_of_their_bound():
    options = {"horizon": T, "budget": dpoco.Budget(8.0, 1e-6), "sum_method": "blt"}
    plain, longer = (
        noisy_ftrl.calibrate(LpBall(3), LinearLoss(1.0), step_size=step, **options)
        for step in (None, "predicted")
    )
    assert longer.tuning.step_size == pytest.approx(
        plain.tuning.step_size, rel=1e-3
    )  # but for the rounding


def stream(seed):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(T, 5))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    truth = np.array([0.5, -0.5, 0.3, 0.0, 0.2])
    return features, np.clip(features @ truth + 0.1 * generator.normal(size=T), -1.0, 1.0)


def test_it_learns_faster_also_in_blocks():
    def regrets(step, batch=1):
        rows = []
        for seed in range(12):
            features, labels = stream(seed)
            learner = NoisyFTRL(
                LpBall(5), SquaredLoss(1.0, 1.0), horizon=T, budget=dpoco.Budget(4.0, 1e-6),
                step_size=step, batch=batch, source=Source.seeded(seed),
            )  # fmt: skip
            rows.append(learner.run(features, labels).average_loss - 0.01)
        return np.array(rows)

    shorter, longer = regrets(None), regrets("predicted")
    blocks, longer_blocks = regrets(None, 30), regrets("predicted", 30)
    for gain in (shorter - 1.5 * longer, blocks - 1.5 * longer_blocks, longer - longer_blocks):
        assert gain.mean() > 6.0 * gain.std(ddof=1) / math.sqrt(gain.size)
