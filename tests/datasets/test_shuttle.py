from __future__ import annotations

import sys

import numpy as np
import pytest

from dpoco import datasets


@pytest.fixture(scope="module")
def shuttle():
    if sys.version_info < (3, 11):
        pytest.skip("the river that bundles the stream needs Python 3.11")
    return datasets.load("shuttle")


def test_shape_and_label_rate(shuttle):
    assert shuttle.features.shape == (49_097, 10)
    assert set(np.unique(shuttle.labels)) == {0.0, 1.0}
    assert shuttle.labels.sum() == 3511
    assert shuttle.task == "classification"
    assert shuttle.licence


def test_equals_what_river_iterates(shuttle):
    river = pytest.importorskip("river.datasets")
    raw = datasets.load_shuttle(scaled=False)
    for row, (record, label) in zip(range(500), river.Shuttle(), strict=False):
        assert raw.features[row].tolist() == [float(record[f"f{j}"]) for j in range(1, 10)]
        assert raw.labels[row] == shuttle.labels[row] == label


def test_scaling_is_the_stated_public_one(shuttle):
    raw = datasets.load_shuttle(scaled=False).features
    signed = [1, 3, 4, 5]
    expected = (raw - 64.0) / 64.0
    expected[:, signed] = raw[:, signed] / 64.0
    np.testing.assert_allclose(shuttle.features[:, :9], np.clip(expected, -1.0, 1.0), atol=1e-15)
    assert (shuttle.features[:, 9] == 1.0).all()


def test_missing_river_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(ImportError, match=r"dpoco\[data\]"):
        datasets.load_shuttle()


def test_old_river_names_the_version(monkeypatch):
    river = pytest.importorskip("river.datasets")
    monkeypatch.delattr(river, "Shuttle", raising=False)
    with pytest.raises(ImportError, match=r"0\.26"):
        datasets.load_shuttle()
