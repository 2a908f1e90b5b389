"""Whoever plans the noise, a constructor certifies what it was given and requires the budget."""

from __future__ import annotations

import pytest

import dpoco
from dpoco import experts
from dpoco.errors import BudgetExceeded
from dpoco.published import asi_tracking

BUDGET = dpoco.Budget(1.0, 1e-5)


@pytest.mark.filterwarnings("ignore::dpoco.errors.NoiseDominatesWarning")
def test_printed_noise_states_what_it_spends():
    printed = asi_tracking.batch_share(5, horizon=1000, budget=BUDGET)
    learner = experts.BatchShare(5, horizon=1000, budget=None, plan=printed)
    assert learner.guarantee.epsilon > BUDGET.epsilon
    with pytest.raises(BudgetExceeded):
        experts.BatchShare(5, horizon=1000, budget=BUDGET, plan=printed)


def test_planners_do_not_say_what_was_asked_for(monkeypatch):
    """Tight noise was asked for: what calls itself printed is held to the budget, too."""

    def printed(experts, *, horizon, budget, **more):
        return asi_tracking.batch_share(experts, horizon=horizon, budget=budget)

    monkeypatch.setattr(experts.BatchShare._accountant, "calibrate", printed)
    with pytest.raises(BudgetExceeded):
        experts.BatchShare(5, horizon=1000, budget=BUDGET)
