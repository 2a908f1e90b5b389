"""One device that lies on a channel with additive noise: clamped to what honest ones can send."""

from __future__ import annotations

import math
import os
from fractions import Fraction

import numpy as np
import pytest
from local_cases import FC

from dpoco.local import DistributionLearner, Hypotheses, LocalClient, Report
from dpoco.local._vector import clamped, vector_randomizer
from dpoco.random import Source

KINDS = [
    {"learner": "hedge", "channel": "vector"},
    {"learner": "hedge", "channel": "gaussian_vector", "delta": 1e-6},
    {"learner": "hedge", "channel": "laplace_coordinate"},
]


def built(kind):
    return DistributionLearner(Hypotheses(FC), epsilon=1.0, horizon=1000, public_seed=1, **kind)


def sent(learner, spec, values):
    learner.update(spec, Report(spec.round, spec.digest, os.urandom(8), spec.channel, values))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_a_liar_is_clamped(kind, value):
    learner, clamping = built(kind), built(kind)
    spec, same = learner.round_spec(), clamping.round_spec()
    rest = (0,) * (spec.width - 1)
    sent(learner, spec, (value, *rest))
    lies = learner._rule._engine.losses()
    # The same as the largest report that is taken as it is.
    table, scale = _design(clamping, same)
    reach = math.ceil(64 * scale)
    own = table[0] if spec.index is None else table[-1]
    edge = max(int(own.max()), 0) + reach if value > 0 else min(int(own.min()), 0) - reach
    sent(clamping, same, (edge, *rest))
    np.testing.assert_array_equal(lies, clamping._rule._engine.losses())
    assert np.abs(lies).max() > 0.0
    inside = built(kind)
    sent(inside, inside.round_spec(), (edge - (1 if value > 0 else -1), *rest))
    assert (lies != inside._rule._engine.losses()).any()


def _design(learner, spec):
    it = vector_randomizer(spec, learner.hypotheses.matrix())
    return it.table, it.scale


@pytest.mark.parametrize("kind", KINDS)
def test_honest_reports_are_taken_as_they_are(kind):
    learner = built(kind)
    spec = learner.round_spec()
    table, scale = _design(learner, spec)
    for i in range(300):
        device = LocalClient(learner.hypotheses, 1.0, delta_max=1e-6, simulation_seed=i)
        values = np.array([device.respond(spec, None, i % 7).values])
        np.testing.assert_array_equal(clamped(values, table, scale), values)


def test_the_reach_is_that_of_64_scales():
    table = np.array([[3, 5], [-7, -2]])
    values = np.array([[10**9, 10**9], [-(10**9), -(10**9)], [4, -1]])
    assert clamped(values, table, Fraction(3, 2)).tolist() == [[101, 96], [-96, -103], [4, -1]]
    assert clamped(values, table, Fraction(0)).tolist() == [[5, 0], [0, -7], [4, -1]]


def test_a_liar_moves_little_after_honest_reports():
    learner = built(KINDS[0])
    spec = learner.round_spec()
    device = LocalClient(learner.hypotheses, 10**4, 3000, simulation_seed=3)
    rng = Source.seeded(2)
    for word in rng.words(3000).tolist():
        sent(learner, spec, device.respond(spec, None, int(word % 6)).values)
    before = learner.weights
    sent(learner, spec, (2**63 - 1, *((0,) * (spec.width - 1))))
    assert np.abs(learner.weights - before).max() < 0.25
