"""LinUCB and its evaluation at the edges: absurd states, small deltas, single events."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

import dpoco
from dpoco.accounting import linucb as accountant
from dpoco.bandits import LinUCB
from dpoco.evaluation import off_policy_value
from dpoco.evaluation._offline import LoggedBandit
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)


@pytest.mark.parametrize("value", [-1.7e308, 1.7e308, 1e250])
def test_absurd_statistics_are_refused_not_factored_forever(value):
    learner = LinUCB(
        2,
        2,
        horizon=20,
        budget=BUDGET,
        batch=4,
        source=Source.seeded(1),
        context_bound=1.0,
        reward_bound=1.0,
    )
    generator = np.random.default_rng(0)
    for _ in range(6):
        learner.decide(generator.normal(size=2))
        learner.observe(0.5)
    engine = learner._engine
    state = engine.state()
    entries = 2 * (3 + 2)
    found = 0
    for at in range(0, len(state) - 8 * (entries + 1), 8):
        if struct.unpack_from("<Q", state, at)[0] == entries:  # an array of statistics
            found += 1
            damaged = bytearray(state)
            struct.pack_into("<d", damaged, at + 8, value)
            fresh = learner.clone()._engine
            with pytest.raises(dpoco.StateError):
                fresh.restore(bytes(damaged))
            if found == 3:  # batch, what rounding lost of it, released
                break
    assert found == 3


@pytest.mark.parametrize(
    ("arms", "dimension", "horizon", "delta"), [(100, 200, 10**6, 1e-7), (2, 3, 10**12, 1e-6)]
)
def test_a_small_delta_takes_longer_batches(arms, dimension, horizon, delta):
    budget = dpoco.Budget(1.0, delta)
    p = accountant.calibrate(arms, dimension, horizon=horizon, budget=budget, numerics="float")
    assert p.mechanism.batch > 1
    accountant.guarantee(arms, dimension, p, budget=budget).require(budget)
    with pytest.raises(dpoco.CalibrationError):
        accountant.calibrate(2, 3, horizon=100, budget=dpoco.Budget(1.0, 1e-19), numerics="float")


def test_all_conditions_of_the_bound_are_printed():
    p = accountant.calibrate(2, 1, horizon=1000, budget=None, reward_noise=1e-6, exploration=1.0)
    assert "1e-06-subgaussian" in str(accountant.guarantee(2, 1, p))


def test_weights_beyond_double_precision_are_refused():
    with pytest.raises(ValueError, match="weight"):
        accountant.calibrate(
            2, 2, horizon=100, budget=BUDGET, context_bound=1e-30, reward_bound=1e30,
            reward_weight=1e100,
        )  # fmt: skip


def logged(n, propensities=0.5):
    actions = np.zeros(n, dtype=np.int64)
    actions[0] = 1
    known = np.full(n, propensities)
    return LoggedBandit(np.zeros((n, 1)), actions, np.full(n, 3.0), known, 2, ("x",))


def test_one_event_has_no_standard_error():
    estimate = off_policy_value(logged(100), np.ones(100, dtype=np.int64))
    assert estimate.snips == 3.0
    assert estimate.effective_events == 1.0
    assert math.isnan(estimate.snips_error)
    two = logged(100)
    two.actions[1] = 1
    assert math.isfinite(off_policy_value(two, np.ones(100, dtype=np.int64)).snips_error)


def test_propensities_have_a_least_value():
    with pytest.raises(ValueError, match="propensities"):
        logged(10, 5e-324)
