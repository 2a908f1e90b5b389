"""The batched share against an independent implementation; protocol, states, edge cases."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import dpoco
from dpoco.experts import BatchShare
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

_spec = importlib.util.spec_from_file_location(
    "batch_share_reference", Path(__file__).with_name("batch_share_reference.py")
)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

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
    assert len(ref.inputs) == (T if index == 9 else T - 1) // learner.parameters.batch


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 8, 9])
def test_horizon_is_a_wall(horizon):
    learner = make(horizon=horizon, batch=4)
    learner.run(LOSSES[:horizon])
    state = learner._engine.state()
    for breach in (
        learner.decide,
        lambda: learner.run(LOSSES[:1]),
        lambda: learner.observe(LOSSES[0]),
        lambda: learner._engine.observe(horizon, LOSSES[0]),
    ):
        with pytest.raises(dpoco.HorizonExceeded):
            breach()
    assert learner._engine.state() == state
    # Noise for the batches that a round follows, and for no other.
    drawn = learner._engine.variates_drawn()
    assert drawn[3] == (horizon - 1) // 4 * (N + 1)


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


@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
@pytest.mark.parametrize("rounds", [1, T])
def test_a_single_expert_and_a_single_round(index, rounds):
    changes = {"share_rate": None} if index == 3 else {}
    if CONFIGURATIONS[index].get("horizon", 0) is None:
        changes["share_rate"] = 0.0
    else:
        changes["horizon"] = rounds
    learner = make(index, experts=1, **changes)
    trace = learner.run(LOSSES[:rounds, :1])
    assert np.all(trace.decisions == 0)
    assert np.array_equal(learner.weights, [1.0])
    assert not any(learner._engine.variates_drawn())
    if learner.parameters.private:
        assert learner.guarantee.epsilon == learner.guarantee.delta == 0.0
    if learner.parameters.regret_bound is not None:
        assert learner.parameters.regret_bound == 0.0


def test_bad_losses_are_clipped_silently_and_the_range_is_mapped():
    bad = LOSSES.copy()
    bad[3, 1], bad[4, 2], bad[5, 0], bad[6, 3] = np.nan, np.inf, -7.0, 8.0
    clean = bad.copy()
    clean[3, 1], clean[4, 2], clean[5, 0], clean[6, 3] = 0.0, 0.0, 0.0, 1.0
    one, other = make(), make()
    assert np.array_equal(one.run(bad).decisions, other.run(clean).decisions)
    assert (one.nonprivate_violations, other.nonprivate_violations) == (4, 0)
    scaled = make(loss_range=(-2.0, 6.0))
    trace = scaled.run(8.0 * LOSSES - 2.0)
    np.testing.assert_array_equal(trace.decisions, make().run(LOSSES).decisions)
    assert scaled.guarantee.regret_bound == pytest.approx(8.0 * make().guarantee.regret_bound)
    assert scaled.parameters.regret_bound == make().parameters.regret_bound
    strict = make(on_violation="raise")
    strict.decide()
    for row in bad[3:7]:
        with pytest.raises(ValueError, match="declared range"):
            strict.observe(row)
    assert strict.round == 0


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_common_shift_of_a_round_changes_nothing(index):
    # Up to the grid that releases are rounded to, for the noises that see the shift.
    half = 0.5 * LOSSES
    shift = np.random.default_rng(1).uniform(0.0, 0.5, (T, 1))
    one, other = make(index), make(index)
    grid = 2.0**-12 * one.parameters.noise_scale
    slack = 1e-12 + 2 * T * one.parameters.learning_rate * grid
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
    for name in ("batch", "learning_rate", "share_rate", "noise_scale"):
        assert getattr(planned.parameters, name) == getattr(same.parameters, name)
    assert planned.guarantee.epsilon == 2.0
    assert planned.guarantee.regret_bound is None
    bounds = dpoco.accounting.batch_share.regret(N, planned.parameters, 10_000)
    assert bounds.oblivious == same.parameters.regret_bound
    with pytest.raises(ValueError, match="nominal_horizon"):
        BatchShare(N, horizon=10, budget=PURE, nominal_horizon=10)
    planned.run(LOSSES)
    assert dpoco.experts.BatchShare._from_bytes(planned._to_bytes()).round == T


def test_arguments():
    for changes in (
        {"noise": "gumbel"},
        {"adversary": "stochastic"},
        {"calibration": "corrected"},
        {"batch": 0},
        {"switches": -1},
        {"learning_rate": 0.0},
        {"share_rate": 0.9},
        {"noise": "coordinate_rr", "batch": 2},
        {"calibration": "paper", "batch": 2},
        {"calibration": "paper", "budget": None, "batch": None},
        {"loss_range": (1.0, 1.0)},
        {"experts": 0},
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            make(**changes)
    for changes in ({"switches": 1.5}, {"switches": True}, {"experts": 2.0}, {"budget": 1.0}):
        with pytest.raises(TypeError):
            make(**changes)
    with pytest.raises(dpoco.CalibrationError, match="delta"):
        make(noise="gaussian")
    parameters = make().parameters
    again = BatchShare(N, horizon=T, budget=PURE, parameters=parameters, switches=2)
    assert again.parameters == parameters
    with pytest.raises(ValueError, match="contradicts"):
        BatchShare(N, horizon=T, budget=PURE, parameters=parameters, batch=5)
    weak = dataclasses.replace(parameters, noise_scale=0.1)
    with pytest.raises(dpoco.BudgetExceeded):
        BatchShare(N, horizon=T, budget=PURE, parameters=weak)
    published = make(6).parameters
    with pytest.raises(dpoco.BudgetExceeded):
        BatchShare(N, horizon=T, budget=PURE, parameters=published, calibration="paper")
    with pytest.raises(ValueError, match="experts"):
        BatchShare(4, horizon=T, budget=None, parameters=parameters)


def test_instruction_sets_give_the_same_bits():
    want = make(3).run(LOSSES).decisions
    try:
        for name in ("baseline", "avx2", "avx512"):
            try:
                dpoco.random.select_instruction_set(name)
            except ValueError:
                continue
            assert np.array_equal(make(3).run(LOSSES).decisions, want)
    finally:
        dpoco.random.select_instruction_set("auto")
