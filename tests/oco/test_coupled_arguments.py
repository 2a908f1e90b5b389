"""Constructor arguments and parameters of the coupled learners."""

from __future__ import annotations

import pytest
from tests.oco.coupled_problems import FEW

import dpoco
from dpoco.domains import LpBall
from dpoco.losses import LinearLoss
from dpoco.oco import ContinuousMultiplicativeWeights, CoupledRegularizedLeader

BUDGET = dpoco.Budget(4.0, 1e-4)
T = 24
CLASSES = [ContinuousMultiplicativeWeights, CoupledRegularizedLeader]


BALL = LpBall(3)


@pytest.mark.parametrize("name", FEW)
def test_without_a_cap_or_forced_switches_nothing_is_promised(coupled, name):
    """Every switch spends budget, and a stay would reveal the loss."""
    for changes in [{"max_switches": None}, {"forced_switch": 0.0}]:
        if "scheduled" in name and "forced_switch" in changes:
            continue
        learner = coupled.make(name, **changes)
        assert not learner.guarantee.private
        with pytest.raises(dpoco.BudgetExceeded):
            coupled.make(name, budget=BUDGET, **changes)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_limit_of_switches_beside_parameters_is_not_ignored(kind):
    options = {"horizon": 50, "budget": None}
    lazy = kind(BALL, LinearLoss(1.0), max_switches=20, **options)
    again = kind(**lazy.get_params())
    assert again.plan == lazy.plan
    for limit in (-5.0, "many", 1.0):
        with pytest.raises((ValueError, TypeError)):
            kind(BALL, LinearLoss(1.0), plan=lazy.plan, max_switches=limit, **options)
