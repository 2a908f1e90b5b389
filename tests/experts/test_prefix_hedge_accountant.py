"""Accounting of Hedge on noisy sums: closed forms, a second accountant, brute force, regret."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

import dpoco
from dpoco.accounting import continual_sum, prefix_hedge
from dpoco.accounting.prefix_hedge import (
    HedgeRun,
    expected_maximum,
    guarantee,
    regret,
)
from dpoco.experts import PrefixHedge
from dpoco.privacy.mechanisms.bounds import CentredLosses
from dpoco.privacy.neighbours import Neighbours

BUDGET = dpoco.Budget(1.0, 1e-6)
# Closed forms are those of real numbers; what a lattice adds is tests/mechanisms/test_lattice.py's.
calibrate = partial(prefix_hedge.calibrate, numerics="float")


@pytest.mark.parametrize("experts", range(1, 9))
def test_sensitivity_is_the_diameter_of_the_cube_without_its_mean(experts):
    # The distance is convex, so its maximum is at corners.
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=experts)))
    rows = corners - corners.mean(axis=1, keepdims=True)
    distances = np.linalg.norm(rows[:, None, :] - rows[None, :, :], axis=2)
    reach = CentredLosses(experts).movement(Neighbours())
    assert distances.max() <= reach == pytest.approx(distances.max(), rel=2e-12, abs=1e-300)


# -- regret ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("experts", "value"), [(10, 365.41), (100, 773.42)])
def test_regret_bound_at_a_hundred_thousand_rounds(experts, value):
    rounds = 10**5
    variance = experts * (4.2246789 * 4.730953) ** 2
    plain = math.sqrt(math.log(experts) * (0.5 * rounds + 2.0 * variance))
    assert plain == pytest.approx(value, abs=0.02)
    p = calibrate(experts, horizon=rounds, budget=BUDGET, sum_method="blt")
    assert (
        calibrate(experts, horizon=10**5, budget=BUDGET).forecast.regret_bound
        < p.forecast.regret_bound
    )
    assert p.forecast.regret_scope == "oblivious"
    # Ours leaves out the common shift of the noise and adds the rounding to a grid.
    noise = 2.0 * variance * (1.0 - 1.0 / experts)
    grid = rounds * continual_sum.release_grid(p.mechanism.scale)
    mine = math.sqrt(math.log(experts) * (0.5 * rounds + noise + grid))
    assert p.forecast.regret_bound == pytest.approx(mine, rel=1e-3)
    assert p.forecast.regret_bound < 1.01 * plain
    assert p.forecast.regret_bound == pytest.approx(math.fsum(regret(p).terms.values()), rel=1e-12)


def test_expected_maximum():
    assert expected_maximum(1) == 0.0
    assert expected_maximum(2) == pytest.approx(1.0 / math.sqrt(math.pi), rel=1e-8)
    assert expected_maximum(3) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-8)
    assert expected_maximum(10) == pytest.approx(1.5387527, rel=1e-6)
    draws = np.random.default_rng(0).normal(size=(4000, 1000)).max(axis=1)
    error = draws.std() / math.sqrt(len(draws))
    assert abs(expected_maximum(1000) - draws.mean()) < 5.0 * error
    assert all(0.0 < expected_maximum(n) <= math.sqrt(2 * math.log(n)) for n in (2, 10**6, 2**32))


@pytest.mark.parametrize("method", continual_sum.METHODS)
@pytest.mark.parametrize(("experts", "rounds"), [(2, 1000), (10, 4000), (300, 4000)])
def test_the_learning_rate_is_the_best_one(method, experts, rounds):
    for budget in (BUDGET, dpoco.Budget(20.0, 1e-6), None):
        p = calibrate(experts, horizon=rounds, budget=budget, sum_method=method)
        run = HedgeRun(experts, rounds, method, p.mechanism.scale)
        assert p.tuning.learning_rate == run.best_learning_rate()
        for factor in (0.5, 0.98, 1.02, 2.0):
            assert run.regret(factor * p.tuning.learning_rate).total >= p.forecast.regret_bound * (
                1 - 1e-9
            )
        own = calibrate(
            experts, horizon=rounds, budget=budget, sum_method=method, learning_rate=0.01
        )
        assert own.tuning.learning_rate == 0.01
        assert own.mechanism.scale == p.mechanism.scale
        assert own.forecast.regret_bound == run.regret(0.01).total


def test_without_a_budget_it_is_hedge():
    p = calibrate(10, horizon=1000, budget=None)
    assert p.forecast.regret_scope == "adaptive"
    assert p.tuning.learning_rate == pytest.approx(math.sqrt(8 * math.log(10) / 1000))
    assert p.forecast.regret_bound == pytest.approx(math.sqrt(500 * math.log(10)))
    g = guarantee(p)
    assert not g.private
    assert g.regret_bound == p.forecast.regret_bound


def test_noise_terms_are_true_for_the_exact_expectation():
    """Two experts: the expected regret is a sum of one-dimensional integrals."""
    from numpy.polynomial.hermite_e import hermegauss

    nodes, masses = hermegauss(200)
    masses = masses / masses.sum()
    rounds = 200
    for method, epsilon in itertools.product(
        ("blt", "blt_normalised", "toeplitz", "tree"), (2.0, 20.0)
    ):
        p = calibrate(2, horizon=rounds, budget=dpoco.Budget(epsilon, 1e-6), sum_method=method)
        deviations = p.mechanism.scale * continual_sum.row_norm(
            method, np.arange(1, rounds), rounds - 1
        )
        deviations = np.concatenate([[0.0], deviations]) * math.sqrt(2.0)
        worst = 0.0
        for period in (1, 2, 3, 5, 20, 400):
            first = (np.arange(rounds) // period % 2).astype(float)
            gap = np.concatenate([[0.0], np.cumsum(2.0 * first - 1.0)[:-1]])
            noisy = gap[:, None] + deviations[:, None] * nodes[None, :]
            chance = (1.0 / (1.0 + np.exp(p.tuning.learning_rate * noisy))) @ masses
            loss = chance @ first + (1.0 - chance) @ (1.0 - first)
            worst = max(worst, loss - min(first.sum(), rounds - first.sum()))
        assert worst <= p.forecast.regret_bound
        if method == "blt":
            assert worst > 0.2 * p.forecast.regret_bound


# -- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("experts", "rounds"), [(1, 1), (1, 100), (5, 1)])
@pytest.mark.parametrize("budget", [BUDGET, dpoco.Budget(0.1, 0.0), None])
def test_one_expert_or_one_round_is_perfectly_private(experts, rounds, budget):
    p = calibrate(experts, horizon=rounds, budget=budget)
    assert p.mechanism.scale == 0.0
    g = guarantee(p, budget=budget)
    assert (g.epsilon, g.delta, g.delta_at(0.0), g.epsilon_at(0.0)) == (0.0, 0.0, 0.0, 0.0)
    assert g.certified


def test_bad_arguments():
    for wrong in (
        dict(horizon=None),
        dict(sum_method="toeplitz", horizon=10**6),
    ):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))}|^method"):
            calibrate(3, **{"horizon": 10, "budget": BUDGET, **wrong})
    for impossible in (dpoco.Budget(1.0, 0.0), dpoco.Budget(1.0, 1e-18)):
        with pytest.raises(dpoco.CalibrationError):
            calibrate(10, horizon=1000, budget=impossible)
    with pytest.raises(ValueError, match="experts"):
        PrefixHedge(4, horizon=10, budget=BUDGET, plan=calibrate(5, horizon=10, budget=BUDGET))


def test_auto_changes_the_sum_only_for_a_clear_gain():
    plans = [calibrate(10, horizon=t, budget=BUDGET) for t in (2, 5, 100, 10**4, 10**6)]
    chosen = [continual_sum.method_name(plan.mechanism.factorisation) for plan in plans]
    assert set(chosen[2:]) == {"blt_normalised"}
    assert calibrate(10, horizon=100, budget=BUDGET, sum_method="auto") == calibrate(
        10, horizon=100, budget=BUDGET
    )
