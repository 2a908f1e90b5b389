"""The phishing stream."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dpoco import datasets


def test_shape_labels_and_range():
    pytest.importorskip("river")
    stream = datasets.load("phishing")
    assert stream.features.shape == (1250, 10)
    assert set(np.unique(stream.features)) == {-1.0, 0.0, 1.0}
    assert stream.labels.mean() == pytest.approx(0.438, abs=5e-4)
    assert stream.feature_names[-1] == "constant"
    assert stream.licence


def test_equals_what_river_iterates():
    river = pytest.importorskip("river.datasets")
    stream = datasets.load_phishing()
    for row, (record, label) in zip(range(1250), river.Phishing(), strict=True):
        values = [2.0 * float(record[name]) - 1.0 for name in stream.feature_names[:-1]]
        assert stream.features[row, :-1].tolist() == values
        assert stream.labels[row] == label


def test_missing_river_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(ImportError, match=r"dpoco\[data\]"):
        datasets.load_phishing()
