"""Calibration of CTRL: the table of regret bounds, budgets met exactly, every kind of loss."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest

from dpoco.accounting import Budget
from dpoco.accounting import coupled_regularized_leader as accountant
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import (
    CustomLoss,
    HuberLoss,
    LinearLoss,
    LogisticLoss,
    QuadraticLoss,
    SquaredLoss,
)

DELTA = 1e-6
# (T, d, epsilon) -> bound per round in units of G D, smoothness G/D, general Hessians.
TIGHT = {
    (10**4, 2, 0.5): 0.0322, (10**4, 2, 1): 0.0213, (10**4, 2, 4): 0.00944,
    (10**4, 50, 0.5): 0.0793, (10**4, 50, 1): 0.0573, (10**4, 50, 4): 0.0305,
    (10**5, 2, 0.5): 0.0079, (10**5, 2, 1): 0.00517, (10**5, 2, 4): 0.00233,
    (10**5, 10, 0.5): 0.0142, (10**5, 10, 1): 0.00966, (10**5, 10, 4): 0.0041,
    (10**6, 2, 1): 0.00126, (10**6, 2, 4): 0.000619, (10**6, 10, 1): 0.00222,
    (10**6, 10, 4): 0.000962, (10**6, 50, 1): 0.0043, (10**6, 50, 4): 0.00191,
    (10**7, 2, 0.5): 0.00046, (10**7, 2, 1): 0.000295, (10**7, 10, 0.5): 0.000813,
    (10**7, 10, 1): 0.000532, (10**7, 50, 0.5): 0.00152, (10**7, 50, 1): 0.00102,
}  # fmt: skip
GENERAL = CustomLoss(1.0, 1.0)


def ball(d):
    return LpBall(d, 2.0, 0.5)


def plan(horizon, d, epsilon, delta=DELTA, loss=GENERAL, **options):
    return accountant.calibrate(
        ball(d), loss, horizon=horizon, budget=Budget(epsilon, delta), **options
    )


@pytest.mark.parametrize("row", TIGHT)
def test_tight_bounds_of_the_table(row):
    horizon, d, epsilon = row
    parameters = plan(horizon, d, epsilon)
    assert parameters.regret_bound / horizon <= 1.05 * TIGHT[row]
    guarantee = accountant.guarantee(ball(d), GENERAL, parameters, budget=DELTA)
    assert 0.99 * epsilon <= guarantee.epsilon <= epsilon
    assert guarantee.delta_at(epsilon) <= DELTA
    # A user's own constants are taken on trust, which is no certainty.
    assert guarantee.certified is ("ASSUMED" not in " ".join(guarantee.conditions))
    assert any("ASSUMED" in text for text in guarantee.conditions)
    hotter = dataclasses.replace(parameters, noise_scale=0.98 * parameters.noise_scale)
    assert accountant.guarantee(ball(d), GENERAL, hotter, budget=DELTA).epsilon > epsilon


def test_short_horizons():
    for d, listed in ((2, 0.28), (10, 0.43)):
        assert plan(100, d, 1.0).regret_bound / 100 <= 1.05 * listed
    # Here the bound of any noise exceeds 1/2: the constant decision.
    constant = plan(100, 50, 1.0)
    assert constant.max_switches == 0
    assert constant.block == 100
    assert constant.regret_bound / 100 == pytest.approx(0.5)
    guarantee = accountant.guarantee(ball(50), GENERAL, constant, budget=DELTA)
    assert (guarantee.epsilon, guarantee.delta) == (0.0, 0.0)
    assert guarantee.certified  # nothing depends on the data, whatever the user's constants
    assert any("constant decision" in text for text in guarantee.conditions)


def test_smaller_deltas():
    for horizon, delta, listed in ((10**4, 1e-8, 0.0239), (10**6, 1e-12, 0.0016)):
        assert plan(horizon, 2, 1.0, delta).regret_bound / horizon <= 1.05 * listed


def test_bounds_improve_with_the_budget_and_are_deterministic():
    bounds = [plan(10**5, 5, e).regret_bound for e in (0.01, 0.1, 0.5, 1.0, 2.0, 8.0)]
    assert all(a > b for a, b in itertools.pairwise(bounds))
    assert plan(10**5, 5, 1.0, relation="zero_out").regret_bound < bounds[3]
    assert plan(10**5, 5, 1.0) == plan(10**5, 5, 1.0)


def test_rank_one_losses_cost_less_and_linear_ones_least():
    general = plan(10**5, 20, 1.0, loss=CustomLoss(1.0, 20.0))
    smooth = plan(10**5, 20, 1.0)
    linear = plan(10**5, 20, 1.0, loss=LinearLoss(1.0))
    assert linear.regret_bound < smooth.regret_bound < general.regret_bound
    assert linear.barrier_weight == 0.0
    assert linear.rank == 0
    exact = accountant.guarantee(ball(20), LinearLoss(1.0), linear, budget=DELTA)
    assert exact.profile["kind"] == "gaussian"
    assert not any("residual" in text for text in exact.conditions)
    glm = accountant.calibrate(
        ball(20), LogisticLoss(1.0), horizon=10**5, budget=Budget(1.0, DELTA)
    )
    assert glm.rank == 1
    report = accountant.guarantee(ball(20), LogisticLoss(1.0), glm, budget=DELTA)
    assert report.profile["kind"] == "renyi"
    assert any("residual" in text for text in report.conditions)
    assert not any("ASSUMED" in text for text in report.conditions)


@pytest.mark.parametrize("relation", ["replace", "zero_out"])
@pytest.mark.parametrize("coupling", ["density_ratio", "scheduled"])
def test_domains_and_losses(coupling, relation):
    budget = Budget(1.0, DELTA)
    domains = (Box([0.0] * 3, [1.0, 2.0, 3.0]), Simplex(4), LpBall(3, 4.0, 2.0))
    losses = (LogisticLoss(1.0), HuberLoss(1.0), SquaredLoss(0.5), QuadraticLoss(2.0, 1.0))
    for domain, loss in zip((*domains, domains[0]), losses, strict=True):
        p = accountant.calibrate(
            domain, loss, horizon=10**6, budget=budget, coupling=coupling, relation=relation
        )
        assert p.coupling == coupling
        assert p.barrier_weight > 0.0
        guarantee = accountant.guarantee(domain, loss, p, budget=budget)
        guarantee.require(budget)
        assert guarantee.sensitivity == (2.0 if relation == "replace" else 1.0) * p.lipschitz


def test_barrier_weights():
    """Barrier at most G D on the domain shrunk by 1 - 1/T, met where the formula is exact."""
    horizon, shrink = 1000, 1.0 - 1.0 / 1000
    budget = None
    d2 = accountant.calibrate(LpBall(2, 2.0, 1.0), CustomLoss(1.0, 1.0), horizon=horizon,
                              budget=budget)  # fmt: skip
    assert d2.barrier_weight == pytest.approx(0.32179649, rel=1e-7)
    assert -d2.barrier_weight * math.log(1.0 - shrink**2) == pytest.approx(2.0)
    box = accountant.calibrate(Box([-1.0] * 3, [1.0] * 3), QuadraticLoss(1.0, 1.0),
                               horizon=horizon, budget=budget)  # fmt: skip
    corner = -box.barrier_weight * 3 * math.log(1.0 - shrink**2)
    assert corner == pytest.approx(2.0 * math.sqrt(3.0))
    simplex = accountant.calibrate(Simplex(4, 1.0), QuadraticLoss(1.0, 1.0), horizon=horizon,
                                   budget=budget)  # fmt: skip
    slacks = [1.0 / 4.0 * (1.0 - shrink)] * 3 + [1.0 / 4.0 + shrink * 0.75]
    vertex = -simplex.barrier_weight * sum(math.log(4.0 * s) for s in slacks)
    assert vertex <= math.sqrt(2.0)
    with pytest.raises(ValueError, match="p < 2"):
        accountant.calibrate(LpBall(3, 1.5), GENERAL, horizon=10, budget=None)


def test_unbounded_decisions():
    budget = Budget(1.0, DELTA)
    for loss in (LogisticLoss(1.0), HuberLoss(1.0), LinearLoss(1.0)):
        p = accountant.calibrate(ball(2), loss, horizon=10**6, budget=budget, unbounded=True)
        assert p.barrier_weight == 0.0
        accountant.guarantee(ball(2), loss, p, budget=budget).require(budget)
    for loss in (SquaredLoss(1.0), QuadraticLoss(1.0, 1.0), GENERAL):
        with pytest.raises(ValueError, match="R\\^d"):
            accountant.calibrate(ball(2), loss, horizon=100, budget=budget, unbounded=True)
