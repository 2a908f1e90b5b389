from __future__ import annotations

import json

import numpy as np
import pytest

from dpoco import datasets
from dpoco.datasets import PublicScaling, Stream


def stream(rounds=4, dimension=2):
    return Stream(
        name="s",
        features=np.arange(rounds * dimension, dtype=float).reshape(rounds, dimension),
        labels=np.zeros(rounds),
        feature_names=[f"c{j}" for j in range(dimension)],
        task="regression",
    )


def test_arrays_are_copied_and_read_only():
    features, labels = np.ones((3, 2)), np.zeros(3)
    made = Stream("s", features, labels, ("a", "b"), "regression")
    features[0, 0] = 7.0
    assert made.features[0, 0] == 1.0
    for array in (made.features, made.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_take_keeps_the_first_rounds():
    full = stream(5)
    assert full.take(9) is full
    assert full.take(2).features.tolist() == full.features[:2].tolist()
    assert len(full.take(2).labels) == 2


def test_repr_and_summary_hold_no_records():
    made = Stream("s", np.full((3, 1), 123.25), np.full(3, 0.8125), ("a",), "regression")
    for text in (repr(made), json.dumps(made.summary())):
        assert "123.25" not in text
        assert "0.8125" not in text
    assert made.summary()["rounds"] == 3


def test_scaling_maps_the_range_and_saturates():
    scaled = PublicScaling([0.0, -10.0], [4.0, 10.0], intercept=True).apply(
        [[0.0, 0.0], [2.0, 5.0], [9.0, -99.0], [np.nan, np.inf]]
    )
    assert scaled[:3].tolist() == [[-1.0, 0.0, 1.0], [0.0, 0.5, 1.0], [1.0, -1.0, 1.0]]
    assert np.isnan(scaled[3, 0])
    assert scaled[3, 1:].tolist() == [1.0, 1.0]


def test_default_scaling_only_saturates():
    rows = np.array([[-0.3, 0.7], [1.5, -1.0]])
    assert PublicScaling(intercept=False).apply(rows).tolist() == [[-0.3, 0.7], [1.0, -1.0]]


def test_scaling_does_not_depend_on_other_records():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(50, 3)) * 5.0
    scaling = PublicScaling(-4.0, 9.0)
    assert np.array_equal(scaling.apply(rows)[:7], scaling.apply(rows[:7]))


def test_a_scaling_stays_what_was_declared():
    low = np.array([0.0, 0.0])
    scaling = PublicScaling(low, [1.0, 2.0], intercept=False)
    low[0] = -5.0
    assert scaling.apply([[0.0, 0.0]]).tolist() == [[-1.0, -1.0]]
    assert scaling.ranges(["a", "b"]) == {"a": [0.0, 1.0], "b": [0.0, 2.0]}
    with pytest.raises(ValueError, match="read-only"):
        scaling.low[0] = -5.0


def test_scaling_refuses_another_number_of_columns():
    with pytest.raises(ValueError, match="2 columns; got 3"):
        PublicScaling([0, 0], [1, 1]).apply(np.ones((4, 3)))
    with pytest.raises(ValueError, match="differ in shape"):
        PublicScaling([0, 0], [1, 1, 1])


def test_available_streams_load_by_name():
    assert "shuttle" in datasets.available()
    with pytest.raises(ValueError, match="shuttle"):
        datasets.load("submarine")


def test_rounds_are_dropped_from_the_beginning():
    stream = datasets.linear_regression_stream(5, 2, seed=0)
    assert np.array_equal(stream.drop(3).labels, stream.labels[3:])
    assert len(stream.drop(0)) == 5
    for wrong, message in ((-1, "at least 0"), (5, "needs rounds")):
        with pytest.raises(ValueError, match=message):
            stream.drop(wrong)
