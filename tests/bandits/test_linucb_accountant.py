"""Accounting of private LinUCB: closed forms, a second accountant, confidence, regret."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.plans import changed, linear_arms

import dpoco
from dpoco.accounting import continual_sum, linucb
from dpoco.accounting.linucb import find_leading_term, guarantee
from dpoco.bandits import LinUCB
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.neighbours import Neighbours

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
# Closed forms are those of real numbers; what a lattice adds is tests/mechanisms/test_lattice.py's.
calibrate = partial(linucb.calibrate, numerics="float")


def sensitivity(reach, top, weight, change="replace"):
    moments = SecondMoments(3, 2.0, reach, math.inf, top, weight, arms=2)
    return moments.movement(Neighbours(change))


@pytest.mark.parametrize(("reach", "top"), [(1.0, 1.0), (2.0, 0.5), (1.0, 3.0)])
def test_records_move_the_sums_by_at_most_what_is_printed(reach, top):
    # The matrix z z', z = (x, r), of which an entry off the diagonal stands twice.
    printed = math.sqrt(2.0) * (reach**2 + top**2)
    moved = printed if top <= reach else 2.0 * math.sqrt(2.0) * reach * top
    assert moved <= printed
    assert sensitivity(reach, top, math.sqrt(2.0)) == pytest.approx(moved, rel=2e-12)


def test_an_emptied_record_moves_less():
    # Without r^2 in the sums by more than the factor sqrt(2) of z z'.
    both = [sensitivity(1.0, 1.0, math.sqrt(2.0), r) for r in ("replace", "zero_out")]
    assert both == pytest.approx([2.0 * math.sqrt(2.0), math.sqrt(3.0)])
    noise = [
        calibrate(
            2, 3, horizon=100, budget=BUDGET, reward_weight=math.sqrt(2.0), batch=1, relation=r
        ).mechanism.scale
        for r in ("replace", "zero_out")
    ]
    assert noise[0] / noise[1] == pytest.approx(both[0] / both[1], rel=1e-12)


def test_extremes():
    for arms, d in ((1, 1), (3, 2)):
        p = calibrate(arms, d, horizon=1, budget=dpoco.Budget(0.1, 0.0))
        g = guarantee(arms, d, p)
        assert (g.epsilon, g.delta, p.mechanism.scale) == (0.0, 0.0, 0.0)
    none = guarantee(2, 2, calibrate(2, 2, horizon=10, budget=None))
    assert not none.private
    assert none.regret_bound is not None
    assert calibrate(2, 2, horizon=10, budget=None).mechanism.batch == 1
    assert calibrate(1, 2, horizon=10, budget=BUDGET).forecast.regret_bound == 0.0
    # Below 1 nothing is proved of exploration: what is stated holds of any play.
    options = {"horizon": 10**6, "budget": dpoco.Budget(8.0, 1e-6), "parameter_bound": 0.5}
    tenth, whole = (calibrate(2, 2, **options, **more) for more in ({}, {"exploration": 1.0}))
    assert tenth.tuning.exploration == 0.1
    assert linear_arms(tenth).regret_terms == {"trivial": 10.0**6}
    assert guarantee(2, 2, tenth).regret_bound == tenth.forecast.regret_bound == 10.0**6
    assert "no useful bound" in str(guarantee(2, 2, tenth))
    assert "no useful bound" not in str(guarantee(2, 2, whole))
    assert whole.forecast.regret_bound < 0.5 * tenth.forecast.regret_bound
    assert whole.mechanism == tenth.mechanism


def test_parameters_are_for_their_sizes():
    p = calibrate(4, 5, horizon=1000, budget=BUDGET)
    with pytest.raises(ValueError, match="the plan is for 4 arms"):
        guarantee(3, 5, p)
    summand = p.mechanism.summand
    for wrong in (
        changed(p, pushes=p.mechanism.pushes - 1),
        changed(p, summand=replace(summand, rounding=1.0)),
        changed(p, summand=replace(summand, features_l2=0.5)),
        replace(p, tuning=replace(p.tuning, horizon=10**6)),
    ):
        with pytest.raises(ValueError, match="not those of LinUCB"):
            guarantee(4, 5, wrong)
    for wrong in ({"failure": 1.0}, {"reward_noise": 1e40}, {"parameter_bound": 1e-40}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(p.tuning, **wrong)
    with pytest.raises(ValueError, match="context_bound"):
        guarantee(4, 5, changed(p, summand=replace(summand, features=1e31, label=1e30)))
    other = dpoco.experts.PrefixHedge(4, horizon=9, budget=None).plan
    with pytest.raises(TypeError, match="LinUCB"):
        LinUCB(4, 5, horizon=1000, budget=None, plan=other, context_bound=1.0, reward_bound=1.0)


def test_calibration_prefers_batches_that_cost_nothing():
    p = calibrate(3, 10, horizon=100_000, budget=BUDGET)
    q = 1.0 / p.tuning.regularization
    assert p.mechanism.batch >= 8
    assert (p.mechanism.batch - 1) * q <= 0.1
    single = calibrate(3, 10, horizon=100_000, budget=BUDGET, batch=1)
    own = linear_arms(p)
    assert own.noise_margin < linear_arms(single).noise_margin
    assert own.noise_margin == own.regularization
    assert find_leading_term(p.mechanism, p.tuning) < find_leading_term(
        single.mechanism, single.tuning
    )


def test_scales_of_rewards_do_not_matter():
    # Rewards in other units are the same problem: weight, noise and margin follow.
    one = calibrate(3, 4, horizon=5000, budget=BUDGET, parameter_bound=1.0)
    cents = calibrate(3, 4, horizon=5000, budget=BUDGET, reward_bound=100.0, parameter_bound=100.0)
    one, cents = linear_arms(one), linear_arms(cents)
    assert cents.reward_weight == pytest.approx(one.reward_weight / 100.0)
    assert cents.noise_scale == pytest.approx(one.noise_scale)
    assert cents.regret_bound == pytest.approx(100.0 * one.regret_bound)


def test_confidence_by_closed_form():
    p = calibrate(
        2, 3, horizon=65, budget=BUDGET, batch=1, failure=0.01, regularization=50.0,
        reward_weight=1.3, reward_noise=0.4, parameter_bound=2.0, context_bound=1.5,
    )  # fmt: skip
    p = linear_arms(p)
    tau = p.noise_scale * float(continual_sum.row_norm(p.sum_method, np.arange(1, 65), 64).max())
    grid = continual_sum.release_grid(p.noise_scale)
    u = math.sqrt(2.0 * math.log(6.0 * 64 * 2 / 0.01))
    s = tau / math.sqrt(2.0)
    margin = s * (2.0 * math.sqrt(3.0) + math.sqrt(2.0) * u) + 0.5 * grid * math.sqrt(6.0)
    gamma = (tau / 1.3 * (math.sqrt(3.0) + u) + 0.5 * grid * math.sqrt(3.0) / 1.3) / math.sqrt(50.0)
    width = 0.4 * math.sqrt(2.0 * math.log(4 / 0.01) + 3 * math.log(1 + 20 * 2.25 / (3 * 50.0)))
    width += 2.0 * math.sqrt(50.0 + 2.0 * margin) + gamma
    confidence = p.confidence
    assert confidence.margin == pytest.approx(margin, rel=1e-12)
    assert confidence.width(20) == pytest.approx(width, rel=1e-12)


@pytest.mark.parametrize("budget", [dpoco.Budget(2.0, 1e-4), None])
def test_confidence_intervals_cover(budget):
    arms, d, rounds, failure = 3, 4, 400, 0.05
    misses, tightest = 0, 0.0
    for seed in range(60):
        world = dpoco.environments.LinearWorld(arms, d, rounds, reward_noise=0.5, seed=seed)
        learner = LinUCB(
            arms, d, horizon=rounds, budget=budget, failure=failure, batch=5, reward_noise=0.5,
            reward_bound=1.5, regularization=None if budget else 1.0,
            source=dpoco.random.Source.seeded(seed), context_bound=1.0
        )  # fmt: skip
        p = linear_arms(learner.plan)
        shift = p.regularization + p.noise_margin
        width = p.confidence
        rows, columns = np.triu_indices(d)
        missed = False
        for start in range(0, rounds, 50):
            learner.run(world.contexts[start : start + 50], world.rewards[start : start + 50])
            count = min(learner.round, rounds - 1) // 5 * 5
            statistics = learner._engine.released().reshape(arms, -1)
            for arm in range(arms):
                matrix = np.zeros((d, d))
                matrix[rows, columns] = matrix[columns, rows] = statistics[
                    arm, : len(rows)
                ] * np.where(rows == columns, 1.0, np.sqrt(0.5))
                off = learner.coefficients[arm] - world.coefficients[arm]
                size = math.sqrt(off @ (matrix + shift * np.eye(d)) @ off)
                missed |= size > width.width(count)
                tightest = max(tightest, size / width.width(count))
        misses += missed
    # P(Binomial(60, 0.05) >= 16) < 1e-7; the widths are not absurdly wide either.
    assert misses < 16
    assert tightest > 0.1
