"""Feature maps: public names, public length, nothing learned."""

from __future__ import annotations

import numpy as np
import pytest

from dpoco.adapters._features import FeatureMap

RECORDED = [1.0, -1.0, 0.0, 0.0, 0.0, 0.0, -2.0, 0.0]


def test_listed_names_have_their_places():
    features = FeatureMap(("b", "a"))
    assert features.names == ("b", "a")
    assert features.row({"a": 1, "b": 2.5}).tolist() == [2.5, 1.0]
    assert features.row({"a": True, "unknown": 7.0}).tolist() == [0.0, 1.0]
    assert features.row({"a": None}).tolist() == [0.0, 0.0]
    assert features.row({}).tolist() == [0.0, 0.0]


def test_hashed_names_always_have_the_same_places():
    features = FeatureMap(8)
    assert features.names is None
    row = features.row({"age": 2.0, "city": "Paris", 3: 1.0, "none": None})
    # Recorded: another hash would make saved learners wrong.
    assert row.tolist() == RECORDED
    assert (features.row({"city": "Rome"}) != features.row({"city": "Paris"})).any()


def test_signs_and_places_are_spread_evenly():
    """Counts of 4096 names: binomial, 6.5 standard deviations, false alarms below 1e-8."""
    rows = np.stack([FeatureMap(16).row({f"name{i}": 1.0}) for i in range(4096)])
    assert (np.abs(rows).sum(axis=1) == 1.0).all()
    assert abs(rows.sum()) < 6.5 * 64.0
    assert np.abs(np.abs(rows).sum(axis=0) - 256.0).max() < 6.5 * np.sqrt(240.0)


def test_the_order_of_a_record_does_not_matter_to_the_last_bit():
    rng = np.random.default_rng(1)
    items = [(f"n{i}", float(x)) for i, x in enumerate(rng.normal(size=50))]
    first = FeatureMap(2).row(dict(items))
    for _ in range(5):
        rng.shuffle(items)
        assert FeatureMap(2).row(dict(items)).tobytes() == first.tobytes()


def test_nothing_grows_with_the_names_met():
    features = FeatureMap(4)
    before = dict(vars(features))
    for i in range(100):
        features.row({f"name{i}": 1.0})
    assert vars(features) == before


def test_tables_are_rows():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.0, 2.0], "z": [5.0, 6.0]})
    for features in (FeatureMap(("a", "b")), FeatureMap(4)):
        rows = features.rows(table)
        assert rows.tolist() == [features.row({"a": x, "z": x + 4.0}).tolist() for x in (1.0, 2.0)]
        assert features.rows(table[:0]).shape == (0, features.dimension)


@pytest.mark.parametrize("bad", ["ab", b"ab", ("a", "a"), (), ("a", 1), 0, -3, 2.0, None, {"a"}])
def test_bad_features(bad):
    with pytest.raises((ValueError, TypeError)):
        FeatureMap(bad)


@pytest.mark.parametrize("features", [("a", "b"), 4])
def test_messages_name_types_only(features):
    with pytest.raises(TypeError, match="real number; got list") as error:
        FeatureMap(features).row({"a": ["secret"]})
    assert "secret" not in str(error.value)
    if features == 4:
        with pytest.raises(TypeError, match="texts or ints") as error:
            FeatureMap(features).row({("secret",): 1.0})
        assert "secret" not in str(error.value)
    else:
        with pytest.raises(TypeError, match="real number; got str") as error:
            FeatureMap(features).row({"a": "secret"})
        assert "secret" not in str(error.value)
