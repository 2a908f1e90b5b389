"""Tree Frank-Wolfe: noise scales, guarantees of any parameters, published constants."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from tests.plans import changed, leaf

from dpoco.accounting import Budget, Guarantee
from dpoco.accounting import tree_frank_wolfe as accountant
from dpoco.accounting.continual_sum import column_norm, factorisation, row_norm
from dpoco.accounting.frank_wolfe_regret import ErrorForecast
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.plan import Plan
from dpoco.accounting.tree_frank_wolfe import TreeTuning
from dpoco.domains import Box, LpBall, Simplex
from dpoco.errors import CalibrationError, StateError
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss

from .by_hand import both, custom, squared

INF = math.inf
BUDGET = Budget(1.0, 1e-3)

# (d, p, n, epsilon, delta, radius, label bound, blt, tree)
SCALES = [
    (5, 1.5, 1000, 1, 1e-3, 2, 1.25, 79.08480102, 138.40689823),
    (20, 1.5, 10_000, 1, 1e-4, 2, 1.25, 136.41098879, 255.30010057),
    (10, INF, 1000, 1, 1e-3, 2, 1.25, 60.47808423, 105.84314484),
    (50, 1, 10_000, 1, 1e-4, 1, 1.25, 405.31733986, 758.57200761),
    (100, 1.1, 10**6, 2, 1e-6, 1, 1, 273.68496086, 525.03035163),
    (8, 2, 500, 0.5, 1e-5, 1, 1, 98.13812961, 168.76384021),
]


@pytest.mark.parametrize("case", SCALES)
def test_scale_oracles(case):
    d, p, n, epsilon, delta, radius, label, blt, tree = case
    budget = Budget(epsilon, delta)
    domain, loss = LpBall(d, p, radius), squared(label)
    # Truncated tails: tau = n d 2^-64 is charged to delta, visible only where n d is 1e8.
    tolerance = 1e-9 if n * d < 1e7 else 4e-6
    for method, scale in (("blt", blt), ("tree", tree)):
        parameters, guarantee = both(
            domain, loss, budget, horizon=n, sum_method=method, numerics="float"
        )
        assert parameters.mechanism.scale == pytest.approx(scale, rel=tolerance)
        assert leaf(parameters).dual == pytest.approx(2 * (radius + label))
        assert leaf(parameters).slope == pytest.approx(2 * (radius + label))
        reach = guarantee.sensitivity * guarantee.column_norm
        assert parameters.mechanism.scale * guarantee.mu == pytest.approx(reach, rel=1e-14)
        without = reach / gaussian_mu(epsilon, delta)
        assert without == pytest.approx(scale, rel=1e-10)
        assert without <= parameters.mechanism.scale
        assert guarantee.epsilon <= epsilon
        assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-9)
        assert guarantee.delta == delta
        assert guarantee.delta_at(epsilon) <= delta
    auto, _ = both(domain, loss, budget, horizon=n)
    assert auto.mechanism.factorisation.kind == "blt_normalised"
    assert (auto.mechanism.order, auto.tuning.offset) == (2.0, 0)


def test_longer_horizons_and_wider_clips_cost_more():
    domain, loss = LpBall(5, 1.5, 2.0), squared(1.25)
    plan, _ = both(domain, loss, numerics="float")
    method = factorisation("blt_normalised", 2000)
    longer = dataclasses.replace(
        changed(plan, pushes=2000, factorisation=method),
        tuning=dataclasses.replace(plan.tuning, horizon=2000),
    )
    assert accountant.guarantee(domain, loss, longer, budget=BUDGET).epsilon > 1.03
    own = plan.mechanism.summand
    wider = changed(plan, summand=dataclasses.replace(own, slope=13.0))
    assert accountant.guarantee(domain, loss, wider, budget=BUDGET).epsilon > 2.0
    tighter = changed(plan, summand=dataclasses.replace(own, slope=3.25))
    assert accountant.guarantee(domain, loss, tighter, budget=BUDGET).epsilon < 0.5


def test_plans_that_do_not_fit_the_problem():
    domain, loss = LpBall(5, 1.5, 2.0), squared(1.25)
    plan, _ = both(domain, loss, numerics="float")
    linear, _ = both(domain, LinearLoss(2.0))
    other, _ = both(LpBall(6, 1.5, 2.0), loss)
    flat, _ = both(LpBall(5, 2.0, 2.0), loss)
    own = plan.mechanism.summand
    cases = [
        (loss, changed(plan, summand=dataclasses.replace(own, features=3.0))),
        (loss, changed(plan, summand=dataclasses.replace(own, features_l2=1.0))),
        (loss, linear), (LinearLoss(2.0), plan), (LinearLoss(1.0), linear), (loss, other),
        (loss, flat),
    ]  # fmt: skip
    for asked, wrong in cases:
        with pytest.raises((TypeError, ValueError), match="lea"):
            accountant.guarantee(domain, asked, wrong, budget=BUDGET)
    for wrong in (
        changed(plan, pushes=999, factorisation=factorisation("blt", 999)),
        changed(plan, batch=2), changed(plan, growth="root"),
        dataclasses.replace(plan, tuning=dataclasses.replace(plan.tuning, horizon=999)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="not those of so many rounds"):
            accountant.guarantee(domain, loss, wrong, budget=BUDGET)


def test_halves_batches_and_unknown_horizons():
    domain, loss = LpBall(5, 1.5, 2.0), squared(1.25)
    plain, _ = both(domain, loss)
    half, _ = both(domain, loss, relation="zero_out")
    assert half.mechanism.scale == pytest.approx(plain.mechanism.scale / 2, rel=1e-12)
    batched, guarantee = both(domain, loss, horizon=1009, batch=10)
    assert (batched.mechanism.pushes, guarantee.horizon) == (100, 1009)
    assert guarantee.column_norm == column_norm("blt", 100)
    assert batched.mechanism.scale < plain.mechanism.scale
    unknown, guarantee = both(domain, loss, horizon=None)
    assert (unknown.tuning.horizon, unknown.mechanism.pushes) == (10**9, 10**9)
    assert guarantee.column_norm == column_norm("blt", 10**9)


def test_declared_euclidean_bounds_save_noise():
    d = 20
    domain = LpBall(d, INF, 1.0)  # features in l_1, noise for their l_2 norm
    dense, _ = both(domain, squared(1.0))
    known, guarantee = both(domain, squared(1.0, 0.35))
    assert leaf(known).l2 == pytest.approx(0.35 * leaf(known).slope)
    assert dense.mechanism.scale / known.mechanism.scale > 2.8
    assert "l_2 norm" in guarantee.conditions[0]
    useless, _ = both(domain, squared(1.0, 50.0))
    assert useless.mechanism.scale == pytest.approx(dense.mechanism.scale, rel=1e-12)
    flat = LpBall(d, 1.0, 1.0)
    assert both(flat, squared(1.0))[1].sensitivity == pytest.approx(8 * math.sqrt(d))
    assert both(flat, squared(1.0, 1.5))[1].sensitivity <= 12.0


def test_leaf_bounds_of_the_other_losses():
    domain = LpBall(10, 1.5, 2.0)
    linear, _ = both(domain, LinearLoss(3.0), step_scale=2.0)
    assert (leaf(linear).dual, leaf(linear).slope) == (3.0, None)
    for weights in ("unbiased", "paper"):
        smooth, _ = both(domain, custom(3.0, 0.5), step_scale=2.0, weights=weights)
        assert leaf(smooth).dual == 2.0 * 0.5 * 4.0 + 3.0
    chosen, guarantee = both(domain, custom(3.0, 0.5, 1.25, 0.75))
    assert (leaf(chosen).dual, leaf(chosen).l2, guarantee.sensitivity) == (1.25, 0.75, 1.5)
    published, _ = both(domain, squared(1.25), weights="paper")
    assert leaf(published).dual == pytest.approx(2 * 4.0 + 2 * (2.0 + 1.25))
    assert leaf(published).slope == pytest.approx(leaf(published).dual)
    stretched, _ = both(domain, squared(1.25), step_scale=1.5)
    assert leaf(stretched).slope == pytest.approx(2 * (2.0 * 2.0 + 1.25))


def test_losses_that_are_not_gradients_are_refused():
    with pytest.raises(TypeError, match=r"dpoco\.oco"):
        both(LpBall(3), QuadraticLoss(1.0, 1.0))


def test_box_and_simplex_of_the_library():
    loss = LogisticLoss(feature_bound=1.0)
    for domain in (Box([-1.0, 0.0], [1.0, 3.0]), Simplex(4, scale=2.0)):
        parameters, guarantee = both(domain, loss)
        margin = loss.margin_bound(domain)
        assert leaf(parameters).dual == pytest.approx(loss.leaf_scalar_bound(margin))
        assert guarantee.epsilon == pytest.approx(1.0, rel=1e-9)
    huber = HuberLoss(feature_bound=2.0, label_bound=1.0, threshold=0.5)
    parameters, guarantee = both(LpBall(3, p=1.5), huber)
    assert leaf(parameters).dual == pytest.approx(2.0 * leaf(parameters).slope)
    assert guarantee.epsilon == pytest.approx(1.0, rel=1e-9)


def test_no_budget_is_no_privacy():
    domain, loss = LpBall(5), squared()
    parameters, guarantee = both(domain, loss, None)
    assert (parameters.mechanism.scale, guarantee.private) == (0.0, False)
    assert parameters.forecast.predicted_error == 0.0
    assert not parameters.forecast.noise_dominates
    assert guarantee == Guarantee.none(1000, guarantee.mechanism)
    assert stored(parameters) == parameters


def test_without_a_delta_a_cautious_one_is_used():
    domain, loss = LpBall(5), squared()
    parameters, _ = both(domain, loss)
    assert accountant.guarantee(domain, loss, parameters).delta == 1e-4
    assert accountant.guarantee(domain, loss, parameters, budget=1e-7).delta == 1e-7
    seeded = accountant.guarantee(domain, loss, parameters, budget=1e-7, seeded=True)
    assert not seeded.certified


def test_predicted_error_bounds_the_noise():
    rng = np.random.default_rng(5)
    for p in (1.0, 1.5, 2.0, 4.0, INF):
        domain = LpBall(30, p, 2.0)
        q = domain.dual_exponent
        parameters, _ = both(domain, SquaredLoss(1.0, 1.0), batch=4)
        row = row_norm(parameters.mechanism.factorisation, 250, 250)
        noise = parameters.mechanism.scale * row * rng.normal(size=(4000, 30))
        measured = 4.0 * np.linalg.norm(noise, ord=q, axis=1).mean() / (4 * 250)
        assert measured * 0.97 < parameters.forecast.predicted_error < 1.6 * measured
        assert parameters.forecast.loss_range == pytest.approx(6.0 * 4.0)
    hopeless, _ = both(LpBall(100, 1.5, 1.0), SquaredLoss(1.0, 1.0), horizon=50)
    assert hopeless.forecast.noise_dominates
    easy, _ = both(LpBall(5, 1.5, 1.0), SquaredLoss(1.0, 1.0), horizon=10**5)
    assert not easy.forecast.noise_dominates


def stored(plan):
    return Plan.from_dict(json.loads(json.dumps(plan.to_dict())), TreeTuning, ErrorForecast)


def test_stored_plans_are_checked():
    good, _ = both(LpBall(5), SquaredLoss(1.0, 1.0))
    assert stored(good) == good
    assert stored(dataclasses.replace(good, calibration="paper")).calibration == "paper"
    for fields in ({"step_scale": INF}, {"step_scale": 0.0}, {"offset": -1}, {"horizon": 0}):
        with pytest.raises(ValueError, match="cannot be"):
            dataclasses.replace(good.tuning, **fields)
    with pytest.raises(ValueError, match="calibration"):
        dataclasses.replace(good, calibration="loose")
    record = good.to_dict()
    for broken in (
        {}, record | {"version": 9}, record | {"tuning": "x"}, record | {"extra": 0},
        record | {"forecast": None}, record | {"calibration": "loose"}, record | {"kind": "x"},
        record | {"mechanism": record["mechanism"] | {"scale": -1.0}},
        {name: value for name, value in record.items() if name != "tuning"},
    ):  # fmt: skip
        with pytest.raises(StateError):
            Plan.from_dict(broken, TreeTuning, ErrorForecast)
    for kinds in ((None, ErrorForecast), (TreeTuning, None)):
        with pytest.raises(StateError, match="has no"):
            Plan.from_dict(record, *kinds)


def test_a_budget_below_the_truncated_tails_is_refused():
    with pytest.raises(CalibrationError, match="truncated tails"):
        both(
            LpBall(10**6), SquaredLoss(1.0, 1.0), Budget(1.0, 1e-6), horizon=None, numerics="float"
        )
