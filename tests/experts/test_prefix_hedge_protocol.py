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


def test_violations_are_clipped_or_refused():
    rows = np.array([[np.nan, 0.5, 2.0, -1.0], [np.inf, -np.inf, 0.0, 1.0]])
    clipped = np.array([[0.0, 0.5, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    wild, tame = make(), make()
    wild.run(rows)
    tame.run(clipped)
    assert np.array_equal(wild.weights, tame.weights)
    assert wild.nonprivate_violations == 5
    assert tame.nonprivate_violations == 0
    strict = make(on_violation="raise")
    before = strict._engine.state()
    strict.decide()
    for attempt in (lambda: strict.observe(rows[0]), lambda: strict.run(rows)):
        with pytest.raises(ValueError, match="declared range") as error:
            attempt()
        assert "2.0" not in str(error.value)
    assert strict._engine.state() == before


def test_a_range_is_an_affine_map():
    unit = np.random.default_rng(3).integers(0, 1025, size=(T, N)) / 1024.0
    plain, mapped = make(), make(loss_range=(-2.0, 6.0))
    a, b = plain.run(unit), mapped.run(8.0 * unit - 2.0)
    assert np.array_equal(a.decisions, b.decisions)
    assert np.array_equal(plain.weights, mapped.weights)
    assert b.losses == pytest.approx(8.0 * a.losses - 2.0)
    assert mapped.guarantee.regret_bound == pytest.approx(8.0 * plain.parameters.regret_bound)
    assert mapped.parameters == plain.parameters
    for bad in ((0.0, 0.0), (1.0, 0.0), (0.0, np.inf), 3.0):
        with pytest.raises((ValueError, TypeError)):
            make(loss_range=bad)


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
