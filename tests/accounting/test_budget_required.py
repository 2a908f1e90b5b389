"""Whoever plans the noise, a constructor certifies what it was given and requires the budget."""

from __future__ import annotations

import pytest

import dpoco
from dpoco import bandits, experts, frank_wolfe, mechanisms, oco
from dpoco.domains import Box, LpBall
from dpoco.errors import BudgetExceeded
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss

BUDGET = dpoco.Budget(1.0, 1e-5)
BALL, L1, BOX = LpBall(3, 2.0), LpBall(3, 1.0), Box([-1.0, -1.0], [1.0, 1.0])
LONG = {"horizon": 10_000}
CASES = {
    "ftrl": (oco.NoisyFTRL, (BALL, LogisticLoss(1.0)), LONG),
    "ftrl, squares": (oco.NoisyFTRL, (BALL, SquaredLoss(1.0, 1.0)), LONG),
    "ctrl": (oco.CoupledRegularizedLeader, (BALL, LinearLoss(1.0)), LONG),
    "ctrl, quadratic": (oco.CoupledRegularizedLeader, (BALL, QuadraticLoss(3.0, 1.0)), LONG),
    "comw": (oco.ContinuousMultiplicativeWeights, (BALL, LinearLoss(1.0)), LONG),
    "lipschitz": (oco.LipschitzLearner, (BOX,), {"lipschitz": 1.0, **LONG}),
    "tree": (frank_wolfe.TreeFrankWolfe, (BALL, LogisticLoss(1.0)), LONG),
    "polyhedral": (frank_wolfe.PolyhedralFrankWolfe, (L1, CustomLoss(2.0, 1.0)), LONG),
    "hedge": (experts.PrefixHedge, (5,), LONG),
    "epochs": (experts.EpochSelector, (5,), LONG),
    "detector": (experts.ShiftDetector, (5,), LONG),
    "tracker": (experts.ObliviousTracker, (5,), {"switches": 2, **LONG}),
    "share": (experts.BatchShare, (5,), LONG),
    "linucb": (bandits.LinUCB, (3, 4), {"horizon": 100_000}),
    "hdb": (bandits.HighDimensionalBandit, (2, L1), {"horizon": 100_000}),
    "sum": (mechanisms.ContinualSum, (3,), LONG),
    "max": (mechanisms.NoisyMax, (4,), {}),
    "above": (mechanisms.AboveThreshold, (), LONG),
    "sgd": (frank_wolfe.NoisySGD, (BALL, LogisticLoss(1.0)), {"records": 200}),
    "phased": (frank_wolfe.PhasedSGD, (BALL, LogisticLoss(1.0)), {"records": 200}),
    "nfw": (frank_wolfe.NoisyFrankWolfe, (BALL, LogisticLoss(1.0)), {"records": 200}),
    "mirror": (frank_wolfe.LocalizedMirrorDescent, (BALL, LogisticLoss(1.0)), {"records": 200}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::dpoco.errors.NoiseDominatesWarning")
def test_noise_planned_for_another_budget_is_refused(name, monkeypatch):
    """Twice epsilon is about half the noise. Up to 4 s each: accountants calibrate four times."""
    kind, problem, options = CASES[name]
    honest = kind(*problem, budget=BUDGET, **options)
    assert honest.guarantee.delta_at(BUDGET.epsilon) <= BUDGET.delta
    calibrate = kind._accountant.calibrate

    def careless(*given, budget, **more):
        wider = None if budget is None else dpoco.Budget(2.0 * budget.epsilon, budget.delta)
        return calibrate(*given, budget=wider, **more)

    monkeypatch.setattr(kind._accountant, "calibrate", careless)
    with pytest.raises(BudgetExceeded, match=r"over the budget's 1"):
        kind(*problem, budget=BUDGET, **options)
    assert kind(*problem, budget=None, **options).parameters is not None
    monkeypatch.undo()
    loud = kind(*problem, budget=dpoco.Budget(2.0, BUDGET.delta), **options).parameters
    with pytest.raises(BudgetExceeded):
        kind(*problem, budget=BUDGET, parameters=loud, **options)


@pytest.mark.filterwarnings("ignore::dpoco.errors.NoiseDominatesWarning")
def test_printed_noise_states_what_it_spends():
    printed = {"horizon": 1000, "budget": BUDGET, "calibration": "paper"}
    learner = experts.BatchShare(5, **printed)
    assert learner.guarantee.epsilon > BUDGET.epsilon
    with pytest.raises(BudgetExceeded):
        experts.BatchShare(5, parameters=learner.parameters, **printed)


def test_planners_do_not_say_what_was_asked_for(monkeypatch):
    """Tight noise was asked for: what calls itself printed is held to the budget, too."""
    calibrate = experts.BatchShare._accountant.calibrate

    def printed(*given, calibration, **more):
        return calibrate(*given, calibration="paper", **more)

    monkeypatch.setattr(experts.BatchShare._accountant, "calibrate", printed)
    with pytest.raises(BudgetExceeded):
        experts.BatchShare(5, horizon=1000, budget=BUDGET)
