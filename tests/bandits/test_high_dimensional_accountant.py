"""The accountant of the high-dimensional bandit: one arm's stream, schedules, choices, texts."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from tests.plans import changed
from tests.published import planned

import dpoco
from dpoco.accounting import high_dimensional_bandit as accountant
from dpoco.accounting import polyhedral_frank_wolfe, tree_frank_wolfe
from dpoco.accounting.gaussian import truncation_mass
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import Box, LpBall
from dpoco.losses import LogisticLoss, SquaredLoss
from dpoco.privacy.losses.bounded_range import moment

BUDGET = dpoco.Budget(1.0, 1e-5)
BALL = LpBall(10, 1.0)


def calibrate(arms=3, domain=BALL, horizon=5000, budget=BUDGET, **options):
    options = {"reward_bound": 1.0, **options}
    return accountant.calibrate(arms, domain, horizon=horizon, budget=budget, **options)


def settled(plan):
    return SimpleNamespace(**HighDimensionalBandit._plan_arguments(plan))


def printed(arms, *, horizon=5000, budget=BUDGET, calibration="paper", **options):
    options = {"horizon": horizon, "budget": budget, "calibration": calibration, **options}
    return planned(accountant, arms, BALL, **options)


@pytest.mark.parametrize("relation", ["replace", "zero_out"])
@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_the_price_is_that_of_one_learner_over_an_arms_clock(link, relation):
    loss = LogisticLoss(1.0) if link == "logistic" else SquaredLoss(1.0, 1.0, weight=0.5)
    for arms, forced in ((1, 70), (3, 0), (3, 70), (60, 70)):
        clock = forced + 5000 - arms * forced
        options = {"relation": relation, "batch": 20}
        p = calibrate(arms, arm_learner="polyhedral", forced_rounds=forced, link=link, **options)
        own = polyhedral_frank_wolfe.calibrate(BALL, loss, horizon=clock, budget=BUDGET, **options)
        assert p.tuning.arm == own.tuning
        assert p.tuning.arm.horizon == clock
        assert p.mechanism.parts == (own.mechanism,) * arms
        stated = {"relation": relation, "budget": BUDGET}
        guarantee = accountant.guarantee(arms, BALL, p, **stated)
        one = polyhedral_frank_wolfe.guarantee(BALL, loss, own, **stated)
        for name in ("epsilon", "delta", "rho", "profile", "noise_scale", "sensitivity"):
            assert getattr(guarantee, name) == getattr(one, name)
        assert (guarantee.change, guarantee.view) == (relation, "others")
        assert guarantee.horizon == 5000
        p = calibrate(arms, arm_learner="tree", forced_rounds=forced, link=link, relation=relation)
        own = tree_frank_wolfe.calibrate(
            BALL, loss, horizon=clock, budget=BUDGET, relation=relation, numerics="float"
        )
        # The tails of all arms' noise are charged to delta, which needs next to no noise.
        scale = p.mechanism.parts[0].scale
        assert own.mechanism.scale <= scale <= own.mechanism.scale * (1.0 + 1e-6)
        guarantee = accountant.guarantee(arms, BALL, p, **stated)
        one = tree_frank_wolfe.guarantee(BALL, loss, own, **stated)
        reach = one.sensitivity * one.column_norm
        assert guarantee.mu == pytest.approx(reach / scale, rel=1e-12)
        assert guarantee.truncation_mass == pytest.approx(arms * one.truncation_mass)
        assert guarantee.delta_at(1.0) <= 1e-5 * (1.0 + 1e-9)


def test_tails_of_many_arms_can_cost_the_budget():
    few, many = dpoco.Budget(1.0, 1e-12), {"arm_learner": "tree", "forced_rounds": 0}
    assert calibrate(2, budget=few, **many).mechanism.parts[0].scale > 0.0
    with pytest.raises(dpoco.CalibrationError):
        calibrate(4096, LpBall(50, 1.0), 10**6, few, **many)
    assert truncation_mass(4096 * 50 * 10**6) > 1e-12
    for learner in ("polyhedral", "auto"):
        p = calibrate(4096, LpBall(50, 1.0), 10**6, few, arm_learner=learner, batch=5000)
        assert p.mechanism.parts[0].scale > 0.0
        assert settled(p).arm_learner == "polyhedral"


def test_two_arms_cost_no_more_than_one():
    """Two selections of half the range, or two Gaussian sums moved by half, against one."""
    ranges = np.geomspace(1e-3, 30.0, 40)
    for order in (1.5, 2.0, 4.0, 16.0, 64.0):
        whole, half = moment(ranges, order), moment(0.5 * ranges, order)
        assert np.all(2.0 * half <= whole * (1.0 + 1e-9))
    assert math.hypot(0.5, 0.5) < 1.0


def test_schedules():
    for arms, horizon, forced, clock in (
        (2, 100, 0, 100), (2, 100, 10, 90), (2, 100, 50, 50), (2, 100, 70, 70), (1, 9, 5, 9),
        (200, 100, 1, 1),
    ):  # fmt: skip
        p = calibrate(arms, horizon=horizon, forced_rounds=forced, batch=1)
        assert (p.mechanism.forced, p.tuning.arm.horizon) == (forced, clock)
    p = settled(calibrate(2, horizon=10_000, arm_learner="tree"))
    assert (p.batch, p.forced_rounds) == (1, 50)
    plan = calibrate(2, horizon=10_000, arm_learner="polyhedral")
    loss, p = accountant.loss_in(plan), settled(plan)
    whole = polyhedral_frank_wolfe.calibrate(BALL, loss, horizon=10_000, budget=BUDGET)
    # frozen at the end of a batch
    assert p.batch == p.forced_rounds == whole.mechanism.scores.batch > 50
    p = settled(calibrate(2, horizon=10_000, arm_learner="polyhedral", batch=20))
    assert p.forced_rounds == 60
    for horizon in (1, 2, 7, 100, 300):
        plan = calibrate(3, horizon=horizon)
        assert 3 * settled(plan).forced_rounds <= horizon / 2
        assert settled(plan).batch <= plan.tuning.arm.horizon
    paper = printed(2, horizon=1000, budget=dpoco.Budget(3.0, 1e-5))
    assert paper.mechanism.forced == int(math.log(10 * 1000) * math.log(1000) / 9.0)
    assert printed(2, horizon=1000).tuning.arm.horizon > 0
    assert 2 * printed(2, budget=dpoco.Budget(0.01, 1e-5)).mechanism.forced >= 5000


def test_automatic_arms():
    def kind(**options):
        return settled(calibrate(2, **options)).arm_learner

    assert kind(domain=LpBall(5, 1.0), horizon=200_000) == "tree"
    assert kind(domain=LpBall(500, 1.0), horizon=40_000) == "polyhedral"
    assert kind(sum_method="blt") == kind(sum_method="tree", horizon=99) == "tree"
    for options in (
        {"selector": "gumbel"}, {"budget": None}, {"budget": dpoco.Budget(1.0, 0.0)},
        {"domain": Box([-1.0] * 5, [1.0] * 5), "horizon": 200_000},
    ):  # fmt: skip
        assert kind(**options) == "polyhedral"


@pytest.mark.parametrize("learner", ["polyhedral", "tree"])
@pytest.mark.parametrize("calibration", ["corrected", "paper"])
def test_other_calibrations_state_what_is_proved(learner, calibration):
    p = printed(3, calibration=calibration, arm_learner=learner, forced=50)
    g = accountant.guarantee(3, BALL, p, budget=BUDGET)
    assert g.claimed == pytest.approx((1.0, 1e-5), rel=1e-9)
    assert g.epsilon < 1.0
    assert g.certified
    tight = calibrate(arm_learner=learner, batch=1)
    assert p.mechanism.parts[0].scale > tight.mechanism.parts[0].scale


def test_plans_that_do_not_fit_the_problem():
    p = calibrate()
    with pytest.raises(ValueError, match="not for 2 arms"):
        accountant.guarantee(2, BALL, p)
    with pytest.raises(ValueError, match="domain and loss"):
        accountant.guarantee(3, LpBall(10, 1.0, 2.0), p)
    one = p.mechanism.parts[0]
    wide = dataclasses.replace(one, scores=dataclasses.replace(one.scores, leaf=2.0))
    with pytest.raises(ValueError, match="alike"):
        accountant.guarantee(3, BALL, changed(p, parts=(one, one, wide)))
    with pytest.raises(ValueError, match="horizon"):
        accountant.guarantee(3, BALL, changed(p, forced=p.mechanism.forced + 1))
    with pytest.raises(ValueError, match="reward_bound"):
        dataclasses.replace(p.tuning, link="logistic", reward_bound=2.0)
    none = accountant.guarantee(3, BALL, calibrate(budget=None))
    assert not none.private


def test_texts():
    p = calibrate(arm_learner="tree", gap=0.25)
    g = accountant.guarantee(3, BALL, p, budget=BUDGET)
    text = str(g)
    reason = "no bound is proved, because"
    for words in ("a log of all actions is not covered", "OTHER users", reason):
        assert words in text
    assert g.regret_bound is None
    assert not any(name.startswith("regret") and name != "regret" for name in g.details)
    assert not accountant.guarantee(3, BALL, p, seeded=True).certified


def test_warnings_for_the_hopeless_only():
    def make(**options):
        options = {"horizon": 50_000, "budget": dpoco.Budget(4.0, 1e-6), **options}
        return HighDimensionalBandit(
            2, LpBall(10, 1.0), **{"context_bound": 1.0, "reward_bound": 1.0, **options}
        )

    with pytest.warns(dpoco.NoiseDominatesWarning, match="noise dominates"):
        make(horizon=500)
    with pytest.warns(dpoco.NoiseDominatesWarning, match="forced"):
        make(forced_rounds=25_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make()
        make(arm_learner="tree")
        make(horizon=500, budget=None)


# (K, d, T, epsilon, delta) and regret over that of uniform play: docs/bandits.md, reproduce.md.
MEASURED = [
    (2, 10, 10_000, 1.0, 1e-6, 0.47),
    (2, 50, 10_000, 1.0, 1e-6, 0.88),
    (2, 50, 10_000, 8.0, 1e-6, 0.62),
    (2, 50, 100_000, 1.0, 1e-6, 0.52),
    (5, 50, 100_000, 1.0, 1e-6, 0.27),
    (2, 50, 10_000, 1.0, 1e-4, 0.86),
    (5, 50, 10_000, 1.0, 1e-4, 0.95),
    (5, 50, 10_000, 8.0, 1e-4, 0.75),
]


@pytest.mark.parametrize(("arms", "d", "rounds", "epsilon", "delta", "share"), MEASURED)
def test_the_warning_is_for_what_measured_next_to_random_play(
    arms, d, rounds, epsilon, delta, share
):
    budget = dpoco.Budget(epsilon, delta)
    p = calibrate(arms, LpBall(d, 1.0), rounds, budget)
    assert p.forecast.noise_dominates == (share > 0.85)


@pytest.mark.parametrize("arm_learner", ["polyhedral", "tree"])
def test_all_rounds_of_a_person(arm_learner):
    """Records restate them; farther apart is less, and less than a group; forced rounds count."""
    one = accountant.guarantee(3, BALL, calibrate(arm_learner=arm_learner), budget=BUDGET)
    spent = [one.epsilon]
    for separation in (1000, 100, 1):
        mine = one.for_person(3, separation)
        assert dpoco.Guarantee.from_json(mine.to_json()) == mine
        mine.verify()
        assert any("may depend on releases" in text for text in mine.conditions)
        assert mine.view == "others"
        spent.append(mine.epsilon)
    assert spent == sorted(spent)
    assert spent[1] < spent[-1] * 0.95
    assert mine.rho <= 9 * one.rho * (1 + 1e-9)
    few, many = (
        accountant.guarantee(
            3,
            BALL,
            calibrate(arm_learner=arm_learner, forced_rounds=forced, batch=10),
            budget=BUDGET,
        ).for_person(3, 200)
        for forced in (10, 500)
    )
    assert few.rho < many.rho
    old = json.loads(one.to_json())
    del old["description"]["forced"]  # a record that is older than the field
    with pytest.raises(ValueError, match="nothing is proved"):
        dpoco.Guarantee.from_dict(old).for_person(3, 100)
