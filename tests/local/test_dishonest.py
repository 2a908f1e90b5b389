"""One device that lies on a channel with additive noise: clamped to what honest ones can send."""

from __future__ import annotations

import math
import os
from fractions import Fraction

import numpy as np
import pytest

from dpoco.local import DistributionLearner, Hypotheses, LocalClient, Report
from dpoco.local._lattice import clamped
from dpoco.random import Source

FC = np.array([[0.30, 0.25, 0.20, 0.15, 0.07, 0.03], [0.05, 0.10, 0.15, 0.20, 0.25, 0.25],
               [0.02, 0.48, 0.02, 0.02, 0.44, 0.02], [1 / 6] * 6])  # fmt: skip
KINDS = [
    {"learner": "hedge", "channel": "vector"},
    {"learner": "hedge", "channel": "vector", "noise": "gaussian", "delta": 1e-6},
    {"learner": "hedge", "noise": "laplace"},
    {"learner": "paper_exp3"},
    {"learner": "paper_wma", "delta": 1e-6},
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
    from dpoco.local._paper_channel import channel_of
    from dpoco.local._vector_device import randomizer_of

    matrix = learner.hypotheses.matrix()
    if spec.channel == "vector":
        it = randomizer_of(spec, matrix)
        return it.table, it.scale
    horizon, nominal, _ = spec.parameters
    it = channel_of(matrix, int(horizon), nominal, spec.delta, "round",
                    spec.channel == "paper_wma")  # fmt: skip
    rows = it.table if spec.index is None else it.table[spec.index : spec.index + 1]
    return rows, it.scale


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
