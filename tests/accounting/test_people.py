"""Guarantees for people who come back, made of guarantees for rounds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import dpoco
from dpoco import Budget, Guarantee, StateError
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.domains import LpBall
from dpoco.losses import LinearLoss, LogisticLoss

BUDGET = Budget(1.0, 1e-6)
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.fixture(scope="module")
def leader():
    return dpoco.oco.NoisyFTRL(LpBall(3), LogisticLoss(), horizon=100_000, budget=BUDGET).guarantee


@pytest.mark.parametrize(
    ("rounds", "separation", "epsilon"),
    [(10, 1, 11.910), (10, 100, 9.262), (10, 1000, 7.724), (10, 10_000, 5.334)],
)
def test_known_epsilons(leader, rounds, separation, epsilon):
    """Digits of an independent program."""
    assert leader.for_person(rounds, separation).epsilon == pytest.approx(epsilon, abs=6e-4)


def test_epsilon_is_that_of_the_norm(leader):
    mine = leader.for_person(10, 1000)
    mu = gaussian_mu(1.0, 1e-6) * 13.6485521077 / leader.column_norm
    assert mine.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-5)
    assert (mine.delta, mine.unit, mine.person) == (1e-6, "one person", (10, 1000))
    assert mine.column_norm == pytest.approx(13.6485521077, rel=1e-9)
    assert mine.truncation_mass == leader.truncation_mass
    assert mine.certified
    assert "at least 1000 apart" in str(mine)
    assert "per round" not in str(mine)


def test_records_come_back_and_are_held_to_the_pattern(leader):
    mine = leader.for_person(10, 1000)
    assert Guarantee.from_json(mine.to_json()) == mine
    mine.verify()
    record = mine.to_dict()
    for person in ([9, 1000], [10, 1001], [10, 999], None, [10], [0, 5], [10, 1000.5], "10"):
        with pytest.raises(StateError):
            Guarantee.from_dict({**record, "person": person})
    assert "person" not in leader.to_dict()


def test_a_single_round_is_the_round(leader):
    assert leader.for_person(1) is leader
    assert leader.for_person(5, 100_000) is leader  # she can come once only
    free = dpoco.oco.NoisyFTRL(LpBall(3), LinearLoss(), horizon=9, budget=None).guarantee
    assert free.for_person(5) is free


def test_without_a_limit_separation_counts(leader):
    assert leader.for_person(None, 10_000) == leader.for_person(10, 10_000)
    assert leader.for_person(10**12, 10_000) == leader.for_person(10, 10_000)


def test_for_fewer_rounds_it_holds_too_and_for_more_it_does_not(leader):
    mine = leader.for_person(10, 1000)
    assert mine.for_person(10, 1000) is mine
    assert mine.for_person(3, 5000) is mine
    for more in ((11, 1000), (10, 999)):
        with pytest.raises(ValueError, match="less often"):
            mine.for_person(*more)


@pytest.mark.parametrize("bad", [(0,), (-1,), (1.5,), (True,), ("3",), (3, 0), (3, 1.5), (None,)])
def test_bad_arguments(leader, bad):
    with pytest.raises((ValueError, TypeError)):
        leader.for_person(*bad)


def test_too_many_rounds_leave_no_epsilon(leader):
    mine = leader.for_person(50_000)
    assert mine.epsilon == math.inf
    assert not mine.certified
    mine.verify()
    with pytest.raises(dpoco.BudgetExceeded):
        mine.require(Budget(50.0, 1e-6))


def test_other_mechanisms_are_groups():
    pure = dpoco.experts.EpochSelector(5, horizon=100, budget=Budget(1.0, 0.0)).guarantee
    mine = pure.for_person(3, 20)
    assert (mine.epsilon, mine.delta) == (pytest.approx(3.0, rel=1e-12), 0.0)
    assert any("fixed in advance" in text for text in mine.conditions)
    mine.verify()
    lazy = dpoco.oco.CoupledRegularizedLeader(LpBall(3), LogisticLoss(), horizon=99, budget=BUDGET)
    with pytest.raises(ValueError, match="nothing is proved"):
        lazy.guarantee.for_person(2)


def test_joint_views_have_the_exact_norm():
    arms = dpoco.bandits.LinUCB(3, 4, horizon=1000, budget=BUDGET).guarantee
    mine = arms.for_person(3, 20)
    assert mine.view == "others"
    assert arms.epsilon < mine.epsilon < 3.2
    mine.verify()


def test_without_a_description_it_is_a_group(leader):
    bare = replace(leader, description=None)
    assert bare.for_person(10).mu == pytest.approx(10.0 * leader.mu, rel=1e-9)
    with pytest.raises(ValueError, match="others"):
        replace(bare, view="others").for_person(2)
