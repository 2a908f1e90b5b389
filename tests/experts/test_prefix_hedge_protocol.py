"""Hedge on noisy sums: order of calls, input, copies, threads, interruption."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.experts import PrefixHedge
from dpoco.random import Source

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning"),
]

BUDGET = dpoco.Budget(1.0, 1e-5)
T, N = 30, 4
LOSSES = np.random.default_rng(0).random((T, N)) * 1.4 - 0.2


def make(configuration=None, *, experts=N, horizon=T, seed=1, **options):
    options = {"budget": BUDGET, **(configuration or {}), **options}
    return PrefixHedge(experts, horizon=horizon, source=Source.seeded(seed), **options)


# -- protocol -------------------------------------------------------------------------------------


def test_one_expert_and_one_round():
    lonely = make(experts=1)
    trace = lonely.run(LOSSES[:, :1])
    assert not trace.decisions.any()
    assert lonely.weights.tolist() == [1.0]
    assert lonely._engine.variates_drawn() == [0] * 6
    assert lonely.guarantee.epsilon == 0.0
    brief = make(horizon=1)
    first = brief.weights
    brief.run(LOSSES[:1])
    assert np.array_equal(first, np.full(N, 0.25))
    assert np.array_equal(brief.weights, first)
    assert brief._engine.variates_drawn()[2] == 0
    assert brief.guarantee.epsilon == 0.0
    for learner in (lonely, brief):
        again = PrefixHedge._from_bytes(learner._to_bytes())
        assert again._engine.state() == learner._engine.state()


def test_arguments():
    with pytest.raises(ValueError, match="horizon"):
        make(horizon=None)
    for bad in (0, -1):
        with pytest.raises(ValueError, match="experts"):
            make(experts=bad)
    for bad in (2.0, True, None):
        with pytest.raises(TypeError):
            make(experts=bad)
    with pytest.raises(dpoco.CalibrationError, match="delta"):
        make(budget=dpoco.Budget(1.0, 0.0))
    with pytest.raises(TypeError, match="Budget"):
        make(budget=1.0)
    with pytest.warns(dpoco.NoiseDominatesWarning, match="regret bound"):
        make(budget=dpoco.Budget(0.01, 1e-9))
    parameters = make(learning_rate=0.5).parameters
    assert make(parameters=parameters).parameters == parameters
    for restated in (
        {"experts": 5}, {"horizon": 31}, {"sum_method": "tree"}, {"learning_rate": 0.1},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="contradicts"):
            make(parameters=parameters, **restated)
    learner = make()
    assert "epsilon=1" in repr(learner)
    assert PrefixHedge(N, **{k: v for k, v in learner.get_params().items() if k != "experts"})
