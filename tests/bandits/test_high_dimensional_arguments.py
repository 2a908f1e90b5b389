"""The high-dimensional bandit: arguments that are refused, and parameters that are reused."""

from __future__ import annotations

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


def test_a_simplex_is_a_domain_of_pure_privacy():
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
