"""What all learners of experts share: units of reports, traces, copies, draws."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco import experts
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
LEARNERS = {
    "PrefixHedge": {},
    "EpochSelector": {},
    "ShiftDetector": {"expected_shifts": 2},
    "ObliviousTracker": {"switches": 2},
    "BatchShare": {"switches": 2},
}


def make(name, n=4, *, horizon=10**6, **options):
    options = {"horizon": horizon, "budget": BUDGET} | LEARNERS[name] | options
    return getattr(experts, name)(n, source=Source.seeded(3), **options)


@pytest.mark.parametrize("name", LEARNERS)
def test_bounds_are_in_the_units_of_the_losses(name):
    unit = make(name).guarantee
    scaled = make(name, loss_range=(-20.0, 80.0)).guarantee
    assert scaled.regret_bound == pytest.approx(100.0 * unit.regret_bound)
    for key, value in unit.details.items():
        if key.startswith("regret: "):
            assert scaled.details[key] == pytest.approx(100.0 * value)
    terms = [v for k, v in scaled.details.items() if k.startswith("regret: ")]
    if terms:
        assert sum(terms) == pytest.approx(scaled.regret_bound, rel=1e-9)
    assert scaled.epsilon == unit.epsilon


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_in_other_units_lead_to_the_same_decisions(name):
    losses = np.random.default_rng(1).integers(0, 33, (300, 4)) / 32.0
    unit = make(name, horizon=300).run(losses)
    other = make(name, horizon=300, loss_range=(-1.0, 1.0)).run(2.0 * losses - 1.0)
    assert np.array_equal(unit.decisions, other.decisions)
    assert np.array_equal(other.losses, 2.0 * unit.losses - 1.0)


@pytest.mark.parametrize("name", ["PrefixHedge", "BatchShare"])
def test_weights_of_a_suspended_copy_are_not_read(name):
    import pickle

    learner = make(name)
    learner.run(np.random.default_rng(0).random((50, 4)))
    copy = pickle.loads(pickle.dumps(learner))
    with pytest.raises(dpoco.StateError, match="suspended"):
        _ = copy.weights
    copy.resume()
    assert np.array_equal(copy.weights, learner.weights)


@pytest.mark.parametrize("name", LEARNERS)
def test_traces_compare_with_experts_and_sequences(name):
    losses = np.random.default_rng(2).random((40, 4))
    losses[3, 1] = np.nan
    trace = make(name, horizon=40).run(losses)
    assert trace.decisions.dtype == np.int64
    assert not trace.decisions.flags.writeable
    admitted = np.nan_to_num(losses, nan=0.0)
    assert np.array_equal(trace.losses, admitted[np.arange(40), trace.decisions])
    assert trace.regret(1)[-1] == pytest.approx(trace.losses.sum() - admitted[:, 1].sum())
    best = dpoco.evaluation.best_switching_sequence(losses, 3)
    assert trace.regret(best)[-1] == pytest.approx(trace.losses.sum() - best.total_loss)
    assert trace.regret(trace.decisions)[-1] == 0.0
    for bad, error in ((4, ValueError), (-1, ValueError), (0.5, TypeError), ([0, 1], ValueError)):
        with pytest.raises(error):
            trace.regret(bad)
    assert "not private" in repr(trace)


def test_switches_beyond_the_horizon_are_planned_for_silently():
    plans = experts.plan_experts(
        3, horizon=5, budget=BUDGET, switches=7, adversary="shifting"
    )  # warnings are errors here
    assert plans


def test_comparators_take_any_number_of_switches():
    losses = np.random.default_rng(0).random((6, 3))
    best = dpoco.evaluation.best_switching_sequence(losses, 10**12)
    assert best.limit == 5
    assert best.total_loss == pytest.approx(losses.min(axis=1).sum())


@pytest.mark.parametrize("epsilon", [1e-170, 1e-101, 1e101, 1e200])
def test_budgets_beyond_double_precision_are_refused(epsilon):
    with pytest.raises(dpoco.CalibrationError, match="epsilon"):
        make("BatchShare", budget=dpoco.Budget(epsilon, 0.0), horizon=100)
