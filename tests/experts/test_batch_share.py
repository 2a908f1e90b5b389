"""The batched share against an independent implementation; sums, states, edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.descriptions import unchecked

import dpoco
from dpoco import _core
from dpoco.accounting.batch_share import find_noise
from dpoco.experts import BatchShare
from dpoco.privacy.mechanisms.batch_release import BatchRelease, movement
from dpoco.random import Source

from . import batch_share_reference as reference

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


N, T = reference.N, reference.T
PURE, MIXED = reference.PURE, reference.MIXED
CONFIGURATIONS, LOSSES, make = reference.CONFIGURATIONS, reference.LOSSES, reference.make


@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
def test_decisions_and_weights_are_those_of_the_definition(index):
    learner = make(index)
    ref = reference.Reference(learner, Source.seeded(1)._claim())
    for t in range(T):
        assert learner.decide() == ref.decision
        np.testing.assert_allclose(learner.weights, ref.weights, rtol=1e-6, atol=1e-13)
        assert learner.weights.sum() == pytest.approx(1.0, abs=1e-12)
        learner.observe(LOSSES[t])
        ref.step(LOSSES[t])
        if ref.inputs:
            np.testing.assert_allclose(
                learner._engine.nonprivate_input(), ref.inputs[-1], rtol=1e-12, atol=1e-12
            )
    assert len(ref.inputs) == (T if index == 9 else T - 1) // learner.plan.tuning.batch


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 8, 9])
def test_noise_is_drawn_for_the_batches_that_a_round_follows(horizon):
    learner = make(horizon=horizon, batch=4)
    learner.run(LOSSES[:horizon])
    assert learner._engine.variates_drawn()[3] == (horizon - 1) // 4 * (N + 1)


def test_arguments_that_exclude_each_other():
    with pytest.raises(ValueError, match="share_rate"):
        make(share_rate=0.9)
    with pytest.raises(dpoco.CalibrationError, match="delta"):
        make(noise="gaussian")
    with pytest.raises(dpoco.BudgetExceeded):
        BatchShare(N, horizon=T, budget=PURE, plan=make(5).plan)


def test_losses_that_nobody_will_use_are_not_kept():
    one, other = make(batch=4), make(batch=4)
    one.run(np.zeros((40, N)))
    other.run(np.zeros((40, N)))
    assert one.round // 4 == (T - 1) // 4
    one.run(LOSSES[:1])
    other.run(1.0 - LOSSES[:1])
    assert one._engine.state() == other._engine.state()
    longer = make(batch=50)  # the horizon ends before the batch
    assert np.all(longer.weights == 1 / N)
    longer.run(LOSSES)
    assert np.array_equal(longer.weights, make(batch=50).weights)
    assert longer.guarantee.epsilon == 0.0


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_common_shift_of_a_round_changes_nothing(index):
    # Up to the grid that releases are rounded to, for the noises that see the shift.
    half = 0.5 * LOSSES
    shift = np.random.default_rng(1).uniform(0.0, 0.5, (T, 1))
    one, other = make(index), make(index)
    grid = 2.0**-12 * find_noise(one.plan).scale
    slack = 1e-12 + 2 * T * one.plan.tuning.learning_rate * grid
    for t in range(T):
        np.testing.assert_allclose(one.weights, other.weights, rtol=slack)
        for learner, row in ((one, half[t]), (other, half[t] + shift[t])):
            learner.decide()
            learner.observe(row)


def test_endless_streams():
    options = {"horizon": None, "budget": PURE}
    for missing in ({}, {"batch": 3}, {"batch": 3, "learning_rate": 0.1, "switches": 2}):
        with pytest.raises(ValueError, match="nominal_horizon"):
            BatchShare(N, **options, **missing)
    planned = BatchShare(N, **options, switches=2, nominal_horizon=10_000)
    same = BatchShare(N, horizon=10_000, budget=PURE, switches=2)
    assert planned.horizon == 10**12
    for name in ("batch", "learning_rate", "share_rate"):
        assert getattr(planned.plan.tuning, name) == getattr(same.plan.tuning, name)
    assert planned.plan.mechanism == same.plan.mechanism
    assert planned.guarantee.epsilon == 2.0
    assert planned.guarantee.regret_bound is None
    bounds = dpoco.accounting.batch_share.regret(planned.plan, 10_000)
    assert bounds.oblivious == same.plan.forecast.regret_bound
    with pytest.raises(ValueError, match="nominal_horizon"):
        BatchShare(N, horizon=10, budget=PURE, nominal_horizon=10)
    planned.run(LOSSES)
    assert dpoco.experts.BatchShare._from_bytes(planned._to_bytes()).round == T


def test_centring_is_what_keeps_an_odd_number_of_experts_in_the_ball():
    n = 3
    options = {"horizon": 9, "budget": dpoco.Budget(1.0, 1e-6), "batch": 4, "learning_rate": 0.1}
    inputs = {}
    for noise in ("gaussian", "knorm"):
        for world in (0.0, 1.0):
            learner = BatchShare(
                n, noise=noise, numerics="float", source=Source.seeded(0), **options
            )
            rows = np.full((4, n), 0.5)
            rows[2] = [world, 1 - world, 1 - world]
            learner.run(rows)
            inputs[noise, world] = learner._engine.nonprivate_input()
    moved = {k: np.linalg.norm(inputs[k, 0.0] - inputs[k, 1.0]) for k in ("gaussian", "knorm")}
    declared = movement("gaussian", 3)
    assert 0.999999998 * declared < moved["gaussian"] <= declared
    assert moved["knorm"] == pytest.approx(math.sqrt(3))
    assert inputs["gaussian", 0.0].sum() == pytest.approx(0.0, abs=1e-12)


def test_sums_of_long_batches_do_not_drift_apart():
    # In plain double precision equal losses round to one unit below a power of two and to another
    # above it: neighbours that stand on either side would drift apart, without end.
    half = 2**17
    learners = []
    for first in (0.0, 1.0):
        learner = BatchShare(
            2, horizon=None, budget=dpoco.Budget(1.0, 0.0), batch=2**22, learning_rate=1e-6,
            share_rate=0.1, source=Source.seeded(0),
        )  # fmt: skip
        learner.run(np.array([[first, 0.0]]))
        learner.run(np.ones((half - 1, 2)))
        tiny = 0.6 * 2.0 ** (17 - 53) * 2.0  # 1.2 units below 2^17, 0.6 above
        learner.run(np.full((2**19, 2), tiny))
        learners.append(learner)
    states = [learner._engine.state() for learner in learners]
    sums = [np.frombuffer(state, dtype="<f8")[-5:-3] for state in states]
    assert sums[1][0] - sums[0][0] == 1.0
    assert sums[0][1] == sums[1][1]


@pytest.mark.parametrize(("exponent", "fine"), [(0, True), (-48, True), (-49, False), (1, False)])
def test_a_grid_holds_the_sum_of_a_batch(exponent, fine):
    plain = BatchRelease(experts=4, law="laplace", scale=1.0, batch=7, grid=0.0)
    scale = 1e-6 if exponent < 0 else 99.0
    description = unchecked(plain, scale=scale, grid=2.0**exponent)
    sizes = {"experts": 4, "rounds": 50, "low": 0.0, "high": 1.0}
    claim = {"key": bytes(32), "stream": 1}
    if fine:
        assert _core.BatchShare(description, sizes, 7, 0.1, 0.0, 0.0, claim).round == 0
    else:
        with pytest.raises(ValueError, match="power of two up to 1"):
            _core.BatchShare(description, sizes, 7, 0.1, 0.0, 0.0, claim)
