"""Streams without end: who takes them, what those who do not advise, and what regret is stated."""

from __future__ import annotations

import math

import pytest

import dpoco
from dpoco.domains import Box, LpBall
from dpoco.learners import LEARNERS, find_learner
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-9)
L1 = LpBall(2, p=1.0)
# What each class takes besides horizon and budget.
CASES = {
    dpoco.oco.CoupledRegularizedLeader: ((LpBall(2), LinearLoss(1.0)), {}),
    dpoco.oco.ContinuousMultiplicativeWeights: ((LpBall(2), LinearLoss(1.0)), {}),
    dpoco.oco.NoisyFTRL: ((LpBall(2), SquaredLoss(1.0, 1.0)), {}),
    dpoco.oco.NoisyNewton: ((LpBall(2), LogisticLoss(1.0)), {}),
    dpoco.oco.LipschitzLearner: ((Box([0.0], [1.0]),), {"lipschitz": 1.0}),
    dpoco.frank_wolfe.TreeFrankWolfe: ((L1, SquaredLoss(1.0, 1.0)), {}),
    dpoco.frank_wolfe.PolyhedralFrankWolfe: ((L1, SquaredLoss(1.0, 1.0)), {}),
    dpoco.experts.PrefixHedge: ((3,), {}),
    dpoco.experts.EpochSelector: ((3,), {}),
    dpoco.experts.WindowSelector: ((3,), {"expected_shifts": 1}),
    dpoco.experts.ShiftDetector: ((3,), {}),
    dpoco.experts.ObliviousTracker: ((3,), {"switches": 1}),
    dpoco.experts.BatchShare: ((3,), {"switches": 1}),
    dpoco.bandits.LinUCB: ((2, 3), {"context_bound": 1.0, "reward_bound": 1.0}),
    dpoco.bandits.ResidualPhases: ((2, 3), {"context_bound": 1.0, "reward_bound": 1.0}),
    dpoco.bandits.HighDimensionalBandit: ((2, L1), {"context_bound": 1.0, "reward_bound": 1.0}),
    dpoco.mechanisms.ContinualSum: ((3,), {"bound": 1.0}),
    dpoco.mechanisms.NoisyMax: ((3,), {"sensitivity": 1.0}),
}


def without_horizon(cls):
    problem, options = CASES[cls]
    return cls(*problem, horizon=None, budget=BUDGET, **options)


@pytest.mark.parametrize("cls", CASES, ids=lambda cls: cls.__name__)
def test_the_table_says_who_takes_no_horizon_and_the_others_name_them(cls):
    own = find_learner(cls)
    if own.endless:
        learner = without_horizon(cls)
        assert learner.guarantee.private
        declared = 10**12 if own.plays == "experts" else 10**9
        assert learner.horizon == learner.guarantee.horizon == declared
        return
    named = [f"dpoco.{each.path}" for each in LEARNERS if each.plays == own.plays and each.endless]
    with pytest.raises(ValueError, match="for a stream without end") as caught:
        without_horizon(cls)
    text = str(caught.value)
    assert all(name in text for name in named)
    assert named or "give a horizon that is long enough" in text
    assert own.class_name not in text


def test_every_learner_of_rounds_is_tried():
    """A new one must be added here, or its entry would not be checked."""
    rounds = {"records", "surface", "experts", "arms", "sums", "scores"}
    assert {find_learner(cls).path for cls in CASES} == {
        each.path for each in LEARNERS if each.plays in rounds
    }


@pytest.mark.parametrize("name", ["EpochSelector", "WindowSelector", "ShiftDetector"])
def test_no_number_is_stated_of_a_stream_without_end(name):
    """A bound over 10^12 rounds that nobody plays is none; bounds after some rounds are."""
    cls = getattr(dpoco.experts, name)
    learner = without_horizon(cls)
    stated = learner.guarantee
    assert stated.regret_bound is None
    assert "a stream without end" in str(stated)
    problem, options = CASES[cls]
    rounds = 10**6
    same = cls(*problem, horizon=rounds, budget=BUDGET, **options)
    after = stated.details[f"regret after {rounds:,} rounds"]
    assert 0.0 < after <= rounds
    if name == "EpochSelector":
        assert learner.plan.forecast.regret_bound is None
        assert after == same.guarantee.regret_bound
        shares = [
            stated.details[f"regret after {t:,} rounds"] / math.sqrt(t) for t in (10**3, 10**9)
        ]
        assert shares[1] < 1.2 * shares[0]  # of the order of sqrt(T), whenever it ends
    assert dpoco.Guarantee.from_json(stated.to_json()) == stated
