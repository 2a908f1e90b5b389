"""Feature maps: public names, public length, nothing learned."""

from __future__ import annotations

import enum
from datetime import date

import numpy as np
import pytest

from dpoco.adapters._features import FeatureMap, LabelMap

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


def test_half_a_pair_of_surrogates_raises_nothing():
    features = FeatureMap(16)
    rows = [features.row(record) for record in ({"a": "\ud800"}, {"a": "\udfff"}, {"\ud800": 1.0})]
    assert [np.abs(row).sum() for row in rows] == [1.0, 1.0, 1.0]


def test_two_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="two columns of one name"):
        FeatureMap(("a", "b")).rows(table)


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


@pytest.mark.parametrize("features", [("a", "b"), 4])
def test_messages_name_types_only(features):
    other = ({("secret",): 1.0}, "texts or ints")
    if features != 4:
        other = ({"a": "secret"}, "real number; got str")
    for record, match in (({"a": ["secret"]}, "real number; got list"), other):
        with pytest.raises(TypeError, match=match) as error:
            FeatureMap(features).row(record)
        assert "secret" not in str(error.value)


class Answer(enum.Enum):
    NO = 0
    YES = 1


NAN = float("nan")
# Classes, labels of their kind and what they become, labels of other kinds.
LABELS = {
    "ints": ((0, 1), [(0, 0), (1, 1), (-1, NAN), (2, NAN), (1.0, 1), (0.5, NAN), (True, 1),
                      (np.bool_(False), 0), (np.int8(1), 1), (np.uint64(0), 0),
                      (np.float32(1.0), 1)], ["1", b"1", 1j, (1,), Answer.YES]),
    "bools": ((False, True), [(True, 1), (np.bool_(False), 0), (1, 1), (0.0, 0), (7, NAN)],
              ["True", "yes"]),
    "signs": ((-1, 1), [(-1, 0), (1, 1), (0, NAN), (np.int64(-1), 0), (-1.0, 0)],
              [True, False, np.bool_(True), "1"]),
    "codes": ((1, 2), [(1, 0), (2, 1), (0, NAN)], [True, "2"]),
    "halves": ((0.5, 1.5), [(0.5, 0), (1.5, 1), (1, NAN)], [True, "0.5"]),
    "texts": (("no", "yes"), [("no", 0), (np.str_("yes"), 1), ("maybe", NAN), ("", NAN)],
              [0, 1.0, True, b"yes"]),
    "members": ((Answer.NO, Answer.YES), [(Answer.YES, 1)], [1, "YES", True]),
    "days": ((date(2024, 1, 1), date(2024, 1, 2)), [(date(2024, 1, 2), 1), (date(1999, 1, 1), NAN)],
             ["2024-01-01", 20240101]),
}  # fmt: skip


@pytest.mark.parametrize(("classes", "known", "other"), LABELS.values(), ids=LABELS)
def test_the_type_of_a_label_is_schema_and_its_value_is_private(classes, known, other):
    labels = LabelMap(classes)
    pandas = pytest.importorskip("pandas")
    missing = [(label, NAN) for label in (None, NAN, np.float32("nan"), pandas.NA, pandas.NaT)]
    for label, value in [*known, *missing]:
        np.testing.assert_equal(labels.value(label), float(value))
    given = [label for label, _ in [*known, *missing]]
    unknown = [np.isnan(value) for _, value in known] + [False] * len(missing)
    flags = labels.nonprivate_flags(given)
    assert flags["unknown_label"].tolist() == unknown
    assert flags["label_missing"].tolist() == [False] * len(known) + [True] * len(missing)
    for label in other:
        with pytest.raises(TypeError, match=r"^a label must be ") as error:
            labels.values([classes[0], label])
        assert str(error.value).endswith(f"got {type_of(label)}")


def type_of(label):
    names = {str: "a text", bool: "a bool", np.bool_: "a bool", int: "a number", float: "a number"}
    return names.get(type(label), f"of type {type(label).__name__}")
