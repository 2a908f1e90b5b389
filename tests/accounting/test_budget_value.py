"""Budgets are validated, immutable values, and constructors keep to them."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from dpoco import experts
from dpoco.accounting import Budget
from dpoco.domains import LpBall
from dpoco.errors import BudgetExceeded, CalibrationError, LargeDeltaWarning, StateError
from dpoco.frank_wolfe import SufficientStatistics
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.mechanisms import ContinualSum
from dpoco.oco import NoisyFTRL
from dpoco.published import asi_tracking


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
def test_a_budget_round_trips():
    budget = Budget(epsilon=0.1, delta=1e-7)
    assert Budget.from_dict(budget.to_dict()) == budget
    assert eval(repr(budget)) == budget
    assert Budget(1, np.float64(0.5)) == Budget(1.0, 0.5)
    assert type(Budget(1, 0.5).epsilon) is float
    with pytest.raises(FrozenInstanceError):
        budget.epsilon = 2.0


@pytest.mark.parametrize("record", [{}, {"epsilon": 1.0}, {"epsilon": 1, "delta": 0.1, "x": 1}, 3])
def test_malformed_records(record):
    with pytest.raises(StateError):
        Budget.from_dict(record)


def test_pure_budgets():
    budget = Budget(1.0, 0.0)
    assert Budget.from_dict(budget.to_dict()) == budget
    with pytest.raises(CalibrationError, match="delta > 0"):
        budget.require_delta()
    Budget(1.0, 1e-300).require_delta()


def test_a_large_delta_is_doubted():
    with pytest.warns(LargeDeltaWarning, match="did you swap epsilon and delta"):
        Budget(1e-6, 0.9)
    with pytest.warns(LargeDeltaWarning, match="chance of revealing") as caught:
        large = Budget(1.0, 0.5)
    assert "swap" not in str(caught[0].message)
    assert caught[0].filename == __file__
    # Not twice, and not of what is usual: every other warning is an error here.
    assert Budget.from_dict(large.to_dict()) == pickle.loads(pickle.dumps(large)) == large
    for delta in (0.0, 1e-9, 1e-3):
        Budget(1e-9, delta)
    with pytest.raises(ValueError, match="delta"):
        Budget.from_dict({"epsilon": 1.0, "delta": 1.0})


def test_a_delta_above_one_over_the_horizon_is_doubted():
    def learner(horizon, delta):
        budget = Budget.from_dict({"epsilon": 8.0, "delta": delta})
        return NoisyFTRL(LpBall(2), LinearLoss(1.0), horizon=horizon, budget=budget)

    def total(horizon, delta):
        budget = Budget.from_dict({"epsilon": 8.0, "delta": delta})
        return ContinualSum(2, horizon=horizon, budget=budget, bound=1.0)

    def fit(horizon, delta):
        budget = Budget.from_dict({"epsilon": 8.0, "delta": delta})
        return SufficientStatistics(
            LpBall(2), SquaredLoss(1.0, 1.0), records=horizon, budget=budget
        )

    for make in (learner, total, fit):
        with pytest.warns(LargeDeltaWarning, match="horizon of 2000") as caught:
            make(2000, 6e-4)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        make(2000, 1.0 / 2000)
        make(900, 1e-3)
        make(2000, 0.5)  # doubted when the budget was made


# -- a constructor certifies what it was given, and requires the budget ---------------------------

PRINTED = Budget(1.0, 1e-5)


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_printed_noise_states_what_it_spends():
    printed = asi_tracking.batch_share(5, horizon=1000, budget=PRINTED)
    learner = experts.BatchShare(5, horizon=1000, budget=None, plan=printed)
    assert learner.guarantee.epsilon > PRINTED.epsilon
    with pytest.raises(BudgetExceeded):
        experts.BatchShare(5, horizon=1000, budget=PRINTED, plan=printed)


def test_planners_do_not_say_what_was_asked_for(monkeypatch):
    """Tight noise was asked for: what calls itself printed is held to the budget, too."""

    def printed(experts, *, horizon, budget, **more):
        return asi_tracking.batch_share(experts, horizon=horizon, budget=budget)

    monkeypatch.setattr(experts.BatchShare._accountant, "calibrate", printed)
    with pytest.raises(BudgetExceeded):
        experts.BatchShare(5, horizon=1000, budget=PRINTED)
