"""Plans of the coupled learners as values: round trips, refusals, what is recomputed."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tests.plans import coupled, recoupled
from tests.published import planned

import dpoco
from dpoco.accounting import Budget
from dpoco.accounting import continuous_multiplicative_weights as comw
from dpoco.accounting import coupled_regularized_leader as ctrl
from dpoco.accounting.coupled_runs import euclidean_problem
from dpoco.domains import Box, LpBall, Simplex
from dpoco.errors import CalibrationError
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss

BALL, BUDGET = LpBall(3, 2.0, 1.0), Budget(1.0, 1e-6)
LEARNERS = [(comw, LinearLoss(1.0)), (ctrl, CustomLoss(1.0, 1.0))]


def plans(module, loss):
    yield module.calibrate(BALL, loss, horizon=10**5, budget=BUDGET)
    yield module.calibrate(BALL, loss, horizon=10**5, budget=BUDGET, coupling="scheduled")
    yield planned(module, BALL, loss, horizon=10**5, budget=BUDGET, calibration="paper")
    yield module.calibrate(BALL, loss, horizon=10, budget=BUDGET)
    yield module.calibrate(BALL, loss, horizon=1, budget=BUDGET)
    yield module.calibrate(BALL, loss, horizon=1000, budget=None)
    yield module.calibrate(BALL, loss, horizon=1000, budget=None, max_switches=50)


def restored(plan):
    record = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    return dpoco.Plan.from_dict(record, type(plan.tuning), comw.CoupledForecast)


@pytest.mark.parametrize(("module", "loss"), LEARNERS)
def test_round_trips(module, loss):
    for p in plans(module, loss):
        assert restored(p) == p
        guarantee = module.guarantee(BALL, loss, p, budget=BUDGET)
        bound, q = p.forecast.regret_bound, euclidean_problem(BALL, loss)
        terms = [v for name, v in guarantee.details.items() if name.startswith("regret_")]
        assert math.fsum(terms) == pytest.approx(bound, rel=1e-12)
        assert guarantee.private == (p.mechanism.cap is not None)
        most = q.lipschitz * q.diameter * p.mechanism.rounds  # of any decisions
        assert guarantee.regret_bound == pytest.approx(min(bound, most), rel=1e-12)
        assert "Regret" in str(guarantee)


@pytest.mark.parametrize(("module", "loss"), LEARNERS)
def test_more_switches_cost_more(module, loss):
    p = module.calibrate(BALL, loss, horizon=10**5, budget=BUDGET)
    honest = module.guarantee(BALL, loss, p, budget=BUDGET)
    more = recoupled(p, max_switches=p.mechanism.cap * 2)
    if more.mechanism.cap <= p.mechanism.decisions:
        assert module.guarantee(BALL, loss, more, budget=BUDGET).epsilon > honest.epsilon
    default = module.guarantee(BALL, loss, p)
    assert default.delta == pytest.approx(1e-6)
    with pytest.raises(ValueError, match="delta"):
        module.guarantee(BALL, loss, p, budget=2.0)


def test_guarantees_refuse_what_no_theorem_covers():
    p = comw.calibrate(
        BALL, LinearLoss(1.0), horizon=10**5, budget=BUDGET, coupling="density_ratio"
    )
    with pytest.raises(ValueError, match="smoothness"):
        comw.guarantee(BALL, HuberLoss(1.0, 1.0, threshold=1.0), p)
    with pytest.raises(ValueError, match="linear losses and a known body"):
        recoupled(comw.calibrate(Simplex(3), LinearLoss(1.0), horizon=100, budget=BUDGET),
                  coupling="density_ratio", forced_switch=0.5, clip_high=0.1)  # fmt: skip
    leader = ctrl.calibrate(BALL, LinearLoss(1.0), horizon=10**5, budget=BUDGET)
    with pytest.raises(ValueError, match="barrier_weight"):
        ctrl.guarantee(BALL, LinearLoss(1.0), recoupled(leader, barrier_weight=1.0))


def test_nothing_released_costs_nothing():
    for module, loss in LEARNERS:
        for horizon, block in ((1, None), (50, 50)):
            p = module.calibrate(BALL, loss, horizon=horizon, budget=BUDGET, block=block)
            guarantee = module.guarantee(BALL, loss, p, budget=BUDGET)
            assert (guarantee.epsilon, guarantee.delta) == (0.0, 0.0)
            q = euclidean_problem(BALL, loss)
            assert guarantee.regret_bound <= q.lipschitz * q.radius * horizon * (1 + 1e-8)


@pytest.mark.parametrize(("module", "loss"), LEARNERS)
def test_lazy_modes_keep_their_switches(module, loss):
    bounds = []
    for limit in (3, 30, 300, 3000):
        p = coupled(module.calibrate(BALL, loss, horizon=10**4, budget=None, max_switches=limit))
        assert p.expected_switches <= limit * (1 + 1e-9)
        assert not p.private
        bounds.append(p.regret_bound)
    assert sorted(bounds, reverse=True) == bounds
    always = coupled(module.calibrate(BALL, loss, horizon=10**4, budget=None, max_switches=10**4))
    base = coupled(module.calibrate(BALL, loss, horizon=10**4, budget=None))
    assert base.coupling == "scheduled"
    assert base.block == 1
    assert always.regret_bound <= base.regret_bound * 1.001
    assert base.regret_bound <= 1.03 * 100.0 + 4.0
    with pytest.raises(CalibrationError):
        module.calibrate(
            BALL, loss, horizon=100, budget=None, max_switches=5, coupling="scheduled", block=2
        )


def gradients(loss, domain, generator):
    for _ in range(150):
        theta = domain.project(generator.normal(size=domain.dimension) * 3.0)
        x = generator.normal(size=domain.dimension)
        norm = np.linalg.norm(x, domain.dual_exponent)
        yield theta, x * (loss.feature_bound / norm)


@pytest.mark.parametrize("domain", [BALL, Box([-1.0] * 3, [1.0] * 3), LpBall(3, 4.0), Simplex(3)])
def test_constants_are_euclidean(domain):
    generator = np.random.default_rng(11)
    for loss in (LogisticLoss(1.5), HuberLoss(1.5, 1.0), SquaredLoss(1.5, 1.0)):
        problem = euclidean_problem(domain, loss)
        assert problem.rank == 1
        steepest = curved = 0.0
        for theta, x in gradients(loss, domain, generator):
            label = generator.choice(loss.label_range)
            slope = np.linalg.norm(loss.gradient(theta, x, label))
            steepest = max(steepest, slope)
            other = domain.project(theta + 1e-4 * generator.normal(size=3))
            gap = np.linalg.norm(other - theta)
            if gap > 1e-7:
                change = loss.gradient(other, x, label) - loss.gradient(theta, x, label)
                curved = max(curved, np.linalg.norm(change) / gap)
        assert 0.2 * problem.lipschitz < steepest <= problem.lipschitz * (1 + 1e-9)
        assert 0.1 * problem.smoothness < curved <= problem.smoothness * (1 + 1e-6)
    assert euclidean_problem(domain, LinearLoss(9.0, gradient_bound_l2=0.5)).lipschitz == 0.5
    assert problem.dimension == (2 if isinstance(domain, Simplex) else 3)
    assert problem.radius <= problem.diameter <= 2 * problem.radius * (1 + 1e-12)


def test_declared_bounds_are_stretched():
    simplex = Simplex(4)
    custom = euclidean_problem(simplex, CustomLoss(1.0, 1.0))
    assert (custom.lipschitz, custom.smoothness) == (pytest.approx(2.0), pytest.approx(4.0))
    assert not custom.enforced
    assert custom.rank == 3
    quadratic = euclidean_problem(simplex, QuadraticLoss(1.0, 3.0, strong_convexity=0.5))
    assert (quadratic.lipschitz, quadratic.smoothness) == (1.0, 3.0)
    assert quadratic.strong_convexity == 0.5
    assert euclidean_problem(LpBall(4, math.inf), LinearLoss(1.0)).shape == "box"


@pytest.mark.parametrize(("module", "loss"), LEARNERS)
def test_a_cap_below_the_number_of_blocks_costs_regret(module, loss):
    p = module.calibrate(BALL, loss, horizon=10**4, budget=BUDGET, coupling="scheduled")
    few = recoupled(p, max_switches=p.mechanism.decisions - 1)
    stated = [module.guarantee(BALL, loss, each).regret_bound for each in (p, few)]
    q = euclidean_problem(BALL, loss)
    assert stated[0] < 0.5 * stated[1] == 0.5 * q.lipschitz * q.diameter * p.mechanism.rounds
