"""Hypothesis classes: what is accepted, what is refused, and by which words."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from local_cases import FA, FC

from dpoco.local import Hypotheses, Prediction


def test_array_is_kept_once_and_read_only():
    given = FA.copy()
    held = Hypotheses(given)
    assert (held.count, held.labels, held.kind, held.contexts) == (3, 4, "array", 1)
    assert held.matrix() is held.matrix()
    assert not held.matrix().flags.writeable
    given[0] = 0.25  # the caller's array is the caller's
    assert np.array_equal(held.matrix(), FA)
    owned = FA.copy()
    owned.flags.writeable = False
    assert Hypotheses(owned).matrix() is owned


def test_single_precision_and_integers():
    assert np.array_equal(Hypotheses(np.array([[1, 0], [0, 1]])).matrix(), np.eye(2))
    single = Hypotheses(FC.astype(np.float32)).matrix()
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, FC, atol=1e-7)


def test_table_by_integer_context():
    table = np.stack([FA, FA[::-1]])
    held = Hypotheses(table)
    assert (held.kind, held.contexts) == ("table", 2)
    assert np.array_equal(held.matrix(1), FA[::-1])
    assert held.matrix(np.int32(1)) is held.matrix(1)
    with pytest.raises(ValueError, match="context must be in"):
        held.matrix(2)
    with pytest.raises(TypeError, match="context must be an int"):
        held.matrix(0.0)
    with pytest.raises(ValueError, match="no context"):
        Hypotheses(FA).matrix(0)


def test_callable_is_asked_once_a_context():
    asked = []

    def model(x):
        asked.append(x)
        return np.array([[x, 1 - x], [0.5, 0.5]])

    held = Hypotheses(model, 2, 2)
    first = held.matrix(0.25)
    assert held.matrix(0.25) is first
    assert asked == [0.25]
    held.matrix(0.5)
    held.matrix(0.25)
    assert asked == [0.25, 0.5, 0.25]
    with pytest.raises(ValueError, match="row 0 holds a negative"):
        held.matrix(1.5)


def test_mutable_contexts_are_not_confused():
    held = Hypotheses(lambda x: np.array([[x[0], 1 - x[0]]]), 1, 2)
    context = np.array([0.25])
    assert held.matrix(context)[0, 0] == 0.25
    context[0] = 0.5
    assert held.matrix(context)[0, 0] == 0.5
    context = [0.25]
    held.matrix(context)
    context[0] = 0.75
    assert held.matrix(context)[0, 0] == 0.75


def test_likelihoods():
    held = Hypotheses(lambda x, y: [np.exp(-abs(y - x)), np.nan, -1.0], 3)
    assert (held.kind, held.labels) == ("likelihood", None)
    np.testing.assert_array_equal(held.column(1.0, 1.0), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(held.column(1.0, None), np.zeros(3))
    with pytest.raises(ValueError, match="no finite set"):
        held.matrix(1.0)


@pytest.mark.parametrize("y", [None, -1, 4, 2.0, "2", True, float("nan"), 10**30])
def test_what_is_no_label_has_no_likelihood(y):
    np.testing.assert_array_equal(Hypotheses(FA).column(None, y), np.zeros(3))


def test_columns():
    held = Hypotheses(FA)
    rows = held.columns(None, np.array([2, -1, 4, 0]))
    np.testing.assert_array_equal(rows, np.stack([FA[:, 2], np.zeros(3), np.zeros(3), FA[:, 0]]))
    np.testing.assert_array_equal(held.columns(None, [2, None, 4, 0]), rows)
    np.testing.assert_array_equal(held.columns(None, np.array([3], dtype=np.uint8))[0], FA[:, 3])


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ([0.5, 0.6], "row 1 does not sum to 1"),
        ([-0.5, 1.5], "row 1 holds a negative"),
        ([np.nan, 1.0], "row 1 holds a number that is not finite"),
        ([np.inf, 0.0], "row 1 holds a number that is not finite"),
        ([0.5, 0.5 + 2e-6], "row 1 does not sum to 1"),
    ],
)
def test_no_distribution_names_the_row_and_no_value(row, text):
    with pytest.raises(ValueError, match=text) as caught:
        Hypotheses([[0.5, 0.5], row])
    assert "0.6" not in str(caught.value)
    assert "1.5" not in str(caught.value)
    with pytest.raises(ValueError, match="of context 1"):
        Hypotheses([[[0.5, 0.5]], [row]])


def test_fingerprint_sees_every_number():
    assert Hypotheses(FA).fingerprint == Hypotheses(FA.copy()).fingerprint
    other = FA.copy()
    other[0, 0] = np.nextafter(0.1, 1.0)
    assert Hypotheses(other).fingerprint != Hypotheses(FA).fingerprint
    assert Hypotheses(FA[None]).fingerprint != Hypotheses(FA).fingerprint
    assert len(Hypotheses(FA).fingerprint) == 16


def test_pickle_forgets_contexts():
    held = pickle.loads(pickle.dumps(Hypotheses(np.stack([FA, FA]))))
    assert np.array_equal(held.matrix(1), FA)


# -- predictions: every label alone, and all at once ----------------------------------------------

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


def test_mixtures_of_densities():
    prediction = Prediction(WEIGHTS, 0.3, column=lambda y: np.exp(-np.array([y, 2 * y, 3 * y])))
    expected = (0.7 * WEIGHTS + 0.1) @ np.exp([-0.5, -1.0, -1.5])
    assert prediction.prob(0.5) == pytest.approx(expected, rel=1e-15)
    assert prediction.labels is None
    with pytest.raises(ValueError, match="no finite set"):
        prediction.all()


def test_arguments_of_predictions():
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
