from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from dpoco.datasets import linear_regression_stream
from dpoco.evaluation import best_constant_prediction, suboptimality
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss


def test_logistic_constant_is_the_entropy_of_the_rate():
    labels = np.repeat([1.0, 0.0], [30, 170])
    best = best_constant_prediction(LogisticLoss(1.0), labels)
    rate = 0.15
    entropy = -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))
    assert best.average_loss == pytest.approx(entropy, rel=1e-12)
    assert best.prediction == pytest.approx(math.log(rate / (1 - rate)), rel=1e-6)
    assert best.total_loss == pytest.approx(200 * entropy)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_logistic_constant_with_equal_labels_is_finite(label):
    best = best_constant_prediction(LogisticLoss(1.0), np.full(5, label))
    assert abs(best.prediction) == pytest.approx(30.0)
    assert 0.0 <= best.average_loss < 1e-12


def test_squared_constant_is_the_mean_of_the_clipped_labels():
    labels = np.array([-3.0, -0.5, 0.25, 0.75])
    best = best_constant_prediction(SquaredLoss(1.0, 1.0, weight=2.0), labels)
    clipped = np.clip(labels, -1.0, 1.0)
    assert best.prediction == pytest.approx(clipped.mean(), abs=1e-15)
    assert best.average_loss == pytest.approx(2.0 * clipped.var())


def test_huber_constant_agrees_with_scipy():
    labels = np.clip(np.random.default_rng(1).standard_cauchy(101), -5.0, 5.0)
    loss = HuberLoss(1.0, 5.0, threshold=0.4)
    best = best_constant_prediction(loss, labels)
    ones = np.ones((101, 1))
    found = scipy.optimize.minimize_scalar(
        lambda z: float(np.sum(loss.value([z], ones, labels))), bounds=(-5, 5), method="bounded"
    )
    assert best.total_loss == pytest.approx(found.fun, rel=1e-8)
    assert best.total_loss <= found.fun + 1e-9


def test_missing_labels_count_as_zero_loss():
    best = best_constant_prediction(SquaredLoss(1.0, 1.0), [0.0, 1.0, np.nan, np.inf])
    assert best.prediction == pytest.approx(0.5)
    assert best.total_loss == pytest.approx(0.5)
    assert best.average_loss == pytest.approx(0.125)
    assert best_constant_prediction(SquaredLoss(1.0, 1.0), [np.nan]).total_loss == 0.0


def test_constant_refuses_other_losses():
    with pytest.raises(TypeError, match="generalised linear"):
        best_constant_prediction(LinearLoss(1.0), [1.0])
    with pytest.raises(ValueError, match="empty"):
        best_constant_prediction(SquaredLoss(1.0, 1.0), [])


def test_suboptimality_is_the_excess_of_the_quadratic_form():
    stream = linear_regression_stream(200_000, 5, 2.0, seed=4)
    offset = np.array([0.3, 0.0, 0.0, -0.4, 0.0])
    excess = suboptimality(
        SquaredLoss(1.0, 1.0), stream.target + offset, stream.features, stream.labels, stream.target
    )
    # x is uniform on the sphere: E <x, offset>^2 = |offset|^2 / d; standard error about 0.4 %.
    assert excess == pytest.approx(0.25 / 5, rel=0.03)
    arguments = (stream.features, stream.labels, stream.target)
    assert suboptimality(SquaredLoss(1.0, 1.0), stream.target, *arguments) == 0.0
