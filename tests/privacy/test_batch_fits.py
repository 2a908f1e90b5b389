"""Descriptions of batch fits: what they certify, field by field, and what they refuse."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import pytest

from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.batch_fits import (
    GaussianPhases,
    IteratePhase,
    SampledGaussian,
    SummedPhase,
)
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import written

NEAR = Neighbours()
STEPS = SampledGaussian(
    records=50, steps=300, dimension=4, bound=0.7, scale=3.0, grid=2.0**-8
)  # fmt: skip
SUMMED = SummedPhase(records=20, bound=0.7, scale=0.3, grid=2.0**-8, releases=3, copies=2)
WALK = IteratePhase(
    records=20, lipschitz=0.7, smoothness=1.5, step=0.1, radius=2.0, projection="clip", scale=0.6
)
PHASES = GaussianPhases(dimension=4, phases=(SUMMED, replace(SUMMED, records=10, scale=0.7)))


def epsilon(mechanism) -> float:
    loss = mechanism.loss(NEAR)
    assert loss is not None
    return loss.epsilon(1e-5)


def walk(**edits):
    return GaussianPhases(4, (replace(WALK, **edits),))


@pytest.mark.parametrize("mechanism", [STEPS, PHASES, walk(), GaussianPhases(4, (SUMMED, WALK))])
def test_json_round_trip(mechanism):
    assert read_mechanism(json.loads(json.dumps(written(mechanism)))) == mechanism


def test_every_field_of_sampled_steps_moves_epsilon():
    more = {"steps": 400, "dimension": 400, "bound": 0.8, "grid": 2.0**-5}
    less = {"records": 60, "scale": 3.5}
    assert {*more, *less} == {each.name for each in fields(STEPS)}
    for name, value in more.items():
        assert epsilon(replace(STEPS, **{name: value})) > epsilon(STEPS), name
    for name, value in less.items():
        assert epsilon(replace(STEPS, **{name: value})) < epsilon(STEPS), name


def test_every_field_of_a_sum_moves_epsilon():
    phase = GaussianPhases(4, (SUMMED,))
    more = {"bound": 0.8, "grid": 2.0**-5, "releases": 4}
    less = {"records": 30, "scale": 0.4}
    # More phases like it have records of their own: only their tails count.
    assert {*more, *less, "copies"} == {each.name for each in fields(SUMMED)}
    for name, value in more.items():
        changed = GaussianPhases(4, (replace(SUMMED, **{name: value}),))
        assert epsilon(changed) > epsilon(phase), name
    for name, value in less.items():
        changed = GaussianPhases(4, (replace(SUMMED, **{name: value}),))
        assert epsilon(changed) < epsilon(phase), name
    many = GaussianPhases(4, (replace(SUMMED, copies=1000),))
    assert many.loss(NEAR).mass == pytest.approx(500 * phase.loss(NEAR).mass)
    assert epsilon(replace(phase, dimension=4000)) > epsilon(phase)


def test_every_field_of_a_walk_moves_epsilon():
    more = {"lipschitz": 0.8, "step": 0.2}
    # Rounding: a relative 1e-13 here.
    rounding = {"records": 2000, "radius": 1e9, "projection": "search"}
    # Smoothness only says for which steps anything is known.
    assert {*more, *rounding, "scale", "smoothness"} == {each.name for each in fields(WALK)}
    for name, value in more.items():
        assert epsilon(walk(**{name: value})) > epsilon(walk()) * 1.01, name
    for name, value in rounding.items():
        assert replace(WALK, **{name: value}).movement(4) > WALK.movement(4), name
    assert epsilon(walk(scale=0.8)) < epsilon(walk())


def test_the_worst_phase_counts():
    alone = [epsilon(GaussianPhases(4, (phase,))) for phase in PHASES.phases]
    assert epsilon(PHASES) == pytest.approx(max(alone), rel=1e-9)
    assert alone[0] != pytest.approx(alone[1], rel=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: replace(STEPS, records=0),
        lambda: replace(STEPS, steps=10**14),
        lambda: replace(STEPS, bound=math.inf),
        lambda: replace(STEPS, grid=0.3),
        lambda: replace(SUMMED, grid=0.3),
        lambda: replace(SUMMED, copies=0),
        lambda: replace(SUMMED, scale=math.inf),
        lambda: walk(step=1.34).loss(NEAR),
        lambda: replace(WALK, projection="exact"),
        lambda: GaussianPhases(4, ()),
        lambda: STEPS.loss(Neighbours("zero_out")),
        lambda: PHASES.loss(Neighbours("zero_out", rounds=2)),
    ],
)
def test_what_no_proof_is_about_is_refused(wrong):
    with pytest.raises(ValueError, match=r"cannot be|must|grid|expand|proved|empty"):
        wrong()


def test_nothing_is_promised_without_noise():
    assert replace(STEPS, scale=0.0).loss(NEAR) is None
    assert walk(scale=0.0).loss(NEAR) is None
