"""Predictions in closed form: every label alone, all at once, and against the sum of cells."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from local_cases import FA

from dpoco.local import Prediction

WEIGHTS = np.array([0.5, 0.3, 0.2])


def test_closed_form():
    prediction = Prediction(WEIGHTS, 0.1, matrix=FA)
    expected = 0.9 * WEIGHTS @ FA + 0.1 * FA.mean(axis=0)
    np.testing.assert_allclose(prediction.all(), expected, rtol=0, atol=1e-15)
    assert prediction.all().sum() == pytest.approx(1.0, abs=1e-15)
    assert (prediction.mixing, prediction.labels) == (0.1, 4)
    assert prediction.log_loss(0) == -math.log(prediction.prob(0))


def test_one_label_and_all_agree_bit_for_bit():
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet(np.ones(5000), size=11)
    prediction = Prediction(rng.dirichlet(np.ones(11)), 0.03, matrix=matrix)
    table = prediction.all()
    for y in range(0, 5000, 37):
        assert prediction.prob(y) == table[y]


@pytest.mark.parametrize("y", [None, -1, 4, 1.0, "a", 10**20])
def test_no_label_has_probability_zero(y):
    prediction = Prediction(WEIGHTS, 0.1, matrix=FA)
    assert prediction.prob(y) == 0.0
    assert prediction.log_loss(y) == math.inf


def test_densities():
    prediction = Prediction(WEIGHTS, 0.3, column=lambda y: np.exp(-np.array([y, 2 * y, 3 * y])))
    expected = (0.7 * WEIGHTS + 0.1) @ np.exp([-0.5, -1.0, -1.5])
    assert prediction.prob(0.5) == pytest.approx(expected, rel=1e-15)
    assert prediction.labels is None
    with pytest.raises(ValueError, match="no finite set"):
        prediction.all()


def test_arguments():
    with pytest.raises(ValueError, match="exactly one"):
        Prediction(WEIGHTS, 0.1)
    with pytest.raises(ValueError, match="one entry a hypothesis"):
        Prediction(WEIGHTS[:2], 0.1, matrix=FA)
    for mixing in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="mixing must be in"):
            Prediction(WEIGHTS, mixing, matrix=FA)
    assert "0.5" not in repr(Prediction(WEIGHTS, 0.1, matrix=FA))


def test_weights_are_copied():
    weights = WEIGHTS.copy()
    prediction = Prediction(weights, 0.0, matrix=FA)
    weights[:] = 0.0
    assert prediction.all().sum() == pytest.approx(1.0)


def test_a_million_labels():
    rng = np.random.default_rng(1)
    matrix = rng.random((8, 10**6))
    matrix /= matrix.sum(axis=1, keepdims=True)
    prediction = Prediction(np.full(8, 0.125), 0.01, matrix=matrix)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        table = prediction.all()
        best = min(best, time.perf_counter() - start)
    assert table.sum() == pytest.approx(1.0, abs=1e-9)
    assert best < 0.3  # ten times what it takes on an idle core
