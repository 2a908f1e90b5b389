"""Descriptions hold what their fields say, and nothing else; JSON restores them exactly."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

import pytest
import scipy

import dpoco
from dpoco import Budget, Guarantee, StateError
from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.base import Nothing, Open, Parts
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits, read, to_record


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
    text = json.dumps(to_record(value), allow_nan=False)
    assert read(json.loads(text), (Inner, Outer)) == value
    near = Neighbours("zero_out", "others", rounds=3, separation=7)
    assert read(json.loads(json.dumps(to_record(near))), (Neighbours,)) == near


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
    record = {**to_record(Outer(**GOOD)), **edits}
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


def test_parts_are_read_part_by_part():
    near, page = Neighbours(view="others"), "high_dimensional_bandit"
    parts = Parts("together", (Nothing("no round"), Parts("one_of", (Open("no noise"),), page)))
    assert read_mechanism(json.loads(json.dumps(to_record(parts)))) == parts
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
            read_mechanism({**to_record(parts), **wrong})


# -- mechanisms of other programs ------------------------------------------------------------------


def gaussian(**changes):
    given = {"sensitivity": 2.0, "noise_scale": 8.0, "delta": 1e-6, "horizon": 100, **changes}
    return Guarantee.gaussian(**given)


def exact(epsilon, mu):
    return scipy.special.ndtr(0.5 * mu - epsilon / mu) - math.exp(epsilon) * scipy.special.ndtr(
        -0.5 * mu - epsilon / mu
    )


@pytest.mark.parametrize(
    ("made", "mu"),
    [
        (gaussian(), 0.25),
        (gaussian(releases=9), 0.75),
        (gaussian(releases=9, sensitivity=0.01, noise_scale=0.04), 0.75),
        (Guarantee.composed(gaussian(), gaussian(releases=4)), 0.25 * math.sqrt(5.0)),
        (gaussian().for_person(3), 0.75),
    ],
)
def test_declared_gaussian_noise_has_the_exact_curve(made, mu):
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        assert made.delta_at(epsilon) == pytest.approx(exact(epsilon, mu), rel=1e-9)
    assert exact(made.epsilon, mu) <= made.delta <= 1e-6
    assert exact(made.epsilon * 0.999, mu) > made.delta


def test_declared_parts_add_up_and_are_a_promise():
    pure = Guarantee.pure_epsilon(0.5, horizon=10, releases=3)
    assert (pure.epsilon, pure.delta) == (1.5, 0.0)
    assert Guarantee.composed(pure, pure).epsilon == 3.0
    both = Guarantee.composed(gaussian(), pure)
    assert both.horizon == 100
    assert both.epsilon == pytest.approx(gaussian().epsilon + 1.5)
    own = dpoco.experts.PrefixHedge(4, horizon=100, budget=Budget(1.0, 1e-6)).guarantee
    assert own.certified
    assert Guarantee.composed(own, own).certified
    for made in (gaussian(), pure, both, Guarantee.composed(own, pure)):
        assert not made.certified
        assert sum("PROMISED" in text for text in made.conditions) == 2


PURE = Guarantee.pure_epsilon(0.5, horizon=10)


@pytest.mark.parametrize("made", [gaussian(), PURE, Guarantee.composed(gaussian(), PURE)])
def test_records_of_declared_noise_are_held_to_it(made):
    record = made.to_dict()
    assert Guarantee.from_dict(record) == made
    made.verify()
    text = json.dumps(record)
    wrong = [text.replace('"certified": false', '"certified": true'),
             text.replace('"change": "replace"', '"change": "zero_out"', 1),
             text.replace('"view": "everyone"', '"view": "others"'),
             re.sub(r'"scale": ([0-9.]+)', r'"scale": 1\1', text)]  # fmt: skip
    for tampered in wrong:
        assert tampered != text
        with pytest.raises(StateError):
            Guarantee.from_json(tampered)
