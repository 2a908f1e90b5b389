"""Descriptions hold what their fields say, and nothing else; JSON restores them exactly."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import pytest

from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.base import Nothing, Open, Parts
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits, read, written


@dataclass(frozen=True)
class Inner(Description):
    kind = "inner"
    rate: float


@dataclass(frozen=True)
class Other(Description):
    kind = "other"
    word: str


@dataclass(frozen=True)
class Outer(Description):
    kind = "outer"
    count: int
    scale: float
    weights: tuple[float, ...]
    inside: Inner | Other
    switched: bool
    grid: float = limits(zero=True)
    bound: float = limits(infinite=True)
    cap: int | None = limits(zero=True)


GOOD = {
    "count": 3,
    "scale": 0.1,
    "grid": 0.0,
    "bound": math.inf,
    "cap": None,
    "weights": (0.5, 0.25),
    "inside": Inner(1e-300),
    "switched": True,
}


def test_json_restores_every_bit():
    value = Outer(**GOOD)
    text = json.dumps(written(value), allow_nan=False)
    assert read(json.loads(text), (Inner, Outer)) == value
    near = Neighbours("zero_out", "others", rounds=3, separation=7)
    assert read(json.loads(json.dumps(written(near))), (Neighbours,)) == near


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("count", 0), ("count", -1), ("scale", 0.0), ("scale", -0.1), ("scale", math.inf),
        ("scale", math.nan), ("grid", -1.0),
        ("bound", -math.inf), ("bound", 0.0), ("cap", -1), ("weights", (0.5, -0.1)),
        ("weights", (0.5, math.nan)),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(name, wrong):
    with pytest.raises(ValueError, match=name):
        Outer(**{**GOOD, name: wrong})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("count", True), ("count", 3.0), ("count", "3"), ("count", None), ("scale", 1),
        ("scale", "0.1"), ("cap", 2.0), ("weights", [0.5]), ("weights", 0.5), ("weights", (1,)),
        ("inside", Neighbours()), ("inside", {"kind": "inner"}), ("switched", 1),
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused(name, wrong):
    with pytest.raises(TypeError, match=name):
        Outer(**{**GOOD, name: wrong})


def changed(**edits):
    record = {**written(Outer(**GOOD)), **edits}
    return {name: value for name, value in record.items() if value is not ...}


@pytest.mark.parametrize(
    "record",
    [
        changed(kind="inner"),
        changed(kind=None),
        changed(kind=...),
        changed(scale=...),
        changed(more=1.0),
        changed(scale=None),
        changed(scale=[0.1]),
        changed(count=3.0),
        changed(scale="nan"),
        changed(bound="-inf"),
        changed(weights={"kind": "inner", "rate": 1.0}),
        changed(inside={"kind": "outer"}),
        changed(inside={"kind": "inner", "rate": 1.0, "word": ""}),
        changed(inside=None),
        [],
        "outer",
        None,
    ],
)
def test_records_that_are_something_else_are_refused(record):
    with pytest.raises((TypeError, ValueError)):
        read(record, (Inner, Outer))


@pytest.mark.parametrize(
    "wrong",
    [
        {"change": "add"},
        {"view": "nobody"},
        {"rounds": 0},
        {"separation": 0},
        {"view": "server", "change": "zero_out"},
    ],
)
def test_neighbours_of_no_known_kind_are_refused(wrong):
    with pytest.raises(ValueError, match=r"neighbours|server"):
        Neighbours(**wrong)


def test_parts_are_read_part_by_part():
    near, page = Neighbours(view="others"), "high_dimensional_bandit"
    parts = Parts("together", (Nothing("no round"), Parts("one_of", (Open("no noise"),), page)))
    assert read_mechanism(json.loads(json.dumps(written(parts)))) == parts
    assert parts.loss(near) is None
    assert Parts("together", (Nothing("a"), Nothing("b"))).loss(near).epsilon(0.0) == 0.0
    for how, lemma in (("one_of", ""), ("one_of", "page"), ("instances", page), ("together", page)):
        with pytest.raises(ValueError, match="lemma"):
            Parts(how, (Nothing("a"),), lemma)
    with pytest.raises(ValueError, match="view 'everyone'"):
        Parts("one_of", (Nothing("a"),), page).loss(Neighbours())
    with pytest.raises(ValueError, match="how"):
        Parts("both", (Nothing("a"),))
    with pytest.raises(ValueError, match="empty"):
        Parts("together", ())
    for wrong in ({"parts": "xy"}, {"more": 1}, {"parts": [{"kind": "none"}]}):
        with pytest.raises((TypeError, ValueError)):
            read_mechanism({**written(parts), **wrong})
