"""Budgets are validated, immutable values."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from dpoco.accounting import Budget
from dpoco.errors import CalibrationError, StateError


def test_a_budget_round_trips():
    budget = Budget(epsilon=0.1, delta=1e-7)
    assert Budget.from_dict(budget.to_dict()) == budget
    assert eval(repr(budget)) == budget
    assert Budget(1, np.float64(0.5)) == Budget(1.0, 0.5)
    assert type(Budget(1, 0.5).epsilon) is float
    with pytest.raises(FrozenInstanceError):
        budget.epsilon = 2.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_epsilon_out_of_range(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        Budget(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [1.0, -1e-9, 2.0, math.nan])
def test_delta_out_of_range(delta):
    with pytest.raises(ValueError, match="delta"):
        Budget(1.0, delta)


@pytest.mark.parametrize("value", ["1", None, True, 1j])
def test_types(value):
    with pytest.raises(TypeError, match="epsilon"):
        Budget(value, 1e-6)


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
