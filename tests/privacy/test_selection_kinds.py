"""Selections, threshold tests, tracked draws: what descriptions certify, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest

from dpoco.privacy.losses.combined import together
from dpoco.privacy.losses.loss import Pure
from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.base import Nothing, Open, Parts
from dpoco.privacy.mechanisms.batch_release import BatchRelease
from dpoco.privacy.mechanisms.selections import (
    LossSums,
    PromisedScores,
    Selections,
    ThresholdTests,
    VertexScores,
)
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import to_record

NEAR = Neighbours()
VERTICES = VertexScores(
    slope=0.5, leaf=2.0, diameter_l1=2.0, diameter_l2=1.5, diameter_max=1.0, product=True, batch=3,
    leaf_l2=2.5, offset=0,
)  # fmt: skip
SUMS = Selections("gumbel", LossSums(1.0), 4.0, 3, 0.0)
CHOSEN = Selections("laplace", VERTICES, 4.0, 20, 0.5)
TESTS = ThresholdTests("exponential", 4.0, 5.0, 1.0, 1.5, 2)
DRAWS = TrackerDraws(5, "share", 0.1, 0.2, 4, 100, 0.02, 9)
SUM = BatchRelease(5, "gaussian", 8.0, 16, 2.0**-20)
ONCE = Selections("exponential", PromisedScores(1.5, True), 4.0, 1, 0.0)
DETECTOR = Parts("instances", (Parts("together", (ONCE, TESTS)),), "shift_detector")
KINDS = [SUMS, CHOSEN, ONCE, TESTS, DRAWS, SUM, DETECTOR]
# Descriptions in which together every field counts, and those that never do, with the reason.
FIELDS = [
    ([SUMS], {"exponent"}),  # only 0 is proved where all scores are sums of everything
    ([CHOSEN, replace(CHOSEN, scores=replace(VERTICES, leaf_l2=math.inf))], set()),
    ([replace(ONCE, rounds=3)], {"exponent"}),
    ([TESTS], {"law"}),  # the proof is about both
    ([DRAWS, replace(DRAWS, cap=None)], set()),
    ([SUM, replace(SUM, law="laplace", grid=0.0)], {"batch"}),  # a round is in one sum, of any
]


def found(mechanism, **options):
    return mechanism.loss(Neighbours(**options)).epsilon(1e-6)


def known(mechanism):
    loss = mechanism.loss(NEAR)
    return loss.epsilon(1e-6), loss.epsilon(0.0), loss.rho


def changed(value, name):
    """Return `value` with another number or word in the field `name`."""
    now = getattr(value, name)
    gumbel = isinstance(value, Selections) and now != "gumbel"
    words = {"law": "gumbel" if gumbel else "laplace", "prior": "at_most", "offset": 1}
    if isinstance(value, BatchRelease):
        words = {"law": "knorm" if now == "laplace" else "laplace", "grid": 0.0}
    if name in words:
        rest = {"share_rate": None} if name == "prior" else {}
        return replace(value, **{name: words[name]}, **rest)
    if now is None or now in (0.0, math.inf):
        return value
    if isinstance(now, bool):
        return replace(value, **{name: not now})
    return replace(value, **{name: 2 * now if isinstance(now, int) else 1.05 * now})


def counting(value):
    """Yield the fields of a description, and of its scores, that move what is known."""
    for each in fields(value):
        if each.name == "scores":
            scores = value.scores
            for inner in fields(scores):
                if known(replace(value, scores=changed(scores, inner.name))) != known(value):
                    yield f"scores.{inner.name}"
        elif known(changed(value, each.name)) != known(value):
            yield each.name


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (SUMS, {"scale": 0.0}),
        (CHOSEN, {"scale": 0.0}),
        (TESTS, {"threshold_scale": 0.0}),
        (TESTS, {"query_scale": 0.0}),
        (DRAWS, {"forced": 0.0}),
        (DRAWS, {"forced": 0.99e-9}),
        (SUM, {"law": "knorm", "scale": 0.0, "grid": 0.0}),
    ],
)
def test_without_noise_nothing_is_promised(value, change):
    assert value.loss(NEAR) is not None
    quiet = replace(value, **change)
    assert quiet.loss(NEAR) is None
    assert read_mechanism(to_record(quiet)) == quiet
    assert Parts("together", (value, quiet)).loss(NEAR) is None


@pytest.mark.parametrize(("values", "free"), FIELDS)
def test_every_field_counts(values, free):
    scores = getattr(values[0], "scores", None)
    names = {each.name for each in fields(values[0])} - {"scores"}
    if scores is not None:
        names |= {f"scores.{each.name}" for each in fields(scores)}
    assert {name for value in values for name in counting(value)} == names - free


def test_selections_without_noise_promise_nothing_and_those_of_a_point_tell_nothing():
    for value in (SUMS, CHOSEN):
        assert replace(value, scale=0.0).loss(NEAR) is None
    sizes = dict.fromkeys(("diameter_l1", "diameter_l2", "diameter_max"), 0.0)
    point = replace(CHOSEN, scores=replace(VERTICES, **sizes))
    for scale in (0.0, 2.0):
        assert replace(point, scale=scale).loss(NEAR) == Pure(0.0)


def test_numbers_by_hand():
    assert SUMS.loss(NEAR).pure == 3 * 2.0 / 4.0
    assert replace(SUMS, scores=LossSums(3.0)).loss(NEAR).pure == 3 * 6.0 / 4.0
    tests = replace(TESTS, sensitivity=3.0, spread=6.0, alarms=1)
    assert tests.loss(NEAR).pure == math.nextafter(3 / 4 + 6 / 5, 2.0)  # the double is below
    one_way = Selections("laplace", PromisedScores(1.5, True), 4.0, 1, 0.0)
    assert one_way.loss(NEAR) == Pure(1.5 / 4.0)
    assert replace(one_way, scores=PromisedScores(1.5, False)).loss(NEAR) == Pure(3.0 / 4.0)
    assert TESTS.loss(NEAR).pure == math.nextafter(1.0 / 4.0 + 2 * 1.5 / 5.0, 1.0)
    # x has max-norm 2 and l2 norm 2.5, halved: 2/3 min(2 * 1, 1.5 * 1.25), and in zCDP
    # 2/3 min(1.5 * 1, 1 * 1.25).
    assert VERTICES.reach(2.0) == pytest.approx((2.0 / 3.0 * 1.875, 2.0 / 3.0 * 1.25))
    assert replace(VERTICES, product=False).reach(1.0) == pytest.approx((0.625, 0.625))
    assert found(CHOSEN, change="zero_out") < 0.6 * found(CHOSEN)
    assert DRAWS.loss(NEAR).resample_probability == pytest.approx(1 - 0.8 * math.exp(-0.4))


def test_released_sums_by_hand():
    found = SUM.loss(NEAR)
    assert found.ideal.mu == math.sqrt(5 - 1 / 5) * (1.0 + 1e-9) / 8.0
    assert found.mass == 5 * 2.0**-100
    assert replace(SUM, grid=0.0).loss(NEAR).mass == 5 * 2.0**-64
    bare = replace(SUM, grid=0.0)
    assert replace(bare, law="laplace").loss(NEAR) == Pure(5 / 8.0)
    assert replace(bare, law="knorm").loss(NEAR) == Pure(1 / 8.0)


def test_many_pure_selections_are_concentrated():
    many = Selections("laplace", LossSums(1.0), 40.0, 400, 0.0).loss(NEAR)
    assert many.pure == 20.0
    assert many.rho == pytest.approx(0.5 * 400 * 0.05**2)
    assert many.epsilon(1e-6) < 0.4 * many.pure


def test_more_rounds_of_one_person_cost_more():
    assert found(TESTS, rounds=3) == pytest.approx(3 * found(TESTS), rel=1e-5)
    assert found(SUMS, rounds=3) > 2.0 * found(SUMS)
    assert found(DRAWS, rounds=2) > found(DRAWS)
    parts = Parts("instances", (TESTS,), "shift_detector")
    assert parts.loss(Neighbours(rounds=3)).pure >= 3 * TESTS.loss(NEAR).pure


@pytest.mark.parametrize("value", KINDS)
def test_who_collects_the_data_sees_them(value):
    with pytest.raises(ValueError, match="server"):
        value.loss(Neighbours(view="server"))


def test_instances_are_those_of_fresh_or_pure_mechanisms():
    """Which instance a record meets is known before it comes, from releases: no other is safe."""
    assert DETECTOR.loss(NEAR) == Pure(1.5 / 4.0 + (1.0 / 4.0 + 2 * 1.5 / 5.0))
    assert Parts("instances", (SUMS,), "epoch_selector").loss(NEAR) == SUMS.loss(NEAR)
    assert Parts("instances", (Nothing("none"),), "epoch_selector").loss(NEAR) == Pure(0.0)
    assert Parts("instances", (Open("bare"),), "epoch_selector").loss(NEAR) is None
    for part in (DRAWS, Parts("together", (SUMS, TESTS))):
        with pytest.raises(ValueError, match="fresh"):
            Parts("instances", (part,), "epoch_selector").loss(NEAR)
    for wrong in (("instances", (SUMS, TESTS), "epoch_selector"), ("instances", (SUMS,), "")):
        with pytest.raises(ValueError, match=r"one part|lemma"):
            Parts(*wrong)


def test_pure_parts_add_up_without_slack():
    assert together(Pure(0.1), Pure(0.2)) == Pure(math.fsum([0.1, 0.2]))


def test_a_part_is_found():
    whole = Parts("instances", (Parts("together", (SUMS, TESTS)),), "shift_detector")
    assert whole.part(ThresholdTests) is TESTS
    assert whole.part(Selections) is SUMS
    assert whole.part(TrackerDraws) is None
    assert DRAWS.part(TrackerDraws) is DRAWS
