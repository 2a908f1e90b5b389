"""The planner offers what is proved, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.experts import ADVERSARIES
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)


def plans_of(experts, **options):
    return dpoco.choose(experts, **{"adversary": "oblivious", "by": "bound", **options})


def learners(plans):
    return {plan.name for plan in plans}


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("switches", [0, 3])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_bound_is_offered_for_more_than_it_covers(adversary, switches, delta):
    budget = dpoco.Budget(1.0, delta)
    options = {"horizon": 5000, "budget": budget, "switches": switches, "adversary": adversary}
    plans = plans_of(6, **options)
    level = ADVERSARIES.index(adversary)
    assert all(ADVERSARIES.index(plan.scope) >= level for plan in plans)
    for plan in plans:
        plan.guarantee.require(budget)
    bounds = [plan.regret_bound for plan in plans]
    assert bounds == sorted(bounds)
    names = learners(plans)
    assert "BatchShare" in names
    assert ("EpochSelector" in names) == (adversary == "stationary" and switches == 0)
    assert ("ShiftDetector" in names) == (adversary in ADVERSARIES[:2])
    assert ("WindowSelector" in names) == (adversary in ADVERSARIES[:2])
    assert ("ObliviousTracker" in names) == (adversary != "adaptive")
    if delta == 0.0:
        assert "PrefixHedge" not in names
        assert all(plan.guarantee.epsilon_at(0.0) <= 1.0 for plan in plans)


def test_every_plan_keeps_to_the_budget_and_plays():
    """Against a stationary adversary all are offered."""
    for switches in (0, 2):
        options = {"switches": switches, "adversary": ADVERSARIES[0]}
        for plan in plans_of(4, horizon=300, budget=BUDGET, **options):
            learner = plan.make(source=Source.seeded(1), loss_range=(-1.0, 1.0))
            assert type(learner).__name__ == plan.name
            assert learner.plan == plan.plan
            assert learner.get_params()["budget"] is not None
            trace = learner.run(np.zeros((300, 4)))
            assert set(trace.decisions.tolist()) <= {0, 1, 2, 3}


def test_static_experts_are_for_hedge():
    plans = plans_of(10, horizon=10**5, budget=BUDGET)
    assert plans[0].name == "PrefixHedge"
    assert plans[0].plan.forecast.regret_bound == pytest.approx(365.4, rel=0.01)
    assert plans[0].useful
    small = plans_of(10, horizon=50, budget=dpoco.Budget(0.01, 1e-6), switches=5)
    assert not any(plan.useful for plan in small)
    for plan in plans_of(1, horizon=50, budget=BUDGET):  # no data are read
        assert plan.make().guarantee.epsilon == 0.0


def test_a_gap_brings_windows_to_the_front():
    options = {"horizon": 10**5, "budget": BUDGET, "switches": 5, "adversary": "shifting"}
    assert plans_of(10, **options)[0].name == "ObliviousTracker"
    first = plans_of(10, **options, gap=0.4)[0]
    assert (first.name, first.plan.tuning.window) == ("WindowSelector", 107)
    assert first.make().guarantee.regret_bound == first.guarantee.regret_bound


def test_bad_input():
    for change in (
        {"experts": 0}, {"horizon": 0}, {"switches": -1}, {"switches": True},
        {"adversary": "friendly"}, {"gap": -0.1}, {"gap": 1.1, "adversary": "shifting"},
        {"gap": 0.1, "adversary": "oblivious"},
    ):  # fmt: skip
        options = {"experts": 3, "horizon": 100, "budget": BUDGET} | change
        with pytest.raises((ValueError, TypeError), match=next(iter(change))):
            plans_of(options.pop("experts"), **options)
