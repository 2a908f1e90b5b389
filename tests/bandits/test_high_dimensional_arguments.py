"""The high-dimensional bandit: arguments that are refused, and parameters that are reused."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import LpBall, Simplex
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-5)


def make(*, arms=3, dimension=4, **options):
    options = {"budget": BUDGET, "horizon": 30, "source": Source.seeded(1), **options}
    return HighDimensionalBandit(
        arms, LpBall(dimension, 1.0), **{"context_bound": 1.0, "reward_bound": 1.0, **options}
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"arms": 5000}, ValueError),
        ({"link": "logistic", "reward_bound": 2.0}, ValueError),
        ({"arm_learner": "tree", "selector": "gumbel"}, ValueError),
        ({"arm_learner": "polyhedral", "sum_method": "blt"}, ValueError),
        ({"selector": "gumbel", "sum_method": "blt"}, ValueError),
        ({"forced_rounds": -1}, ValueError),
        ({"forced_rounds": 31}, ValueError),
        ({"forced_rounds": 1.5}, TypeError),
        ({"forced_rounds": 0.0}, TypeError),
        ({"forced_rounds": False}, TypeError),
        ({"forced_rounds": "paper"}, TypeError),
        ({"gap": -0.1}, ValueError),
        ({"gap": np.nan}, ValueError),
        ({"gap": "wide"}, TypeError),
    ],
)
def test_bad_arguments(options, error):
    with pytest.raises(error):
        make(**options)


def test_bad_domains():
    for domain, kind, error in (
        (LpBall(3, 2.0), "polyhedral", TypeError),
        (LpBall(3, 2.0), "tree", TypeError),
        (dpoco.domains.Box([0.0] * 3, [1.0] * 3), "tree", ValueError),
        (3, "auto", TypeError),
    ):
        with pytest.raises(error):
            HighDimensionalBandit(
                2,
                domain,
                horizon=9,
                budget=BUDGET,
                arm_learner=kind,
                context_bound=1.0,
                reward_bound=1.0,
            )
    with pytest.raises(dpoco.CalibrationError):
        make(budget=dpoco.Budget(1.0, 0.0), arm_learner="tree")
    pure = HighDimensionalBandit(
        2,
        Simplex(3),
        horizon=40,
        budget=dpoco.Budget(1.0, 0.0),
        context_bound=1.0,
        reward_bound=1.0,
    )
    assert pure.guarantee.epsilon <= 1.0
    assert pure.guarantee.delta == 0.0


def test_a_single_round_takes_every_batch_there_is():
    for options in ({}, {"batch": 1}, {"batch": "auto"}, {"forced_rounds": 1, "batch": 1}):
        learner = make(horizon=1, **options)
        assert learner._plan_arguments(learner.plan)["batch"] == 1
        assert type(learner)._from_bytes(learner._to_bytes()).plan == learner.plan
    with pytest.raises(ValueError, match="batch"):
        make(horizon=1, batch=2)


def test_a_batch_no_clock_can_count_is_named():
    with pytest.raises(ValueError, match="batch must be at most the 20 rounds of an arm's clock"):
        make(forced_rounds=5, batch=21)
