"""The bundled streams: shapes, ranges, and what they are made of."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dpoco import datasets
from dpoco.datasets import BUNDLED, POLLSTERS, STOCKS


@pytest.fixture(params=BUNDLED)
def known(request):
    """What is known of a stream whose file is there."""
    try:
        _ = BUNDLED[request.param].file
    except ImportError:
        pytest.skip("this river does not bundle it")
    return BUNDLED[request.param]


def test_shapes_and_ranges_are_the_stated_ones(known):
    if known.kind == "experts":
        losses, facts = datasets.load_losses(known.name)
        assert losses.shape == (known.rounds, known.columns)
        assert len(facts["feature_names"]) == known.columns
        assert (losses.min() >= 0.0, losses.max() <= 1.0) == (True, True)
        return
    stream = datasets.load(known.name)
    assert stream.features.shape == (known.rounds, known.columns)
    assert np.abs(stream.features).max() <= 1.0
    assert (stream.features[:, -1] == 1.0).all()
    assert stream.feature_names[-1] == "constant"
    assert set(np.unique(stream.labels)) == {0.0, 1.0}
    assert stream.labels.sum() == {"shuttle": 3511, "phishing": 548}[known.name]
    assert (stream.task, bool(stream.licence)) == ("classification", True)


@pytest.mark.parametrize("name", ["shuttle", "phishing"])
def test_records_equal_what_river_iterates(name):
    river = pytest.importorskip("river.datasets")
    if not hasattr(river, name.capitalize()):
        pytest.skip("this river does not bundle it")
    stream = datasets.load(name)
    records = getattr(river, name.capitalize())()
    for row, (record, label) in zip(range(1250), records, strict=False):
        values = np.array([float(record[column]) for column in stream.feature_names[:-1]])
        if name == "shuttle":
            level = np.isin(np.arange(9), [0, 2, 6, 7, 8])
            scaled = np.clip(np.where(level, values - 64.0, values) / 64.0, -1.0, 1.0)
        else:
            scaled = 2.0 * values - 1.0
        np.testing.assert_allclose(stream.features[row, :-1], scaled, atol=1e-15)
        assert stream.labels[row] == label


def test_losses_are_what_the_first_day_says():
    losses = datasets.pollster_losses()
    # Gallup 43.843213, Ipsos 46.19925..., consensus 43.75505.
    first = [43.843213 - 43.75505, 46.19925042857143 - 43.75505]
    assert losses[0, :2] == pytest.approx(np.array(first) / 10.0)
    assert 0.1 < losses.mean() < 0.2
    assert POLLSTERS[:2] == ("gallup", "ipsos")
    try:
        losses = datasets.stock_losses()
    except ImportError:
        pytest.skip("this version of river does not bundle the stocks")
    # AAPL gained 1.042235 percent, XOM lost 0.372418.
    assert losses[0, STOCKS.index("AAPL")] == pytest.approx(0.5 - 1.042235 / 20.0)
    assert losses[0, STOCKS.index("XOM")] == pytest.approx(0.5 + 0.372418 / 20.0)
    assert 0.49 < losses.mean() < 0.5


def test_a_missing_or_old_river_is_named(monkeypatch):
    river = pytest.importorskip("river.datasets")
    monkeypatch.delattr(river, "Shuttle", raising=False)
    with pytest.raises(ImportError, match=r"0\.26"):
        datasets.load_shuttle()
    monkeypatch.setitem(sys.modules, "river", None)
    for load in (datasets.load_shuttle, datasets.load_phishing, datasets.stock_losses):
        with pytest.raises(ImportError, match=r"dpoco\[data\]"):
            load()
