"""Budgets so large that tails keep noise from falling: what is spent, and who says so."""

from __future__ import annotations

import warnings

import pytest

import dpoco
from dpoco.accounting.gaussian import unspent_note

LOSS = dpoco.losses.SquaredLoss(1.0, 1.0)
BUILDERS = {
    "tree": lambda budget, **more: dpoco.frank_wolfe.TreeFrankWolfe(
        dpoco.domains.LpBall(3), LOSS, horizon=64, budget=budget, **more
    ),
    "hedge": lambda budget, **more: dpoco.experts.PrefixHedge(3, horizon=64, budget=budget, **more),
    "shares": lambda budget: dpoco.experts.BatchShare(
        3, horizon=64, switches=1, noise="gaussian", budget=budget
    ),
    "sum": lambda budget, **more: dpoco.mechanisms.ContinualSum(
        2, horizon=64, bound=1.0, budget=budget, **more
    ),
    "statistics": lambda budget: dpoco.frank_wolfe.SufficientStatistics(
        dpoco.domains.LpBall(3), LOSS, records=64, budget=budget
    ),
}


def budget(epsilon: float) -> dpoco.Budget:
    return dpoco.Budget(epsilon, 1e-5)


@pytest.mark.parametrize("name", BUILDERS)
def test_whoever_cannot_spend_a_budget_says_so_once(name):
    with pytest.warns(dpoco.UnspentBudgetWarning, match="only") as caught:
        large = BUILDERS[name](budget(60.0))
    assert len([w for w in caught if w.category is dpoco.UnspentBudgetWarning]) == 1
    assert large.guarantee.epsilon < 0.99 * 60.0
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpoco.UnspentBudgetWarning)
        BUILDERS[name](budget(10.0))


@pytest.mark.parametrize("name", ["tree", "hedge", "sum"])
@pytest.mark.parametrize("numerics", ["float", "lattice"])
def test_all_is_spent_up_to_where_the_warning_begins(name, numerics):
    """No budget is left unspent in silence: the whole epsilon is stated, or a warning is."""
    for epsilon in (1.0, 8.0, 16.0, 20.0, 24.0, 28.0, 40.0, 48.0, 60.0, 3e4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", dpoco.UnspentBudgetWarning)
            stated = BUILDERS[name](budget(epsilon), numerics=numerics).guarantee.epsilon
        said = any(w.category is dpoco.UnspentBudgetWarning for w in caught)
        assert said == (stated < (1.0 - 1e-3) * epsilon)


def test_a_pure_budget_of_any_size_is_spent():
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpoco.UnspentBudgetWarning)
        learner = dpoco.experts.EpochSelector(4, budget=dpoco.Budget(3e4, 0.0), horizon=64)
    assert learner.guarantee.epsilon == pytest.approx(3e4)


def test_an_epsilon_below_the_budget_for_another_reason_is_no_matter_of_tails():
    assert unspent_note(budget(1.0), 0.7, 1e-16) is None
    assert "only 23.7" in unspent_note(budget(60.0), 23.7, 1e-16)
