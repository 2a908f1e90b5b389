"""Calibrated selections keep to their budgets to the last bit; parameters are plain and checked."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.published import planned

import dpoco
from dpoco.accounting import above_threshold, epoch_selector, noisy_max, shift_detector
from dpoco.experts import EpochSelector, ShiftDetector
from dpoco.mechanisms import AboveThreshold, NoisyMax

PURE = dpoco.Budget(1.0, 0.0)


def budgets(count, seed, deltas=(0.0,)):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield dpoco.Budget(math.exp(rng.uniform(-7.0, 4.0)), float(rng.choice(deltas))), rng


def keeps(guarantee, budget):
    guarantee.require(budget)
    if budget.delta == 0.0:
        assert budget.epsilon * (1.0 - 1e-12) <= guarantee.epsilon <= budget.epsilon


def test_noisy_max_keeps_to_any_pure_budget():
    # So many, because a rounding that was wrong once showed in 4 of 6,000 budgets.
    for index, (budget, rng) in enumerate(budgets(6000, 0)):
        options = {"horizon": int(rng.choice([1, 3, 5, 7, 10, 49, 100, 1000]))}
        options["noise"] = str(rng.choice(["exponential", "gumbel", "laplace"]))
        options["sensitivity"] = float(rng.choice([1.0, rng.uniform(0.1, 3.0)]))
        p = noisy_max.calibrate(5, budget=budget, **options)
        keeps(noisy_max.guarantee(p, budget=budget), budget)
        if index % 50 == 0:
            NoisyMax(5, budget=budget, plan=p, **{"sensitivity": 1.0, **options})


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
@pytest.mark.parametrize("noise", ["exponential", "gumbel"])
def test_noisy_max_keeps_to_any_budget_with_delta(noise):
    for budget, rng in budgets(60, 1, deltas=(1e-30, 1e-20, 1e-6, 1e-3, 0.5, 0.9)):
        for horizon in (1, int(rng.choice([2, 49, 300]))):
            p = noisy_max.calibrate(5, horizon=horizon, budget=budget, noise=noise)
            g = noisy_max.guarantee(p, budget=budget)
            keeps(g, budget)
            assert g.epsilon <= budget.epsilon * (1.0 + 1e-9)


def test_thresholds_keep_to_any_budget():
    for index, (budget, rng) in enumerate(budgets(4000, 2)):
        options = {
            "horizon": int(rng.choice([1, 10, 1000])),
            "alarms": int(rng.choice([1, 2, 3, 7, 50])),
            "sensitivity": float(rng.uniform(0.1, 3.0)),
            "false_alarm": float(rng.choice([0.05, 0.999])),
        }
        p = above_threshold.calibrate(budget=budget, **options)
        keeps(above_threshold.guarantee(p, budget=budget), budget)
        if index % 50 == 0:
            AboveThreshold(budget=budget, plan=p, **{"sensitivity": 1.0, **options})


def test_learners_keep_to_any_budget():
    for index, (budget, rng) in enumerate(budgets(3000, 3)):
        options = {
            "horizon": int(rng.choice([4, 100, 10**6])),
            "select_share": float(
                rng.choice([0.1, 0.3, 0.999, 1.0 - 1e-13, 1.0 - 1e-15, rng.random()])
            ),
        }
        p = planned(shift_detector, 5, budget=budget, **options)
        keeps(shift_detector.guarantee(p, budget=budget), budget)
        q = epoch_selector.calibrate(5, horizon=None, budget=budget)
        keeps(epoch_selector.guarantee(q, budget=budget), budget)
        if index % 50 == 0:
            ShiftDetector(5, horizon=options["horizon"], budget=budget, plan=p)
            EpochSelector(5, horizon=None, budget=budget, plan=q)


def test_pure_privacy_is_not_forgotten_beside_concentration():
    budget = dpoco.Budget(1.0, 1e-6)
    p = noisy_max.calibrate(5, horizon=200, budget=budget)
    g = noisy_max.guarantee(p, budget=budget)
    assert g.rho is not None
    each = 2.0 / p.mechanism.scale
    assert math.isclose(g.epsilon_at(0.0), 200 * each)
    assert g.epsilon_at(1e-60) <= 200 * each * (1.0 + 1e-12)
    assert dpoco.Guarantee.from_json(g.to_json()) == g
    NoisyMax(5, horizon=200, budget=dpoco.Budget(3.2, 0.0), plan=p, sensitivity=1.0)


def test_extreme_budgets_are_refused_in_words_or_met():
    for refused in (
        lambda b: noisy_max.calibrate(5, budget=b),
        lambda b: above_threshold.calibrate(horizon=10, budget=b),
        lambda b: epoch_selector.calibrate(5, horizon=10, budget=b),
        lambda b: shift_detector.calibrate(5, horizon=10, budget=b),
        lambda b: planned(shift_detector, 5, horizon=10, budget=b, calibration="paper"),
    ):
        for epsilon in (5e-324, 1e-306, 1e-203):
            with pytest.raises(dpoco.CalibrationError, match="smallest epsilon"):
                refused(dpoco.Budget(epsilon, 0.0))
        for epsilon in (1e-150, 1e150, 1e306):
            refused(dpoco.Budget(epsilon, 0.0))
    huge = dpoco.Budget(1e300, 0.0)
    p = noisy_max.calibrate(5, budget=huge, sensitivity=1e-100)  # their quotient is 0
    assert p.mechanism.scale > 0.0
    assert noisy_max.guarantee(p, budget=huge).epsilon <= 1e300


def test_alarms_may_be_as_rare_as_any():
    rare = shift_detector.calibrate(5, horizon=10, budget=PURE, false_alarm=1e-100)
    assert math.isfinite(rare.tuning.threshold)
